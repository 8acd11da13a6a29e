"""Code that runs where no call shows it, and functions that reach memory which their calls do not name."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.rewrite.test_hidden_changes import SCRATCH, check
from tests.sampling import sampled

from tilepipe.kernel.file import CudaFile
from tilepipe.source import SourceFile

REFERRED = "struct P {{ int x; __device__ P({}) {{ o = (o + 1) & 7; x = o; }} }};"
TAKES, KEEPS = REFERRED.format("int& o"), REFERRED.format("int o")
FILE = "__device__ int g, h;\nstruct P {{ int x; {} }};"
HELD = "struct P {{ int* r; {} }};"
COUNTER = "struct P { int o; __device__ int operator()() { return o = (o + 1) & 7; } };"
ALONE = "if (threadIdx.x == 0 && gridDim.x == 1)"

# Case -> head, statements before the loop, index of the load, what changes it, the edit that does not.
CASES = {
    "a converting constructor": (TAKES, "int o = 0;", "o", "P p = o; sum += p.x;", (TAKES, KEEPS)),
    "a conversion by assignment": (TAKES, "int o = 0; P p(o);", "o", "p = o; sum += p.x;", (TAKES, KEEPS)),
    "a conversion of an argument": (
        TAKES + "\n__device__ int use(P p) { return p.x; }", "int o = 0;", "o", "sum += use(o);", (TAKES, KEEPS),
    ),
    "a conversion by a cast": (TAKES, "int o = 0;", "o", "sum += ((P)o).x;", (TAKES, KEEPS)),
    "a class of the kernel's own": (
        "using T = int;", "int o = 0; " + TAKES, "o", "P p = o; sum += p.x;", ("int& o", "int o"),
    ),
    "a class that extends one": (
        TAKES + "\nstruct Q : P { using P::P; };", "int o = 0;", "o", "Q q(o); sum += q.x;", ("int& o", "int o"),
    ),
    "a class that a macro makes": (
        "#define MAKE(N) struct N { int x; __device__ N(int& o) { o = (o + 1) & 7; x = o; } };\nMAKE(P)", "int o = 0;",
        "o", "P p = o; sum += p.x;", ("int& o", "int o"),
    ),
    "an operator that a macro makes": (
        "#define OP(S) __device__ int operator S(P& p, int z) { return p.o = (p.o + z) & 7; }\n"
        "struct P { int o; };\nOP(%)",
        "P p{0}, q{0};", "p.o", "sum += p % 3;", ("sum += p", "sum += q"),
    ),
    "a function of a known name that a macro makes": (
        "#define FN(N) __device__ void N(int& o) { o = (o + 1) & 7; }\nFN(max)", "int o = 0, m = 0;", "o", "max(o);",
        ("max(o)", "max(m)"),
    ),
    "a macro in a method": (
        f"__device__ int g;\n#define SET g = 3\nstruct P {{ int x; __device__ void go() const {{ {ALONE} SET; }} }};",
        "P p{0};", "g", "p.go();", ("SET;", "return;"),
    ),
    "a specialisation": (
        "template <class T> struct P;\ntemplate <> " + TAKES.replace("struct P", "struct P<int>"), "int o = 0;", "o",
        "P<int> p = o; sum += p.x;", ("int& o", "int o"),
    ),
    "a method of an object made here": (
        HELD.format("__device__ void go() { *r = (*r + 1) & 7; }"), SCRATCH, "r[5]", "P{r + threadIdx.x}.go();",
        ("P{r +", "P{q +"),
    ),
    "a class by another name": (TAKES + "\nusing Q = P;", "int o = 0;", "o", "Q q = o;", (TAKES, KEEPS)),
    "a class in a macro": (TAKES + "\n#define SET P p = o", "int o = 0;", "o", "SET;", (TAKES, KEEPS)),
    "a class named like a function that is known": (
        TAKES.replace("P", "T"), "int o = 0;", "o", "sum += T(o).x;", ("int& o", "int o"),
    ),
    "a constructor without arguments": (
        FILE.format(f"__device__ P() {{ {ALONE} g = 3; }}"), "", "g", "P p;", (f"{ALONE} g = 3;", "x = 3;"),
    ),
    "an initialiser of a member": (FILE.format("int y = g++;"), "", "g", f"{ALONE} {{ P p; }}", ("g++", "3")),
    "a destructor": (
        HELD.format("__device__ ~P() { r[threadIdx.x] += 1; }"), SCRATCH, "r[5]", "P p{r};",
        ("r[threadIdx.x] += 1;", "r = nullptr;"),
    ),
    "an operator that is const": (
        HELD.format("__device__ int operator[](int i) const { return r[i] += 1; }"), SCRATCH + " P p{r};", "r[5]",
        "sum += p[threadIdx.x];", ("+= 1", "+ 1"),
    ),
    "a conversion operator": (
        HELD.format("__device__ operator int() const { return r[threadIdx.x]++; }"), SCRATCH + " P p{r};", "r[5]",
        "sum += p;", ("]++", "]"),
    ),
    "an operator of no class": (
        HELD.format("") + "\n__device__ int operator%(P p, int i) { return p.r[i] += 1; }", SCRATCH + " P p{r};",
        "r[5]", "sum += p % threadIdx.x;", ("+= 1", "+ 1"),
    ),
    "an assignment to what an object points to": (
        HELD.format("__device__ void operator=(int v) const { *r = v; }"), SCRATCH + " P p{r + threadIdx.x};", "r[5]",
        "p = k & 3;", ("*r = v", "v = 3"),
    ),
    "an operator and a mutable member": (
        "struct P { mutable int o; __device__ int operator%(int z) const { return o = (o + z) & 7; } };",
        "P p{0}, q{0};", "p.o", "sum += p % 3;", ("p %", "q %"),
    ),
    "a literal": (
        f'__device__ int g; __device__ int operator""_z(unsigned long long x) {{ {ALONE} g = 3; return x; }}', "", "g",
        "sum += 3_z;", (f"{ALONE} g = 3; ", ""),
    ),
    "a method and a variable of the file": (
        FILE.format(f"__device__ void go() const {{ {ALONE} g = 3; }}"), "P p{0};", "g", "p.go();", ("g = 3", ""),
    ),
    "a function of a class and a variable of the file": (
        FILE.format(f"static __device__ void go() {{ {ALONE} g = 3; }}"), "", "g", "P::go();", ("g = 3", ""),
    ),
    "an object that is called": (
        FILE.format(f"__device__ void operator()() const {{ {ALONE} g = 3; }}"), "P p{0};", "g", "p();", ("g = 3", ""),
    ),
    "an object that a template calls": (
        FILE.format(f"__device__ void operator()() const {{ {ALONE} g = 3; }}")
        + "\ntemplate <class F> __device__ void run(F f) { f(); }", "", "g", "run(P());", ("g = 3", ""),
    ),
    "an object in an array that is called": (
        COUNTER, "P p[2] = {}, q[2] = {};", "p[0].o", "p[0]();", ("p[0]()", "q[0]()"),
    ),
    "an object in parentheses that is called": (COUNTER, "P p{}, q{};", "p.o", "(p)();", ("(p)()", "(q)()")),
    "an object that a call gives": (
        COUNTER + "\n__device__ P& same(P& p) { return p; }", "P p{}, q{};", "p.o", "same(p)();", ("same(p)", "q"),
    ),
    "a pointer to a member": (
        "struct P { int o; __device__ void go() { o = (o + 1) & 7; } };", "P p{}; void (P::*m)() = &P::go;", "p.o",
        "(p.*m)();", ("(p.*m)()", "sum += p.o"),
    ),
    "a pointer to a function": (
        f"__device__ int g; __device__ void go() {{ {ALONE} g = 3; }}", "void (*fp)() = go;", "g", "fp();",
        ("fp();", ""),
    ),
    "a friend by the name of a function that is known": (
        "struct P { int o; __device__ friend void max(P& p, int z) { p.o = (p.o + z) & 7; } };", "P p{}, q{};", "p.o",
        "max(p, 1);", ("max(p", "max(q"),
    ),
    "a function that its argument's namespace has": (
        "namespace n { struct P { int o; }; __device__ void max(P& p, int z) { p.o = (p.o + z) & 7; } }",
        "n::P p{}, q{};", "p.o", "max(p, 1);", ("max(p", "max(q"),
    ),
    "a lambda that is handed on": (
        "template <class F> __device__ void run(F f) { f(); }", "int o = 0; auto f = [&] { o = (o + 1) & 7; };", "o",
        "run(f);", ("run(f);", ""),
    ),
    "an array in shared memory that a function keeps": (
        "__device__ int* mine() { __shared__ int r[128]; return r; }",
        "__shared__ int q[128]; mine()[threadIdx.x] = q[threadIdx.x] = 0; __syncthreads();", "mine()[5]",
        "mine()[threadIdx.x] += 1;", ("mine()[threadIdx.x] +=", "q[threadIdx.x] +="),
    ),
    "a variable that stays": ("using T = int;", "static int o;", "o", f"{ALONE} o = 3;", (f"{ALONE} o = 3;", "")),
    "an address in shared memory that nobody knows": (
        "using T = int;", SCRATCH, "0",
        'float v; asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(64 + 4 * k)); sum += v;',
        ("64 + 4 * k", "(unsigned)__cvta_generic_to_shared(q + threadIdx.x)"),
    ),
    "an address in shared memory that a method makes": (
        "struct P { __device__ float at(unsigned x) const { float v; "
        'asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(x)); return v; } };',
        SCRATCH, "0", "P p; sum += p.at(64 + 4 * k);", ("ld.shared.f32 %0, [%1];", "mov.b32 %0, %1;"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", sampled(CASES, 4))
def test_what_no_call_shows_is_seen(case: str, tmp_path: Path) -> None:
    head, before, index, changing, (old, new) = CASES[case]
    assert check(head, before, index, changing, tmp_path) is not None
    harmless = [text.replace(old, new) for text in (head, before, index, changing)]
    assert harmless != [head, before, index, changing]
    assert check(*harmless, tmp_path) is None


KERNEL = "__global__ void f(float* c) { P p{c}; }"


@pytest.mark.parametrize(
    "members",
    [
        "float* r; ~P() { cudaFree(r); }",  # runs on the host
        "float* r; __device__ P(float* q) : r(q) {} __device__ float operator[](int i) const { return r[i]; }",
        "float* r; __device__ P& operator=(const P& o) { r = o.r; return *this; }",
        "float x[4]; __device__ P(float* q) { for (int i = 0; i < 4; ++i) this->x[i] = q[i]; }",
        "float x; __device__ P& operator+=(float v) { x = fmaxf(x, v); (*this).x += v; return *this; }",
    ],
)
def test_what_changes_its_object_alone_is_let_be(members: str) -> None:
    file = CudaFile(SourceFile("f.cu", f"struct P {{ {members} }};\n{KERNEL}"))
    assert file.unseen.within(KERNEL) is None


@pytest.mark.parametrize(
    "members",
    [
        "float* r; __device__ ~P() { *r = 0; }",
        "float& r; __device__ P(float* q) : r(*q) { r = 1; }",
        "float* r; __device__ P(float* q) { init(q); }",
        'float* r; __device__ P(float* q) { asm volatile("st.global.f32 [%0], 0f00000000;" :: "l"(q)); }',
    ],
)
def test_what_changes_more_is_found_where_the_kernel_names_it(members: str) -> None:
    file = CudaFile(SourceFile("f.cu", f"struct P {{ {members} }};\n{KERNEL}"))
    assert file.unseen.within(KERNEL) is not None
    assert file.unseen.within("__global__ void g() {}") is None
