"""What a refusal says: what stands in the way, and an edit that lifts it."""

from __future__ import annotations

import pytest
from tests.kernel.test_legality import KERNEL, LOAD, answer

from tilepipe.diagnostics import Refusal

TILE = "__shared__ float s[128];"
SUM = "            sum += s[i];"
BARRIER = "        __syncthreads();\n"
WRAPPER = "struct V { float v[4]; __device__ float& operator[](int i) { return v[i]; } };\n"
NAMED = '        asm volatile("bar.sync 1, 64;" ::: "memory");\n'


def said(text: str) -> tuple[str, str, str]:
    refused = answer(text)
    assert isinstance(refused, Refusal)
    (told,) = refused.diagnostics
    return told.code, told.message, told.help


def changed(*edits: tuple[str, str]) -> str:
    text = KERNEL
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize(
    ("text", "code", "message", "help"),
    [
        (
            "__global__ void f(float* a) { a[0] = 1; }",
            "TP001",
            "it has neither shared memory nor a barrier",
            "",
        ),
        (
            "__global__ void f(float* a) { __shared__ float s[3]; }",
            "TP001",
            "it has shared memory, but no barrier",
            "put __syncthreads()",
        ),
        (changed((BARRIER, "")), "TP001", "it has shared memory, but no barrier", "put __syncthreads()"),
        (
            "__global__ void f(float* a) { a[0] = 1; __syncthreads(); }",
            "TP001",
            "stores nothing to shared memory",
            "",
        ),
        (
            changed((TILE, "__shared__ struct { float v[128]; } s;"), (LOAD, LOAD.replace("s[", "s.v["))),
            "TP001",
            "`s` in shared memory is no array",
            "declare each tile as a `__shared__` array",
        ),
        (
            WRAPPER + changed(("float sum = 0.0f;", "float sum = 0.0f; V v{};"), (SUM, "v[i & 3] += s[i];")),
            "TP016",
            "where this stores to is not followed: it may change `a`",
            "`operator[]` of a class",
        ),
        (
            WRAPPER + changed((LOAD, "V v; v[0] = a[k * 128 + threadIdx.x]; s[threadIdx.x] = v[0];")),
            "TP016",
            "stores to what is not followed",
            "`operator[]` of a class",
        ),
        (changed((BARRIER, NAMED)), "TP020", "a barrier with a number of threads", "__syncthreads()"),
        (
            changed((SUM, SUM.replace("sum += s[i];", "{ sum += s[i]; g(row); }")), ("a[k", "a[row + k")),
            "TP018",
            "the load of the next tile depends on `g`",
            "define the function in this file",
        ),
    ],
)
def test_words(text: str, code: str, message: str, help: str) -> None:
    told = said(text)
    assert told[0] == code and message in told[1] and help in told[2], told


def test_the_same_without_what_stands_in_the_way_is_pipelined() -> None:
    for text in (
        KERNEL,
        WRAPPER + KERNEL,
        changed((BARRIER, BARRIER.replace("__syncthreads()", 'asm volatile("bar.sync 0;" ::: "memory")'))),
    ):
        assert not isinstance(answer(text), Refusal)
    plain = changed(("float sum = 0.0f;", "float sum = 0.0f; float v[4] = {};"), (SUM, "v[i & 3] += s[i];"))
    assert not isinstance(answer(plain), Refusal)
