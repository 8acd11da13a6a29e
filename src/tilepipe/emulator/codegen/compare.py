"""setp, set, selp, slct: comparisons and selections."""

from __future__ import annotations

from tilepipe.emulator.codegen import half
from tilepipe.emulator.codegen.builder import PRED, U32, Builder, items
from tilepipe.emulator.codegen.floating import read_float
from tilepipe.emulator.codegen.integer import kind_of
from tilepipe.emulator.codegen.registry import handles
from tilepipe.emulator.ptx.model import Instruction, Operand
from tilepipe.emulator.types import TYPES, ScalarType

_UNSIGNED_NAMES = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_COMBINERS = ("and", "or", "xor")


def _float_predicate(test: str) -> str:
    """PTX's float tests are false on NaN, those that end in u true."""
    special = {"num": "ord", "nan": "uno"}
    if test in special:
        return special[test]
    return f"u{test[:-1]}" if test.endswith("u") else f"o{test}"


def compare(b: Builder, i: Instruction, kind: ScalarType, left: Operand, right: Operand) -> str:
    """The comparison named by the first modifier, as i1."""
    test = i.mods[0]
    if kind.is_float and kind.bits == 16:
        x, y = (half.widen(b, b.read(o, TYPES["b16"]), kind.name) for o in (left, right))
        return b.value(f"fcmp {_float_predicate(test)} float {x}, {y}")
    if kind.is_float:
        x, y = read_float(b, i, left, kind), read_float(b, i, right, kind)
        return b.value(f"fcmp {_float_predicate(test)} {kind.llvm} {x}, {y}")
    x, y = b.read(left, kind), b.read(right, kind)
    test = _UNSIGNED_NAMES.get(test, test)
    if test not in ("eq", "ne"):
        test = ("s" if kind.is_signed else "u") + test
    return b.value(f"icmp {test} {kind.llvm} {x}, {y}")


def combine(b: Builder, i: Instruction, result: str, operands: tuple[Operand, ...]) -> str:
    """The Boolean operation with a third predicate, if the instruction has one."""
    verb = next((m for m in i.mods if m in _COMBINERS), None)
    if verb is None:
        return result
    return b.value(f"{verb} i1 {result}, {b.read(operands[3], PRED)}")


@handles("setp")
def set_predicate(b: Builder, i: Instruction) -> None:
    if i.mods[-1] in ("f16x2", "bf16x2"):
        set_predicate_pair(b, i)
        return
    result = compare(b, i, kind_of(b, i), i.operands[1], i.operands[2])
    destinations = items(i.operands[0])
    b.write(destinations[0], combine(b, i, result, i.operands), PRED)
    if len(destinations) == 2:
        inverse = b.value(f"xor i1 {result}, true")
        b.write(destinations[1], combine(b, i, inverse, i.operands), PRED)


def set_predicate_pair(b: Builder, i: Instruction) -> None:
    """Packed comparison: the low lane to p, the high lane to q."""
    name = i.mods[-1]
    x, y = (half.split(b, b.read(o, U32)) for o in i.operands[1:3])
    for destination, left, right in zip(items(i.operands[0]), x, y, strict=True):
        wide = half.widen(b, left, name), half.widen(b, right, name)
        result = b.value(f"fcmp {_float_predicate(i.mods[0])} float {wide[0]}, {wide[1]}")
        b.write(destination, combine(b, i, result, i.operands), PRED)


@handles("set")
def set_value(b: Builder, i: Instruction) -> None:
    """All ones (integers) or 1.0 (floats) where the comparison holds."""
    kind, result_kind = kind_of(b, i), b.scalar_type(i.mods[-2])
    if kind.name.endswith("x2") or result_kind.bits != 32:
        raise b.unsupported(i.text)
    result = combine(b, i, compare(b, i, kind, i.operands[1], i.operands[2]), i.operands)
    yes = "1065353216" if result_kind.is_float else "-1"
    b.write(i.operands[0], b.value(f"select i1 {result}, i32 {yes}, i32 0"), U32)


@handles("selp")
def select(b: Builder, i: Instruction) -> None:
    kind = kind_of(b, i)
    x, y = b.read(i.operands[1], kind), b.read(i.operands[2], kind)
    p = b.read(i.operands[3], PRED)
    b.write(i.operands[0], b.value(f"select i1 {p}, {kind.llvm} {x}, {kind.llvm} {y}"), kind)


@handles("slct")
def select_by_sign(b: Builder, i: Instruction) -> None:
    kind, test = b.scalar_type(i.mods[-2]), kind_of(b, i)
    x, y, c = b.read(i.operands[1], kind), b.read(i.operands[2], kind), b.read(i.operands[3], test)
    positive = b.value(f"fcmp oge float {c}, 0.0" if test.is_float else f"icmp sge i32 {c}, 0")
    b.write(i.operands[0], b.value(f"select i1 {positive}, {kind.llvm} {x}, {kind.llvm} {y}"), kind)
