"""Integer instructions against exact integer arithmetic."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from snippets import elementwise, words

N = 96
Op = Callable[..., int]


def wrap(value: int, bits: int, signed: bool) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def check(body: str, dtypes: list[str], out: str, expected: Op, seed: int = 0) -> None:
    """Runs `body` on edge and random words, and `expected` on the same as Python integers."""
    inputs = [words(seed + i, N, d) for i, d in enumerate(dtypes)]
    (got,) = elementwise(body, inputs, out)
    kind = np.dtype(out)
    for row in range(N):
        values = [int(a[row]) for a in inputs]
        want = wrap(expected(*values), 8 * kind.itemsize, kind.kind == "i")
        assert int(got[row]) == want, (body, values)


def dtype(name: str) -> str:
    return ("i" if name[0] == "s" else "u") + str(int(name[1:]) // 8)


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


TYPES = ["u16", "s16", "u32", "s32", "u64", "s64"]


@pytest.mark.parametrize("t", TYPES)
@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("add", lambda a, b: a + b),
        ("sub", lambda a, b: a - b),
        ("mul.lo", lambda a, b: a * b),
        ("min", min),
        ("max", max),
    ],
)
def test_binary(t: str, op: str, expected: Op) -> None:
    check(f"{op}.{t} {{o}}, {{0}}, {{1}};", [dtype(t)] * 2, dtype(t), expected)


@pytest.mark.parametrize("t", TYPES)
def test_multiply_high(t: str) -> None:
    bits = int(t[1:])
    check(f"mul.hi.{t} {{o}}, {{0}}, {{1}};", [dtype(t)] * 2, dtype(t), lambda a, b: a * b >> bits)


@pytest.mark.parametrize("t", ["u16", "s16", "u32", "s32"])
def test_multiply_wide(t: str) -> None:
    wide = t[0] + str(2 * int(t[1:]))
    body = f"mad.wide.{t} {{o}}, {{0}}, {{1}}, {{2}};"
    check(body, [dtype(t), dtype(t), dtype(wide)], dtype(wide), lambda a, b, c: a * b + c)


@pytest.mark.parametrize("t", ["u16", "s16", "u32", "s32", "u64", "s64"])
def test_multiply_add(t: str) -> None:
    check(f"mad.lo.{t} {{o}}, {{0}}, {{1}}, {{2}};", [dtype(t)] * 3, dtype(t), lambda a, b, c: a * b + c)


@pytest.mark.parametrize("t", ["u32", "s32"])
def test_multiply_24(t: str) -> None:
    def low(a: int) -> int:
        return wrap(a, 24, t == "s32")

    check(f"mul24.lo.{t} {{o}}, {{0}}, {{1}};", [dtype(t)] * 2, dtype(t), lambda a, b: low(a) * low(b))
    check(f"mul24.hi.{t} {{o}}, {{0}}, {{1}};", [dtype(t)] * 2, dtype(t), lambda a, b: low(a) * low(b) >> 16)
    body = f"mad24.lo.{t} {{o}}, {{0}}, {{1}}, {{2}};"
    check(body, [dtype(t)] * 3, dtype(t), lambda a, b, c: low(a) * low(b) + c)


@pytest.mark.parametrize("t", TYPES)
def test_divide(t: str) -> None:
    def quotient(a: int, b: int) -> int:
        return truncated(a, b) if b else -1

    def remainder(a: int, b: int) -> int:
        return a - b * truncated(a, b) if b else a

    check(f"div.{t} {{o}}, {{0}}, {{1}};", [dtype(t)] * 2, dtype(t), quotient)
    check(f"rem.{t} {{o}}, {{0}}, {{1}};", [dtype(t)] * 2, dtype(t), remainder)


@pytest.mark.parametrize("t", ["s16", "s32", "s64"])
def test_signs(t: str) -> None:
    check(f"abs.{t} {{o}}, {{0}};", [dtype(t)], dtype(t), abs)
    check(f"neg.{t} {{o}}, {{0}};", [dtype(t)], dtype(t), lambda a: -a)


def test_saturating_add() -> None:
    def clamp(value: int) -> int:
        return max(-(1 << 31), min((1 << 31) - 1, value))

    check("add.sat.s32 {o}, {0}, {1};", ["i4", "i4"], "i4", lambda a, b: clamp(a + b))
    check("sub.sat.s32 {o}, {0}, {1};", ["i4", "i4"], "i4", lambda a, b: clamp(a - b))


@pytest.mark.parametrize("t", ["u32", "s32"])
def test_sum_of_differences(t: str) -> None:
    body = f"sad.{t} {{o}}, {{0}}, {{1}}, {{2}};"
    check(body, [dtype(t)] * 3, dtype(t), lambda a, b, c: abs(a - b) + c)


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_logic(bits: int) -> None:
    t = f"u{bits // 8}"
    check(f"and.b{bits} {{o}}, {{0}}, {{1}};", [t, t], t, lambda a, b: a & b)
    check(f"or.b{bits} {{o}}, {{0}}, {{1}};", [t, t], t, lambda a, b: a | b)
    check(f"xor.b{bits} {{o}}, {{0}}, {{1}};", [t, t], t, lambda a, b: a ^ b)
    check(f"not.b{bits} {{o}}, {{0}};", [t], t, lambda a: ~a)
    check(f"cnot.b{bits} {{o}}, {{0}};", [t], t, lambda a: int(a == 0))


@pytest.mark.parametrize("t", ["b16", "b32", "b64"])
def test_shift_left(t: str) -> None:
    kind = f"u{int(t[1:]) // 8}"
    check(f"shl.{t} {{o}}, {{0}}, {{1}};", [kind, "u4"], kind, lambda a, n: a << min(n, 64))
    check(
        f"and.b32 %x0, {{1}}, 63; shl.{t} {{o}}, {{0}}, %x0;", [kind, "u4"], kind, lambda a, n: a << (n & 63)
    )


@pytest.mark.parametrize("t", TYPES)
def test_shift_right(t: str) -> None:
    check(f"shr.{t} {{o}}, {{0}}, {{1}};", [dtype(t), "u4"], dtype(t), lambda a, n: a >> n)
    body = f"and.b32 %x0, {{1}}, 63; shr.{t} {{o}}, {{0}}, %x0;"
    check(body, [dtype(t), "u4"], dtype(t), lambda a, n: a >> (n & 63))


@pytest.mark.parametrize("mode", ["wrap", "clamp"])
def test_funnel_shift(mode: str) -> None:
    def amount(n: int) -> int:
        return n & 31 if mode == "wrap" else min(n, 32)

    for seed in (0, 7):
        left, right = (f"shf.{d}.{mode}.b32 {{o}}, {{0}}, {{1}}, {{2}};" for d in "lr")
        check(left, ["u4"] * 3, "u4", lambda a, b, n: (b << 32 | a) << amount(n) >> 32, seed)
        check(right, ["u4"] * 3, "u4", lambda a, b, n: (b << 32 | a) >> amount(n), seed)


@pytest.mark.parametrize("table", [0x00, 0xFF, 0x96, 0xE8, 0xCA, 0x1D, 0x80, 0x6C])
def test_lop3(table: int) -> None:
    def expected(a: int, b: int, c: int) -> int:
        result = 0
        for bit in range(32):
            row = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | (c >> bit & 1)
            result |= (table >> row & 1) << bit
        return result

    check(f"lop3.b32 {{o}}, {{0}}, {{1}}, {{2}}, {table};", ["u4"] * 3, "u4", expected)


@pytest.mark.parametrize("t", ["u32", "s32", "u64", "s64"])
def test_bit_field_extract(t: str) -> None:
    """The manual's own definition, bit by bit."""
    bits = int(t[1:])

    def expected(a: int, position: int, length: int) -> int:
        position, length = position & 255, length & 255
        a &= (1 << bits) - 1
        top = min(position + length - 1, bits - 1)
        sign = 0 if t[0] == "u" or length == 0 else a >> top & 1
        inside = [
            a >> (position + i) & 1 if i < length and position + i < bits else sign for i in range(bits)
        ]
        return sum(bit << i for i, bit in enumerate(inside))

    body = f"and.b32 %x0, {{1}}, 71; and.b32 %x1, {{2}}, 71; bfe.{t} {{o}}, {{0}}, %x0, %x1;"
    for seed in (0, 5):
        check(body, [dtype(t), "u4", "u4"], dtype(t), lambda a, p, n: expected(a, p & 71, n & 71), seed)


