"""16-bit floats, alone and in pairs: widened to float, computed, rounded once. Sums, products and quotients
round correctly that way (24 bits >= 2 * 11 + 2); fused multiply-adds go through the runtime."""

from __future__ import annotations

from collections.abc import Callable

from tilepipe.emulator.codegen.builder import U32, Builder
from tilepipe.emulator.codegen.floating import saturate
from tilepipe.emulator.ptx.model import Instruction
from tilepipe.emulator.types import TYPES

F32 = TYPES["f32"]
B16 = TYPES["b16"]
HALVES = ("f16", "bf16", "f16x2", "bf16x2")


def widen(b: Builder, bits: str, name: str) -> str:
    """An i16 holding an f16 or bf16 to float."""
    if name.startswith("bf16"):
        high = b.value(f"shl i32 {b.value(f'zext i16 {bits} to i32')}, 16")
        return b.value(f"bitcast i32 {high} to float")
    return b.value(f"fpext half {b.value(f'bitcast i16 {bits} to half')} to float")


def narrow(b: Builder, value: str, name: str) -> str:
    """A float rounded to nearest even, as i16."""
    if name.startswith("bf16"):
        return b.value(f"trunc i32 {b.call('i32', 'tp_f32_to_bf16', f'float {value}')} to i16")
    return b.value(f"bitcast half {b.value(f'fptrunc float {value} to half')} to i16")


def split(b: Builder, word: str) -> tuple[str, str]:
    """The low and high i16 of an i32."""
    high = b.value(f"lshr i32 {word}, 16")
    return b.value(f"trunc i32 {word} to i16"), b.value(f"trunc i32 {high} to i16")


def join(b: Builder, low: str, high: str) -> str:
    wide = b.value(f"shl i32 {b.value(f'zext i16 {high} to i32')}, 16")
    return b.value(f"or i32 {wide}, {b.value(f'zext i16 {low} to i32')}")


def map_lanes(b: Builder, i: Instruction, function: Callable[..., str]) -> None:
    """Applies `function` (floats to float) to one lane, or to both of a packed type."""
    name = i.mods[-1]
    if name not in HALVES:
        raise b.unsupported(i.text)
    paired = name.endswith("x2")
    words = [b.read(o, U32 if paired else B16) for o in i.operands[1:]]
    lanes = list(zip(*(split(b, w) for w in words), strict=True)) if paired else [tuple(words)]
    results = []
    for lane in lanes:
        result = function(*(widen(b, bits, name) for bits in lane))
        if "sat" in i.mods:
            result = saturate(b, result, F32)
        if "relu" in i.mods:
            result = b.call("float", "llvm.maximumnum.f32", f"float {result}", "float 0.0")
        results.append(narrow(b, result, name))
    if paired:
        b.write(i.operands[0], join(b, *results), U32)
    else:
        b.write(i.operands[0], results[0], B16)


def arithmetic(b: Builder, i: Instruction) -> None:
    """add, sub, mul, fma, abs, neg, min and max. .ftz is ignored for f16, whose subnormals we keep."""
    name = i.mods[-1]
    if i.op in ("fma", "mad"):
        fused(b, i, name)
    elif i.op in ("add", "sub", "mul"):
        map_lanes(b, i, lambda x, y: b.value(f"f{i.op} float {x}, {y}"))
    elif i.op in ("min", "max"):
        intrinsic = {"min": "minimum", "max": "maximum"}[i.op] + ("" if "NaN" in i.mods else "num")
        map_lanes(b, i, lambda x, y: b.call("float", f"llvm.{intrinsic}.f32", f"float {x}", f"float {y}"))
    else:
        flip_sign(b, i, name)


def fused(b: Builder, i: Instruction, name: str) -> None:
    b.count_math(2 if name.endswith("x2") else 1)
    if "sat" in i.mods or "relu" in i.mods:
        raise b.unsupported(i.text)
    kind = U32 if name.endswith("x2") else B16
    words = [b.read(o, kind) for o in i.operands[1:]]
    if kind is B16:
        words = [b.value(f"zext i16 {w} to i32") for w in words]
    result = b.call("i32", f"tp_fma_{name}", *(f"i32 {w}" for w in words))
    b.write(i.operands[0], result, U32)


def flip_sign(b: Builder, i: Instruction, name: str) -> None:
    """neg and abs touch the sign bits only."""
    kind, mask = (U32, 0x80008000) if name.endswith("x2") else (B16, 0x8000)
    x = b.read(i.operands[1], kind)
    if i.op == "neg":
        result = b.value(f"xor {kind.llvm} {x}, {mask}")
    else:
        result = b.value(f"and {kind.llvm} {x}, {~mask & ((1 << kind.bits) - 1)}")
    b.write(i.operands[0], result, kind)
