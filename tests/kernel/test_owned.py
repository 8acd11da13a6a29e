"""No asynchronous copy is made of what may lie in a thread's own memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.rewrite.harness import snippet

from tilepipe.diagnostics import Refusal

BODY = """\
    __shared__ float s[128];
    float own[4] = {1.f, 2.f, 3.f, 4.f}, rows[2][4] = {};
    int at[4] = {0, 128, 256, 384};
    const float* q = a;
    float sum = own[n & 3] + rows[n & 1][0];
    for (int k = 0; k < n; ++k) {
        const float* p = FROM;
        s[threadIdx.x] = p[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i)
            sum += s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum + *q;"""


@pytest.mark.parametrize(
    ("source", "copied"),
    [
        ("a", True),
        ("a + at[k & 3]", True),
        ("a + (int)rows[k & 1][2]", True),
        ("&a[at[0]]", True),
        ("q", True),
        ("(k & 1) ? own : a", False),
        ("(k & 1) ? rows[1] : a", False),
        ("(k & 1) ? &own[0] : a", False),
        ("(k & 1) ? &(rows[0][1]) : a", False),
    ],
)
def test_a_pointer_to_memory_of_its_own(source: str, copied: bool, tmp_path: Path) -> None:
    model = snippet(BODY.replace("FROM", source), tmp_path).model
    assert not isinstance(model, Refusal), model.diagnostics[0].message
    (buffer,) = model.buffers
    assert buffer.copy_bytes == (4 if copied else None)
    assert copied or "memory of the thread's own" in buffer.reason


@pytest.mark.parametrize(("refers", "copied"), [("s", True), ("own", False)])
def test_references(refers: str, copied: bool, tmp_path: Path) -> None:
    stored = {"s": "*(&view[threadIdx.x])", "own": "s[threadIdx.x]"}[refers]
    source = {"s": "a", "own": "(k & 1) ? view : a"}[refers]
    body = BODY.replace(
        "        const float* p = FROM;",
        f"        auto& view = {refers};\n        const float* p = {source};",
    )
    model = snippet(body.replace("s[threadIdx.x] =", f"{stored} ="), tmp_path).model
    assert not isinstance(model, Refusal), model.diagnostics[0].message
    assert model.buffers[0].copy_bytes == (4 if copied else None)


def test_through_another_pointer(tmp_path: Path) -> None:
    body = BODY.replace("FROM", "q").replace("const float* q = a;", "const float* q = n > 3 ? own : a;")
    model = snippet(body, tmp_path).model
    assert not isinstance(model, Refusal)
    assert model.buffers[0].copy_bytes is None
