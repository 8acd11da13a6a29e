"""Classes whose copies run code are not copied by their bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.rewrite.harness import snippet

from tilepipe.diagnostics import Refusal
from tilepipe.kernel.repartition import repartitioned
from tilepipe.kernel.widen import Widened

_BODY = """    __shared__ P t[128];
    float acc = 0.f;
    for (int k = 0; k < n; ++k) {
        t[threadIdx.x] = reinterpret_cast<const P*>(a)[k * 128 + threadIdx.x];
        __syncthreads();
        acc += t[threadIdx.x ^ 1].x;
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = acc;"""
_PLAIN = "struct alignas(8) P { float x, y; };"


@pytest.mark.parametrize(
    ("head", "acts"),
    [
        (_PLAIN, False),
        ("struct alignas(8) P { float x, y; P() = default; P(const P&) = default; };", False),
        ("struct alignas(8) P { float x, y; P() = default; __device__ P(float v) : x(v), y(v) {} };", False),
        ("struct alignas(8) P { float x, y; __device__ P& operator=(const P& o) { x = o.y; return *this; } };", True),
        ("struct B { float x; __device__ B& operator=(const B& o) { x = o.x + 1.f; return *this; } };\n"
         "struct alignas(8) P : B { float y; };", True),
    ],
)  # fmt: skip
def test_only_classes_that_copy_as_bytes_go_asynchronously(head: str, acts: bool, tmp_path: Path) -> None:
    model = snippet(_BODY, tmp_path, head).model
    assert not isinstance(model, Refusal), model
    (buffer,) = model.buffers
    assert (buffer.copy_bytes is None) == acts, buffer.reason
    assert not acts or "runs code of its own" in buffer.reason


def test_what_is_loaded_counts_as_well_as_what_is_stored(tmp_path: Path) -> None:
    head = "struct alignas(8) P { float x, y; __device__ P(const P& o) : x(o.x + 1.f), y(o.y) {} };"
    body = _BODY.replace("__shared__ P t", "__shared__ float t").replace("].x", "]")
    body = body.replace("t[threadIdx.x] = reinterpret", "const P v = reinterpret").replace(
        "[k * 128 + threadIdx.x];", "[k * 128 + threadIdx.x];\n        t[threadIdx.x] = v.x;"
    )
    model = snippet(body, tmp_path, head).model
    assert not isinstance(model, Refusal), model
    assert model.buffers[0].copy_bytes is None


def test_nor_are_they_dealt_anew_in_groups(tmp_path: Path) -> None:
    body = _BODY.replace("const P*>(a)[k * 128", "const P*>(a)[k * 512").replace("].x;", "].v;")
    model = snippet(
        body,
        tmp_path,
        "struct P { unsigned char v; __device__ P& operator=(const P& o) { v = o.v + 1; return *this; } };",
    ).model
    assert not isinstance(model, Refusal), model
    answers = repartitioned(model, model.answers, (128, 1, 1))
    assert not [w for w in answers if isinstance(w, Widened)]
    plain = snippet(body, tmp_path, "struct P { unsigned char v; };").model
    assert not isinstance(plain, Refusal), plain
    assert model.buffers[0].copy_bytes is plain.buffers[0].copy_bytes is None
