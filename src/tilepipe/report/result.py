"""What is known about one kernel at the end of a command. Every command fills in the parts that it knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from tilepipe import __version__
from tilepipe.diagnostics import Diagnostic, Refusal
from tilepipe.evidence.types import Banks, Benchmark, Correctness, Limit, Races, Sass, Status, Trial
from tilepipe.plan.types import BudgetRow, Candidate, Ratio

Outcome = Literal["pipelined", "original_kept", "refused", "failed"]


@dataclass(frozen=True)
class ToolInfo:
    """What did the work: `toolchain` such as "nvrtc 13.5", `device` such as "cpu" or "NVIDIA H200"."""

    toolchain: str = ""
    device: str = ""
    version: str = __version__


@dataclass(frozen=True)
class KernelInfo:
    """Which kernel, and where its definition begins (line from 1)."""

    name: str
    file: str
    line: int | None = None
    instantiation: str | None = None


@dataclass(frozen=True)
class LoopInfo:
    """The tile loop: its line, the phases that barriers cut it into (its end and its beginning are one), and its
    shared arrays by role. `layout` says of each staged array that its rows are padded where candidates with padded
    rows exist, else why it keeps its layout."""

    line: int
    phases: int
    staged: tuple[str, ...] = ()
    invariant: tuple[str, ...] = ()
    scratch: tuple[str, ...] = ()
    layout: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CandidateReport:
    """A candidate of the plan with what building it showed. Widths in bytes by staged buffer; registers per
    thread and bytes of spill per thread are None where it was not compiled. `tried`: the remedies tried since the
    compiler had defeated its overlap; of a candidate that is such a remedy, those up to it."""

    candidate: Candidate
    copy_bytes: Mapping[str, int] = field(default_factory=dict)
    registers: int | None = None
    spills: int | None = None
    tried: tuple[Trial, ...] = ()


@dataclass(frozen=True)
class LaunchInfo:
    """What a launch has to do: dynamic shared bytes by size, whether they need the opt-in attribute, and the
    lines of launches in the file that were edited."""

    dynamic_shared_bytes: Mapping[str, int] = field(default_factory=dict)
    needs_opt_in: bool = False
    edited_launches: tuple[int, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """What was found out about the emitted kernel; None: not looked at by this command."""

    correctness: Correctness | None = None
    races: Races | None = None
    sass: Sass | None = None
    benchmark: Benchmark | None = None
    limit: Limit | None = None
    banks: Banks | None = None


@dataclass(frozen=True)
class CheckItem:
    """One line of the procedure's checklist. `detail` says what decided it, or why it is unknown."""

    item: str
    status: Status
    detail: str = ""


@dataclass(frozen=True)
class RunReport:
    """One kernel's result. `source` is the emitted text; `output` the path it was written to, if any."""

    tool: ToolInfo = ToolInfo()
    kernel: KernelInfo | None = None
    arch: str = ""
    outcome: Outcome | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    loop: LoopInfo | None = None
    budget: tuple[BudgetRow, ...] = ()
    ratio: Ratio | None = None
    candidates: tuple[CandidateReport, ...] = ()
    chosen: str | None = None
    launch: LaunchInfo | None = None
    evidence: Evidence = Evidence()
    checklist: tuple[CheckItem, ...] = ()
    output: str | None = None
    source: str | None = None

    def candidate(self, identifier: str) -> CandidateReport | None:
        """The candidate with that id."""
        return next((c for c in self.candidates if c.candidate.id == identifier), None)


def refused_report(refusal: Refusal, base: RunReport | None = None) -> RunReport:
    """`base` (what was known so far) ended by `refusal`: "refused", or "failed" where it is an error."""
    outcome: Outcome = "refused" if refusal.exit_code == 1 else "failed"
    base = base or RunReport()
    return replace(base, outcome=outcome, diagnostics=refusal.diagnostics + base.diagnostics)


def without_plan(report: RunReport) -> RunReport:
    """`report` for commands that come after a plan: of the candidates the chosen one, no budget. Where the plan is
    why nothing came out, it stays."""
    if report.outcome in ("refused", "failed"):
        return report
    chosen = tuple(c for c in report.candidates if c.candidate.id == report.chosen)
    return replace(report, budget=(), candidates=chosen)
