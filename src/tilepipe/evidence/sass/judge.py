"""Judges a main loop: what each of its loads overlaps, and which of several loops decides."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from tilepipe.evidence.sass.cfg import Graph, Loop
from tilepipe.evidence.sass.hiding import hides_less, hides_nothing
from tilepipe.evidence.sass.measure import LoadFacts, LoopFacts, main_loops, measure
from tilepipe.evidence.types import Status
from tilepipe.gpu import MAX_THREADS_PER_BLOCK

NOT_OVERLAPPED = "TP420"
BARRIER_BETWEEN = "TP421"
NOT_WAITED = "TP422"
NOT_PUBLISHED = "TP423"
MATH_DIFFERS = "TP424"
SPILLS = "TP425"
TRAP = "TP426"
NO_ASYNC = "TP427"
NO_LOOP = "TP430"
AMBIGUOUS = "TP431"
NO_ENCODING = "TP432"
TOO_LITTLE_MATH = "TP435"
FEWER_WARPS = "TP436"

_PLACES = frozenset((NOT_OVERLAPPED, BARRIER_BETWEEN))  # findings on where in the math a load stands
_TILE_READ = 0.5  # of a tile's shared loads; a thread may read back a little that it copied itself
_MANY_TRIPS = 64  # the other extreme for inner loops whose trips are unknown
_MBARRIER = frozenset(("ARRIVES", "SYNCS"))


@dataclass(frozen=True)
class Expectation:
    """What the rewriter knows about the loop that it emitted.

    `asynchronous`: there are cp.async copies. `registers`: loads through registers belong to the pipeline too;
    with False they are the author's (say, a gather within compute), and only copies are judged.
    `barriers`: block barriers that a tile of the emitted loop passes, the author's included,
    `barriers_original` the same of the original, `author_barriers` how many of them stand inside compute; in
    all of them, barriers in inner loops do not count.
    `fallback`: the author's loop stands beside the pipelined one, behind a dispatch. `math_per_tile` and
    `math_per_tile_original` are counts per thread and tile from the emulator, where there are any; they
    replace the static ones. `stages` is the depth of the ring: a copy issued for a stage must be waited for
    before that stage is read, `stages` - 1 tiles later. `fragments`: a tile's barrier stands before its last
    group, and copies may be issued in any of them, so that it may follow soon. `threads` of a block: without
    knowing, as many as a block can have. `warps` of an SM that are resident, and `warps_original`; zero where
    nobody said.
    """

    asynchronous: bool
    barriers: int = 1
    barriers_original: int = 2
    author_barriers: int = 0
    fallback: bool = False
    math_per_tile: float | None = None
    math_per_tile_original: float | None = None
    stages: int | None = None
    registers: bool = True
    fragments: bool = False
    threads: int = MAX_THREADS_PER_BLOCK
    warps: int = 0
    warps_original: int = 0


@dataclass(frozen=True)
class Finding:
    """Something that speaks against the loop, or that leaves the verdict open."""

    code: str
    status: Literal["failed", "unknown"]
    message: str


def status_of(findings: list[Finding]) -> Status:
    """Failed where anything failed, unknown where anything is open."""
    found = {finding.status for finding in findings}
    return "failed" if "failed" in found else "unknown" if found else "passed"


def main_loop(graph: Graph, expected: Expectation) -> tuple[LoopFacts | None, list[Finding]]:
    """The pipelined loop with the findings about it; of several, the one that decides."""
    if graph.irreducible:
        return None, [
            Finding(NO_LOOP, "unknown", "the control flow is irreducible, so its loops are unknown")
        ]
    candidates = main_loops(graph)
    if not candidates:
        message = "no loop fills shared memory from global memory behind barriers (perhaps unrolled away)"
        return None, [Finding(NO_LOOP, "unknown", message)]
    if expected.asynchronous:
        candidates = [loop for loop in candidates if _has(graph, loop, "LDGSTS")]
        if not candidates:
            message = "the main loop holds no asynchronous copy (LDGSTS)"
            return None, [Finding(NO_ASYNC, "failed", message)]
    return _deciding([_judge(graph, loop, expected) for loop in candidates], graph, expected)


def too_little_to_tell(facts: LoopFacts, expected: Expectation) -> list[Finding]:
    """What leaves the verdict on a loop open against which nothing else is found."""
    if message := hides_nothing(facts, expected.threads):
        return [Finding(TOO_LITTLE_MATH, "unknown", message)]
    cycles = [load.cycles for load in judged_loads(facts, expected)]
    if message := hides_less(cycles, expected.warps, expected.warps_original):
        return [Finding(FEWER_WARPS, "unknown", message)]
    return []


def _deciding(
    judged: list[tuple[LoopFacts, list[Finding]]], graph: Graph, expected: Expectation
) -> tuple[LoopFacts, list[Finding]]:
    """The loop whose verdict counts.

    Several are copies of one that the compiler made (the tile loop unrolled, and its remainder): the one with
    the most tiles per iteration decides. Or the author's loop was kept as a fallback: one has to pass.
    """
    passed = [pair for pair in judged if not pair[1]]
    if expected.fallback and passed:
        return max(passed, key=lambda pair: _least_window(pair[0]))
    tiles = [facts.tiles or 0 for facts, _ in judged]
    widest = [pair for pair in judged if pair[0].tiles == max(tiles)]
    copies = agreed(facts.math_per_tile for facts, _ in judged) is not None
    if (len(widest) == 1 and copies) or len(passed) in (0, len(judged)):
        return max(widest or judged, key=lambda pair: _least_window(pair[0]))
    where = ", ".join(f"0x{loop_address(graph, facts.loop):04x}" for facts, _ in judged)
    message = f"{len(judged)} loops ({where}) could be the main loop, only {len(passed)} of them overlap"
    return passed[0][0], [Finding(AMBIGUOUS, "unknown", message)]


def _least_window(facts: LoopFacts) -> int:
    return min((load.window for load in facts.loads), default=0)


def _judge(graph: Graph, loop: Loop, expected: Expectation) -> tuple[LoopFacts, list[Finding]]:
    facts = measure(graph, loop, expected.barriers)
    findings = _judge_loads(facts, expected)
    if not facts.certain:
        other = _judge_loads(measure(graph, loop, expected.barriers, _MANY_TRIPS), expected)
        if status_of(other) != status_of(findings):
            message = "the verdict depends on the trip count of an inner loop, which is not a constant"
            return facts, [Finding(AMBIGUOUS, "unknown", message)]
    if not findings and _hidden_by_branches(graph, loop, expected):
        message = "the math between a load and its wait stands in a branch that iterations may pass by"
        return facts, [Finding(AMBIGUOUS, "unknown", message)]
    if findings and facts.tiles is None:
        message = (
            f"{facts.barriers} barriers an iteration at {expected.barriers} a tile do not tell how often "
            "the tile loop is unrolled"
        )
        return facts, [Finding(AMBIGUOUS, "unknown", message)]
    return facts, findings


def _hidden_by_branches(graph: Graph, loop: Loop, expected: Expectation) -> bool:
    """Whether loads overlap only where a branch is taken; not where all of a tile's math stands in branches."""
    facts = measure(graph, loop, expected.barriers, branches=False)
    return any(load.tile_work for load in facts.loads) and bool(_judge_loads(facts, expected))


