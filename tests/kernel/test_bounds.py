"""Ranges of index expressions hold every value that the expression takes, whatever its form."""

from __future__ import annotations

import random
import re

import pytest

from tilepipe.kernel.bounds import Ranges
from tilepipe.kernel.file import CudaFile
from tilepipe.kernel.intervals import ANY, Range
from tilepipe.source import SourceFile

THREADS = 64
KERNEL = """
#define TWICE(x) ((x) * 2)
#define WIDTH 24
__global__ void k(int n)
{{
    const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
    const int a = {a};
    for (int i = {first}; i < {bound}; i += {step}) {{
        const unsigned b = {b};
        int moved = 1;
        moved += n;
        unsigned below = tid - 1;
        int found = {e};
    }}
}}
"""


def expression(rng: random.Random, names: list[str], depth: int) -> str:
    """A random index expression of names and small constants, without division by zero."""
    if depth == 0 or rng.random() < 0.15:
        return rng.choice([*names, *names, str(rng.choice([0, 1, 2, 3, 4, 8, 16, 31, 32]))])
    sign = rng.choice(["+", "+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "?", "macro"])
    left = expression(rng, names, depth - 1)
    if sign == "macro":
        return f"TWICE({left})"
    if sign == "?":
        return f"({left} < 8 ? {expression(rng, names, depth - 1)} : {expression(rng, names, depth - 1)})"
    if sign in ("/", "%"):
        return f"({left} {sign} {rng.choice([2, 3, 4, 8, 16, 24])})"
    if sign in ("<<", ">>"):
        return f"({left} {sign} {rng.choice([0, 1, 2, 3])})"
    if sign == "&":
        return f"({left} & {rng.choice([1, 3, 7, 8, 12, 31])})"
    return f"({left} {sign} {expression(rng, names, depth - 1)})"


def evaluate(text: str, names: dict[str, int]) -> int | None:
    """The value in C++, None where an operand of a division or shift is negative."""
    tokens = re.findall(r"TWICE|WIDTH|[a-z]\w*|\d+|<<|>>|[-+*/%&|^?:()<]", text)
    at = 0

    def atom() -> int | None:
        nonlocal at
        token = tokens[at]
        at += 1
        if token == "(":
            value = whole()
            at += 1
            return value
        if token == "TWICE":
            at += 1
            value = whole()
            at += 1
            return None if value is None else value * 2
        if token == "WIDTH":
            return 24
        return int(token) if token.isdigit() else names[token]

    def whole() -> int | None:
        nonlocal at
        left = atom()
        if at >= len(tokens) or tokens[at] == ")":
            return left
        sign = tokens[at]
        at += 1
        right = atom()
        if sign == "<":
            at += 1  # the question mark
            then = atom()
            at += 1  # the colon
            other = atom()
            return None if left is None or right is None else then if left < right else other
        if left is None or right is None:
            return None
        if sign in ("/", "%", "<<", ">>", "|", "^") and (left < 0 or right < 0):
            return None
        return {
            "+": left + right, "-": left - right, "*": left * right, "/": left // right if right else 0,
            "%": left % right if right else 0, "&": left & right, "|": left | right, "^": left ^ right,
            "<<": left << right if 0 <= right < 31 else 0, ">>": left >> right if right >= 0 else 0,
        }[sign]  # fmt: skip

    return whole()


def range_of(text: str) -> Range:
    """The range of `found` in a kernel."""
    file = CudaFile(SourceFile("k.cu", text))
    analysed = file.analyse(file.kernels[0])
    ranges = Ranges(file, analysed, THREADS, lambda _: None, file.kernels[0].body.start)
    at = text.encode().index(b"int found = ") + len(b"int found = ")
    node = file.tree.root.named_descendant_for_byte_range(at, text.encode().index(b";", at))
    assert node is not None
    return ranges.of(node, node)


@pytest.mark.parametrize("seed", range(400))
def test_every_value_lies_in_the_range(seed: int) -> None:
    rng = random.Random(seed)
    first, step = rng.choice([0, 0, 2, 8]), rng.choice([1, 2, 8, 16])
    bound = first + rng.choice([1, 5, 32])
    a = expression(rng, ["tid", "lane", "warp", "WIDTH"], 2)
    b = expression(rng, ["tid", "lane", "i"], 2)
    e = expression(rng, ["tid", "lane", "warp", "i", "a", "b"], 3)
    found = range_of(KERNEL.format(a=a, b=b, e=e, first=first, bound=bound, step=step))
    for tid in range(THREADS):
        for i in range(first, bound, step):
            names = {"tid": tid, "lane": tid & 31, "warp": tid >> 5, "i": i}
            for name, text in (("a", a), ("b", b)):
                value = evaluate(text, names)
                if value is None or value < 0:
                    break
                names[name] = value
            if "a" not in names or "b" not in names:
                continue
            value = evaluate(e, names)
            if value is None:
                continue
            assert found.low is None or found.low <= value, (e, a, b, found, value)
            assert found.high is None or value <= found.high, (e, a, b, found, value)
            assert value % found.step == 0 if found.step else value == 0, (e, a, b, found, value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lane", Range(0, 31, 1)),
        ("warp * 32 + i", Range(0, 48, 16)),
        ("(tid % 4) * 8", Range(0, 24, 8)),
        ("(tid & 3) << 3", Range(0, 24, 8)),
        ("TWICE(i)", Range(0, 32, 32)),
        ("static_cast<int>(tid / 8)", Range(0, 7, 1)),
        ("moved", ANY),  # set twice
        ("below", ANY),  # unsigned: below zero it holds something else
        ("(blockIdx.x * 3) % 6", Range(0, 5, 1)),  # the product may wrap, and is then no multiple of three
        ("(blockIdx.x * 4) % 8", Range(0, 4, 4)),
        ("n", ANY),  # a parameter
        ("(unsigned char)tid", ANY),  # may lose bits
        ("unknown", ANY),
        ("i - 1", Range(-1, 15, 1)),
    ],
)
def test_intervals_are_as_close_as_padding_needs(text: str, expected: Range) -> None:
    assert range_of(KERNEL.format(a="0", b="0", e=text, first=0, bound=32, step=16)) == expected


def test_a_counter_that_its_body_moves_may_be_anything() -> None:
    text = KERNEL.format(a="0", b="0", e="i", first=0, bound=32, step=16).replace("moved += n;", "i += n;")
    assert range_of(text) == ANY


def test_an_inner_name_hides_an_outer_one() -> None:
    text = KERNEL.format(a="0", b="n", e="lane", first=0, bound=32, step=16)
    assert range_of(text.replace("int moved = 1;", "const int lane = n; int moved = 1;")) == ANY
