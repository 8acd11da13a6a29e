"""The main loop's schedule on a time axis: when one warp issues its loads, waits, barriers and math.

Time is counted in issue cycles: the stall counts that the compiler encoded, summed. That is the schedule of a
warp alone on its scheduler whose waits are all over at once, so it shows what *may* be hidden behind what, and
not how long memory takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil

from tilepipe.evidence.sass.decode import Instruction
from tilepipe.evidence.sass.flow import find_math
from tilepipe.evidence.sass.measure import LoadFacts, LoopFacts
from tilepipe.evidence.sass.trace import Trace
from tilepipe.evidence.types import EventKind, Timeline, TimelineEvent

TILES = 2  # shown: enough to see a load of one tile under the math of another
_MOST_STEPS = 50_000  # issues of one iteration, inner loops rolled out; beyond, there is no timeline
_RUN_GAP = 16  # cycles without math that do not end a run of it


@dataclass(frozen=True)
class _Issue:
    """Step `index` of the trace, issued `cycle` cycles into its iteration."""

    index: int
    cycle: int


@dataclass(frozen=True)
class _Schedule:
    """One iteration, inner loops rolled out: its issues in order, and its length in cycles."""

    trace: Trace
    issues: tuple[_Issue, ...]
    period: int

    def instruction(self, issue: _Issue) -> Instruction:
        return self.trace.steps[issue.index].instruction


def timeline(facts: LoopFacts, tiles: int = TILES) -> Timeline | None:
    """`tiles` tiles of a main loop in its steady state; one iteration where it is unknown how many tiles that
    is. A load counts as in flight from its issue to its wait, so it may begin before the window or end after
    it. None where an iteration is too long to be drawn."""
    schedule = _schedule(facts.trace)
    if schedule is None or schedule.period == 0:
        return None
    length = round(schedule.period * tiles / facts.tiles) if facts.tiles else schedule.period
    once = [*_flights(schedule, facts), *_marks(schedule, facts), *_math(schedule)]
    shown = [event for one in once for event in _repeated(one, schedule.period, length)]
    shown.sort(key=lambda event: (event.cycle, event.kind, event.label))
    return Timeline(length, tiles if facts.tiles else None, tuple(shown), facts.certain)


def _schedule(trace: Trace) -> _Schedule | None:
    issues: list[_Issue] = []
    cycle = 0
    for index in _rolled_out(trace, range(len(trace.steps)), 0):
        if len(issues) == _MOST_STEPS:
            return None
        issues.append(_Issue(index, cycle))
        cycle += trace.steps[index].instruction.control.stall
    return _Schedule(trace, tuple(issues), cycle)


def _rolled_out(trace: Trace, indices: Sequence[int], depth: int) -> Iterator[int]:
    """Steps in the order of execution; `depth` loops around `indices` are being executed already."""

    def header(index: int) -> int | None:
        around = trace.steps[index].inner  # innermost first
        return around[-1 - depth] if len(around) > depth else None

    for loop, members in groupby(indices, header):
        inside = list(members)
        if loop is None:
            yield from inside
        else:
            for _ in range(trace.trips[loop] or trace.assumed):
                yield from _rolled_out(trace, inside, depth + 1)


def _repeated(event: TimelineEvent, period: int, length: int) -> Iterator[TimelineEvent]:
    """The event of every iteration that shows in the window [0, `length`)."""
    first = -ceil((event.cycle + event.cycles) / period)
    for turn in range(first, length // period + 1):
        start = event.cycle + turn * period
        if start < length and (start >= 0 or start + event.cycles > 0):
            yield TimelineEvent(event.kind, start, event.cycles, event.label)


# -- loads in flight -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Flight:
    """A load between its issue and its wait, in cycles from the start of the iteration of the issue."""

    start: int
    end: int
    load: LoadFacts

    def is_close_to(self, other: _Flight) -> bool:
        return max(abs(self.start - other.start), abs(self.end - other.end)) <= _RUN_GAP


def _flights(schedule: _Schedule, facts: LoopFacts) -> Iterator[TimelineEvent]:
    """Loads from issue to wait; those that begin and end next to each other are one event."""
    by_instruction = {load.instruction: load for load in facts.loads}
    group: list[_Flight] = []
    for place, issue in enumerate(schedule.issues):
        load = by_instruction.get(schedule.instruction(issue))
        end = _end(schedule, place, load) if load is not None else None
        if load is None or end is None:
            continue
        flight = _Flight(issue.cycle, end, load)
        if group and not flight.is_close_to(group[-1]):
            yield _flight(group)
            group = []
        group.append(flight)
    if group:
        yield _flight(group)


def _flight(group: Sequence[_Flight]) -> TimelineEvent:
    start, end = min(f.start for f in group), max(f.end for f in group)
    return TimelineEvent("load", start, end - start, _names(f.load for f in group))


def _end(schedule: _Schedule, place: int, load: LoadFacts) -> int | None:
    """The cycle of the wait for the load at `place`, counted from the start of the load's iteration."""
    if load.wait is None:
        return None
    waits = [k for k, issue in enumerate(schedule.issues) if schedule.instruction(issue) is load.wait]
    if not waits:
        return None
    later = [k for k in waits if k > place]
    if later and (load.iterations == 0 or _shares_inner_loop(schedule, place, later[0])):
        return schedule.issues[later[0]].cycle
    return schedule.issues[waits[0]].cycle + max(load.iterations, 1) * schedule.period


