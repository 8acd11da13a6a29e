"""Copies of many forms dealt anew, against brute force: what is called legal must be, on any sizes."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

import pytest

from tilepipe.diagnostics import Refusal
from tilepipe.kernel.copies import Copy
from tilepipe.kernel.file import CudaFile
from tilepipe.kernel.model import build, study
from tilepipe.kernel.spread import spread, spread_asks
from tilepipe.kernel.spreader import Spread
from tilepipe.kernel.widen import constants_wanted
from tilepipe.source import SourceFile

ELEMENT = {"signed char": 1, "__half": 2, "float": 4, "double": 8}

KERNEL = """
__global__ void k(const {type}* __restrict__ A, {type}* __restrict__ C, int M, int N, int K)
{{
    __shared__ {type} s[64][{pitch}];
    const int x = threadIdx.x, y = threadIdx.y;
    const int t = y * {bx} + x;
    const int m0 = blockIdx.y * 16;
    float sum = 0.f;
    for (int k0 = 0; k0 < K; k0 += {depth}) {{
        {loops}{{
            const int r = {row}, c = {column};
            {when}s[{srow}][{scol}] = {value};
        }}
        __syncthreads();
        for (int j = 0; j < 64; ++j)
            sum += (float)s[j][x];
        __syncthreads();
    }}
    C[t] = ({type})sum;
}}
"""


@dataclass(frozen=True)
class Loop:
    """`for (int name = start; name < bound; name += step)`."""

    name: str
    start: str
    bound: int
    step: int

    @property
    def text(self) -> str:
        return (
            f"for (int {self.name} = {self.start}; {self.name} < {self.bound}; {self.name} += {self.step}) "
        )


@dataclass(frozen=True)
class Made:
    """A random copy: its source text and its parts in Python's syntax."""

    text: str
    type: str
    parts: dict[str, str]
    numbers: dict[str, int]
    loops: tuple[Loop, ...]


def made(seed: int) -> Made:
    """A copy like those people write, with mistakes and twists that make some of them illegal to deal anew."""
    rng = random.Random(seed)
    type_ = rng.choice(list(ELEMENT))
    bx, by = rng.choice([(16, 16), (32, 8), (8, 8), (64, 4), (32, 1), (128, 1), (12, 8)])
    depth = rng.choice([bx, 16, 32, 12, 3])
    loops, row, column = forms(rng, bx, by)
    widest = 64 if len(loops) else max(bx, 16)
    pitch = widest * 2 + rng.choice([0, 0, 1, 4, 8, 16])
    if rng.random() < 0.1:
        row, column = column, row
    scol = rng.choice(
        ["c"] * 6 + [f"(c ^ ({rng.choice([4, 8, 16])} * (r & 1)))", "(c + 1) % 8", "c * 2", "c / 2"]
    )
    index = rng.choice(
        ["(m0 + r) * K + k0 + c"] * 4
        + [
            "(k0 + r) * N + c",
            "(m0 + r) * K + k0 + c * 2",
            "r * 64 + k0 + c",
            "(m0 + c) * K + k0 + r",
            "k0 * r + c",
            "min(m0 + r, M - 1) * K + k0 + c",
            "(m0 + r) * K + min(k0 + c, K - 1)",
            "(m0 + r) * K + k0 + (r < 2 ? c : c + 4)",
        ]
    )
    guards = ["", "m0 + r < M && k0 + c < K", "k0 + c < K", "k0 + c + 1 < K", "k0 + c <= K", "c < N", "r < M && c >= 4",
              "k0 + c < K && c < r + 8", "M > m0 + r", "!(k0 + c >= K)", "k0 + c < min(K, N)",
              "k0 + c != K"]  # fmt: skip
    guard = rng.choice(guards)
    when = rng.choice([""] * 6 + ["c < 8", "c < 6", "r < 3", "x < 8 && y < 2"])
    value = f"{guard} ? A[{index}] : ({type_})0" if guard else f"A[{index}]"
    numbers = {"bx": bx, "by": by, "pitch": pitch, "depth": depth}
    parts = {
        "row": row,
        "column": column,
        "scol": scol,
        "index": index,
        "guard": guard or "1",
        "when": when or "1",
    }
    text = KERNEL.format(
        type=type_, loops="".join(loop.text for loop in loops), row=row, column=column, srow="r", scol=scol,
        value=value, when=f"if ({when}) " if when else "", **numbers,
    )  # fmt: skip
    return Made(text, type_, parts, numbers, tuple(loops))


def forms(rng: random.Random, bx: int, by: int) -> tuple[list[Loop], str, str]:
    """The loops around a copy, its row and its column."""
    kind = rng.randrange(7)
    if kind == 0:
        return [], "y", "x"
    if kind == 1:
        d = rng.choice([8, 16, 32, bx])
        return [], f"t / {d}", f"t % {d}"
    if kind == 2:
        return [Loop("i", "y", rng.choice([16, 13]), by)], "i", "x"
    if kind == 3:
        n = rng.choice([2, 4, 8, 3])
        return [Loop("j", "0", n, 1)], "y", f"x * {n} + j"
    if kind == 4:
        return [Loop("i", "y", 16, by), Loop("j", "x", rng.choice([32, 64, 30]), bx)], "i", "j"
    if kind == 5:
        d = rng.choice([16, 32])
        return [Loop("i", "t", rng.choice([256, 512, 200]), bx * by)], f"i / {d}", f"i % {d}"
    return [Loop("o", "0", 4, rng.choice([1, 2]))], f"y + o * {by}", "x"


