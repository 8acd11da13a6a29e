"""The abstract machine: groups in flight per thread, and what every stage of every buffer holds.

It plays one trace. A `Fill` is one tile's worth of one buffer: the copies (or stores) of one group to one
stage. Copies belong to the group that is committed next; a wait completes groups, oldest first; completion
reaches other threads at the next barrier; a refill must have a barrier between itself and the last read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tilepipe.lint.events import Event, Region, Trace

ProblemKind = Literal[
    "uncommitted",
    "no wait",
    "short wait",
    "not published",
    "early barrier",
    "refill",
    "reuse",
    "unfilled",
    "stale",
]


@dataclass(eq=False)
class Fill:
    """One tile's worth of one buffer. Numbers are positions in the trace; `group` is None until committed."""

    number: int
    first: int
    asynchronous: bool
    interval: int  # barriers passed when it began
    last: int = 0
    regions: list[Region] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    group: int | None = None
    committed: int | None = None
    done: int | None = None
    done_interval: int = 0
    reads: list[int] = field(default_factory=list)
    read_interval: int = -1
    read_by_others: bool = False  # in that interval, by other threads than the one that filled the place
    replaced: int | None = None
    blurred: bool = False  # what replaced it lies elsewhere in part: threads in strides look like one range
    displaced: Fill | None = None  # a tile that was still unread when this one took its place

    @property
    def name(self) -> str:
        return self.regions[0].array.name

    @property
    def stage(self) -> int | None:
        return self.regions[0].stage

    def holds(self, region: Region) -> bool:
        return any(mine.overlaps(region) for mine in self.regions)

    def lies_at(self, region: Region) -> bool:
        """Whether the region is one that the fill began with: the same place, and not one that meets it in part."""
        stage = region.stage
        return any(
            (m.lo, m.hi) == (region.lo, region.hi) or m.stage == stage is not None for m in self.regions
        )

    def private(self, region: Region) -> bool:
        """Whether every thread touches only its own place, in the fill and in `region`."""
        return region.form is not None and all(mine.form == region.form for mine in self.regions)


@dataclass(frozen=True, eq=False)
class Problem:
    """Something wrong at `event` (position `at`) with `fill`; `other` is the position of what is to blame."""

    kind: ProblemKind
    at: int
    event: Event
    fill: Fill | None
    other: int | None = None