def _shares_inner_loop(schedule: _Schedule, load: int, wait: int) -> bool:
    """Whether a load and its wait stand in one inner loop, whose iterations are then the ones counted."""
    steps = schedule.trace.steps
    around = steps[schedule.issues[load].index].inner
    return bool(set(around) & set(steps[schedule.issues[wait].index].inner))


def _names(loads: Iterable[LoadFacts]) -> str:
    """`4 × LDGSTS.128` for loads that are alike, joined where there are several kinds."""
    counts: dict[str, int] = {}
    for load in loads:
        name = f"{load.instruction.opcode}.{load.bytes * 8}"
        counts[name] = counts.get(name, 0) + 1
    return ", ".join(f"{count} × {name}" for name, count in counts.items())


# -- single issues, and math -----------------------------------------------------------------------------------------


def _marks(schedule: _Schedule, facts: LoopFacts) -> Iterator[TimelineEvent]:
    """Waits for loads, stores to shared memory and block barriers."""
    waits = {load.wait for load in facts.loads if load.wait is not None}
    issues = [i for i in schedule.issues if not schedule.instruction(i).never_runs]
    for issue in issues:
        if schedule.instruction(issue).is_barrier:
            yield _span(schedule, "barrier", [issue], schedule.instruction(issue).text)
    for run in _runs([i for i in issues if schedule.instruction(i) in waits]):
        more = f" and {len(run) - 1} more" if len(run) > 1 else ""
        yield _span(schedule, "wait", run, schedule.instruction(run[0]).text + more)
    for run in _runs([i for i in issues if schedule.instruction(i).opcode == "STS"]):
        yield _span(schedule, "store", run, f"{len(run)} × STS")


def _math(schedule: _Schedule) -> Iterator[TimelineEvent]:
    """Runs of math."""
    work = find_math(schedule.trace).work
    barriers = [i.cycle for i in schedule.issues if schedule.instruction(i).is_barrier]
    for run in _runs([i for i in schedule.issues if work[i.index]], barriers):
        opcodes = sorted({schedule.instruction(issue).opcode for issue in run})
        count = sum(work[issue.index] for issue in run)
        yield _span(schedule, "math", run, f"{count} × {', '.join(opcodes)}")


def _runs(issues: Sequence[_Issue], cuts: Sequence[int] = ()) -> Iterator[list[_Issue]]:
    """Issues next to each other, at most `_RUN_GAP` cycles apart and with none of the cycles `cuts` between."""
    run: list[_Issue] = []
    for issue in issues:
        if run:
            last = run[-1].cycle
            if issue.cycle - last > _RUN_GAP or any(last < cut <= issue.cycle for cut in cuts):
                yield run
                run = []
        run.append(issue)
    if run:
        yield run


def _span(schedule: _Schedule, kind: EventKind, issues: Sequence[_Issue], label: str) -> TimelineEvent:
    last = issues[-1]
    end = last.cycle + schedule.instruction(last).control.stall
    return TimelineEvent(kind, issues[0].cycle, end - issues[0].cycle, label)
