"""Elements stored to twice in one load keep the order of their stores: no asynchronous copies; others keep theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilepipe import steps
from tilepipe.builds import build_candidate, verify_candidate
from tilepipe.diagnostics import Refusal
from tilepipe.job import Job
from tilepipe.kernel.collisions import TWICE
from tilepipe.options import Options
from tilepipe.plan.types import Candidate

_KERNEL = """\
__device__ int wrapped(int i) {{ return i & 511; }}
__global__ void {bounds}f(const float* __restrict__ a, float* __restrict__ c, int n, int w)
{{
    __shared__ float s[512];
    {declared}
    float acc = 0.f;
    for (int k = 0; k < n * 64; k += 64) {{
        {load}
        __syncthreads();
        for (int i = 0; i < 512; i += 3) acc = acc * 0.5f + s[(i + threadIdx.x) & 511];
        __syncthreads();
    }}
    c[blockIdx.x * 128 + threadIdx.x] = acc;
}}
"""
_PROBLEM = """\
schema = 1
[kernels.f]
grid = ["2"]
block = ["128"]
args = [{ name = "a", in = ["4096"] }, { name = "c", out = ["256"] }, { value = "N" }, { value = "W" }]
[kernels.f.sizes]
small = { N = 5, W = 1024 }
"""
_SIZES = {f"tiles{n}": {"N": n, "W": 1024} for n in (0, 1, 2, 3, 5)}
_ALL = "for (int i = threadIdx.x; i < 512; i += 128) s[i] = a[k + i]; "
_ASYNC = Candidate("cp_async-3-ring", "cp_async", 3, "ring")
_LDG = Candidate("ldg-2-ring", "ldg", 2, "ring")


def _job(folder: Path, load: str, declared: str = "", bounds: str = "", problem: bool = True) -> Job:
    source = folder / "f.cu"
    source.write_text(_KERNEL.format(load=load, declared=declared, bounds=bounds))
    if problem:
        source.with_suffix(".toml").write_text(_PROBLEM)
    job = steps.open_job(str(source), Options(device="cpu"))
    assert isinstance(job, Job)
    return job


def _is_exact(job: Job, wanted: Candidate) -> None:
    assert not isinstance(job.model, Refusal), job.model
    made = build_candidate(job, job.model, wanted)
    assert not isinstance(made, Refusal), made
    correctness, races = verify_candidate(job, job.device, made, _SIZES)
    assert (correctness.status, races.status) == ("passed", "passed"), (correctness, races)


TWICE_STORED = [
    "for (int i = threadIdx.x; i < 1024; i += 128) s[i & 511] = a[k + i];",
    "for (int i = threadIdx.x; i < 1024; i += 128) s[wrapped(i)] = a[k + i];",
    "for (int i = threadIdx.x; i < w; i += 128) s[i & 511] = a[k + i];",
    "for (int r = 0; r < 8; ++r) s[(r * 128 + threadIdx.x) % 512] = a[k + r * 128 + threadIdx.x];",
    _ALL + "for (int i = threadIdx.x; i < 512; i += 128) if (i % 3 == 0) s[i] = a[k + i + 7];",
    _ALL + "for (int i = threadIdx.x; i < 256; i += 128) s[i] = a[k + i + 7];",
    _ALL + "if (n > 3) s[threadIdx.x] = a[k + threadIdx.x + 7];",
    _ALL + "for (int i = threadIdx.x; i < w / 8; i += 128) s[i] = a[k + i + 7];",
    _ALL + "*reinterpret_cast<float4*>(&s[threadIdx.x * 4]) = "
    "*reinterpret_cast<const float4*>(&a[k + threadIdx.x * 4]);",
    "for (int i = threadIdx.x; i < 512; i += 128) s[i] = 0.f; "
    "for (int i = threadIdx.x; i < 512; i += 128) if (i % 3 == 0) s[i] = a[k + i];",
    "for (int i = threadIdx.x; i < 512; i += 128) s[i & 255] = a[k + (i & 255)]; "
    "for (int i = threadIdx.x; i < 256; i += 128) s[256 + i] = a[k + i];",
]


@pytest.mark.parametrize("load", TWICE_STORED)
def test_the_order_of_stores_is_kept(load: str, tmp_path: Path) -> None:
    job = _job(tmp_path, load)
    assert not isinstance(job.model, Refusal), job.model
    (buffer,) = job.model.buffers
    assert (buffer.copy_bytes, buffer.reason) == (None, TWICE)
    assert not job.wide and all(n.reason == TWICE for n in job.narrow)
    refused = build_candidate(job, job.model, _ASYNC)
    assert isinstance(refused, Refusal) and TWICE in refused.diagnostics[0].message
    if "< w" not in load:  # registers need a trip count that is known
        _is_exact(job, _LDG)


@pytest.mark.parametrize(
    "load",
    [
        _ALL,
        "for (int i = threadIdx.x; i < 512; i += 128) s[wrapped(i)] = a[k + i];",
        "for (int i = threadIdx.x; i < w / 2; i += 128) s[i] = a[k + i];",
        "for (int i = threadIdx.x; i < 512; i += blockDim.x) s[i ^ 5] = a[k + i];",
        "for (int r = 0; r < w / 256; ++r) s[r * 128 + threadIdx.x] = a[k + r * 128 + threadIdx.x];",
        "for (int i = threadIdx.x; i < 256; i += 128) { s[i] = a[k + i]; s[511 - i] = a[k + 2 * i]; }",
        "for (int i = threadIdx.x; i < 512; i += 128) if (i & 1) s[i] = a[k + i]; else s[i] = a[k + i + 3];",
        "for (int i = threadIdx.x; i < 512; i += 128) if (k + i < n * 32) s[i] = a[k + i]; else s[i] = 0.f;",
        "if (n > 3) { " + _ALL + "} else for (int i = threadIdx.x; i < 512; i += 128) s[511 - i] = a[k + i];",
        "for (int i = threadIdx.x; i < 256; i += 128) s[i] = a[k + i]; "
        "for (int i = 256 + threadIdx.x; i < 512; i += 128) s[i] = a[k + i + 3];",
        "if (threadIdx.x < 64) for (int i = threadIdx.x; i < 256; i += 64) s[i] = a[k + i]; "
        "if (threadIdx.x >= 64) for (int i = threadIdx.x + 192; i < 512; i += 64) s[i] = a[k + i];",
    ],
)  # fmt: skip
def test_what_is_stored_once_is_copied_asynchronously(load: str, tmp_path: Path) -> None:
    job = _job(tmp_path, load)
    assert not isinstance(job.model, Refusal), job.model
    assert job.model.buffers[0].copy_bytes == 4, job.model.buffers[0].reason
    _is_exact(job, _ASYNC)


@pytest.mark.parametrize(
    ("second", "meets"), [("s + 128", True), ("s + 256", False), ("s + 192 + 64", False)]
)
def test_two_tiles_that_share_elements_are_refused(second: str, meets: bool, tmp_path: Path) -> None:
    load = (
        "for (int i = threadIdx.x; i < 256; i += 128) p[i] = a[k + i]; "
        "for (int i = threadIdx.x; i < 256; i += 128) q[i] = a[k + i + 1];"
    )
    source = tmp_path / "f.cu"
    text = _KERNEL.format(load=load, declared=f"float* p = s + 0; float* q = {second};", bounds="")
    source.write_text(text.replace("s[(i + threadIdx.x) & 511]", "p[(i + threadIdx.x) & 127] + q[i & 255]"))
    source.with_suffix(".toml").write_text(_PROBLEM)
    job = steps.open_job(str(source), Options(device="cpu"))
    assert isinstance(job, Job)
    if meets:
        assert isinstance(job.model, Refusal)
        assert job.model.diagnostics[0].code == "TP012"
        assert "`p` and `q`" in job.model.diagnostics[0].message
    else:
        _is_exact(job, _ASYNC)


@pytest.mark.parametrize(("bounds", "load", "twice"), [
    ("__launch_bounds__(128) ", "s[threadIdx.x & 63] = a[k + threadIdx.x];", True),
    ("__launch_bounds__(128) ", _ALL, False),
    ("", _ALL, False),
    ("", TWICE_STORED[0], True),
])  # fmt: skip
def test_without_a_launch(bounds: str, load: str, twice: bool, tmp_path: Path) -> None:
    model = _job(tmp_path, load, bounds=bounds, problem=False).model
    assert not isinstance(model, Refusal), model
    assert (model.buffers[0].reason == TWICE) == twice