def proved(m: Made) -> Spread | None:
    file = CudaFile(SourceFile("k.cu", m.text))
    found = study(file, file.kernels[0])
    if isinstance(found, Refusal):
        return None
    asks = (*found.asks, *constants_wanted(found), *spread_asks(found))
    answers = {a.key: answer(m, a.key, a.kind, a.expression) for a in asks}
    model = build(found, answers)
    copies = [c for c in model.copies if isinstance(c, Copy)]
    results = spread(model, answers, (m.numbers["bx"], m.numbers["by"], 1), copies)
    return results[0] if results and isinstance(results[0], Spread) else None


def answer(m: Made, key: str, kind: str, expression: str) -> int | str | None:
    """What a compiler would say of a question, which names literals only."""
    size = ELEMENT[m.type]
    if kind == "type":
        return m.type
    if key.startswith(("size:", "pointee:")):
        return size
    if key.startswith("row:"):
        return size * (m.numbers["pitch"] if key.endswith(":1") else 1)
    if key.startswith("array:"):
        return size * 64 * m.numbers["pitch"]
    return int(expression) if re.fullmatch(r"\d+", expression) else None


def value(text: str, names: dict[str, int]) -> int:
    """A C++ expression on integers of zero and above."""
    text = re.sub(r"\((\w+ < \d+) \? (.+?) : (.+?)\)", r"((\2) if \1 else (\3))", text)
    text = (
        text.replace("/", "//")
        .replace("&&", " and ")
        .replace("!=", "~=")
        .replace("!", " not ")
        .replace("~=", "!=")
    )
    return int(eval(text, {"min": min}, names))


def violations(m: Made, wide: Spread, rng: random.Random) -> list[str]:
    """Groups that break a condition of the proof, at random sizes that meet the run-time conditions."""
    asked = [c for c in wide.conditions if not c.startswith(("tp_aligned", "blockDim"))]
    divisor = 16 // ELEMENT[m.type] if asked else 1
    wrong = covering(m, wide)
    for _ in range(4):
        sizes = {n: rng.choice([1, divisor]) * rng.randint(1, 40) for n in "MNK"}
        if not all(value(c, sizes) for c in asked):
            sizes = {n: divisor * rng.randint(1, 40) for n in "MNK"}
        assert all(value(c, sizes) for c in asked), asked
        state = {"m0": 16 * rng.randint(0, 3), "k0": m.numbers["depth"] * rng.randint(0, 5)}
        for first in range(0, wide.count, wide.elements):
            wrong += broken(m, wide, {**sizes, **state}, first)
    return wrong


def element(m: Made, wide: Spread, number: int) -> dict[str, int]:
    """The coordinates and names of an element."""
    names = {"x": 0, "y": 0}
    turns = {}
    for axis in wide.axes:
        name = axis.name if isinstance(axis.name, str) else axis.name.name
        (names if isinstance(axis.name, str) else turns)[name] = number % axis.extent
        number //= axis.extent
    names["t"] = names["y"] * m.numbers["bx"] + names["x"]
    for loop in m.loops:
        names[loop.name] = value(loop.start, names) + turns[loop.name] * loop.step
    names["r"], names["c"] = value(m.parts["row"], names), value(m.parts["column"], names)
    return names


def broken(m: Made, wide: Spread, sizes: dict[str, int], first: int) -> list[str]:
    """What is wrong with one group."""
    seen = []
    for number in range(first, first + wide.elements):
        names = {**sizes, **element(m, wide, number)}
        live = all(names[loop.name] < loop.bound for loop in m.loops) and value(m.parts["when"], names)
        shared = names["r"] * m.numbers["pitch"] + value(m.parts["scol"], names)
        seen.append(
            (bool(live), shared, value(m.parts["index"], names), bool(value(m.parts["guard"], names)))
        )
    if len({s[0] for s in seen}) != 1:
        return [f"live {seen}"]
    if not seen[0][0]:
        return []
    wrong = []
    for which in (1, 2):
        start = seen[0][which]
        if [s[which] for s in seen] != list(range(start, start + wide.elements)) or start % wide.elements:
            wrong.append(f"{'shared' if which == 1 else 'global'} {seen} {sizes}")
    holds = [s[3] for s in seen]
    if holds != sorted(holds, reverse=True) or (len(set(holds)) != 1 and not wide.edges):
        wrong.append(f"guard {seen} {sizes}")
    return wrong


def covering(m: Made, wide: Spread) -> list[str]:
    """Every thread and iteration of the author's loops has one number."""
    expected = set()
    for x in range(m.numbers["bx"]):
        for y in range(m.numbers["by"]):
            points = [{"x": x, "y": y, "t": y * m.numbers["bx"] + x}]
            for loop in m.loops:
                points = [
                    {**p, loop.name: at}
                    for p in points
                    for at in range(value(loop.start, p), loop.bound, loop.step)
                ]
            expected |= {tuple(sorted(p.items())) for p in points}
    keys = {"x", "y", "t", *(loop.name for loop in m.loops)}
    numbered = [
        tuple(sorted((k, v) for k, v in element(m, wide, n).items() if k in keys)) for n in range(wide.count)
    ]
    if len(set(numbered)) != len(numbered):
        return ["two numbers for one element"]
    return [] if expected <= set(numbered) else [f"{len(expected - set(numbered))} elements without a number"]


@pytest.mark.parametrize("block", range(8))
def test_nothing_illegal_is_called_legal(block: int) -> None:
    wide = 0
    for seed in range(block * 40, block * 40 + 40):
        m = made(seed)
        result = proved(m)
        if result is not None:
            wide += 1
            assert violations(m, result, random.Random(seed)) == [], m.text
    assert wide > 0, "the generator makes legal copies too"


@pytest.mark.full
@pytest.mark.parametrize("block", range(8, 60))
def test_nothing_illegal_is_called_legal_in_the_large(block: int) -> None:
    test_nothing_illegal_is_called_legal(block)
