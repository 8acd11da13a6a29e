"""cvt, mov, cvta, isspacep."""

from __future__ import annotations

from tilepipe.emulator import layout
from tilepipe.emulator.codegen import half
from tilepipe.emulator.codegen.builder import PRED, U32, U64, Builder, items
from tilepipe.emulator.codegen.floating import directed, flush, saturate
from tilepipe.emulator.codegen.integer import kind_of
from tilepipe.emulator.codegen.registry import handles
from tilepipe.emulator.ptx.model import Instruction, Vec
from tilepipe.emulator.types import TYPES, ScalarType

F32, F64 = TYPES["f32"], TYPES["f64"]
B16 = TYPES["b16"]
_TO_INTEGER = {"rni": "roundeven", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}
_REFUSED = ("satfinite", "relu", "rs", "scaled")


@handles("cvt")
def convert(b: Builder, i: Instruction) -> None:
    names = [m for m in i.mods if m in TYPES]
    if len(names) != 2 or any(m in i.mods for m in _REFUSED):
        raise b.unsupported(i.text)
    to, source = names
    if to in ("f16x2", "bf16x2"):
        pack_pair(b, i, to, source)
    elif to == "tf32":
        to_tf32(b, i)
    elif TYPES[source].is_float:
        from_float(b, i, to, TYPES[source])
    elif TYPES[to].is_float:
        integer_to_float(b, i, TYPES[to], TYPES[source])
    else:
        integer_to_integer(b, i, TYPES[to], TYPES[source])


def pack_pair(b: Builder, i: Instruction, to: str, source: str) -> None:
    """cvt.rn.{f16x2,bf16x2}.f32 d, a, b: a is the high half."""
    if source != "f32" or "rn" not in i.mods or len(i.operands) != 3:
        raise b.unsupported(i.text)
    high, low = (half.narrow(b, b.read(o, F32), to) for o in i.operands[1:3])
    b.write(i.operands[0], half.join(b, low, high), U32)


def to_tf32(b: Builder, i: Instruction) -> None:
    """To nearest, ties away from zero (.rna) or to even (.rn): 13 bits of the mantissa go."""
    bits = b.read_int(i.operands[1], F32)
    if "rna" in i.mods:
        rounded = b.value(f"add i32 {bits}, 4096")
    elif "rn" in i.mods:
        odd = b.value(f"and i32 {b.value(f'lshr i32 {bits}, 13')}, 1")
        rounded = b.value(f"add i32 {b.value(f'add i32 {bits}, 4095')}, {odd}")
    else:
        raise b.unsupported(i.text)
    special = b.value(f"icmp uge i32 {b.value(f'and i32 {bits}, 2147483647')}, 2139095040")
    result = b.value(f"select i1 {special}, i32 {bits}, i32 {b.value(f'and i32 {rounded}, -8192')}")
    b.write(i.operands[0], result, U32)


def from_float(b: Builder, i: Instruction, to: str, source: ScalarType) -> None:
    if source.bits == 16:
        value, kind = half.widen(b, b.read(i.operands[1], B16), source.name), F32
    else:
        value, kind = b.read(i.operands[1], source), source
    if "ftz" in i.mods and kind is F32 and source is F32:
        value = flush(b, value)
    rounding = next((_TO_INTEGER[m] for m in i.mods if m in _TO_INTEGER), None)
    if rounding:
        value = b.call(kind.llvm, f"llvm.{rounding}.{kind.name}", f"{kind.llvm} {value}")
    target = TYPES[to]
    if target.is_float:
        float_to_float(b, i, value, kind, target)
        return
    name = f"llvm.fpto{'s' if target.is_signed else 'u'}i.sat.{target.llvm}.{kind.name}"
    b.write(i.operands[0], b.call(target.llvm, name, f"{kind.llvm} {value}"), target)


def float_to_float(b: Builder, i: Instruction, value: str, kind: ScalarType, target: ScalarType) -> None:
    mode = directed(i)
    if target.bits == 16:
        _to_half(b, i, value, target)
        return
    if target.bits > kind.bits:
        value = b.value(f"fpext float {value} to double")
    elif target.bits < kind.bits and mode:
        value = b.call("float", "tp_round_f64", f"double {value}", f"i32 {mode}")
    elif target.bits < kind.bits:
        value = b.value(f"fptrunc double {value} to float")
    if "ftz" in i.mods and target is F32:
        value = flush(b, value)
    if "sat" in i.mods:
        value = saturate(b, value, target)
    b.write(i.operands[0], value, target)


