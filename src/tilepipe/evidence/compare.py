"""Comparing the arrays of two launches bit by bit, and outputs against a reference within a tolerance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilepipe.problem import Array, Case
from tilepipe.problem.dtypes import is_float

# (absolute, relative) tolerances by element size in bytes for floats that carry none of their own: what
# practitioners accept between two orders of summation in fp16 and fp32 tensor-core and FFMA kernels.
_DEFAULT_TOLERANCE = {1: (0.5, 0.1), 2: (1e-2, 1e-2), 4: (1e-3, 1e-3), 8: (1e-9, 1e-9)}


@dataclass(frozen=True)
class Errors:
    """`max_abs` is the largest |value - expected|, infinite where only one is NaN; `within` whether every
    element is within atol + rtol * |expected|."""

    max_abs: float
    within: bool


def first_difference(expected: Case, actual: Case) -> str | None:
    """None if every array of both cases holds the same bytes, NaN payloads and memory around views included;
    else a sentence on the first array that differs."""
    for old, new in zip(expected.arrays, actual.arrays, strict=True):
        if not np.array_equal(_bits(old.base), _bits(new.base)):
            return _describe(old, new)
    return None


def _bits(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return array.view(f"u{array.dtype.itemsize}")


def _describe(old: Array, new: Array) -> str:
    differs = _bits(old.data) != _bits(new.data)
    count = int(differs.sum())
    if not count:
        return f"`{old.name}` was written outside its view"
    index = tuple(int(i) for i in np.argwhere(differs)[0])
    at = "".join(f"[{i}]" for i in index)
    return (
        f"`{old.name}` differs in {count} of {differs.size} elements, first at {old.name}{at}: "
        f"{old.data[index]} in the original, {new.data[index]} in the changed kernel"
    )


def wrote_something(before: Case, after: Case) -> bool:
    """Whether any output element changed: a comparison of outputs that nobody wrote says nothing."""
    pairs = zip(before.arrays, after.arrays, strict=True)
    outputs = [(old, new) for old, new in pairs if old.role != "in" and old.data.size]
    return not outputs or any(not np.array_equal(_bits(a.data), _bits(b.data)) for a, b in outputs)


def changed_inputs(before: Case, after: Case) -> tuple[str, ...]:
    """The arrays declared `in` that a launch wrote to."""
    pairs = zip(before.arrays, after.arrays, strict=True)
    return tuple(
        old.name
        for old, new in pairs
        if old.role == "in" and not np.array_equal(_bits(old.base), _bits(new.base))
    )


def errors_against(case: Case, expected: Mapping[str, npt.NDArray[Any]], rtol: float, atol: float) -> Errors:
    """Errors of the outputs of `case` against `expected` arrays by name; NaN equals NaN, inf equals
    itself."""
    parts = [_errors(a.data, expected[a.name], rtol, atol) for a in case.arrays if a.name in expected]
    return Errors(max((p.max_abs for p in parts), default=0.0), all(p.within for p in parts))


def max_difference(case: Case, other: Case) -> float:
    """The largest difference of an element of an output between two launches, infinite where only one is NaN."""
    pairs = zip(case.arrays, other.arrays, strict=True)
    parts = [_errors(ours.data, theirs.data, 0.0, 0.0).max_abs for ours, theirs in pairs if ours.role != "in"]
    return max(parts, default=0.0)


def self_tolerance(dtype: np.dtype[Any], rtol: float, atol: float) -> tuple[float, float]:
    """(atol, rtol) between two runs of one kernel whose order of summation varies: the problem's own where it
    has one, else the type's; integers stay exact."""
    if rtol or atol or not is_float(dtype):
        return atol, rtol
    return _DEFAULT_TOLERANCE[dtype.itemsize]


def close_to(case: Case, other: Case, rtol: float, atol: float) -> bool:
    """Whether the outputs of two launches agree within the tolerance of their types."""
    for ours, theirs in zip(case.arrays, other.arrays, strict=True):
        a, r = self_tolerance(ours.data.dtype, rtol, atol)
        if ours.role != "in" and not _errors(ours.data, theirs.data, r, a).within:
            return False
    return True


def _errors(actual: npt.NDArray[Any], expected: npt.NDArray[Any], rtol: float, atol: float) -> Errors:
    if actual.size == 0:
        return Errors(0.0, True)
    equal = np.asarray(actual == expected)  # exact for integers that float64 cannot hold
    x, y = actual.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        equal |= np.isnan(x) & np.isnan(y)
        error = np.where(equal, 0.0, np.abs(x - y))
        error = np.where(np.isnan(error), np.inf, error)
        within = equal | (error <= atol + rtol * np.abs(y)) & np.isfinite(y)
    return Errors(float(error.max()), bool(within.all()))
