"""Constant trip counts of loops, by running the few integer instructions that decide them."""

from __future__ import annotations

import operator
import re
import struct
from collections.abc import Callable

from tilepipe.evidence.sass.cfg import Graph, Loop
from tilepipe.evidence.sass.decode import Instruction
from tilepipe.evidence.sass.registers import writes

_LIMIT = 1 << 12  # iterations; a tile's inner loops are far shorter
_DEPTH = 6  # copies followed to a register's initial value
_NUMBER = re.compile(r"^-?(?:0x[0-9a-f]+|\d+)$")
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "LT": operator.lt, "LE": operator.le, "GT": operator.gt, "GE": operator.ge,
    "EQ": operator.eq, "NE": operator.ne,
}  # fmt: skip
_ADDS = frozenset(("IADD3", "UIADD3", "IADD", "UIADD", "VIADD"))
_MOVES = frozenset(("MOV", "UMOV"))
_State = dict[str, int]


def trip_count(graph: Graph, loop: Loop) -> int | None:
    """How often the loop's body runs each time it is entered, None where that is not a constant.

    Only loops with one exit are decided. The instructions that run in every iteration are executed on the
    registers whose values on entry are constants, until the exit is taken.
    """
    exits = [b for b in loop.blocks if any(s not in loop.blocks for s in graph.blocks[b].successors)]
    if len(exits) != 1:
        return None
    leaving = exits[0]
    every_time = sorted(
        (b for b in loop.blocks if graph.dominates(b, leaving)), key=lambda b: _depth(graph, b)
    )
    if any(graph.nest(block)[0].header != loop.header for block in every_time):
        return None
    body = [instruction for block in every_time for instruction in graph.code(block)]
    stays = _stay_condition(graph, loop, leaving)
    changed = {r for b in loop.blocks for i in graph.code(b) for r in writes(i)}
    sometimes = {r for b in loop.blocks - set(every_time) for i in graph.code(b) for r in writes(i)}
    state = {r: v for r in changed - sometimes if (v := _on_entry(graph, loop, r)) is not None}
    if stays is None:
        return None
    predicate, wanted = stays
    trips = 0
    while trips < _LIMIT:
        trips += 1
        for instruction in body:
            _step(instruction, state)
        for register in sometimes:
            state.pop(register, None)
        if predicate not in state:
            return None
        if bool(state[predicate]) != wanted:
            return trips
    return None


def _depth(graph: Graph, block: int) -> int:
    depth, walk = 0, graph.dominators[block]
    while walk is not None:
        depth, walk = depth + 1, graph.dominators[walk]
    return depth


def _stay_condition(graph: Graph, loop: Loop, leaving: int) -> tuple[str, bool] | None:
    """The predicate of the exit's branch and the value with which the loop goes on."""
    branch = graph.code(leaving)[-1]
    named = branch.guard or (branch.operands[0] if len(branch.operands) > 1 else "")
    if branch.opcode not in ("BRA", "CALL") or not re.fullmatch(r"!?U?P\d+", named) or not branch.targets:
        return None
    if branch.guard and len(branch.operands) > 1:
        return None
    addresses = {graph.code(block)[0].address for block in loop.blocks}
    taken_stays = branch.targets[0] in addresses
    return named.lstrip("!"), taken_stays != named.startswith("!")


def _on_entry(graph: Graph, loop: Loop, register: str, depth: int = 0) -> int | None:
    """The constant that the register holds whenever the loop is entered from outside."""
    outside = [
        b
        for b in range(len(graph.blocks))
        if b not in loop.blocks and loop.header in graph.blocks[b].successors
    ]
    return _reaching(graph, outside, register, loop.blocks, depth)


def _reaching(graph: Graph, ends: list[int], register: str, barred: frozenset[int], depth: int) -> int | None:
    """The one constant that all definitions of the register before the ends of the blocks agree on."""
    values: set[int | None] = set()
    seen = set(ends)
    work = list(ends)
    while work:
        block = work.pop()
        value = _left_in(graph, block, len(graph.code(block)), register, depth)
        if not isinstance(value, _Absent):
            values.add(value)
            continue
        before = [p for p in range(len(graph.blocks)) if block in graph.blocks[p].successors]
        if not before:
            return None
        if barred.intersection(before):
            return None  # the loop itself sets it, the time before
        work += [p for p in before if p not in seen]
        seen.update(before)
    return values.pop() if len(values) == 1 else None


class _Absent:
    """A block sets nothing."""