def _to_half(b: Builder, i: Instruction, value: str, target: ScalarType) -> None:
    mode, kind = directed(i), F64 if i.mods[-1] == "f64" else F32
    if "sat" in i.mods:
        value = saturate(b, value, kind)
    if kind is F64:
        if mode:
            raise b.unsupported(i.text)
        bits = b.call("i32", f"tp_f64_to_{target.name}", f"double {value}")
    elif mode and (mode != 1 or target.name != "f16"):
        raise b.unsupported(i.text)
    elif mode:
        bits = b.call("i32", "tp_f32_to_f16_rz", f"float {value}")
    else:
        bits = b.value(f"zext i16 {half.narrow(b, value, target.name)} to i32")
    b.write(i.operands[0], b.value(f"trunc i32 {bits} to i16"), B16)


def integer_to_float(b: Builder, i: Instruction, target: ScalarType, source: ScalarType) -> None:
    value, mode = b.read(i.operands[1], source), directed(i)
    verb = "sitofp" if source.is_signed else "uitofp"
    if target.bits == 16 or mode:  # through double, which holds 32-bit integers exactly
        if source.bits == 64 or (mode and target is not F32):
            raise b.unsupported(i.text)
        wide = b.value(f"{verb} {source.llvm} {value} to double")
        if target.bits == 16:
            bits = b.call("i32", f"tp_f64_to_{target.name}", f"double {wide}")
            b.write(i.operands[0], b.value(f"trunc i32 {bits} to i16"), B16)
            return
        b.write(i.operands[0], b.call("float", "tp_round_f64", f"double {wide}", f"i32 {mode}"), F32)
        return
    b.write(i.operands[0], b.value(f"{verb} {source.llvm} {value} to {target.llvm}"), target)


def integer_to_integer(b: Builder, i: Instruction, target: ScalarType, source: ScalarType) -> None:
    value = b.read(i.operands[1], source)
    if "sat" in i.mods:
        value = b.value(f"{'sext' if source.is_signed else 'zext'} {source.llvm} {value} to i65")
        low = -(1 << (target.bits - 1)) if target.is_signed else 0
        high = (1 << (target.bits - target.is_signed)) - 1
        value = b.call("i65", "llvm.smax.i65", f"i65 {value}", f"i65 {low}")
        value = b.call("i65", "llvm.smin.i65", f"i65 {value}", f"i65 {high}")
        value = b.value(f"trunc i65 {value} to {target.llvm}")
    elif target.bits < source.bits:
        value = b.value(f"trunc {source.llvm} {value} to {target.llvm}")
    elif target.bits > source.bits:
        value = b.value(f"{'sext' if source.is_signed else 'zext'} {source.llvm} {value} to {target.llvm}")
    b.write(i.operands[0], value, target)


@handles("mov")
def move(b: Builder, i: Instruction) -> None:
    kind = kind_of(b, i)
    destination, source = i.operands
    if kind.bits == 128:
        raise b.unsupported(i.text)
    if isinstance(source, Vec):
        parts = source.items
        width = kind.bits // len(parts)
        result = "0"
        for n, part in enumerate(parts):
            bits = b.value(f"zext i{width} {b.read(part, TYPES[f'b{width}'])} to {kind.llvm_int}")
            bits = b.value(f"shl {kind.llvm_int} {bits}, {n * width}") if n else bits
            result = b.value(f"or {kind.llvm_int} {result}, {bits}")
        b.write(destination, result, TYPES[f"b{kind.bits}"])
    elif isinstance(destination, Vec):
        width = kind.bits // len(destination.items)
        bits = b.read_int(source, kind)
        for n, part in enumerate(items(destination)):
            shifted = b.value(f"lshr {kind.llvm_int} {bits}, {n * width}") if n else bits
            b.write(part, b.value(f"trunc {kind.llvm_int} {shifted} to i{width}"), TYPES[f"b{width}"])
    else:
        b.write(destination, b.read(source, kind), kind)


@handles("cvta")
def convert_address(b: Builder, i: Instruction) -> None:
    """Shared and local addresses move into their window of the generic space; others are host addresses."""
    value = b.read(i.operands[1], U64)
    windows = {"shared": layout.SHARED_WINDOW, "local": layout.LOCAL_WINDOW}
    space = next((m.partition("::")[0] for m in i.mods if m != "to"), "")
    if space in windows:
        value = b.value(f"xor i64 {value}, {windows[space]}")
    elif space == "param" and "to" not in i.mods:
        value = b.value(f"add i64 {b.value('ptrtoint ptr %parameters to i64')}, {value}")
    elif space == "param":
        value = b.value(f"sub i64 {value}, {b.value('ptrtoint ptr %parameters to i64')}")
    b.write(i.operands[0], value, U64)


@handles("isspacep")
def is_space(b: Builder, i: Instruction) -> None:
    window = b.value(f"and i64 {b.read(i.operands[1], U64)}, {15 << 60}")
    windows = {"shared": layout.SHARED_WINDOW, "local": layout.LOCAL_WINDOW, "global": 0}
    space = i.mods[0].partition("::")[0]
    if space not in windows:
        raise b.unsupported(i.text)
    b.write(i.operands[0], b.value(f"icmp eq i64 {window}, {windows[space]}"), PRED)
