"""Warp collectives: shuffles, votes, matches, reductions, and divergence around them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from snippets import HEADER, Array, launch, program, words

FULL = 0xFFFFFFFF
LANES = np.arange(32)


def warp(body: str, a: Array, block: int = 32) -> tuple[Array, list[str]]:
    """Runs `body` in one block: %x is the thread's word, %o its result, %t its number. Returns results and the
    kinds of findings."""
    ptx = f"""{HEADER}
.visible .entry k(.param .u64 p, .param .u64 q)
{{
.reg .b64 %in, %out, %off;
.reg .b32 %x, %y, %o, %t, %m, %n;
.reg .pred %p, %q;
ld.param.u64 %in, [p]; ld.param.u64 %out, [q];
mov.u32 %t, %tid.x; mul.wide.u32 %off, %t, 4;
add.s64 %in, %in, %off; add.s64 %out, %out, %off;
ld.global.u32 %x, [%in];
mov.u32 %o, 0;
{body}
st.global.u32 [%out], %o;
ret;
}}
"""
    out = np.zeros(block, np.uint32)
    done = launch(program(ptx), [a, out], block)
    return out, [f.kind for f in done.findings]


def shuffled(mode: str, a: Array, b: int, c: int) -> tuple[Array, Array]:
    """The manual's definition of shfl: values and predicates."""
    values, valid = a.copy(), np.zeros(32, bool)
    clamp, segment = c & 31, c >> 8 & 31
    for lane in range(32):
        most, least = (lane & segment) | (clamp & ~segment), lane & segment
        source = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": least | (b & ~segment)}[mode]
        valid[lane] = source >= most if mode == "up" else source <= most
        values[lane] = a[source] if valid[lane] else a[lane]
    return values, valid


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("width", [32, 8])
@pytest.mark.parametrize("b", [0, 1, 3, 16])
def test_shuffle(mode: str, width: int, b: int) -> None:
    a = words(1, 32, np.uint32)
    c = (32 - width) << 8 | (0 if mode == "up" else 31)
    values, valid = shuffled(mode, a, b, c)
    got, findings = warp(f"shfl.sync.{mode}.b32 %o|%p, %x, {b}, {c}, -1;", a)
    np.testing.assert_array_equal(got, values)
    assert findings == []
    got, _ = warp(f"shfl.sync.{mode}.b32 %y|%p, %x, {b}, {c}, -1; selp.u32 %o, 1, 0, %p;", a)
    np.testing.assert_array_equal(got, valid)


def test_shuffle_within_half_warps() -> None:
    """Each half names its own members and runs in its own branch."""
    a = words(2, 32, np.uint32)
    body = """
setp.lt.u32 %p, %t, 16;
@%p bra LOW;
shfl.sync.idx.b32 %o, %x, 31, 31, 0xffff0000;
bra DONE;
LOW:
shfl.sync.idx.b32 %o, %x, 3, 31, 0xffff;
DONE:
"""
    got, findings = warp(body, a)
    np.testing.assert_array_equal(got, np.where(LANES < 16, a[3], a[31]))
    assert findings == []


VOTES: dict[str, Callable[[Array], int]] = {
    "all": lambda p: int(p.all()),
    "any": lambda p: int(p.any()),
    "uni": lambda p: int(p.all() or not p.any()),
}


@pytest.mark.parametrize("chosen", [0, 1, FULL, 0x80000000, 0x00FF00F0])
def test_vote(chosen: int) -> None:
    bits = np.array([chosen >> i & 1 for i in range(32)], np.uint32)
    test = "setp.ne.u32 %p, %x, 0;"
    for mode, expected in VOTES.items():
        got, _ = warp(f"{test} vote.sync.{mode}.pred %q, %p, -1; selp.u32 %o, 1, 0, %q;", bits)
        assert set(got.tolist()) == {expected(bits.astype(bool))}, mode
    got, _ = warp(f"{test} vote.sync.ballot.b32 %o, %p, -1;", bits)
    assert set(got.tolist()) == {chosen}
    got, _ = warp(f"{test} vote.sync.ballot.b32 %o, !%p, -1;", bits)
    assert set(got.tolist()) == {chosen ^ FULL}