@pytest.mark.parametrize("bits", [32, 64])
def test_bit_field_insert(bits: int) -> None:
    def expected(a: int, b: int, position: int, length: int) -> int:
        for i in range(length):
            if position + i < bits:
                b = b & ~(1 << (position + i)) | (a >> i & 1) << (position + i)
        return b

    t = f"u{bits // 8}"
    body = f"and.b32 %x0, {{2}}, 71; and.b32 %x1, {{3}}, 71; bfi.b{bits} {{o}}, {{0}}, {{1}}, %x0, %x1;"
    check(body, [t, t, "u4", "u4"], t, lambda a, b, p, n: expected(a, b, p & 71, n & 71))


@pytest.mark.parametrize("bits", [32, 64])
def test_counting(bits: int) -> None:
    t = f"u{bits // 8}"
    check(f"popc.b{bits} {{o}}, {{0}};", [t], "u4", lambda a: a.bit_count())
    check(f"clz.b{bits} {{o}}, {{0}};", [t], "u4", lambda a: bits - a.bit_length())
    check(f"brev.b{bits} {{o}}, {{0}};", [t], t, lambda a: int(f"{a:0{bits}b}"[::-1], 2))
    check(f"bfind.u{bits} {{o}}, {{0}};", [t], "u4", lambda a: a.bit_length() - 1)
    body = f"bfind.shiftamt.u{bits} {{o}}, {{0}};"
    check(body, [t], "u4", lambda a: bits - a.bit_length() if a else -1)
    signed = f"i{bits // 8}"
    body = f"bfind.s{bits} {{o}}, {{0}};"
    check(body, [signed], "u4", lambda a: (~a if a < 0 else a).bit_length() - 1)


