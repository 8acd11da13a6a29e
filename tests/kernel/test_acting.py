"""Classes whose copies run code are not copied by their bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.rewrite.harness import snippet

from tilepipe import pipeline_source
from tilepipe.diagnostics import Refusal
from tilepipe.kernel.acting import objects_of
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


_ACTING = (
    "struct alignas(8) P { float x, y; __device__ P& operator=(const P& o) { x = o.y; return *this; } };"
)
_BUILT = (
    "struct alignas(8) P { float x, y; P() = default; __device__ P(const P& o) : x(o.x + 1.f), y(o.y) {} };"
)


@pytest.mark.parametrize(
    ("header", "acts"),
    [(_PLAIN, False), (_ACTING, True), (_BUILT, True), (_ACTING.replace(" P", " Q") + " using P = Q;", True)],
)
def test_of_classes_in_headers_the_compiler_tells(header: str, acts: bool, tmp_path: Path) -> None:
    (tmp_path / "p.h").write_text(header, encoding="utf-8")
    model = snippet(_BODY, tmp_path, f'#include "{tmp_path}/p.h"').model
    assert not isinstance(model, Refusal), model
    (buffer,) = model.buffers
    assert (buffer.copy_bytes is None) == acts, buffer.reason
    assert not acts or "runs code of its own" in buffer.reason


@pytest.mark.parametrize(("header", "acts"), [(_PLAIN, False), (_BUILT, True)])
def test_a_variable_of_such_a_class_in_between_counts(header: str, acts: bool, tmp_path: Path) -> None:
    (tmp_path / "p.h").write_text(header, encoding="utf-8")
    body = _BODY.replace("__shared__ P t", "__shared__ float t").replace("].x", "]")
    body = body.replace("t[threadIdx.x] = reinterpret", "const P v = reinterpret").replace(
        "[k * 128 + threadIdx.x];", "[k * 128 + threadIdx.x];\n        t[threadIdx.x] = v.x;"
    )
    model = snippet(body, tmp_path, f'#include "{tmp_path}/p.h"').model
    assert not isinstance(model, Refusal), model
    assert (model.buffers[0].copy_bytes is None) == acts, model.buffers[0].reason


@pytest.mark.parametrize("name", ["half2", "__nv_bfloat162"])
def test_pairs_of_the_toolkit_copy_their_bits(name: str, tmp_path: Path) -> None:
    """Their headers write the copies out."""
    body = _BODY.replace("P t[", f"{name} t[").replace("const P*", f"const {name}*")
    body = body.replace("t[threadIdx.x ^ 1].x", "float(t[threadIdx.x ^ 1].x)")
    model = snippet(body, tmp_path, "#include <cuda_fp16.h>\n#include <cuda_bf16.h>").model
    assert not isinstance(model, Refusal), model
    assert model.buffers[0].copy_bytes == 4, model.buffers[0].reason


def test_objects_of_members() -> None:
    assert objects_of("a[i].first.x") == ["a[i].first", "a[i]"]
    assert objects_of("p->x") == ["*(p)"] and objects_of("a[i]") == objects_of("f(a.b)[i]") == []


_DOUBLING = "struct P { float x; __device__ P& operator=(const P& o) { x = 2 * o.x; return *this; } };"


@pytest.mark.parametrize(
    "declared", [_DOUBLING, _DOUBLING.replace("P", "Q") + " struct P { Q q; float x; };", ""]
)
def test_nothing_that_acts_when_assigned_waits_in_a_register(declared: str, tmp_path: Path) -> None:
    (tmp_path / "p.h").write_text(_DOUBLING, encoding="utf-8")
    source = f"""{declared or f'#include "{tmp_path}/p.h"'}
__global__ void __launch_bounds__(128) k(const P* __restrict__ a, float* __restrict__ o, int n) {{
    __shared__ P t[128];
    float sum = 0;
    for (int k = 0; k < n; ++k) {{
        t[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        sum += t[threadIdx.x ^ 1].x;
        __syncthreads();
    }}
    o[threadIdx.x] = sum;
}}
"""
    for form in ("ldg-2-ring", "ldg-2-textbook", "prefetch-1-ring"):
        refused = pipeline_source(source, "k", candidate=form)
        assert isinstance(refused, Refusal) and "runs code of its own" in str(refused.diagnostics), form
    plain = pipeline_source(source.replace("& operator=", "& scaled"), "k", candidate="ldg-2-ring")
    assert not isinstance(plain, Refusal) or not declared


@pytest.mark.parametrize(
    ("head", "asynchronous"),
    [
        ("struct Q { int t; float x; };", True),
        ("struct __attribute__((packed)) Q { char t; float x; };", False),
        ("struct Q { char t; float x __attribute__((packed)); };", False),
        ("#pragma pack(push, 1)\nstruct Q { char t; float x; };\n#pragma pack(pop)", False),
    ],
)
def test_members_that_lie_anywhere_do_not_go_asynchronously(
    head: str, asynchronous: bool, tmp_path: Path
) -> None:
    into = _BODY.replace("__shared__ P t", "__shared__ Q t").replace("t[threadIdx.x] =", "t[threadIdx.x].x =")
    into = into.replace("reinterpret_cast<const P*>(a)", "a")
    out_of = _BODY.replace("__shared__ P t", "__shared__ float t").replace("^ 1].x", "^ 1]")
    out_of = out_of.replace(
        "t[threadIdx.x] = reinterpret_cast<const P*>", "const Q v = reinterpret_cast<const Q*>"
    )
    out_of = out_of.replace("threadIdx.x];\n", "threadIdx.x];\n        t[threadIdx.x] = v.x;\n", 1)
    for text in (into, out_of):
        model = snippet(text, tmp_path, head).model
        assert not isinstance(model, Refusal), model
        assert (model.buffers[0].copy_bytes is not None) == asynchronous, model.buffers[0].reason
