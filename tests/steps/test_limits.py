"""The overlap limit over a fake GPU: which parts are timed, and what is made of the times."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tilepipe import steps
from tilepipe.builds import Built, build_candidate
from tilepipe.diagnostics import Refusal
from tilepipe.evidence.types import Limit
from tilepipe.job import Job
from tilepipe.launch import CudaDevice
from tilepipe.limits import overlap_limit
from tilepipe.options import Options

sys.path.insert(0, str(Path(__file__).parents[1] / "gpu"))
from fakes import FakeDriver

ROOT = Path(__file__).parents[2]


class Timed(FakeDriver):
    """Kernels take the given milliseconds, in the order in which they are loaded."""

    def __init__(self, times: list[float]) -> None:
        super().__init__()
        self.times = times

    def load(self, cubin: bytes, symbol: str) -> str:
        name = f"kernel{len(self.kernels)}"
        milliseconds = self.times[len(self.kernels)]
        self.kernels[name] = lambda *_: milliseconds
        return name


def made(path: str, candidate: str, sizes: tuple[str, ...] = ("small",)) -> tuple[Job, Built]:
    options = Options(device="cpu", allow_launch_change=True, candidate=candidate, sizes=sizes)
    job = steps.open_job(str(ROOT / path), options)
    assert not isinstance(job, Refusal)
    assert not isinstance(job.model, Refusal) and not isinstance(job.plan, Refusal)
    built = build_candidate(job, job.model, next(c for c in job.plan.candidates if c.id == candidate))
    assert not isinstance(built, Refusal)
    return job, built


def limit(path: str, candidate: str, *times: float) -> Limit:
    """The limit with kernels that take these times, in the order original, candidate, loads, compute, control."""
    job, built = made(path, candidate)
    device = CudaDevice(Timed(list(times)), job.toolchain)
    return overlap_limit(job, device, built, lambda _: None)


def test_all_parts_of_a_ring_are_timed() -> None:
    found = limit("examples/igemm_wmma.cu", "cp_async-2-ring-16", 2.0, 1.0, 0.5, 0.875, 1.25)
    assert found == Limit("cp_async-2-ring-16", 2.0, 1.0, 1.25, 0.5, 0.875)
    assert (found.limit_ms, found.efficiency) == (0.875, 0.875)
    assert (found.copies_speedup, found.overlap_speedup) == (1.6, 1.25)


def test_register_staging_is_held_against_the_original() -> None:
    found = limit("examples/sgemm_tiled.cu", "ldg-2-ring", 2.0, 1.6, 0.8, 1.2)
    assert (found.control_ms, found.copies_speedup) == (None, None)
    assert found.overlap_speedup == pytest.approx(1.25)
    assert found.reason == "control: loads that go through registers are the original's"


def test_what_a_loop_stores_shares_the_bandwidth() -> None:
    found = limit("examples/stream_scale.cu", "ldg-2-ring", 2.0, 1.6, 0.8, 1.2)
    assert "the loop stores to global memory" in found.reason


def test_a_part_that_does_harm_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilepipe.limits._harm", lambda job, part, parameters: "out of bounds")
    found = limit("examples/sgemm_tiled.cu", "ldg-2-ring", 2.0, 1.6)
    assert (found.loads_ms, found.compute_ms, found.efficiency) == (None, None, None)
    assert "loads: out of bounds; compute: out of bounds" in found.reason


def test_without_a_problem_nothing_is_timed() -> None:
    job, built = made("examples/sgemm_tiled.cu", "ldg-2-ring")
    bare = replace(job, problem=None)
    found = overlap_limit(bare, CudaDevice(Timed([]), job.toolchain), built, lambda _: None)
    assert found.efficiency is None
    assert found.reason


def test_a_run_without_a_gpu_says_so() -> None:
    job, _ = made("tests/rewrite/layout/hgemm_ldsm.cu", "cp_async-2-ring")
    report = steps.run(job, lambda _: None)
    assert not isinstance(report, Refusal)
    assert report.evidence.limit == Limit(reason="a candidate's loads and math are timed apart on a GPU only")