def test_permute_bytes() -> None:
    def expected(a: int, b: int, selector: int) -> int:
        source = (a | b << 32).to_bytes(8, "little")
        chosen = [selector >> 4 * i & 15 for i in range(4)]
        return int.from_bytes(
            [(255 if source[s & 7] & 128 else 0) if s & 8 else source[s & 7] for s in chosen], "little"
        )

    for seed in (0, 11):
        check("prmt.b32 {o}, {0}, {1}, {2};", ["u4"] * 3, "u4", expected, seed)
    check("prmt.b32 {o}, {0}, {1}, 0x5410;", ["u4"] * 2, "u4", lambda a, b: (a & 0xFFFF) | (b & 0xFFFF) << 16)


@pytest.mark.parametrize("left", ["u32", "s32"])
@pytest.mark.parametrize("right", ["u32", "s32"])
def test_dot_products(left: str, right: str) -> None:
    def lane(word: int, i: int, bits: int, t: str) -> int:
        return wrap(word >> bits * i, bits, t == "s32")

    def four(a: int, b: int, c: int) -> int:
        return c + sum(lane(a, i, 8, left) * lane(b, i, 8, right) for i in range(4))

    def two(a: int, b: int, c: int, base: int) -> int:
        return c + sum(lane(a, i, 16, left) * lane(b, base + i, 8, right) for i in range(2))

    check(f"dp4a.{left}.{right} {{o}}, {{0}}, {{1}}, {{2}};", ["u4"] * 3, "u4", four)
    check(
        f"dp2a.lo.{left}.{right} {{o}}, {{0}}, {{1}}, {{2}};",
        ["u4"] * 3,
        "u4",
        lambda a, b, c: two(a, b, c, 0),
    )
    check(
        f"dp2a.hi.{left}.{right} {{o}}, {{0}}, {{1}}, {{2}};",
        ["u4"] * 3,
        "u4",
        lambda a, b, c: two(a, b, c, 2),
    )


def test_carry_chain() -> None:
    """64-bit sums and differences from 32-bit halves."""
    halves = "mov.b64 {%x0, %x1}, {0}; mov.b64 {%x2, %x3}, {1};"
    add = halves + "add.cc.u32 %x0, %x0, %x2; addc.u32 %x1, %x1, %x3; mov.b64 {o}, {%x0, %x1};"
    sub = halves + "sub.cc.u32 %x0, %x0, %x2; subc.u32 %x1, %x1, %x3; mov.b64 {o}, {%x0, %x1};"
    check(add, ["u8", "u8"], "u8", lambda a, b: a + b)
    check(sub, ["u8", "u8"], "u8", lambda a, b: a - b)


def test_wide_product_with_carry() -> None:
    """mad.lo.cc and madc.hi make the 64-bit a * b + c."""
    body = (
        "mov.b64 {%x0, %x1}, {2}; mad.lo.cc.u32 %x2, {0}, {1}, %x0; madc.hi.u32 %x3, {0}, {1}, %x1;"
        "mov.b64 {o}, {%x2, %x3};"
    )
    check(body, ["u4", "u4", "u8"], "u8", lambda a, b, c: a * b + c)
