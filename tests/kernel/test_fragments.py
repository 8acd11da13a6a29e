"""Which loops over a tile's groups can load their fragments ahead, and that those which can stay bitwise equal."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.rewrite.harness import Kernel, parse_candidate, snippet, tile_counts

from tilepipe.diagnostics import Refusal
from tilepipe.kernel.fragments import FragmentLoop
from tilepipe.rewrite import Rewrite

FORMS = ("cp_async-3-ring-frags", "cp_async-2-ring-frags-spread", "ldg-2-ring-frags")
_LOOP = "#pragma unroll\n        for (int g = 0; g < 8; ++g)"
_BASE = "float x[2]; x[0] = t[g][threadIdx.x]; x[1] = t[g][threadIdx.x ^ 1]; acc += x[0] * x[1];"
_GET = "__device__ void get(float (&x)[2], const float* from, int i) {\n    x[0] = from[0];\n    x[1] = from[1];\n}"
_PUT = "__device__ void put(float (&x)[2], float value, int i) {\n    x[i] = value;\n}"


def kernel(
    folder: Path,
    body: str = _BASE,
    loop: str = _LOOP,
    before: str = "",
    inside: str = "",
    after: str = "",
    head: str = "",
    result: str = "acc",
    same_line: str = "",
) -> Kernel:
    """A kernel of 8 groups a tile: `before` stands before the tile loop, `inside` and `after` around its groups."""
    lines = "\n".join(f"            {line.strip()};" for line in body.split(";") if line.strip())
    text = f"""    __shared__ float t[8][128];
    float acc = 0.f;
    {before}
    for (int k = 0; k < n; ++k) {{
        for (int i = 0; i < 8; ++i)
            t[i][threadIdx.x] = a[(k * 8 + i) * 128 + threadIdx.x];
        __syncthreads();
        {inside}
        {loop} {{
{lines} {same_line}
        }}
        {after}
        __syncthreads();
    }}
    c[blockIdx.x * 128 + threadIdx.x] = {result};"""
    return snippet(text, folder, head)


ACCEPTED: dict[str, dict[str, str]] = {
    "a type whose name ends in const": {
        "head": "using myconst = float;",
        "body": "myconst x; x = t[g][threadIdx.x]; acc += x * 2.f",
    },
    "registers": {},
    "values": {
        "body": "const float x = t[g][threadIdx.x], y = t[g][threadIdx.x ^ 1]; acc += x * y + k",
    },
    "declared before the tile loop": {
        "before": "float x[2] = {0.0f};",
        "body": "x[0] = t[g][threadIdx.x]; x[1] = t[g][threadIdx.x ^ 1]; acc += x[0] * x[1]",
    },
    "steps of two": {
        "loop": "for (int g = 0; g < 8; g += 2)",
        "body": "float x[2]; x[0] = t[g][threadIdx.x]; x[1] = t[g + 1][threadIdx.x]; acc += x[0] * x[1]",
    },
    "inclusive bound": {"loop": "#pragma unroll 4\n        for (int g = 0; g <= 7; ++g)"},
    "index declared in the loop": {
        "body": "const int row = 7 - g; float x; x = t[row][threadIdx.x]; acc += x * row",
    },
    "a helper": {
        "head": _GET,
        "body": "float x[2]; get(x, &t[g][threadIdx.x & 126], 6); acc += x[0] * x[1]",
    },
    "a pointer into the tile": {
        "body": "const float* p = &t[g][threadIdx.x]; float x; x = p[0]; acc += x * x",
    },
    "a pointer to the group's row, by an index that the math uses": {
        "body": "const int row = 7 - g; const float* const p = t[row]; float x[2]; x[0] = p[threadIdx.x]; "
        "x[1] = *(p + (threadIdx.x ^ 1)); acc += x[0] * x[1] + row",
    },
    "an index by an index": {
        "body": "const int row = 7 - g; const int twice = 2 * row; float x; "
        "x = t[twice / 2][threadIdx.x]; acc += x * twice",
    },
    "a loop over elements": {
        "loop": "for (int g = 0; g < 8; ++g)",
        "body": "float x[2]; for (int i = 0; i < 2; ++i) x[i] = t[g][threadIdx.x ^ i]; acc += x[0] * x[1]",
    },
    "a step that is a macro with an operator": {
        "head": "#define STEP 1 + 1",
        "loop": "for (int g = 0; g < 8; g += STEP)",
        "body": "float x[2]; x[0] = t[g][threadIdx.x]; x[1] = t[g + 1][threadIdx.x]; acc += x[0] * x[1]",
    },
    "elements loaded between the math": {
        "body": "float x[2]; x[0] = t[g][threadIdx.x]; acc += x[0]; x[1] = t[g][threadIdx.x ^ 1]; acc += x[1] * 2.f",
    },
    "zeros that no group loads": {
        "before": "float x[2] = {0.0f};",
        "body": "x[0] = t[g][threadIdx.x]; acc += x[0] + x[1]",
    },
    "loads and math on one line": {
        "body": "float x",
        "same_line": "acc *= 0.5f; x = t[g][threadIdx.x]; acc += x;",
    },
    "elements chosen by a macro": {
        "head": "#define AT(v, i) v[(i) & 1]",
        "body": "float x[2]; AT(x, 2) = t[g][threadIdx.x]; AT(x, 3) = t[g][threadIdx.x ^ 1]; acc += x[0] * x[1]",
    },
    "the last tile read after the loop": {"result": "acc + (n > 0 ? t[3][threadIdx.x ^ 5] : 0.f)"},
    "a helper that stores to one element": {
        "head": "__device__ void put(float& to, float* p) { to = *p; }",
        "body": "float x[2]; put(x[0], &t[g][threadIdx.x]); put(x[1], &t[g][threadIdx.x ^ 1]); acc += x[0] * x[1]",
    },
    "two elements at a time": {
        "before": "__align__(8) float x[2];",
        "body": "*reinterpret_cast<float2*>(&x[0]) = "
        "*reinterpret_cast<const float2*>(&t[g][threadIdx.x & 126]); acc += x[0] - x[1]",
    },
    "two elements behind a cast of the array": {
        "before": "__align__(8) float x[4];",
        "body": "reinterpret_cast<float2*>(x)[1] = "
        "*(const float2*)&t[g][threadIdx.x & 126]; acc += x[2] - x[3]",
    },
    "a list of loads": {
        "body": "float x[2]; x[0] = t[g][threadIdx.x], x[1] = t[g][threadIdx.x ^ 1]; acc += x[0] * x[1]",
    },
    "a load in assembly": {
        "body": "float x",
        "same_line": 'asm volatile("mov.b32 %0, %1;" : "=f"(x) : "f"(t[g][threadIdx.x])); acc += x;',
    },
    "members loaded between the math": {
        "body": "float2 x; x.x = t[g][threadIdx.x]; acc += x.x; x.y = t[g][threadIdx.x ^ 1]; acc += x.y * 2.f",
    },
    "elements with octal numbers": {
        "body": "float x[2]; x[00] = t[g][threadIdx.x]; acc += x[0]; x[01] = t[g][threadIdx.x ^ 1]; acc += x[1] * 2.f",
    },
    "an assignment of another class": {
        "head": "struct F { float v; __device__ F& operator=(float f) { v += f; return *this; } };",
    },
    "a class whose assignment is written out as the default": {
        "head": "struct F { float v; __device__ F(float f = 0) : v(f) {} F(const F&) = default;\n"
        "  F& operator=(const F&) = default; };",
        "body": "F x; x = t[g][threadIdx.x]; acc += x.v",
    },
    "more around the groups": {"inside": "float scale = 0.5f * k;", "after": "acc *= scale;"},
}

_ZEROS = "float x[2] = {};"
_LOAD = "x[0] = t[g][threadIdx.x]"
_OTHER = "t[g][threadIdx.x ^ 3]"
_REST = "x[1] = t[g][threadIdx.x ^ 1]; acc += x[0] - 2.f * x[1]"
_UNCLEAR = "how a fragment is loaded is not understood"

REFUSED: dict[str, tuple[dict[str, str], str]] = {
    "a rolling window": (
        {"before": "float x[2];", "body": "x[g % 2] = t[g][threadIdx.x]; acc += x[0] * x[1]"},
        "which elements of a fragment are loaded differs",
    ),
    "an accumulated fragment": (
        {"before": "float x[2];", "body": "x[0] += t[g][threadIdx.x]; acc += x[0]"},
        "from what it held before",
    ),
    "a conditional load": (
        {"body": "float x[2]; if (threadIdx.x < 64) x[0] = t[g][threadIdx.x]; acc += x[0]"},
        "under a condition",
    ),
    "an odd number of groups": ({"loop": "for (int g = 0; g < 7; ++g)"}, "even number"),
    "an alignment": (
        {
            "body": "alignas(8) float x[2]; x[0] = t[g][threadIdx.x]; x[1] = t[g][threadIdx.x ^ 1]; acc += x[0] * x[1]"
        },
        "states an alignment",
    ),
    "an alignment of a fragment that is declared before the tile loop": (
        {
            "before": "float x[3] __attribute__((aligned(8)));",
            "body": "x[0] = t[g][threadIdx.x]; acc += x[0]",
        },
        "states an alignment",
    ),
    "a pointer into the tile that the math uses": (
        {"body": "const float* p = &t[g][threadIdx.x]; float x; x = p[0]; if (p) acc += x"},
        "which points into a tile",
    ),
    "one group": ({"loop": "for (int g = 0; g < 1; ++g)"}, "even number"),
    "an unknown number of groups": (
        {"loop": "for (int g = 0; g < min(n, 8); ++g)"},
        "not known at compile time",
    ),
    "a later start": ({"loop": "for (int g = 1; g < 7; ++g)"}, "count groups from 0"),
    "a fragment used after the loop": (
        {"before": "float x[2];", "body": "x[0] = t[g][threadIdx.x]; acc += x[0]", "result": "acc + x[0]"},
        "outside the loop over groups",
    ),
    "a fragment changed by the math": (
        {"body": "float x[2]; x[0] = t[g][threadIdx.x]; x[0] *= 2.f; acc += x[0]"},
        "the math changes the fragment",
    ),
    "an address from the result": (
        {"body": "float x; x = t[g][(threadIdx.x + (int)acc) & 127]; acc += x"},
        "depends on `acc`",
    ),
    "a result stored in the loop": (
        {"after": "c[256 + threadIdx.x] = acc;"},
        "writes memory",
    ),
    "a barrier in the compute phase": (
        {"inside": "acc += t[0][threadIdx.x];\n        __syncthreads();"},
        "not read in one",
    ),
    "a pointer into the fragment": (
        {"body": "float x[2]; x[0] = t[g][threadIdx.x]; const float* p = x; acc += p[0]"},
        "points into the fragment",
    ),
    "a reference to the fragment": (
        {"before": "float x[2];\n    float& r = x[0];", "body": "x[0] = t[g][threadIdx.x]; acc += r"},
        "",
    ),
    "a type left to the compiler": ({"body": "auto x = t[g][threadIdx.x]; acc += x"}, "`auto`"),
    "load and math in one statement": ({"body": "acc += t[g][threadIdx.x]"}, "one statement both"),
    "a number of loads that grows": (
        {"body": "float x[8]; for (int i = 0; i <= g; ++i) x[i] = t[g][threadIdx.x ^ i]; acc += x[0]"},
        "how much is loaded differs",
    ),
    "an exit": (
        {"body": "float x; x = t[g][threadIdx.x]; acc += x; if (n > 100) break"},
        "more than load and multiply",
    ),
    "a second reader": ({"after": "acc += t[0][threadIdx.x];"}, "not read in one"),
    "a helper that picks the element": (
        {
            "head": _PUT,
            "before": "float x[2] = {0.0f};",
            "body": "put(x, t[g][threadIdx.x], g % 2); acc += x[0] * x[1]",
        },
        "not followed",
    ),
    "a macro that picks the element": (
        {
            "head": "#define AT(v, i) v[(i) & 1]",
            "before": "float x[2] = {0.0f};",
            "body": "AT(x, g) = t[g][threadIdx.x]; acc += x[0] - x[1]",
        },
        "which elements of a fragment are loaded differs",
    ),
    "an index that is a macro": (
        {
            "head": "#define PLACE (g & 1)",
            "before": "float x[2] = {0.0f};",
            "body": "x[PLACE] = t[g][threadIdx.x]; acc += x[0] - x[1]",
        },
        "which elements of a fragment are loaded differs",
    ),
    "a fragment's type asked for": (
        {"body": "float x; x = t[g][threadIdx.x]; decltype(x) y = x; y *= 2.f; acc += x * y"},
        "the type of the fragment `x` is asked for",
    ),
    "its type asked for in a macro": (
        {
            "head": "#define COPY(y, x) decltype(x) y = x",
            "body": "float x; x = t[g][threadIdx.x]; COPY(y, x); y *= 2.f; acc += x * y",
        },
        "the type of the fragment `x` is asked for",
    ),
    "a type of the tile loop's own": (
        {"inside": "using F = float;", "body": "F x = t[g][threadIdx.x]; acc += x"},
        "the type `F` is declared in the tile loop",
    ),
    "a fragment used for two elements in turn": (
        {"body": "float x = t[g][threadIdx.x]; acc += x; x = t[g][threadIdx.x ^ 3]; acc += x * 2.f"},
        "loads the fragment `x` anew behind its use",
    ),
    "a load that is chosen": (
        {"before": _ZEROS, "body": f"g & 1 ? (void)({_LOAD}) : (void)0; {_REST}"},
        _UNCLEAR,
    ),
    "a load behind an and": ({"before": _ZEROS, "body": f"g & 1 && ({_LOAD}) > 0.f; {_REST}"}, _UNCLEAR),
    "a load behind an or": ({"before": _ZEROS, "body": f"g & 1 || ({_LOAD}) > 0.f; {_REST}"}, _UNCLEAR),
    "an element that is chosen": (
        {"before": _ZEROS, "body": f"(g & 1 ? x[0] : x[1]) = t[g][threadIdx.x]; {_REST}"},
        "",
    ),
    "a load in a loop of no turns": (
        {"before": _ZEROS, "body": "", "same_line": f"for (int i = 0; i < (g & 1); ++i) {_LOAD}; {_REST};"},
        "how much is loaded differs",
    ),
    "a load in a loop's header": (
        {
            "before": _ZEROS,
            "body": "",
            "same_line": f"for (int i = 0; i < 2 && ({_LOAD}) > 0.f; ++i) acc += i; {_REST};",
        },
        "",
    ),
    "a counter that the loop changes": (
        {
            "before": "float x[4] = {};",
            "body": "",
            "same_line": "for (int i = 0; i < 4; ++i) { x[i] = t[g][threadIdx.x ^ i]; i += g & 1; } acc += x[1];",
        },
        "how often a fragment is loaded",
    ),
    "a helper that chooses to load": (
        {
            "head": "__device__ void take(float& x, const float* p, bool in) { in ? (void)(x = *p) : (void)0; }",
            "before": _ZEROS,
            "body": f"take(x[0], &t[g][threadIdx.x], g & 1); {_REST}",
        },
        "not followed",
    ),
    "a helper that leaves early": (
        {
            "head": "__device__ void take(float& x, const float* p, bool in) { if (!in) return; x = *p; }",
            "before": _ZEROS,
            "body": f"take(x[0], &t[g][threadIdx.x], g & 1); {_REST}",
        },
        "",
    ),
    "a helper that moves its pointer": (
        {
            "head": "__device__ void take(float* x, const float* p, int i) { x = x + i; *x = *p; }",
            "before": _ZEROS,
            "body": f"take(x, &t[g][threadIdx.x], g & 1); {_REST}",
        },
        "from what it held before",
    ),
    "an element behind a cast of its address": (
        {
            "before": "float2 x = {};",
            "body": "reinterpret_cast<float*>(&x)[g & 1] = t[g][threadIdx.x]; acc += x.x - x.y",
        },
        "which elements of a fragment are loaded differs",
    ),
    "an element behind a cast of the array": (
        {"before": _ZEROS, "body": "static_cast<float*>(x)[g & 1] = t[g][threadIdx.x]; acc += x[0] - x[1]"},
        "which elements of a fragment are loaded differs",
    ),
    "an element behind a cast as in C": (
        {"before": _ZEROS, "body": "((float*)x)[g & 1] = t[g][threadIdx.x]; acc += x[0] - x[1]"},
        "which elements of a fragment are loaded differs",
    ),
    "an element beyond an address": (
        {
            "before": _ZEROS,
            "body": "*(reinterpret_cast<float*>(x) + (g & 1)) = t[g][threadIdx.x]; acc += x[0] - x[1]",
        },
        _UNCLEAR,
    ),
    "an octal number of the element used": (
        {"body": f"float x[2]; x[1] = t[g][threadIdx.x]; acc += x[1]; x[01] = {_OTHER}; acc += x[1] * 2.f"},
        "anew behind its use",
    ),
    "a macro for the element used": (
        {
            "head": "#define LO x[0]",
            "body": "float x[2]; x[0] = t[g][threadIdx.x]; x[1] = t[g][threadIdx.x ^ 1]; acc += LO - x[1]; "
            f"x[0] = {_OTHER}; acc += x[0] * 2.f",
        },
        "anew behind its use",
    ),
    "a vector over the element used": (
        {
            "body": "alignas(8) float x[2]; x[0] = t[g][threadIdx.x]; x[1] = t[g][threadIdx.x ^ 1]; "
            f"float2 v = *reinterpret_cast<float2*>(&x[0]); acc += v.x - v.y; x[1] = {_OTHER}; acc += x[1] * 2.f",
        },
        "",
    ),
    "a function that takes the element used": (
        {
            "head": "__device__ float second(const float& x) { return (&x)[1]; }",
            "body": "float x[2]; x[0] = t[g][threadIdx.x]; x[1] = t[g][threadIdx.x ^ 1]; acc += second(x[0]); "
            f"x[1] = {_OTHER}; acc += x[1] * 2.f",
        },
        "anew behind its use",
    ),
    "members of a union": (
        {
            "head": "union U { float a; int b; };",
            "body": f"U x; x.a = t[g][threadIdx.x]; acc += x.a; x.b = __float_as_int({_OTHER}); acc += x.a * 2.f",
        },
        "anew behind its use",
    ),
    "an assignment that adds": (
        {
            "head": "struct F { float v = 0.f; __device__ F& operator=(float f) { v += f; return *this; } };",
            "body": "F x; x = t[g][threadIdx.x]; acc += x.v",
        },
        "assigning to a `F` may run code of its own",
    ),
    "an assignment that adds behind a cast": (
        {
            "head": "struct F { float v; __device__ F& operator=(float f) { v += f; return *this; } };",
            "before": "float x = {};",
            "body": "*reinterpret_cast<F*>(&x) = t[g][threadIdx.x]; acc += x",
        },
        "",
    ),
    "a load under a predicate": (
        {
            "before": "float x = {};",
            "body": "asm volatile('{ .reg .pred p, setp.ne.b32 p, %2, 0, @p mov.b32 %0, %1, }' : '=f'(x) : "
            "'f'(t[g][threadIdx.x]), 'r'(g & 1)); acc += x".replace("'", '"'),
        },
        _UNCLEAR,
    ),
    "an initial value that counts": (
        {"before": "float x[2] = {1.0f, 2.0f};", "body": "x[0] = t[g][threadIdx.x]; acc += x[0] + x[1]"},
        "initial value",
    ),
}


def fragments(of: Kernel) -> FragmentLoop | str:
    model = of.model
    assert not isinstance(model, Refusal), model
    return model.fragments


def check(case: str, form: str, folder: Path) -> None:
    made = kernel(folder, **ACCEPTED[case])
    found = fragments(made)
    assert isinstance(found, FragmentLoop), found
    emitted = made.emit(parse_candidate(form))
    assert isinstance(emitted, Rewrite), emitted
    assert "tp_fragments(tp_stage, " in emitted.text
    assert made.difference(emitted, tile_counts()) == ""


@pytest.mark.parametrize(("case", "form"), [(c, FORMS[i % len(FORMS)]) for i, c in enumerate(ACCEPTED)])
def test_fragments_loaded_ahead_change_nothing(case: str, form: str, tmp_path: Path) -> None:
    check(case, form, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", ACCEPTED)
def test_fragments_loaded_ahead_change_nothing_in_any_form(case: str, form: str, tmp_path: Path) -> None:
    check(case, form, tmp_path)


def test_a_slots_name_that_is_taken(tmp_path: Path) -> None:
    made = kernel(
        tmp_path,
        "float x; x = t[g][threadIdx.x]; acc += x * x_slots[g & 1]",
        head="__constant__ float x_slots[2];",
    )
    assert isinstance(made.emit(parse_candidate(FORMS[0])), Refusal)


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_run_ahead_is_left_alone(case: str, tmp_path: Path) -> None:
    parts, words = REFUSED[case]
    found = fragments(kernel(tmp_path, **parts))
    assert isinstance(found, str)
    assert words in found
