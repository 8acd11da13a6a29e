"""Tolerances, NaN, infinities and integers beyond float64; block samples of every grid."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilepipe.diagnostics import error
from tilepipe.evidence.compare import (
    _DEFAULT_TOLERANCE,
    close_to,
    errors_against,
    max_difference,
    wrote_something,
)
from tilepipe.evidence.sampling import estimated_flops, sample_blocks, with_measured_work
from tilepipe.launch.types import RunResult
from tilepipe.problem import Array, Case


def case(values: Any, dtype: Any = np.float32, grid: tuple[int, int, int] = (1, 1, 1), **more: Any) -> Case:
    data = np.asarray(values).astype(dtype)
    flops, traffic = more.get("flops"), more.get("bytes")
    return Case("s", {}, grid, (32, 1, 1), 0, (Array("y", "out", data.reshape(-1), data),), flops, traffic)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), min_size=1, max_size=8),
    st.floats(0, 1),
    st.floats(0, 100),
)
def test_tolerance_is_numpys(pairs: list[tuple[float, float]], rtol: float, atol: float) -> None:
    actual, expected = np.array(pairs).T
    errors = errors_against(case(actual, np.float64), {"y": expected}, rtol, atol)
    assert errors.within == bool((np.abs(actual - expected) <= atol + rtol * np.abs(expected)).all())
    assert errors.max_abs == np.abs(actual - expected).max()


@pytest.mark.parametrize(
    ("actual", "expected", "within", "error"),
    [
        (math.nan, math.nan, True, 0.0),
        (math.inf, math.inf, True, 0.0),
        (math.inf, -math.inf, False, math.inf),
        (1.0, math.inf, False, math.inf),
        (math.inf, 1.0, False, math.inf),
        (math.nan, 1.0, False, math.inf),
        (1.0, math.nan, False, math.inf),
        (1.25, 1.0, True, 0.25),
        (1.5, 1.0, True, 0.5),
    ],
)
def test_special_values(actual: float, expected: float, within: bool, error: float) -> None:
    errors = errors_against(case([actual]), {"y": np.array([expected])}, 0.5, 0.0)
    assert (errors.within, errors.max_abs) == (within, error)


def test_exact_integers_and_narrow_floats() -> None:
    big = 2**62 + 1
    assert errors_against(case([big], np.int64), {"y": np.array([big])}, 0.0, 0.0).within
    third = np.float32(ml_dtypes.bfloat16(1 / 3))
    assert errors_against(case([1 / 3], ml_dtypes.bfloat16), {"y": np.array([third])}, 0.0, 0.0).within
    assert not errors_against(case([1 / 3], ml_dtypes.bfloat16), {"y": np.array([1 / 3])}, 0.0, 0.0).within
    assert errors_against(case(np.zeros((0, 3))), {"y": np.zeros((0, 3))}, 0.0, 0.0).within


def arrays(*given: tuple[str, Any]) -> Case:
    """A case with arrays of these roles and values."""
    made = [
        Array(f"{role}{n}", role, data, data)  # type: ignore[arg-type]
        for n, (role, data) in enumerate((r, np.asarray(v)) for r, v in given)
    ]
    return replace(case([0.0]), args=tuple(made))


ZERO, ONE = np.zeros(2, np.float32), np.ones(2, np.float32)


@pytest.mark.parametrize(
    ("before", "after", "wrote"),
    [
        ([("in", ZERO), ("out", ZERO)], [("in", ONE), ("out", ZERO)], False),
        ([("in", ZERO), ("out", ZERO)], [("in", ZERO), ("out", ONE)], True),
        ([("out", ZERO), ("inout", ZERO)], [("out", ONE), ("inout", ZERO)], True),
        ([("in", ZERO), ("out", ZERO[:0])], [("in", ZERO), ("out", ZERO[:0])], True),
        ([("out", ZERO[:0]), ("out", ZERO)], [("out", ZERO[:0]), ("out", ZERO)], False),
    ],
)
def test_only_outputs_count_as_written(before: Any, after: Any, wrote: bool) -> None:
    assert wrote_something(arrays(*before), arrays(*after)) == wrote


def test_the_worst_output_counts() -> None:
    ours, theirs = (
        arrays(("in", ONE), ("out", ONE), ("out", ZERO)),
        arrays(("in", ZERO), ("out", ZERO), ("out", ZERO)),
    )
    assert max_difference(ours, theirs) == 1.0
    assert max_difference(arrays(("in", ONE), ("out", ZERO)), arrays(("in", ZERO), ("out", ZERO))) == 0.0
    errors = errors_against(ours, {"out1": ZERO, "out2": ZERO}, 0.0, 0.5)
    assert (errors.max_abs, errors.within) == (1.0, False)


@pytest.mark.parametrize(
    ("ours", "theirs", "rtol", "atol", "close"),
    [
        (1.05, 1.0, 0.1, 0.0, True),
        (1.0005, 1.0, 0.0, 0.0, True),  # the tolerance of the type
        (1.0005, 1.0, 1e-6, 0.0, False),  # the problem's own instead
        (1.0005, 1.0, 0.0, 1e-6, False),
        (1.05, 1.0, 0.0, 0.1, True),
    ],
)
def test_runs_agree_within_the_tolerance(
    ours: float, theirs: float, rtol: float, atol: float, close: bool
) -> None:
    pair = (arrays(("out", ZERO), ("out", np.float32([x]))) for x in (ours, theirs))
    assert close_to(*pair, rtol, atol) == close


def test_integers_agree_exactly_and_inputs_do_not_count() -> None:
    assert not close_to(arrays(("out", [1000])), arrays(("out", [1001])), 0.0, 0.0)
    assert close_to(arrays(("in", [1]), ("out", [7])), arrays(("in", [2]), ("out", [7])), 0.0, 0.0)


@settings(max_examples=200, deadline=None)
@given(st.tuples(*[st.integers(1, 40)] * 3), st.integers(1, 10**9), st.integers(1, 10**7), st.integers(0, 9))
def test_samples(grid: tuple[int, int, int], flops: int, budget: int, seed: int) -> None:
    total = math.prod(grid)
    blocks = sample_blocks(case([1.0], grid=grid, flops=flops), seed, budget)
    if blocks is None:
        assert flops <= budget or total <= max(2, total * budget // flops)
        return
    assert list(blocks) == sorted(set(blocks)) and blocks[0] >= 0 and blocks[-1] < total
    assert {0, total - 1} <= set(blocks)
    assert len(blocks) == max(2, total * budget // flops) < total
    assert blocks == sample_blocks(case([1.0], grid=grid, flops=flops), seed, budget)
    if len(blocks) >= 8:
        ends = [{0, n - 1} for n in grid]
        corners = {x + grid[0] * (y + grid[1] * z) for x in ends[0] for y in ends[1] for z in ends[2]}
        assert corners <= set(blocks)


class Counting:
    """A loaded kernel that says what its blocks did."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[tuple[int, ...] | None] = []

    def run(self, case: Case, options: Any) -> Any:
        self.asked.append(options.blocks)
        return self.answer


