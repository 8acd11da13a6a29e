"""Streaming in place: whatever is proved apart is apart when every address is counted out."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

import pytest

from tilepipe.diagnostics import Refusal
from tilepipe.kernel.file import CudaFile
from tilepipe.kernel.meetings import sizes_wanted
from tilepipe.kernel.model import Study, build, study
from tilepipe.source import SourceFile

TILES = 3  # counted out: the first tiles of a block
SIZES = {"float": 4, "float2": 8, "float4": 16}


@dataclass(frozen=True)
class Made:
    """A kernel that streams through `y`: its text, and the same addresses as Python."""

    head: str
    update: str
    load: str
    store: str
    load_type: str
    loops: tuple[str, ...]  # inner loops around load and store, "" for none
    before: str = ""
    behind: str = ""

    @property
    def text(self) -> str:
        around = [f"for (int {v} = {b}; {v} < {e}; {v} += {s}) " for v, b, e, s in map(_loop, self.loops)]
        element = "y" if self.load_type == "float" else f"reinterpret_cast<const {self.load_type}*>(y)"
        first = ".x" if self.load_type != "float" else ""
        return (
            "__global__ void f(float* __restrict__ y, int n, int w) {\n"
            "  __shared__ float s[4096];\n"
            "  const int t = threadIdx.x;\n"
            f"  {self.head} {{\n"
            f"    {self.before}\n"
            f"    {around[0]}s[t] = {element}[{self.load}]{first};\n"
            "    __syncthreads();\n"
            f"    {around[1]}y[{self.store}] = s[t] * 2.0f;\n"
            "    __syncthreads();\n"
            f"    {self.behind}\n"
            "  }\n}\n"
        )


def _loop(text: str) -> tuple[str, str, str, str]:
    parts = text.split()
    return (parts[0], parts[1], parts[2], parts[3]) if parts else ("none", "0", "1", "1")


def made(seed: int) -> Made:
    rng = random.Random(seed)
    step = rng.choice([1, 32, 64, 128, -64, -128, 256, 512])
    extent = rng.choice([16, 32, 64, 128])

    def index(counter: str) -> str:
        parts = [rng.choice(["t", "t", "t * 2", "t / 2", "t % 32", "(t & 15)", "(t >> 1)", "t + 1", "0"])]
        if counter:
            parts.append(rng.choice([counter, f"{counter} * 2", f"{counter} * 32"]))
        parts.append(rng.choice(["0", "0", "0", "1", "32", "-1", "blockIdx.x * w", "blockDim.x"]))
        rng.shuffle(parts)
        return " + ".join(parts)

    loops = tuple(
        rng.choice(["", "", f"i 0 {extent} 1", f"i t {extent} 32", f"i t {extent} blockDim.x"])
        for _ in range(2)
    )
    load, store = (index("i" if one else "") for one in loops)
    if rng.random() < 0.5:
        sign = "-=" if step < 0 else "+="
        by = rng.choice([str(abs(step)), "blockDim.x"])
        return Made(
            f"for (int k = {rng.choice(['0', '0', 't'])}; n--; k {sign} {by})", f"k {sign} {by}",
            f"k + {load}", f"k + {store}", "float", loops,
        )  # fmt: skip
    bump = f"y += {step};"
    wide = rng.choice(["float", "float2", "float4"])
    at_end = rng.random() < 0.7
    return Made("while (n--)", bump, load, store, wide, loops, "" if at_end else bump, bump if at_end else "")


def accesses(m: Made, threads: int, block: int, w: int) -> tuple[list[set[int]], list[set[int]]]:
    """Words loaded and stored in each of the first tiles, by Python's own arithmetic."""
    loaded: list[set[int]] = [set() for _ in range(TILES)]
    stored: list[set[int]] = [set() for _ in range(TILES)]
    for t in range(threads):
        names = {"t": t, "w": w, "bdim": threads, "bidx": block}
        if "int k" in m.head:
            names["k"] = eval(re.findall(r"int k = (\w+)", m.head)[0], {}, names)
        y = 0
        for tile in range(TILES):
            y += eval(m.before[5:-1]) if m.before else 0
            for text, loop, found, size in (
                (m.load, m.loops[0], loaded, SIZES[m.load_type]),
                (m.store, m.loops[1], stored, 4),
            ):
                _, b, e, s = _loop(loop)
                begin, end, stride = (eval(_python(x), {}, names) for x in (b, e, s))
                for i in range(begin, end, stride):
                    at = y + eval(_python(text), {}, {**names, "i": i}) * (size // 4)
                    found[tile] |= set(range(at, at + size // 4))
            y += eval(m.behind[5:-1]) if m.behind else 0
            if "k" in names:
                sign = 1 if "+=" in m.update else -1
                names["k"] += sign * eval(_python(m.update.split("=")[1]), {}, names)
    return loaded, stored


def _python(text: str) -> str:
    return text.replace("blockIdx.x", "bidx").replace("blockDim.x", "bdim").replace("/", "//")


def proved(text: str, threads: int | None = None) -> bool | None:
    """Whether load and store are proved apart; None where the kernel is refused for another reason."""
    file = CudaFile(SourceFile("k.cu", text))
    found = study(file, file.kernels[0])
    if isinstance(found, Refusal):
        return None if found.diagnostics[0].code != "TP017" else False
    answers: dict[str, int | str | None] = {"threads": threads, "const:W": 64}
    for key, expression, _ in sizes_wanted(found.file, found.analysed, found.meetings):
        kind = next((k for k in ("float2", "float4") if k in expression), "float")
        answers[key] = SIZES[kind]
    built = build(found, answers)
    return not isinstance(built, Refusal)


def collisions(m: Made, threads: int, block: int, w: int) -> bool:
    loaded, stored = accesses(m, threads, block, w)
    return any(stored[i] & loaded[j] for j in range(TILES) for i in range(j))


def test_what_is_proved_apart_never_meets() -> None:
    apart = 0
    for seed in range(300):
        m = made(seed)
        if proved(m.text):
            apart += 1
            for threads in (1, 64, 100):
                for block, w in ((0, 7), (3, -64)):
                    assert not collisions(m, threads, block, w), (seed, m.text)
    assert apart >= 12


def test_the_proof_is_not_idle() -> None:
    """Many of the kernels that are refused do collide somewhere: the proof is not merely cautious."""
    refused = [m for m in map(made, range(60)) if proved(m.text) is False]
    meet = [m for m in refused if any(collisions(m, t, 1, 3) for t in (1, 32, 64, 100))]
    assert len(meet) > len(refused) / 3


STREAM = """\
__global__ void f(float* __restrict__ y, int n, int w)
{
    __shared__ float s[128];
    const int t = threadIdx.x;
    float* mine = y + blockIdx.x * w;
    for (int k = 0; k < n; k += 128) {
        s[t] = mine[k + t];
        __syncthreads();
        for (int i = t; i < 128; i += 64)
            mine[k + i] = s[127 - i];
        __syncthreads();
    }
}
"""

MEETING = {
    "next tile's first element": ("mine[k + i] =", "mine[k + i + 1] ="),
    "thread's own row": ("mine[k + i] =", "mine[k + i * w] ="),
    "another pointer": ("mine[k + i] =", "y[k + i] ="),
    "a step from memory": ("k += 128", "k += w"),
    "a counter changed inside": ("        s[t] =", "        if (n > 9) k += 1;\n        s[t] ="),
    "an inner loop with a step of either sign": ("i += 64", "i += w"),
    "pointer differs between threads": ("blockIdx.x * w", "t * w"),
    "stored before it is loaded": ("        s[t] =", "        mine[k + t] = 1.0f;\n        s[t] ="),
    "base moved before": ("    for (int k", "    mine += t;\n    for (int k"),
    "a pointer from elsewhere": ("mine[k + i] =", "(w ? mine : y)[k + i] ="),
}  # fmt: skip


CHANGED = """\
__global__ void f(float* __restrict__ y, int n, int w)
{{
    __shared__ float s[128];
    const int t = threadIdx.x;
    {before}
    for (int k = 0; {condition}; k += 128) {{
        s[t] = {load};
        __syncthreads();
        for (int i = t; i < 128; i += 64)
            y[k + w + i] = s[127 - i];
        __syncthreads();
    }}
}}
"""


@pytest.mark.parametrize(
    ("before", "condition", "load", "apart"),
    [
        ("", "k < n", "y[k + w + t]", True),
        ("", "(w = n - 2 * k) > 0", "y[k + w + t]", False),
        ("const int b = w + t;", "k < n", "y[k + b]", True),
        ("const int b = w + t; w += 128;", "k < n", "y[k + b]", False),
        ("const float* m = y + w;", "k < n", "m[k + t]", True),
        ("const float* m = y + w; w += 128;", "k < n", "m[k + t]", False),
    ],
)
def test_what_an_address_is_made_of_has_not_changed(
    before: str, condition: str, load: str, apart: bool
) -> None:
    text = CHANGED.format(before=before, condition=condition, load=load)
    assert proved(text, threads=128) == apart


@pytest.mark.parametrize(
    "store", ["mine[k + i]", "*(mine + k + i)", "(&mine[k])[i]", "y[blockIdx.x * w + k + i]"]
)
def test_streaming_in_place_is_legal(store: str) -> None:
    assert proved(STREAM.replace("mine[k + i] =", f"{store} ="))


@pytest.mark.parametrize("name", MEETING)
def test_a_store_that_may_meet_a_load_is_refused(name: str) -> None:
    old, new = MEETING[name]
    assert old in STREAM
    assert not proved(STREAM.replace(old, new))


def test_a_constant_is_the_one_that_is_named() -> None:
    text = "constexpr int W = 64;\n" + STREAM.replace("mine[k + i]", "mine[k + i - W + 64]")
    assert proved(text)
    assert not proved(
        text.replace("    float* mine", "    if (w) { const int W = 1; y[n] = W; }\n    float* mine")
    )


def test_a_bound_on_the_threads_helps() -> None:
    text = STREAM.replace("for (int i = t; i < 128; i += 64)", "").replace(
        "mine[k + i] = s[127 - i]", "mine[k + t] = s[t]"
    )
    assert not proved(text)
    assert proved(text.replace("void f(", "void __launch_bounds__(128) f("), threads=128)
    assert not proved(text.replace("void f(", "void __launch_bounds__(129) f("), threads=129)
    assert proved(text.replace("k += 128", "k += blockDim.x"))


def test_a_refusal_needs_no_answers() -> None:
    file = CudaFile(SourceFile("k.cu", STREAM))
    found = study(file, file.kernels[0])
    assert isinstance(found, Study)
    refused = build(found, {})
    assert isinstance(refused, Refusal)
    assert refused.diagnostics[0].code == "TP017"
