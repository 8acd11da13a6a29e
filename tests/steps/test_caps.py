"""A minimum of resident blocks: where it may be stated, and the original with nothing but that as a control."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tilepipe import steps
from tilepipe.builds import Built, build_candidate, build_controls, build_variants
from tilepipe.diagnostics import Refusal
from tilepipe.evidence.types import Benchmark, Timing
from tilepipe.job import Job
from tilepipe.options import Options
from tilepipe.plan.candidates import base_id, capped
from tilepipe.plan.types import Candidate
from tilepipe.proving import finalists
from tilepipe.report import RunReport, to_json

HERE = Path(__file__).parents[1] / "zoo"
NBODY = HERE / "nbody_accel.cu"


def opened(path: Path, **options: object) -> Job:
    job = steps.open_job(str(path), Options(device="cpu", **options))  # type: ignore[arg-type]
    assert not isinstance(job, Refusal)
    return job


def copied(folder: Path, old: str = "", new: str = "", problem: bool = True) -> Path:
    text = NBODY.read_text()
    assert old in text
    path = folder / "nbody_accel.cu"
    path.write_text(text.replace(old, new, 1) if old else text)
    if problem:
        path.with_suffix(".toml").write_text(NBODY.with_suffix(".toml").read_text())
    return path


def rewritten(path: Path, candidate: str = "cp_async-2-ring-b1") -> RunReport:
    done = steps.rewrite(opened(path, candidate=candidate, allow_launch_change=True))
    assert not isinstance(done, Refusal)
    return done


def test_the_block_size_of_the_problem_is_stated_and_said() -> None:
    done = rewritten(NBODY)
    assert done.source is not None
    assert "__global__ __launch_bounds__(128, 1) void nbody_accel(" in done.source
    assert any("more than 128 threads per block fails" in d.message for d in done.diagnostics)
    entry = next(c for c in to_json(done)["candidates"] if c["id"] == "cp_async-2-ring-b1")
    assert entry["status"] == "ok" and "at most 128 threads" in entry["reason"]


def test_without_a_problem_no_block_size_is_known(tmp_path: Path) -> None:
    done = rewritten(copied(tmp_path, problem=False))
    assert done.source is None
    assert any("or a block size that is known" in d.message for d in done.diagnostics)


def test_sizes_with_different_blocks_leave_it_open(tmp_path: Path) -> None:
    path = copied(tmp_path)
    problem = path.with_suffix(".toml")
    text = problem.read_text().replace('block  = ["128"]', 'block  = ["32 * cdiv(NBODY, 128)"]')
    problem.write_text(text)
    assert opened(path).unstated_threads == 0
    assert opened(NBODY).unstated_threads == 128


def test_a_bound_of_the_kernels_own_is_completed(tmp_path: Path) -> None:
    path = copied(tmp_path, "__global__ void", "__global__ void __launch_bounds__(256)")
    source = rewritten(path).source
    assert source is not None and "__launch_bounds__(256, 1) nbody_accel" in source


@pytest.mark.parametrize(
    ("kind", "allowed", "ids"),
    [
        ("cuda", True, ["cp_async-2-ring", "cp_async-2-ring-b1"]),
        ("cuda", False, ["cp_async-2-ring"]),
        ("cpu", True, ["cp_async-2-ring"]),
    ],
)
def test_a_bound_is_added_only_where_launches_may_change_and_time_tells(
    kind: str, allowed: bool, ids: list[str]
) -> None:
    job = opened(NBODY, allow_launch_change=allowed)
    assert not isinstance(job.model, Refusal)
    made = build_variants(
        replace(job, device=SimpleNamespace(kind=kind)),
        job.model,
        Candidate("cp_async-2-ring", "cp_async", 2, "ring"),
    )
    assert not isinstance(made, Refusal)
    assert [b.candidate.id for b in made] == ids


@pytest.mark.parametrize("bounds", ["", "__launch_bounds__(256)"])
def test_the_original_with_a_cap_is_a_control(bounds: str, tmp_path: Path) -> None:
    controls = build_controls(opened(copied(tmp_path, "__global__ void", f"__global__ void {bounds}")))
    assert "original-b1" in controls and len(controls) == 2
    assert all(c.registers for c in controls.values())


def test_no_control_where_a_minimum_is_stated(tmp_path: Path) -> None:
    path = copied(tmp_path, "__global__ void", "__global__ void __launch_bounds__(256, 2)")
    assert build_controls(opened(path)) == {}


def test_no_control_without_a_block_size(tmp_path: Path) -> None:
    assert build_controls(opened(copied(tmp_path, problem=False))) == {}


def timing(median_ms: float) -> Timing:
    return Timing(median_ms, 0.01, 1 / median_ms)


def tried_again(job: Job, *names: str) -> list[str]:
    """What is tried once more where these candidates were timed, the fastest first."""
    model = job.model
    assert not isinstance(model, Refusal)
    built = [b for name in names if isinstance(b := build_candidate(job, model, by_id(job, name)), Built)]
    times = {name: timing(0.5 + 0.1 * rank) for rank, name in enumerate(names)}
    timed = Benchmark("passed", "target", "ms", timing(1.0), times)
    return [b.candidate.id for b in finalists(job, model, built, timed)]


def by_id(job: Job, name: str) -> Candidate:
    assert not isinstance(job.plan, Refusal)
    plain, _, blocks = base_id(name)
    found = next(c for c in job.plan.candidates if c.id == plain)
    return capped(found, blocks, job.unstated_threads) if blocks else found


RINGS = ("cp_async-4-ring", "cp_async-2-ring", "ldg-2-ring", "ldg-2-textbook")


def test_the_fastest_are_tried_with_other_bounds() -> None:
    tried = tried_again(opened(HERE / "conv_igemm.cu"), *RINGS)
    assert {base_id(name)[0] for name in tried} == set(RINGS[:3])
    assert {base_id(name)[2] for name in tried} >= {1}


def test_finalists_of_the_same_code_are_tried_once() -> None:
    job = opened(HERE / "conv_igemm.cu")
    tried = tried_again(job, RINGS[0])
    assert 1 <= len(tried) <= 4
    model = job.model
    assert not isinstance(model, Refusal)
    made = [build_candidate(job, model, by_id(job, name)) for name in (RINGS[0], *tried)]
    images = [b.cubin.image for b in made if isinstance(b, Built)]
    assert len(set(images)) == len(images) == len(tried) + 1


def test_a_finalist_with_a_bound_is_tried_with_others() -> None:
    tried = tried_again(opened(HERE / "conv_igemm.cu"), f"{RINGS[0]}-b1")
    assert tried and f"{RINGS[0]}-b1" not in tried


def test_the_fastest_are_tried_with_loaders_that_run_past_the_end() -> None:
    job = opened(HERE / "sgemm_copyloop.cu")
    assert {base_id(name)[1] for name in tried_again(job, "cp_async-3-ring-16", "ldg-2-ring")} == {
        "",
        "overrun",
    }


def test_a_bound_that_rules_launches_out_is_not_tried_unasked() -> None:
    assert tried_again(opened(NBODY), RINGS[0]) == []
    assert tried_again(opened(NBODY, allow_launch_change=True), RINGS[0])
