"""The compiler's answers about constants and types, put from within the code that they are about."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from zoo_units import units

from tilepipe.diagnostics import Refusal
from tilepipe.problem import Parameter
from tilepipe.toolchain import Answer, NvccToolchain, NvrtcToolchain, Question, Unit
from tilepipe.toolchain.nvrtc_program import run

PROGRAM = Path(__file__).parent / "kernels" / "whole_program.cu"
TEXT = """
#include <cuda_fp16.h>
#include <cstdint>
#include <vector>
#define DOUBLE(x) ((x) * 2)
int main() { std::vector<int> v; }
struct Cfg { static constexpr int kM = 8, kN = kM * 4; enum { Rows = 3 }; };
enum class Mode { A = 7 };
template <class T, int N, class C>
__global__ void k(const T* __restrict__ p, T* q, int n, const float4 v)
{
    __shared__ T tile[N][C::kN + 1];
    constexpr unsigned pad = sizeof(T) == 4 ? 4 : 8;
    const int rows = DOUBLE(N), runtime = n * 2;
    T acc[2][3] = {};
    uint8_t byte = threadIdx.x;
    /*here*/
    tile[0][threadIdx.x] = p[byte] + acc[0][n] + T(v.x);
    q[0] = tile[0][rows] + T(runtime) + T(pad);
}
"""
VALUES: dict[str, Answer] = {
    "N": 6,
    "DOUBLE(N)": 12,
    "rows": 12,
    "pad": 8,
    "sizeof(tile)": 6 * 33 * 2,
    "C::kN": 32,
    "sizeof(tile) / sizeof(T)": 198,
    "C::Rows": 3,
    "Mode::A": 7,
    "-1": -1,
    "1ull << 40": 1 << 40,
    "true": 1,
    "'a'": 97,
    "N % 4 == 2": 1,
    **dict.fromkeys(["n", "runtime", "threadIdx.x", "p", "0.5f", "no_such_name", "N +"]),
}
TYPES: dict[str, Answer] = {
    "p": "const __half *",
    "p[0]": "__half",
    "q": "__half *",
    "tile": "__half [6][33]",
    "tile[0]": "__half [33]",
    "acc": "__half [2][3]",
    "byte": "unsigned char",
    "n": "int",
    "pad": "unsigned int",
    "v": "float4",
    "v.x": "float",
    "byte + 1": "int",
    "n > 1": "bool",
    "(signed char)1": "signed char",
    "(int64_t)1": "long long",
    "(char)1": "char",
    "1.0 * n": "double",
    "sizeof(T)": "unsigned long",
    "make_float2(1, 2)": "float2",
    "(uint32_t)n": "unsigned int",
    "(int32_t*)0": "int *",
    "no_such_name": None,
}


def questions(text: str, asked: dict[str, Answer], kind: str) -> tuple[Question, ...]:
    offset = text.encode().index(b"/*here*/")
    return tuple(Question(f"{kind} {e}", kind, e, offset) for e in asked)  # type: ignore[arg-type]


UNIT = Unit(TEXT, "a.cu", "k", "k<__half, 6, Cfg>")
ALL = questions(TEXT, VALUES, "value") + questions(TEXT, TYPES, "type")
EXPECTED = {f"value {e}": a for e, a in VALUES.items()} | {f"type {e}": a for e, a in TYPES.items()}


def test_values_and_types_in_one_go(nvrtc: NvrtcToolchain, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[str] = []

    def counted(*arguments: object, **named: object) -> object:
        runs.append("run")
        return run(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr("tilepipe.toolchain.nvrtc.run", counted)
    assert nvrtc.answer(UNIT, ALL) == EXPECTED
    assert len(runs) <= 4, "failing probes are found in batches"
    runs.clear()
    answerable = tuple(question for question in ALL if EXPECTED[question.key] is not None)
    assert nvrtc.answer(UNIT, answerable) == {q.key: EXPECTED[q.key] for q in answerable}
    assert len(runs) == 1
    assert nvrtc.answer(UNIT, answerable) == {q.key: EXPECTED[q.key] for q in answerable}
    assert len(runs) == 1, "asked again, it comes from the cache"


def test_both_compilers_agree(nvcc: NvccToolchain) -> None:
    answers = nvcc.answer(UNIT, ALL)
    assert not isinstance(answers, Refusal)
    # A 64-bit integer is `long` to a host of Linux, and `long long` to NVRTC's headers.
    assert answers.pop("type (int64_t)1") == "long"
    assert answers == {key: answer for key, answer in EXPECTED.items() if key in answers}
    assert len(answers) == len(EXPECTED) - 1


def test_places_decide(nvrtc: NvrtcToolchain) -> None:
    text = "__global__ void k(int* p)\n{ const int a = 3; { const int a = 4; p[0] = a; }\n p[1] = a; }\n"
    inner, outer = text.index("p[0]"), text.index("p[1]")
    asked = (Question("inner", "value", "a", inner), Question("outer", "value", "a", outer))
    assert nvrtc.answer(Unit(text, "a.cu", "k"), asked) == {"inner": 4, "outer": 3}


def test_answers_that_differ_between_instances_are_none(nvrtc: NvrtcToolchain) -> None:
    text = (
        "template <int N> __device__ int f(int x) { constexpr int same = 9; return x * N + same; }\n"
        "__global__ void k(int* p) { p[0] = f<2>(p[1]) + f<3>(p[2]); }\n"
    )
    at = text.index("return")
    asked = (Question("n", "value", "N", at), Question("same", "value", "same", at))
    assert nvrtc.answer(Unit(text, "a.cu", "k"), asked) == {"n": None, "same": 9}


def test_a_unit_that_does_not_compile_is_refused_at_its_own_line(nvrtc: NvrtcToolchain) -> None:
    text = "__global__ void k(int* p)\n{\n    p[0] = 1;\n    p[1] = qq;\n}\n"
    result = nvrtc.answer(Unit(text, "a.cu", "k"), (Question("x", "value", "3", text.index("p[0]")),))
    assert isinstance(result, Refusal)
    assert result.diagnostics[0].place is not None
    assert result.diagnostics[0].place.line == 4


def test_no_questions_are_answered_at_once(nvrtc: NvrtcToolchain) -> None:
    assert nvrtc.answer(UNIT, ()) == {}


def test_parameters(nvrtc: NvrtcToolchain) -> None:
    assert nvrtc.parameter_types(UNIT) == (
        Parameter("p", "const __half *", "__half"),
        Parameter("q", "__half *", "__half"),
        Parameter("n", "int", None),
        Parameter("v", "float4", None),
    )


@pytest.mark.parametrize(
    ("signature", "expected"),
    [
        (
            "uint8_t* a, const int8_t* b",
            [("a", "unsigned char *", "unsigned char"), ("b", "const signed char *", "signed char")],
        ),
        ("const void* __restrict__ a", [("a", "const void *", "void")]),
        ("float** rows", [("rows", "float **", "float *")]),
        ("const float *const *rows", [("rows", "const float *const *", "const float *")]),
        ("float a[], const int n", [("a", "float *", "float"), ("n", "int", None)]),
        ("float, unsigned long long seed", [("arg0", "float", None), ("seed", "unsigned long long", None)]),
        (
            "int32_t n, size_t m, bool f",
            [("n", "int", None), ("m", "unsigned long", None), ("f", "bool", None)],
        ),
        ("", []),
    ],
)
def test_canonical_types(
    nvrtc: NvrtcToolchain, signature: str, expected: list[tuple[str, str, str | None]]
) -> None:
    text = f"#include <cstdint>\n__global__ void k({signature}) {{ }}"
    assert nvrtc.parameter_types(Unit(text, "a.cu", "k")) == tuple(Parameter(*one) for one in expected)


def test_parameters_of_a_whole_program(nvrtc: NvrtcToolchain, nvcc: NvccToolchain) -> None:
    what = Unit(PROGRAM.read_text(), str(PROGRAM), "tiled", "tiled<float, TILE>")
    found = nvrtc.parameter_types(what)
    assert isinstance(found, tuple)
    assert [one.name for one in found] == ["a", "b", "c", "n", "flag"]
    assert [one.type for one in found] == [
        "const float *",
        "const float *",
        "float *",
        "int",
        "unsigned char",
    ]
    assert nvcc.parameter_types(what) == found


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(units()))
def test_parameters_of_the_zoo(nvrtc: NvrtcToolchain, name: str) -> None:
    found = nvrtc.parameter_types(units()[name])
    assert isinstance(found, tuple)
    declared = re.search(rf"\b{name}\(([^)]*)\)", units()[name].text)
    assert declared is not None
    assert [one.name for one in found] == [part.split()[-1].lstrip("*") for part in declared[1].split(",")]
