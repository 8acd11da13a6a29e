"""The proof that copies may be widened, against brute force: what is called legal must be, on any sizes."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

import pytest

from tilepipe.diagnostics import Refusal
from tilepipe.kernel.file import CudaFile
from tilepipe.kernel.model import KernelModel, build, study
from tilepipe.kernel.widen import Narrow, Wide, constants_wanted, widen
from tilepipe.source import SourceFile

ELEMENT = {"signed char": 1, "__half": 2, "float": 4}
THREADS = 32

KERNEL = """
__global__ void k(const {type}* __restrict__ A, {type}* __restrict__ C, int M, int N, int K)
{{
    __shared__ {type} s[{rows}][{pitch}];
    const int tid = threadIdx.x;
    const int m0 = blockIdx.y * {rows};
    float sum = 0.f;
    for (int k0 = 0; k0 < K; k0 += {depth}) {{
        for (int i = tid; i < {count}; i += {threads}) {{
            const int r = {row}, c = {column};
            s[{srow}][{scol}] = {value};
        }}
        __syncthreads();
        for (int j = 0; j < {rows}; ++j)
            sum += (float)s[j][tid];
        __syncthreads();
    }}
    C[tid] = ({type})sum;
}}
"""


@dataclass(frozen=True)
class Made:
    """A random copy: its source text and its parts in Python's syntax."""

    text: str
    type: str
    parts: dict[str, str]
    numbers: dict[str, int]


