"""f32 and f64 arithmetic against exact rationals, rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from exact import DTYPES, rounded, same
from snippets import Array, elementwise, floats

N = 128


def is_finite(*values: float) -> bool:
    return all(math.isfinite(v) for v in values)


def check(body: str, name: str, count: int, expected: Callable[..., Fraction], mode: str = "rn") -> None:
    """Finite operands against the exact result; NumPy's own rules decide the special ones elsewhere."""
    inputs = [floats(10 * i + 1, N, DTYPES[name]) for i in range(count)]
    (got,) = elementwise(body, inputs, DTYPES[name])
    checked = 0
    for row in range(N):
        values = [float(a[row]) for a in inputs]
        if not is_finite(*values):
            continue
        want = rounded(expected(*(Fraction(v) for v in values)), name, mode)
        assert same(float(got[row]), want), (body, values, float(got[row]), want)
        checked += 1
    assert checked > N // 2


@pytest.mark.parametrize("t", ["f32", "f64"])
def test_rounds_once(t: str) -> None:
    check(f"add.rn.{t} {{o}}, {{0}}, {{1}};", t, 2, lambda a, b: a + b)
    check(f"sub.{t} {{o}}, {{0}}, {{1}};", t, 2, lambda a, b: a - b)
    check(f"mul.rn.{t} {{o}}, {{0}}, {{1}};", t, 2, lambda a, b: a * b)
    check(f"fma.rn.{t} {{o}}, {{0}}, {{1}}, {{2}};", t, 3, lambda a, b, c: a * b + c)
    check(f"mad.rn.{t} {{o}}, {{0}}, {{1}}, {{2}};", t, 3, lambda a, b, c: a * b + c)


def test_product_and_sum_stay_apart() -> None:
    """mul then add rounds twice: (1 + e)^2 - (1 + 2e) is 0 unfused and e^2 fused."""
    e = np.float32(2.0**-13)
    a = np.full(16, 1 + e, np.float32)
    c = -(a * a)
    (apart,) = elementwise("mul.f32 %f0, {0}, {0}; add.f32 {o}, %f0, {1};", [a, c], np.float32)
    (fused,) = elementwise("fma.rn.f32 {o}, {0}, {0}, {1};", [a, c], np.float32)
    assert (apart == 0).all()
    assert (fused == float(Fraction(float(a[0])) ** 2 + Fraction(float(c[0])))).all()
    assert (fused != 0).all()


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
def test_directed_rounding(mode: str) -> None:
    check(f"add.{mode}.f32 {{o}}, {{0}}, {{1}};", "f32", 2, lambda a, b: a + b, mode)
    check(f"sub.{mode}.f32 {{o}}, {{0}}, {{1}};", "f32", 2, lambda a, b: a - b, mode)
    check(f"mul.{mode}.f32 {{o}}, {{0}}, {{1}};", "f32", 2, lambda a, b: a * b, mode)
    check(f"fma.{mode}.f32 {{o}}, {{0}}, {{1}}, {{2}};", "f32", 3, lambda a, b, c: a * b + c, mode)


@pytest.mark.parametrize(("t", "form"), [("f32", "div.rn"), ("f64", "div.rn"), ("f32", "div.full")])
def test_division(t: str, form: str) -> None:
    kind = np.dtype(DTYPES[t])
    a, b = floats(1, N, kind), floats(2, N, kind)
    (got,) = elementwise(f"{form}.{t} {{o}}, {{0}}, {{1}};", [a, b], kind)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got, a / b)


@pytest.mark.parametrize("t", ["f32", "f64"])
def test_roots(t: str) -> None:
    kind = np.dtype(DTYPES[t])
    a = floats(3, N, kind)
    with np.errstate(all="ignore"):
        (got,) = elementwise(f"sqrt.rn.{t} {{o}}, {{0}};", [a], kind)
        np.testing.assert_array_equal(got, np.sqrt(a))
        (got,) = elementwise(f"rcp.rn.{t} {{o}}, {{0}};", [a], kind)
        np.testing.assert_array_equal(got, 1 / a)


def relative_error(got: Array, want: Array) -> float:
    finite = np.isfinite(want) & (np.abs(want) > 1e-30)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    return float(np.max(np.abs(got[finite].astype(np.float64) / want[finite] - 1)))


