"""The timeline: hand-written loops whose cycles can be added up on paper, and compiled kernels."""

from __future__ import annotations

import pytest
from sass_labels import DEFECTS, RIGHT_FORMS, audit_form
from sass_listings import assemble, forms

from tilepipe.evidence.sass import decode
from tilepipe.evidence.sass.cfg import build_graph
from tilepipe.evidence.sass.measure import main_loops, measure
from tilepipe.evidence.sass.timeline import timeline
from tilepipe.evidence.types import Timeline

ORIGINAL = (
    "top:",
    "LDG.E.128 R8, [R2.64] | w0 s4",
    "STS.128 [R20], R8 | b0 s2",
    "BAR.SYNC.DEFER_BLOCKING 0x0 | s6",
    "LDS.128 R12, [R21] | w1 s2",
    "FFMA R16, R12, R13, R16 | b1 s4",
    "FFMA R16, R14, R15, R16 | s4",
    "BAR.SYNC.DEFER_BLOCKING 0x0 | s6",
    "IADD3 R22, R22, 0x1, RZ | s4",
    "ISETP.GE.AND P0, PT, R22, R23, PT | s12",
    "@!P0 BRA `(top) | s5",
    "EXIT",
)
RING = (
    "top:",
    "DEPBAR.LE SB0, 0x1 | s4",
    "BAR.SYNC.DEFER_BLOCKING 0x0 | s6",
    "LDGSTS.E.BYPASS.128 [R20], [R2.64] | s4",
    "LDGDEPBAR | s2",
    "LDS.128 R12, [R21] | w1 s2",
    "FFMA R16, R12, R13, R16 | b1 s4",
    "FFMA R16, R14, R15, R16 | s4",
    "IADD3 R22, R22, 0x1, RZ | s4",
    "ISETP.GE.AND P0, PT, R22, R23, PT | s12",
    "@!P0 BRA `(top) | s5",
    "EXIT",
)


def drawn(lines: tuple[str, ...], barriers: int, tiles: int = 2) -> Timeline:
    graph = build_graph(assemble(*lines))
    (loop,) = main_loops(graph)
    found = timeline(measure(graph, loop, barriers), tiles)
    assert found is not None
    return found


def events(found: Timeline, kind: str) -> list[tuple[int, int, str]]:
    return [(e.cycle, e.cycles, e.label) for e in found.events if e.kind == kind]


def test_an_original_loop_by_hand() -> None:
    found = drawn(ORIGINAL, 2)
    assert (found.cycles, found.tiles, found.exact) == (2 * 49, 2, True)
    assert events(found, "load") == [(0, 4, "1 × LDG.128"), (49, 4, "1 × LDG.128")]
    assert events(found, "store") == [(4, 2, "1 × STS"), (53, 2, "1 × STS")]
    assert [start for start, *_ in events(found, "wait")] == [4, 53]
    assert [(s, n) for s, n, _ in events(found, "barrier")] == [(6, 6), (22, 6), (55, 6), (71, 6)]
    assert events(found, "math") == [(14, 8, "2 × FFMA"), (63, 8, "2 × FFMA")]


def test_a_ring_of_three_has_two_copies_in_flight() -> None:
    found = drawn(RING, 1)
    period = 47
    assert found.cycles == 2 * period
    # issued at cycle 10, waited for at cycle 0 two iterations on; the one before ends as the window begins
    assert [(s, n) for s, n, _ in events(found, "load")] == [
        (10 + turn * period, 2 * period - 10) for turn in (-1, 0, 1)
    ]
    assert len(events(found, "math")) == 2


@pytest.mark.parametrize("tiles", [1, 2, 5])
def test_the_window_holds_so_many_tiles(tiles: int) -> None:
    found = drawn(ORIGINAL, 2, tiles)
    assert found.cycles == 49 * tiles
    assert len(events(found, "math")) == tiles


def test_unknown_tiles_are_one_iteration() -> None:
    found = drawn(ORIGINAL, 3)
    assert (found.cycles, found.tiles) == (49, None)


def test_inner_loops_are_rolled_out() -> None:
    inner = (
        "MOV R30, 0x0 | s4",
        "inner:",
        "FFMA R16, R12, R13, R16 | b1 s4",
        "IADD3 R30, R30, 0x1, RZ | s4",
        "ISETP.GE.AND P1, PT, R30, 0x3, PT | s12",
        "@!P1 BRA `(inner) | s5",
    )
    found = drawn((*ORIGINAL[:5], *inner, *ORIGINAL[7:]), 2, 1)
    assert found.exact
    assert events(found, "math") == [(18, 4, "1 × FFMA"), (43, 4, "1 × FFMA"), (68, 4, "1 × FFMA")]


@pytest.mark.parametrize("name", sorted(RIGHT_FORMS))
def test_right_pipelines_have_loads_in_flight_under_their_math(name: str) -> None:
    sass = audit_form(name, "sm_80", RIGHT_FORMS[name])
    found, before = sass.timeline, sass.timeline_original
    assert found is not None and before is not None
    assert covered(found) > 0.2
    assert covered(found) > covered(before)


@pytest.mark.parametrize("name", ["bad_waits_at_once", "original", "bad_used_at_once"])
def test_loads_that_are_waited_for_at_once_cover_no_math(name: str) -> None:
    found = audit_form(name, "sm_80", DEFECTS[name][0]).timeline
    assert found is not None
    assert covered(found) < 0.15


def covered(found: Timeline) -> float:
    """The share of the window's math cycles that lie under some load."""
    flights = [(s, s + n) for s, n, _ in events(found, "load")]
    math = {c for s, n, _ in events(found, "math") for c in range(max(s, 0), min(s + n, found.cycles))}
    return sum(any(a <= c < b for a, b in flights) for c in math) / len(math)


def test_every_event_shows_in_the_window() -> None:
    seen = 0
    for function in decode(forms("sm_80")).values():
        graph = build_graph(function)
        for loop in main_loops(graph):
            found = timeline(measure(graph, loop, 1))
            assert found is not None
            assert all(e.cycle < found.cycles and e.cycle + e.cycles >= 0 for e in found.events)
            seen += len(found.events)
    assert seen > 100