def _judge_loads(facts: LoopFacts, expected: Expectation) -> list[Finding]:
    if not facts.loads:
        return [Finding(NO_LOOP, "unknown", "no load of the main loop is seen to end in shared memory")]
    if not any(load.tile_work for load in facts.loads):
        return [Finding(AMBIGUOUS, "unknown", "no math on data from shared memory is seen in the main loop")]
    mbarrier = any(step.instruction.opcode in _MBARRIER for step in facts.trace.steps)
    found: dict[str, list[Finding]] = {}
    for load in judged_loads(facts, expected):
        for finding in _judge_load(load, expected, mbarrier):
            found.setdefault(finding.code, []).append(finding)
    if hides_nothing(facts, expected.threads):  # where the loads stand is then neither right nor wrong
        found = {code: all_of_it for code, all_of_it in found.items() if code not in _PLACES}
    return [_gathered(findings) for findings in found.values()]


def judged_loads(facts: LoopFacts, expected: Expectation) -> tuple[LoadFacts, ...]:
    """The loads that belong to the pipeline."""
    return tuple(load for load in facts.loads if load.asynchronous or expected.registers)


def _gathered(findings: list[Finding]) -> Finding:
    """One finding for all loads that have it: the first, and how many more."""
    first, more = findings[0], len(findings) - 1
    return replace(first, message=f"{first.message} (and {more} more loads)") if more else first


def _judge_load(load: LoadFacts, expected: Expectation, mbarrier: bool) -> list[Finding]:
    name = f"{load.instruction.opcode} at 0x{load.instruction.address:04x}"
    if load.wait is None:
        if load.asynchronous and not mbarrier:
            return [Finding(NOT_WAITED, "failed", f"{name} is not waited for by any DEPBAR of the loop")]
        where = ", it may end on an mbarrier" if mbarrier else ""
        return [Finding(NOT_WAITED, "unknown", f"no wait for {name} is seen{where}")]
    found = []
    if load.window < load.needed:
        message = (
            f"{name} is waited for at 0x{load.wait.address:04x} after {load.window:g} math instructions of "
            f"{load.tile_work:g} a tile; at least {load.needed:g} should hide it"
        )
        found.append(Finding(NOT_OVERLAPPED, "failed", message))
    elif load.reads_before_barrier >= _TILE_READ:
        message = f"no block barrier stands between the wait for {name} and the reads of its tile"
        found.append(Finding(NOT_PUBLISHED, "failed", message))
    elif _waited_late(load, expected):
        message = (
            f"{name} is waited for {load.barriers_crossed} block barrier(s) later, when its stage of a ring "
            f"of {expected.stages} has been read already"
        )
        found.append(Finding(NOT_WAITED, "failed", message))
    if load.window >= load.needed and (between := barriers_between(load, expected)):
        message = f"{between} block barrier(s) stand between {name} and the math that should hide it"
        found.append(Finding(BARRIER_BETWEEN, "failed", message))
    return found


def _waited_late(load: LoadFacts, expected: Expectation) -> bool:
    """Whether an asynchronous copy is complete only after the tile that it belongs to has begun: a ring of S
    stages passes the barriers of S - 2 tiles in between, and the author's own of the tile of the issue."""
    if not load.asynchronous or expected.stages is None:
        return False
    return load.barriers_crossed > (expected.stages - 2) * expected.barriers + expected.author_barriers


def barriers_between(load: LoadFacts, expected: Expectation) -> int:
    """Barriers of ours between the issue and the math: the author's own inside compute do not count, the
    one before a tile's last group, which a copy passes in flight, does not either."""
    return max(0, load.barriers_before_work - expected.author_barriers - expected.fragments)


def agreed(values: Iterable[float | None]) -> float | None:
    """The value that all share, None where they differ or one is unknown."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None


def _has(graph: Graph, loop: Loop, opcode: str) -> bool:
    return any(i.opcode == opcode for block in loop.blocks for i in graph.code(block))


def loop_address(graph: Graph, loop: Loop) -> int:
    """The byte offset of the loop in its function."""
    return graph.code(loop.header)[0].address
