"""Tiles and scratch carved out of one array: proved apart and exact, or refused (TP024)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.sampling import sampled

from tilepipe import steps
from tilepipe.builds import build_candidate, verify_candidate
from tilepipe.diagnostics import Refusal
from tilepipe.job import Job
from tilepipe.options import Options
from tilepipe.plan.types import Candidate

_KERNEL = """\
#include <mma.h>
#include <cuda_fp16.h>
using namespace nvcuda;
HEAD
__global__ void BOUNDS f(const float* __restrict__ a, float* __restrict__ c, int n, int shift)
{
    const int tid = threadIdx.x;
    float acc = 0.f;
    DECLARED
    for (int k = 0; k < n; ++k) {
        for (int i = tid; i < 256; i += 128) t[i] = a[k * 256 + i];
        __syncthreads();
        COMPUTE
        for (int i = 0; i < 256; i += 3) acc = acc * 0.5f + t[(i + tid) & 255];
        __syncthreads();
        LATE
    }
    AFTER
    c[blockIdx.x * 128 + tid] = acc;
}
"""
_PROBLEM = """\
schema = 1
[kernels.f]
grid = ["2"]
block = ["128"]
shared = "4096"
args = [{ name = "a", in = ["256 * N"] }, { name = "c", out = ["256"] }, { value = "N" }, { value = "S" }]
[kernels.f.sizes]
small = { N = 4, S = 0 }
"""
_STATIC = "__shared__ float p[600]; "
_POOL = "extern __shared__ float p[]; "
_USED = "u[tid] = acc; __syncthreads(); acc += u[tid ^ 1];"


def _job(
    folder: Path,
    declared: str,
    compute: str = _USED,
    after: str = "",
    head: str = "",
    problem: bool = True,
    bounds: str = "__launch_bounds__(128)",
    late: str = "",
    **given: frozenset[str],
) -> Job:
    parts = {"DECLARED": declared, "COMPUTE": compute, "AFTER": after, "HEAD": head, "BOUNDS": bounds}
    parts["LATE"] = late
    text = _KERNEL
    for name, part in parts.items():
        text = text.replace(name, part)
    source = folder / "f.cu"
    source.write_text(text)
    if problem:
        source.with_suffix(".toml").write_text(_PROBLEM)
    job = steps.open_job(str(source), Options(device="cpu", allow_launch_change=True, **given))
    assert isinstance(job, Job)
    return job


_HELPER = (
    "__device__ float at(const volatile float* q, int i) { q += i; return *q; }\n"
    "__device__ void put(float* q, float x) { for (int j = threadIdx.x; j < 128; j += 128) q[j] = x; }"
)
_LAMBDA = "auto keep = [&]() { u[tid] = acc; return u[tid]; };"
_FRAGMENT = "wmma::fragment<wmma::accumulator, 16, 16, 16, float> g; wmma::fill_fragment(g, acc); "


@pytest.mark.parametrize(
    ("declared", "compute", "after", "head"),
    sampled([
        (_STATIC + "float* t = p + 128; float* u = p;", _USED, "", ""),
        (_STATIC + "float* t = p; float* u = p + 256;", _USED, "", ""),
        (_POOL + "float* t = p + 128; float* u = p;", _USED, "", ""),
        (_POOL + "float* u = p; float* t = u + 128;", _USED, "", ""),
        (_POOL + "float* t = p; float* u = p + 256;", "if (tid < 64) { u[tid] = acc; acc += u[tid]; }", "", ""),
        ("extern __shared__ char p[]; float* t = (float*)(p + 512); float* u = (float*)p;", _USED, "", ""),
        ("__shared__ float p[2][256]; float* t = p[0]; float* u = p[1];", _USED, "", ""),
        (_POOL + "float* t = p; float* u = p + 256;", "put(u, acc); __syncthreads(); acc += u[tid ^ 1];", "", _HELPER),
        (_POOL + "float* t = p; float* u = p + 256;", _FRAGMENT + "if (tid < 32) wmma::store_matrix_sync(u, g, 16, "
         "wmma::mem_row_major); __syncthreads(); acc += u[tid ^ 1];", "", ""),
        (_POOL + "float* t = p; float* u = p + 256;", "reinterpret_cast<float2*>(u)[tid] = make_float2(acc, acc); "
         "__syncthreads(); acc += u[tid ^ 1];", "", ""),
        # a table, read by bytes of the data
        (_POOL + "float* u = p; float* t = p + 16; if (tid < 16) u[tid] = a[tid]; __syncthreads();",
         "const unsigned char b = t[tid] * 100; acc += u[b >> 4] + u[b & 15];", "", ""),
        (_POOL + "float* t = p; float* u = p + 256; " + _LAMBDA, "acc += keep();", "", ""),
        # one after the other, over each other
        (_POOL + "float* u = p + 2; float* t = p; u[tid] = a[tid]; __syncthreads(); acc = u[tid ^ 1]; __syncthreads();",
         "", "", ""),
        (_POOL + "float* t = p + 2;", "", "float* u = p; u[tid] = acc; __syncthreads(); acc += u[tid ^ 1];", ""),
    ]),
)  # fmt: skip
def test_what_stays_apart_is_exact(
    declared: str, compute: str, after: str, head: str, tmp_path: Path
) -> None:
    job = _job(tmp_path, declared, compute, after, head)
    assert not isinstance(job.model, Refusal), job.model
    for variant, stages in (("ldg", 2), ("cp_async", 3)):
        wanted = Candidate(f"{variant}-{stages}-ring", variant, stages, "ring")  # type: ignore[arg-type]
        made = build_candidate(job, job.model, wanted)
        assert not isinstance(made, Refusal), made
        sizes = {f"tiles{n}": {"N": n, "S": 0} for n in (0, 1, 2, 5)}
        correctness, races = verify_candidate(job, job.device, made, sizes)
        assert (correctness.status, races.status) == ("passed", "passed"), (correctness, races)


@pytest.mark.parametrize(
    ("declared", "compute", "after", "head", "why"),
    sampled([
        (_STATIC + "float* t = p + 64; float* u = p + 32;", _USED, "", "", "bytes 128 to 640 here; 256 to 1280"),
        (_STATIC + "float* t = p; float* u = p + 255;", _USED, "", "", "bytes 1020 to 1532 here"),
        (_POOL + "float* t = p + 127; float* u = p;", _USED, "", "", "bytes 0 to 512 here; 508 to 1532"),
        (_POOL + "float* t = p; float* u = p + shift;", _USED, "", "", "no known bounds"),
        (_POOL + "float* t = p; float* u = p + 256;", "u[shift] = acc; __syncthreads(); acc += u[0];", "", "",
         "no known bounds"),
        (_POOL + "float* t = p; float* u = p + 256;", "u[tid - 1] = acc; __syncthreads(); acc += u[0];", "", "",
         "bytes 1020 to 1532 here"),
        ("__shared__ float p[2][200]; float* t = p[0]; float* u = p[1];", _USED, "", "", "bytes 800 to 1312 here"),
        ("__shared__ float w[600], p[600]; float* t = p + 64; float* u = p + 32;", _USED, "", "", "bytes 128 to 640"),
        (_POOL + "float* t = p; float* u = p + 200;", "put(u, acc); __syncthreads(); acc += u[tid ^ 1];", "", _HELPER,
         "bytes 800 to 1312"),
        (_POOL + "float* t = p + 256; float* u = p;", _FRAGMENT + "if (tid < 32) wmma::store_matrix_sync(u, g, shift, "
         "wmma::mem_row_major); __syncthreads(); acc += u[tid ^ 1];", "", "", "no known bounds"),
        (_POOL + "float* t = p; float* u = p + 256;", "u[tid] = acc; acc += at(u + 512, tid);", "", _HELPER,
         "line 4 is not understood"),
        (_POOL + "float* t = p; float* u = p + 256;", "float* v = u; v = v - shift; v[tid] = acc;", "", "",
         "is not understood"),
        (_POOL + "float* t = p; float* u = p + 200; " + _LAMBDA, "acc += keep();", "", "", "bytes 800 to 1312"),
        # the tile's reader finds what another piece holds
        (_POOL + "float* t = p; float* u = p + 256; u[tid] = n; __syncthreads();", "acc += t[tid + 256];", "", "", ""),
        # what the last tile left is read by way of scratch
        (_POOL + "float* t = p + 2;", "", "float* u = p; u[tid] = acc; __syncthreads(); acc += u[tid + 128];", "", ""),
    ]),
)  # fmt: skip
def test_what_may_meet_is_refused(
    declared: str, compute: str, after: str, head: str, why: str, tmp_path: Path
) -> None:
    refused = _job(tmp_path, declared, compute, after, head).model
    assert isinstance(refused, Refusal)
    (told,) = refused.diagnostics
    assert told.code == "TP024" and told.place is not None and told.place.line > 8
    assert why in told.message + told.label, told


@pytest.mark.parametrize(("begin", "apart"), [(200, False), (256, True)])
def test_scratch_behind_the_reader_meets_the_next_tile(begin: int, apart: bool, tmp_path: Path) -> None:
    late = "u[tid] = acc; acc += u[tid]; __syncthreads();"
    job = _job(tmp_path, _POOL + f"float* t = p; float* u = p + {begin};", "", late=late)
    assert isinstance(job.model, Refusal) != apart, job.model
    if not isinstance(job.model, Refusal):
        made = build_candidate(job, job.model, Candidate("cp_async-3-ring", "cp_async", 3, "ring"))
        assert not isinstance(made, Refusal), made
        correctness, races = verify_candidate(job, job.device, made, {"tiles5": {"N": 5, "S": 0}})
        assert (correctness.status, races.status) == ("passed", "passed"), (correctness, races)


def test_the_page_shows_a_refused_kernel_and_a_legal_one(tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "refusals" / "TP024.md"
    models = []
    for text in re.findall(r"```cuda\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        (tmp_path / "sums.cu").write_text(text)
        job = steps.open_job(str(tmp_path / "sums.cu"), Options(device="cpu"))
        assert isinstance(job, Job)
        models.append(job.model)
    refused, legal = models
    assert isinstance(refused, Refusal) and refused.diagnostics[0].code == "TP024"
    assert not isinstance(legal, Refusal), legal


def test_a_promise_is_taken(tmp_path: Path) -> None:
    declared = _POOL + "float* t = p; float* u = p + 256 + shift;"
    assert isinstance(_job(tmp_path, declared).model, Refusal)
    promised = _job(tmp_path, declared, no_alias=frozenset({"u"}))
    assert not isinstance(promised.model, Refusal)
    notes = steps.base_report(promised).diagnostics
    assert any(d.code == "TP157" and "`u` overlaps" in d.message for d in notes)


def test_one_promise_names_all_that_it_takes(tmp_path: Path) -> None:
    declared = _POOL + "float* t = p; float* u = p + shift; float* v = p + 2 * shift;"
    refused = _job(tmp_path, declared, _USED + _USED.replace("u[", "v[")).model
    assert isinstance(refused, Refusal) and "no-alias=u,v" in refused.diagnostics[0].help
    both = _job(tmp_path, declared, _USED + _USED.replace("u[", "v["), no_alias=frozenset("uv"))
    assert not isinstance(both.model, Refusal)


def test_the_problem_file_tells_the_block(tmp_path: Path) -> None:
    declared = _POOL + "float* u = p; float* t = p + 128;"
    assert not isinstance(_job(tmp_path, declared, bounds="").model, Refusal)
    (tmp_path / "f.toml").unlink()
    assert isinstance(_job(tmp_path, declared, bounds="", problem=False).model, Refusal)
