"""Forms that public kernels have: array parameters, staging arrays, statement macros, helpers in headers."""

from __future__ import annotations

import pytest

from tilepipe.diagnostics import Refusal
from tilepipe.kernel.file import CudaFile
from tilepipe.kernel.model import Study, study
from tilepipe.source import SourceFile

KERNEL = """\
__global__ void f(const float* __restrict__ a, float* __restrict__ c, int n)
{
    __shared__ float s[4][32];
    float sum = 0.0f;
    const int x = threadIdx.x % 32, y = threadIdx.x / 32;
    BEFORE
    for (int k = 0; k < n; ++k) {
        LOAD
        __syncthreads();
        COMPUTE
        __syncthreads();
    }
    c[threadIdx.x] = sum;
}
"""
PLAIN = {"BEFORE": "", "LOAD": "s[y][x] = a[k * 128 + threadIdx.x];", "COMPUTE": "sum += s[y][31 - x];"}


def kernel(top: str = "", header: str | None = None, **parts: str) -> Study | Refusal:
    text = KERNEL
    for name, part in {**PLAIN, **parts}.items():
        text = text.replace(name, part)
    headers = [SourceFile("h.cuh", header)] if header is not None else []
    file = CudaFile(SourceFile("f.cu", top + text), headers)
    return study(file, file.kernels[0])


def code(found: Study | Refusal) -> str:
    return found.diagnostics[0].code if isinstance(found, Refusal) else ""


@pytest.mark.parametrize("parameter", ["float t[4][32]", "float (&t)[4][32]", "float t[][32]"])
def test_an_array_parameter_is_the_callers_array(parameter: str) -> None:
    load = f"__device__ void fill({parameter}, const float* p, int x, int y) {{ t[y][x] = p[y * 32 + x]; }}\n"
    filled = kernel(load, LOAD="fill(s, a + k * 128, x, y);")
    assert isinstance(filled, Study) and {b.name for b in filled.tile.staged} == {"s"}
    change = f"__device__ void twice({parameter}, int x, int y) {{ t[y][x] = t[y][x] * 2.0f; }}\n"
    assert code(kernel(change, COMPUTE="twice(s, x, y); __syncthreads(); sum += s[y][31 - x];")) == "TP012"


def test_a_row_as_an_array_parameter_is_read() -> None:
    read = "__device__ float at(const float row[32], int x) { return row[31 - x]; }\n"
    found = kernel(read, COMPUTE="sum += at(s[y], x);")
    assert isinstance(found, Study)
    assert any(b.name == "s" for i in found.tile.flow.items for b in i.own.shared_reads())


STAGE = "float r[1]; r[0] = 0.0f;"
THROUGH = "r[0] = a[k * 128 + threadIdx.x]; s[y][x] = r[0];"


def test_an_array_that_only_the_load_phase_touches_may_be_used_after_the_loop() -> None:
    after = {"c[threadIdx.x] = sum;": "c[threadIdx.x] = sum + r[0];"}
    legal = kernel(BEFORE=STAGE, LOAD=THROUGH, **after)
    assert isinstance(legal, Study)
    assert not any(s.name == "r" for s in legal.split.copied)
    assert code(kernel(BEFORE=STAGE, LOAD=THROUGH, COMPUTE="sum += s[y][31 - x] + r[0];")) == "TP021"


@pytest.mark.parametrize("following", ["(sum) += 1.0f;", "*(&sum) = 1.0f;", "++sum;", "{ sum += 1.0f; }"])
def test_a_statement_macro_without_semicolon_ends_before_any_statement(following: str) -> None:
    macro = "#define FILL(i) s[y][x] = a[(i) * 128 + threadIdx.x];\n"
    apart = kernel(macro, LOAD=f"FILL(k)\n        ;\n        {following}")
    joined = kernel(macro, LOAD=f"FILL(k)\n        {following}")
    assert isinstance(apart, Study) and isinstance(joined, Study)
    assert {s.name for s in joined.tile.staged} == {"s"}
    own = [i.own.opaque for i in joined.tile.flow.items]
    assert not any(own)


