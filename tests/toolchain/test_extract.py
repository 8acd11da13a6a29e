"""Extraction takes host code out in place and leaves everything that a kernel can need."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilepipe.source import SourceFile
from tilepipe.toolchain.extract import defines_kernel, extract, kernel_scope, macros

ZOO = sorted((Path(__file__).parent.parent / "zoo").glob("*.cu"))


def device_part(text: str, kernel: str = "k") -> str:
    source = SourceFile("a.cu", text)
    known = macros([source])
    return extract(source, frozenset({kernel}), known, not defines_kernel(source, kernel, known)).text


KERNEL = "__global__ void k(float* p) { p[0] = 1; }\n"


@pytest.mark.parametrize(
    "gone",
    [
        "int main() { k<<<1, 1>>>(0); return 0; }",
        "void launch(float* p) { k<<<1, 1>>>(p); }",
        'extern "C" void run(float* p) { k<<<1, 1>>>(p); }',
        "template <int TILE_M> void launch(float* p) { helper<TILE_M>(p); }",
        "__host__ int rows(int n) { return n; }",
        "static inline int ceil_div(int a, int b) { return (a + b - 1) / b; }",
        "namespace host { void f() { g(); } }",
        "struct M { std::vector<float> v; };",
        "struct T { T() {} std::string name; int n; };",
        "using Clock = std::chrono::steady_clock;",
        "std::vector<float> cache;",
        "int counter = 0;",
        "float rnd();",
        'const std::string title = "x";',
        "__global__ void other(int* p) { *p = 1; }",
        "template <int N> __global__ void other(int* p) { *p = N; }",
        "template __global__ void t<3>(int*);",
        "auto go = [](float* p) { k<<<1, 1>>>(p); };",
        "#ifdef MAIN\nint main() { }\n#endif",
        "template void launch<float>(float*);",
        "#define BIND(name) void name(torch::Tensor t) { run(t); }\nBIND(go)",
        "__host__ __forceinline__ void f() { }",
    ],
)
def test_host_code_goes(gone: str) -> None:
    text = f"{gone}\n{KERNEL}"
    left = device_part(text)
    assert left.endswith(KERNEL)
    head = left[: -len(KERNEL)]
    words = [line for line in head.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    assert all(set(line.split()) <= {"namespace", "host", "{", "}"} for line in words), words


@pytest.mark.parametrize(
    "kept",
    [
        "constexpr int N = 3;",
        "const int threads = 16 * 16;",
        "constexpr int up(int a) { return a + 1; }",
        "__constant__ float c[4];",
        "__device__ int counter;",
        "__device__ __forceinline__ float twice(float x) { return 2 * x; }",
        "__device__ float later(float x);",
        "#define DEV static __device__ __forceinline__\nDEV float f(float x) { return x; }",
        "#define A __device__\n#define B A inline\nB float f(float x) { return x; }",
        "LIB_DEVICE float f(float x) { return x; }",
        "struct S { int n; __device__ int twice() const { return 2 * n; } };",
        "struct S { int n; S(int a) : n(a) {} };",
        "enum Mode { A, B };",
        "typedef unsigned char byte_t;",
        "using T = float;",
        "template <class T> struct Traits { using type = T; };",
        "static_assert(sizeof(int) == 4);",
        "namespace n { __device__ int f() { return 1; } }",
        'extern "C" { __device__ int f() { return 1; } }',
        "union U { float f; int i; };",
        "MAKE_HELPER(float)",
        "#define K(T) __device__ T f_##T(T x) { return x; }\nK(float)",
    ],
)
def test_what_kernels_can_need_stays(kept: str) -> None:
    text = f"{kept}\n{KERNEL}"
    assert device_part(text) == text


def test_a_class_stays_without_its_host_members() -> None:
    text = "struct S { int n; void print() const { std::cout << n; } };\n" + KERNEL
    assert device_part(text) == text.replace(
        "void print() const { std::cout << n; }", " " * len("void print() const { std::cout << n; }")
    )


def test_directives_inside_host_code_stay() -> None:
    text = "int main() {\n#define N 10\n#if N > 3\n  f();\n#endif\n}\n" + KERNEL
    assert device_part(text) == "            \n#define N 10\n#if N > 3\n      \n#endif\n \n" + KERNEL


def test_kernels_out_of_macros_all_stay() -> None:
    text = (
        "#define DEFINE(name) __global__ void name(int* p) { *p = 1; }\nDEFINE(k)\n"
        "__global__ void other(int* p) { *p = 1; }\n"
    )
    assert device_part(text) == text


@pytest.mark.parametrize("path", ZOO, ids=lambda path: path.stem)
def test_offsets_and_lines_stay(path: Path) -> None:
    text = path.read_text()
    left = device_part(text, path.stem)
    assert len(left.encode()) == len(text.encode())
    for before, after in zip(text.splitlines(), left.splitlines(), strict=True):
        assert all(a in (b, " ") for b, a in zip(before.encode().decode("latin-1"), after, strict=False))


def test_scopes() -> None:
    source = SourceFile("a.cu", "namespace a { namespace { namespace b::c { " + KERNEL + "} } }")
    assert kernel_scope(source, "k") == ("a", "b::c")
    assert kernel_scope(source, "other") == ()
