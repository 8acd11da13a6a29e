"""f32 and f64 arithmetic. mul and add stay separate; fma and mad are fused, as PTX says."""

from __future__ import annotations

from tilepipe.emulator.codegen.builder import Builder
from tilepipe.emulator.codegen.integer import kind_of
from tilepipe.emulator.codegen.registry import handles
from tilepipe.emulator.ptx.model import Instruction, Operand
from tilepipe.emulator.types import TYPES, ScalarType

F32 = TYPES["f32"]
F64 = TYPES["f64"]
# Rounding modes as the runtime numbers them; to nearest even is LLVM's own.
_DIRECTED = {"rz": 1, "rm": 2, "rp": 3}


def directed(i: Instruction) -> int:
    """The runtime's number of the instruction's rounding mode; 0 for to nearest even."""
    return next((_DIRECTED[m] for m in i.mods if m in _DIRECTED), 0)


def flush(b: Builder, value: str) -> str:
    """An f32 with a subnormal replaced by zero of the same sign."""
    bits = b.value(f"bitcast float {value} to i32")
    tiny = b.value(f"icmp eq i32 {b.value(f'and i32 {bits}, 2139095040')}, 0")
    zero = b.value(f"and i32 {bits}, -2147483648")
    return b.value(f"bitcast i32 {b.value(f'select i1 {tiny}, i32 {zero}, i32 {bits}')} to float")


def saturate(b: Builder, value: str, kind: ScalarType) -> str:
    """Clamped to [0, 1]; NaN becomes 0."""
    t = kind.llvm
    above = b.value(f"select i1 {b.value(f'fcmp ogt {t} {value}, 0.0')}, {t} {value}, {t} 0.0")
    return b.value(f"select i1 {b.value(f'fcmp olt {t} {above}, 1.0')}, {t} {above}, {t} 1.0")


def read_float(b: Builder, i: Instruction, operand: Operand, kind: ScalarType) -> str:
    """An operand, flushed where the instruction says .ftz."""
    value = b.read(operand, kind)
    return flush(b, value) if "ftz" in i.mods and kind.bits == 32 else value


def write_float(b: Builder, i: Instruction, value: str, kind: ScalarType) -> None:
    """Writes operand 0 after .ftz and .sat."""
    if "ftz" in i.mods and kind.bits == 32:
        value = flush(b, value)
    if "sat" in i.mods:
        value = saturate(b, value, kind)
    b.write(i.operands[0], value, kind)


def arithmetic(b: Builder, i: Instruction, kind: ScalarType) -> None:
    """add, sub, mul, fma and mad."""
    values = [read_float(b, i, o, kind) for o in i.operands[1:]]
    mode, t = directed(i), kind.llvm
    if i.op in ("fma", "mad"):
        b.count_math(1)
    if mode:
        result = _directed_arithmetic(b, i, kind, values, mode)
    elif i.op in ("fma", "mad"):
        result = b.call(t, f"llvm.fma.{kind.name}", *(f"{t} {v}" for v in values))
    else:
        result = b.value(f"f{i.op} {t} {values[0]}, {values[1]}")
    write_float(b, i, result, kind)


def _directed_arithmetic(b: Builder, i: Instruction, kind: ScalarType, values: list[str], mode: int) -> str:
    if kind.bits != 32:
        raise b.unsupported(f"{i.text}: directed rounding of f64")
    x, y = values[0], values[1]
    if i.op == "mul":
        wide = [b.value(f"fpext float {v} to double") for v in (x, y)]
        product = b.value(f"fmul double {wide[0]}, {wide[1]}")
        return b.call("float", "tp_round_f64", f"double {product}", f"i32 {mode}")
    if i.op == "sub":
        y = b.value(f"fneg float {y}")
    factors = (x, y, values[2]) if i.op in ("fma", "mad") else (x, "1.0", y)
    return b.call("float", "tp_fma_f32", *(f"float {v}" for v in factors), f"i32 {mode}")


def divide(b: Builder, i: Instruction, kind: ScalarType) -> None:
    """Also .approx and .full, which we round correctly."""
    if directed(i):
        raise b.unsupported(i.text)
    x, y = read_float(b, i, i.operands[1], kind), read_float(b, i, i.operands[2], kind)
    write_float(b, i, b.value(f"fdiv {kind.llvm} {x}, {y}"), kind)


def sign(b: Builder, i: Instruction, kind: ScalarType) -> None:
    """abs and neg."""
    x, t = read_float(b, i, i.operands[1], kind), kind.llvm
    result = b.value(f"fneg {t} {x}") if i.op == "neg" else b.call(t, f"llvm.fabs.{kind.name}", f"{t} {x}")
    write_float(b, i, result, kind)


def extreme(b: Builder, i: Instruction, kind: ScalarType) -> None:
    """min and max: a NaN loses against a number, unless .NaN; -0 is below +0."""
    if "xorsign" in i.mods:
        raise b.unsupported(i.text)
    t = kind.llvm
    name = {"min": "minimum", "max": "maximum"}[i.op] + ("" if "NaN" in i.mods else "num")
    values = [read_float(b, i, o, kind) for o in i.operands[1:]]
    result = values[0]
    for value in values[1:]:
        result = b.call(t, f"llvm.{name}.{kind.name}", f"{t} {result}", f"{t} {value}")
    write_float(b, i, result, kind)


@handles("rcp", "sqrt", "rsqrt")
def roots(b: Builder, i: Instruction) -> None:
    """Correctly rounded, .approx too; rsqrt goes through double and is rounded twice for f32."""
    kind = kind_of(b, i)
    if directed(i):
        raise b.unsupported(i.text)
    x, t = read_float(b, i, i.operands[1], kind), kind.llvm
    if i.op == "rcp":
        result = b.value(f"fdiv {t} 1.0, {x}")
    elif i.op == "sqrt":
        result = b.call(t, f"llvm.sqrt.{kind.name}", f"{t} {x}")
    else:
        wide = b.value(f"fpext float {x} to double") if kind.bits == 32 else x
        root = b.call("double", "llvm.sqrt.f64", f"double {wide}")
        result = b.value(f"fdiv double 1.0, {root}")
        if kind.bits == 32:
            result = b.value(f"fptrunc double {result} to float")
    write_float(b, i, result, kind)


@handles("copysign")
def copy_sign(b: Builder, i: Instruction) -> None:
    """The magnitude of the second source with the sign of the first."""
    kind = kind_of(b, i)
    x, y, t = b.read(i.operands[1], kind), b.read(i.operands[2], kind), kind.llvm
    b.write(i.operands[0], b.call(t, f"llvm.copysign.{kind.name}", f"{t} {y}", f"{t} {x}"), kind)


@handles("testp")
def test_property(b: Builder, i: Instruction) -> None:
    kind = kind_of(b, i)
    classes = {
        "finite": 0x1F8,
        "infinite": 0x204,
        "number": 0x3FC,
        "notanumber": 0x3,
        "normal": 0x108,
        "subnormal": 0x90,
    }
    x = b.read(i.operands[1], kind)
    result = b.call("i1", f"llvm.is.fpclass.{kind.name}", f"{kind.llvm} {x}", f"i32 {classes[i.mods[0]]}")
    b.write(i.operands[0], result, TYPES["pred"])
