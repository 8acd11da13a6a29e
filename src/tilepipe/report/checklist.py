"""The checklist that practitioners go through by hand, answered from the evidence.

A pipelined loop has few places to go wrong, and each shows in evidence of its own: an index off by one or
a forgotten tile changes random data, a stage used too early or refilled too soon is a race.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tilepipe.evidence.types import Correctness, Status
from tilepipe.report import words
from tilepipe.report.result import CheckItem, RunReport

_SMALL, _TARGET = "small", "target"


def with_checklist(report: RunReport) -> RunReport:
    """`report` with its checklist filled in; no checklist without a chosen candidate."""
    return replace(report, checklist=checklist(report)) if report.chosen else report


def checklist(report: RunReport) -> tuple[CheckItem, ...]:
    """The eight items for the chosen candidate, each passed, failed or unknown with what decided it."""
    answers: tuple[tuple[str, Callable[[RunReport], tuple[Status, str]]], ...] = (
        ("no lone block per SM from staging", _no_lone_block),
        ("stages alternate", _stages_alternate),
        ("prologue loads tile 0 into stage 0", _first_tile),
        ("last tile computed, from the right stage", _last_tile),
        ("correct at small and target size", _correct),
        ("loads overlap the math in SASS", _overlap),
        ("faster than the original", _faster),
        ("no spills from staging", _no_spills),
    )
    return tuple(CheckItem(item, *answer(report)) for item, answer in answers)


def _no_lone_block(report: RunReport) -> tuple[Status, str]:
    """Staging may cost resident blocks, but not leave one where there were several: a lone block has nothing
    to switch to at its barriers."""
    chosen = report.candidate(report.chosen or "")
    rows = {row.stages: row for row in report.budget}
    after = rows.get(chosen.candidate.stages) if chosen else None
    before = rows.get(1)
    if after is None or before is None:
        return "unknown", "no budget"
    detail = f"{before.blocks_per_sm} → {after.blocks_per_sm} blocks per SM"
    fits = after.blocks_per_sm >= min(2, max(1, before.blocks_per_sm))
    return ("passed" if fits else "failed"), detail


def _stages_alternate(report: RunReport) -> tuple[Status, str]:
    """A stage that is reused too early or read too late is a race, whether or not the numbers show it."""
    races = report.evidence.races
    if races is None or races.status == "unknown":
        return "unknown", (races.reason if races else "") or "races not checked"
    return races.status, f"{len(races.findings)} findings by {races.method}"


def _bitwise(correctness: Correctness, sizes: tuple[str, ...]) -> tuple[Status, str]:
    """Whether the outputs at `sizes` (those of them that were run) equal the original's bit for bit."""
    run = [name for name in sizes if name in correctness.sizes]
    if not run:
        return "unknown", f"none of the sizes {', '.join(sizes)} was run"
    equal = [correctness.sizes[name].bitwise for name in run]
    status: Status = "failed" if False in equal else "unknown" if None in equal else "passed"
    return status, f"compared bitwise at {', '.join(run)}"


def _first_tile(report: RunReport) -> tuple[Status, str]:
    """With one tile, only what the prologue loaded is computed."""
    correctness = report.evidence.correctness
    return _bitwise(correctness, ("short1", "tiles1", _SMALL)) if correctness else ("unknown", "not run")


def _last_tile(report: RunReport) -> tuple[Status, str]:
    """Every tile adds to the output, so one that is left out or taken from another stage shows."""
    correctness = report.evidence.correctness
    sizes = ("short2", "tiles2", "ragged", _SMALL, _TARGET)
    return _bitwise(correctness, sizes) if correctness else ("unknown", "not run")


def _correct(report: RunReport) -> tuple[Status, str]:
    correctness = report.evidence.correctness
    if correctness is None or correctness.status == "unknown":
        return "unknown", (correctness.reason if correctness else "") or "not run"
    missing = [name for name in (_SMALL, _TARGET) if name not in correctness.sizes]
    if correctness.status == "passed" and missing:
        return "unknown", f"not run at {' and '.join(missing)}"
    sampled = correctness.sizes[_TARGET].sampled if _TARGET in correctness.sizes else None
    return correctness.status, f"{sampled[0]} of {sampled[1]} blocks at target" if sampled else ""


def _overlap(report: RunReport) -> tuple[Status, str]:
    sass = report.evidence.sass
    if sass is None:
        return "unknown", "not audited"
    return sass.status, "; ".join(sass.reasons) or words.window_line(sass)


def _faster(report: RunReport) -> tuple[Status, str]:
    benchmark = report.evidence.benchmark
    timing = benchmark.candidates.get(report.chosen or "") if benchmark else None
    if benchmark is None or timing is None or timing.speedup is None:
        return "unknown", (benchmark.reason if benchmark else "") or "not timed"
    return ("passed" if timing.speedup > 1 else "failed"), f"{timing.speedup:.2f}×"


def _no_spills(report: RunReport) -> tuple[Status, str]:
    sass = report.evidence.sass
    if sass is None or not sass.is_read:
        return "unknown", "not audited"
    detail = f"{sass.spills_original} → {sass.spills} accesses to local memory"
    return ("passed" if sass.spills <= sass.spills_original else "failed"), detail
