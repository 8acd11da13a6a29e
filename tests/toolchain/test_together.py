"""Several kernels of a file in one compilation: questions about them, and what they take."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tilepipe.diagnostics import Refusal, error
from tilepipe.source import Span
from tilepipe.toolchain import Asked, Cache, NvrtcToolchain, Question, Unit
from tilepipe.toolchain.probes import Failed
from tilepipe.toolchain.resources import Resources, calls_nothing
from tilepipe.toolchain.together import merged

TEXT = """\
#include <cstdio>
template <int N> __device__ int twice() { return 2 * N; }
__global__ void first(float* p, int n) { const int size = 3; if (n) p[0] = size; }
__global__ void second(double* p) { enum { size = 5 }; /*here*/ p[0] = twice<size>(); }
template <class T> __global__ void third(T* p) { constexpr int size = sizeof(T); p[0] = size; }
template __global__ void third<double>(double*);
int main() { printf("host\\n"); first<<<1, 1>>>(nullptr, 0); }
"""
NAMES = {"first": "if (n)", "second": "/*here*/", "third": "p[0] = size; }\ntemplate"}


def span_of(name: str) -> Span:
    start = TEXT.index(f"__global__ void {name}(")
    return Span(start, TEXT.index("\n", start))


def asked(name: str, text: str = TEXT, instance: str | None = None) -> Asked:
    at = text.index(NAMES[name])
    questions = (
        Question("size", "value", "size", at),
        Question("type", "type", "p[0]", at),
        Question("none", "value", "p", at),
    )
    return Asked(Unit(text, "k.cu", name, instance), questions, span_of(name))


def braced(name: str) -> str:
    """The text with a line more in front of a kernel's question."""
    return TEXT.replace(NAMES[name], f"{{ }}\n{NAMES[name]}", 1)


def wanted() -> list[Asked]:
    return [
        asked("second", braced("second")),
        asked("first", braced("first")),
        asked("third", TEXT, "third<short>"),
    ]


def test_edits_and_questions_of_each_kernel_are_put_together() -> None:
    found = merged(TEXT, wanted())
    assert found is not None
    text, questions = found
    assert text == TEXT.replace("if (n)", "{ }\nif (n)").replace("/*here*/", "{ }\n/*here*/")
    for question in questions:
        name = ("second", "first", "third")[int(question.key[0])]
        assert text[question.offset :].startswith(NAMES[name])


@pytest.mark.parametrize("kernel", ["first", "second"])
def test_an_edit_elsewhere_is_not_put_together(kernel: str) -> None:
    text = TEXT.replace("2 * N", "N + N + 1")
    assert merged(TEXT, [asked(kernel, text)]) is None


def test_a_question_elsewhere_is_not_put_together() -> None:
    outside = Asked(
        Unit(TEXT, "k.cu", "first"), (Question("q", "value", "1", TEXT.index("return 2")),), span_of("first")
    )
    assert merged(TEXT, [outside]) is None


def test_answers_are_those_of_each_kernel_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = NvrtcToolchain(Cache(tmp_path / "alone"))
    expected = [alone.answer(one.unit, one.questions) for one in wanted()]
    assert expected == [
        {"size": 5, "type": "double", "none": None},
        {"size": 3, "type": "float", "none": None},
        {"size": 2, "type": "short", "none": None},
    ]
    together = NvrtcToolchain(Cache(tmp_path / "together"))
    stray = asked("first", TEXT.replace("2 * N", "N + N"))  # edited elsewhere: it does not hinder the others
    together.answer_together(TEXT, [*wanted(), stray])
    monkeypatch.setattr(together, "_probe", lambda *_: pytest.fail("asked again"))
    assert [together.answer(one.unit, one.questions) for one in wanted()] == expected


def test_a_kernel_that_does_not_compile_leaves_the_others_to_be_asked_alone(tmp_path: Path) -> None:
    text = TEXT.replace("if (n) p[0]", "if (n) nobody[0]")
    toolchain = NvrtcToolchain(Cache(tmp_path))
    both = [asked("first", text), asked("second", text)]
    toolchain.answer_together(text, both)
    assert toolchain.answer(both[1].unit, both[1].questions) == {"size": 5, "type": "double", "none": None}


def test_many_failing_questions_are_found_in_the_end(tmp_path: Path) -> None:
    """The compiler stops at its hundredth error."""
    at = TEXT.index("if (n)")
    many = tuple(Question(str(i), "value", f"missing_{i}", at) for i in range(350))
    last = Question("last", "value", "size", at)
    answers = NvrtcToolchain(Cache(tmp_path)).answer(Unit(TEXT, "k.cu", "first"), (*many, last))
    assert isinstance(answers, dict) and answers["last"] == 3


def test_an_intrinsic_that_needs_the_optimiser_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "__global__ void k(int* p) { const int size = 4; p[0] = size; }"
    toolchain = NvrtcToolchain(Cache(tmp_path))
    build, unsupported = toolchain._build, Failed("k.cu(1) Error: unsupported operation", error("TP200", ""))
    monkeypatch.setattr(toolchain, "_build", lambda *args: unsupported if "-G" in args[2] else build(*args))
    question = Question("size", "value", "size", text.index("p[0]"))
    assert toolchain.answer(Unit(text, "k.cu", "k"), (question,)) == {"size": 4}


CALLING = """\
__device__ __noinline__ float far(float x) { return x * x + 1.f; }
__device__ float near(float x) { return x * 3.f; }
__global__ void calls(float* p) { p[threadIdx.x] = far(p[threadIdx.x]); }
__global__ void inlines(float* p) { __shared__ float s[64]; s[threadIdx.x] = near(*p); __syncthreads(); *p = s[1]; }
__global__ void also(double* p) { p[0] = near(p[1]) + p[2] * p[3]; }
"""


def whole(name: str) -> Asked:
    start = CALLING.index(f"__global__ void {name}(")
    return Asked(Unit(CALLING, "k.cu", name), (), Span(start, CALLING.index("\n", start)))


def test_what_kernels_take_is_what_each_takes_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    units = [whole(name) for name in ("calls", "inlines", "also")]
    alone = NvrtcToolchain(Cache(tmp_path / "alone"))
    expected = [alone.usage(one.unit, "sm_80") for one in units]
    together = NvrtcToolchain(Cache(tmp_path / "together"))
    together.usage_together(CALLING, units, "sm_80")
    compiled: list[str] = []
    compile_alone = together._compile
    monkeypatch.setattr(
        together, "_compile", lambda unit, *more: compiled.append(unit.kernel) or compile_alone(unit, *more)
    )
    assert [together.usage(one.unit, "sm_80") for one in units] == expected
    assert compiled == ["calls"]  # a function that is not inlined may look otherwise in other company
    assert isinstance(expected[1], Resources) and expected[1].static_shared == 256


def test_a_program_that_does_not_compile_leaves_what_each_takes_to_be_found_alone(tmp_path: Path) -> None:
    text = CALLING.replace("*p = s[1]", "*p = z[1]")
    toolchain = NvrtcToolchain(Cache(tmp_path))
    units = [replace(one, unit=replace(one.unit, text=text)) for one in map(whole, ("inlines", "also"))]
    toolchain.usage_together(text, units, "sm_80")
    assert isinstance(toolchain.usage(units[0].unit, "sm_80"), Refusal)
    assert isinstance(toolchain.usage(units[1].unit, "sm_80"), Resources)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("ret;", True),
        ("// call nobody\nret;", True),
        ("call.uni (retval0), far, (param0);", False),
        ("{ // callseq\n\tcall far, ();\n\t}", False),
        ("{ call far, (); }", False),
        ("@%p1 call far, ();", False),
    ],
)
def test_calls_are_seen_in_ptx(body: str, expected: bool) -> None:
    ptx = (
        f".version 9.0\n.visible .entry k(\n.param .u64 p\n)\n{{\n\t{body}\n}}\n"
        ".visible .entry other(\n)\n{\n\tcall far, ();\n}\n.func far()\n{\n\tcall further, ();\n}\n"
    )
    assert calls_nothing(ptx, "k") is expected
    assert not calls_nothing(ptx, "other") and not calls_nothing(ptx, "nobody")


def test_dot_products_are_probed_without_the_optimiser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "__global__ void k(int* p, unsigned* q, char4 c, uchar4 u) { p[0] = __dp4a(p[1], p[2], p[3]); "
        "q[0] = __dp4a(u, u, q[1]); p[1] = __dp4a(c, c, p[2]); p[2] = __dp2a_lo(p[1], p[2], p[3]); }"
    )
    at = text.index("p[0]")
    toolchain = NvrtcToolchain(Cache(tmp_path))
    builds: list[list[str]] = []
    build = toolchain._build
    monkeypatch.setattr(toolchain, "_build", lambda *args: builds.append(args[2]) or build(*args))
    questions = (
        Question("signed", "type", "__dp4a(c, c, 1)", at),
        Question("unsigned", "type", "__dp4a(u, u, 1u)", at),
    )
    answers = toolchain.answer(Unit(text, "k.cu", "k"), questions)
    assert answers == {"signed": "int", "unsigned": "unsigned int"}
    assert len(builds) == 1 and "-G" in builds[0]