def test_work_that_no_problem_states_is_counted() -> None:
    counted = RunResult(blocks_run=2, counters={"math": 3_000, "global_load_bytes": 500})
    small = case([1.0], grid=(100, 1, 1))
    kernel = Counting(counted)
    known = with_measured_work(small, kernel)  # type: ignore[arg-type]
    assert kernel.asked == [(0, 99)]
    assert known.flops == (2 * 3_000 + 8 * 500) * 100 // 2
    assert sample_blocks(small, 0, 100_000) is None  # by its arrays, all of it could run
    assert len(sample_blocks(known, 0, 100_000) or ()) == 20


@pytest.mark.parametrize("more", [{"flops": 7}, {"grid": (2, 1, 1)}])
def test_stated_work_and_small_grids_are_left_alone(more: dict[str, Any]) -> None:
    kernel = Counting(None)
    given = case([1.0], **({"grid": (9, 1, 1)} | more))
    assert with_measured_work(given, kernel) is given and not kernel.asked  # type: ignore[arg-type]


def test_a_kernel_that_does_not_run_has_no_counted_work() -> None:
    given = case([1.0], grid=(9, 1, 1))
    assert with_measured_work(given, Counting(error("TP302", "too large"))) is given  # type: ignore[arg-type]


def test_estimates() -> None:
    assert estimated_flops(case([1.0], flops=100)) == 100
    assert estimated_flops(case([1.0], flops=100, bytes=50)) == 400
    assert estimated_flops(case(np.zeros(10))) == 8 * 40


def test_the_tolerances_are_those_of_the_documents() -> None:
    page = (Path(__file__).parents[2] / "docs" / "problem-file.md").read_text(encoding="utf-8")
    for size, (atol, rtol) in _DEFAULT_TOLERANCE.items():
        told = f"({_short(atol)}, {_short(rtol)}) "
        assert told + f"of {size * 8}" in page or told + f"for floats of {size * 8}" in page


def _short(value: float) -> str:
    return f"{value:.0e}".replace("e-0", "e-") if value < 0.1 else f"{value}"
