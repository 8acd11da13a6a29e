"""Each rule in both directions: a small kernel that is refused, and the smallest edit of it that is pipelined."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from tilepipe.diagnostics import Diagnostic, Refusal
from tilepipe.kernel.file import CudaFile
from tilepipe.kernel.model import Study, build, study
from tilepipe.source import SourceFile

# TP024 needs the compiler's answers: tests/rewrite/test_apart.py.
_ALL = (Path(__file__).parents[2] / "docs" / "refusals").glob("TP0*.md")
PAGES = sorted(page for page in _ALL if page.stem != "TP024")

KERNEL = """\
__global__ void f(const float* __restrict__ a, const int* __restrict__ idx, float* __restrict__ c, int n)
{
    __shared__ float s[128];
    float sum = 0.0f;
    int row = 0;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i)
            sum += s[i];
        __syncthreads();
    }
    c[threadIdx.x] = sum;
}
"""


def answer(text: str, no_alias: frozenset[str] = frozenset()) -> Study | Refusal:
    """The study of a kernel, or why it is refused where the compiler says nothing and stages are wanted."""
    file = CudaFile(SourceFile("f.cu", text))
    found = study(file, file.kernels[0], no_alias)
    if isinstance(found, Refusal) or found.one_buffer is not None:
        return found if isinstance(found, Refusal) else found.one_buffer
    built = build(found, {})
    return built if isinstance(built, Refusal) else found


@dataclass(frozen=True)
class Pair:
    """Replacements in KERNEL: `refused` makes it illegal at the line that contains `at`, `legal` instead does not."""

    code: str
    label: str
    at: str
    refused: tuple[tuple[str, str], ...]
    legal: tuple[tuple[str, str], ...]


LOAD = "s[threadIdx.x] = a[k * 128 + threadIdx.x];"
END = "        __syncthreads();\n    }\n    c"
HEAD = "for (int k = 0; k < n; ++k)"
SUM = "sum += s[i];"

PAIRS = {
    "no end barrier": Pair(
        "TP010", "read here; overwritten at line 7 without a barrier between", SUM, ((END, "    }\n    c"),), ()
    ),
    "loop of its own length per thread": Pair(
        "TP011",
        "not the same for all threads",
        HEAD.replace("n;", "n + threadIdx.x;"),
        ((HEAD, HEAD.replace("n;", "n + threadIdx.x;")),),
        ((HEAD, HEAD.replace("n;", "n + blockIdx.x;")),),
    ),
    "barrier in a branch of threads": Pair(
        "TP011",
        "not reached by all threads",
        "if (threadIdx.x > 3) __syncthreads();",
        (("        for", "        if (threadIdx.x > 3) __syncthreads();\n        for"),),
        (("        for", "        if (n > 3) __syncthreads();\n        for"),),
    ),
    "tile changed by compute": Pair(
        "TP012",
        "the tile is changed here",
        "s[threadIdx.x ^ 1] += sum;",
        ((SUM, SUM + "\n        s[threadIdx.x ^ 1] += sum;"), (END, END)),
        ((SUM, SUM + "\n        c[threadIdx.x ^ 1] += sum;"), (END, END)),
    ),
    "tile cleared after use": Pair(
        "TP012",
        "filled here; at line 7 before",
        "s[threadIdx.x] = 0.0f;",
        ((END, END.replace("    }", "        s[threadIdx.x] = 0.0f;\n    }")),),
        ((LOAD, "s[threadIdx.x] = 0.0f;\n        " + LOAD),),
    ),
    "address from the sum": Pair(
        "TP013",
        "depends on this iteration's computation through line 10",
        "a[int(sum) + threadIdx.x]",
        ((LOAD, "s[threadIdx.x] = a[int(sum) + threadIdx.x];"),),
        ((LOAD, "s[threadIdx.x] = a[int(n) + threadIdx.x];"),),
    ),
    "tile filled before the loop": Pair(
        "TP015",
        "filled here",
        "s[threadIdx.x] = 1.0f;",
        (("    int row = 0;", "    s[threadIdx.x] = 1.0f;\n    __syncthreads();"),),
        (("    int row = 0;", "    c[threadIdx.x] = 1.0f;\n    __syncthreads();"),),
    ),
    "store that may alias": Pair(
        "TP016",
        "stored here; loaded at line 7",
        "c[k] = sum;",
        ((END, "        c[k] = sum;\n" + END), (" __restrict__ a", " a"), (" __restrict__ c", " c")),
        ((END, "        c[k] = sum;\n" + END),),
    ),
    "store into the input": Pair(
        "TP017",
        "stored here; loaded at line 7",
        "a[k] = sum;",
        ((END, "        a[k] = sum;\n" + END), ("const float* __restrict__ a", "float* __restrict__ a")),
        ((END, "        c[k] = sum;\n" + END), ("const float* __restrict__ a", "float* __restrict__ a")),
    ),
    "break": Pair(
        "TP019", "`break` here", "if (k > 9) break;", ((END, "        if (k > 9) break;\n" + END),),
        ((SUM, "{ if (i > 9) break; sum += s[i]; }"),),
    ),
    "continue": Pair(
        "TP019", "`continue` here", "continue;", ((LOAD, "if (idx[k]) continue;\n        " + LOAD),),
        ((SUM, "{ if (i & 1) continue; sum += s[i]; }"),),
    ),
    "increment within the store": Pair(
        "TP021",
        "`row` changes here",
        "a[row++ * 128",
        ((LOAD, LOAD.replace("k * 128", "row++ * 128")), (SUM, "sum += s[i] * row;")),
        ((LOAD, LOAD.replace("k * 128", "row * 128") + "\n        row += 1;"), (SUM, "sum += s[i] * row;")),
    ),
    "state through a pointer": Pair(
        "TP021",
        "through a pointer, a reference or a lambda",
        "*p += 1;",
        (
            ("    int row = 0;", "    int row = 0, *p = &row;"),
            (LOAD, LOAD.replace("k * 128", "row * 128") + "\n        *p += 1;"),
            (SUM, "sum += s[i] * row;"),
        ),
        (
            (LOAD, LOAD.replace("k * 128", "row * 128") + "\n        row += 1;"),
            (SUM, "sum += s[i] * row;"),
        ),
    ),
    "guard that leaves old elements": Pair(
        "TP022",
        "read here; filled only under the condition at line 7",
        SUM,
        ((LOAD, "if (k + threadIdx.x < n) " + LOAD),),
        ((LOAD, "if (k + threadIdx.x < n) " + LOAD + " else s[threadIdx.x] = 0.0f;"),),
    ),
    "element that depends on the tile": Pair(
        "TP022",
        "where this stores depends on the tile",
        "s[(threadIdx.x + k) % 64]",
        ((LOAD, LOAD.replace("s[threadIdx.x]", "s[(threadIdx.x + k) % 64]")),),
        ((LOAD, LOAD.replace("s[threadIdx.x]", "s[(threadIdx.x + n) % 128]")),),
    ),
}  # fmt: skip


def edited(edits: tuple[tuple[str, str], ...]) -> str:
    text = KERNEL
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("name", PAIRS)
def test_refused_where_it_says(name: str) -> None:
    pair = PAIRS[name]
    found = answer(edited(pair.refused))
    assert isinstance(found, Refusal)
    (diagnostic,) = found.diagnostics
    assert diagnostic.place is not None
    assert (diagnostic.code, diagnostic.severity) == (pair.code, "refusal")
    assert pair.at in diagnostic.place.text
    assert diagnostic.label == pair.label
    assert diagnostic.help


@pytest.mark.parametrize("name", PAIRS)
def test_the_smallest_edit_lifts_it(name: str) -> None:
    found = answer(edited(PAIRS[name].legal))
    assert isinstance(found, Study), found


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_the_page_shows_a_refused_kernel_and_a_legal_one(page: Path) -> None:
    before, after = re.findall(r"```cuda\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    refused = answer(before)
    assert isinstance(refused, Refusal)
    assert refused.diagnostics[0].code == page.stem
    assert isinstance(answer(after), Study)


_TWO = KERNEL.replace("    __shared__ float s[128];", "    __shared__ float s[128], r[128];").replace(
    LOAD, LOAD + "\n        for (int i = threadIdx.x; i < 128; i += 64) {\n            r[i] = a[i];\n        }"
).replace(SUM, "sum += s[i] * r[i];")  # fmt: skip
_BARRIER = "        __syncthreads();\n"


def _with_the_edit(text: str, told: Diagnostic) -> str:
    """The text after what the help of a TP010 asks for."""
    lines = text.splitlines(keepends=True)
    if place := re.search(r"after line (\d+)$", told.help):
        lines.insert(int(place[1]), _BARRIER)
    elif place := re.search(r"before line (\d+)$", told.help):
        lines.insert(int(place[1]) - 1, _BARRIER)
    else:
        assert told.help == "add __syncthreads() at the end of the loop body"
        lines.insert(next(n for n, line in enumerate(lines) if line.startswith("    c[")) - 1, _BARRIER)
    return "".join(lines)


@pytest.mark.parametrize(
    ("text", "message", "at", "label"),
    [
        (
            KERNEL.replace(_BARRIER, "", 1), "no barrier between filling `s` and reading it", SUM,
            "read here; filled at line 7 without a barrier between",
        ),
        (
            _TWO.replace(_BARRIER, "", 1), "no barrier between filling `s` and reading it", "s[i] * r[i]",
            "read here; filled at line 7 without a barrier between",
        ),
        (
            _TWO[::-1].replace(_BARRIER[::-1], "", 1)[::-1],
            "no barrier between reading `s` and overwriting it for the next tile", "s[i] * r[i]",
            "read here; overwritten at line 7 without a barrier between",
        ),
        (
            KERNEL.replace(LOAD, "sum += s[127];\n        " + LOAD),
            "no barrier between reading `s` and overwriting it further down", "s[127]",
            "read here; overwritten at line 8 without a barrier between",
        ),
    ],
)  # fmt: skip
def test_the_barrier_that_is_missing_is_the_one_that_is_asked_for(
    text: str, message: str, at: str, label: str
) -> None:
    found = answer(text)
    assert isinstance(found, Refusal)
    (told,) = found.diagnostics
    assert told.code == "TP010" and told.place is not None
    assert told.message.endswith(message) and at in told.place.text and told.label == label
    again = answer(_with_the_edit(text, told))
    assert not isinstance(again, Refusal) or again.diagnostics[0].code != "TP010"


@pytest.mark.parametrize(
    "body",
    [
        f"{{ {LOAD} __syncthreads(); for (int i = 0; i < 128; ++i) {SUM} }} __syncthreads();",
        f"if (n > 3) {{ {LOAD} for (int i = 0; i < 128; ++i) {SUM} __syncthreads(); }} __syncthreads();",
    ],
)
def test_barriers_within_an_inner_block_are_not_said_to_be_missing(body: str) -> None:
    at = KERNEL.index(LOAD)
    found = answer(KERNEL[:at] + body + "\n    }\n    c[threadIdx.x] = sum;\n}\n")
    assert isinstance(found, Refusal) and found.diagnostics[0].code == "TP010"
    assert "top level" in found.diagnostics[0].message and "top level" in found.diagnostics[0].help


_LOAD = "void load(float* t, const float* from, int k) { t[threadIdx.x] = from[k * 128 + threadIdx.x]; }\n"
_FILLED = "s[threadIdx.x] = a[k * 128 + threadIdx.x];"


@pytest.mark.parametrize("given", ["s, a, k", "s, a + k * 128, 0"])
@pytest.mark.parametrize(
    ("head", "call"),
    [
        ("struct L { static __device__ " + _LOAD + "};\n", "L::load({});"),
        ("struct L { __device__ " + _LOAD + "};\n", "L().load({});"),
        ("namespace deep { __device__ " + _LOAD + "}\nnamespace d = deep;\n", "d::load({});"),
    ],
)
def test_a_helper_that_is_not_followed_is_what_is_named(head: str, call: str, given: str) -> None:
    """What it may do to `k` and the tile is nobody else's fault."""
    found = answer(head + KERNEL.replace(_FILLED, call.format(given)))
    assert isinstance(found, Refusal)
    (told,) = found.diagnostics
    assert told.code == "TP018" and "`load`, whose effect is not known" in told.message
    assert told.place is not None and call.partition("load")[0] + "load(" in told.place.text
    assert "in no class" in told.help and "without an alias" in told.help


