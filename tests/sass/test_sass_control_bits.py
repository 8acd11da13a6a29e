"""The decoded control bits, checked against the data flow of compiled kernels.

Had the bits another meaning or another place, the hardware would read registers before they are written.
"""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sass_listings import ARCHS, forms, shapes

from tilepipe.evidence.sass.cfg import build_graph
from tilepipe.evidence.sass.decode import Control, Instruction, decode, decode_control
from tilepipe.evidence.sass.registers import reads, writes

VARIABLE = {  # opcodes whose latency the compiler does not know
    "LDG", "LDS", "LDSM", "LDL", "LDC", "LDCU", "S2R", "S2UR", "MUFU", "SHFL", "I2F", "F2I", "F2F", "POPC",
    "FLO", "BREV", "R2UR", "ATOMS", "DFMA", "DADD", "DMUL", "ULDC", "I2FP",
}  # fmt: skip
GLOBAL, SHARED = {"LDG"}, {"LDS", "LDSM"}
SHORTEST = 4  # cycles from a fixed-latency instruction to the first that reads its result
WIDE_SHORTEST = 3  # a 64-bit result comes in two halves, the low one earlier
EVERY_ARCH = [a if a in ("sm_80", "sm_120") else pytest.param(a, marks=pytest.mark.full) for a in ARCHS]


@cache
def straight_lines(arch: str) -> tuple[tuple[Instruction, ...], ...]:
    """The blocks of all test kernels."""
    graphs = [
        build_graph(function) for text in (forms(arch), shapes(arch)) for function in decode(text).values()
    ]
    return tuple(graph.code(block) for graph in graphs for block in range(len(graph.blocks)))


@given(st.integers(0, (1 << 128) - 1))
def test_the_fields_lie_side_by_side_from_bit_105(encoding: int) -> None:
    control = decode_control(encoding)
    fields = (
        (control.stall, 4),
        (0 if control.yields else 1, 1),
        (7 if control.write_barrier is None else control.write_barrier, 3),
        (7 if control.read_barrier is None else control.read_barrier, 3),
        (control.wait_mask, 6),
        (control.reuse, 4),
    )
    rebuilt, position = 0, 105
    for value, width in fields:
        assert 0 <= value < 1 << width
        rebuilt |= value << position
        position += width
    assert rebuilt == encoding & ((1 << 126) - (1 << 105))


def test_a_known_instruction() -> None:
    """`/*0010*/ LDC R2, c[0x0][0x230]` of a listing for sm_90: scoreboard 0, stall 1."""
    control = decode_control(0x00008C00FF027B82 | 0x000E220000000800 << 64)
    assert control == Control(1, False, 0, None, 0, 0)
    assert str(control) == "B------ R- W0 - S01"


@pytest.mark.parametrize("arch", EVERY_ARCH)
def test_reuse_flags_match_their_bits(arch: str) -> None:
    seen = 0
    for line in straight_lines(arch):
        for instruction in line:
            printed = instruction.text.count(".reuse")
            assert instruction.control.reuse.bit_count() == printed, instruction.text
            seen += printed
    assert seen > 400


@pytest.mark.parametrize("arch", EVERY_ARCH)
def test_fixed_latencies_are_covered_by_stalls(arch: str) -> None:
    pairs = 0
    for line in straight_lines(arch):
        for place, producer in enumerate(line):
            if producer.opcode in VARIABLE or producer.control.write_barrier is not None:
                continue
            results = {r for r in writes(producer) if r.startswith("R")}
            cycles = producer.control.stall
            for consumer in line[place + 1 :]:
                if not results or producer.never_runs:
                    break
                if results & reads(consumer):
                    shortest = WIDE_SHORTEST if "WIDE" in producer.modifiers else SHORTEST
                    assert cycles >= shortest, (producer.text, consumer.text)
                    pairs += 1
                    break
                results -= writes(consumer)
                cycles += consumer.control.stall
    assert pairs > 1000


@pytest.mark.parametrize("arch", EVERY_ARCH)
def test_variable_latencies_are_waited_for(arch: str) -> None:
    """By their own scoreboard, or by that of a later load of their kind."""
    pairs: Counter[str] = Counter()
    for line in straight_lines(arch):
        for place, producer in enumerate(line):
            if producer.opcode in VARIABLE and not producer.never_runs:
                outcome = waited(producer, line[place + 1 :])
                assert outcome != "early", producer.text
                pairs[outcome] += 1
    assert pairs["own"] > 200
    assert pairs["later"] > 20


def waited(producer: Instruction, following: tuple[Instruction, ...]) -> str:
    """How the first reader in `following` is protected: by its `own` or a `later` scoreboard, or `early` if
    by none; `open` if there is no reader, or the producer has a fixed latency after all."""
    boards = {producer.control.write_barrier} - {None}
    kind = next((k for k in (GLOBAL, SHARED) if producer.opcode in k), set())
    if not boards and not kind:
        return "open"
    how = "own" if boards else "later"
    done = False
    results = set(writes(producer))
    for instruction in following:
        done = done or any(instruction.control.waits_for(board) for board in boards)
        if results & reads(instruction):
            return how if done else "early"
        results -= writes(instruction)
        if not results:
            return "open"
        if how == "later" and instruction.opcode in kind and instruction.control.write_barrier is not None:
            boards.add(instruction.control.write_barrier)
    return "open"
