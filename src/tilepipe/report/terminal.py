"""The result on one screen: the verdict first, then what it rests on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from tilepipe.evidence.types import Status, Timing
from tilepipe.plan.types import BudgetRow
from tilepipe.report import words
from tilepipe.report.result import RunReport

EXCERPT_LINES = 6
MAX_REASONS = 3
MAX_IDS = 2
NO_CONFLICTS = 1.05  # a few requests of many that conflict are nothing to tell

_STYLE: dict[Status, str] = {"passed": "green", "failed": "bold red", "unknown": "yellow"}
_KIND = {"load": "cyan", "wait": "yellow", "barrier": "magenta", "math": "green"}
_OUTCOME = {"pipelined": "bold green", "original_kept": "bold yellow"}
_OUTCOME |= {"refused": "bold red", "failed": "bold red"}


def render_terminal(report: RunReport, console: Console) -> None:
    """Print `report`, without its diagnostics, on `console`. Colours are the console's to allow or not."""
    with unpadded(console):
        _print(report, console)


@contextmanager
def unpadded(console: Console) -> Iterator[None]:
    """What is printed meanwhile, without blanks at line ends where `console` is no terminal."""
    with console.capture() as captured:
        yield
    text = captured.get()
    console.file.write(text if console.is_terminal else re.sub(r" +$", "", text, flags=re.MULTILINE))


def _print(report: RunReport, console: Console) -> None:
    if report.kernel is not None or not report.diagnostics:  # else the messages say it all
        console.print(_verdict(report), soft_wrap=True)
    sections: tuple[tuple[str, Table | None], ...] = (
        ("budget", _budget(report)),
        ("candidates", _candidates(report)),
        ("not built, and why", _reasons(report)),
        ("evidence", _evidence(report)),
        ("benchmark", _benchmark(report)),
        ("bank conflicts", _banks(report)),
        ("SASS", _excerpt(report)),
        ("checklist", _checklist(report)),
    )
    for title, table in sections:
        if table is not None and table.row_count:
            console.print(Text(f"\n{title}", "bold"))
            console.print(_Indented(table))


@dataclass(frozen=True)
class _Indented:
    """A table two columns in. What rich has for this measures every cell once more."""

    table: Table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        narrower = options.update_width(options.max_width - 2)
        for line in console.render_lines(self.table, narrower, pad=False):
            yield Segment("  ")
            yield from line
            yield Segment.line()


def _verdict(report: RunReport) -> Text:
    place, name = words.place(report), words.kernel_name(report)
    headline, qualified = words.verdict(report)
    text = Text.assemble((f"{place}: " if place else "", "bold"), f"{name}: " if name else "")
    style = "bold yellow" if words.is_unverified(report) else _OUTCOME.get(report.outcome or "", "")
    text.append(headline, style)
    text.append(f"{' ' if report.outcome == 'pipelined' else ': '}{qualified}" if qualified else "")
    for line, style in (
        (words.about(report), "dim"),
        (words.loop_line(report), ""),
        (words.ratio_line(report.ratio), ""),
        (words.launch_line(report), "yellow"),
    ):
        text.append(f"\n{line}" if line else "", style)
    return text


