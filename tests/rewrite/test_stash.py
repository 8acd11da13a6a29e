"""Loads that wait in a slot per thread: what is moved on from there equals the original, or it is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.rewrite.harness import Kernel, candidate, snippet, tile_counts, with_dynamic

from tilepipe.diagnostics import Refusal
from tilepipe.rewrite import Rewrite

BOUNDS = "__launch_bounds__(128) "
HEAD = """\
#define AT4(p) (*reinterpret_cast<const float4*>(p))
struct Loose { float x, y, z, w; };
__device__ float table[8192];
#define PICK(i) (k & 1 ? a : a + 64)[i]
__device__ float4 fetched(const float* from) { return AT4(from); }
__device__ void fetch(float4& v, const float* from) { v = AT4(from); }
__device__ void turned(float (*to)[132], const float* from, int t)
{
    const float4 v = AT4(from + t * 4);
    for (int r = 0; r < 4; ++r)
        to[r][t] = r == 0 ? v.x : r == 1 ? v.y : r == 2 ? v.z : v.w;
}
__device__ void put(float (*to)[132], float4 v, int t)
{
    to[0][t] = v.x; to[1][t] = v.y; to[2][t] = v.z; to[3][t] = v.w;
}
"""
PUT = """
        s[0][threadIdx.x] = v.x; s[1][threadIdx.x] = v.y;
        s[2][threadIdx.x] = v.z; s[3][threadIdx.x] = v.w;"""
TWICE = PUT.replace("v.x", "v.x * 2.0f")
COMPUTE = """
        __syncthreads();
        for (int i = 0; i < 128; ++i)
            sum += s[i & 3][(i + threadIdx.x) & 127] * (i + 1);
        __syncthreads();"""
BEFORE = """\
    __shared__ __align__(16) float s[4][132];
    float sum = 0.0f;
