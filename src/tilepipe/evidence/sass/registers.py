"""Which registers an instruction writes and reads, from its printed operands.

Only the first register of an operand is printed, so widths come from the opcode and its modifiers. Registers
are named as printed: `R4`, `UR6`, `P0`, `UP1`; the constants `RZ`, `URZ`, `PT`, `UPT` are left out.
"""

from __future__ import annotations

import re
from functools import lru_cache

from tilepipe.evidence.sass.decode import Instruction

_REGISTER = re.compile(r"\b(UR|R)(\d+)((?:\.\w+)*)")
_PREDICATE = re.compile(r"\b(U?P\d+)\b")
_PREDICATE_RESULT = re.compile(r"^U?P(?:T|\d+)$")
_NO_RESULT = frozenset((
    "ST", "STS", "STG", "STL", "STSM", "RED", "BAR", "BRA", "BRX", "JMP", "EXIT", "RET", "NOP",
    "DEPBAR", "LDGDEPBAR", "LDGSTS", "MEMBAR", "CCTL", "BSSY", "BSYNC", "BREAK", "WARPSYNC",
    "ERRBAR", "SYNCS", "UBLKCP", "ARRIVES", "ACQBULK", "BPT", "CALL", "KILL", "NANOSLEEP", "YIELD",
    "FENCE", "PREEXIT",
))  # fmt: skip
_LOADS = frozenset({"LDG", "LDS", "LDL", "LD", "LDC", "LDCU", "ULDC", "LDSM"})
_STORES = frozenset({"ST", "STS", "STG", "STL"})
_DOUBLES = frozenset({"DFMA", "DADD", "DMUL", "FFMA2", "FADD2", "FMUL2"})


def access_bytes(instruction: Instruction) -> int:
    """Bytes that one thread moves by a load, store or LDGSTS."""
    for modifier in instruction.modifiers:
        if modifier in ("U8", "S8"):
            return 1
        if modifier in ("U16", "S16"):
            return 2
        if modifier in ("64", "128", "256"):
            return int(modifier) // 8
    return 4


@lru_cache(maxsize=16384)
def writes(instruction: Instruction) -> frozenset[str]:
    """Registers and predicates that the instruction writes."""
    found: set[str] = set()
    for slot in _result_slots(instruction):
        operand = instruction.operands[slot]
        found.update(_PREDICATE.findall(operand))
        found.update(_spread(operand, _result_width(instruction)))
    return frozenset(found)


@lru_cache(maxsize=16384)
def reads(instruction: Instruction) -> frozenset[str]:
    """Registers and predicates that the instruction reads, its guard included.

    Operands wider than printed (matrix fragments) count with their first register only.
    """
    results = _result_slots(instruction)
    found = set(_PREDICATE.findall(instruction.guard or ""))
    for slot, operand in enumerate(instruction.operands):
        if slot not in results:
            found.update(_PREDICATE.findall(operand))
            found.update(_spread(operand, _source_width(instruction, slot)))
    return frozenset(found)


def store_data(instruction: Instruction) -> frozenset[str]:
    """Registers whose values a store writes to memory (not its address)."""
    if instruction.opcode not in _STORES or len(instruction.operands) < 2:
        return frozenset()
    return frozenset(_spread(instruction.operands[1], access_bytes(instruction) // 4))


def _result_slots(instruction: Instruction) -> range:
    """The leading operands that are results: a register with the carries after it, or a predicate with the
    second result (`ISETP P0, PT, …`, `LOP3 P0, R4, …`, `SHFL PT, R3, …`) after it."""
    operands = instruction.operands
    if not operands or instruction.opcode in _NO_RESULT or operands[0].startswith(("[", "desc")):
        return range(0)
    if "256" in instruction.modifiers and instruction.opcode in _LOADS:
        return range(2)
    if _PREDICATE_RESULT.match(operands[0]):
        both = len(operands) > 1 and (
            _PREDICATE_RESULT.match(operands[1]) or instruction.opcode in ("LOP3", "SHFL", "ULOP3")
        )
        return range(2 if both else 1)
    count = 1
    while count < min(3, len(operands)) and _PREDICATE_RESULT.match(operands[count]):
        count += 1
    return range(count)


def _spread(operand: str, width: int) -> set[str]:
    found: set[str] = set()
    for kind, number, suffix in _REGISTER.findall(operand):
        count = max(width, 2 if ".64" in suffix else 1)
        found.update(f"{kind}{int(number) + k}" for k in range(count))
    return found


def _result_width(instruction: Instruction) -> int:
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if opcode == "LDSM":
        return int(modifiers[-1]) if modifiers[-1] in ("2", "4") else 1
    if "256" in modifiers:
        return 4  # in each of the two results
    if opcode in _LOADS:
        return max(1, access_bytes(instruction) // 4)
    if opcode.endswith("MMA"):
        return _matrix_width(instruction)
    if opcode == "CS2R":
        return 1 if "32" in modifiers else 2
    if opcode in _DOUBLES or "WIDE" in modifiers or "F64" in modifiers[:1]:
        return 2
    return 2 if "64" in modifiers else 1


def _matrix_width(instruction: Instruction) -> int:
    """Registers of a thread's share of the accumulator: rows × columns ÷ 32 elements of its type's width."""
    shape = instruction.modifiers[0] if instruction.modifiers else ""
    rows = 16 if shape.startswith("16") else 8
    elements = rows * 8 // 32
    if instruction.opcode == "DMMA":
        return 2 * elements
    half = instruction.opcode == "HMMA" and "F32" not in instruction.modifiers
    return max(1, elements // 2) if half else elements


def _source_width(instruction: Instruction, slot: int) -> int:
    if instruction.opcode in _STORES and slot == 1:
        return max(1, access_bytes(instruction) // 4)
    return 2 if instruction.opcode in _DOUBLES else 1
