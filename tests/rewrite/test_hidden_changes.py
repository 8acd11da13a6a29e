"""Changes that the text hides: what the load depends on is refused where the computation changes it so, and is exact
where it does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.rewrite.harness import candidate, snippet, tile_counts
from tests.sampling import sampled

from tilepipe.diagnostics import Refusal

BODY = """    __shared__ float s[128];
    float sum = 0.0f;
    {before}
    for (int k = 0; k < n; ++k) {{
        {load}
        __syncthreads();
        sum = sum * 0.5f + s[threadIdx.x ^ 1];
        {compute}
        __syncthreads();
    }}
    c[blockIdx.x * 128 + threadIdx.x] = sum;"""
LOAD = "s[threadIdx.x] = a[k * 128 + threadIdx.x + ({})];"
FORMS = (candidate("ldg", 2), candidate("cp_async", 3))


def check(head: str, before: str, index: str, compute: str, folder: Path, load: str = LOAD) -> Refusal | None:
    """The refusal of a kernel, or None where the candidates that come of it are exact."""
    kernel = snippet(BODY.format(before=before, load=load.format(index), compute=compute), folder, head)
    if isinstance(kernel.model, Refusal):
        return kernel.model
    made = [(w, m) for w in FORMS if not isinstance(m := kernel.emit(w), Refusal)]
    assert made
    for wanted, emitted in made:
        assert kernel.difference(emitted, tile_counts()) == "", wanted.id
    return None


STATE = "struct P {{ int o; {} }};"
SCRATCH = "__shared__ int r[128], q[128]; r[threadIdx.x] = q[threadIdx.x] = threadIdx.x; __syncthreads();"
# Head, before the loop, what the load adds, what the computation changes it by, and what leaves it alone.
CHANGES: dict[str, tuple[str, str, str, str, str]] = {
    "a called object": (
        STATE.format("__device__ int operator()() { o = (o + 1) & 7; return o; }"),
        "P p{0}, q{1}; int r = 0;", "p.o", "sum += p();", "sum += q();",
    ),
    "a method with a known function's name": (
        STATE.format("__device__ int get() { o = (o + 1) & 7; return o; }"),
        "P p{0}, q{1};", "p.o", "sum += p.get();", "sum += q.get();",
    ),
    "a function of a class with a known function's name": (
        "struct P { static __device__ int get(int& o) { o = (o + 1) & 7; return o; } };",
        "int o = 0, m = 0;", "o", "sum += P::get(o);", "sum += P::get(m);",
    ),
    "an operator without a second operand": (
        STATE.format("__device__ int operator-() { o = (o + 1) & 7; return o; }"),
        "P p{0}, q{1};", "p.o", "sum += -p;", "sum += -q;",
    ),
    "an operator's first operand": (
        "struct P { int o; };\n__device__ P& operator%(P& p, int z) { p.o = (p.o + z) & 7; return p; }",
        "P p{0}, q{1};", "p.o", "sum += (p % 3).o;", "sum += (q % 3).o;",
    ),
    "a dereferenced object": (
        STATE.format("__device__ int operator*() { o = (o + 1) & 7; return o; }"),
        "P p{0}, q{1};", "p.o", "sum += *p;", "sum += *q;",
    ),
    "a macro of a loop that runs once": (
        "#define SET(x) do { x = (int)sum & 3; } while (0)", "int o = 0, m = 0;", "o", "SET(o);", "SET(m);",
    ),
    "a macro of any arguments": (
        "#define DO(...) __VA_ARGS__", "int o = 0, m = 0;", "o", "DO(o = (int)sum & 3);", "DO(m = k, sum += m);",
    ),
    "a macro of one argument and more": (
        "#define CALL(f, ...) f(__VA_ARGS__)\n__device__ void set(int& o, int v) { o = v & 3; }",
        "int o = 0, m = 0;", "o", "CALL(set, o, (int)sum);", "CALL(set, m, k);",
    ),
    "a macro that glues": (
        "#define SET(x, v) x##o = v", "int o = 0, mo = 0;", "o", "SET(, (int)sum & 3);", "SET(m, k);",
    ),
    "a macro in the place of a type": (
        "#define MAYBE if (k > 1)", "int o = 0, m = 0;", "o", "MAYBE o = (int)sum & 3;", "if (k > 1) m = 3; sum += m;",
    ),
    "a conversion of what a pointer names": (
        "using T = int;", "__shared__ int so[1], sm[1]; so[0] = sm[0] = 0; __syncthreads();", "(T)*so",
        "__syncthreads(); if (threadIdx.x == 0) so[0] = s[3] > 0.0f;",
        "__syncthreads(); if (threadIdx.x == 0) sm[0] = s[3] > 0.0f;",
    ),
    "elements that are swapped": (
        "#include <cuda/std/utility>", SCRATCH, "(int)r[5]",
        "if (threadIdx.x < 64) cuda::std::swap(r[threadIdx.x], r[threadIdx.x + 64]);",
        "if (threadIdx.x < 64) cuda::std::swap(q[threadIdx.x], q[threadIdx.x + 64]);",
    ),
    "an element behind an atomic reference": (
        "#include <cuda/atomic>", SCRATCH, "r[5]",
        "if (threadIdx.x == 0) { cuda::atomic_ref<int, cuda::thread_scope_block> z(r[5]); z.fetch_add(1); }",
        "if (threadIdx.x == 0) { cuda::atomic_ref<int, cuda::thread_scope_block> z(q[5]); z.fetch_add(1); }",
    ),
    "what an object points to": (
        "struct W { int* p; __device__ void put(int v) { p[threadIdx.x] = v; } };",
        SCRATCH + " W w{r}, x{q};", "r[5]", "w.put(k & 3);", "x.put(k & 3);",
    ),
    "a conversion of an address": (
        "typedef int* I;", "int o = 0, m = 0;", "o", "*(I)&o = (int)sum & 3;", "*(I)&m = 3; sum += m;",
    ),
    "an operator of conversion": (
        STATE.format("__device__ operator int() { o = (o + 1) & 7; return o; }"),
        "P p{0}, q{1};", "p.o", "sum += p + 0.5f;", "sum += q + 0.5f;",
    ),
    "a friend's operator": (
        STATE.format("friend __device__ P& operator%(P& p, int z) { p.o = (p.o + z) & 7; return p; }"),
        "P p{0}, q{1};", "p.o", "sum += (p % 3).o;", "sum += (q % 3).o;",
    ),
    "an operator of a class in a class": (
        "struct Q {{ {} }};".format(STATE.format("__device__ int operator~() { o = (o + 1) & 7; return o; }")),
        "Q::P p{0}, q{1};", "p.o", "sum += ~p;", "sum += ~q;",
    ),
    "an operator that takes an rvalue": (
        "struct P { int o; };\n__device__ int operator-(P&& p) { p.o = (p.o + 1) & 7; return p.o; }",
        "P p{0}, q{1};", "p.o", "sum += -static_cast<P&&>(p);", "sum += -static_cast<P&&>(q);",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", sampled(CHANGES))
def test_what_changes_the_load_is_seen(case: str, tmp_path: Path) -> None:
    head, before, index, changing, harmless = CHANGES[case]
    assert check(head, before, index, changing, tmp_path) is not None
    assert check(head, before, index, harmless, tmp_path) is None


def test_the_state_that_the_load_changes_is_no_others(tmp_path: Path) -> None:
    head = STATE.format("__device__ int operator()() { o = (o + 1) & 7; return o; }")
    assert check(head, "P p{0};", "p()", "sum += p();", tmp_path) is not None


def test_text_that_is_no_value_in_a_macro_is_walked(tmp_path: Path) -> None:
    """A literal made of an argument is one, and the rest of the text counts."""
    head = "#define SAY(x, v) ((v = 3) + #x[0])\n#define NOT(x) #x"
    assert check(head, "int o = 0;", "o", "sum += SAY(k, o);", tmp_path) is not None
    assert check(head, "int o = 0, m = 0;", "o", "sum += SAY(k, m) + NOT(o)[0];", tmp_path) is None


GROUPS = "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;"
TILES = "auto b = cg::this_thread_block(); auto w = cg::tiled_partition<32>(b);"


@pytest.mark.parametrize(
    ("barrier", "pipelined"),
    [("b.sync()", True), ("cg::sync(b)", True), ("w.sync()", False), ("cg::sync(w)", False)],
)
def test_only_a_block_s_barrier_is_one(barrier: str, pipelined: bool, tmp_path: Path) -> None:
    text = BODY.format(before=TILES, load=LOAD.format("0"), compute="").replace("__syncthreads()", barrier)
    model = snippet(text, tmp_path, GROUPS).model
    assert isinstance(model, Refusal) != pipelined, model


def test_an_author_s_method_is_no_barrier(tmp_path: Path) -> None:
    head = "struct G { float* r; __device__ void sync() { r[threadIdx.x] += 1.0f; } };"
    before = "__shared__ float r[128]; r[threadIdx.x] = 0.0f; G g{r};"
    assert check(head, before, "0", "sum += r[threadIdx.x]; g.sync();", tmp_path) is None


ADDED = 'asm volatile("{{ .reg .f32 t; ld.shared.f32 t, [%0]; add.f32 t, t, 0f3F800000; {} }}" :: "r"(q) : "memory");'


@pytest.mark.parametrize(("last", "refused"), [("st.shared.f32 [%0], t;", True), ("", False)])
def test_assembly_that_reads_may_write_too(last: str, refused: bool, tmp_path: Path) -> None:
    before = "__shared__ float r[128]; r[threadIdx.x] = 0.0f; __syncthreads();"
    compute = "unsigned q = (unsigned)__cvta_generic_to_shared(&r[threadIdx.x]); " + ADDED.format(last)
    assert (check("", before, "(int)r[5] & 3", compute, tmp_path) is not None) == refused


@pytest.mark.parametrize(("barrier", "pipelined"), [("bar.sync 0;", True), ("bar.sync 1, 128;", False)])
def test_a_barrier_of_some_threads_is_not_the_block_s(barrier: str, pipelined: bool, tmp_path: Path) -> None:
    text = BODY.format(before="", load=LOAD.format("0"), compute="")
    text = text.replace("__syncthreads()", f'asm volatile("{barrier}" ::: "memory")')
    model = snippet(text, tmp_path).model
    assert isinstance(model, Refusal) != pipelined, model
