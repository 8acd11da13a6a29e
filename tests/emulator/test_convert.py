"""cvt in all directions, mov, setp, selp and their relatives."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from exact import DTYPES, rounded, same
from snippets import Array, elementwise, floats, words

N = 128
INTEGERS = ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"]


def numpy_type(name: str) -> str:
    return ("i" if name[0] == "s" else "u") + str(int(name[1:]) // 8)


def limits(name: str) -> tuple[int, int]:
    info = np.iinfo(np.dtype(numpy_type(name)))
    return int(info.min), int(info.max)


@pytest.mark.parametrize("source", INTEGERS[2:])
@pytest.mark.parametrize("target", INTEGERS[2:])
def test_integer_to_integer(source: str, target: str) -> None:
    a = words(1, N, numpy_type(source))
    (got,) = elementwise(f"cvt.{target}.{source} {{o}}, {{0}};", [a], numpy_type(target))
    np.testing.assert_array_equal(got, a.astype(numpy_type(target)))
    (got,) = elementwise(f"cvt.sat.{target}.{source} {{o}}, {{0}};", [a], numpy_type(target))
    low, high = limits(target)
    assert [int(v) for v in got] == [max(low, min(high, int(v))) for v in a]


@pytest.mark.parametrize("source", ["u8", "s8"])
def test_bytes_in_registers(source: str) -> None:
    """A byte sits in a 16-bit register; cvt extends its low eight bits."""
    a = words(2, N, np.uint16)
    want = a.astype(numpy_type(source)).astype(np.int32)
    (got,) = elementwise(f"cvt.s32.{source} {{o}}, {{0}};", [a], np.int32)
    np.testing.assert_array_equal(got, want)
    (got,) = elementwise(f"cvt.rn.f32.{source} {{o}}, {{0}};", [a], np.float32)
    np.testing.assert_array_equal(got, want.astype(np.float32))


@pytest.mark.parametrize("target", INTEGERS[2:])
@pytest.mark.parametrize("source", ["f32", "f64"])
@pytest.mark.parametrize(
    ("mode", "function"), [("rni", np.rint), ("rzi", np.trunc), ("rmi", np.floor), ("rpi", np.ceil)]
)
def test_float_to_integer(target: str, source: str, mode: str, function: np.ufunc) -> None:
    """Rounded, then clamped to the target's range; NaN gives 0."""
    a = floats(3, N, DTYPES[source])
    (got,) = elementwise(f"cvt.{mode}.{target}.{source} {{o}}, {{0}};", [a], numpy_type(target))
    low, high = limits(target)
    for value, result in zip(a, got, strict=True):
        if math.isnan(value):
            want = 0
        elif math.isinf(value):
            want = high if value > 0 else low
        else:
            want = max(low, min(high, int(function(value))))
        assert int(result) == want, (value, want)


@pytest.mark.parametrize(
    ("target", "source"),
    [(t, s) for t in ("f32", "f64") for s in INTEGERS[4:]]
    + [(t, s) for t in ("f16", "bf16") for s in ("u32", "s32")],
)
def test_integer_to_float(target: str, source: str) -> None:
    a = words(4, N, numpy_type(source))
    out: np.dtype[np.generic] = np.dtype(DTYPES[target])
    (got,) = elementwise(f"cvt.rn.{target}.{source} {{o}}, {{0}};", [a], f"u{out.itemsize}")
    want = [rounded(Fraction(int(v)), target) for v in a]
    assert [float(v) for v in got.view(out)] == want


NARROWINGS = [("f32", "f64", m) for m in ("rn", "rz", "rm", "rp")] + [
    ("f16", "f32", "rn"),
    ("f16", "f32", "rz"),
    ("bf16", "f32", "rn"),
    ("f16", "f64", "rn"),
]


@pytest.mark.parametrize(("target", "source", "mode"), NARROWINGS)
def test_narrowing(target: str, source: str, mode: str) -> None:
    a = np.concatenate([floats(5, N, DTYPES[source]), words(6, N, DTYPES[source])])
    out: np.dtype[np.generic] = np.dtype(DTYPES[target])
    (got,) = elementwise(f"cvt.{mode}.{target}.{source} {{o}}, {{0}};", [a], f"u{out.itemsize}")
    for value, result in zip(a, got.view(out), strict=True):
        v = float(value)
        want = rounded(Fraction(v), target, mode) if math.isfinite(v) else v
        assert same(float(result), want), (v, float(result), want)


@pytest.mark.parametrize(
    ("target", "source"), [("f64", "f32"), ("f32", "f16"), ("f32", "bf16"), ("f64", "f16")]
)
def test_widening_is_exact(target: str, source: str) -> None:
    kind: np.dtype[np.generic] = np.dtype(DTYPES[source])
    a = words(7, N, f"u{kind.itemsize}")
    (got,) = elementwise(f"cvt.{target}.{source} {{o}}, {{0}};", [a], DTYPES[target])
    np.testing.assert_array_equal(got, a.view(kind).astype(DTYPES[target]))


def test_rounding_to_integral_values() -> None:
    a = floats(8, N, np.float32)
    for mode, function in {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}.items():
        (got,) = elementwise(f"cvt.{mode}.f32.f32 {{o}}, {{0}};", [a], np.float32)
        np.testing.assert_array_equal(got, function(a))


