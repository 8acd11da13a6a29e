"""What stands beyond a guard is zero-filled only where it is zero in every bit, and stored as written otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.rewrite.harness import Kernel, parse_candidate, snippet, tile_counts

from tilepipe.diagnostics import Refusal
from tilepipe.kernel.copies import Copy
from tilepipe.rewrite import Rewrite

PLAIN = "struct alignas(8) P { float x, y; };"
PAIR = "struct alignas(8) P { float x = 1.f; float y = -2.f; };"
LATE = "struct alignas(8) P { float x, y = 3.f; };"
BUILT = (
    "struct alignas(8) P { float x, y; P() = default; __device__ P(int v) : x(v + 1.f), y(2.f) {}\n"
    "  __device__ operator float() const { return x; } };"
)
CLASS = BUILT.replace("struct alignas(8) P {", "class alignas(8) P { public:")
_SELECT = "s[i] = i < n * 100 ? {a}[k * 128 + i] : {fill};"
_BRANCH = "if (i < n * 100) s[i] = {a}[k * 128 + i]; else s[i] = {fill};"
_HELD = "E v = {fill}; if (i < n * 100) v = {a}[k * 128 + i]; s[i] = v;"


def kernel(folder: Path, element: str, head: str, form: str, fill: str, before: str = "") -> Kernel:
    """A tile of 512 elements of type E, those beyond `n * 100` filled."""
    source = "reinterpret_cast<const E*>(a)"
    body = f"""    using E = {element};
    __shared__ E s[512];
    float acc = 0.f;
    {before}
    for (int k = 0; k < n; ++k) {{
        for (int i = threadIdx.x; i < 512; i += 128) {{ {form.format(a=source, fill=fill)} }}
        __syncthreads();
        for (int i = 0; i < 512; i += 3)
            acc = acc * 0.5f + *reinterpret_cast<const float*>(&s[(i + threadIdx.x) & 511]) + sizeof(E);
        __syncthreads();
    }}
    c[blockIdx.x * 128 + threadIdx.x] = acc;"""
    return snippet(body, folder, head)


# element, head, the zero; all of them as select and as branch
ZEROS = [
    ("float", "", "0.f"),
    ("float", "", "float{}"),
    ("float", "", "(float)0"),
    ("float", "", "static_cast<float>(0)"),
    ("float", "", "E(0)"),
    ("float", "", "E()"),
    ("float", "", "__int_as_float(0)"),
    ("float4", "", "make_float4(0.f, 0.f, 0.f, 0.f)"),
    ("float4", "", "float4{0.f, 0.f}"),
    ("float2", "", "float2{}"),
    ("__half2", "#include <cuda_fp16.h>", "__half2{}"),
    ("__half2", "#include <cuda_fp16.h>", "__float2half2_rn(0.f)"),
    ("P", PLAIN, "P{}"),
    ("P", PLAIN, "P()"),
    ("P", BUILT, "P{}"),
]
# element, head, what is none, what stands before the loop
OTHERS = [
    ("P", PAIR, "P{}", ""),
    ("P", PAIR, "P()", ""),
    ("P", LATE, "P{0.f}", ""),
    ("P", PAIR + "\nusing Q = P;", "Q{}", ""),
    ("P", BUILT, "P(0)", ""),
    ("P", BUILT, "(P)0", ""),
    ("P", BUILT, "static_cast<P>(0)", ""),
    ("float", BUILT, "(float)(P)0", ""),
    ("float", BUILT, "float(static_cast<P>(0))", ""),
    ("float", CLASS, "float(P(0))", ""),
    ("float", BUILT + "\nusing Q = P;", "float(Q(0))", ""),
    ("float", "", "make_pad(0.f)", "auto make_pad = [](float v) { return v + 1.f; };"),
    ("float", "", "make_float1(0.f).x", "auto make_float1 = [](float v) { return float1{v + 1.f}; };"),
    ("float1", "", "make_float1(0.f)", "auto make_float1 = [](float v) { return float1{v + 1.f}; };"),
    ("float", "__device__ float one(float v) { return v + 1.f; }", "make_pad(0.f)", "float (*make_pad)(float) = one;"),
    ("float", "struct M { __device__ float operator()(float v) const { return v + 1.f; } };", "make_pad(0.f)",
     "const M make_pad{};"),
    ("float", "", "-0.0f", ""),
    ("float", "", "0.f / 0.f", ""),
]  # fmt: skip


def check(made: Kernel, form: str = "cp_async-3-ring") -> None:
    emitted = made.emit(parse_candidate(form))
    assert isinstance(emitted, Rewrite), emitted
    assert made.difference(emitted, tile_counts((0, 1, 3, 6))) == ""


def copies(made: Kernel) -> list[Copy]:
    assert not isinstance(made.model, Refusal), made.model
    return [c for c in made.model.copies if isinstance(c, Copy)]


@pytest.mark.parametrize("form", [_SELECT, _BRANCH])
@pytest.mark.parametrize(("element", "head", "fill"), ZEROS)
def test_zeros_are_filled(element: str, head: str, fill: str, form: str, tmp_path: Path) -> None:
    made = kernel(tmp_path, element, head, form, fill)
    (copy,) = copies(made)
    assert copy.fill is None and copy.guard == "i < n * 100"
    check(made)


@pytest.mark.parametrize(("element", "head", "fill", "before"), OTHERS)
def test_other_values_are_stored_as_written(
    element: str, head: str, fill: str, before: str, tmp_path: Path
) -> None:
    made = kernel(tmp_path, element, head, _SELECT, fill, before)
    (copy,) = copies(made)
    assert copy.fill == fill
    check(made)


@pytest.mark.parametrize(
    ("element", "head", "fill", "form"),
    [
        ("P", PAIR, "{}", _BRANCH),
        ("P", PAIR, "P{}", _BRANCH),
        ("P", PAIR, "{}", _HELD),
        ("P", BUILT, "0", _BRANCH),
        ("P", BUILT, "0", _HELD),
    ],
)
def test_branches_around_other_values_go_through_registers(
    element: str, head: str, fill: str, form: str, tmp_path: Path
) -> None:
    made = kernel(tmp_path, element, head, form, fill)
    assert copies(made) == [] and not isinstance(made.model, Refusal)
    assert "not known to be zero in every bit" in made.model.buffers[0].reason
    check(made, "ldg-2-ring")


@pytest.mark.parametrize(
    ("element", "head", "fill"),
    [("P", PLAIN, "{}"), ("P", PLAIN, "P{}"), ("float4", "", "{}"), ("float", "", "0"), ("float", "", "E{}")],
)
def test_zeros_in_variables_are_filled(element: str, head: str, fill: str, tmp_path: Path) -> None:
    made = kernel(tmp_path, element, head, _HELD, fill)
    assert [c.guard for c in copies(made)] == ["i < n * 100"]
    check(made)


@pytest.mark.parametrize(("head", "zero"), [(PLAIN, True), (PAIR, False)])
def test_a_named_empty_value_counts_by_its_type(head: str, zero: bool, tmp_path: Path) -> None:
    made = kernel(tmp_path, "P", head, _SELECT, "z", "const P z{};")
    (copy,) = copies(made)
    assert (copy.fill is None) == zero
    check(made)


def test_a_class_with_an_empty_initialiser_of_another(tmp_path: Path) -> None:
    head = PLAIN + "\nstruct alignas(8) Q { float x, y; Q() = default; __device__ Q(P) : x(1.f), y(1.f) {} };"
    made = kernel(tmp_path, "Q", head, _SELECT, "P{}")
    assert [c.fill for c in copies(made)] == ["P{}"]
    check(made)


@pytest.mark.parametrize(
    ("kind", "copied"),
    [
        ("float", True),
        ("const auto", True),
        ("E", True),
        ("int", False),
        ("double", False),
        ("const half", False),
    ],
)
def test_a_variable_of_another_type_converts_on_the_way(kind: str, copied: bool, tmp_path: Path) -> None:
    form = f"{kind} v = {{a}}[k * 128 + i]; s[i] = v;"
    made = kernel(tmp_path, "float", "#include <cuda_fp16.h>", form, "")
    assert bool(copies(made)) == copied
    if not copied:
        assert not isinstance(made.model, Refusal) and "converts float" in made.model.buffers[0].reason
    check(made, "cp_async-3-ring" if copied else "ldg-2-ring")


@pytest.mark.parametrize(("kind", "copied"), [("float", True), ("int", False)])
def test_an_array_of_another_type_converts_on_the_way(kind: str, copied: bool, tmp_path: Path) -> None:
    made = snippet(
        f"""    __shared__ float s[512];
    float acc = 0.f;
    for (int k = 0; k < n; ++k) {{
        {kind} r[4];
        for (int j = 0; j < 4; ++j) r[j] = a[k * 512 + j * 128 + threadIdx.x];
        for (int j = 0; j < 4; ++j) s[j * 128 + threadIdx.x] = r[j];
        __syncthreads();
        for (int i = 0; i < 512; i += 3) acc = acc * 0.5f + s[(i + threadIdx.x) & 511];
        __syncthreads();
    }}
    c[blockIdx.x * 128 + threadIdx.x] = acc;""",
        tmp_path,
    )
    assert bool(copies(made)) == copied
    check(made, "cp_async-3-ring" if copied else "ldg-2-ring")
