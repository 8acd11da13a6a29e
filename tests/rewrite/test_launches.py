"""Launches in the kernel's file: which are found, and what they ask for once tiles become dynamic shared memory."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.sampling import sampled

from tilepipe import steps
from tilepipe.diagnostics import Refusal
from tilepipe.options import Options
from tilepipe.report import RunReport, words

FILE = """\
namespace a {{ namespace b {{
__global__ void __launch_bounds__(128) sums(const float* __restrict__ in, float* __restrict__ out, int n)
{{
    __shared__ float tile[4096];
    float sum = 0.0f;
    for (int k = 0; k < n; k += 4096) {{
        for (int i = threadIdx.x; i < 4096; i += 128) tile[i] = in[k + i];
        __syncthreads();
        for (int i = 0; i < 4096; ++i) sum = sum * 0.5f + tile[i ^ threadIdx.x];
        __syncthreads();
    }}
    out[blockIdx.x * 128 + threadIdx.x] = sum;
}}
}} }}
namespace c {{ __global__ void other(float* x) {{ *x = 1.0f; }} }}
{host}
"""


def emitted(folder: Path, host: str) -> RunReport:
    """The kernel with four stages of 16 KB, which is more than static shared memory may have."""
    path = folder / "sums.cu"
    path.write_text(FILE.format(host=host))
    options = Options(device="cpu", kernel="sums", candidate="cp_async-4-ring", allow_launch_change=True)
    job = steps.open_job(str(path), options)
    assert not isinstance(job, Refusal)
    done = steps.rewrite(job)
    assert not isinstance(done, Refusal) and done.source is not None, done
    return done


BYTES = "::a::b::sums_shared_bytes"
LAUNCHES = {
    "a::b::sums<<<1, 128>>>(in, out, n);": f"a::b::sums<<<1, 128, {BYTES}>>>",
    "using namespace a; b::sums<<<1, 128>>>(in, out, n);": f"b::sums<<<1, 128, {BYTES}>>>",
    "using namespace a::b; sums<<<1, 128>>>(in, out, n);": f"sums<<<1, 128, {BYTES}>>>",
    "using a::b::sums; sums<<<1, 128, 0, s>>>(in, out, n);": f"sums<<<1, 128, {BYTES}, s>>>",
}
HOST = "void run(const float* in, float* out, int n, cudaStream_t s) {{ {} }}"


@pytest.mark.parametrize("launch", sampled(LAUNCHES, 4))
def test_launches_ask_for_the_shared_memory_of_all_stages(launch: str, tmp_path: Path) -> None:
    done = emitted(tmp_path, HOST.format(launch))
    assert LAUNCHES[launch] in (done.source or "")
    assert "cudaFuncSetAttribute(" in (done.source or "")
    assert done.launch is not None and done.launch.edited_launches == (16,)
    notes = [d.message for d in done.diagnostics if d.code == "TP153"]
    assert "line 16 edited: launches ask for 65536 bytes of dynamic shared memory, as others must" in notes
    assert words.launch_line(done) == "launch: line 16 edited"


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc, whose compiler takes host code")
@pytest.mark.parametrize("launch", sampled(LAUNCHES, 4))
def test_edited_launches_compile(launch: str, tmp_path: Path) -> None:
    source = emitted(tmp_path, HOST.format(launch)).source or ""
    (tmp_path / "out.cu").write_text(source)
    command = ["nvcc", "-arch=sm_80", "-c", "out.cu", "-o", "out.o"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "launch", ["c::sums<<<1, 128>>>(in, out, n);", "b::other<<<1, 1>>>(out);", "fs[0]<<<1, 1>>>(in, out, n);"]
)
def test_other_kernels_launches_stay(launch: str, tmp_path: Path) -> None:
    done = emitted(tmp_path, HOST.format(launch))
    assert launch in (done.source or "")
    assert done.launch is not None and done.launch.edited_launches == ()
    notes = [d.message for d in done.diagnostics if d.code == "TP153"]
    assert "launches must ask for 65536 bytes of dynamic shared memory" in notes
    assert words.launch_line(done).endswith("pass it as the third launch argument")


@pytest.mark.parametrize(
    ("host", "told"),
    [
        ("auto f = a::b::sums; f<<<1, 128>>>(in, out, n);", True),
        ("void* with[] = {&in, &out, &n}; cudaLaunchKernel((void*)a::b::sums, 1, 128, with, 0, s);", True),
        ("a::b::sums<<<1, 128>>>(in, out, n);", False),
        ("cudaFuncSetAttribute(a::b::sums, cudaFuncAttributePreferredSharedMemoryCarveout, 50);", False),
    ],
)
def test_a_kernel_that_may_be_launched_otherwise_is_told(host: str, told: bool, tmp_path: Path) -> None:
    notes = [d.message for d in emitted(tmp_path, HOST.format(host)).diagnostics]
    assert any("must be edited by hand" in n and "line 16" in n for n in notes) == told
