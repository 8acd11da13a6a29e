"""Loaders in included headers: they are pipelined and executed, or refused where they may mean something else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.sampling import sampled

from tilepipe import steps
from tilepipe.builds import build_candidate, verify_candidate
from tilepipe.diagnostics import Refusal
from tilepipe.job import Job
from tilepipe.options import Options
from tilepipe.plan.types import Candidate

FILL = "__device__ inline void fill(float* t, const float* a, int k) { t[threadIdx.x] = a[k * 128 + %s]; }\n"
PLAIN = FILL % "threadIdx.x"
CALL = "fill(s, a, k);"
AT = FILL % "at(threadIdx.x)"
WIDTH = "#define W 64\n" + FILL % "threadIdx.x % W"
LATER = "constexpr int W = 64;\n" + FILL % "threadIdx.x % W" + "#define W 1\n"
SPECIAL = (FILL % "127").replace("fill(", "fill<64>(")
ONE = "__device__ inline int at(int i) { return i; }\n"
MAIN = """{before}
#include "a.cuh"
#include "b.cuh"
{head}
__global__ void __launch_bounds__(128) f(const float* __restrict__ a, float* __restrict__ c, int n)
{{
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {{
        {load}
        __syncthreads();
        for (int i = 0; i < 128; i += 3)
            sum = sum * 0.5f + s[(i + threadIdx.x) & 127];
        __syncthreads();
    }}
    c[threadIdx.x] = sum;
}}
{after}
"""
PROBLEM = """schema = 1
[kernels.f]
grid = ["1"]
block = ["128"]
args = [{ name = "a", in = ["8192"] }, { name = "c", out = ["128"] }, { value = "N" }]
[kernels.f.sizes]
small = { N = 4 }
zero = { N = 0 }
one = { N = 1 }
two = { N = 2 }
"""
# Header a, what else differs from the plain file, and words of the refusal: "" where there is none.
Case = tuple[str, dict[str, str]]
TAKEN: dict[str, Case] = {
    "as it is": (PLAIN, {}),
    "once": ("#pragma once\n" + PLAIN, {}),
    "in an include guard": (f"#ifndef A_CUH\n#define A_CUH\n{PLAIN}#endif\n", {}),
    "a template": ("template <int W>\n" + FILL % "threadIdx.x % W", {"load": "fill<64>(s, a, k);"}),
    "in a namespace": (
        "namespace io { namespace fast {\nconstexpr int W = 64;\n" + FILL % "threadIdx.x % io::fast::W" + "} }\n",
        {"load": "io::fast::fill(s, a, k);"},
    ),
    "in a namespace that has no name": (f"namespace {{\n{PLAIN}}}\n", {}),
    "through another of the header": (
        PLAIN.replace("fill", "store") + FILL.replace("t[threadIdx.x] = a[k * 128 + %s]", "store(t, a, k)"),
        {},
    ),
    "called twice": (
        PLAIN.replace("{ t[", "{ if (threadIdx.x < 64) t["),
        {"load": CALL + " fill(s + 64, a + 64, k);"}),
    "with a helper of its own": (ONE + AT, {}),
    "with a macro of the header": (WIDTH, {}),
    "with a macro that may be given": ("#ifndef W\n#define W 64\n#endif\n" + FILL % "threadIdx.x % W", {}),
    "with a macro of another header": (FILL % "threadIdx.x % W", {"b": "#define W 64\n", "order": "b a"}),
    "with a macro of the file": (FILL % "threadIdx.x % W", {"before": "#define W 64"}),
    "beside another function of a header": (PLAIN, {"b": "__device__ inline int at(int i) { return -i; }\n"}),
    "beside a macro that it does not name": (PLAIN, {"b": "#define V 3\n#undef V\n#define V 4\n"}),
}  # fmt: skip
REFUSED: dict[str, Case] = {
    "a macro that the header takes back": (WIDTH + "#undef W\nconstexpr int W = 1;\n", {}),
    "a macro that the other header changes": (WIDTH, {"b": "#undef W\n#define W 1\n"}),
    "a macro that the file changes": (WIDTH, {"head": "#undef W\n#define W 1"}),
    "a macro of the file that comes later": (
        "constexpr int W = 64;\n" + FILL % "threadIdx.x % W", {"head": "#define W 1"},
    ),
    "a constant that another header makes a macro": (
        "constexpr int W = 64;\n" + FILL % "threadIdx.x % W", {"b": "#define W 1\n"},
    ),
    "a parameter that another header makes a macro": (
        "template <int W>\n" + FILL % "threadIdx.x % W", {"b": "#define W 1\n", "load": "fill<64>(s, a, k);"},
    ),
    "a macro within a macro that changes": (
        "#define W V\n#define V 64\n" + FILL % "threadIdx.x % W" + "#undef V\n#define V 1\n", {},
    ),
    "another of a name in another header": (ONE + AT, {"b": "__device__ inline int at(unsigned i) { return 1; }\n"}),
    "another of a name in the file": (ONE + AT, {"head": "__device__ inline int at(unsigned i) { return 1; }"}),
    "a name of the namespace and of the file": (
        ONE + "namespace io {\n" + AT + "__device__ inline int at(unsigned i) { return 1; }\n}\n",
        {"head": "namespace io {", "after": "}"},
    ),
    "a name that the kernel's own hides": (
        "constexpr int W = 64;\n" + FILL % "threadIdx.x % W", {"load": "const int W = 1; " + CALL + " sum += W;"},
    ),
    "under a condition": (f"#if __CUDACC__\n{PLAIN}#endif\n", {}),
    "a kernel under a condition": (PLAIN, {"head": "#if __CUDACC__", "after": "#endif"}),
    "a name for the copy that is taken": (PLAIN, {"head": "constexpr int fill_copy = 3;"}),
    "a constant that the header makes a macro later": (LATER, {}),
    "a specialisation": (
        "template <int W>\n" + FILL % "threadIdx.x % W" + "template <>\n" + SPECIAL,
        {"load": "fill<64>(s, a, k);"},
    ),
    "overloads": (PLAIN + PLAIN.replace("int k", "float k").replace("k *", "int(k) *"), {}),
}  # fmt: skip
CANDIDATES = (
    Candidate("ldg-2-ring", "ldg", 2, "ring"),
    Candidate("cp_async-3-ring", "cp_async", 3, "ring"),
    Candidate("prefetch-1-ring", "prefetch", 1, "ring"),
)


def opened(folder: Path, case: Case, candidate: str | None = None) -> Job:
    header, parts = case
    text = MAIN.format(**{"before": "", "head": "", "load": CALL, "after": "", **parts})
    if parts.get("order") == "b a":
        text = text.replace('#include "a.cuh"\n#include "b.cuh"', '#include "b.cuh"\n#include "a.cuh"')
    (folder / "a.cuh").write_text(header, encoding="utf-8")
    (folder / "b.cuh").write_text(parts.get("b", ""), encoding="utf-8")
    (folder / "f.cu").write_text(text, encoding="utf-8")
    (folder / "f.toml").write_text(PROBLEM, encoding="utf-8")
    job = steps.open_job(str(folder / "f.cu"), Options(device="cpu", candidate=candidate))
    assert isinstance(job, Job), job
    return job


@pytest.mark.parametrize("name", sampled(TAKEN, 3))
def test_a_loader_in_a_header_is_pipelined(name: str, tmp_path: Path) -> None:
    job = opened(tmp_path, TAKEN[name])
    model = job.model
    assert not isinstance(model, Refusal), model
    for candidate in CANDIDATES[:2] if name != "as it is" else CANDIDATES:
        made = build_candidate(job, model, candidate)
        assert not isinstance(made, Refusal), made
        assert not re.search(r"\b(fill|store)_copy\b", made.rewrite.text)
        assert job.problem is not None
        answer = verify_candidate(job, job.device, made, dict(job.problem.sizes))
        assert not isinstance(answer, Refusal), answer
        assert [one.status for one in answer] == ["passed", "passed"], answer


@pytest.mark.parametrize("name", sampled(REFUSED, 3))
def test_a_loader_that_would_mean_something_else_in_the_file_is_refused(name: str, tmp_path: Path) -> None:
    job = opened(tmp_path, REFUSED[name])
    assert job.fault is None
    assert isinstance(job.model, Refusal)
    assert job.model.diagnostics[0].code == "TP021", job.model


def test_the_authors_loop_calls_the_header_where_it_stands_beside(tmp_path: Path) -> None:
    body = "for (int i = threadIdx.x; i < 128; i += 128) t[i] = a[k * 128 + i];"
    header = f"__device__ inline void fill(float* t, const float* a, int k) {{ {body} }}\n"
    job = opened(tmp_path, (header, {}))
    model = job.model
    assert not isinstance(model, Refusal), model
    made = build_candidate(job, model, Candidate("cp_async-2-ring-16", "cp_async", 2, "ring", copy_bytes=16))
    assert not isinstance(made, Refusal), made
    assert made.rewrite.fallback
    assert re.findall(r"\bfill\w*", made.rewrite.text) == ["fill"]
    assert job.problem is not None
    answer = verify_candidate(job, job.device, made, dict(job.problem.sizes))
    assert not isinstance(answer, Refusal), answer
    assert [one.status for one in answer] == ["passed", "passed"], answer


def test_places_are_those_of_the_authors_files(tmp_path: Path) -> None:
    job = opened(tmp_path, (PLAIN, {}))
    assert not isinstance(job.model, Refusal)
    assert job.model.line == 9
    deduced = "// the first line\ntemplate <class T>\n" + FILL % "threadIdx.x % sizeof(T)"
    read = opened(tmp_path, (deduced.replace("const float* a", "const T* a"), {}))
    assert isinstance(read.model, Refusal)
    place = read.model.diagnostics[0].place
    assert place is not None
    assert (Path(place.file).name, place.line) == ("f.cu", 10)


def test_what_was_emitted_is_not_pipelined_again(tmp_path: Path) -> None:
    job = opened(tmp_path, TAKEN["as it is"])
    assert not isinstance(job.model, Refusal)
    made = build_candidate(job, job.model, CANDIDATES[1])
    assert not isinstance(made, Refusal)
    (tmp_path / "f.cu").write_text(made.rewrite.text, encoding="utf-8")
    again = steps.open_job(str(tmp_path / "f.cu"), Options(device="cpu"))
    assert isinstance(again, Job)
    assert isinstance(again.model, Refusal)
    assert again.model.diagnostics[0].code == "TP002"
