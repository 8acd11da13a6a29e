"""The timelines of the original's and the pipelined main loop, one above the other on one time axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tilepipe.evidence.types import EventKind, Timeline, TimelineEvent
from tilepipe.report.charts.scale import Scale, Tick

WIDTH = 960
_LEFT, _RIGHT = 112, 948
_TITLE, _GAP, _AXIS = 24, 18, 36  # pixels above a panel, below it, and below the last one
_LANE, _FLIGHT = 20, 16  # pixels of a lane, and of one row of loads in flight
_INSET = 1.5  # pixels between a mark and its lane's edge
_LETTER = 6.2  # pixels of a letter in a bar, on average
_LEAST = 2.0  # pixels, so that nothing vanishes
LANES: tuple[tuple[EventKind, str], ...] = (
    ("load", "loads in flight"),
    ("wait", "waits for loads"),
    ("store", "stores to shared"),
    ("barrier", "block barriers"),
    ("math", "math"),
)


@dataclass(frozen=True)
class Mark:
    """An event as a box; `text` where there is room for it. `opens` and `closes`: it begins or ends outside."""

    kind: EventKind
    x: float
    y: float
    width: float
    height: float
    text: str
    title: str
    opens: bool = False
    closes: bool = False


@dataclass(frozen=True)
class Panel:
    """One main loop: its title's place, its lanes (place, name), marks, and barriers across all lanes."""

    name: str
    caption: str
    y: float
    lanes: tuple[tuple[float, str], ...]
    marks: tuple[Mark, ...]
    barriers: tuple[float, ...]
    top: float
    bottom: float
    end: float


@dataclass(frozen=True)
class ScheduleChart:
    """All panels with the axis of issue cycles."""

    panels: tuple[Panel, ...]
    ticks: tuple[Tick, ...]
    height: float
    width: int = WIDTH
    left: int = _LEFT
    right: int = _RIGHT

    @property
    def axis(self) -> float:
        """Where the axis lies."""
        return self.height - _AXIS


def hidden_share(timeline: Timeline) -> float | None:
    """The share of the math's issue cycles during which some load is in flight, None without math."""
    flights = _union((e.cycle, e.cycle + e.cycles) for e in timeline.events if e.kind == "load")
    math = [(e.cycle, e.cycle + e.cycles) for e in timeline.events if e.kind == "math"]
    total = sum(end - start for start, end in math)
    under = sum(max(0, min(end, right) - max(start, left)) for start, end in math for left, right in flights)
    return under / total if total else None


def schedule_chart(original: Timeline | None, pipelined: Timeline | None) -> ScheduleChart | None:
    """The chart of those that are known; None for neither."""
    known = [(n, t) for n, t in (("original", original), ("pipelined", pipelined)) if t is not None]
    if not known:
        return None
    x = Scale(max(timeline.cycles for _, timeline in known), _LEFT, _RIGHT)
    panels: list[Panel] = []
    top = 4.0
    for name, timeline in known:
        panel = _panel(name, timeline, x, top)
        panels.append(panel)
        top = panel.bottom + _GAP
    return ScheduleChart(tuple(panels), x.ticks(8), top - _GAP + _AXIS)


def _panel(name: str, timeline: Timeline, x: Scale, top: float) -> Panel:
    marks: list[Mark] = []
    lanes: list[tuple[float, str]] = []
    y = top + _TITLE
    for kind, label in LANES:
        rows = packed([e for e in timeline.events if e.kind == kind])
        height = _FLIGHT if kind == "load" else _LANE
        lanes.append((y + max(_LANE, len(rows) * height) / 2, label))
        for row, events in enumerate(rows):
            marks += [_mark(e, timeline, x, y + row * height + _INSET, height - 2 * _INSET) for e in events]
        y += max(_LANE, len(rows) * height)
    barriers = tuple(x.at(e.cycle) for e in timeline.events if e.kind == "barrier")
    return Panel(
        name, _caption(timeline), top + 15, tuple(lanes), tuple(marks), barriers, top + _TITLE, y,
        x.clipped(timeline.cycles),
    )  # fmt: skip


def _caption(timeline: Timeline) -> str:
    share = hidden_share(timeline)
    tiles = f"{timeline.tiles} tiles" if timeline.tiles else "one iteration"
    words = [f"{tiles} in {timeline.cycles} issue cycles"]
    words += [f"a load is in flight during {share:.0%} of the math"] if share is not None else []
    words += [] if timeline.exact else ["an inner loop of unknown length is drawn once"]
    return ", ".join(words)


def _mark(event: TimelineEvent, timeline: Timeline, x: Scale, y: float, height: float) -> Mark:
    end = event.cycle + event.cycles
    left, right = x.clipped(event.cycle), x.at(min(max(end, 0), timeline.cycles))
    width = max(_LEAST, round(right - left, 1))
    text = event.label if event.kind in ("load", "math") and len(event.label) * _LETTER < width else ""
    title = f"{event.label}: cycle {event.cycle} to {end}"
    return Mark(
        event.kind, left, y, width, height, text, title, event.cycle < 0, end > timeline.cycles
    )  # fmt: skip


def packed(events: Sequence[TimelineEvent]) -> list[list[TimelineEvent]]:
    """Events in rows without overlaps; each goes into the first row that is free when it begins. At least one."""
    rows: list[list[TimelineEvent]] = [[]]
    for event in sorted(events, key=lambda e: (e.cycle, -e.cycles)):
        free = (row for row in rows if not row or row[-1].cycle + row[-1].cycles <= event.cycle)
        row = next(free, None)
        if row is None:
            rows.append([event])
        else:
            row.append(event)
    return rows


def _union(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans with those that touch joined, in order."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined
