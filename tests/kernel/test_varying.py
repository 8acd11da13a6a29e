"""Names that the compiler is not asked about: none that it would call an integer constant, and most others."""

from __future__ import annotations

import pytest

from tilepipe.diagnostics import Refusal
from tilepipe.kernel.file import CudaFile
from tilepipe.kernel.varying import is_varying, varying_names
from tilepipe.source import SourceFile
from tilepipe.toolchain import NvrtcToolchain, Question, Unit

KERNEL = """
constexpr int OUTSIDE = 3;
enum class Mode { a, n };
template <int T>
__global__ void f(const float* a, int n)
{
    const int tid = threadIdx.x, four = 4;
    const int row = tid / 8, two = OUTSIDE - 1;
    constexpr int eight = 8;
    const int size = sizeof(tid), both = true ? 5 : n;
    const int late = n > 3 ? 1 : 2;
    const int never = n > 3 && OUTSIDE;
    const int shortcut = OUTSIDE == 4 && n > 3;
    int counted = 4;
    const int copy = counted;
    const int mode = int(Mode::n), argument = T + 1;
    const float real = 2.f;
    const int call = min(four, eight), bad = min(four, n);
    const int twice = 7;
    {
        const int twice = tid;
    }
    // here
}
template __global__ void f<6>(const float*, int);
"""
VARYING = {
    "tid", "row", "late", "never", "counted", "copy", "real", "bad", "a", "n",
    "threadIdx", "blockIdx", "blockDim", "gridDim",
}  # fmt: skip
CONSTANT = {
    "four", "two", "eight", "size", "both", "shortcut", "mode", "argument", "call", "twice", "OUTSIDE", "T",
}  # fmt: skip


def varying() -> frozenset[str]:
    file = CudaFile(SourceFile("f.cu", KERNEL))
    (kernel,) = file.kernels
    return varying_names(file, file.analyse(kernel))


def test_the_names_are_told_apart() -> None:
    assert varying() == VARYING


def test_the_compiler_knows_no_constant_among_them() -> None:
    """It answers for every other name; min() of constants is none to it."""
    at = KERNEL.index("// here")
    names = sorted(VARYING - {"threadIdx", "blockIdx", "blockDim", "gridDim"} | CONSTANT)
    questions = tuple(Question(name, "value", name, at) for name in names)
    toolchain = NvrtcToolchain()
    answers = toolchain.answer(Unit(KERNEL, "f.cu", "f", "f<6>"), questions)
    assert not isinstance(answers, Refusal), answers
    known = {name for name, answer in answers.items() if answer is not None}
    assert not known & varying()
    assert known >= CONSTANT - {"call"}


@pytest.mark.parametrize(
    ("expression", "varies"),
    [
        ("tid", True),
        ("four * tid", True),
        ("sizeof(tid)", False),
        ("four ? tid : 2", False),
        ("tid ? 1 : 2", True),
        ("Mode::n", False),
        ("thing.n", False),
        ("p->n", False),
        ("untid", False),
    ],
)
def test_what_is_evaluated_decides(expression: str, varies: bool) -> None:
    assert is_varying(expression, varying()) == varies
