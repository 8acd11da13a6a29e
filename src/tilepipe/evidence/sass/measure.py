"""The main loop of a kernel and what overlaps what in it, as numbers; the verdict is `audit`'s."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tilepipe.evidence.sass.cfg import Graph, Loop
from tilepipe.evidence.sass.decode import Instruction
from tilepipe.evidence.sass.flow import SHARED_LOADS, find_math, reaches_shared_store
from tilepipe.evidence.sass.registers import access_bytes
from tilepipe.evidence.sass.scoreboard import wait_for
from tilepipe.evidence.sass.trace import Step, Trace, trace_through
from tilepipe.evidence.sass.trips import trip_count

# The share of a tile's work that must stand between a load and its wait. ptxas leaves asynchronous copies
# where the source has them; loads into registers it moves down into the math, to hold the registers for less
# time: 37–45 % of the tile are left in right kernels on every architecture, 0–5 % where nothing overlaps.
_COPY_SHARE = 0.5
_LOAD_SHARE = 0.25
_GLOBAL_LOADS = frozenset({"LDG", "LD", "LDGSTS"})


@dataclass(frozen=True)
class LoadFacts:
    """One global load or asynchronous copy of the main loop.

    `window` is the work (`flow.Math`) between issue and wait, `cycles` the issue cycles there (the sum of
    the stall counts), both over whole iterations where the wait comes in a later one, and
    `barriers_crossed` the block barriers there; `barriers_before_work` counts those before the `needed` work
    has been issued, `reads_before_barrier` is the share of a tile's shared loads between the wait and the
    block barrier after it. `wait` is None where the loop has none.
    """

    instruction: Instruction
    asynchronous: bool
    bytes: int
    wait: Instruction | None
    iterations: int
    window: int
    cycles: int
    barriers_crossed: int
    barriers_before_work: int
    reads_before_barrier: float
    tile_work: float

    @property
    def needed(self) -> float:
        """The work that should stand between issue and wait."""
        return self.tile_work * (_COPY_SHARE if self.asynchronous else _LOAD_SHARE)


@dataclass(frozen=True)
class _Body:
    """A trace with its work and its shared loads by step, and how much of either a tile has."""

    trace: Trace
    work: list[int]
    reads: list[int]
    tile_work: float
    tile_reads: float


@dataclass(frozen=True)
class LoopFacts:
    """The main loop: `tiles` per iteration as unrolled (None where the barriers do not tell), `math` per
    iteration, `counted` whether that is floating-point, tensor or dot-product math (else the text does not
    count it), `certain` whether all its weights are constants, `barriers` per iteration, and its loads."""

    loop: Loop
    trace: Trace
    tiles: int | None
    math: int
    counted: bool
    barriers: int
    certain: bool
    loads: tuple[LoadFacts, ...]

    @property
    def math_per_tile(self) -> float | None:
        """Math of one tile, None where a static count does not tell."""
        return self.math / self.tiles if self.counted and self.certain and self.tiles and self.math else None


def main_loops(graph: Graph) -> list[Loop]:
    """The innermost loops that fill shared memory from global memory behind block barriers and read it."""

    def fills_and_reads(loop: Loop) -> bool:
        code = [i for block in loop.blocks for i in graph.code(block) if not i.never_runs]
        has = {i.opcode for i in code}
        filled = "LDGSTS" in has or ("STS" in has and bool({"LDG", "LD"} & has))
        return any(i.is_barrier for i in code) and filled and bool(SHARED_LOADS & has)

    found = [loop for loop in graph.loops.values() if fills_and_reads(loop)]
    inner = [loop for loop in found if not any(other.blocks < loop.blocks for other in found)]
    return sorted(inner, key=lambda loop: loop.header)


def measure(
    graph: Graph, loop: Loop, barriers_per_tile: int, assumed_trips: int = 1, branches: bool = True
) -> LoopFacts:
    """Facts of a main loop in which every tile passes `barriers_per_tile` block barriers outside inner loops.

    Inner loops without a constant trip count are taken to run `assumed_trips` times. Without `branches`, only work that
    no branch passes by counts as work of a tile.
    """
    trips = {h: trip_count(graph, inner) for h, inner in graph.loops.items() if inner.blocks < loop.blocks}
    trace = trace_through(graph, loop, trips, assumed=assumed_trips)
    math = find_math(trace)
    barriers = sum(_is_tile_barrier(step) for step in trace.steps)
    tiles = _tiles(trace, barriers, barriers_per_tile)
    certain = trace.is_certain(k for k, mark in enumerate(math.all) if mark)
    return LoopFacts(
        loop=loop,
        trace=trace,
        tiles=tiles,
        math=_total(trace, math.all),
        counted=math.counted,
        barriers=barriers,
        certain=certain,
        loads=_loads(graph, loop, trips, tiles or 1, assumed_trips, branches),
    )


def _tiles(trace: Trace, barriers: int, barriers_per_tile: int) -> int | None:
    """Tiles per iteration by the barriers, if the loads do not speak against it: a tile has a load at least,
    and closes one group of copies."""
    tiles, rest = divmod(barriers, barriers_per_tile)
    opcodes = [step.instruction.opcode for step in trace.steps]
    groups, loads = opcodes.count("LDGDEPBAR"), sum(opcode in _GLOBAL_LOADS for opcode in opcodes)
    fits = not rest and 0 < tiles <= loads and groups in (0, tiles)
    return tiles if fits else None


def _is_tile_barrier(step: Step) -> bool:
    """A block barrier of the tile loop itself: one in an inner loop is the author's, within compute."""
    return step.instruction.is_barrier and not step.inner


