"""The result on one screen: the verdict first, then what it rests on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tilepipe.evidence.types import Benchmark, Correctness, Races, Sass, SizeResult, Status, Timing
from tilepipe.report.result import RunReport

EXCERPT_LINES = 16
MAX_FINDINGS = 4

_STYLE: dict[Status, str] = {"passed": "green", "failed": "bold red", "unknown": "yellow"}
_MARK: dict[Status, str] = {"passed": "✓", "failed": "✗", "unknown": "?"}


def render_terminal(report: RunReport, console: Console) -> None:
    """Print `report`, without its diagnostics, on `console`. Colours are the console's to allow or not."""
    console.print(_verdict(report), soft_wrap=True)
    sections: tuple[tuple[str, Table | None], ...] = (
        ("budget", _budget(report)),
        ("candidates", _candidates(report)),
        ("not built, and why", _reasons(report)),
        ("evidence", _evidence(report)),
        ("benchmark", _benchmark(report)),
        ("SASS", _excerpt(report)),
        ("checklist", _checklist(report)),
    )
    for title, table in sections:
        if table is not None and table.row_count:
            console.print(Text(f"\n{title}", "bold"))
            console.print(Padding(table, (0, 0, 0, 2), expand=False))


def _verdict(report: RunReport) -> Text:
    kernel = report.kernel
    place = (
        f"{kernel.file}:{kernel.line}: " if kernel and kernel.line else f"{kernel.file}: " if kernel else ""
    )
    name = f"{kernel.instantiation or kernel.name}: " if kernel else ""
    text = Text.assemble((place, "bold"), name)
    text.append_text(_outcome(report))
    about = [report.arch, report.tool.toolchain, report.tool.device]
    text.append(f"\n{' · '.join(a for a in about if a)}", "dim")
    if report.loop:
        loop = report.loop
        text.append(f"\ntile loop at line {loop.line}, {loop.phases} phases, staged {', '.join(loop.staged)}")
        for role, names in (("invariant", loop.invariant), ("scratch", loop.scratch)):
            text.append(f", {role} {', '.join(names)}" if names else "")
    if report.ratio:
        text.append("\n" + _ratio_line(report))
    if report.launch and report.launch.needs_opt_in:
        most = max(report.launch.dynamic_shared_bytes.values(), default=0)
        text.append(
            f"\nlaunch: set cudaFuncAttributeMaxDynamicSharedMemorySize to {most} and pass it as the third "
            "launch argument",
            "yellow",
        )
    return text


def _outcome(report: RunReport) -> Text:
    match report.outcome:
        case "pipelined":
            timing = _chosen_timing(report)
            if timing and timing.speedup:
                gain = f"{timing.speedup:.2f}× the original, measured"
            else:
                chosen = report.candidate(report.chosen or "")
                predicted = chosen.candidate.predicted_speedup if chosen else None
                gain = f"{predicted:.2f}× predicted, not measured" if predicted else "gain not measured"
            return Text.assemble(("pipelined", "bold green"), f" as {report.chosen}: {gain}")
        case "original_kept":
            return Text.assemble(("original kept", "bold yellow"), ": no candidate was measured faster")
        case "refused":
            return Text("refused", "bold red")
        case "failed":
            return Text("failed", "bold red")
        case None:
            return Text(_what_is_known(report))


def _what_is_known(report: RunReport) -> str:
    """The headline of commands that emit nothing: `check`, `verify`, `bench`, `sass`."""
    parts = (report.evidence.correctness, report.evidence.races, report.evidence.sass)
    statuses = [part.status for part in parts if part]
    if "failed" in statuses:
        return "not the same kernel" if parts[0] and parts[0].status == "failed" else "evidence failed"
    if statuses:
        return "evidence passed" if "unknown" not in statuses else "evidence incomplete"
    usable = [c for c in report.candidates if c.candidate.status == "ok"]
    if report.candidates:
        return f"{len(usable)} of {len(report.candidates)} candidates can be built"
    return "done"


