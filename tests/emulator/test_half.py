"""f16 and bf16, alone and packed, against exact rationals rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from exact import DTYPES, rounded, same
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from snippets import Array, elementwise, floats, words

N = 128
OPERATIONS: dict[str, Callable[..., Fraction]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "fma.rn": lambda a, b, c: a * b + c,
}


def operands(t: str, count: int, seed: int) -> list[Array]:
    """Half ordinary values, half arbitrary bit patterns (of extreme exponents)."""
    kind = np.dtype(DTYPES[t])
    wild = [words(seed + 10 * i, N // 2, np.uint16).view(kind) for i in range(count)]
    with np.errstate(over="ignore"):
        tame = [floats(seed + 10 * i, N // 2, np.float32).astype(kind) for i in range(count)]
    return [np.concatenate(pair) for pair in zip(wild, tame, strict=True)]


def check_against_exact(inputs: list[Array], got: Array, t: str, expected: Callable[..., Fraction]) -> None:
    checked = 0
    for row in range(len(got)):
        values = [float(a[row]) for a in inputs]
        if all(math.isfinite(v) for v in values):
            want = rounded(expected(*(Fraction(v) for v in values)), t)
            assert same(float(got[row]), want), (t, values, float(got[row]), want)
            checked += 1
    assert checked > len(got) // 2


@pytest.mark.parametrize("t", ["f16", "bf16"])
@pytest.mark.parametrize("op", OPERATIONS)
def test_rounds_once(t: str, op: str) -> None:
    count = 3 if op.startswith("fma") else 2
    inputs = operands(t, count, 1)
    sources = ", ".join("{" + str(i) + "}" for i in range(count))
    (got,) = elementwise(f"{op}.{t} {{o}}, {sources};", [a.view(np.uint16) for a in inputs], np.uint16)
    check_against_exact(inputs, got.view(DTYPES[t]), t, OPERATIONS[op])


@pytest.mark.parametrize("t", ["f16", "bf16"])
@pytest.mark.parametrize("op", OPERATIONS)
def test_packed(t: str, op: str) -> None:
    """Two lanes in one register do what one lane does twice."""
    count = 3 if op.startswith("fma") else 2
    inputs = operands(t, count, 2)
    sources = ", ".join("{" + str(i) + "}" for i in range(count))
    packed = [np.ascontiguousarray(a).view(np.uint32) for a in inputs]
    (got,) = elementwise(f"{op}.{t}x2 {{o}}, {sources};", packed, np.uint32)
    check_against_exact(inputs, got.view(DTYPES[t]), t, OPERATIONS[op])


@pytest.mark.parametrize("t", ["f16", "bf16"])
def test_extremes_and_signs(t: str) -> None:
    a, b = operands(t, 2, 3)
    bits = [x.view(np.uint16) for x in (a, b)]
    wide = [x.astype(np.float32) for x in (a, b)]
    for op, choose in {"min": np.fmin, "max": np.fmax}.items():
        (got,) = elementwise(f"{op}.{t} {{o}}, {{0}}, {{1}};", bits, np.uint16)
        np.testing.assert_array_equal(got.view(DTYPES[t]).astype(np.float32), choose(*wide))
    (got,) = elementwise(f"neg.{t} {{o}}, {{0}};", bits[:1], np.uint16)
    np.testing.assert_array_equal(got, bits[0] ^ 0x8000)
    (got,) = elementwise(f"abs.{t} {{o}}, {{0}};", bits[:1], np.uint16)
    np.testing.assert_array_equal(got, bits[0] & 0x7FFF)


@settings(max_examples=15, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(
    st.lists(st.tuples(*[st.integers(0, 0xFFFF)] * 3), min_size=64, max_size=64),
    st.sampled_from(["f16", "bf16"]),
)
def test_fused_on_any_bits(rows: list[tuple[int, int, int]], t: str) -> None:
    """The double rounding traps are rare: let the search look for them."""
    inputs = [np.array(column, np.uint16) for column in zip(*rows, strict=True)]
    (got,) = elementwise(f"fma.rn.{t} {{o}}, {{0}}, {{1}}, {{2}};", inputs, np.uint16)
    for row in range(64):
        values = [float(a[row : row + 1].view(DTYPES[t])[0]) for a in inputs]
        if all(math.isfinite(v) for v in values):
            x, y, z = (Fraction(v) for v in values)
            assert same(float(got[row : row + 1].view(DTYPES[t])[0]), rounded(x * y + z, t)), values


def test_fused_tie_broken_by_a_tiny_addend() -> None:
    """257 * 257 in bf16 steps is a tie of the product alone; the addend, 2^-100, decides it."""
    kind = DTYPES["bf16"]
    a = np.array([1 + 2.0**-7, 1 + 2.0**-7, 3.0, 3.0], np.float64).astype(kind)
    b = np.array([1 + 2.0**-1, 1 + 2.0**-1, 43.0, 43.0], np.float64).astype(kind)
    c = np.array([2.0**-100, -(2.0**-100), 2.0**-100, -(2.0**-100)], np.float64).astype(kind)
    (got,) = elementwise("fma.rn.bf16 {o}, {0}, {1}, {2};", [x.view(np.uint16) for x in (a, b, c)], np.uint16)
    exact = [
        Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)) for x, y, z in zip(a, b, c, strict=True)
    ]
    assert [float(v) for v in got.view(kind)] == [rounded(x, "bf16") for x in exact]
    assert float(got.view(kind)[0]) != float(got.view(kind)[1])