"""
AFTER = "\n    c[blockIdx.x * 128 + threadIdx.x] = sum;"
WALK = "    const float* p = a + threadIdx.x * 4;\n"
MINE = "a + k * 512 + threadIdx.x * 4"


def loop(load: str, header: str = "for (int k = 0; k < n; ++k)", before: str = "", end: str = "") -> str:
    return f"{BEFORE}{before}    {header} {{\n{load}{COMPUTE}{end}\n    }}{AFTER}"


IN = "k * 512 + threadIdx.x * 4 < n * 512 - 200"
EXACT = {
    "transposed": loop(f"        const float4 v = AT4({MINE});{PUT}"),
    "vector member": loop(f"        const float2 v = *reinterpret_cast<const float2*>({MINE});"
                          "\n        for (int r = 0; r < 4; ++r) s[r][threadIdx.x] = v.x * 2.0f + v.y * r;"),
    "several turns": loop(
        "        for (int r = 0; r < 2; ++r) {\n"
        "            const float2 v = *reinterpret_cast<const float2*>(a + k * 512 + r * 256 + threadIdx.x * 2);\n"
        "            s[2 * r][threadIdx.x] = v.y; s[2 * r + 1][threadIdx.x] = v.x;\n        }"
    ),
    "two loops": loop(
        "        float2 v[2];\n        for (int r = 0; r < 2; ++r)\n"
        "            v[r] = *reinterpret_cast<const float2*>(a + k * 512 + r * 256 + threadIdx.x * 2);\n"
        "        for (int r = 0; r < 2; ++r) {\n"
        "            s[2 * r][threadIdx.x] = v[r].y; s[2 * r + 1][threadIdx.x] = v[r].x;\n        }"
    ),
    "ternary": loop(f"        const float4 v = {IN} ? AT4({MINE}) : make_float4(0.f, 0.f, 1.f, 0.f);{PUT}"),
    "ternary the other way": loop(
        f"        const float4 v = !({IN}) ? make_float4(0.f, 2.f, 0.f, 0.f) : AT4({MINE});{PUT}"
    ),
    "branch": loop(
        f"        float4 v;\n        if ({IN}) v = AT4({MINE});\n"
        f"        else v = make_float4(0.f, 0.f, 0.f, 3.f);{PUT}"
    ),
    "half of the threads": loop(
        f"        if (threadIdx.x < 64) {{ const float4 v = AT4({MINE});{PUT} }}\n"
        "        else { for (int r = 0; r < 4; ++r) s[r][threadIdx.x] = 1.f; }"
    ),
    "a narrower load beside it": loop(
        f"        const float4 v0 = AT4({MINE});\n        const float f = idx[k];\n"
        "        const float4 v = make_float4(v0.x * f, v0.y, v0.z * f, v0.w);" + PUT
    ),
    "a pointer walks": loop(
        "        const float4 v = AT4(p);" + PUT, before=WALK, end="\n        p += 512;"
    ),
    "a pointer walks before the store": loop(
        "        const float4 v = AT4(p);\n        p += 512;" + PUT, before=WALK
    ),
    "two pointers, one needed by the store": loop(
        "        const float4 v0 = AT4(p);\n        const float f = *q;\n"
        "        const float4 v = make_float4(v0.x * f, v0.y, v0.z, v0.w);" + PUT,
        before=WALK + "    const int* q = idx;\n",
        end="\n        p += 512;\n        q += 1;",
    ),
    "two pointers in one statement": loop(
        "        const float4 v0 = AT4(p);\n        const float f = *q;\n"
        "        const float4 v = make_float4(v0.x * f, v0.y, v0.z, v0.w);" + PUT,
        before=WALK + "    const int* q = idx;\n",
        end="\n        p += 512, q += 1;",
    ),
    "while": loop(
        f"        const float4 v = AT4({MINE});{PUT}",
        header="while (k < n)", before="    int k = 0;\n", end="\n        ++k;",
    ),
    "descending": loop(f"        const float4 v = AT4({MINE});{PUT}", header="for (int k = n - 1; k >= 0; --k)"),
    "two variables in the header": loop(
        f"        const float4 v = AT4({MINE});\n        const float f = j;" + PUT.replace("v.x", "v.x * f"),
        header="for (int k = 0, j = 3; k < n; ++k, j += 2)",
    ),
    "declared before the loop": loop(f"        v = AT4({MINE});{PUT}", before="    float4 v;\n"),
    "an index loaded ahead": loop(
        "        const int at = idx[k];\n        const float4 v = AT4(a + at * 4 + threadIdx.x * 4);" + TWICE
    ),
    "__ldg": loop(f"        const float4 v = __ldg(reinterpret_cast<const float4*>({MINE}));{PUT}"),
    "a helper loads and stores": loop("        turned(s, a + k * 512, threadIdx.x);"),
    "a helper loads into a reference": loop(f"        float4 v;\n        fetch(v, {MINE});{TWICE}"),
    "inline assembly in the computation": loop(
        f"        const float4 v = AT4({MINE});{PUT}", end="\n        asm volatile(\"\" ::: \"memory\");"
    ),
    "a helper stores": loop(f"        const float4 v = AT4({MINE});\n        put(s, v, threadIdx.x);"),
    "read after the loop": loop(f"        const float4 v = AT4({MINE});{PUT}").replace(
        AFTER,
        "\n    __syncthreads();\n    c[blockIdx.x * 128 + threadIdx.x] = n ? sum + s[1][127 - threadIdx.x] : sum;",
    ),
    "in an outer loop": loop(f"        const float4 v = AT4({MINE} + o);{PUT}")
    .replace("    for (int k", "    for (int o = 0; o < 8; o += 4)\n    for (int k"),
    "two tiles of different widths": (
        BEFORE + "    __shared__ float d[128];\n    for (int k = 0; k < n; ++k) {\n"
        f"        const float4 v = AT4({MINE});{PUT}\n"
        "        const float2 w = *reinterpret_cast<const float2*>(a + 4096 + (k * 128 + threadIdx.x) * 2);\n"
        "        d[threadIdx.x] = w.x - w.y;" + COMPUTE.replace("* (i + 1)", "* d[i]") + "\n    }" + AFTER
    ),
    "another tile beside it": (
        BEFORE + "    __shared__ __align__(16) float4 d[128];\n    for (int k = 0; k < n; ++k) {\n"
        f"        const float4 v = AT4({MINE});{PUT}\n        d[threadIdx.x] = AT4(a + 4096 + threadIdx.x * 4 + k * 4);"
        + COMPUTE.replace("* (i + 1)", "* d[i].y") + "\n    }" + AFTER
    ),
}  # fmt: skip
STAGES = (2, 3, 4)


def made(body: str, folder: Path, stages: int, bounds: str = BOUNDS) -> tuple[Kernel, Rewrite | Refusal]:
    kernel = snippet(body, folder, head=HEAD, bounds=bounds)
    return kernel, kernel.emit(candidate("stash", stages))


@pytest.mark.parametrize("stages", STAGES)
@pytest.mark.parametrize("name", EXACT)
def test_exact_and_free_of_races(name: str, stages: int, tmp_path: Path) -> None:
    kernel, emitted = made(EXACT[name], tmp_path, stages)
    assert isinstance(emitted, Rewrite), emitted.diagnostics[0].message
    assert "_ring[tp_stage]" in emitted.text and "tp_copy(&tp_" in emitted.text
    assert kernel.difference(emitted, tile_counts()) == ""


REFUSED = {
    "copied as it is": (
        loop("        for (int r = 0; r < 4; ++r) s[r][threadIdx.x] = a[k * 512 + r * 128 + threadIdx.x];"),
        "as wide as it is loaded",
    ),
    "one byte": (
        loop("        for (int r = 0; r < 4; ++r)\n            s[r][threadIdx.x] = "
             "reinterpret_cast<const signed char*>(a)[k * 512 + r * 128 + threadIdx.x];"),
        "of 1 bytes",
    ),
    "loosely aligned": (
        loop("        const Loose v = *reinterpret_cast<const Loose*>(a + k * 512 + threadIdx.x * 4);"
             + TWICE),
        "of 16 bytes at multiples of 4",
    ),
    "a variable of the file": (
        loop("        for (int r = 0; r < 4; ++r) s[r][threadIdx.x] = 2 * table[k * 512 + r * 128 + threadIdx.x];"),
        "global memory",
    ),
    "one of several elements": (
        loop("        for (int r = 0; r < 4; ++r)\n"
             "            s[r][threadIdx.x] = 2 * (k & 1 ? a[k + r] : a[threadIdx.x + r]);"),
        "several elements",
    ),
    "a load that counts": (
        loop("        const float4 v = AT4(a + (j++) * 512 + threadIdx.x * 4);" + TWICE, before="    int j = 0;\n"),
        "changes a variable",
    ),
    "a pointer that moves before the store needs it": (
        loop("        const float4 v0 = AT4(p);\n        p += 512;\n        const float f = p[-512];\n"
             "        const float4 v = make_float4(v0.x * f, v0.y, v0.z, v0.w);" + PUT,
             before=WALK),
        "needed again by the store",
    ),
    "a condition that counts": (
        loop(f"        const float4 v = AT4({MINE});\n        ++k;{PUT}", header="while (m-- > 0)",
             before="    int k = 0, m = n;\n"),
        "side effects",
    ),
    "a second tile without a slot": (
        BEFORE + "    __shared__ float d[128];\n    for (int k = 0; k < n; ++k) {\n"
        f"        const float4 v = AT4({MINE});{PUT}\n"
        "        d[threadIdx.x] = reinterpret_cast<const signed char*>(a)[k * 128 + threadIdx.x];"
        + COMPUTE.replace("* (i + 1)", "* d[i]") + "\n    }" + AFTER,
        "`d` has nothing to wait in slots",
    ),
    "an index that the loader needs itself": (
        BEFORE + "    __shared__ float d[128];\n    for (int k = 0; k < n; ++k) {\n        const int at = idx[k];\n"
        "        d[threadIdx.x] = a[at * 128 + threadIdx.x];\n"
        "        for (int r = 0; r < 4; ++r) s[r][threadIdx.x] = 0.5f * at;" + COMPUTE.replace("* (i + 1)", "* d[i]")
        + "\n    }" + AFTER,
        "needed by the loader itself",
    ),
    "a macro that chooses": (
        loop("        for (int r = 0; r < 4; ++r) s[r][threadIdx.x] = 2 * PICK(k * 512 + r * 128 + threadIdx.x);"),
        "chooses what is loaded",
    ),
    "a helper that loads": (
        loop(f"        const float4 v = fetched({MINE});{TWICE}"), "nothing is loaded",
    ),
    "volatile": (
        loop(f"        const float4 v = AT4({MINE});{TWICE}", 
             before="    volatile float last = 0.f;\n", end="\n        last = sum;"),
        "volatile",
    ),
    "a name that is taken": (
        loop(f"        const float4 v = AT4({MINE});{PUT}", 
             before="    const float k_after = 0.f;\n", end="\n        sum += k_after;"),
        "`k_after` of its own",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_a_reason(name: str, tmp_path: Path) -> None:
    body, reason = REFUSED[name]
    _, emitted = made(body, tmp_path, 3)
    assert isinstance(emitted, Refusal), emitted.text
    assert emitted.diagnostics[0].code == "TP150"
    assert reason in emitted.diagnostics[0].message


def test_the_number_of_slots_must_be_stated(tmp_path: Path) -> None:
    _, emitted = made(EXACT["transposed"], tmp_path, 3, bounds="")
    assert isinstance(emitted, Refusal)
    assert "`__launch_bounds__`" in emitted.diagnostics[0].message


def test_threads_of_two_dimensions_have_slots_of_their_own(tmp_path: Path) -> None:
    body = EXACT["transposed"].replace("threadIdx.x", "(threadIdx.x + 32 * threadIdx.y)")
    kernel, emitted = made(body, tmp_path, 3)
    assert isinstance(emitted, Rewrite)
    flat = replace(kernel, problem=replace(kernel.problem, block=("32", "4")))
    assert flat.difference(emitted, tile_counts()) == ""


def test_tiles_moved_to_dynamic_shared_memory(tmp_path: Path) -> None:
    kernel, _ = made(EXACT["another tile beside it"], tmp_path, 3)
    emitted = kernel.emit(with_dynamic(candidate("stash", 3)))
    assert isinstance(emitted, Rewrite)
    assert kernel.difference(emitted, tile_counts()) == ""


def test_narrower_loads_are_made_when_the_slot_is_moved_on(tmp_path: Path) -> None:
    _, emitted = made(EXACT["a narrower load beside it"], tmp_path, 3)
    assert isinstance(emitted, Rewrite)
    load, store = (
        emitted.text.partition(f"auto {name} = ")[2].partition("};")[0] for name in ("tp_load", "tp_store")
    )
    assert "idx" not in load and "auto& k = k_after;" in store and "idx[k]" in store