@dataclass
class Played:
    """What the machine saw: fills per buffer in order, problems, and the groups at every wait."""

    trace: Trace
    fills: dict[str, list[Fill]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    pending_at_exit: list[Fill] = field(default_factory=list)
    waits: dict[int, int] = field(default_factory=dict)  # position of a wait → groups committed before it
    commits: list[int] = field(default_factory=list)  # positions, by group
    unplaced: set[str] = field(default_factory=set)  # buffers that are filled where the stage is not known
    uncertain: set[str] = field(default_factory=set)  # buffers with reads whose stage is not known

    def tiles(self, name: str) -> list[Fill]:
        """The fills of a buffer that are tiles: where copies are asynchronous, stores only reuse the memory."""
        listed = self.fills.get(name, [])
        copied = [f for f in listed if f.asynchronous]
        return copied or listed

    def consumed(self, name: str) -> int:
        """How many tiles of a buffer were read."""
        return sum(1 for f in self.tiles(name) if f.reads)

    def filled(self, name: str) -> int:
        """How many tiles of a buffer were loaded."""
        return len(self.tiles(name))

    def depth(self, name: str) -> int:
        """How many stages a buffer has: the distinct places that its tiles begin at."""
        return len({f.regions[0].lo for f in self.tiles(name)})


class Machine:
    """Plays a trace. `staged` names the buffers whose stores count as fills."""

    def __init__(self, trace: Trace, staged: frozenset[str]) -> None:
        self.trace = trace
        self.staged = staged
        self.out = Played(trace)
        self.current: dict[str, list[Fill]] = {}
        self.open: list[Fill] = []
        self.groups: list[list[Fill]] = []
        self.complete = 0
        self.waited_for = 0
        self.interval = 0

    def play(self) -> Played:
        """Every event in order."""
        for at, event in enumerate(self.trace.events):
            if event.kind == "copy":
                self._fill(at, event, True)
            elif event.kind == "store" and event.region is not None and self._is_fill(event.region):
                self._fill(at, event, False)
            elif event.kind == "read" and event.region is not None:
                self._read(at, event, event.region)
            elif event.kind == "commit":
                self._commit(at)
            elif event.kind == "wait":
                self._wait(at, event)
            elif event.kind == "barrier":
                self.interval += 1
            elif event.kind == "exit":
                in_flight = [f for group in self.groups[self.complete :] for f in group] + self.open
                self.out.pending_at_exit = in_flight
        return self.out

    def _problem(
        self, kind: ProblemKind, at: int, event: Event, fill: Fill | None, other: int | None = None
    ) -> None:
        self.out.problems.append(Problem(kind, at, event, fill, other))

    def _is_fill(self, region: Region) -> bool:
        """Whether a store fills a stage. In a pool that holds other things too, only what stands in the place
        of an asynchronous copy does."""
        name = region.array.name
        if name not in self.staged:
            return False
        return not region.array.dynamic or any(f.holds(region) for f in self.current.get(name, ()))

    # -- producers -----------------------------------------------------------------------------------------

    def _fill(self, at: int, event: Event, asynchronous: bool) -> None:
        region = event.region
        if region is None:
            return
        name = region.array.name
        if not region.located:
            self.out.unplaced.add(name)
        listed = self.current.setdefault(name, [])
        fill = self._same_tile(listed, region, asynchronous)
        if fill is None and not asynchronous and self._in_place(at, event, listed, region):
            return
        if fill is None:
            fill = Fill(len(self.out.fills.setdefault(name, [])), at, asynchronous, self.interval)
            self.out.fills[name].append(fill)
        for older in [f for f in listed if f is not fill and f.holds(region)]:
            if older.read_interval == self.interval and older.read_by_others:
                self._problem("refill", at, event, older, older.reads[-1])
            older.replaced = at
            older.blurred = not older.lies_at(region)
            if not older.reads and asynchronous and not older.blurred:
                fill.displaced = older
            listed.remove(older)
        if fill not in listed:
            listed.append(fill)
        fill.last = at
        fill.regions.append(region)
        fill.events.append(event)
        if asynchronous:
            fill.asynchronous = True
            if fill not in self.open:
                self.open.append(fill)
        elif not fill.asynchronous:
            fill.done, fill.done_interval = at, self.interval

    def _in_place(self, at: int, event: Event, listed: list[Fill], region: Region) -> bool:
        """Whether a store goes where a copied tile lies: compute at work in it, or the memory's next use."""
        copied = [f for f in listed if f.asynchronous and f.holds(region)]
        for fill in copied:
            if fill.done is None:
                self._problem("reuse", at, event, fill)
        return bool(copied)

    def _same_tile(self, listed: list[Fill], region: Region, asynchronous: bool) -> Fill | None:
        """The fill that this copy or store goes on with."""
        for fill in reversed(listed):
            if (
                fill.reads
                or fill.stage != region.stage
                or (region.stage is None and not self._near(fill, region))
            ):
                continue
            if asynchronous and fill.asynchronous and fill in self.open:
                return fill
            if fill.interval == self.interval and not (asynchronous and fill.asynchronous):
                return fill
        return None

    @staticmethod
    def _near(fill: Fill, region: Region) -> bool:
        """Without a stage index all copies of a group to one pool belong together."""
        return fill.regions[0].array is region.array

    def _commit(self, at: int) -> None:
        for fill in self.open:
            fill.group, fill.committed = len(self.groups), at
        self.groups.append(self.open)
        self.out.commits.append(at)
        self.open = []

    def _wait(self, at: int, event: Event) -> None:
        self.out.waits[at] = len(self.groups)
        if event.count < 0:
            self.waited_for = min(self.waited_for + 1, len(self.groups))
            upto = self.waited_for
        else:
            upto = len(self.groups) - event.count
            self.waited_for = max(self.waited_for, upto)
        for group in self.groups[self.complete : max(upto, self.complete)]:
            for fill in group:
                fill.done, fill.done_interval = at, self.interval
        self.complete = max(self.complete, upto)

    # -- consumers -----------------------------------------------------------------------------------------

    def _read(self, at: int, event: Event, region: Region) -> None:
        name = region.array.name
        if name not in self.out.fills:
            return
        if not region.located or name in self.out.unplaced:
            self.out.uncertain.add(name)
            return
        held = [f for f in self.current.get(name, ()) if f.holds(region)]
        if not held:
            if region.stage is not None and all(f.stage is not None for f in self.out.fills[name]):
                self._problem("unfilled", at, event, None)
            else:
                self.out.uncertain.add(name)
            return
        fill = held[-1]
        if fill.done is None or (fill.asynchronous and fill in self.open):
            self._in_flight(at, event, fill)
        elif fill.done_interval == self.interval and not fill.private(region):
            early = fill.asynchronous and self._barrier_just_before(fill.done)
            self._problem("early barrier" if early else "not published", at, event, fill, fill.done)
        newer = [
            f for f in self.out.fills[name] if f.number > fill.number and f.reads and f.stage != fill.stage
        ]
        if newer and fill.reads:
            self._problem("stale", at, event, fill, newer[-1].reads[-1])
        fill.reads.append(at)
        others = not fill.private(region)
        fill.read_by_others = others or (fill.read_by_others and fill.read_interval == self.interval)
        fill.read_interval = self.interval

    def _in_flight(self, at: int, event: Event, fill: Fill) -> None:
        waits = [w for w in self.out.waits if fill.last < w < at]
        if fill.committed is None:
            self._problem(
                "uncommitted" if waits else "no wait", at, event, fill, waits[-1] if waits else None
            )
            return
        after = [w for w in waits if w > fill.committed]
        if after:
            self._problem("short wait", at, event, fill, after[-1])
        elif waits:
            self._problem("uncommitted", at, event, fill, waits[-1])
        else:
            self._problem("no wait", at, event, fill)

    def _barrier_just_before(self, wait: int) -> bool:
        """Whether a barrier stands before the wait in its turn, with no read between the two."""
        events = self.trace.events
        for event in reversed(events[:wait]):
            if event.turns != events[wait].turns or event.kind == "read":
                return False
            if event.kind == "barrier":
                return True
        return False


def staged_buffers(trace: Trace) -> frozenset[str]:
    """Buffers whose fills count: targets of asynchronous copies, and arrays with two or more stages, each
    stored and read under an index that is known."""
    copied = {e.region.array.name for e in trace.events if e.kind == "copy" and e.region is not None}
    stored: dict[str, set[int | None]] = {}
    for e in trace.events:
        if e.kind == "store" and e.region is not None:
            stored.setdefault(e.region.array.name, set()).add(e.region.stage)
    double = {
        name for name, stages in stored.items() if len(stages) > 1 and None not in stages and len(stages) <= 8
    }
    return frozenset(copied | double)