def test_match() -> None:
    a = np.array([i % 5 for i in range(32)], np.uint32)
    got, _ = warp("match.any.sync.b32 %o, %x, -1;", a)
    assert got.tolist() == [sum(1 << j for j in range(32) if a[j] == a[i]) for i in range(32)]
    for values, expected in ((a, 0), (np.full(32, 9, np.uint32), FULL)):
        body = "match.all.sync.b32 %y|%p, %x, -1; selp.u32 %o, %y, 7, %p;"
        got, _ = warp(body, values)
        assert set(got.tolist()) == {expected or 7}


@pytest.mark.parametrize("t", ["u32", "s32"])
def test_reduction(t: str) -> None:
    a = words(3, 32, np.uint32)
    v = a.view(np.int32 if t == "s32" else np.uint32)
    for op, want in {"add": v.sum(dtype=v.dtype), "min": v.min(), "max": v.max()}.items():
        got, _ = warp(f"redux.sync.{op}.{t} %o, %x, -1;", a)
        assert set(got.view(v.dtype).tolist()) == {int(want)}
    for op, function in {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}.items():
        got, _ = warp(f"redux.sync.{op}.b32 %o, %x, -1;", a)
        assert set(got.tolist()) == {int(function.reduce(a))}


def test_partial_warp() -> None:
    """The last warp of a block may have fewer lanes; its mask names those that exist."""
    a = words(4, 40, np.uint32)
    body = "mov.u32 %m, -1; setp.ge.u32 %p, %t, 32; @%p mov.u32 %m, 0xff; redux.sync.add.u32 %o, %x, %m;"
    got, findings = warp(body, a, 40)
    assert set(got[:32].tolist()) == {int(a[:32].sum(dtype=np.uint32))}
    assert set(got[32:].tolist()) == {int(a[32:].sum(dtype=np.uint32))}
    assert findings == []


def test_loop_with_divergent_trip_counts() -> None:
    """Lanes leave a loop at different times; a collective after it sees all of them."""
    a = (LANES % 7).astype(np.uint32)
    body = """
mov.u32 %n, %x;
LOOP:
setp.eq.u32 %p, %n, 0;
@%p bra OUT;
add.u32 %o, %o, %n;
sub.u32 %n, %n, 1;
bra LOOP;
OUT:
redux.sync.add.u32 %o, %o, -1;
"""
    got, findings = warp(body, a)
    assert set(got.tolist()) == {sum(int(x) * (int(x) + 1) // 2 for x in a)}
    assert findings == []


def test_missing_lanes_are_found() -> None:
    """A full mask in a branch that half of the warp takes: the others exit or wait elsewhere."""
    a = words(5, 32, np.uint32)
    body = "setp.lt.u32 %p, %t, 16; @%p shfl.sync.idx.b32 %o, %x, 0, 31, -1; bar.sync 0;"
    _, findings = warp(body, a)
    assert findings and set(findings) <= {"divergent barrier", "divergent warp instruction"}


def test_lane_outside_its_own_mask_is_found() -> None:
    _, findings = warp("shfl.sync.idx.b32 %o, %x, 0, 31, 0xffff;", words(6, 32, np.uint32))
    assert "divergent warp instruction" in findings


@pytest.mark.parametrize(("op", "expected"), [("popc.u32", 40), ("and.pred", 0), ("or.pred", 1)])
def test_barrier_reduction(op: str, expected: int) -> None:
    """bar.red over 96 threads, 40 of which say yes."""
    a = np.array([i < 40 for i in range(96)], np.uint32)
    if op == "popc.u32":
        body = "setp.ne.u32 %p, %x, 0; bar.red.popc.u32 %o, 0, %p;"
    else:
        body = f"setp.ne.u32 %p, %x, 0; bar.red.{op} %q, 0, %p; selp.u32 %o, 1, 0, %q;"
    got, findings = warp(body, a, 96)
    assert set(got.tolist()) == {expected}
    assert findings == []


def test_special_registers() -> None:
    a = np.zeros(64, np.uint32)
    for register, want in {
        "%laneid": np.arange(64) % 32,
        "%warpid": np.arange(64) // 32,
        "%lanemask_lt": (1 << (np.arange(64) % 32)) - 1,
        "%lanemask_eq": 1 << (np.arange(64) % 32),
        "%lanemask_ge": ~((1 << (np.arange(64) % 32)) - 1) & FULL,
        "%ntid.x": np.full(64, 64),
    }.items():
        got, _ = warp(f"mov.u32 %o, {register};", a, 64)
        np.testing.assert_array_equal(got, want, err_msg=register)
