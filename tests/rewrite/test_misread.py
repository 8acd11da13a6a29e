"""What the grammar takes for another thing than C++ does: what depends on it is refused, its neighbour is exact."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.rewrite.harness import candidate, snippet, tile_counts
from tests.sampling import sampled

from tilepipe.diagnostics import Refusal

BODY = """    __shared__ float s[128];
    __shared__ float r[128];
    float sum = 0.0f;
    int o = 1, m = 40;
    r[threadIdx.x] = 0.0f;
    for (int k = 0; k < n; ++k) {{
        {load}
        __syncthreads();
        for (int i = 0; i < 128; i += 3)
            sum = sum * 0.5f + s[(i + threadIdx.x) & 127];
        {compute}
        __syncthreads();
    }}
    c[blockIdx.x * 128 + threadIdx.x] = sum;"""
PLAIN = "s[threadIdx.x] = a[k * 128 + threadIdx.x];"
HEAD = "__device__ bool both(bool p, bool q) { return p && q; }\n"
GUARDED = "s[threadIdx.x] = {} ? a[k * 128 + threadIdx.x] : 0.0f;"
FORMS = (candidate("ldg", 2), candidate("prefetch", 1), candidate("cp_async", 3))


def check(load: str, compute: str, folder: Path, head: str = HEAD) -> Refusal | None:
    """The refusal of a kernel, or None where candidates come of it that are exact."""
    kernel = snippet(BODY.format(load=load, compute=compute), folder, head)
    if isinstance(kernel.model, Refusal):
        return kernel.model
    exact = 0
    for wanted in FORMS:
        made = kernel.emit(wanted)
        if not isinstance(made, Refusal):
            assert kernel.difference(made, tile_counts()) == "", wanted.id
            exact += 1
    assert exact
    return None


@pytest.mark.parametrize(
    "load",
    sampled([
        "int p(o); s[threadIdx.x] = a[k * 128 + threadIdx.x + p];",
        "int p(o), q(p); s[threadIdx.x] = a[k * 128 + threadIdx.x + q];",
        "int p(o * m); s[threadIdx.x] = a[k * 128 + threadIdx.x + p];",
        "int p(o & m); s[threadIdx.x] = a[k * 128 + threadIdx.x + p];",
        "const bool p(o && m); s[threadIdx.x] = a[k * 128 + threadIdx.x + p];",
        *(GUARDED.format(g) for g in (
            "(threadIdx.x < 100 && (int)threadIdx.x < m && o > -k)", "(k < m && o > -3)", "(k < m || o > (k))",
            "both(k < m, o > (k + 1))", "(k < m && o >> (1))", "(k < o >> 1)",
        )),
    ], 3),
)  # fmt: skip
def test_what_the_load_depends_on_is_seen(load: str, tmp_path: Path) -> None:
    """`o` is set by the computation: loads that name it cannot be made ahead, and others can."""
    refused = check(load, "o = s[5] > 0.0f ? 1 : 2;", tmp_path)
    assert refused is not None and refused.diagnostics[0].code in ("TP013", "TP001"), refused
    assert check(load, "sum += o;", tmp_path) is None


@pytest.mark.parametrize(
    "compute",
    sampled(
        [
            "float v(s[threadIdx.x ^ 1]); sum += v;",
            "const float *p(s), v(s[threadIdx.x]); sum += p[5] + v;",
            "float v(s[3]); r[threadIdx.x] = v; __syncthreads(); float w(r[127 - threadIdx.x]); sum += w;",
            "float w(r[threadIdx.x]); sum = sum * 0.5f + w; r[threadIdx.x] = sum;",
            "auto f = [&](int q) { float v(s[q]); return v; }; sum += f(threadIdx.x);",
            "for (int j(k); j < n; ++j) { float v(s[j]); sum += v; }",
            "int j = threadIdx.x; if (j < m && s[j] > (0.25f)) sum += 1.0f;",
            "int j = threadIdx.x; if (j < m && o > -k) sum += s[j];",
            "for (int j = 0; j < m >> 2; ++j) sum += s[j];",
        ],
        3,
    ),
)
def test_reads_of_the_tile_are_seen(compute: str, tmp_path: Path) -> None:
    assert check(PLAIN, compute, tmp_path) is None


def test_comparisons_in_helpers_are_read_as_such(tmp_path: Path) -> None:
    inside = "__device__ __forceinline__ bool inside(int i, int m, int o) { return i < m && o > -3; }\n"
    load = GUARDED.format("inside(k, m, o)")
    refused = check(load, "o = s[5] > 0.0f ? 1 : -5;", tmp_path, inside)
    assert refused is not None and refused.diagnostics[0].code == "TP013"
    assert check(load, "sum += o;", tmp_path, inside) is None


def test_comparisons_in_macros_are_refused(tmp_path: Path) -> None:
    load = GUARDED.format("INSIDE(k, m, o)")
    refused = check(load, "sum += o;", tmp_path, "#define INSIDE(i, m, o) (i < m && o > -3)\n")
    assert refused is not None and "is two comparisons" in refused.diagnostics[0].message
    assert check(load, "sum += o;", tmp_path, "#define INSIDE(i, m, o) ((i) < (m) && (o) > -3)\n") is None


def test_templates_stay_templates(tmp_path: Path) -> None:
    head = """template <int N, bool B = true> __device__ int times(int x) { return B ? N * x : x; }
