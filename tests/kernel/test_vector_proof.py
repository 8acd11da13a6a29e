"""Stores of neighbours in vectors: what is called aligned must be, for every thread, against brute force."""

from __future__ import annotations

import re
from math import prod

from hypothesis import given, settings
from hypothesis import strategies as st

from tilepipe.diagnostics import Refusal
from tilepipe.kernel.file import CudaFile
from tilepipe.kernel.model import KernelModel, build, study
from tilepipe.kernel.vectorstores import VectorStore, vector_asks, vector_stores, widest
from tilepipe.source import SourceFile

SIZES = {"signed char": 1, "short": 2, "int": 4}
THREADS = 64
KERNEL = """
__global__ void __launch_bounds__({threads}) k(const int4* __restrict__ A, int* __restrict__ C, int n)
{{
    __shared__ __align__(16) {type} s[{rows}][{pitch}];
    const int t = threadIdx.x;
    const int u = {local};
    int sum = 0;
    for (int k = 0; k < n; ++k) {{
        const int4 v = A[k * {threads} + t];
        const {type}* q = reinterpret_cast<const {type}*>(&v);
        for (int j = 0; j < {count}; ++j)
            s[{row}][{column}] = q[j & 3];
        __syncthreads();
        sum += s[t & 3][0];
        __syncthreads();
    }}
    C[t] = sum;
}}
"""


@st.composite
def expressions(draw: st.DrawFn, names: tuple[str, ...], depth: int = 2) -> str:
    """An index of thread coordinates, never negative."""
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from([*names, str(draw(st.integers(0, 24)))]))
    sign = draw(st.sampled_from(["+", "*", "/", "%", "&", "|", "^", "<<", ">>"]))
    left = draw(expressions(names, depth - 1))
    if sign in ("/", "%"):
        return f"({left} {sign} {draw(st.sampled_from([2, 3, 4, 8, 12, 16]))})"
    if sign in ("<<", ">>"):
        return f"({left} {sign} {draw(st.integers(0, 4))})"
    if sign == "*":
        return f"({left} * {draw(st.sampled_from([1, 2, 3, 4, 6, 8, 16, 24]))})"
    return f"({left} {sign} {draw(expressions(names, depth - 1))})"


def proved(text: str, type_: str, pitch: int, rows: int) -> VectorStore | None:
    """The vector store of the kernel, with what a compiler would say of the questions, which name literals only."""
    file = CudaFile(SourceFile("k.cu", text))
    found = study(file, file.kernels[0])
    assert not isinstance(found, Refusal), found.diagnostics[0].message
    size, answers = SIZES[type_], {}
    for ask in (*found.asks, *vector_asks(found)):
        if ask.key.startswith("stride:"):
            answers[ask.key] = size * (pitch if ask.key.endswith(":0") else 1)
        elif ask.key.startswith("array:"):
            answers[ask.key] = size * rows * pitch
        elif ask.key.startswith("size:"):
            answers[ask.key] = size
        elif ask.kind == "plain":
            answers[ask.key] = 1
        elif ask.kind == "type":
            answers[ask.key] = type_
        else:
            answers[ask.key] = int(ask.expression) if re.fullmatch(r"\d+", ask.expression) else None
    model = build(found, answers)
    assert isinstance(model, KernelModel)
    stores = vector_stores(model, {b.piece for b in model.buffers})
    return stores[0] if stores else None


def value(text: str, names: dict[str, int]) -> int:
    return int(eval(text.replace("/", "//"), {}, names))


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(sorted(SIZES)),
    st.sampled_from([16, 32, 40, 44, 48, 66, 72, 132, 144]),
    st.sampled_from([1, 2, 3, 4, 6, 8, 16]),
    expressions(("t",)),
    expressions(("t", "u")),
    st.sampled_from(
        ["{0} + j", "j + {0}", "{0} + j * 2", "({0} + j) + 4", "{0} + (j + 3)", "{0} + j + j", "{0}", "j"]
    ),
    expressions(("t", "u")),
)
def test_no_store_is_called_aligned_that_is_not(
    type_: str, pitch: int, count: int, local: str, row: str, form: str, column: str
) -> None:
    text = KERNEL.format(
        type=type_,
        threads=THREADS,
        rows=64,
        pitch=pitch,
        local=local,
        count=count,
        row=row,
        column=form.format(column),
    )
    found = proved(text, type_, pitch, 64)
    if found is None:
        return
    size = SIZES[type_]
    assert found.bytes > size and count * size % found.bytes == 0
    for t in range(THREADS):
        names = {"t": t, "u": value(local, {"t": t})}
        places = [
            (value(row, names) * pitch + value(form.format(column), {**names, "j": j})) * size
            for j in range(count)
        ]
        assert places[0] % found.bytes == 0, text
        assert places == [places[0] + size * j for j in range(count)], text


def test_the_textbook_store_is_found() -> None:
    text = KERNEL.format(
        type="short",
        threads=THREADS,
        rows=64,
        pitch=72,
        local="(t & 3) * 16",
        count=16,
        row="t >> 2",
        column="u + j",
    )
    found = proved(text, "short", 72, 64)
    assert found is not None
    assert (found.bytes, found.count, found.first) == (16, 16, "s[t >> 2][u]")


@given(
    st.sampled_from((1, 2, 4)),
    st.integers(0, 40),
    st.lists(st.tuples(st.integers(0, 48), st.integers(1, 40)), min_size=1, max_size=3),
)
def test_the_width_is_the_widest_that_is_aligned(size: int, count: int, axes: list[tuple[int, int]]) -> None:
    """Of indices that take every multiple of their steps: no narrower than could be, and no wider."""
    steps, strides = [s for s, _ in axes], [d * size for _, d in axes[:-1]] + [size]
    reached = [0]
    for step, stride in zip(steps, strides, strict=True):
        reached = [r + n * step * stride for r in reached for n in range(4)]
    assert len(reached) == prod([4] * len(axes))
    fitting = [
        w
        for w in (4, 8, 16)
        if w > size and count and count * size % w == 0 and all(r % w == 0 for r in reached)
    ]
    assert widest(size, count, steps, list(strides)) == max(fitting, default=None)


def test_strides_that_are_not_those_of_the_element_are_not_understood() -> None:
    assert widest(2, 16, [8], [4]) is None
    assert widest(2, 16, [8, 8], [None, 2]) is None
