"""The race detector on barriers of every kind."""

from __future__ import annotations

from time import perf_counter

import numpy as np
import pytest
from snippets import HEADER, launch, program

from tilepipe.emulator import EmulatorFinding


def findings(body: str, block: int = 64, **options: object) -> tuple[EmulatorFinding, ...]:
    """Findings of a kernel where %mine is the thread's word of `tile` and %next its neighbour's."""
    text = f"""{HEADER}
.visible .entry k(.param .u64 p)
{{
.reg .b64 %in;
.reg .b32 %t, %x, %y, %mine, %next, %n, %warp;
.reg .b16 %h;
.reg .pred %p, %q;
.shared .align 16 .b8 tile[4096];
ld.param.u64 %in, [p];
mov.u32 %t, %tid.x;
shr.u32 %warp, %t, 5;
mov.u32 %mine, tile; mad.lo.u32 %mine, %t, 4, %mine;
add.u32 %x, %t, 1; rem.u32 %x, %x, {block}; mov.u32 %next, tile; mad.lo.u32 %next, %x, 4, %next;
{body}
ret;
}}
"""
    return launch(program(text), [np.zeros(8)], block, **options).findings


def kinds(body: str, block: int = 64, **options: object) -> list[str]:
    """The kinds of these findings."""
    return sorted({f.kind for f in findings(body, block, **options)})


WRITE = "st.shared.u32 [%mine], %t;\n"
READ = "ld.shared.u32 %y, [%next];\n"
BARRIER = "bar.sync 0;\n"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (WRITE + BARRIER + READ, []),
        (WRITE + BARRIER + READ + BARRIER + WRITE, []),
        (WRITE + BARRIER + READ + WRITE, ["read-write race", "write-read race"]),
        (WRITE + READ, ["read-write race", "uninitialised read", "write-read race"]),
        (WRITE + "ld.shared.u32 %y, [%mine];" + WRITE, []),
        (WRITE + BARRIER + "ld.shared.u32 %y, [%mine];" + WRITE, []),
        ("st.shared.u32 [tile], %t;", ["write-write race"]),
        (WRITE + BARRIER + "ld.shared.u32 %y, [tile];", []),
        (
            WRITE + BARRIER + "ld.shared.u32 %y, [tile]; st.shared.u32 [%mine], %y;",
            ["read-write race", "write-read race"],
        ),
        (READ, ["uninitialised read"]),
    ],
)
def test_block_barriers(body: str, expected: list[str]) -> None:
    found = kinds(body)
    if expected:
        assert found and set(found) <= set(expected)
    else:
        assert found == []


def test_neighbouring_bytes_do_not_race() -> None:
    """Threads may write different bytes of one word, and not the same byte."""
    body = "mov.u32 %x, tile; add.u32 %x, %x, %t; cvt.u16.u32 %h, %t; st.shared.u8 [%x], %h;"
    assert kinds(body) == []
    assert kinds(body.replace("add.u32 %x, %x, %t;", "shr.u32 %y, %t, 1; add.u32 %x, %x, %y;")) == [
        "write-write race"
    ]
    wide = body + BARRIER + "ld.shared.u32 %y, [tile];"
    assert kinds(wide) == []
    assert kinds(body + "ld.shared.u32 %y, [tile];") != []


def test_both_lines_and_threads_are_named() -> None:
    text = f"""{HEADER}
.visible .entry k()
{{
.reg .b32 %t, %x; .reg .pred %p;
.shared .align 4 .b8 _ZZ1kvE4tile[8];
mov.u32 %t, %tid.x;
setp.eq.u32 %p, %t, 5;
@%p st.shared.u32 [_ZZ1kvE4tile+4], %t;
setp.eq.u32 %p, %t, 9;
@%p ld.shared.u32 %x, [_ZZ1kvE4tile+4];
ret;
}}
"""
    (found,) = launch(program(text), [], 32).findings
    lines = text.split("\n")
    load = 1 + next(i for i, line in enumerate(lines) if "ld.shared" in line)
    store = 1 + next(i for i, line in enumerate(lines) if "@%p st.shared" in line)
    assert found.kind == "write-read race"
    assert found.lines == (load, store)
    assert found.threads == (9, 5)
    assert found.where == "tile + 4 bytes"
    assert found.interval == 0


SYNC_WARP = "bar.warp.sync -1;\n"
LANE_NEXT = "xor.b32 %x, %t, 1; mov.u32 %next, tile; mad.lo.u32 %next, %x, 4, %next;\n"


def test_warp_synchronous_exchange() -> None:
    """Inside a warp bar.warp.sync orders; a shuffle does not; across warps neither does."""
    exchange = LANE_NEXT + WRITE + SYNC_WARP + READ
    assert kinds(exchange) == []
    assert kinds(exchange + SYNC_WARP + WRITE) == []
    assert kinds(exchange + WRITE) == ["read-write race"] or "write-read race" in kinds(exchange + WRITE)
    assert kinds(LANE_NEXT + WRITE + "shfl.sync.bfly.b32 %y, %t, 1, 31, -1;" + READ) == ["write-read race"]
    across = (
        WRITE + SYNC_WARP + "xor.b32 %x, %t, 32; mov.u32 %next, tile; mad.lo.u32 %next, %x, 4, %next;" + READ
    )
    assert kinds(across) != []


def test_many_readers_then_a_warp_write() -> None:
    """Every lane reads one word; after bar.warp.sync one lane may overwrite it."""
    prepare = "setp.eq.u32 %p, %t, 7; @%p st.shared.u32 [tile], %t;"
    body = prepare + SYNC_WARP + "ld.shared.u32 %y, [tile];" + SYNC_WARP + "@%p st.shared.u32 [tile], %y;"
    assert kinds(body, 32) == []
    unsynchronised = prepare + SYNC_WARP + "ld.shared.u32 %y, [tile]; @%p st.shared.u32 [tile], %y;"
    assert kinds(unsynchronised, 32) != []


