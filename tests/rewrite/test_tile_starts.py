"""Tiles that pointers carve out of arrays begin anywhere: wide copies are proved, or asked for, from there."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.rewrite.harness import candidate, snippet, tile_counts
from tests.sampling import sampled

from tilepipe import steps
from tilepipe.builds import build_candidate, verify_candidate
from tilepipe.diagnostics import Refusal
from tilepipe.job import Job
from tilepipe.kernel.pool import begins
from tilepipe.options import Options
from tilepipe.plan.types import Candidate

_KERNEL = """\
#include <cuda_fp16.h>
template <class T> __device__ float number(T x) {{ return static_cast<float>(x); }}
__global__ void __launch_bounds__(128) f(const {type}* __restrict__ a, float* __restrict__ c, int n, int shift)
{{
    {declared}
    float acc = 0.f;
    for (int k = 0; k < n; k += 512) {{
        {load}
        __syncthreads();
        for (int i = 0; i < 512; i += 3) acc = acc * 0.5f + number(t[i ^ threadIdx.x]);
        __syncthreads();
    }}
    c[blockIdx.x * 128 + threadIdx.x] = acc;
}}
"""
_STRIDED = "for (int i = threadIdx.x; i < 512; i += 128) t[i] = a[k + i];"
_NESTED = (
    "for (int r = 0; r < 512; r += 256) for (int i = threadIdx.x; i < 256; i += 128) t[r + i] = a[k + r + i];"
)
_PROBLEM = """\
schema = 1
[kernels.f]
grid = ["2"]
block = ["128"]
shared = "4096"
args = [
  {{ name = "a", dtype = "{dtype}", in = ["N"] }},
  {{ name = "c", out = ["256"] }}, {{ value = "N" }}, {{ value = "S" }},
]
[kernels.f.sizes]
small = {{ N = 1536, S = 0 }}
"""
_SIZES = {f"shift{s}": {"N": 1536, "S": s} for s in (0, 1, 2, 3, 4, 8)}


def _job(folder: Path, declared: str, load: str, type_: str) -> Job:
    source = folder / "f.cu"
    source.write_text(_KERNEL.format(declared=declared, load=load, type=type_))
    dtype = {"float": "float32", "__half": "float16", "unsigned char": "uint8"}[type_]
    source.with_suffix(".toml").write_text(_PROBLEM.format(dtype=dtype))
    job = steps.open_job(str(source), Options(device="cpu", allow_launch_change=True))
    assert isinstance(job, Job)
    assert not isinstance(job.model, Refusal), job.model
    return job


def _widest(job: Job) -> int:
    return max((w.bytes for w in job.wide), default=0)


@pytest.mark.parametrize("load", [_STRIDED, _NESTED])
@pytest.mark.parametrize(
    ("declared", "type_", "bytes_", "asked"),
    sampled([
        ("__shared__ float w[600]; float* t = w + shift;", "float", 16, True),
        ("__shared__ float w[600]; float* t = &w[shift * 2];", "float", 16, True),
        ("__shared__ float w[600]; float* t = w + 4;", "float", 16, False),
        ("__shared__ float w[600]; float* t = w; t += shift;", "float", 16, True),
        ("__shared__ float w[600]; float* t = w + 2;", "float", 8, False),
        ("__shared__ float w[600]; float* t = w + 1;", "float", 0, False),
        ("__shared__ float w[600]; float* u = w + 5; float* t = u + 3;", "float", 16, None),
        ("extern __shared__ float p[]; float* t = p + (n & 3) + shift;", "float", 16, True),
        ("extern __shared__ char p[]; float* t = reinterpret_cast<float*>(p + 4);", "float", 0, False),
        ("extern __shared__ char p[]; float* t = (float*)(p + 8);", "float", 8, True),
        ("extern __shared__ float t[];", "float", 16, True),
        ("__shared__ __half w[600]; __half* t = w + shift;", "__half", 16, True),
        ("__shared__ __half w[600]; __half* t = w + 1;", "__half", 0, False),
        ("__shared__ __half w[600]; __half* t = w + 2;", "__half", 4, False),
        ("__shared__ unsigned char w[640]; unsigned char* t = w + 12;", "unsigned char", 4, False),
    ], 3),
)  # fmt: skip
def test_wherever_a_tile_begins(
    declared: str, type_: str, bytes_: int, asked: bool | None, load: str, tmp_path: Path
) -> None:
    job = _job(tmp_path, declared, load, type_)
    assert _widest(job) == bytes_, job.narrow
    if not bytes_:
        assert any("no multiple of" in narrow.reason for narrow in job.narrow)
        return
    conditions = {c for w in job.wide for c in w.conditions}
    assert asked is None or any(c.startswith("tp_aligned(t,") for c in conditions) == asked
    wanted = Candidate("cp_async-3-ring-wide", "cp_async", 3, "ring", copy_bytes=bytes_)
    made = build_candidate(job, job.model, wanted)
    assert not isinstance(made, Refusal), made
    correctness, races = verify_candidate(job, job.device, made, _SIZES)
    assert (correctness.status, races.status) == ("passed", "passed"), (correctness, races)


def test_a_pointer_made_in_the_loop_is_proved_or_left(tmp_path: Path) -> None:
    inside = "float* t = w + {}; " + _STRIDED
    known = _job(tmp_path, "__shared__ float w[600];", inside.format("8"), "float")
    assert _widest(known) in (0, 16)
    for made in (w for w in known.wide if w.bytes == 16):
        assert "tp_aligned(t, 16)" not in made.conditions
    assert _widest(_job(tmp_path, "__shared__ float w[600];", inside.format("shift"), "float")) == 0


def test_offsets_are_counted_in_what_pointers_point_to(tmp_path: Path) -> None:
    declared = "__shared__ double w[300]; float* u = reinterpret_cast<float*>(w + 3); float* t = u + 5;"
    model = _job(tmp_path, declared, _STRIDED, "float").model
    assert not isinstance(model, Refusal)
    (array,) = {b.array for b in model.buffers}
    at = {s.name: begins(model, s, array) for s in model.analysed.points if s.name in "tu"}
    assert at == {"u": 24, "t": 44}


@pytest.mark.parametrize(("head", "as_it_stands"), [("", False), ("alignas(8) ", True)])
def test_elements_are_copied_as_they_stand_only_where_they_are_aligned(
    head: str, as_it_stands: bool, tmp_path: Path
) -> None:
    body = """    __shared__ P s[256];
    float acc = 0.f;
    const P* from = reinterpret_cast<const P*>(a + OFF);
    for (int k = 0; k < n; ++k) {
        for (int i = threadIdx.x; i < 256; i += 128) s[i] = from[k * 256 + i];
        __syncthreads();
        for (int i = 0; i < 256; i += 3) acc = acc * 0.5f + s[(i + threadIdx.x) & 255].x;
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = acc;""".replace("OFF", "2" if as_it_stands else "1")
    kernel = snippet(body, tmp_path, f"struct {head}P {{ float x, y; }};")
    assert not isinstance(kernel.model, Refusal)
    assert (kernel.model.buffers[0].copy_bytes == 8) == as_it_stands
    made = kernel.emit(candidate("cp_async" if as_it_stands else "ldg", 2))
    assert not isinstance(made, Refusal), made
    assert kernel.difference(made, tile_counts((0, 1, 2, 7))) == ""
