"""Tile loops in called functions: what is pipelined is executed; what would mean something else is refused."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

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
INTO = DOT.replace("float dot(", "void into(").replace("int n)", "int n, float& sum)")
INTO = INTO.replace("    float sum = 0.0f;\n", "").replace("    return sum;\n", "")
OUT = (
    DOT.replace("float dot(", "void out(")
    .replace("int n)", "int n, float* c)")
    .replace("return sum;", "c[threadIdx.x] = sum;")
)
OWN = DOT.replace("float* s, ", "").replace("float sum", "__shared__ float s[128];\n    float sum")
USE = "c[threadIdx.x] = x;"


@dataclass(frozen=True)
class Case:
    """What stands before the kernel, the call and the kernel's tile; files that are included."""

    head: str
    call: str
    tile: str = "__shared__ float s[128];"
    files: dict[str, str] = field(default_factory=dict)
    launched: str = "0"
    instance: str = ""
    template: str = ""


def dot(**changes: str) -> str:
    text = DOT
    for old, new in changes.items():
        text = text.replace(NAMES.get(old, old), new)
    return text


NAMES = {"returns": "return sum;", "sums": "float sum = 0.0f;", "loop": "for (int k = 0; k < n; ++k)"}
TAKEN = {
    "a variable's value": Case(DOT, f"const float x = dot(a, s, n); {USE}"),
    "an assignment": Case(DOT, f"float x;\n    x = dot(a, s, n);\n    {USE}"),
    "an element": Case(DOT, "c[threadIdx.x] = dot(a, s, n);"),
    "a sum": Case(DOT, f"float x = 3.0f;\n    x -= dot(a, s, n);\n    {USE}"),
    "a branch without braces": Case(DOT, f"float x = 3.0f;\n    if (n > 1)\n        x = dot(a, s, n);\n    {USE}"),
    "a variable of the same name": Case(DOT, "float sum = 2.0f;\n    sum += dot(a, s, n);\n    c[threadIdx.x] = sum;"),
    "a reference": Case(INTO, f"float x = 1.0f;\n    into(a, s, n, x);\n    {USE}"),
    "the last statement": Case(OUT, "out(a, s, n, c);"),
    "a tile of its own": Case(OWN, f"float x = dot(a, n); {USE}", ""),
    "a dynamic tile": Case(OWN.replace("__shared__ float s[128]", "extern __shared__ float s[]"), f"float x = dot(a, n); {USE}", "", launched="512"),
    "template arguments": Case(
        "template <int STEP, typename T>\n" + dot().replace("i += 3", "i += STEP").replace("float sum", "T sum"),
        f"float x = dot<5, float>(a, s, n); {USE}",
    ),
    "a template argument that is deduced": Case(
        "template <class T>\n" + dot().replace("const float*", "const T*").replace("float sum", "T sum"),
        f"float x = dot(a, s, n); {USE}",
    ),
    "the kernel's own template argument": Case(
        "template <int STEP>\n" + dot().replace("i += 3", "i += STEP"),
        f"float x = dot<STEP>(a, s, n); {USE}", template="template <int STEP>\n", instance="f<5>",
    ),
    "other names": Case(
        dot().replace("a[", "src[").replace("* __restrict__ a", "* __restrict__ src").replace("s[", "t[").replace("* s", "* t"),
        f"float x = dot(a, s, n); {USE}",
    ),
    "arguments that are computed": Case(DOT, f"float x = dot(a + 128, &s[0], n - 1); {USE}"),
    "another type": Case(
        dot().replace("int n", "unsigned n").replace("int k = 0; k < n", "unsigned k = 0; k + 1 < n + 1"),
        f"float x = dot(a, s, n); {USE}",
    ),
    "a pointer that moves": Case(
        dot().replace("a[k * 128 + threadIdx.x]", "a[threadIdx.x]; a += 128"),
        f"float x = dot(a, s, n); x += a[threadIdx.x]; {USE}",
    ),
    "a pointer that moves at the end": Case(
        OUT.replace("a[k * 128 + threadIdx.x]", "a[threadIdx.x]; a += 128"), "out(a, s, n, c);"
    ),
    "a count that changes": Case(dot(sums="float sum = 0.0f; if (n > 2) n = 2;"), f"float x = dot(a, s, n); x += n; {USE}"),
    "returns before the loop": Case(OUT.replace("float sum", "if (n == 3) return;\n    float sum"), "c[threadIdx.x] = 7.0f; out(a, s, n, c);"),
    "a loop around": Case(
        DOT, f"float x = 0.0f;\n    for (int r = 0; r < 2; ++r)\n        x = x * 0.25f + dot(a + r, s, n);\n    {USE}".replace("x = x * 0.25f + dot", "x -= dot"),
    ),
    "helpers of its own": Case(
        "__device__ void fill(float* t, const float* p) { t[threadIdx.x] = p[threadIdx.x]; }\n"
        + dot().replace("s[threadIdx.x] = a[k * 128 + threadIdx.x];", "fill(s, a + k * 128);"),
        f"float x = dot(a, s, n); {USE}",
    ),
    "two functions deep": Case(
        DOT + "__device__ float twice(const float* __restrict__ a, float* s, int n)\n{\n    float y = dot(a, s, n);\n    return y * 2.0f;\n}\n",
        f"float x = twice(a, s, n); {USE}",
    ),
    "a tile with rows": Case(
        dot().replace("float* s", "float s[][32]").replace("s[threadIdx.x] =", "s[threadIdx.x / 32][threadIdx.x % 32] =")
        .replace("s[(i + threadIdx.x) & 127]", "s[i / 32][(i + threadIdx.x) % 32]"),
        f"float x = dot(a, s, n); {USE}", "__shared__ float s[4][32];",
    ),
    "a tile by reference": Case(
        dot().replace("float* s", "float (&t)[128]").replace("s[", "t["), f"float x = dot(a, s, n); {USE}",
    ),
    "a macro": Case("#define AT(i) s[((i) + threadIdx.x) & 127]\n" + dot().replace("s[(i + threadIdx.x) & 127]", "AT(i)"), f"float x = dot(a, s, n); {USE}"),
    "a macro that names a parameter": Case(
        "#define AT(i) t[((i) + threadIdx.x) & 127]\n" + dot().replace("s[(i + threadIdx.x) & 127]", "AT(i)").replace("s[", "t[").replace("* s", "* t"),
        f"float x = dot(a, s, n); {USE}",
    ),
    "a default": Case(dot().replace("int n)", "int n, int step = 3)").replace("i += 3", "i += step"), f"float x = dot(a, s, n); {USE}"),
    "a namespace": Case(f"namespace one {{ namespace two {{\n{DOT}}} }}", f"float x = one::two::dot(a, s, n); {USE}"),
    "a header": Case('#include "dot.cuh"', f"float x = dot(a, s, n); {USE}", files={"dot.cuh": "#pragma once\n" + DOT}),
    "a header with a loader of its own": Case(
        '#include "dot.cuh"', f"float x = dot(a, s, n); {USE}",
        files={"dot.cuh": '#pragma once\n#include "fill.cuh"\n' + dot().replace("s[threadIdx.x] = a[k * 128 + threadIdx.x];", "fill(s, a + k * 128);"),
               "fill.cuh": "#pragma once\n__device__ void fill(float* t, const float* p) { t[threadIdx.x] = p[threadIdx.x]; }\n"},
    ),
}  # fmt: skip
W = "constexpr int W = 3;\n" + dot().replace("i += 3", "i += W")
REFUSED = {
    "within an expression": (Case(DOT, "c[threadIdx.x] = dot(a, s, n) + 1.0f;"), "within an expression"),
    "returns from the middle": (
        Case(dot(sums="float sum = 0.0f; if (n == 3) return 5.0f;"), f"float x = dot(a, s, n); {USE}"), "from its middle",
    ),
    "returns before more": (
        Case(OUT.replace("float sum", "if (n == 3) return;\n    float sum"), "out(a, s, n, c); c[threadIdx.x] += 1.0f;"), "from its middle",
    ),
    "a name that the kernel hides": (Case(W, f"const int W = 5; float x = dot(a, s, n) ; x += W; {USE}".replace("; x", ";\n    x")), "`W` is another one"),
    "a macro that changes": (Case(W.replace("constexpr int W = 3;", "#define W 3") + "#undef W\n#define W 5\n", f"float x = dot(a, s, n); {USE}"), "`W`"),
    "a macro for a name of its own": (Case(DOT + "#define sum total\n", f"float x = dot(a, s, n); {USE}"), "the macro `sum` changes"),
    "recursion": (Case(dot(returns="return n > 99 ? dot(a, s, n - 1) : sum;"), f"float x = dot(a, s, n); {USE}"), "calls itself"),
    "two calls with a tile of its own": (
        Case(OWN, f"float x = dot(a, n); x += dot(a + 128, n); {USE}".replace("x += dot", "\n    x = x - 1.0f; x += dot"), ""), "called twice",
    ),
    "a result that is a class": (
        Case("struct R { float v; };\n" + dot(returns="return R{sum};").replace("float dot", "R dot"), f"R r = dot(a, s, n); float x = r.v; {USE}"), "no number or vector",
    ),
    "a jump": (Case(dot(returns="goto end;\nend:\n    return sum;"), f"float x = dot(a, s, n); {USE}"), "jumps"),
    "several of a name": (Case(DOT + dot().replace("int n", "float n").replace("k < n", "k < int(n)"), f"float x = dot(a, s, n); {USE}"), "shares its name"),
    "an argument that changes a variable": (Case(DOT, f"int m = n; float x = dot(a, s, m++); x += m; {USE}"), "changes a variable"),
    "a template parameter in the way": (
        Case("template <int n>\n" + dot().replace("int n)", "int m)").replace("k < n", "k < m").replace("i += 3", "i += n"), f"float x = dot<3>(a, s, n); {USE}"),
        "template parameter `n` has the name",
    ),
    "a size that is deduced": (
        Case("template <int N>\n" + dot().replace("float* s", "float (&s)[N]").replace("& 127", "& (N - 1)"), f"float x = dot(a, s, n); {USE}"), "`N` is deduced",
    ),
    "a size of the array": (
        Case(dot().replace("i += 3", "i += sizeof(s) / 2").replace("float* s", "float s[]"), f"float x = dot(a, s, n); {USE}"), "whose array `s`",
    ),
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
shared = "{launched}"
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
    (folder / "f.toml").write_text(
        PROBLEM.format(launched=case.launched, instance=instance), encoding="utf-8"
    )
    for name, header in case.files.items():
        (folder / name).write_text(header, encoding="utf-8")
    job = steps.open_job(str(folder / "f.cu"), Options(device="cpu", allow_launch_change=True))
    assert isinstance(job, Job), job
    return job


@pytest.mark.parametrize("name", TAKEN)
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


@pytest.mark.parametrize("name", REFUSED)
def test_a_function_whose_text_would_mean_something_else_is_refused(name: str, tmp_path: Path) -> None:
    case, words = REFUSED[name]
    job = opened(tmp_path, case)
    assert job.fault is None
    assert isinstance(job.model, Refusal)
    assert job.model.diagnostics[0].code == "TP001", job.model
    assert words in job.model.diagnostics[0].message


def test_places_are_those_of_the_author(tmp_path: Path) -> None:
    job = opened(
        tmp_path,
        Case(
            "\n" + dot().replace("a[k *", "a[k + a[0] *"),
            f"float x = dot(a, s, n);\n    x += 1.0f;\n    {USE}",
        ),
    )
    job = opened(tmp_path, Case("\n" + DOT, f"float x = dot(a, s, n);\n    x += 1.0f;\n    {USE}"))
    assert not isinstance(job.model, Refusal)
    source = job.model.file.source
    assert job.model.line == 5
    for words in ("sum = sum * 0.5f", "x += 1.0f", "float x = dot_result", "__global__"):
        line = source.line_of(source.data.index(words.encode()))
        assert re.sub("dot_result", "dot(a, s, n)", words) in job.file.source.text.splitlines()[line - 1]