def _ratio_line(report: RunReport) -> str:
    ratio = report.ratio
    if ratio is None:
        return ""
    formula = (
        f"{ratio.flops_per_byte:.1f} FLOP per byte, {ratio.cls}" if ratio.flops_per_byte else "ratio unknown"
    )
    if ratio.load_cycles is None or ratio.compute_cycles is None:
        return formula
    cycles = f"{ratio.load_cycles:.0f} cycles to load, {ratio.compute_cycles:.0f} to compute"
    return f"{formula}; a tile takes {cycles}"


def _table(*columns: str, numbers: Iterable[int] = ()) -> Table:
    """A table without lines: it reads the same on a terminal, in a file and in an e-mail."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    right = set(numbers)
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index in right else "left", no_wrap=index in right)
    return table


def _budget(report: RunReport) -> Table:
    table = _table("stages", "shared bytes", "blocks/SM", "warps/SM", "limit", numbers=range(4))
    before = report.budget[0].blocks_per_sm if report.budget else 0
    for row in report.budget:
        style = "red" if row.blocks_per_sm == 0 else "yellow" if row.blocks_per_sm < before else ""
        cells = (row.stages, row.shared_bytes, row.blocks_per_sm, row.warps_per_sm)
        table.add_row(
            *map(str, cells), row.limit if row.blocks_per_sm else f"does not launch: {row.limit}", style=style
        )
    return table


def _candidates(report: RunReport) -> Table:
    table = _table(
        "candidate", "status", "copies", "registers", "spills", "shared", "predicted", numbers=(3, 4, 5, 6)
    )
    styles = {"ok": "", "rejected": "dim", "failed": "red"}
    for c in report.candidates:
        plan = c.candidate
        if plan.status == "rejected":
            continue
        chosen = plan.id == report.chosen
        table.add_row(
            plan.id,
            "chosen" if chosen else plan.status,
            _copies(c.copy_bytes),
            _number(c.registers),
            _number(c.spills),
            _number(plan.shared_bytes or None),
            _times(plan.predicted_speedup),
            style="bold" if chosen else styles[plan.status],
        )
    return table


def _reasons(report: RunReport) -> Table:
    """Candidates that are not to be had, those with one reason together."""
    grouped: dict[str, list[str]] = {}
    for c in report.candidates:
        if c.candidate.status != "ok" or c.candidate.reason:
            grouped.setdefault(c.candidate.reason or c.candidate.status, []).append(c.candidate.id)
    table = Table.grid(padding=(0, 2, 0, 0))
    for reason, ids in grouped.items():
        table.add_row(Text(", ".join(ids)), Text(reason))
    return table


def _copies(widths: Mapping[str, int]) -> str:
    if len(set(widths.values())) == 1:
        return f"{next(iter(widths.values()))} B"
    return ", ".join(f"{name} {width} B" for name, width in widths.items())


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _times(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}×"


def _evidence(report: RunReport) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    evidence = report.evidence
    rows: list[tuple[str, Status, str]] = []
    if evidence.correctness:
        rows.append(("correctness", evidence.correctness.status, _correctness(evidence.correctness)))
    if evidence.races:
        rows.append(("races", evidence.races.status, _races(evidence.races)))
    if evidence.sass:
        rows.append(("SASS", evidence.sass.status, _sass(evidence.sass)))
    if evidence.benchmark:
        rows.append(
            ("benchmark", evidence.benchmark.status, evidence.benchmark.reason or evidence.benchmark.device)
        )
    for name, status, text in rows:
        table.add_row(name, Text(status, _STYLE[status]), Text(text))
    return table


def _correctness(c: Correctness) -> str:
    """Sizes with one answer together, what went wrong first."""
    answers: dict[str, list[str]] = {"DIFFERS from the original at": [], "out of tolerance at": []}
    answers |= {"bitwise equal at": [], "original not deterministic at": []}
    for name, result in c.sizes.items():
        words = {
            True: "bitwise equal at",
            False: "DIFFERS from the original at",
            None: "original not deterministic at",
        }
        answers[words[result.bitwise]].append(name + _remark(result))
        if result.within_tolerance is False:
            answers["out of tolerance at"].append(name)
    parts = [f"{words} {', '.join(names)}" for words, names in answers.items() if names]
    errors = [r.max_abs_error for r in c.sizes.values() if r.max_abs_error is not None]
    parts += [f"error at most {max(errors):.2g}"] if errors else []
    parts += [c.reason] if c.reason else []
    return "; ".join(parts) + (f" ({c.device})" if c.device else "")


def _remark(result: SizeResult) -> str:
    remarks = [f"{result.sampled[0]} of {result.sampled[1]} blocks"] if result.sampled else []
    remarks += [result.note] if result.note else []
    return f" ({', '.join(remarks)})" if remarks else ""


def _races(races: Races) -> str:
    if not races.findings:
        return races.reason or f"no findings by {races.method}"
    shown = [f"{f.kind} {f.where} {_lines(f.lines)}: {f.message}" for f in races.findings[:MAX_FINDINGS]]
    more = len(races.findings) - len(shown)
    return "\n".join(shown + ([f"and {more} more"] if more else []))


def _lines(lines: Sequence[int]) -> str:
    return f"(line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))})" if lines else ""


def _sass(sass: Sass) -> str:
    if sass.status == "unknown":
        return "; ".join(sass.reasons)
    math = ""
    if sass.math_per_tile is not None and sass.math_per_tile_original is not None:
        math = f", math per tile {sass.math_per_tile_original:g} → {sass.math_per_tile:g}"
    window = f"{sass.window} cycles from load to wait" if sass.window is not None else "no overlap window"
    spills = f", spills {sass.spills} B" if sass.spills else ", no spills"
    facts = f"{sass.arch}: {window}, {sass.barriers_between} barriers between{math}{spills}"
    return "\n".join([facts, *sass.reasons])


def _benchmark(report: RunReport) -> Table | None:
    benchmark = report.evidence.benchmark
    if benchmark is None or benchmark.original is None:
        return None
    rate = benchmark.unit != "ms"
    table = _table(
        f"{benchmark.size}",
        "ms",
        *([benchmark.unit] if rate else []),
        "spread",
        "speed-up",
        numbers=range(1, 5),
    )

    def row(name: str, timing: Timing, speedup: float | None, style: str) -> None:
        metric = [f"{timing.rate:,.0f}" if timing.rate is not None else ""] if rate else []
        table.add_row(
            name, f"{timing.median_ms:.4g}", *metric, f"{timing.spread:.1%}", _times(speedup), style=style
        )

    row("original", benchmark.original, 1.0, "bold" if report.outcome == "original_kept" else "")
    for name, timing in _fastest_first(benchmark):
        row(name, timing, timing.speedup, "bold green" if name == report.chosen else "")
    return table


def _fastest_first(benchmark: Benchmark) -> list[tuple[str, Timing]]:
    return sorted(benchmark.candidates.items(), key=lambda item: item[1].median_ms)


def _chosen_timing(report: RunReport) -> Timing | None:
    benchmark = report.evidence.benchmark
    return benchmark.candidates.get(report.chosen or "") if benchmark else None


def _excerpt(report: RunReport) -> Table | None:
    sass = report.evidence.sass
    if sass is None or not sass.excerpt:
        return None
    table = Table.grid()
    for line in sass.excerpt[:EXCERPT_LINES]:
        table.add_row(Text(line, no_wrap=True, overflow="ellipsis"))
    if len(sass.excerpt) > EXCERPT_LINES:
        table.add_row(Text(f"… {len(sass.excerpt) - EXCERPT_LINES} more lines: tilepipe sass", "dim"))
    return table


def _checklist(report: RunReport) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for item in report.checklist:
        mark = Text(f"{_MARK[item.status]} {item.status}", _STYLE[item.status])
        table.add_row(mark, Text(item.item), Text(item.detail, "dim"))
    return table
