"""Which modifiers each opcode may carry here. A modifier that is not listed is refused, never ignored."""

from __future__ import annotations

import re

from tilepipe.emulator.codegen.builder import Builder
from tilepipe.emulator.ptx.model import Instruction
from tilepipe.emulator.types import TYPES

_DIRECTED = "rn rz rm rp ftz sat"
_SPACES = "param param::entry param::func shared shared::cta global const local"
_SCOPES = "cta gpu sys cluster"
_TESTS = "eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan and or xor ftz"
_ACCESS = f"{_SPACES} {_SCOPES} weak volatile relaxed v2 v4 v8"
_ATOMIC = f"{_SPACES} {_SCOPES} relaxed acquire release acq_rel add and or xor min max exch cas inc dec noftz"
_ALLOWED = {
    "add": f"{_DIRECTED} cc",
    "sub": f"{_DIRECTED} cc",
    "addc": "cc",
    "subc": "cc",
    "mul": f"{_DIRECTED} lo hi wide",
    "mad": f"{_DIRECTED} lo hi wide cc",
    "madc": "lo hi cc",
    "fma": _DIRECTED,
    "mul24": "lo hi",
    "mad24": "lo",
    "div": "rn full approx ftz",
    "abs": "ftz",
    "neg": "ftz",
    "min": "ftz NaN",
    "max": "ftz NaN",
    "shf": "l r wrap clamp",
    "bfind": "shiftamt",
    "dp2a": "lo hi",
    "rcp": "rn approx ftz",
    "sqrt": "rn approx ftz",
    "rsqrt": "approx ftz",
    "ex2": "approx ftz",
    "lg2": "approx ftz",
    "sin": "approx ftz",
    "cos": "approx ftz",
    "tanh": "approx",
    "testp": "finite infinite number notanumber normal subnormal",
    "setp": _TESTS,
    "set": _TESTS,
    "slct": "ftz",
    "cvt": f"{_DIRECTED} rni rzi rmi rpi rna",
    "cvta": f"{_SPACES} to",
    "isspacep": "shared shared::cta global local",
    "ld": f"{_ACCESS} acquire nc ca cg cs lu cv",
    "ldu": f"{_SPACES} v2 v4",
    "st": f"{_ACCESS} release wb cg cs wt",
    "atom": _ATOMIC,
    "red": _ATOMIC,
    "prefetch": "global local L1 L2",
    "prefetchu": "L1",
    "membar": "cta gl sys",
    "fence": f"{_SCOPES} sc acq_rel",
    "cp": "async ca cg shared shared::cta global commit_group wait_group wait_all mbarrier arrive noinc",
    "mbarrier": f"{_SPACES} {_SCOPES} init inval arrive arrive_drop test_wait try_wait parity pending_count",
    "shfl": "sync up down bfly idx",
    "vote": "sync all any uni ballot",
    "match": "sync all any",
    "redux": "sync add min max and or xor",
    "ldmatrix": "sync aligned m8n8 x1 x2 x4 trans shared shared::cta",
    "movmatrix": "sync aligned m8n8 trans",
    "mma": "sync aligned row col satfinite",
    "wmma": f"{_SPACES} sync aligned load store mma a b c d row col satfinite",
    "bar": "cta sync red arrive warp popc and or",
    "barrier": "cta sync red arrive aligned popc and or",
}
_TABLE = {op: frozenset(words.split()) for op, words in _ALLOWED.items()}
_ANY = re.compile(r"m\d+n\d+k\d+$|L[12]::(evict_\w+|no_allocate|\d+B)$")


def check_modifiers(b: Builder, i: Instruction) -> None:
    """Raises `Unsupported` at the first modifier that the translation of the opcode does not look at."""
    allowed = _TABLE.get(i.op, frozenset())
    for m in i.mods:
        if m not in TYPES and m not in allowed and not _ANY.match(m):
            raise b.unsupported(f"{i.text} (.{m})")
