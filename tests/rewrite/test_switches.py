"""What is emitted does not compile in a build with other macros that it depends on, and stays plain otherwise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tilepipe import steps
from tilepipe.builds import build_candidate
from tilepipe.diagnostics import Refusal
from tilepipe.job import Job
from tilepipe.options import Options
from tilepipe.plan.types import Candidate
from tilepipe.toolchain.types import CompileOptions

_HEAD = """\
#ifndef BK
#define BK 256
#endif
#ifndef REAL
#define REAL float
#endif
#ifdef SMALL_STEP
constexpr int STEP = 64;
#else
constexpr int STEP = 128;
#endif
#define TWICE (2 * BK)
#ifndef UNUSED
#define UNUSED 3
#endif
#ifndef SCALE
#define SCALE 0.5f
#endif
#ifdef __CUDA_ARCH__
#define WHERE 1
#else
#define WHERE 2
#endif
__device__ float scaled(float x) { return x * SCALE * WHERE; }
"""
_KERNEL = """\
__global__ void __launch_bounds__(128) f(const REAL* __restrict__ a, float* __restrict__ c, int n)
{
    __shared__ REAL t[TWICE / 2];
    float acc = 0.f;
    for (int k = 0; k < n; ++k) {
        for (int i = threadIdx.x; i < TWICE / 2; i += STEP) t[i] = a[k * (TWICE / 2) + i];
        __syncthreads();
        for (int i = 0; i < TWICE / 2; i += 3) acc = scaled(acc) + t[(i + threadIdx.x) % (TWICE / 2)];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = acc;
}
"""
_CANDIDATE = Candidate("cp_async-2-ring", "cp_async", 2, "ring")
_LDG = Candidate("ldg-2-ring", "ldg", 2, "ring")


def _emitted(folder: Path, text: str, *defines: str, wanted: Candidate = _CANDIDATE) -> tuple[Job, str]:
    source = folder / "f.cu"
    source.write_text(text)
    job = steps.open_job(str(source), Options(device="cpu", compile=CompileOptions(defines=defines)))
    assert isinstance(job, Job) and not isinstance(job.model, Refusal), job
    made = build_candidate(job, job.model, wanted)
    assert not isinstance(made, Refusal), made
    return job, made.rewrite.text


def _compiles(job: Job, text: str, *defines: str) -> bool:
    unit = replace(job.unit(text), options=CompileOptions(defines=defines))
    return not isinstance(job.toolchain.compile(unit, "sm_80", "cubin"), Refusal)


@pytest.mark.parametrize(
    ("define", "same"),
    [
        ("BK=256", True),
        ("BK=128", False),
        ("REAL=float", True),
        ("REAL=double", False),
        ("SMALL_STEP", False),
        ("UNUSED=9", True),
        ("SCALE=2.0f", True),
    ],
)
def test_another_build_compiles_where_it_is_the_same(define: str, same: bool, tmp_path: Path) -> None:
    job, text = _emitted(tmp_path, _HEAD + _KERNEL)
    assert _compiles(job, text)
    assert _compiles(job, _HEAD + _KERNEL, define)
    assert _compiles(job, text, define) == same


def test_what_is_asserted_is_what_is_needed(tmp_path: Path) -> None:
    _, text = _emitted(tmp_path, _HEAD + _KERNEL)
    told = [line.strip() for line in text.splitlines() if "made for" in line]
    assert told == [
        'static_assert(BK == 256, "tilepipe: this pipeline was made for BK = 256");',
        'static_assert(tp_same<REAL, float>, "tilepipe: this pipeline was made for REAL = float");',
        'static_assert(STEP == 128, "tilepipe: this pipeline was made for STEP = 128");',
        'static_assert(WHERE == 1, "tilepipe: this pipeline was made for WHERE = 1");',
    ]
    assert text.count("#ifdef __CUDA_ARCH__\n    static_assert(WHERE == 1") == 1


def test_a_macro_that_the_file_does_not_define(tmp_path: Path) -> None:
    text = _KERNEL.replace("TWICE / 2", "BK").replace("REAL", "float").replace("scaled(acc)", "acc")
    job, emitted = _emitted(tmp_path, text, "BK=256", "STEP=128", "OTHER=1")
    assert "BK == 256" in emitted and "STEP == 128" in emitted and "OTHER" not in emitted
    assert _compiles(job, emitted, "BK=0x100", "STEP=128")
    assert not _compiles(job, emitted, "BK=128", "STEP=128")


def test_a_kernel_without_switches_stays_plain(tmp_path: Path) -> None:
    plain = "#pragma once\n#define BK 256\n#define STEP 128\n"
    text = _KERNEL.replace("TWICE / 2", "BK").replace("REAL", "float").replace("scaled(acc)", "acc")
    _, emitted = _emitted(tmp_path, plain + text)
    assert "made for" not in emitted


@pytest.mark.parametrize(
    ("head", "rows"),
    [
        ("template <class T> struct Tile { static constexpr int rows = BK; };", "Tile<float>::rows"),
        ("template <class T> constexpr int rows = BK;", "rows<float>"),
        ("template <int N> struct Of { enum { n = N }; }; template <class T> using Rows = Of<BK>;", "Rows<int>::n"),
        ("template <int N = BK> constexpr __device__ int rows() { return N; }", "rows()"),
        ("constexpr __device__ int rows(char) { return 1; }\n"
         "constexpr __device__ int rows(int) { return BK; }", "rows(1)"),
        ("struct Tile { static constexpr __device__ int rows() { return BK; } };", "Tile::rows()"),
    ],
)  # fmt: skip
def test_a_name_is_needed_through_templates_and_overloads(head: str, rows: str, tmp_path: Path) -> None:
    text = f"#ifndef BK\n#define BK 256\n#endif\n{head}\n{_KERNEL.replace('TWICE / 2', rows)}"
    text = text.replace("REAL", "float").replace("scaled(acc)", "acc").replace("STEP", "128")
    job, emitted = _emitted(tmp_path, text)
    assert _compiles(job, text, "BK=512") and _compiles(job, emitted)
    assert not _compiles(job, emitted, "BK=512")


_BY_ARCH = "#if __CUDA_ARCH__ >= 800\n#define BK 256\n#else\n#define BK 128\n#endif\n"
_ONCE = "#ifdef __CUDACC__\n#ifndef BK\n#define BK 256\n#endif\n#endif\n"
_BY_COMPILER = "#ifdef __CUDACC_RTC__\n#define BK 256\n#else\n#define BK 128\n#endif\n"


@pytest.mark.parametrize(
    ("head", "arch", "define", "same"),
    [
        (_BY_ARCH, "sm_75", "X", False),
        (_BY_ARCH, "sm_90", "X", True),
        (_ONCE, "sm_80", "BK=512", False),
        (_ONCE, "sm_80", "BK=256", True),
        (_BY_COMPILER, "sm_75", "X", True),
    ],
)
def test_what_the_architecture_tells_is_asserted_for_the_device(
    head: str, arch: str, define: str, same: bool, tmp_path: Path
) -> None:
    text = head + _KERNEL.replace("TWICE / 2", "BK").replace("REAL", "float").replace("scaled(acc)", "acc")
    job, emitted = _emitted(tmp_path, text.replace("STEP", "128"), wanted=_LDG)
    unit = replace(job.unit(emitted), options=CompileOptions(defines=(define,)))
    assert isinstance(job.toolchain.compile(unit, arch, "cubin"), Refusal) != same
    assert ("#ifdef __CUDA_ARCH__\n    static_assert" in emitted) == (head == _BY_ARCH)
