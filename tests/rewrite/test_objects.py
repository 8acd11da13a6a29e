"""Objects and elements in memory that methods, operators and unknown functions change."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.rewrite.test_hidden_changes import check
from tests.sampling import sampled

STEPS = "struct P {{ int o; {} }};"
GO = "__device__ void go() { o = (o + 1) & 7; }"
CALL = "__device__ void operator()() { o = (o + 1) & 7; }"
SHIFT = "__device__ P& operator<<(int z) { o = (o + z) & 7; return *this; }"
TAKE = "struct S { static __device__ void go(int& p) { p = (p + 1) & 7; } };"
TWO = (
    "__shared__ P p[2], q[2]; if (threadIdx.x < 2) p[threadIdx.x].o = q[threadIdx.x].o = 0; __syncthreads();"
)
ONE = "__shared__ P p, q; if (threadIdx.x == 0) p.o = q.o = 0; __syncthreads();"
NUMBERS = (
    "__shared__ int p[2], q[2]; if (threadIdx.x < 2) p[threadIdx.x] = q[threadIdx.x] = 0; __syncthreads();"
)
FIRST = "if (threadIdx.x == 0) "

# Case -> head, statements before the loop, index of the load, what changes it, the edit that does not.
CASES = {
    "a method of an object": (STEPS.format(GO), ONE, "p.o", FIRST + "p.go();", ("p.go", "q.go")),
    "a method of an element": (STEPS.format(GO), TWO, "p[1].o", FIRST + "p[1].go();", ("p[1].go", "q[1].go")),
    "a method by a reference": (
        STEPS.format(GO), ONE + " P& r = p;", "p.o", FIRST + "r.go();", ("P& r = p", "P& r = q"),
    ),
    "an object that is called": (STEPS.format(CALL), ONE, "p.o", FIRST + "p();", ("p();", "q();")),
    "an element that is called": (STEPS.format(CALL), TWO, "p[1].o", FIRST + "p[1]();", ("p[1]()", "q[1]()")),
    "an operator of an object": (STEPS.format(SHIFT), ONE, "p.o", FIRST + "p << 3;", ("p <<", "q <<")),
    "an operator of an element": (STEPS.format(SHIFT), TWO, "p[1].o", FIRST + "p[1] << 3;", ("p[1] <<", "q[1] <<")),
    "an operator of an object within": (
        STEPS.format(SHIFT) + "\nstruct H { P m; };", TWO.replace("P p", "H p").replace("].o", "].m.o"), "p[1].m.o",
        FIRST + "p[1].m << 3;", ("p[1].m <<", "q[1].m <<"),
    ),
    "a function of a class that takes an element": (TAKE, NUMBERS, "p[1]", FIRST + "S::go(p[1]);", ("go(p", "go(q")),
    "a method that takes an element": (
        TAKE.replace("static ", ""), NUMBERS + " S s2;", "p[1]", FIRST + "s2.go(p[1]);", ("go(p", "go(q"),
    ),
    "an atomic in shared memory": (
        "#include <cuda/atomic>\nusing A = cuda::atomic<int, cuda::thread_scope_block>;",
        "__shared__ A p, q; if (threadIdx.x == 0) { p = 0; q = 0; } __syncthreads();", "p & 7",
        FIRST + "p.fetch_add(1);", ("p.fetch", "q.fetch"),
    ),
    "a method that is not const": (
        STEPS.format("__device__ int get() { return o; }"), ONE, "p.o", "sum += p.get();", ("get() {", "get() const {"),
    ),
    "a method that is const, and a member that is mutable": (
        STEPS.format("__device__ void go() const { o = (o + 1) & 7; }").replace("int o", "mutable int o"), ONE, "p.o",
        FIRST + "p.go();", ("p.go", "q.go"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", sampled(CASES))
def test_changes_of_objects_in_memory_are_seen(case: str, tmp_path: Path) -> None:
    head, before, index, changing, (old, new) = CASES[case]
    assert check(head, before, index, changing, tmp_path) is not None
    harmless = [text.replace(old, new) for text in (head, before, index, changing)]
    assert harmless != [head, before, index, changing]
    assert check(*harmless, tmp_path) is None