def test_a_tile_filled_by_one_of_several_functions_is_refused_by_their_name() -> None:
    helper = "__device__ inline void fill(float t[4][32], float v, int x, int y) { t[y][x] = v; }\n"
    call = "fill(s, a[k * 128 + threadIdx.x], x, y);"
    found = kernel(header=helper + helper.replace("float v", "int v"), LOAD=call)
    assert isinstance(found, Refusal) and "filled by `fill`" in found.diagnostics[0].message
    assert "shares its name with another function" in found.diagnostics[0].message
    assert isinstance(kernel(header=helper, LOAD=call), Study)
    assert isinstance(kernel(helper, LOAD=call), Study)


def test_why_there_is_no_tile_loop() -> None:
    mixed = kernel(
        BEFORE="float v;",
        LOAD="v = a[k * 128 + threadIdx.x]; s[y][x] = v;",
        COMPUTE="sum += v; v = s[y][31 - x]; sum += v;",
    )
    assert (
        isinstance(mixed, Refusal)
        and "`v` takes loads from global memory (line 8)" in mixed.diagnostics[0].message
    )


def test_questions_have_the_same_order_in_every_run() -> None:
    two = "s[y][x] = a[k * 128 + threadIdx.x]; if (x < 16) s[y][x] = a[k * 128 + 7 + threadIdx.x] + 1.0f;"
    orders = set()
    for _ in range(8):  # items are hashed by their address
        found = kernel(LOAD=two)
        assert isinstance(found, Study)
        orders.add(tuple(ask.key for ask in found.asks))
    assert len(orders) == 1


SAME = (
    "__device__ inline void fill(float t[4][32], const float* p, int x, int y) { t[y][x] = p[y * 32 + x]; }\n"
)
OTHER = "__device__ inline void fill(float t[4][32], const float* p, int x, int y) { t[y][x] = p[127 - y * 32 - x]; }\n"


@pytest.mark.parametrize(
    ("top", "header"),
    [
        (f"namespace one {{ {SAME} }}\nnamespace two {{ {OTHER} }}\nusing namespace two;\n", None),
        (SAME.replace("const float* p", "const int* p") + OTHER, None),
        (OTHER, SAME.replace("const float* p", "const int* p")),
    ],
)
def test_a_helper_that_is_one_of_several_of_its_name_is_not_put_in_place_of_its_call(
    top: str, header: str | None
) -> None:
    call = "fill(s, a + k * 128, x, y);"
    found = kernel(top, header, LOAD=call)
    assert isinstance(found, Refusal) and found.diagnostics[0].code == "TP021"
    assert isinstance(kernel(OTHER, LOAD=call), Study)


def test_kernels_of_one_name_are_told_apart() -> None:
    plain = KERNEL
    for name, part in PLAIN.items():
        plain = plain.replace(name, part)
    racy = plain.replace("const float* __restrict__ a", "const int* __restrict__ a").replace(
        "sum += s[y][31 - x];\n        __syncthreads();", "sum += s[y][31 - x];"
    )
    file = CudaFile(SourceFile("f.cu", racy + plain))
    assert [code(study(file, k)) for k in file.kernels] == ["TP010", ""]


def test_the_types_of_a_discarded_arm_are_asked_before_its_condition() -> None:
    arm = "{ ALIAS s[y][x] = (k < 9) ? a[k * 128 + threadIdx.x] : 0.0f; }"
    load = f"if constexpr (GUARD) {arm} else s[y][x] = a[k * 128 + threadIdx.x];"
    plain, named = (
        kernel(LOAD=load.replace("ALIAS", alias).replace("k < 9", limit))
        for alias, limit in (("", "k < 9"), ("const int m = 9;", "k < m"))
    )
    assert isinstance(plain, Study) and isinstance(named, Study)
    at = [study_.text.index("if constexpr") for study_ in (plain, named)]
    first = next(a for a in plain.asks if a.key.startswith("load:"))
    assert first.offset == at[0]
    inside = next(a for a in named.asks if a.key.startswith("load:"))
    assert inside.offset > at[1]