def _left_in(graph: Graph, block: int, until: int, register: str, depth: int) -> int | _Absent | None:
    """What the first `until` instructions of the block leave in the register, None where that is unknown."""
    code = graph.code(block)
    for place in range(until - 1, -1, -1):
        instruction = code[place]
        if register not in writes(instruction):
            continue
        if instruction.guard is not None or depth >= _DEPTH:
            return None
        state: _State = {}
        _step(instruction, state)
        source = _copied(instruction)
        if register in state or source is None:
            return state.get(register)
        value = _left_in(graph, block, place, source, depth + 1)
        if not isinstance(value, _Absent):
            return value
        before = [p for p in range(len(graph.blocks)) if block in graph.blocks[p].successors]
        return _reaching(graph, before, source, frozenset(), depth + 1) if before else None
    return _Absent()


def _copied(instruction: Instruction) -> str | None:
    """The register that a move copies."""
    is_move = instruction.opcode in _MOVES and "64" not in instruction.modifiers
    is_move |= instruction.opcode == "IMAD" and instruction.modifiers[:1] in (("MOV",), ("U32",))
    last = instruction.operands[-1].split(".")[0] if instruction.operands else ""
    return last if is_move and re.fullmatch(r"U?R\d+", last) else None


def _step(instruction: Instruction, state: _State) -> None:
    """Executes one instruction; what cannot be computed leaves its results unknown."""
    results = writes(instruction)
    value = None if instruction.guard is not None else _evaluate(instruction, state)
    for register in results:
        state.pop(register, None)
    if value is None or not instruction.operands:
        return
    if instruction.opcode == "CS2R":
        state.update(dict.fromkeys(results, 0))
    else:
        state[instruction.operands[0]] = value


def _evaluate(instruction: Instruction, state: _State) -> int | None:
    opcode, modifiers = instruction.opcode, instruction.modifiers
    operands = [o for o in instruction.operands[1:] if o not in ("PT", "UPT")]
    if opcode == "CS2R":
        return 0 if instruction.operands[1:] == ("SRZ",) else None
    if (opcode in _MOVES and not modifiers) or (opcode == "MOV" and modifiers == ("U32",)):
        return _value(operands[0], state)
    if opcode in _ADDS and not modifiers and not any("P" in o for o in operands):
        return _sum(operands, state)
    if opcode == "IMAD" and modifiers[:1] in (("MOV",), ("IADD",), ("U32",), ()):
        return _multiply_add(operands, state)
    if opcode in ("HFMA2",) and operands[:2] == ["-RZ", "RZ"] and len(operands) == 4:
        return _halves(operands[2], operands[3])
    if opcode in ("ISETP", "UISETP"):
        return _compare(instruction, state)
    if opcode in ("PLOP3", "UPLOP3") and len(operands) == 3 and operands[1] == "0x80":
        return _predicate(operands[0], state)  # and of PT, PT and the predicate
    return None


def _value(operand: str, state: _State) -> int | None:
    text = operand.replace(".reuse", "")
    if _NUMBER.match(text):
        return _signed(int(text, 0))
    sign = -1 if text.startswith("-") else 1
    name = text.lstrip("-")
    if name in ("RZ", "URZ"):
        return 0
    return sign * state[name] if name in state else None


def _predicate(operand: str, state: _State) -> int | None:
    known = state.get(operand.lstrip("!"))
    return None if known is None else known ^ int(operand.startswith("!"))


def _sum(operands: list[str], state: _State) -> int | None:
    values = [_value(operand, state) for operand in operands]
    return None if None in values else _signed(sum(v for v in values if v is not None))


def _multiply_add(operands: list[str], state: _State) -> int | None:
    values = [_value(operand, state) for operand in operands]
    if len(values) != 3 or any(v is None for v in values):
        return None
    left, right, addend = (v for v in values if v is not None)
    return _signed(left * right + addend)


def _halves(high: str, low: str) -> int | None:
    """`HFMA2 R, -RZ, RZ, high, low` is how ptxas moves a constant through the half-precision pipe."""
    try:
        bits = struct.unpack("<HH", struct.pack("<ee", float(low), float(high)))
    except (ValueError, OverflowError):
        return None
    return _signed(bits[0] | bits[1] << 16)


def _compare(instruction: Instruction, state: _State) -> int | None:
    modifiers, operands = instruction.modifiers, instruction.operands
    relation = _COMPARE.get(modifiers[0])
    if relation is None or modifiers[-1] != "AND" or "EX" in modifiers or len(operands) != 5:
        return None
    if operands[1] not in ("PT", "UPT") or operands[4] not in ("PT", "UPT"):
        return None
    left, right = _value(operands[2], state), _value(operands[3], state)
    if left is None or right is None:
        return None
    if "U32" in modifiers:
        left, right = left & 0xFFFFFFFF, right & 0xFFFFFFFF
    return int(relation(left, right))


def _signed(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value