def made(seed: int) -> Made:
    """A copy like those people write, with mistakes and twists that make some of them illegal to widen."""
    rng = random.Random(seed)
    type_ = rng.choice(list(ELEMENT))
    rows, columns = rng.choice([4, 8, 16]), rng.choice([8, 16, 24, 32, 64])
    pitch = columns + rng.choice([0, 0, 1, 4, 8, 16])
    divisor = columns if rng.random() < 0.85 else rng.choice([columns // 2, columns + 4])
    depth = rng.choice([columns, 16, 12, 3])
    row, column = f"i / {divisor}", f"i % {divisor}"
    if rng.random() < 0.15:
        row, column = column, row
    scol = rng.choice(["c"] * 6 + [f"(c ^ ({rng.choice([4, 8, 16])} * (r & 1)))", "(c + 1) % 8"])
    index = rng.choice(
        ["(m0 + r) * K + k0 + c"] * 4
        + [
            "(k0 + r) * N + c",
            "(m0 + r) * K + k0 + c * 2",
            "r * 64 + k0 + c",
            "(m0 + c) * K + k0 + r",
            "k0 * r + c",
        ]
    )
    guard = rng.choice(
        ["", "m0 + r < M && k0 + c < K", "k0 + c < K", "k0 + c + 1 < K", "k0 + c <= K", "c < N", "r < M && c >= 4",
         "k0 + c < K && c < r + 8", "M > m0 + r"]
    )  # fmt: skip
    value = f"{guard} ? A[{index}] : ({type_})0" if guard else f"A[{index}]"
    numbers = {"rows": max(rows, 64), "pitch": pitch, "depth": depth, "count": rows * divisor}
    parts = {"row": row, "column": column, "scol": scol, "index": index, "guard": guard or "1"}
    text = KERNEL.format(
        type=type_, threads=THREADS, row=row, column=column, srow="r", scol=scol, value=value, **numbers
    )
    return Made(text, type_, parts, numbers)


def answers_for(m: Made, asks: object) -> dict[str, int | str | None]:
    """What a compiler would say of the questions, which name literals only."""
    size = ELEMENT[m.type]
    found: dict[str, int | str | None] = {}
    for ask in asks:  # type: ignore[attr-defined]
        if ask.key.startswith("extent:"):
            found[ask.key] = size * (m.numbers["pitch"] if ask.key.endswith(":0") else 1)
        elif ask.kind == "type":
            found[ask.key] = m.type
        elif ask.key.startswith("size:"):
            found[ask.key] = size
        elif ask.key.startswith("array:"):
            found[ask.key] = size * m.numbers["rows"] * m.numbers["pitch"]
        else:
            found[ask.key] = int(ask.expression) if re.fullmatch(r"\d+", ask.expression) else None
    return found


def proved(m: Made) -> Wide | Narrow | None:
    file = CudaFile(SourceFile("k.cu", m.text))
    found = study(file, file.kernels[0])
    if isinstance(found, Refusal):
        return None
    answers = answers_for(m, (*found.asks, *constants_wanted(found)))
    model: KernelModel = build(found, answers)
    results = widen(model, answers)
    return results[0] if results else None


def python(text: str) -> str:
    return text.replace("/", "//").replace("&&", "and")


def violations(m: Made, wide: Wide, rng: random.Random) -> list[str]:
    """Groups that break a condition of the proof, at random sizes that meet the run-time conditions."""
    divisors = dict(re.findall(r"\b([MNK]) % (\d+) == 0", " ".join(wide.conditions)) and [
        (n, int(d)) for n, d in re.findall(r"\b([MNK]) % (\d+) == 0", " ".join(wide.conditions))
    ])  # fmt: skip
    wrong = []
    for _ in range(4):
        sizes = {n: divisors.get(n, 1) * rng.randint(1, 40) for n in "MNK"}
        state = {"m0": m.numbers["rows"] * rng.randint(0, 3), "k0": m.numbers["depth"] * rng.randint(0, 5)}
        for first in range(0, m.numbers["count"], wide.elements):
            seen = []
            for i in range(first, first + wide.elements):
                names = {**sizes, **state, "i": i}
                names["r"], names["c"] = (
                    eval(python(m.parts["row"]), {}, names),
                    eval(python(m.parts["column"]), {}, names),
                )
                shared = names["r"] * m.numbers["pitch"] + eval(python(m.parts["scol"]), {}, names)
                seen.append(
                    (
                        shared,
                        eval(m.parts["index"], {}, names),
                        bool(eval(python(m.parts["guard"]), {}, names)),
                    )
                )
            for which in (0, 1):
                start = seen[0][which]
                if [x[which] for x in seen] != list(
                    range(start, start + wide.elements)
                ) or start % wide.elements:
                    wrong.append(f"{'shared' if which == 0 else 'global'} {seen} {names}")
            if len({x[2] for x in seen}) != 1:
                wrong.append(f"guard {seen} {names}")
    return wrong


@pytest.mark.parametrize("block", range(8))
def test_nothing_illegal_is_called_legal(block: int) -> None:
    wide = 0
    for seed in range(block * 50, block * 50 + 50):
        m = made(seed)
        result = proved(m)
        if isinstance(result, Wide):
            wide += 1
            assert violations(m, result, random.Random(seed)) == [], m.text
    assert wide > 0, "the generator makes legal copies too"


@pytest.mark.full
@pytest.mark.parametrize("block", range(8, 60))
def test_nothing_illegal_is_called_legal_in_the_large(block: int) -> None:
    test_nothing_illegal_is_called_legal(block)


def test_the_textbook_copy_is_widened_under_its_conditions() -> None:
    text = KERNEL.format(
        type="signed char", threads=THREADS, rows=64, pitch=32, depth=32, count=2048, row="i / 32", column="i % 32",
        srow="r", scol="c", value="(m0 + r < M && k0 + c < K) ? A[(m0 + r) * K + k0 + c] : (signed char)0",
    )  # fmt: skip
    m = Made(text, "signed char", {}, {"rows": 64, "pitch": 32, "depth": 32, "count": 2048})
    result = proved(m)
    assert isinstance(result, Wide)
    assert (result.bytes, result.elements, result.count, result.threads) == (16, 16, 2048, THREADS)
    assert result.conditions == (
        "blockDim.x == 32 && blockDim.y * blockDim.z == 1", "K % 16 == 0", "tp_aligned(A, 16)",
    )  # fmt: skip


def test_a_parameter_hidden_by_a_local_is_not_trusted() -> None:
    m = made(0)
    text = KERNEL.format(
        type="float", threads=THREADS, rows=64, pitch=32, depth=32, count=512, row="i / 32", column="i % 32",
        srow="r", scol="c", value="A[(m0 + r) * K + k0 + c]",
    ).replace("const int tid", "int K = 5; const int tid", 1)  # fmt: skip
    result = proved(Made(text, "float", m.parts, {"rows": 64, "pitch": 32, "depth": 32, "count": 512}))
    assert not isinstance(result, Wide)
