"""Names keep their meaning where text is moved: what would not is refused, and its harmless neighbour is exact."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.rewrite.harness import Kernel, candidate, snippet, tile_counts

from tilepipe import steps
from tilepipe.builds import build_candidate
from tilepipe.diagnostics import Refusal
from tilepipe.job import Job
from tilepipe.options import Options
from tilepipe.plan.types import Candidate

BODY = """    __shared__ float s[128];
    float sum = 0.0f;
    {before}
    for (int k = 0; k < n; ++k) {{
        {load}
        __syncthreads();
        for (int i = 0; i < 128; i += 3)
            sum = sum * 0.5f + s[(i + threadIdx.x) & 127];
        __syncthreads();
    }}
    c[blockIdx.x * 128 + threadIdx.x] = sum;"""
HELPER = "__device__ void fill(float* t, const float* a, int k) {{ t[threadIdx.x] = a[k * 128 + {}]; }}"
FILL = "fill(s, a, k);"


def helper(index: str) -> str:
    return HELPER.format(index)


# Head, before the loop, load phase: what is refused, and words of the message; and the same that is pipelined.
Case = tuple[str, str, str]
HELPERS: dict[str, tuple[Case, str, Case]] = {
    "a local": (
        ("constexpr int L = 3;\n" + helper("threadIdx.x + L"), "const int L = 40; sum += L;", FILL),
        "whose `L` is another one",
        ("constexpr int L = 3;\n" + helper("threadIdx.x + L"), "const int M = 40; sum += M;", FILL),
    ),
    "a parameter": (
        ("constexpr int n = 7;\n" + helper("threadIdx.x + n"), "", FILL),
        "whose `n` is another one",
        ("constexpr int m = 7;\n" + helper("threadIdx.x + m"), "", FILL),
    ),
    "a type": (
        ("using T = signed char;\n" + helper("(T)(threadIdx.x * 7) + 200"), "using T = int; sum += T(3);", FILL),
        "whose `T` is another one",
        ("using T = signed char;\n" + helper("(T)(threadIdx.x * 7) + 200"), "using U = int; sum += U(3);", FILL),
    ),
    "an enumerator of the kernel": (
        ("enum { L = 2 };\n" + helper("threadIdx.x + L"), "enum { L = 4 };", FILL),
        "whose `L` is another one",
        ("enum { L = 2 };\n" + helper("threadIdx.x + L"), "enum { M = 4 };", FILL),
    ),
    "a lambda of the kernel": (
        (
            "__device__ int at(int i) { return i * 2; }\n" + helper("at(threadIdx.x)"),
            "auto at = [](int i) { return i * 3; }; sum += at(2);",
            FILL,
        ),
        "whose `at` is another one",
        (
            "__device__ int at(int i) { return i * 2; }\n" + helper("at(threadIdx.x)"),
            "auto by = [](int i) { return i * 3; }; sum += by(2);",
            FILL,
        ),
    ),
    "a macro within a macro": (
        ("#define L M\n#define M 2\n" + helper("threadIdx.x + L") + "\n#undef M\n#define M 4", "", FILL),
        "the macro `M` changes",
        ("#define L M\n#define M 2\n" + helper("threadIdx.x + L") + "\n#define N 4", "", FILL),
    ),
    "a macro that comes later": (
        (helper("threadIdx.x + t_of(k)").replace("void fill", "int t_of(int k) { return k; }\n__device__ void fill")
         + "\n#define t_of(k) 5", "", FILL),
        "the macro `t_of` changes",
        (helper("threadIdx.x + t_of(k)").replace("void fill", "int t_of(int k) { return k; }\n__device__ void fill"),
         "", FILL),
    ),
    "a namespace's constant": (
        ("namespace q { constexpr int L = 2; " + helper("threadIdx.x + L") + " } constexpr int L = 4;", "",
         "q::" + FILL),
        "whose `L` is `q::L`",
        ("namespace q { constexpr int L = 2; " + helper("threadIdx.x + q::L") + " } constexpr int L = 4;", "",
         "q::" + FILL),
    ),
    "an overload in between": (
        ("__device__ int at(long i) { return (int)i; }\n" + helper("at((int)threadIdx.x)")
         + "\n__device__ int at(int i) { return i * 2; }", "", FILL),
        "another `at` is declared",
        ("__device__ int at(long i) { return (int)i; }\n" + helper("at((int)threadIdx.x)")
         + "\n__device__ int by(int i) { return i * 2; }", "", FILL),
    ),
    "a helper within a helper": (
        ("constexpr int L = 2;\n__device__ void one(float* t, const float* a, int k) { t[threadIdx.x] = a[k * 128 + "
         "threadIdx.x + L]; }\n__device__ void fill(float* t, const float* a, int k) { const int L = 9; "
         "one(t, a, k * L); }", "", FILL),
        "whose `L` is another one",
        ("constexpr int L = 2;\n__device__ void one(float* t, const float* a, int k) { t[threadIdx.x] = a[k * 128 + "
         "threadIdx.x + L]; }\n__device__ void fill(float* t, const float* a, int k) { const int M = 9; "
         "one(t, a, k * M); }", "", FILL),
    ),
    "a lambda above a local": (
        ("constexpr int L = 2;", "auto fill = [&](int k) { s[threadIdx.x] = a[k * 128 + threadIdx.x + L]; };\n"
         "const int L = 9; sum += L;", "fill(k);"),
        "whose `L` is another one",
        ("constexpr int L = 2;", "auto fill = [&](int k) { s[threadIdx.x] = a[k * 128 + threadIdx.x + L]; };\n"
         "const int M = 9; sum += M;", "fill(k);"),
    ),
    "a template parameter in the arguments": (
        ("template <int k> " + HELPER.replace("int k)", "int j)").replace("{{", "{ ").replace("}}", "}").replace(
            "a[k * 128 + {}]", "a[j * 128 + threadIdx.x + k]"), "", "fill<5>(s, a, k);"),
        "names another thing than its template parameter",
        ("template <int M> " + HELPER.replace("int k)", "int j)").replace("{{", "{ ").replace("}}", "}").replace(
            "a[k * 128 + {}]", "a[j * 128 + threadIdx.x + M]"), "", "fill<5>(s, a, k);"),
    ),
    "a name of tilepipe's": (
        ("constexpr int tp_i = 2;\n" + helper("threadIdx.x + tp_i"), "", FILL),
        "a name `tp_i`",
        ("constexpr int t_i = 2;\n" + helper("threadIdx.x + t_i"), "", FILL),
    ),
}  # fmt: skip
LOAD = "s[threadIdx.x] = a[{} * 128 + threadIdx.x];"
OTHERS: dict[str, tuple[Case, str, Case]] = {
    "the type of the loop's variable": (
        ("", "", "decltype(k) j = k; j += 3; " + LOAD.format("j")),
        "the type of `k` is asked for",
        ("", "", "decltype(k + 0) j = k; j += 3; " + LOAD.format("j")),
    ),
    "its type in a macro": (
        ("#define COPY(x, y) decltype(y) x = y", "", "COPY(j, k); j += 3; " + LOAD.format("j")),
        "the type of `k` is asked for",
        ("#define COPY(x, y) auto x = y", "", "COPY(j, k); j += 3; " + LOAD.format("j")),
    ),
    "its type by a name": (
        ("", "", "using T = decltype(k); T j = k; j += 3; " + LOAD.format("j")),
        "the type of `k` is asked for",
        ("", "", "using T = decltype(n); T j = k; j += 3; " + LOAD.format("j")),
    ),
    "decltype(auto)": (
        ("", "", "decltype(auto) j = k; j += 3; " + LOAD.format("j")),
        "the type of `k` is asked for",
        ("", "", "auto j = k; j += 3; " + LOAD.format("j")),
    ),
    "the type of a tile": (
        ("template <class T> struct R { static constexpr int n = 0; };\n"
         "template <class T> struct R<T&> { static constexpr int n = 1; };",
         "", LOAD.format("k") + " sum += R<decltype(s)>::n;"),
        "the type of `s` is asked for",
        ("template <class T> struct R { static constexpr int n = 0; };\n"
         "template <class T> struct R<T&> { static constexpr int n = 1; };",
         "", LOAD.format("k") + " sum += R<decltype(s[0])>::n;"),
    ),
    "a constant of an enumeration in the loop": (
        ("constexpr int W = 128;", "",
         "{ enum E { W = 131 } e = E::W; s[threadIdx.x] = a[k * W + threadIdx.x]; sum += e; }"),
        "declares in a form that is not taken over",
        ("constexpr int W = 128;", "", "{ using W2 = float; s[threadIdx.x] = (W2)a[k * W + threadIdx.x]; }"),
    ),
    "a name of CUDA's": (
        ("", "struct { int x; } threadIdx = {3}; sum += threadIdx.x;", LOAD.format("k")),
        "`threadIdx` is declared in this file",
        ("struct P { int blockDim; };", "P p = {3}; sum += p.blockDim;", LOAD.format("k")),
    ),
    "a macro that is one or another array": (
        ("#ifdef NEVER\n#define FROM idx\n#else\n#define FROM a\n#endif", "", LOAD.format("k").replace("a[", "FROM[")),
        "is defined in several ways",
        ("#ifdef NEVER\n#define FROM 64\n#else\n#define FROM 128\n#endif", "",
         LOAD.format("k").replace("128", "FROM")),
    ),
}  # fmt: skip
CASES = HELPERS | OTHERS
# What stands elsewhere in the file and concerns host code alone, or says nothing: all of it is pipelined.
HARMLESS: dict[str, Case] = {
    "blockDim of the host": (
        "void run(dim3 gridDim) { dim3 blockDim(128); int threadIdx = 3; (void)blockDim; (void)threadIdx; }",
        "", LOAD.format("k")),
    "a macro of the host": (
        "#define MOST(x, y) (x > y ? x : y)\n#undef MOST\n#define MOST(x, y) ((x) > (y) ? (x) : (y))\n"
        "float largest(float x) { return MOST(x, 1.0f); }", "", LOAD.format("k")),
    "a comment among template parameters": (
        "template <int STEP, /* of both */ int SHIFT = 5>\n"
        "__device__ void fill(float* t, const float* a, int k) { t[threadIdx.x] = a[k * STEP + threadIdx.x + SHIFT]; }",
        "", "fill<128, 2>(s, a, k);"),
    "comments among template arguments": (
        "template <int STEP, int SHIFT>\n"
        "__device__ void fill(float* t, const float* a, int k) { t[threadIdx.x] = a[k * STEP + threadIdx.x + SHIFT]; }",
        "", "fill</* floats */ 128, 2>(/* to */ s, /* from */ a, k);"),
    "comments among parameters of a lambda and of a macro": (
        "#define AT(/* tile */ t, e) t[e]",
        "auto fill = [&](/* of a tile */ float* t, int j) { t[threadIdx.x] = a[j * 128 + threadIdx.x]; };",
        "fill(s, k); AT(s, threadIdx.x) = a[k * 128 + threadIdx.x + 1];"),
}  # fmt: skip


def kernel(case: Case, folder: Path) -> Kernel:
    head, before, load = case
    return snippet(BODY.format(before=before, load=load), folder, head)


@pytest.mark.parametrize("name", CASES)
def test_what_would_mean_something_else_is_refused(name: str, tmp_path: Path) -> None:
    refused, words, _ = CASES[name]
    model = kernel(refused, tmp_path).model
    assert isinstance(model, Refusal)
    assert words in model.diagnostics[0].message


@pytest.mark.parametrize("name", CASES)
def test_its_neighbour_is_exact(name: str, tmp_path: Path) -> None:
    of = kernel(CASES[name][2], tmp_path)
    made = of.emit(candidate("ldg", 2))
    assert not isinstance(made, Refusal), made
    assert of.difference(made, tile_counts((0, 1, 2, 3, 7))) == ""


@pytest.mark.parametrize("name", HARMLESS)
def test_what_does_not_concern_the_kernel_changes_nothing(name: str, tmp_path: Path) -> None:
    of = kernel(HARMLESS[name], tmp_path)
    made = of.emit(candidate("ldg", 2))
    assert not isinstance(made, Refusal), made
    assert of.difference(made, tile_counts((0, 1, 2, 3, 7))) == ""


@pytest.mark.parametrize("taken", ["using q::W;", "using namespace q;"])
@pytest.mark.parametrize("form", ["ldg", "cp_async"])
def test_a_using_goes_with_the_loader(taken: str, form: str, tmp_path: Path) -> None:
    head = "namespace q { constexpr int W = 131; }"
    head += "\nconstexpr int W = 128;" if "namespace q;" not in taken else ""
    of = kernel((head, "", f"{{ {taken} s[threadIdx.x] = a[k * W + threadIdx.x]; }}"), tmp_path)
    made = of.emit(candidate("ldg" if form == "ldg" else "cp_async", 2))
    assert not isinstance(made, Refusal), made
    assert of.difference(made, tile_counts((0, 1, 2, 3, 7))) == ""


def test_a_parameter_with_the_tiles_name_has_wide_copies(tmp_path: Path) -> None:
    of = kernel((helper("threadIdx.x").replace("t[", "s[").replace("* t", "* s"), "", FILL), tmp_path)
    path = tmp_path / "f.cu"
    path.write_text(of.text.replace("__global__ void", "__global__ void __launch_bounds__(128)"))
    job = steps.open_job(str(path), Options(device="cpu", kernel="f"))
    assert isinstance(job, Job), job
    model = job.model
    assert not isinstance(model, Refusal), model
    built = build_candidate(job, model, Candidate("cp_async-2-ring-16", "cp_async", 2, "ring", copy_bytes=16))
    assert not isinstance(built, Refusal), built


# What a padded tile is read through, with a name that a proof must not take for another; and the neighbour that is
# padded.
READS = {
    "a specialisation": (
        "template <int M> __device__ float get(const float* p) { return p[M & 7]; }\n"
        "template <> __device__ float get<200>(const float* p) { return p[200]; }",
        "sum += get<200>(t[2]);",
        "template <int M> __device__ float get(const float* p) { return p[M & 7]; }",
    ),
    "a declaration of another function": (
        "__device__ float get(const float* p) { return p[3]; }\n__device__ float get(const float* p, int i);",
        "sum += get(t[2]);",
        "__device__ float get(const float* p) { return p[3]; }\n__device__ float get(const float* q);",
    ),
    "a using in a block": (
        "namespace q { constexpr int N = 200; } constexpr int N = 8;",
        "{ using q::N; sum += t[1][N]; }",
        "namespace q { constexpr int N = 100; } using q::N;",
    ),
    "an enumerator of a block": ("constexpr int N = 8;", "{ enum { N = 200 }; sum += t[1][N]; }", None),
    "a constant where the function stands": (
        "#define N 200\n__device__ float get(const float* p) { return p[N]; }\n#undef N\n#define N 8",
        "sum += get(t[2]);",
        "#define N 100\n__device__ float get(const float* p) { return p[N]; }",
    ),
    "a constant of the namespace": (
        "namespace q { constexpr int N = 200; __device__ float get(const float* p) { return p[N]; } }\n"
        "constexpr int N = 8;",
        "sum += q::get(t[2]);",
        "namespace q { __device__ float get(const float* p) { return p[N0]; } }".replace("N0", "8"),
    ),
    "a condition": (
        "#define BIG\n#ifdef BIG\n#define N 200\n#else\n#define N 8\n#endif",
        "sum += t[2][N];",
        "#define BIG\n#ifdef BIG\n#define N 100\n#else\n#define N 800\n#endif",
    ),
    "a lambda with the function's name": (
        "__device__ float get(const float* p) { return p[3]; }",
        "auto get = [](const float* p) { return p[200]; }; sum += get(t[2]);",
        None,
    ),
    "a member with the function's name": (
        "__device__ float get(const float* p) { return p[3]; }\n"
        "struct G { __device__ float get(const float* p) const { return p[200]; } };",
        "G g; sum += g.get(t[2]);",
        None,
    ),
    "a type of a block": (
        "using T = float;",
        "{ using T = float[512]; sum += *(const float*)(const T*)t[2]; }",
        None,
    ),
}


@pytest.mark.parametrize("name", READS)
def test_a_name_that_a_proof_would_mistake_keeps_the_layout(name: str, tmp_path: Path) -> None:
    head, read, neighbour = READS[name]
    layout = _layout(tmp_path, head, read)
    assert layout != "padded"
    if neighbour is not None:
        assert _layout(tmp_path, neighbour, read.replace("using q::N; ", "")) == "padded"


def _layout(folder: Path, head: str, read: str) -> str:
    path = folder / "f.cu"
    path.write_text(f"""{head}
__global__ void __launch_bounds__(128) f(const float* __restrict__ a, float* __restrict__ c, int n)
{{
    __shared__ float t[8][128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {{
        for (int i = 0; i < 8; ++i) t[i][threadIdx.x] = a[(k * 8 + i) * 128 + threadIdx.x];
        __syncthreads();
        {read}
        __syncthreads();
    }}
    c[threadIdx.x] = sum;
}}
""")
    job = steps.open_job(str(path), Options(device="cpu", kernel="f"))
    assert not isinstance(job, Refusal), job
    if isinstance(job.model, Refusal):
        return job.model.diagnostics[0].code
    assert job.padding is not None
    return job.padding.layout["t"]
