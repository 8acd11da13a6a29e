"""A run as one page that needs nothing else: no network, no script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from tilepipe.diagnostics.render import plain
from tilepipe.evidence.types import Status
from tilepipe.report import words
from tilepipe.report.changes import Hunk, hunks
from tilepipe.report.charts.bars import BarChart, bar_chart
from tilepipe.report.charts.budget import BudgetChart, budget_chart
from tilepipe.report.charts.ring import RingChart, ring_chart
from tilepipe.report.charts.schedule import ScheduleChart, schedule_chart
from tilepipe.report.result import RunReport


@dataclass(frozen=True)
class Command:
    """A command line and what it is for."""

    purpose: str
    line: str


@dataclass(frozen=True)
class Origin:
    """What a page's results came from: the file's text (None where it could not be read), the commands that
    make them again, and the seed of the random data (None where nothing was run)."""

    text: str | None
    commands: tuple[Command, ...] = ()
    seed: int | None = None


@dataclass(frozen=True)
class Fact:
    """A number at a glance: its name, itself, what qualifies it, and whether it is good (None: neither)."""

    name: str
    value: str
    note: str = ""
    status: Status | None = None


@dataclass(frozen=True)
class Kernel:
    """One kernel's part of a page: everything that the template draws. `index` makes its ids unique."""

    index: int
    report: RunReport
    facts: tuple[Fact, ...]
    diagnostics: tuple[tuple[str, str], ...]
    schedule: ScheduleChart | None
    ring: RingChart | None
    budget: BudgetChart | None
    bars: BarChart | None
    changes: tuple[Hunk, ...]


def render_page(reports: Sequence[RunReport], origins: Sequence[Origin]) -> str:
    """The page of the kernels' reports, each with its origin: HTML of its own, in UTF-8 without surrogates."""
    kernels = [_kernel(n, r, o) for n, (r, o) in enumerate(zip(reports, origins, strict=True), 1)]
    text = _template().render(kernels=list(zip(kernels, origins, strict=True)), words=words)
    return text.encode("utf-8", "replace").decode()


@cache
def _template() -> Template:
    loader = PackageLoader("tilepipe.report", ".")
    return Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    ).get_template("page.html.j2")


def _kernel(index: int, report: RunReport, origin: Origin) -> Kernel:
    sass = report.evidence.sass
    chosen = report.candidate(report.chosen or "")
    return Kernel(
        index,
        report,
        tuple(_facts(report)),
        tuple((d.severity, plain(d)) for d in report.diagnostics),
        schedule_chart(sass.timeline_original, sass.timeline) if sass else None,
        ring_chart(chosen.candidate) if chosen else None,
        budget_chart(report.budget, report.arch, chosen.candidate.stages if chosen else None),
        bar_chart(report),
        hunks(origin.text, report.source) if origin.text is not None and report.source is not None else (),
    )


def _facts(report: RunReport) -> list[Fact]:
    """Gain, correctness, races, overlap, residency: what is known of them."""
    evidence = report.evidence
    facts = [_gain(report)] if report.chosen else []
    if evidence.correctness:
        sizes = f"{len(evidence.correctness.sizes)} sizes, {evidence.correctness.device}"
        facts.append(_fact("same results", evidence.correctness.status, sizes))
    if evidence.races:
        facts.append(
            _fact("no races", evidence.races.status, evidence.races.reason or f"by {evidence.races.method}")
        )
    if evidence.sass and evidence.sass.window is not None:
        before = evidence.sass.window_original
        note = "math issued between a load and its wait" + (
            f"; {before} originally" if before is not None else ""
        )
        facts.append(Fact("loads under math", str(evidence.sass.window), note, evidence.sass.status))
    chosen = report.candidate(report.chosen or "")
    rows = {row.stages: row.blocks_per_sm for row in report.budget}
    if chosen and 1 in rows and chosen.candidate.stages in rows:
        value = f"{rows[1]} → {rows[chosen.candidate.stages]}"
        facts.append(
            Fact("blocks per SM", value, f"{chosen.candidate.shared_bytes} bytes of shared memory each")
        )
    return facts


def _fact(name: str, status: Status, note: str) -> Fact:
    return Fact(name, {"passed": "yes", "failed": "NO", "unknown": "unknown"}[status], note, status)


def _gain(report: RunReport) -> Fact:
    timing = words.chosen_timing(report)
    if timing is not None and timing.speedup:
        benchmark = report.evidence.benchmark
        device = benchmark.device if benchmark else ""
        return Fact("speed-up", f"{timing.speedup:.2f}×", f"measured on {device}", "passed")
    chosen = report.candidate(report.chosen or "")
    predicted = chosen.candidate.predicted_speedup if chosen else None
    return Fact("speed-up", words.times(predicted) or "unknown", "predicted, not measured", "unknown")
