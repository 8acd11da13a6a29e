"""Opcodes shared by integers, floats and 16-bit floats: sends each to its family by the type."""

from __future__ import annotations

from tilepipe.emulator.codegen import floating, half, integer
from tilepipe.emulator.codegen.builder import Builder
from tilepipe.emulator.codegen.registry import handles
from tilepipe.emulator.ptx.model import Instruction


@handles("add", "sub", "addc", "subc", "mul", "mad", "madc", "fma", "min", "max", "abs", "neg", "div", "rem")
def arithmetic(b: Builder, i: Instruction) -> None:
    if i.mods[-1] in half.HALVES:
        half.arithmetic(b, i)
        return
    kind = integer.kind_of(b, i)
    if kind.is_float:
        _float(b, i)
    elif i.op in ("add", "sub", "addc", "subc"):
        integer.add_sub(b, i, kind)
    elif i.op in ("mul", "mad", "madc"):
        integer.multiply(b, i, kind)
    elif i.op in ("div", "rem"):
        integer.divide(b, i, kind)
    elif i.op in ("min", "max"):
        x, y = b.read(i.operands[1], kind), b.read(i.operands[2], kind)
        b.write(i.operands[0], integer.minimum(b, i.op, kind, x, y), kind)
    else:
        x = b.read(i.operands[1], kind)
        negative = b.value(f"sub {kind.llvm} 0, {x}")
        if i.op == "abs":
            negative = integer.minimum(b, "max", kind, x, negative)
        b.write(i.operands[0], negative, kind)


def _float(b: Builder, i: Instruction) -> None:
    kind = integer.kind_of(b, i)
    if i.op in ("min", "max"):
        floating.extreme(b, i, kind)
    elif i.op in ("abs", "neg"):
        floating.sign(b, i, kind)
    elif i.op == "div":
        floating.divide(b, i, kind)
    else:
        floating.arithmetic(b, i, kind)


@handles("ex2", "lg2", "sin", "cos", "tanh")
def transcendental(b: Builder, i: Instruction) -> None:
    """The .approx functions, which we compute in double and round."""
    name = f"tp_{i.op}_f32"
    if i.mods[-1] != "f32":
        half.map_lanes(b, i, lambda x: b.call("float", name, f"float {x}"))
        return
    kind = integer.kind_of(b, i)
    value = floating.read_float(b, i, i.operands[1], kind)
    floating.write_float(b, i, b.call("float", name, f"float {value}"), kind)
