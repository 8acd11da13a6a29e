"""The smallest streaming pipeline: one block, three stages, 16-byte copies, exact at every ragged end."""

from __future__ import annotations

import pytest
from tests.examples.test_examples import EXAMPLES

from tilepipe import steps
from tilepipe.builds import Built, build_candidate, verify_candidate
from tilepipe.diagnostics import Refusal
from tilepipe.job import Job
from tilepipe.options import Options
from tilepipe.report import RunReport, exit_code

LENGTHS = (0, *((1 << 20) + d for d in range(-3, 4)))


@pytest.mark.full
def test_three_stages_of_one_block_are_exact_around_a_million_elements() -> None:
    job = steps.open_job(str(EXAMPLES / "stream_scale.cu"), Options(device="cpu"))
    assert not isinstance(job, Refusal)
    model, plan = job.model, job.plan
    assert not isinstance(model, Refusal) and not isinstance(plan, Refusal)
    candidate = next(c for c in plan.candidates if c.id == "cp_async-3-ring-16")
    built = build_candidate(job, model, candidate)
    assert isinstance(built, Built), built
    found = verify_candidate(job, job.device, built, {f"n{n}": {"G": 1, "n": n} for n in LENGTHS})
    assert not isinstance(found, Refusal), found
    correctness, races = found
    assert (correctness.status, races.status) == ("passed", "passed"), correctness.reason
    assert all(s.bitwise and not s.max_abs_error for s in correctness.sizes.values())


@pytest.mark.parametrize("options", [{}, {"candidate": "ldg-2-ring"}, {"candidate": "cp_async-3-ring-16"}])
def test_the_audit_does_not_say_that_three_instructions_hide_a_load(options: dict[str, str]) -> None:
    job = steps.open_job(str(EXAMPLES / "stream_scale.cu"), Options(device="cpu", arch="sm_90", **options))
    assert isinstance(job, Job)
    report = steps.sass(job)
    assert isinstance(report, RunReport) and report.evidence.sass is not None
    assert (report.evidence.sass.status, report.evidence.sass.codes) == ("unknown", ("TP435",))
    assert "3 math instructions a tile, which 256 threads issue in 6" in report.evidence.sass.reasons[0]
    assert (exit_code(report), exit_code(report, ("sass",))) == (0, 4)


def test_as_it_stands_its_loads_are_not_called_sunk() -> None:
    job = steps.open_job(str(EXAMPLES / "stream_scale.cu"), Options(device="cpu", arch="sm_90"))
    assert isinstance(job, Job)
    report = steps.inspect_kernel(job)
    assert isinstance(report, RunReport) and report.evidence.sass is not None
    assert (report.outcome, report.evidence.sass.codes) == (None, ("TP435",))