template <class T> constexpr bool is_wide_v = sizeof(T) > 4;
constexpr int W = 2, V = 3;
"""
    load = "s[threadIdx.x] = a[k * 128 + times<W>(threadIdx.x & 31) + times<W, (V > 2)>(1)];"
    kernel = snippet(
        BODY.format(load=load, compute="if (is_wide_v<double>) sum += times<3>(k);"), tmp_path, head
    )
    made = kernel.emit(candidate("ldg", 2))
    assert not isinstance(made, Refusal), made
    assert "times<W, (V > 2)>(1)" in made.text and "is_wide_v<double>" in made.text
    assert kernel.difference(made, tile_counts((0, 1, 3))) == ""


@pytest.mark.parametrize(
    "compute",
    sampled(
        [
            "for (int i = 0; i < 128; ++i) sum = sum * 0.5f + (T)*(s + ((i + threadIdx.x) & 127));",
            "r[threadIdx.x] = s[3]; __syncthreads(); float* q = r + (127 - threadIdx.x); sum += (T)*q * 2.0f + (T)*q;",
            "sum += quarter(&s[threadIdx.x ^ 64]);",
            "typedef float U; sum += (U)(T)*(s + 5) + (T)(s[7]);",
            "sum += *(const float*)((L)&s[threadIdx.x & 63] + 4);",
            "sum += BYTES(T) * s[threadIdx.x ^ 1] + (BYTES(T) & k);",
            "const int T = 2, half = 3; sum += (T) * s[threadIdx.x ^ 1] + ((T) & k) + (half) * k;",
            "r[threadIdx.x] = s[3]; __syncthreads(); sum += (C::T)*(r + (127 - threadIdx.x)) + (C::N) * s[5];",
            "r[threadIdx.x] = s[3]; __syncthreads(); sum += (D<int>::Q::U)*(r + (127 - threadIdx.x));",
            "r[threadIdx.x] = s[3]; __syncthreads(); sum += (q::U)*(r + (127 - threadIdx.x)) + (q::M) * k + (E) * o;",
        ],
        3,
    ),
)
def test_reads_behind_conversions_are_seen(compute: str, tmp_path: Path) -> None:
    head = (
        "#define BYTES(x) (int)sizeof(x)\nusing T = float;\nusing L = unsigned long long;\n"
        "template <class X> __device__ X quarter(const X* p) { return (X)*p * (X)0.25f; }\n"
        "struct C { using T = float; enum { N = 3 }; };\n"
        "template <class V> struct D { struct Q { typedef float U; }; };\n"
        "namespace q { using U = float; constexpr int M = 2; }\nenum { E = 2 };\n"
    )
    assert check(PLAIN, compute, tmp_path, head) is None


@pytest.mark.parametrize(
    "compute",
    sampled(
        [
            "cuComplex* q = (cuComplex*)r; sum += cuCrealf((cuComplex)*q);",
            "sum += (C::N)*r[127 - threadIdx.x];",
        ],
        3,
    ),
)
def test_a_name_that_may_be_a_type_is_refused(compute: str, tmp_path: Path) -> None:
    head = (
        "#include <cuComplex.h>\nstruct C { static constexpr int N = 3; };\nstruct D { using N = float; };\n"
    )
    refused = check(PLAIN, compute, tmp_path, head)
    assert refused is not None and "may convert one to a type" in refused.diagnostics[0].message
    told = compute.replace("(cuComplex)*q", "*q").replace("(C::N)*", "C::N * ")
    assert check(PLAIN, told, tmp_path, head) is None


def test_a_macro_before_a_declaration_may_be_a_type(tmp_path: Path) -> None:
    head = "#define REAL float\n#define OFTEN if (k > 0)\n"
    assert check(PLAIN, "REAL v = s[threadIdx.x ^ 1]; sum += v + (REAL)*(s + 3);", tmp_path, head) is None
    refused = check(PLAIN, "OFTEN sum = 1.0f;", tmp_path, head)
    assert refused is not None and "a macro that is no type" in refused.diagnostics[0].message