def test_a_helper_of_a_namespace_is_followed() -> None:
    head = "namespace deep { __device__ " + _LOAD + "}\n"
    assert isinstance(answer(head + KERNEL.replace(_FILLED, "deep::load(s, a, k);")), Study)


def test_a_count_that_differs_between_threads_stays_TP011_beside_an_unknown_call() -> None:
    text = "void note(float*);\n" + KERNEL.replace("int k = 0;", "int k = threadIdx.x;")
    found = answer(text.replace(_FILLED, _FILLED + " note(&sum);"))
    assert isinstance(found, Refusal) and found.diagnostics[0].code == "TP011"


def test_a_promise_about_aliases_is_taken() -> None:
    text = edited(PAIRS["store into the input"].refused)
    assert isinstance(answer(text, frozenset({"a"})), Study)


@pytest.mark.parametrize("lost", ["(", "{", "int k = 0;", ") {"])
def test_text_that_does_not_parse_is_refused(lost: str) -> None:
    at = KERNEL.index("for (int k")
    text = KERNEL[:at] + KERNEL[at:].replace(lost, "", 1)
    file = CudaFile(SourceFile("f.cu", text))
    answers = [study(file, kernel) for kernel in file.kernels]
    assert all(isinstance(a, Refusal) for a in answers)