def test_the_bound_of_a_copy_loop_keeps_members_of_other_scopes() -> None:
    found = kernel(
        "struct Cfg { static constexpr int N = 8; };\n",
        BEFORE="const int N = Cfg::N;",
        LOAD="for (int i = 0; i < N / Cfg::N; ++i) s[y][x] = a[k * 128 + threadIdx.x];",
    )
    assert isinstance(found, Study)
    bound = next(a for a in found.asks if a.key.startswith("bound:"))
    assert bound.expression == "(Cfg::N) / Cfg::N"


MIXED = {
    "BEFORE": "float v;",
    "LOAD": "v = a[k * 128 + threadIdx.x]; s[y][x] = v;",
    "COMPUTE": "v = s[y][31 - x]; sum += v;",
}


def test_a_variable_of_load_and_computation_becomes_two() -> None:
    found = kernel(**MIXED)
    assert isinstance(found, Study)
    assert "        {\n        float v;\n        v = a[" in found.file.source.text
    assert not found.split.copied - {s for s in found.split.copied if s.name == "k"}


@pytest.mark.parametrize(
    "change",
    [
        {"COMPUTE": "sum += v; v = s[y][31 - x];"},
        {"COMPUTE": "if (x < 7) v = s[y][31 - x]; sum += v;"},
        {"LOAD": "if (x < 7) v = a[k * 128 + threadIdx.x]; s[y][x] = v;"},
        {"LOAD": "v = v + a[k * 128 + threadIdx.x]; s[y][x] = v;"},
        {"BEFORE": "float v; float* p = &v;"},
        {"BEFORE": "float v; float& w = v;"},
        {"BEFORE": "float v; auto set = [&] { v = 1.0f; };"},
        {
            "BEFORE": "float2 v;",
            "LOAD": "v.x = a[k]; s[y][x] = v.x;",
            "COMPUTE": "v.x = s[y][31 - x]; sum += v.x;",
        },
        {"c[threadIdx.x] = sum;": "c[threadIdx.x] = sum + v;"},
    ],
)
def test_a_variable_that_carries_a_value_from_load_to_computation_stays_one(change: dict[str, str]) -> None:
    assert code(kernel(**{**MIXED, **change})) == "TP001"


def test_a_statement_macro_that_loads_into_a_variable_is_written_out() -> None:
    found = kernel(
        "#define VLOAD(v, p) v = *(p);\n", LOAD="float v; VLOAD(v, a + k * 128 + threadIdx.x) s[y][x] = v;"
    )
    assert isinstance(found, Study)
    assert "v = *(a + k * 128 + threadIdx.x);" in found.file.source.text
    two = kernel("#define VLOAD(v, p) v = *(p); v += 1;\n", LOAD="float v; VLOAD(v, a + k) s[y][x] = v;")
    assert isinstance(two, Study) and "VLOAD(v, a + k)" in two.file.source.text


OWN = "q[threadIdx.x] = b[k * 128 + threadIdx.x]; sum += q[threadIdx.x] * s[y][31 - x];"


def test_what_a_thread_keeps_for_itself_is_no_tile() -> None:
    top = "const float* __restrict__ a, const float* __restrict__ b,"
    both = {"BEFORE": "__shared__ float q[128];", "COMPUTE": OWN, "const float* __restrict__ a,": top}
    found = kernel(**both)
    assert isinstance(found, Study)
    assert {s.name for s in found.tile.staged} == {"s"} and {s.name for s in found.tile.scratch} == {"q"}
    shared = OWN.replace("+= q[threadIdx.x]", "+= q[127 - threadIdx.x]")
    assert code(kernel(**{**both, "COMPUTE": shared})) == "TP010"
    constant = OWN.replace("q[threadIdx.x]", "q[5]")
    assert code(kernel(**{**both, "COMPUTE": constant})) == "TP010"
    alone = kernel(LOAD="s[y][x] = a[k * 128 + threadIdx.x]; sum += s[y][x];", COMPUTE="")
    assert isinstance(alone, Refusal) and "that it stored itself" in alone.diagnostics[0].message


