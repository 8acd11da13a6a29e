"""Findings by emulation: the kernel runs on the CPU under the memory model, at several numbers of tiles, with
asynchronous copies landing as late and as early as the model allows."""

from __future__ import annotations

from collections.abc import Sequence

from tilepipe.diagnostics import Diagnostic, Refusal
from tilepipe.launch.types import Device, Finding, LaunchOptions
from tilepipe.problem import KernelProblem, Parameter, Sizes, make_case
from tilepipe.problem.cases import tile_sizes
from tilepipe.source import SourceFile, Span
from tilepipe.toolchain.types import Unit

_TILES = (1, 2, 3, 4, 5)
_SHORT = ("short0", "short1", "short2", "ragged")
_COPIES = ("late", "early")


def emulate(
    source: SourceFile,
    unit: Unit,
    device: Device,
    arch: str,
    problem: KernelProblem,
    parameters: Sequence[Parameter],
    seed: int,
) -> tuple[Diagnostic, ...] | Refusal:
    """What the memory model catches in block 0 at each size, one diagnostic for each kind and line.

    Refuses where the kernel does not compile or the problem file does not fit it.
    """
    loaded = device.load(unit, arch)
    if isinstance(loaded, Refusal):
        return loaded
    found: dict[tuple[str, tuple[int, ...]], Diagnostic] = {}
    for name, sizes in _sizes(problem).items():
        for copies in _COPIES:
            case = make_case(problem, sizes, parameters, seed)
            if isinstance(case, Refusal):
                return case
            result = loaded.run(case, LaunchOptions(blocks=(0,), copies=copies))  # type: ignore[arg-type]
            if isinstance(result, Refusal):
                return result
            for one in result.findings:
                found.setdefault((one.kind, one.lines), _shown(source, one, name, copies))
    return tuple(found.values())


def _sizes(problem: KernelProblem) -> dict[str, Sizes]:
    """Tile counts made from the smallest size set where the problem says what a tile is, and the short and
    ragged sets; without either the smallest set alone."""
    base = min(
        problem.sizes, key=lambda name: sum(problem.sizes[name].values()) if name not in _SHORT else 1 << 62
    )
    chosen: dict[str, Sizes] = dict(tile_sizes(problem, base, _TILES))
    chosen |= {name: problem.sizes[name] for name in _SHORT if name in problem.sizes}
    return chosen or {base: problem.sizes[base]}


def _shown(source: SourceFile, found: Finding, size: str, copies: str) -> Diagnostic:
    last = source.text.count("\n") + 1
    sides = [(n, called) for n, called in zip(found.lines, found.called, strict=True) if 0 < n <= last]
    place = source.place(_line(source, sides[0][0])) if sides else None
    other = (
        f"; the other side is line {''.join(map(str, sides[1]))}"
        if sides[1:] and sides[1] != sides[0]
        else ""
    )
    message = f"{found.kind}: {found.message} (size {size}, copies landing {copies}){other}"
    return Diagnostic(
        "TP530",
        "error",
        message,
        place,
        f"caught here{sides[0][1] if sides else ''}",
        "order the copies, the wait and the barrier so that no thread depends on luck",
    )


def _line(source: SourceFile, number: int) -> Span:
    """The text of a line without its indentation."""
    data = source.data
    start = 0
    for _ in range(number - 1):
        start = data.find(b"\n", start) + 1
    end = data.find(b"\n", start)
    line = data[start : len(data) if end < 0 else end]
    return Span(start + len(line) - len(line.lstrip()), start + len(line.rstrip()))
