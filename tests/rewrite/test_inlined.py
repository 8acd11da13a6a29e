"""Tile loops in called functions: what is pipelined is executed; what would mean something else is refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.sampling import sampled

from tilepipe import steps
from tilepipe.builds import build_candidate, verify_candidate
from tilepipe.diagnostics import Refusal
from tilepipe.job import Job
from tilepipe.options import Options
from tilepipe.plan.types import Candidate

DOT = """__device__ float dot(const float* __restrict__ a, float* s, int n)
{
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; i += 3)
            sum = sum * 0.5f + s[(i + threadIdx.x) & 127];
        __syncthreads();
    }
    return sum;
}
"""
FILL = "__device__ void fill(float* t, const float* p) { t[threadIdx.x] = p[threadIdx.x]; }\n"
LOAD = "s[threadIdx.x] = a[k * 128 + threadIdx.x];"
READ = "s[(i + threadIdx.x) & 127]"
USE = "\n    c[threadIdx.x] = x;"
CALL = "float x = dot(a, s, n);" + USE


def edit(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert old in text, (old, text)
        text = text.replace(old, new)
    return text


def dot(*changes: tuple[str, str]) -> str:
    return edit(DOT, *changes)


@dataclass(frozen=True)
class Case:
    """What stands before the kernel, its text from the call on and its tile; files that are included."""

    head: str
    call: str = CALL
    tile: str = "__shared__ float s[128];"
    files: dict[str, str] = field(default_factory=dict)
    shared: str = "0"
    instance: str = ""
    template: str = ""


INTO = dot(
    ("float dot(", "void into("),
    ("int n)", "int n, float& sum)"),
    ("    float sum = 0.0f;\n", ""),
    ("return sum;", ""),
)
OUT = dot(
    ("float dot(", "void out("), ("int n)", "int n, float* c)"), ("return sum;", "c[threadIdx.x] = sum;")
)
EARLY = edit(OUT, ("float sum", "if (n == 3) return;\n    float sum"))
OWN = dot(("float* s, ", ""), ("float sum", "__shared__ float s[128];\n    float sum"))
RENAMED = dot(("a[", "src["), ("* __restrict__ a", "* __restrict__ src"), ("s[", "t["), ("* s", "* t"))
MOVING = ("a[k * 128 + threadIdx.x]", "a[threadIdx.x]; a += 128")
STEP = dot(("i += 3", "i += STEP"))
WIDTH = ("i += 3", "i += W")
CLASS = ("float dot", "R dot")
TAKEN = {
    "a variable's value": Case(DOT, "const float x = dot(a, s, n);" + USE),
    "an assignment": Case(DOT, "float x;\n    x = dot(a, s, n);" + USE),
    "an element": Case(DOT, "c[threadIdx.x] = dot(a, s, n);"),
    "a difference": Case(DOT, "float x = 3.0f;\n    x -= dot(a, s, n);" + USE),
    "a value that is not wanted": Case(
        dot(("return sum;", "c[threadIdx.x] = sum;\n    return sum;  // last"), ("int n)", "int n, float* c)")),
        "dot(a, s, n, c);\n    c[threadIdx.x] += 1.0f;"),
    "a branch without braces": Case(DOT, "float x = 3.0f;\n    if (n > 1)\n        x = dot(a, s, n);" + USE),
    "a variable of the same name": Case(DOT, "float sum = 2.0f;\n    sum += dot(a, s, n);\n    c[threadIdx.x] = sum;"),
    "a reference": Case(INTO, "float x = 1.0f;\n    into(a, s, n, x);" + USE),
    "a value beside its reference": Case(
        edit(INTO, ("float& sum)", "float& sum, float start)"), ("* 0.5f", "* 0.5f + start")),
        "float x = 1.0f;\n    into(a, s, n, x, x);" + USE),
    "the last statement": Case(OUT, "out(a, s, n, c);"),
    "a tile of its own": Case(OWN, "float x = dot(a, n);" + USE, ""),
    "a dynamic tile": Case(edit(OWN, ("__shared__ float s[128]", "extern __shared__ float s[]")),
                           "float x = dot(a, n);" + USE, "", shared="512"),
    "template arguments": Case("template <int STEP, typename T>\n" + edit(STEP, ("float sum", "T sum")),
                               "float x = dot<5, float>(a, s, n);" + USE),
    "a template argument that is deduced": Case(
        "template <class T>\n" + dot(("const float*", "const T*"), ("float sum", "T sum"))),
    "the kernel's own template argument": Case("template <int STEP>\n" + STEP, "float x = dot<STEP>(a, s, n);" + USE,
                                               template="template <int STEP>\n", instance="f<5>"),
    "other names": Case(RENAMED),
    "arguments that are computed": Case(DOT, "float x = dot(a + 128, &s[0], n - 1);" + USE),
    "names in turn": Case(dot(("int n)", "int m, int n)"), ("k < n", "k < m"), ("i += 3", "i += n")),
                          "const int m = n > 3 ? 5 : 3;\n    float x = dot(a, s, n, m);" + USE),
    "a name that the function has too": Case(
        dot(("float sum", "int count = 3;\n    float sum"), ("i += 3", "i += count")),
        "const int count = n;\n    float x = dot(a, s, count);" + USE),
    "a name that an argument uses": Case(dot(("int n)", "int m, int n)"), ("k < n", "k < m"), ("i += 3", "i += n")),
                                         "float x = dot(a, s, n, n + 2);" + USE),
    "another type": Case(dot(("int n", "unsigned n"), ("int k = 0; k < n", "unsigned k = 0; k + 1 < n + 1"))),
    "another type of the same name": Case(
        "template <class T>\n" + dot(("int n)", "int n, T v)"), ("sum * 0.5f", "(sum + v / 2) * 0.5f")),
        "using T = int;\n    T v = 3;\n    float x = dot<float>(a, s, n, v);" + USE),
    "a pointer that moves": Case(dot(MOVING), "float x = dot(a, s, n);\n    x += a[threadIdx.x];" + USE),
    "a pointer that moves at the end": Case(edit(OUT, MOVING), "out(a, s, n, c);"),
    "a pointer that moves and may not": Case(edit(OUT, MOVING), "const float* const b = a;\n    out(b, s, n, c);"),
    "a count that changes": Case(dot(("float sum", "if (n > 2) n = 2;\n    float sum")),
                                 "float x = dot(a, s, n);\n    x += n;" + USE),
    "a count that a helper changes": Case(
        "__device__ void cut(int& n) { n = n > 2 ? 2 : n; }\n" + dot(("float sum", "cut(n);\n    float sum")),
        "float x = dot(a, s, n);\n    x += n;" + USE),
    "a count that a reference names": Case(dot(("float sum", "int& m = n; m = m > 2 ? 2 : m;\n    float sum")),
                                           "float x = dot(a, s, n);\n    x += n;" + USE),
    "a count that a reference in braces names": Case(dot(("float sum", "int& m{n}; m = m > 2 ? 2 : m;\n    float sum")),
                                                     "float x = dot(a, s, n);\n    x += n;" + USE),
    "a value that is changed by its operator": Case(
        "struct V { float x[2]; __device__ float& operator[](int i) { return x[i]; } };\n"
        + dot(("int n)", "int n, V v)"), ("float sum = 0.0f", "v[0] = 4.0f;\n    float sum = v[0]")),
        "V v;\n    v[0] = 1.0f;\n    v[1] = 2.0f;\n    float x = dot(a, s, n, v);\n    x += v[0];" + USE),
    "a count that a cast names": Case(dot(("float sum", "static_cast<int&>(n) = 2;\n    float sum")),
                                      "float x = dot(a, s, n);\n    x += n;" + USE),
    "a count that a choice names": Case(dot(("float sum", "int m = 5; (n > 2 ? n : m) = 2;\n    float sum")),
                                        "float x = dot(a, s, n);\n    x += n;" + USE),
    "a reference to what changes": Case(
        dot(("int n)", "int n, int v, int* w)"), ("float sum", "*w = 40;\n    float sum"), (" 0.5f", " 0.5f + v")),
        "int m[1] = {7};\n    const int& v = m[0];\n    float x = dot(a, s, n, v, m);" + USE),
    "returns before the loop": Case(EARLY, "c[threadIdx.x] = 7.0f;\n    out(a, s, n, c);"),
    "a loop around": Case(
        DOT, "float x = 0.0f;\n    for (int r = 0; r < 2; ++r)\n        x -= dot(a + r, s, n);" + USE),
    "helpers of its own": Case(FILL + dot((LOAD, "fill(s, a + k * 128);"))),
    "two functions deep": Case(
        DOT + edit("__device__ float twice(FROM) { float y = dot(a, s, n); return y * 2.0f; }\n",
                   ("FROM", "const float* __restrict__ a, float* s, int n")), "float x = twice(a, s, n);" + USE),
    "a tile with rows": Case(dot(("float* s", "float s[][32]"),
                             ("s[threadIdx.x]", "s[threadIdx.x / 32][threadIdx.x & 31]"),
                             (READ, "s[i / 32][(i + threadIdx.x) % 32]")), tile="__shared__ float s[4][32];"),
    "a tile by reference": Case(dot(("float* s", "float (&t)[128]"), ("s[", "t["))),
    "a macro": Case("#define AT(i) s[((i) + threadIdx.x) & 127]\n" + dot((READ, "AT(i)"))),
    "a macro that names a parameter": Case(
        "#define AT(i) t[((i) + threadIdx.x) & 127]\n" + edit(RENAMED, ("t[(i + threadIdx.x) & 127]", "AT(i)"))),
    "a result that is a class": Case("struct R { float v; };\n" + dot(CLASS, ("return sum;", "return R{sum};")),
                                     "const R r = dot(a, s, n);\n    float x = r.v;" + USE),
    "a result that depends": Case(
        "template <class T> struct R { using Type = T; };\ntemplate <class T>\n"
        + dot(("float dot", "typename R<T>::Type dot"), ("float sum", "T sum")),
        "float x = dot<float>(a, s, n);" + USE),
    "a default": Case(dot(("int n)", "int n, int step = 3)"), ("i += 3", "i += step"))),
    "a parameter without a name": Case(dot(("int n)", "int n, int)")), "float x = dot(a, s, n, 5);" + USE),
    "directives": Case(dot(("        for (int i", "#pragma unroll 4\n        for (int i"))),
    "a namespace": Case(f"namespace one {{ namespace two {{\n{DOT}}} }}", "float x = one::two::dot(a, s, n);" + USE),
    "a header": Case('#include "dot.cuh"', files={"dot.cuh": "#pragma once\n" + DOT}),
    "a header with a loader of another": Case('#include "dot.cuh"', files={
        "dot.cuh": '#pragma once\n#include "fill.cuh"\n' + dot((LOAD, "fill(s, a + k * 128);")),
        "fill.cuh": "#pragma once\n" + FILL}),
}  # fmt: skip
HIDES = "const int W = 5;\n    float x = dot(a, s, n);\n    x += W;" + USE
REFUSED = {
    "within an expression": (Case(DOT, "c[threadIdx.x] = dot(a, s, n) + 1.0f;"), "within an expression"),
    "in the head of a loop": (
        Case(DOT, "float y = 0;\n    for (float x = dot(a, s, n); y < 2; ++y) c[threadIdx.x] = x + y;"), "call stands"),
    "returns from the middle": (Case(dot(("float sum", "if (n == 3) return 5.0f;\n    float sum"))), "from its middle"),
    "returns before more": (Case(EARLY, "out(a, s, n, c);\n    c[threadIdx.x] += 1.0f;"), "from its middle"),
    "a name that the kernel hides": (
        Case("constexpr int W = 3;\n" + dot(WIDTH), HIDES), "`W`"),
    "a default that the kernel hides": (
        Case("constexpr int W = 3;\n" + dot(("int n)", "int n, int step = W)"), ("i += 3", "i += step")),
             HIDES), "`W`"),
    "a macro that changes": (Case("#define W 3\n" + dot(WIDTH) + "#undef W\n#define W 5\n"), "`W`"),
    "a macro for a name of its own": (Case(DOT + "#define sum total\n"), "the macro `sum` changes"),
    "a name of its namespace": (
        Case(f"constexpr int W = 5;\nnamespace q {{ constexpr int W = 3;\n{dot(WIDTH)}}}",
             "float x = q::dot(a, s, n);" + USE), "`W`"),
    "recursion": (Case(dot(("return sum;", "return n > 99 ? dot(a, s, n - 1) : sum;"))), "calls itself"),
    "two calls with a tile of its own": (
        Case(OWN, "float x = dot(a, n);\n    x += dot(a + 128, n);" + USE, ""), "called twice"),
    "two calls with a tile of its own, in a header": (
        Case('#include "dot.cuh"', "float x = dot(a, n);\n    x += dot(a + 128, n);" + USE, "", {"dot.cuh": OWN}),
        "called twice"),
    "a template parameter in the way of a macro": (
        Case("#define COUNT W\nconstexpr int W = 3;\ntemplate <int W>\n" + dot(WIDTH),
             "float x = dot<5>(a, s, COUNT);" + USE),
        "template parameter `W` has the name"),
    "a list of template parameters": (
        Case("template <int... W>\n" + dot(("i += 3", "i += sizeof...(W)")), "float x = dot<1, 2>(a, s, n);" + USE),
        "lists"),
    "a count that a macro changes": (
        Case("#define CUT n = n > 2 ? 2 : n\n" + dot(("float sum", "CUT;\n    float sum")),
             "float x = dot(a, s, n);\n    x += n;" + USE), "`n` is another one"),
    "a result with a constructor": (
        Case("struct R { float v; __device__ R() : v(0) {} };\n"
             + dot(CLASS, ("return sum;", "R r; r.v = sum;\n    return r;")),
             "R r = dot(a, s, n);\n    float x = r.v;" + USE), "may run code"),
    "a jump": (Case(dot(("return sum;", "goto end;\nend:\n    return sum;"))), "jumps"),
    "several of a name": (Case(DOT + dot(("int n", "float n"), ("k < n", "k < int(n)"))), "shares its name"),
    "an argument that changes a variable": (
        Case(DOT, "int m = n;\n    float x = dot(a, s, m++);\n    x += m;" + USE), "changes a variable"),
    "a template parameter in the way": (
        Case("template <int n>\n" + dot(("int n)", "int m)"), ("k < n", "k < m"), ("i += 3", "i += n")),
             "float x = dot<3>(a, s, n);" + USE), "template parameter `n` has the name"),
    "a size that is deduced": (
        Case("template <int N>\n" + dot(("float* s", "float (&s)[N]"), ("& 127", "& (N - 1)"))), "`N` is deduced"),
    "a pointer that is deduced": (
        Case("template <class P>\n" + dot(("const float* __restrict__ a", "P a"), ("float sum", "P b = a; float sum"))),
        "`P` is deduced"),
    "a size of the array": (Case(dot(("i += 3", "i += sizeof(s) / 2"), ("float* s", "float s[]"))), "whose array `s`"),
    "branches that are left out": (
        Case("template <int W>\n" + dot(("return sum;", "if constexpr (W > 3) sum += 1.0f;\n    return sum;")),
             "float x = dot<3>(a, s, n);" + USE), "if constexpr"),
}  # fmt: skip
KERNEL = """{head}
{template}__global__ void __launch_bounds__(128) f(const float* __restrict__ a, float* __restrict__ c, int n)
{{
    {tile}
    {call}
}}
"""
PROBLEM = """schema = 1
[kernels.f]
grid = ["1"]
block = ["128"]
shared = "{shared}"
{instance}
args = [{{ name = "a", in = ["8192"] }}, {{ name = "c", inout = ["128"] }}, {{ value = "N" }}]
[kernels.f.sizes]
small = {{ N = 5 }}
zero = {{ N = 0 }}
one = {{ N = 1 }}
two = {{ N = 2 }}
three = {{ N = 3 }}
"""
RING = Candidate("ldg-2-ring", "ldg", 2, "ring")


def opened(folder: Path, case: Case) -> Job:
    text = KERNEL.format(head=case.head, call=case.call, tile=case.tile, template=case.template)
    instance = f'instantiate = "{case.instance}"' if case.instance else ""
    (folder / "f.cu").write_text(text, encoding="utf-8")
    (folder / "f.toml").write_text(PROBLEM.format(shared=case.shared, instance=instance), encoding="utf-8")
    for name, header in case.files.items():
        (folder / name).write_text(header, encoding="utf-8")
    job = steps.open_job(str(folder / "f.cu"), Options(device="cpu", allow_launch_change=True))
    assert isinstance(job, Job), job
    return job


@pytest.mark.parametrize("name", sampled(TAKEN, 4))
def test_a_loop_in_a_function_is_pipelined(name: str, tmp_path: Path) -> None:
    job = opened(tmp_path, TAKEN[name])
    model = job.model
    assert not isinstance(model, Refusal), model
    made = build_candidate(job, model, RING)
    assert not isinstance(made, Refusal), made
    assert "_copy" not in made.rewrite.text
    assert job.problem is not None
    answer = verify_candidate(job, job.device, made, dict(job.problem.sizes))
    assert not isinstance(answer, Refusal), answer
    assert [one.status for one in answer] == ["passed", "passed"], answer


@pytest.mark.parametrize("name", sampled(REFUSED, 3))
def test_a_function_whose_text_would_mean_something_else_is_refused(name: str, tmp_path: Path) -> None:
    case, words = REFUSED[name]
    job = opened(tmp_path, case)
    assert job.fault is None
    assert isinstance(job.model, Refusal)
    assert job.model.diagnostics[0].code == "TP001", job.model
    assert words in job.model.diagnostics[0].message


def test_places_are_those_of_the_author(tmp_path: Path) -> None:
    job = opened(tmp_path, Case("\n" + DOT, "float x = dot(a, s, n);\n    x += 1.0f;" + USE))
    assert not isinstance(job.model, Refusal)
    source = job.model.file.source
    assert job.model.line == 5
    for words in ("sum = sum * 0.5f", "x += 1.0f", "float x = dot_result", "__global__"):
        line = source.line_of(source.data.index(words.encode()))
        assert words.replace("dot_result", "dot(a, s, n)") in job.file.source.text.splitlines()[line - 1]


def test_a_barrier_loop_within_a_tile_loop_of_the_kernel_stays_where_it_is(tmp_path: Path) -> None:
    total = """__device__ float total(float* t, float v)
{
    t[threadIdx.x] = v;
    for (int half = 64; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) t[threadIdx.x] += t[threadIdx.x + half];
    }
    __syncthreads();
    return t[0];
}
"""
    loop = "float x = 0.0f;\n    for (int k = 0; k < n; ++k) {\n        " + LOAD
    loop += "\n        __syncthreads();\n        x += total(t, s[127 - threadIdx.x]);\n        __syncthreads();\n    }"
    job = opened(tmp_path, Case(total, loop + USE, "__shared__ float s[128], t[128];"))
    assert not isinstance(job.model, Refusal), job.model
    assert "total_result" not in job.model.file.source.text
