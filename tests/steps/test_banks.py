"""Bank conflicts before and after, in the report of a run."""

from __future__ import annotations

import io
import re
from pathlib import Path

from rich.console import Console

from tilepipe import steps
from tilepipe.banks import bank_conflicts
from tilepipe.builds import build_candidate
from tilepipe.diagnostics import Refusal
from tilepipe.evidence.types import Banks, BankUse
from tilepipe.options import Options
from tilepipe.report import RunReport, to_json
from tilepipe.report.terminal import render_terminal

ROOT = Path(__file__).parents[2]


def ran(path: str, candidate: str) -> RunReport:
    options = Options(device="cpu", allow_launch_change=True, candidate=candidate)
    job = steps.open_job(str(ROOT / path), options)
    assert not isinstance(job, Refusal)
    report = steps.run(job, lambda _: None)
    assert not isinstance(report, Refusal)
    return report


def test_a_padded_candidate_is_free_of_the_conflicts_of_its_original() -> None:
    report = ran("tests/rewrite/layout/hgemm_ldsm.cu", "cp_async-3-ring-pad")
    banks = report.evidence.banks
    assert banks is not None
    assert banks.size == "small"
    assert BankUse("at", "read", (53,), 4.0, 1.0) in banks.uses
    assert BankUse("bt", "read", (14,), 8.0, 1.0) in banks.uses
    stream = io.StringIO()
    render_terminal(report, Console(file=stream, width=120))
    assert re.search(r"\bat +read +53 +4\.00× +1\.00×", stream.getvalue())
    told = [use for use in to_json(report)["evidence"]["bank_conflicts"]["uses"] if use["array"] == "at"]
    assert {use["access"]: (use["original"], use["candidate"]) for use in told} == {
        "read": (4.0, 1.0),
        "write": (1.0, 2.0),
    }


def test_what_both_have_is_compared_array_by_array() -> None:
    """The ring of `smem_a` is `smem_a`; copies count as writes."""
    report = ran("examples/igemm_wmma.cu", "cp_async-2-ring-16")
    assert report.evidence.banks == Banks(
        "small",
        (
            BankUse("smem_a", "read", (52,), 2.0, 2.0),
            BankUse("smem_a", "write", (38,), 1.0, 1.0),
            BankUse("smem_b", "read", (54,), 4.0, 4.0),
            BankUse("smem_b", "write", (44,), 1.0, 1.0),
        ),
    )


def test_without_a_problem_nothing_is_counted(tmp_path: Path) -> None:
    text = (ROOT / "examples/sgemm_tiled.cu").read_text()
    (tmp_path / "bare.cu").write_text(text)
    job = steps.open_job(str(tmp_path / "bare.cu"), Options(device="cpu", candidate="ldg-2-ring"))
    assert not isinstance(job, Refusal)
    assert not isinstance(job.model, Refusal) and not isinstance(job.plan, Refusal)
    built = build_candidate(job, job.model, next(c for c in job.plan.candidates if c.id == "ldg-2-ring"))
    assert not isinstance(built, Refusal)
    assert bank_conflicts(job, built) is None
