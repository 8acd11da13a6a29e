"""`tilepipe emulate`: the result as tables and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console

    from tilepipe.emulating import Emulation, SizeRun


def blocks_of(text: str) -> int | None:
    """The value of --blocks: None for as many as take seconds, 0 for all. Raises typer.BadParameter."""
    import typer

    if text in ("", "all"):
        return 0 if text else None
    if not text.isdecimal() or int(text) == 0:
        raise typer.BadParameter("--blocks: a number from 1, or all")
    return int(text)


def print_emulation(result: Emulation, console: Console) -> None:
    """A verdict, a row for each size, and where memory is used badly, at the size with most requests."""
    from tilepipe.report.terminal import unpadded

    with unpadded(console):
        _print(result, console)


def _print(result: Emulation, console: Console) -> None:
    verdict = "clean" if result.is_clean else "NOT clean"
    sizes = f"{len(result.runs)} size{'' if len(result.runs) == 1 else 's'}"
    copies = " and ".join(result.copies)
    console.print(
        f"{result.file}:{result.line}: {result.kernel}: {verdict} at {sizes} on the CPU"
        + (f", asynchronous copies landing {copies}" if len(result.copies) > 1 else ""),
        style="bold green" if result.is_clean else "bold red",
        soft_wrap=True,
    )
    for note in result.notes:
        console.print(f"note: {note}", style="dim", soft_wrap=True)
    _section(console, "sizes", _sizes(result))
    shown = max(result.runs, key=lambda n: _requests(result.runs[n]), default=None)
    if shown is None:
        return
    run = result.runs[shown]
    _section(console, f"shared memory (size {shown}): wavefronts a warp's access takes", _shared(run))
    _section(console, f"global memory (size {shown}): 32-byte sectors a warp's access touches", _global(run))
    if run.profile.uncounted:
        console.print(
            f"{run.profile.uncounted} accesses are not in these tables: too many between two barriers"
        )


def _requests(run: SizeRun) -> int:
    profile = run.profile
    return sum(a.requests for a in profile.shared) + sum(a.requests for a in profile.global_)


def _section(console: Console, title: str, table: Table) -> None:
    if table.row_count:
        console.print(Text(f"\n{title}", "bold"))
        console.print(Padding(table, (0, 0, 0, 2), expand=False))


def _table(words: Sequence[str], numbers: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for column in words:
        table.add_column(column, no_wrap=True)
    for column in numbers:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _sizes(result: Emulation) -> Table:
    table = _table(
        ("size", "blocks", "reference", "findings"), ("tiles", "bytes/tile", "FLOP/tile", "FLOP/byte")
    )
    for name, run in result.runs.items():
        work = run.work
        table.add_row(
            name,
            f"{run.blocks[0]} of {run.blocks[1]}",
            _reference(run),
            str(len(run.findings) or "none"),
            str(work.tiles or ""),
            _number(work.bytes_per_tile, 0),
            _number(work.flops_per_tile, 0),
            _number(work.flops_per_byte, 1),
        )
    return table


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _reference(run: SizeRun) -> str:
    if run.within is None:
        return f"not compared: {run.why_not}"
    return f"{'within' if run.within else 'OUTSIDE'}, error {run.max_abs_error or 0.0:.2g}"


def _shared(run: SizeRun) -> Table:
    table = _table(("line", "what", "array"), ("accesses", "average", "worst", "least", "degree"))
    for a in run.profile.shared:
        least = f"{a.least / a.requests:.1f}"
        degree = f"{a.degree:.1f}"
        cells = (str(a.requests), f"{a.average:.1f}", str(a.worst), least, degree)
        table.add_row(str(a.line), a.operation, a.array, *cells, style="yellow" if a.degree > 1 else None)
    return table


def _global(run: SizeRun) -> Table:
    table = _table(("line", "what", "array"), ("accesses", "sectors", "bytes", "used"))
    for a in run.profile.global_:
        cells = (str(a.requests), f"{a.average:.1f}", f"{a.bytes / a.requests:.0f}", f"{a.efficiency:.0%}")
        table.add_row(str(a.line), a.operation, a.array, *cells, style="yellow" if a.efficiency < 1 else None)
    return table


def emulation_json(result: Emulation) -> dict[str, Any]:
    """The result as plain JSON values; names that are published stay, fields may be added."""
    from tilepipe import __version__
    from tilepipe.report import SCHEMA_VERSION

    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "tilepipe", "version": __version__},
        "kernel": {"name": result.kernel, "file": result.file, "line": result.line},
        "clean": result.is_clean,
        "copies": list(result.copies),
        "notes": list(result.notes),
        "sizes": {name: _run_json(run) for name, run in result.runs.items()},
    }


def _run_json(run: SizeRun) -> dict[str, Any]:
    work = run.work
    return {
        "sizes": dict(run.sizes),
        "blocks_run": run.blocks[0],
        "blocks_total": run.blocks[1],
        "within_tolerance": run.within,
        "max_abs_error": run.max_abs_error,
        "findings": [
            {
                "kind": f.kind,
                "message": f.message,
                "lines": list(f.lines),
                **({"calls": list(f.calls)} if any(f.calls) else {}),
                "where": f.where,
                "threads": list(f.threads),
                "interval": f.interval,
                "block": list(f.block),
            }
            for f in run.findings
        ],
        "work": {
            "load_bytes": work.load_bytes,
            "flops": work.flops,
            "flops_per_byte": work.flops_per_byte,
            "tiles": work.tiles or None,
            "load_bytes_per_tile": work.bytes_per_tile,
            "flops_per_tile": work.flops_per_tile,
        },
        "shared": [
            {
                "line": a.line,
                "operation": a.operation,
                "array": a.array,
                "requests": a.requests,
                "wavefronts": a.average,
                "worst": a.worst,
                "degree": a.degree,
            }
            for a in run.profile.shared
        ],
        "global": [
            {
                "line": a.line,
                "operation": a.operation,
                "array": a.array,
                "requests": a.requests,
                "sectors": a.average,
                "bytes": a.bytes,
                "efficiency": a.efficiency,
            }
            for a in run.profile.global_
        ],
        "uncounted": run.profile.uncounted,
    }
