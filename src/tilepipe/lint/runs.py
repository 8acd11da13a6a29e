"""Which walks tell about a kernel: the size that drives its tile loop, and one walk per number of tiles."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilepipe.kernel.file import KernelText
from tilepipe.lint.events import LoopInfo, NotUnderstoodError, Trace
from tilepipe.lint.machine import Machine, Played, staged_buffers
from tilepipe.lint.program import Program
from tilepipe.lint.state import Launch
from tilepipe.lint.walk import integer_parameters, walk

_FAR = 24  # turns
LARGE = 8192  # a size that drives nothing: large and a multiple of every usual tile
STEPS = (1, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
TILES = tuple(range(1, 8))
_PROBES = (5, 6, 7)  # tiles; the loop must turn once more for one tile more


@dataclass(frozen=True)
class Driver:
    """The parameter whose value sets the number of tiles, and how much of it one tile takes."""

    parameter: str
    step: int


@dataclass
class Runs:
    """A kernel as it was played. `tiles` maps a tile count to what happened; without a driver there is one
    entry, under the count 0 (or the counts of forced turns)."""

    kernel: KernelText
    launch: Launch
    driver: Driver | None
    tiles: dict[int, Played]
    ragged: Played | None = None  # the last tile is a part of one

    @property
    def steady(self) -> Played:
        """The longest run."""
        return self.tiles[max(self.tiles)]


def play_kernel(program: Program, kernel: KernelText, launch: Launch) -> Runs | None:
    """Walk and play the kernel; None where it has no pipeline. Raises NotUnderstoodError."""
    names = integer_parameters(program, kernel)
    base = replace(launch, parameters={**dict.fromkeys(names, LARGE), **launch.parameters})
    first = walk(program, kernel, replace(base, max_turns=2))
    whole = first
    if not _pipelined(first):
        whole = walk(program, kernel, replace(base, max_turns=_FAR))
        if not _pipelined(whole):
            return None
    driver = _driver(program, kernel, base, whole)
    if driver is None:
        return _without_driver(program, kernel, base)
    tiles = {}
    for count in TILES:
        tiles[count] = _play(program, kernel, _sized(base, driver, count))
    ragged = None
    if driver.step > 1:
        size = {driver.parameter: 4 * driver.step - 1}
        ragged = _play(program, kernel, replace(base, parameters={**base.parameters, **size}))
    return Runs(kernel, base, driver, tiles, ragged)


def _sized(base: Launch, driver: Driver, count: int) -> Launch:
    return replace(base, parameters={**base.parameters, driver.parameter: count * driver.step})


def _play(program: Program, kernel: KernelText, launch: Launch) -> Played:
    trace = walk(program, kernel, launch)
    return Machine(trace, staged_buffers(trace)).play()


def _pipelined(trace: Trace) -> bool:
    copied = any(e.kind == "copy" for e in trace.events)
    return copied or bool(staged_buffers(trace))


def _without_driver(program: Program, kernel: KernelText, base: Launch) -> Runs:
    """Loops of a fixed length are walked as they are, others for each of several numbers of turns."""
    short = walk(program, kernel, replace(base, max_turns=64))
    if short.stopped:
        raise NotUnderstoodError("what sets the number of tiles is not clear")
    if not short.forced:
        return Runs(kernel, base, None, {0: Machine(short, staged_buffers(short)).play()})
    tiles = {n: _play(program, kernel, replace(base, forced_turns=n)) for n in TILES}
    return Runs(kernel, base, None, tiles)


def _driver(program: Program, kernel: KernelText, base: Launch, trace: Trace) -> Driver | None:
    loops = _main_loops(trace)
    names = [
        t.removeprefix("parameter ")
        for info in loops
        for t in sorted(info.tags)
        if t.startswith("parameter ")
    ]
    for name in dict.fromkeys(names):
        if name not in base.parameters:
            continue
        step = _step(program, kernel, base, name, loops)
        for candidate in (step,) if step else STEPS:
            if step or _drives(program, kernel, base, Driver(name, candidate)):
                return Driver(name, candidate)
    return None


def _step(program: Program, kernel: KernelText, base: Launch, name: str, loops: list[LoopInfo]) -> int | None:
    """How much of parameter `name` one turn takes, from the loop's bound at two sizes."""
    busiest = loops[0]
    if f"parameter {name}" not in busiest.tags or len(busiest.gaps) < 2:
        return None
    twice = replace(base, parameters={**base.parameters, name: 2 * LARGE}, max_turns=2)
    again = walk(program, kernel, twice).loops.get(busiest.span)
    taken = abs(busiest.gaps[0] - busiest.gaps[1])
    if again is None or not again.gaps or not taken:
        return None
    slope = abs(again.gaps[0] - busiest.gaps[0]) / LARGE
    step = taken / slope if slope else 0
    return int(step) if step >= 1 and step == int(step) else None


def _drives(program: Program, kernel: KernelText, base: Launch, driver: Driver) -> bool:
    """Whether the busiest loop turns once more for every `step` more."""
    before = None
    for count in _PROBES:
        turns = _turns(program, kernel, base, driver, count)
        if not turns or (before is not None and turns != before + 1):
            return False
        before = turns
    return True


def _main_loops(trace: Trace) -> list[LoopInfo]:
    """Loops that synchronise, those with the most events first."""
    weight: dict[object, int] = {}
    for event in trace.events:
        for turn in event.turns:
            weight[turn.loop] = weight.get(turn.loop, 0) + (event.kind in ("barrier", "wait", "read"))
    return sorted(trace.loops.values(), key=lambda info: -weight.get(info.span, 0))


def _turns(program: Program, kernel: KernelText, base: Launch, driver: Driver, count: int) -> int | None:
    """How often the busiest loop turns; None where it goes on far longer than `count`."""
    trace = walk(program, kernel, replace(_sized(base, driver, count), max_turns=_FAR))
    loops = _main_loops(trace)
    return None if trace.stopped or not loops else loops[0].turns
