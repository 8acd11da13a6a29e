"""The geometry of the page's charts: what is drawn lies where the numbers say, and inside the picture."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.report.samples import PIPELINED, RING

from tilepipe.evidence.types import Benchmark, EventKind, Timeline, TimelineEvent, Timing
from tilepipe.gpu import ARCHS, occupancy
from tilepipe.plan.types import BudgetRow, Candidate
from tilepipe.report import Evidence
from tilepipe.report.charts.bars import bar_chart
from tilepipe.report.charts.budget import budget_chart
from tilepipe.report.charts.ring import Cell, ring_chart
from tilepipe.report.charts.scale import Scale
from tilepipe.report.charts.schedule import hidden_share, packed, schedule_chart

# -- scale -----------------------------------------------------------------------------------------------------------


@given(st.floats(0.01, 1e9), st.integers(2, 10))
def test_ticks_are_round_few_and_inside(most: float, count: int) -> None:
    ticks = Scale(most, 0, 100).ticks(count)
    assert ticks[0].at == 0
    assert count / 2.5 - 1 <= len(ticks) <= count + 1
    assert all(0 <= tick.at <= 100.05 for tick in ticks)
    assert {tick.text.rstrip("0").replace(".", "").lstrip("0")[:1] for tick in ticks[1:2]} <= {"1", "2", "5"}


def test_ticks_in_a_unit() -> None:
    assert [t.text for t in Scale(65 * 1024, 0, 650).ticks(7, 1024, " KiB")] == [
        f"{k} KiB" for k in (0, 10, 20, 30, 40, 50, 60)
    ]
    assert [t.text for t in Scale(2.3, 100, 0).ticks(5, whole=True)] == ["0", "1", "2"]


# -- budget ----------------------------------------------------------------------------------------------------------


def rows(arch: str, threads: int, registers: int, stage: int, count: int = 8) -> tuple[BudgetRow, ...]:
    """A budget as the plan makes it: `stage` bytes for every stage."""
    found = []
    for stages in range(1, count + 1):
        o = occupancy(ARCHS[arch], threads, registers, stage * stages)
        found.append(BudgetRow(stages, stage * stages, o.blocks, o.warps, o.limit))
    return tuple(found)


@given(
    st.sampled_from(sorted(ARCHS)),
    st.sampled_from([64, 128, 256, 1024]),
    st.integers(16, 128),
    st.integers(1, 256).map(lambda n: n * 128),
)
def test_every_number_of_stages_lies_on_the_steps(
    arch: str, threads: int, registers: int, stage: int
) -> None:
    """The line of resident blocks is drawn from the cliffs, the dots from the budget: they must agree."""
    budget = rows(arch, threads, registers, stage)
    chart = budget_chart(budget, arch, 2)
    assert chart is not None
    corners = [tuple(map(float, corner.split(","))) for corner in chart.steps.split()]
    fits = [row.blocks_per_sm for row in budget]
    if not any(row.limit != "shared" and row.blocks_per_sm for row in budget) and fits[0] < 2:
        return  # nothing tells what other resources allow
    for point, row in zip(chart.points, budget, strict=True):
        if row.blocks_per_sm == 0:
            continue
        levels = [
            y0
            for (x0, y0), (x1, y1) in itertools.pairwise(corners)
            if y0 == y1 and x0 - 0.2 <= point.x <= x1 + 0.2
        ]
        assert any(abs(level - point.y) < 0.2 for level in levels)
    assert all(chart.left <= p.x <= chart.right and chart.top <= p.y <= chart.bottom for p in chart.points)


def test_the_chosen_and_the_costly_are_marked() -> None:
    chart = budget_chart(PIPELINED.budget, "sm_90", 3)
    assert chart is not None
    assert [p.role for p in chart.points] == ["", "", "chosen", "dead"]
    other = budget_chart(PIPELINED.budget, "sm_90", None)
    assert other is not None and other.points[2].role == "loses"


def test_the_next_cliff_is_in_the_picture() -> None:
    budget = rows(
        "sm_80", 256, 122, 8192
    )  # two blocks by registers; shared memory costs one beyond 82944 bytes
    chart = budget_chart(budget, "sm_80", None)
    assert chart is not None
    assert [(c.text, c.blocks) for c in chart.cliffs] == [("82944 B", 2)]


def test_an_unknown_architecture_has_dots_only() -> None:
    chart = budget_chart(PIPELINED.budget, "sm_999", None)
    assert chart is not None and chart.points and not chart.steps and not chart.cliffs


def test_no_budget_no_chart() -> None:
    assert budget_chart((), "sm_80", None) is None


# -- candidates ------------------------------------------------------------------------------------------------------


def test_measured_bars_have_whiskers_and_predictions_do_not() -> None:
    measured = bar_chart(PIPELINED)
    predicted = bar_chart(replace(PIPELINED, evidence=Evidence()))
    assert measured is not None and predicted is not None
    assert measured.measured and not predicted.measured
    assert [bar.name for bar in measured.bars] == [RING, "ldg-2-ring"]
    assert [bar.value for bar in measured.bars] == ["1.72×", "1.14×"]
    assert all(bar.whisker and bar.mark for bar in measured.bars)
    assert all(bar.whisker is None for bar in predicted.bars)
    assert [bar.value for bar in predicted.bars] == ["1.70×", "1.10×"]


@given(st.lists(st.tuples(st.floats(0.01, 100), st.floats(0, 1.5)), min_size=1, max_size=8))
def test_bars_are_in_order_and_inside(timings: list[tuple[float, float]]) -> None:
    candidates = {f"c{n}": Timing(median, spread) for n, (median, spread) in enumerate(timings)}
    benchmark = Benchmark("passed", "target", "ms", Timing(1.0, 0.01), candidates, "gpu")
    chart = bar_chart(replace(PIPELINED, candidates=(), evidence=Evidence(benchmark=benchmark)))
    assert chart is not None and chart.original is not None
    ends = [bar.end for bar in chart.bars]
    assert ends == sorted(ends, reverse=True)
    for bar in chart.bars:
        assert bar.whisker is not None
        assert chart.left <= bar.whisker[0] <= bar.end <= bar.whisker[1] <= chart.right
        assert bar.y + chart.thick <= chart.bottom
    assert chart.original[0] <= chart.one <= chart.original[1]


def test_no_numbers_no_bars() -> None:
    assert bar_chart(replace(PIPELINED, candidates=(), evidence=Evidence())) is None


# -- ring ------------------------------------------------------------------------------------------------------------


def columns(cells: tuple[Cell, ...]) -> list[list[Cell]]:
    return [[c for c in cells if c.x == x] for x in sorted({c.x for c in cells})]


@pytest.mark.parametrize("stages", range(2, 9))
def test_a_ring_holds_the_next_tiles_and_computes_in_order(stages: int) -> None:
    chart = ring_chart(Candidate("x", "cp_async", stages, "ring"))
    prologue, *steps = columns(chart.cells)
    assert sorted(c.tile for c in prologue if c.tile is not None) == list(range(stages - 1))
    for step, cells in enumerate(steps):
        assert [c.tile for c in cells if c.state == "computed"] == [step]
        loading = sorted(c.tile for c in cells if c.state == "loading" and c.tile is not None)
        assert loading == list(range(step + 1, step + stages))
    for before, after in itertools.pairwise(steps):
        for old, new in zip(before, after, strict=True):  # a tile stays in its stage until it was computed
            assert new.tile == old.tile or old.state == "computed"


@pytest.mark.parametrize(("variant", "stages"), [("ldg", 2), ("prefetch", 1), ("mixed", 2)])
def test_tiles_pass_through_registers(variant: str, stages: int) -> None:
    chart = ring_chart(Candidate("x", variant, stages, "ring"))  # type: ignore[arg-type]
    for step, (registers, *rows) in enumerate(columns(chart.cells), -1):
        assert (registers.state, registers.tile) == ("loading", step + 1)
        assert [c.tile for c in rows if c.state == "computed"] == ([step] if step >= 0 else [])
    assert [name for _, name in chart.rows] == ["registers", *(f"stage {s}" for s in range(stages))]
    assert "registers" in chart.summary


# -- schedule --------------------------------------------------------------------------------------------------------


def events(kind: EventKind) -> st.SearchStrategy[list[TimelineEvent]]:
    one = st.tuples(st.integers(-200, 99), st.integers(0, 300)).filter(lambda e: sum(e) >= 0)
    return st.lists(one.map(lambda e: TimelineEvent(kind, e[0], e[1], "a label")), max_size=12)


@given(events("load"))
def test_packed_rows_do_not_overlap(given_events: list[TimelineEvent]) -> None:
    found = packed(given_events)
    assert sorted(map(id, (e for row in found for e in row))) == sorted(map(id, given_events))
    for row in found:
        assert all(a.cycle + a.cycles <= b.cycle for a, b in itertools.pairwise(row))


@given(events("load"), events("math"))
def test_marks_lie_in_their_panel(loads: list[TimelineEvent], math: list[TimelineEvent]) -> None:
    timeline = Timeline(100, 2, (*loads, *math))
    chart = schedule_chart(timeline, Timeline(50, None, ()))
    assert chart is not None
    first, second = chart.panels
    assert len(first.marks) == len(loads) + len(math)
    for mark in first.marks:
        assert chart.left <= mark.x and mark.x + mark.width <= chart.right + 2
        assert first.top <= mark.y and mark.y + mark.height <= first.bottom
    assert first.bottom < second.top and second.bottom <= chart.axis
    assert second.end - chart.left == pytest.approx((first.end - chart.left) / 2, abs=0.2)


@given(events("load"), events("math"))
def test_the_hidden_share_by_counting_cycles(loads: list[TimelineEvent], math: list[TimelineEvent]) -> None:
    def cycles(e: TimelineEvent) -> range:
        return range(e.cycle, e.cycle + e.cycles)

    under = {c for e in loads for c in cycles(e)}
    total = [c for e in math for c in cycles(e)]
    share = hidden_share(Timeline(100, 2, (*loads, *math)))
    assert share == (pytest.approx(sum(c in under for c in total) / len(total)) if total else None)


def test_bars_that_reach_out_of_the_window_say_so() -> None:
    sass = PIPELINED.evidence.sass
    assert sass is not None
    chart = schedule_chart(None, sass.timeline)
    assert chart is not None
    (panel,) = chart.panels
    loads = [(m.opens, m.closes) for m in panel.marks if m.kind == "load"]
    assert sorted(loads) == sorted([(True, False), (True, False), (False, True), (False, True)])
    assert panel.caption == "2 tiles in 400 issue cycles, a load is in flight during 100% of the math"


def test_nothing_known_no_schedule() -> None:
    assert schedule_chart(None, None) is None