@pytest.mark.parametrize("t", ["f16", "bf16"])
def test_packing_a_pair(t: str) -> None:
    high, low = floats(9, N, np.float32), floats(10, N, np.float32)
    (got,) = elementwise(f"cvt.rn.{t}x2.f32 {{o}}, {{0}}, {{1}};", [high, low], np.uint32)
    lanes = got.view(DTYPES[t]).reshape(N, 2).astype(np.float32)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(lanes[:, 0], low.astype(DTYPES[t]).astype(np.float32))
        np.testing.assert_array_equal(lanes[:, 1], high.astype(DTYPES[t]).astype(np.float32))


def test_tf32() -> None:
    """Ten mantissa bits, ties away from zero."""
    a = floats(11, N, np.float32)
    (got,) = elementwise("cvt.rna.tf32.f32 {o}, {0};", [a], np.float32)
    finite = np.isfinite(a) & (np.abs(a) < 1e38)
    bits = a.view(np.uint32)
    want = ((bits + 0x1000) & 0xFFFFE000).view(np.float32)
    np.testing.assert_array_equal(got[finite], want[finite])


def test_pack_and_unpack() -> None:
    a = words(12, N, np.uint64)
    body = (
        "mov.b64 {%x0, %x1}, {0}; mov.b32 {%z0, %z1}, %x0; mov.b32 %x2, {%z1, %z0}; mov.b64 {o}, {%x1, %x2};"
    )
    (got,) = elementwise(body, [a], np.uint64)
    low, high = a & np.uint64(0xFFFFFFFF), a >> np.uint64(32)
    swapped = (low & np.uint64(0xFFFF)) << np.uint64(16) | low >> np.uint64(16)
    np.testing.assert_array_equal(got, swapped << np.uint64(32) | high)


COMPARISONS = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def compared(a: Array, b: Array, test: str, t: str) -> Array:
    (got,) = elementwise(f"setp.{test}.{t} %p0, {{0}}, {{1}}; selp.u32 {{o}}, 1, 0, %p0;", [a, b], np.uint32)
    return got.astype(bool)


@pytest.mark.parametrize("t", INTEGERS[2:])
def test_integer_comparison(t: str) -> None:
    a, b = words(13, N, numpy_type(t)), words(14, N, numpy_type(t))
    b[::3] = a[::3]
    for test, function in COMPARISONS.items():
        np.testing.assert_array_equal(compared(a, b, test, t), function(a, b), err_msg=test)
    if t[0] == "u":
        for test, name in {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.items():
            np.testing.assert_array_equal(compared(a, b, test, t), COMPARISONS[name](a, b))


@pytest.mark.parametrize("t", ["f32", "f64", "f16", "bf16"])
def test_float_comparison(t: str) -> None:
    """Ordered tests are false on NaN, unordered ones (…u) true."""
    kind: np.dtype[np.generic] = np.dtype(DTYPES[t])
    with np.errstate(over="ignore"):
        a, b = floats(15, N, np.float32).astype(kind), floats(16, N, np.float32).astype(kind)
    b[::3] = a[::3]
    bits = [x.view(f"u{kind.itemsize}") for x in (a, b)]
    wide = [x.astype(np.float64) for x in (a, b)]
    nan = np.isnan(wide[0]) | np.isnan(wide[1])
    for test, function in COMPARISONS.items():
        want = function(*wide)
        np.testing.assert_array_equal(compared(*bits, test, t), want & ~nan, err_msg=test)
        np.testing.assert_array_equal(compared(*bits, test + "u", t), want | nan, err_msg=test)
    np.testing.assert_array_equal(compared(*bits, "nan", t), nan)
    np.testing.assert_array_equal(compared(*bits, "num", t), ~nan)


def test_predicate_pair_and_combination() -> None:
    """p = (a < b) and c; q = !(a < b) and c."""
    a, b, c = words(17, N, np.int32), words(18, N, np.int32), words(19, N, np.uint32)
    body = (
        "and.b32 %x0, {2}, 1; setp.ne.u32 %p3, %x0, 0; setp.lt.and.s32 %p0|%p1, {0}, {1}, !%p3;"
        "selp.u32 %x1, 1, 0, %p0; selp.u32 %x2, 2, 0, %p1; or.b32 {o}, %x1, %x2;"
    )
    (got,) = elementwise(body, [a, b, c], np.uint32)
    third = c & 1 == 0
    np.testing.assert_array_equal(got, ((a < b) & third) * 1 + ((a >= b) & third) * 2)


def test_set_and_slct() -> None:
    a, b, c = words(20, N, np.int32), words(21, N, np.int32), words(22, N, np.int32)
    (got,) = elementwise("set.lt.u32.s32 {o}, {0}, {1};", [a, b], np.uint32)
    np.testing.assert_array_equal(got, np.where(a < b, 0xFFFFFFFF, 0))
    (got,) = elementwise("slct.s32.s32 {o}, {0}, {1}, {2};", [a, b, c], np.int32)
    np.testing.assert_array_equal(got, np.where(c >= 0, a, b))


def test_guarded_instruction_keeps_the_old_value() -> None:
    a, b = words(23, N, np.int32), words(24, N, np.int32)
    body = "mov.u32 {o}, {1}; setp.lt.s32 %p0, {0}, 0; @%p0 mov.u32 {o}, 7; @!%p0 add.s32 {o}, {o}, 1;"
    (got,) = elementwise(body, [a, b], np.int32)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(got, np.where(a < 0, 7, b + np.int32(1)))
