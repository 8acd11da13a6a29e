"""Neighbours stored in vectors: equal to the original in every form, and left as they are where that is not proved."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.rewrite.harness import Kernel, candidate, snippet, tile_counts, with_dynamic

from tilepipe.plan.types import Candidate
from tilepipe.rewrite import Rewrite

BOUNDS = "__launch_bounds__(128) "
HEAD = """\
#include <cuda_fp16.h>
#define FOUR 4
#define SHIFTED(c) ((c) + 4)
#define ROW_OF_J (r + j)
constexpr int FEW = 4;
struct Loose { float x, y, z, w; };
"""
# Something before the tile that leaves it at an odd multiple of 4 bytes.
ODD = "__shared__ float odd[1];\n    if (threadIdx.x == 0) odd[0] = a[0];\n    __syncthreads();\n    "
START = """\
    const int r = threadIdx.x >> 5, at = (threadIdx.x & 31) * 4;
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {{
        {before}const float4 v = *reinterpret_cast<const float4*>(a + k * 512 + threadIdx.x * 4);
        const float* q = reinterpret_cast<const float*>(&v);
        {load}
        __syncthreads();
        for (int i = 0; i < 128; ++i)
            sum += (float)s{read} * (i + 1);
        __syncthreads();
    }}
    c[blockIdx.x * 128 + threadIdx.x] = sum{more};"""
ROWS, FLAT = "[i & 3][(i + threadIdx.x) & 127]", "[(i & 3) * 132 + ((i + threadIdx.x) & 127)]"
FORMS = (
    candidate("ldg", 2), candidate("ldg", 2, "textbook"), candidate("prefetch", 1), candidate("stash", 2),
    candidate("stash", 3),
)  # fmt: skip


def body(declared: str, load: str, read: str = ROWS, before: str = "") -> str:
    return f"    {declared}\n" + START.format(
        load=load, read=read, before=before, more=" + odd[0]" if " odd[1]" in declared else ""
    )


LOOP = "for (int j = 0; j < 4; ++j)\n            "
PLAIN = LOOP + "s[r][at + j] = q[j] * 2.0f;"
TILE = "__shared__ __align__(16) float s[4][132];"
WIDE = {
    "floats": (body(TILE, PLAIN), 16),
    "an alignment that is raised": (body("__shared__ float s[4][132];", PLAIN), 16),
    "a stated alignment that is raised": (body("__shared__ __align__(4) float s[4][132];", PLAIN), 16),
    "aligned by a name": (body(ODD + "__shared__ __align__(FEW) float s[4][132];", PLAIN), 16),
    "aligned by more than is needed": (body("__shared__ __align__(FEW * 8) float s[4][132];", PLAIN), 16),
    "alignas of a name": (body(ODD + "alignas(FEW) __shared__ float s[4][132];", PLAIN), 16),
    "an alignment before": (body(ODD + "__align__(FEW) __shared__ float s[4][132];", PLAIN), 16),
    "in a comment": (body(ODD + "__shared__ /* aligned (as it is) */ float s[4][132];", PLAIN), 16),
    "alignas of a type": (body(ODD + "__shared__ alignas(Loose) float s[4][132];", PLAIN), 16),
    "an attribute": (body(ODD + "__shared__ float s[4][132] __attribute__((aligned(FEW)));", PLAIN), 16),
    "two alignments": (body(ODD + "__shared__ __align__(16) __align__(FEW) float s[4][132];", PLAIN), 16),
    "declared with others": (body("__shared__ signed char odd[3]; __shared__ float t[1], s[4][132], d[3];", PLAIN), 16),
    "halves": (body("__shared__ __half s[4][136];", LOOP + "s[r][at + j] = __float2half(q[j] * 2.0f);"), 8),
    "bytes": (body("__shared__ signed char s[4][132];", LOOP + "s[r][at + j] = (signed char)(q[j] * 8.0f);"), 4),
    "shorts": (body("__shared__ short s[4][134];", LOOP + "s[r][at + j] = (short)(q[j] * 8.0f);"), 4),
    "two at a time": (body("__shared__ float s[4][134];", PLAIN), 8),
    "one extent": (body("__shared__ float s[4 * 132];", LOOP + "s[r * 132 + at + j] = q[j] + 1.0f;", FLAT), 16),
    "the counter first": (body(TILE, LOOP + "s[r][(j + at)] = q[j] - 1.0f;"), 16),
    "a macro counts": (body(TILE, PLAIN.replace("j < 4", "j < FOUR")), 16),
    "braces and variables": (
        body(
            TILE, "for (int j = 0; j < 4; ++j) {\n            const float x = q[j] * 3.0f;\n"
            "            s[r][at + j] = x * x;\n        }",
        ),
        16,
    ),
    "halves of a row": (
        body(TILE, "for (int j = 0; j < 2; ++j)\n            s[r][at + j] = q[j] * 2.0f;\n        "
             "for (int j = 0; j < 2; ++j)\n            s[r][at + 2 + j] = q[j + 2];"),
        8,
    ),
    "under a condition": (
        body(TILE, f"if (k & 1) {{ {PLAIN} }} else {{ {PLAIN.replace('2.0f', '3.0f')} }}"), 16,
    ),
    "in another loop": (
        body(TILE, "for (int h = 0; h < 2; ++h) {\n            for (int j = 0; j < 2; ++j)\n"
             "                s[r][at + h * 2 + j] = q[h * 2 + j] * 2.0f;\n        }"),
        8,
    ),
    "declared in the loop": (body("", PLAIN, before=TILE + "\n        "), 16),
    "on one line": (
        body(
            TILE,
            "if (n > 1) { for (int j = 0; j < 4; ++j) { s[r][at + j] = q[j] * 2.0f; } } else { " + PLAIN + "}",
        ),
        16,
    ),
}  # fmt: skip


def made(text: str, folder: Path, form: Candidate) -> tuple[Kernel, Rewrite]:
    kernel = snippet(text, folder, head=HEAD, bounds=BOUNDS)
    emitted = kernel.emit(form)
    assert isinstance(emitted, Rewrite), emitted.diagnostics[0].message
    return kernel, emitted


@pytest.mark.parametrize("form", FORMS, ids=[f.id for f in FORMS])
@pytest.mark.parametrize("name", WIDE)
def test_vectors_are_exact_and_free_of_races(name: str, form: Candidate, tmp_path: Path) -> None:
    text, bytes_ = WIDE[name]
    kernel, emitted = made(text, tmp_path, form)
    assert f"tp_store_wide<{bytes_}>(&s[" in emitted.text
    assert kernel.difference(emitted, tile_counts((0, 1, 2, 5))) == ""


def test_tiles_moved_to_dynamic_shared_memory(tmp_path: Path) -> None:
    kernel, emitted = made(WIDE["an alignment that is raised"][0], tmp_path, with_dynamic(FORMS[0]))
    assert "tp_store_wide<16>" in emitted.text
    assert kernel.difference(emitted, tile_counts((1, 3))) == ""


def test_a_tile_beside_one_that_is_copied_asynchronously(tmp_path: Path) -> None:
    text = body(
        TILE + " __shared__ float d[128];",
        PLAIN + "\n        d[threadIdx.x] = a[4096 + k * 128 + threadIdx.x];",
    ).replace("* (i + 1)", "* d[i]")
    for form in (candidate("mixed", 2), candidate("mixed", 2, "textbook"), candidate("stash", 3)):
        kernel, emitted = made(text, tmp_path, form)
        assert "tp_store_wide<16>" in emitted.text and "tp_copy(&d" in emitted.text
        assert kernel.difference(emitted, tile_counts((0, 1, 2, 5))) == ""


@pytest.mark.parametrize("name", ["aligned by a name", "alignas of a name", "an attribute", "two alignments"])
def test_the_emulator_sees_an_alignment_that_is_not_raised(name: str, tmp_path: Path) -> None:
    odd = WIDE[name][0].replace("__shared__ float odd", "volatile __shared__ float odd")  # placed first then
    kernel, emitted = made(odd, tmp_path, FORMS[0])
    assert kernel.difference(emitted, tile_counts((2,))) == ""
    text = emitted.text.replace("(FEW) > 16 ? (FEW) : 16", "FEW").replace("alignas(16) ", "")
    assert text != emitted.text
    assert "too little alignment" in kernel.difference(replace(emitted, text=text), tile_counts((2,)))


KEPT = {
    "rows of no whole vectors": body("__shared__ __align__(16) float s[4][133];", PLAIN),
    "an odd start": body(TILE, LOOP + "s[r][at + 1 + j] = q[j] * 2.0f;"),
    "a start that is not known": body(TILE, LOOP + "s[r][at + (n - n) + j] = q[j] * 2.0f;"),
    "a guard inside": body(TILE, LOOP + "if (j < 4 + n) s[r][at + j] = q[j] * 2.0f;"),
    "every other element": body("__shared__ float s[4][264];", LOOP + "s[r][2 * at + 2 * j] = q[j] * 2.0f;"),
    "every other turn": body(TILE, "for (int j = 0; j < 4; j += 2)\n            s[r][at + j] = q[j] * 2.0f;"),
    "backwards": body(TILE, LOOP + "s[r][at + 3 - j] = q[j] * 2.0f;"),
    "three": body(TILE, "for (int j = 0; j < 3; ++j)\n            s[r][at + j] = q[j] * 2.0f;"),
    "two bytes": body(
        "__shared__ signed char s[4][132];",
        "for (int j = 0; j < 2; ++j)\n            s[r][at + j] = (signed char)(q[j] * 8.0f);",
    ),
    "down a column": body(
        "__shared__ float s[512][4];",
        LOOP + "s[at + j][r] = q[j] * 2.0f;",
        "[(i + threadIdx.x) & 127][i & 3]",
    ),
    "a row of its own for each": body(TILE, LOOP + "{ const int h = r ^ j; s[h][at + j] = q[j] * 2.0f; }"),
    "a row that a macro changes": body(
        "__shared__ float s[8][132];", LOOP + "s[ROW_OF_J][at + j] = q[j] * 2.0f;"
    ),
    "a macro around the counter": body(
        "__shared__ float s[4][136];", LOOP + "s[r][SHIFTED(at + j)] = q[j] * 2.0f;"
    ),
    "two stores": body(TILE, LOOP + "{ s[r][at + j] = q[j] * 2.0f; s[r][at + j] = q[j]; }"),
    "a variable that counts on": body(TILE, LOOP + "{ sum += 1.0f; s[r][at + j] = q[j] * 2.0f; }"),
    "aligned alone among others": body("__shared__ float t[1], s[4][132] __align__(4);", PLAIN),
    "stages that are no whole vectors": body(
        "__shared__ float s[525];", LOOP + "s[r * 132 + at + j] = q[j];", FLAT
    ),
    "volatile": body("volatile __shared__ float s[4][132];", PLAIN),
    "one element a thread": body(
        TILE,
        "for (int i = threadIdx.x; i < 512; i += 128)\n            s[i >> 7][i & 127] = a[k * 512 + i] * 2.0f;",
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_is_not_proved_stays(name: str, tmp_path: Path) -> None:
    kernel, emitted = made(KEPT[name], tmp_path, FORMS[0])
    assert "tp_store_wide" not in emitted.text
    # Some of them leave elements as they are: those are told from the original, which reads them too.
    difference = kernel.difference(emitted, tile_counts((1, 3)))
    assert difference in ("", "passed ; unknown the original shows the same kinds of findings")


MUTANTS = {
    "rows that are longer": ("[4][132]", "[4][133]"),
    "an element on": ("(&s[r][at]", "(&s[r][at + 1]"),
    "vectors that are wider": ("tp_store_wide<8>", "tp_store_wide<16>"),
    "stages that are longer": ("_ring[TP_STAGES][4][134]", "_ring[TP_STAGES][4][135]"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_emulator_sees_what_the_proof_rules_out(name: str, tmp_path: Path) -> None:
    old, new = MUTANTS[name]
    kernel, emitted = made(
        WIDE["two at a time" if "8" in old or "134" in old else "floats"][0], tmp_path, FORMS[0]
    )
    assert old in emitted.text
    wrong = replace(emitted, text=emitted.text.replace(old, new))
    assert "too little alignment" in kernel.difference(wrong, tile_counts((2,)))