PRODUCER = """
setp.eq.u32 %p, %warp, 0;
@%p bra PRODUCE;
{consume_wait}
ld.shared.u32 %y, [tile+64];
bra DONE;
PRODUCE:
st.shared.u32 [%mine], %t;
{produce_signal}
DONE:
"""


def test_named_barriers_order_their_participants() -> None:
    """One warp arrives, the other waits: bar.arrive / bar.sync with a thread count."""
    good = PRODUCER.format(consume_wait="bar.sync 1, 64;", produce_signal="bar.arrive 1, 64;")
    assert kinds(good) == []
    early = PRODUCER.format(consume_wait="", produce_signal="")
    assert kinds(early) != []
    wrong = good.replace("st.shared.u32 [%mine], %t;\n", "").replace(
        "bar.arrive 1, 64;", "bar.arrive 1, 64; st.shared.u32 [%mine], %t;"
    )
    assert kinds(wrong) != []


def test_divergent_barriers() -> None:
    half = "setp.lt.u32 %p, %t, 32;\n"
    assert kinds(half + "@%p bar.sync 0;") == ["divergent barrier"]
    assert kinds(half + "@%p bra A;\nbar.sync 0;\nbra B;\nA:\nbar.sync 0;\nB:") == ["divergent barrier"]
    assert kinds(half + "@%p bra A;\nbar.sync 0;\nbra B;\nA:\nbar.sync 1;\nB:") == ["divergent barrier"]
    odd = "and.b32 %x, %t, 1; setp.eq.u32 %p, %x, 0;\n"
    assert kinds(odd + "@%p bra A;\nbar.sync 0;\nA:") == ["divergent barrier"]


def test_early_exit_before_a_barrier() -> None:
    assert kinds("setp.ge.u32 %p, %t, 60; @%p ret; bar.sync 0;") == ["divergent barrier"]
    assert kinds("setp.ge.u32 %p, %t, 0; @%p ret; bar.sync 0;") == []


def test_endless_loop_is_found() -> None:
    assert kinds("LOOP:\nbra LOOP;", 32, max_steps=10_000) == ["non-terminating"]
    counted = "mov.u32 %n, 0;\nL:\nadd.u32 %n, %n, 1;\nsetp.lt.u32 %p, %n, 300;\n@%p bra L;"
    assert kinds(counted, 32, max_steps=10_000) == []
    assert kinds(counted, 64, max_steps=10_000) == ["non-terminating"]


@pytest.mark.parametrize(
    "spin",
    [
        "bar.sync 0;",
        "bar.warp.sync 0xffffffff;",
        "shfl.sync.bfly.b32 %x, %t, 1, 31, 0xffffffff;",
        "add.u32 %n, %n, 1;\nbar.sync 0;\nbar.warp.sync 0xffffffff;",
    ],
)
def test_an_endless_loop_over_barriers_ends_promptly_and_says_where(spin: str) -> None:
    """With the default bound: some seconds at most, however the loop waits."""
    start = perf_counter()
    (found,) = findings("mov.u32 %n, 0;\nLOOP:\n" + spin + "\nbra LOOP;", 256)
    assert found.kind == "non-terminating" and "--max-steps" in found.message
    assert found.lines != (0,)
    assert perf_counter() - start < 20  # 1 to 3 on a machine with nothing else to do


def test_trap() -> None:
    assert kinds("setp.eq.u32 %p, %t, 3; @%p trap;") == ["trap"]


def test_shared_atomics_race_with_plain_accesses_only() -> None:
    start = "setp.eq.u32 %p, %t, 0; @%p st.shared.u32 [tile], %t;" + BARRIER
    update = "atom.shared.add.u32 %y, [tile], 1;"
    assert kinds(start + update + BARRIER + "ld.shared.u32 %y, [tile];") == []
    assert kinds(start + update + "ld.shared.u32 %y, [tile];") != []
    assert kinds(start.replace(BARRIER, "") + update) != []


def test_interval_counter_survives_many_barriers() -> None:
    """More barriers than the shadow's epochs hold: clean stays clean and a race at the end is found."""
    loop = "mov.u32 %n, 0;\nLOOP:\n" + WRITE + BARRIER + READ + BARRIER + "add.u32 %n, %n, 1;\n"
    loop += "setp.lt.u32 %q, %n, 700;\n@%q bra LOOP;\n"
    assert kinds(loop) == []
    assert kinds(loop + WRITE + READ) == ["read-write race", "write-read race"]


def test_many_warp_synchronisations_in_one_interval() -> None:
    """A race after thousands of them is found; past the clock's range nothing is invented."""
    loop = "mov.u32 %n, 0;\n" + LANE_NEXT + "LOOP:\n" + WRITE + SYNC_WARP + READ + SYNC_WARP
    loop += "add.u32 %n, %n, 1;\nsetp.lt.u32 %q, %n, {};\n@%q bra LOOP;\n"
    assert kinds(loop.format(1500) + WRITE + READ, 32) == ["read-write race", "write-read race"]
    assert kinds(BARRIER + loop.format(5000) + BARRIER + WRITE, 32) == []


def test_findings_are_merged_and_counted() -> None:
    text = f"""{HEADER}
.visible .entry k()
{{
.reg .b32 %t; .shared .align 4 .b8 tile[4];
mov.u32 %t, %tid.x;
st.shared.u32 [tile], %t;
ret;
}}
"""
    (found,) = launch(program(text), [], 64).findings
    assert found.count == 63