HELPER = (
    "template <class T, int N> __device__ void fill(float t[4][32], T v, int x, int y)"
    " { T w = v; t[y][x] = w + N; }"
)


@pytest.mark.parametrize(
    ("call", "expected"),
    [("fill<float, 3>", ""), ("::fill<float, 3>", ""), ("in::fill<float, 3>", ""), ("fill", "TP021")],
)
def test_a_helper_in_place_of_its_call_has_the_template_arguments_that_the_call_says(
    call: str, expected: str
) -> None:
    helper = HELPER.replace(", int N", ", int N = 3") if call == "fill" else HELPER
    helper = f"namespace in {{ {helper} }}" if call.startswith("in") else helper
    found = kernel(helper + "\n", LOAD=f"{call}(s, a[k * 128 + threadIdx.x], x, y);")
    assert code(found) == expected
    if isinstance(found, Study):
        (inlined,) = (s.call for s in found.tile.loop.walk() if s.call is not None)
        assert dict(inlined.template) == {"class T": "float", "int N": "3"}


CROSSED = [("N, M", "TP021"), ("M, N", ""), ("4, N", ""), ("M + 1, N", "TP021")]


@pytest.mark.parametrize(("arguments", "expected"), CROSSED)
def test_template_arguments_that_are_names_of_other_parameters_are_refused(
    arguments: str, expected: str
) -> None:
    fill = "void fill(float t[4][32], float v, int x, int y) { t[y][x] = v + M - N; }"
    top = f"template <int M, const int N> __device__ {fill}\nconstexpr int M = 1, N = 2;\n"
    assert code(kernel(top, LOAD=f"fill<{arguments}>(s, a[k * 128 + threadIdx.x], x, y);")) == expected


def test_a_guard_on_one_parameter_does_not_vary_with_another() -> None:
    fill = "void fill(float t[4][32], const float* p, int k, int i) { if (LIMIT) t[i / 32][i % 32] = p[k * 128 + i]; }"
    stale = []
    for limit in ("i < 100", "k < 100"):
        found = kernel(f"__device__ {fill.replace('LIMIT', limit)}\n", LOAD="fill(s, a, k, threadIdx.x);")
        assert isinstance(found, Study)
        stale.append(found.one_buffer is not None)
    assert stale == [False, True]


@pytest.mark.parametrize(
    ("helper", "call", "said"),
    [
        (
            "template <int N> __device__ void fill(float (&t)[4][N], const float* a, int k)",
            "fill(s, a, k);",
            False,
        ),
        (
            "template <class T> __device__ void fill(float (&t)[4][32], const T* a, int k)",
            "fill(s, a, k);",
            False,
        ),
        (
            "template <int N> __device__ void fill(float (&t)[4][N], const float* a, int k)",
            "fill<32>(s, a, k);",
            True,
        ),
        (
            "template <class T> __device__ void fill(float (&t)[4][32], const T* a, int k)",
            "fill<float>(s, a, k);",
            True,
        ),
    ],
)
def test_template_arguments_of_a_loader_are_said_where_its_text_names_them(
    helper: str, call: str, said: bool
) -> None:
    body = " { t[threadIdx.x / 32][threadIdx.x % 32] = a[k * 128 + threadIdx.x]; }\n"
    found = kernel(helper + body, LOAD=call)
    assert isinstance(found, Study) == said
    assert said or code(found) == "TP021"