def _table(*columns: str, numbers: Iterable[int] = ()) -> Table:
    """A table without lines: it reads the same on a terminal, in a file and in an e-mail."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    right = set(numbers)
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index in right else "left", no_wrap=index in right)
    return table


def _budget(report: RunReport) -> Table:
    """Numbers of stages that cost the same residency share a row."""
    table = _table("stages", "shared bytes", "blocks/SM", "warps/SM", "limit", numbers=range(4))
    before = report.budget[0].blocks_per_sm if report.budget else 0
    for rows in _alike(report.budget):
        row = rows[0]
        style = "red" if row.blocks_per_sm == 0 else "yellow" if row.blocks_per_sm < before else ""
        table.add_row(
            _range([r.stages for r in rows]),
            _range([r.shared_bytes for r in rows]),
            str(row.blocks_per_sm),
            str(row.warps_per_sm),
            row.limit if row.blocks_per_sm else f"does not launch: {row.limit}",
            style=style,
        )
    return table


def _alike(budget: Sequence[BudgetRow]) -> Iterator[list[BudgetRow]]:
    for _, rows in groupby(budget, lambda row: (row.blocks_per_sm, row.warps_per_sm, row.limit)):
        yield list(rows)


def _range(values: Sequence[int]) -> str:
    return str(values[0]) if len(values) == 1 else f"{values[0]}–{values[-1]}"


def _candidates(report: RunReport) -> Table:
    built = any(c.registers is not None for c in report.candidates)  # `check` builds none
    compiled = ("registers", "spills") if built else ()
    table = _table(
        "candidate", "status", "copies", *compiled, "shared", "predicted", numbers=range(3, 5 + len(compiled))
    )
    for c in report.candidates:
        if c.candidate.status == "rejected" or words.is_passed_over(report, c):
            continue
        plan = c.candidate
        chosen = plan.id == report.chosen
        table.add_row(
            plan.id,
            "chosen" if chosen else plan.status,
            words.copies(c.copy_bytes),
            *("" if n is None else str(n) for n in ((c.registers, c.spills) if built else ())),
            str(plan.shared_bytes) if plan.shared_bytes else "",
            words.times(plan.predicted_speedup),
            style="bold" if chosen else "red" if plan.status == "failed" else "",
        )
    return table


def _reasons(report: RunReport) -> Table:
    """The first reasons why candidates are not to be had, or all of them where none is; the page and the JSON
    hold the others."""
    grouped = list(words.reasons(report).items())
    any_left = any(c.candidate.status == "ok" for c in report.candidates)
    shown = MAX_REASONS if any_left else len(grouped)
    table = Table.grid(padding=(0, 2, 0, 0))
    for reason, ids in grouped[:shown]:
        more = f" and {len(ids) - MAX_IDS} more" if len(ids) > MAX_IDS else ""
        table.add_row(Text(", ".join(ids[:MAX_IDS]) + more), Text(reason))
    if rest := [i for _, ids in grouped[shown:] for i in ids]:
        table.add_row(Text(f"{len(rest)} more", "dim"), Text("for other reasons: --json, --html", "dim"))
    return table


def _evidence(report: RunReport) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for line in words.evidence_lines(report):
        table.add_row(line.name, Text(line.status, _STYLE[line.status]), Text(line.text))
    return table


def _benchmark(report: RunReport) -> Table | None:
    benchmark = report.evidence.benchmark
    if benchmark is None or benchmark.original is None:
        return None
    rate = benchmark.unit != "ms"
    unit = [benchmark.unit] if rate else []
    table = _table(benchmark.size, "ms", *unit, "spread", "speed-up", numbers=range(1, 5))

    def row(name: str, timing: Timing, speedup: float | None, style: str) -> None:
        metric = [f"{timing.rate:,.0f}" if timing.rate is not None else ""] if rate else []
        cells = (f"{timing.median_ms:.4g}", *metric, f"{timing.spread:.1%}", words.times(speedup))
        table.add_row(name, *cells, style=style)

    row("original", benchmark.original, 1.0, "bold" if report.outcome == "original_kept" else "")
    for name, timing in benchmark.controls.items():
        row(f"{name} (control)", timing, timing.speedup, "dim")
    for name, timing in words.fastest_first(benchmark):
        row(name, timing, timing.speedup, "bold green" if name == report.chosen else "")
    return table


def _banks(report: RunReport) -> Table | None:
    """Shared arrays with conflicts, before or after."""
    banks = report.evidence.banks
    if banks is None:
        return None
    table = _table("array", "access", "lines", "original", report.chosen or "", numbers=(3, 4))
    for use in banks.uses:
        if max(use.original or 0.0, use.candidate or 0.0) > NO_CONFLICTS:
            table.add_row(
                use.array,
                use.access,
                ", ".join(map(str, use.lines)),
                words.times(use.original),
                words.times(use.candidate),
            )
    return table


def _excerpt(report: RunReport) -> Table | None:
    """Where the machine code is all that was looked at, the whole excerpt; else its loads, waits and barriers."""
    sass = report.evidence.sass
    if sass is None or not sass.excerpt:
        return None
    shown = list(sass.excerpt)
    if report.evidence.correctness is not None:
        landmarks = [line for line in shown if words.excerpt_kind(line) in ("load", "wait", "barrier")]
        shown = landmarks[:EXCERPT_LINES]
    table = Table.grid()
    for line in shown:
        style = _KIND.get(words.excerpt_kind(line) or "", "")
        table.add_row(Text(line, style, no_wrap=True, overflow="ellipsis"))
    if hidden := len(sass.excerpt) - len(shown):
        table.add_row(Text(f"… {hidden} more lines: tilepipe sass, --html", "dim"))
    return table


def _checklist(report: RunReport) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for item in report.checklist:
        mark = Text(f"{words.MARKS[item.status]} {item.status}", _STYLE[item.status])
        table.add_row(mark, Text(item.item), Text(item.detail, "dim"))
    return table
