"""Re-partitioned copies executed: aligned, misaligned, with odd leading dimensions and ragged edges."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tilepipe import steps
from tilepipe.builds import build_candidate, verify_candidate
from tilepipe.diagnostics import Refusal
from tilepipe.job import Job
from tilepipe.options import Options
from tilepipe.plan.types import Candidate
from tilepipe.problem import ArraySpec

ROOT = Path(__file__).parents[2]
WIDE = Candidate("cp_async-3-ring-16", "cp_async", 3, "ring", copy_bytes=16)

# Sizes that take the wide arm, the author's arm, and cross every edge.
SIZES = {
    "igemm_wmma": ({"M": 64, "N": 64, "K": 96}, {"M": 70, "N": 80, "K": 48}, {"M": 66, "N": 70, "K": 41}),
    "sgemm_copyloop": ({"M": 96, "N": 64, "K": 64}, {"M": 50, "N": 68, "K": 36}, {"M": 50, "N": 66, "K": 37}),
}
PATHS = {"igemm_wmma": "examples/igemm_wmma.cu", "sgemm_copyloop": "tests/zoo/sgemm_copyloop.cu"}


def job(name: str, offset: int) -> Job:
    """The kernel with every input handed over as a view that starts `offset` elements into its allocation."""
    opened = steps.open_job(str(ROOT / PATHS[name]), Options(device="cpu"))
    assert not isinstance(opened, Refusal)
    problem = opened.problem
    assert problem is not None
    args = tuple(
        replace(a, offset=offset) if isinstance(a, ArraySpec) and a.role == "in" else a for a in problem.args
    )
    return replace(opened, problem=replace(problem, args=args))


@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("name", sorted(SIZES))
def test_wide_copies_are_exact_whatever_the_alignment(name: str, offset: int) -> None:
    opened = job(name, offset)
    model = opened.model
    assert not isinstance(model, Refusal)
    built = build_candidate(opened, model, WIDE)
    assert not isinstance(built, Refusal)
    sizes = {f"s{i}": s for i, s in enumerate(SIZES[name])}
    correctness, races = verify_candidate(opened, opened.device, built, sizes)
    assert correctness.status == "passed", correctness
    assert races.status == "passed", races
    assert all(s.bitwise for s in correctness.sizes.values())


ANEW = ("dist_features", "scan_walk", "nearest_point", "scale_stream", "matmul_stepper", "batch_loop_gemm")


@pytest.mark.parametrize("offset", [0, 1, 2])
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.full] if i > 1 else []) for i, n in enumerate(ANEW)]
)
def test_copies_dealt_anew_are_exact_whatever_the_alignment(name: str, offset: int) -> None:
    """At every size set of the zoo but the target: aligned, and one and two elements into the allocations."""
    PATHS.setdefault(name, f"tests/zoo/{name}.cu")
    opened = job(name, offset)
    model = opened.model
    assert not isinstance(model, Refusal) and opened.problem is not None
    built = build_candidate(opened, model, WIDE)
    assert not isinstance(built, Refusal)
    sizes = {n: s for n, s in opened.problem.sizes.items() if n != "target"}
    answer = verify_candidate(opened, opened.device, built, sizes)
    assert not isinstance(answer, Refusal)
    assert [evidence.status for evidence in answer] == ["passed", "passed"], answer


def test_the_wide_arm_is_taken_where_the_conditions_hold() -> None:
    """The emitted copies are 16 bytes wide, and the author's loop stands beside them."""
    opened = job("igemm_wmma", 0)
    model = opened.model
    assert not isinstance(model, Refusal)
    built = build_candidate(opened, model, WIDE)
    assert not isinstance(built, Refusal)
    text = built.rewrite.text
    assert text.count("tp_copy_wide_or_zero<16>(") == 2
    assert text.count("smem_a[i] = (row < M && col < K) ? A[row * K + col] : 0;") == 1


def test_a_copy_that_converts_is_not_widened(tmp_path: Path) -> None:
    """Wide copies move bytes: an int that becomes a float on its way must not be one."""
    text = """
__global__ void kk(const int* __restrict__ b, float* __restrict__ c, int n)
{
    __shared__ __align__(16) float s[512];
    const int t = threadIdx.x;
    float acc = 0;
    for (int k = 0; k < n; k += 512) {
        for (int i = t; i < 512; i += 64) s[i] = b[k + i];
        __syncthreads();
        for (int j = 0; j < 512; ++j) acc += s[j] * ((j ^ t) & 15);
        __syncthreads();
    }
    c[t] = acc;
}
"""
    for given, widths in (("const int*", []), ("const float*", [16])):
        path = tmp_path / "kk.cu"
        path.write_text(text.replace("const int*", given), encoding="utf-8")
        opened = steps.open_job(str(path), Options(device="cpu"))
        assert not isinstance(opened, Refusal)
        assert [w.bytes for w in opened.wide] == widths
