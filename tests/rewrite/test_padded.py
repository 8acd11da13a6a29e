"""Candidates with padded rows, executed: bit for bit the original's results, and fewer bank conflicts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.sampling import sampled

from tilepipe import steps
from tilepipe.builds import Built, build_candidate, extra_tile_counts, verify_candidate
from tilepipe.diagnostics import Refusal
from tilepipe.emulating import emulate
from tilepipe.job import Job
from tilepipe.options import Options
from tilepipe.plan.padded import SUFFIX, without_padding
from tilepipe.plan.types import Candidate

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
# Kernels whose tiles can be padded, in the ways in which accesses are written.
KERNELS = (
    "tests/rewrite/layout/hgemm_flat.cu",
    "tests/rewrite/layout/hgemm_ldsm.cu",
    "examples/igemm_wmma.cu",
    "examples/sgemm_tiled.cu",
    "tests/zoo/bgemm_strided_half.cu",
    "tests/zoo/trmm_varlen.cu",
    "tests/zoo/igemm_bytes.cu",
    "tests/zoo/sgemm_copyloop.cu",
)


def opened(path: str, candidate: str | None = None) -> Job:
    job = steps.open_job(
        str(ROOT / path), Options(device="cpu", allow_launch_change=True, candidate=candidate)
    )
    assert not isinstance(job, Refusal)
    return job


def padded_candidates(job: Job) -> list[Candidate]:
    """Those that a GPU would be given to time."""
    plan = replace(job, device=SimpleNamespace(kind="cuda")).plan
    assert not isinstance(plan, Refusal)
    return [c for c in plan.candidates if c.padding]


def built(job: Job, candidate: Candidate) -> Built:
    assert not isinstance(job.model, Refusal)
    made = build_candidate(job, job.model, replace(candidate, status="ok", reason=None))
    assert not isinstance(made, Refusal), made
    return made


@pytest.mark.parametrize("path", sampled(KERNELS, 4))
def test_padded_candidates_are_exact(path: str) -> None:
    """One candidate of each way of copying, with two and three stages."""
    job = opened(path)
    assert job.problem is not None
    chosen = {c.variant: c for c in padded_candidates(job) if c.stages <= 3 and not c.dynamic}
    assert chosen
    for candidate in chosen.values():
        made = built(job, candidate)
        sizes = {n: s for n, s in job.problem.sizes.items() if n != "target"}
        sizes |= extra_tile_counts(job, candidate.stages)
        correctness, races = verify_candidate(job, job.device, made, sizes)
        assert correctness.status == "passed", (candidate.id, correctness)
        assert races.status == "passed", (candidate.id, races)
        assert all(s.bitwise for s in correctness.sizes.values())
        assert made.cubin.static_shared == candidate.shared_bytes  # the budget is that of the padded tiles


def conflicts(job: Job) -> dict[tuple[int, str], float]:
    """Wavefronts over the least possible, by source line and operation, at the small size."""
    done = emulate(
        replace(job, problem=replace(job.problem, sizes={"small": job.problem.sizes["small"]})),
        1,
        lambda _: None,
    )  # type: ignore[union-attr,arg-type]
    assert not isinstance(done, Refusal)
    return {(a.line, a.operation): a.degree for a in done.runs["small"].profile.shared}


@pytest.mark.parametrize(("path", "operation"), [(KERNELS[0], "wmma load"), (KERNELS[1], "ldmatrix")])
def test_padding_frees_matrix_loads_of_conflicts(path: str, operation: str) -> None:
    job = opened(path)
    assert job.padded is not None
    before = [d for (_, name), d in conflicts(job).items() if name == operation]
    after = [d for (_, name), d in conflicts(job.padded).items() if name == operation]
    assert min(before) >= 4
    assert after == [1.0] * len(before)


def test_without_a_gpu_padding_has_to_be_asked_for() -> None:
    job = opened(KERNELS[1])
    assert not isinstance(job.plan, Refusal)
    listed = {c.id: c for c in job.plan.candidates if c.padding}
    assert {c.status for c in listed.values()} == {"rejected"}
    timed = {c.id: c for c in padded_candidates(job)}
    assert set(listed) == set(timed)
    assert {i: c.shared_bytes for i, c in listed.items()} == {i: c.shared_bytes for i, c in timed.items()}
    assert not [i for i in job.plan.order if i.endswith(SUFFIX)]
    asked = opened(KERNELS[1], "cp_async-3-ring-pad")
    assert not isinstance(asked.plan, Refusal)
    assert asked.plan.order == ("cp_async-3-ring-pad",)


@pytest.mark.parametrize(
    ("path", "candidate", "tiles"),
    [
        (KERNELS[1], "cp_async-3-ring-pad", ("at", "bt")),
        ("examples/igemm_wmma.cu", "cp_async-2-ring-16-pad", ("smem_a", "smem_b")),
    ],
)
def test_a_padded_candidate_is_chosen_when_asked_for_and_its_source_is_as_recorded(
    path: str, candidate: str, tiles: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    report = steps.run(opened(path, candidate), lambda _: None)
    assert not isinstance(report, Refusal)
    assert (report.outcome, report.chosen) == ("pipelined", candidate)
    assert any("16 bytes longer" in d.message for d in report.diagnostics)
    assert report.loop is not None
    assert dict(report.loop.layout) == dict.fromkeys(tiles, "padded")
    recorded = HERE / "golden" / f"{Path(path).stem}.{candidate}.cu"
    if request.config.getoption("--update-golden"):
        recorded.write_text(report.source or "")
    assert report.source == recorded.read_text()


@pytest.mark.parametrize(
    ("path", "candidate", "was", "now"),
    [
        (KERNELS[0], "cp_async-2-ring-pad", "[kk], TK + 8)", "[kk], TK)"),
        (KERNELS[0], "cp_async-2-ring-pad", "wn + j * F, TN + 8)", "wn + j * F, TN)"),
        ("examples/igemm_wmma.cu", "cp_async-2-ring-16-pad", "FRAG) * (BK + 16)", "FRAG) * BK"),
        ("examples/igemm_wmma.cu", "cp_async-2-ring-16-pad", "kk], BK + 16)", "kk], BK)"),
        ("examples/igemm_wmma.cu", "cp_async-2-ring-16-pad", "smem_b[i + i / BN * 16]", "smem_b[i]"),
        ("examples/igemm_wmma.cu", "cp_async-2-ring-16-pad", "[BM * BK + 1024]", "[BM * BK]"),
        ("tests/zoo/igemm_bytes.cu", "cp_async-2-ring-16-pad", "(tm + i) * (KT + 16)", "(tm + i) * KT"),
        ("tests/zoo/igemm_bytes.cu", "cp_async-2-ring-16-pad", "&act[i + i / KT * 16]", "&act[i]"),
    ],
)
def test_a_place_that_is_forgotten_is_caught(path: str, candidate: str, was: str, now: str) -> None:
    """The checks see every edit: leave one out, and results differ or memory is overrun."""
    job = opened(path, candidate)
    assert not isinstance(job.plan, Refusal) and job.problem is not None
    made = built(job, next(c for c in job.plan.candidates if c.id == candidate))
    assert was in made.rewrite.text
    broken = replace(made, rewrite=replace(made.rewrite, text=made.rewrite.text.replace(was, now)))
    sizes = {n: s for n, s in job.problem.sizes.items() if n != "target"}
    correctness, races = verify_candidate(job, job.device, broken, sizes)
    assert "failed" in (correctness.status, races.status)


def test_ids_of_padded_candidates() -> None:
    assert without_padding("cp_async-3-ring-16-pad-b2") == "cp_async-3-ring-16-b2"
    assert without_padding("ldg-2-ring-pad") == "ldg-2-ring"
    assert without_padding("ldg-2-ring-b2") is None


def test_a_capped_padded_candidate_can_be_named() -> None:
    job = opened(KERNELS[1], "cp_async-3-ring-pad-b4")
    report = steps.rewrite(job)
    assert not isinstance(report, Refusal)
    assert report.chosen == "cp_async-3-ring-pad-b4"
    assert "__launch_bounds__(128, 4)" in (report.source or "")