def _total(trace: Trace, marks: list[int]) -> int:
    return sum(mark * trace.weight(index) for index, mark in enumerate(marks))


def _loads(
    graph: Graph, loop: Loop, trips: Mapping[int, int | None], tiles: int, assumed: int, branches: bool
) -> tuple[LoadFacts, ...]:
    """The asynchronous copies, and the loads whose values go to shared memory, each on a trace through it."""
    found = []
    for block in sorted(loop.blocks):
        wanted = [i for i in graph.code(block) if i.opcode in _GLOBAL_LOADS and not i.never_runs]
        if not wanted:
            continue
        trace = trace_through(graph, loop, trips, block, assumed)
        work = [
            mark if branches or step.always else 0
            for mark, step in zip(find_math(trace).work, trace.steps, strict=True)
        ]
        reads = [int(_is_shared_read(step.instruction)) for step in trace.steps]
        body = _Body(trace, work, reads, _total(trace, work) / tiles, _total(trace, reads) / tiles)
        for instruction in wanted:
            issue = trace.find(instruction)
            if issue is None:
                continue
            if instruction.opcode == "LDGSTS" or reaches_shared_store(trace, issue):
                found.append(_load(body, issue))
    return tuple(found)


def _is_shared_read(instruction: Instruction) -> bool:
    return instruction.opcode in SHARED_LOADS and not instruction.never_runs


def _load(body: _Body, issue: int) -> LoadFacts:
    instruction = body.trace.steps[issue].instruction
    scope, offset = _scope(body.trace, issue)
    work = body.work[offset : offset + len(scope.steps)]
    tile_work = body.tile_work
    wait = wait_for(scope, issue - offset)
    window = cycles = crossed = before = 0
    needed = tile_work * (_COPY_SHARE if instruction.opcode == "LDGSTS" else _LOAD_SHARE)
    if wait is not None:
        for place, turn in scope.cycle(wait.issue, wait.round + 1):
            step = scope.steps[place]
            if (place, turn) == (wait.step, wait.round):
                break
            weight = scope.weight(place, wait.issue if turn == 0 else None)
            if _is_tile_barrier(step):
                crossed += 1
                before += window < needed
            window += work[place] * weight
            cycles += step.instruction.control.stall * weight
    return LoadFacts(
        instruction=instruction,
        asynchronous=instruction.opcode == "LDGSTS",
        bytes=access_bytes(instruction),
        wait=None if wait is None else scope.steps[wait.step].instruction,
        iterations=0 if wait is None else wait.round,
        window=window,
        cycles=cycles,
        barriers_crossed=crossed,
        barriers_before_work=before,
        reads_before_barrier=0.0 if wait is None else _reads_before_barrier(body, offset + wait.step),
        tile_work=tile_work,
    )


def _scope(trace: Trace, issue: int) -> tuple[Trace, int]:
    """The part of the trace in which a load is waited for: the innermost loop around it that holds a wait (an
    inner copy loop waits for its own loads, an iteration later perhaps), else the whole."""
    for header in trace.steps[issue].inner:
        inside = [k for k, step in enumerate(trace.steps) if header in step.inner]
        outer = trace.steps[inside[0]].inner
        outer = outer[outer.index(header) :]
        steps = tuple(
            replace(step, inner=tuple(h for h in step.inner if h not in outer))
            for step in trace.steps[inside[0] : inside[-1] + 1]
        )
        part = Trace(steps, trace.trips, trace.assumed)
        if wait_for(part, issue - inside[0]) is not None:
            return part, inside[0]
    return trace, 0


def _reads_before_barrier(body: _Body, wait: int) -> float:
    """The share of a tile's shared loads that stands between the wait and the next block barrier."""
    trace = body.trace
    if trace.steps[wait].instruction.is_barrier:
        return 0.0
    count = 0
    for place, _ in trace.cycle(wait, 1):
        if trace.steps[place].instruction.is_barrier:
            break
        count += body.reads[place] * trace.weight(place)
    return count / body.tile_reads if body.tile_reads else 0.0