def test_approximations() -> None:
    """Within one unit in the last place of the exact value: at least as good as the hardware's."""
    unit = 2.0**-23
    a = floats(4, N, np.float32)
    wide = a.astype(np.float64)
    cases = {
        "ex2.approx.f32": np.exp2,
        "lg2.approx.f32": np.log2,
        "rsqrt.approx.f32": lambda x: 1 / np.sqrt(x),
        "tanh.approx.f32": np.tanh,
    }
    for op, function in cases.items():
        (got,) = elementwise(f"{op} {{o}}, {{0}};", [a], np.float32)
        with np.errstate(all="ignore"):
            want = function(wide)
        want = np.where(np.abs(want) > np.finfo(np.float32).max, np.copysign(np.inf, want), want)
        assert relative_error(got, want) < unit, op
    angles = np.random.default_rng(5).uniform(-1000, 1000, N).astype(np.float32)
    for op, function in {"sin.approx.f32": np.sin, "cos.approx.f32": np.cos}.items():
        (got,) = elementwise(f"{op} {{o}}, {{0}};", [angles], np.float32)
        assert float(np.max(np.abs(got - function(angles.astype(np.float64))))) < unit, op


def test_special_values() -> None:
    """Infinities, NaN and signed zeros follow IEEE; min and max drop NaN and order the zeros."""
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 3e38], np.float32)
    a, b = (x.ravel().copy() for x in np.meshgrid(special, special))
    with np.errstate(all="ignore"):
        for op, want in {"add": a + b, "sub": a - b, "mul": a * b}.items():
            (got,) = elementwise(f"{op}.f32 {{o}}, {{0}}, {{1}};", [a, b], np.float32)
            np.testing.assert_array_equal(got, want)
    for op, choose in {"min": np.fmin, "max": np.fmax}.items():
        (got,) = elementwise(f"{op}.f32 {{o}}, {{0}}, {{1}};", [a, b], np.float32)
        np.testing.assert_array_equal(got, choose(a, b))
        zeros = (a == 0) & (b == 0)
        either = np.signbit(a) | np.signbit(b) if op == "min" else np.signbit(a) & np.signbit(b)
        np.testing.assert_array_equal(np.signbit(got)[zeros], either[zeros])
        (got,) = elementwise(f"{op}.NaN.f32 {{o}}, {{0}}, {{1}};", [a, b], np.float32)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(a) | np.isnan(b))


def test_sign_operations() -> None:
    a, b = floats(6, N, np.float32), floats(7, N, np.float32)
    bits = a.view(np.uint32)
    (got,) = elementwise("neg.f32 {o}, {0};", [a], np.uint32)
    np.testing.assert_array_equal(got, bits ^ 0x80000000)
    (got,) = elementwise("abs.f32 {o}, {0};", [a], np.uint32)
    np.testing.assert_array_equal(got, bits & 0x7FFFFFFF)
    (got,) = elementwise("copysign.f32 {o}, {0}, {1};", [a, b], np.uint32)
    np.testing.assert_array_equal(got, bits & 0x80000000 | b.view(np.uint32) & 0x7FFFFFFF)


def test_flush_to_zero() -> None:
    """.ftz flushes subnormal operands and results, keeping the sign; without it they stay."""
    tiny = np.finfo(np.float32).tiny
    a = np.array([tiny / 2, -tiny / 2, tiny, -tiny, 1.0, 1e-45], np.float32)
    half = np.full(6, 0.5, np.float32)
    (plain,) = elementwise("mul.f32 {o}, {0}, {1};", [a, half], np.float32)
    (flushed,) = elementwise("mul.ftz.f32 {o}, {0}, {1};", [a, half], np.float32)
    np.testing.assert_array_equal(plain, a * half)
    np.testing.assert_array_equal(flushed, np.array([0, -0.0, 0, -0.0, 0.5, 0], np.float32))
    np.testing.assert_array_equal(np.signbit(flushed), np.signbit(a))


def test_saturation() -> None:
    a = floats(8, N, np.float32)
    zero = np.zeros(N, np.float32)
    (got,) = elementwise("add.sat.f32 {o}, {0}, {1};", [a, zero], np.float32)
    np.testing.assert_array_equal(got, np.where(np.isnan(a), 0, np.clip(a, 0, 1)))


def test_properties() -> None:
    a = floats(9, N, np.float32)
    tiny = np.finfo(np.float32).tiny
    tests = {
        "finite": np.isfinite(a),
        "infinite": np.isinf(a),
        "number": ~np.isnan(a),
        "notanumber": np.isnan(a),
        "normal": np.isfinite(a) & (np.abs(a) >= tiny),
        "subnormal": (a != 0) & (np.abs(a) < tiny),
    }
    for name, want in tests.items():
        body = f"testp.{name}.f32 %p0, {{0}}; selp.u32 {{o}}, 1, 0, %p0;"
        (got,) = elementwise(body, [a], np.uint32)
        np.testing.assert_array_equal(got.astype(bool), want, err_msg=name)
