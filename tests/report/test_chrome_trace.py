import itertools
import json
from dataclasses import replace

from tests.report.samples import EVENTS, EVENTS_ORIGINAL, PIPELINED

from tilepipe.report import Evidence, RunReport
from tilepipe.report.chrome_trace import chrome_trace


def spans(process: int) -> list[dict]:  # type: ignore[type-arg]
    trace = chrome_trace(PIPELINED)
    assert trace is not None
    return [e for e in trace["traceEvents"] if e["ph"] == "X" and e["pid"] == process]


def test_every_event_is_a_span() -> None:
    for process, events in ((1, EVENTS_ORIGINAL), (2, EVENTS)):
        found = sorted((s["cat"], s["args"]["cycle"], s["dur"], s["name"]) for s in spans(process))
        assert found == sorted((e.kind, e.cycle, e.cycles, e.label) for e in events)


def test_time_is_counted_from_the_earliest_event() -> None:
    assert min(s["ts"] for s in spans(1)) == min(s["ts"] for s in spans(2)) == 0
    assert {s["ts"] - s["args"]["cycle"] for s in spans(2)} == {380}


def test_spans_of_a_thread_do_not_overlap() -> None:
    threads: dict[int, list[tuple[int, int]]] = {}
    for s in spans(2):
        threads.setdefault(s["tid"], []).append((s["ts"], s["ts"] + s["dur"]))
    for taken in threads.values():
        taken.sort()
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(taken))


def test_processes_and_threads_have_names() -> None:
    trace = chrome_trace(PIPELINED)
    assert trace is not None
    names = [e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"]
    assert names == ["original: 2 tiles, 440 issue cycles", "pipelined: 2 tiles, 400 issue cycles"]
    named = {(e["pid"], e["tid"]) for e in trace["traceEvents"] if e["name"] == "thread_name"}
    assert named == {(e["pid"], e["tid"]) for e in trace["traceEvents"] if e["ph"] == "X"}
    assert trace["otherData"]["candidate"] == "cp_async-3-ring"


def test_it_is_json() -> None:
    assert json.loads(json.dumps(chrome_trace(PIPELINED))) == chrome_trace(PIPELINED)


def test_no_audit_no_trace() -> None:
    assert chrome_trace(RunReport()) is None
    assert PIPELINED.evidence.sass is not None
    blind = replace(PIPELINED.evidence.sass, timeline=None, timeline_original=None)
    assert chrome_trace(replace(PIPELINED, evidence=Evidence(sass=blind))) is None
