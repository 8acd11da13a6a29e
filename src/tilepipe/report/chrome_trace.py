"""The timelines as a Chrome trace, for Perfetto (ui.perfetto.dev) and chrome://tracing.

One process per main loop, one thread per lane. Viewers count in microseconds: one stands for one issue cycle.
"""

from __future__ import annotations

from typing import Any

from tilepipe.evidence.types import Timeline
from tilepipe.report.charts.schedule import LANES, packed
from tilepipe.report.result import RunReport

_ROWS = 100  # thread numbers a lane may take; loads in flight overlap and take several


def chrome_trace(report: RunReport) -> dict[str, Any] | None:
    """The timelines of the original and the pipelined main loop in the Trace Event Format; None without one.

    Spans ("X") with their label as name and their kind as category, in issue cycles counted from the earliest
    event; `otherData` says what was looked at.
    """
    sass = report.evidence.sass
    loops = (("original", sass.timeline_original), ("pipelined", sass.timeline)) if sass else ()
    known = [(name, timeline) for name, timeline in loops if timeline is not None]
    if not known:
        return None
    events: list[dict[str, Any]] = []
    for process, (name, timeline) in enumerate(known, 1):
        events += _process(process, name, timeline)
    kernel = report.kernel
    return {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {
            "tool": f"tilepipe {report.tool.version}",
            "kernel": (kernel.instantiation or kernel.name) if kernel else "",
            "file": kernel.file if kernel else "",
            "arch": report.arch,
            "candidate": report.chosen or "",
            "unit": "1 microsecond of the viewer is 1 issue cycle of one warp, without time for memory",
        },
    }


def _process(process: int, name: str, timeline: Timeline) -> list[dict[str, Any]]:
    tiles = f"{timeline.tiles} tiles" if timeline.tiles else "one iteration"
    out = [_name("process_name", process, 0, f"{name}: {tiles}, {timeline.cycles} issue cycles")]
    origin = min((event.cycle for event in timeline.events), default=0)
    for lane, (kind, label) in enumerate(LANES):
        rows = packed([event for event in timeline.events if event.kind == kind])
        for row, events in enumerate(rows):
            thread = lane * _ROWS + row + 1
            if events:
                out.append(_name("thread_name", process, thread, f"{label} {row + 1}" if row else label))
                out.append(
                    {**_metadata("thread_sort_index", process, thread), "args": {"sort_index": thread}}
                )
            out += [
                {
                    "name": event.label,
                    "cat": event.kind,
                    "ph": "X",
                    "pid": process,
                    "tid": thread,
                    "ts": event.cycle - min(origin, 0),
                    "dur": event.cycles,
                    "args": {"cycle": event.cycle},
                }
                for event in events
            ]
    return out


def _name(kind: str, process: int, thread: int, text: str) -> dict[str, Any]:
    return {**_metadata(kind, process, thread), "args": {"name": text}}


def _metadata(kind: str, process: int, thread: int) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": process, "tid": thread}
