"""Integer arithmetic, logic, shifts and bit fields."""

from __future__ import annotations

from tilepipe.emulator.codegen.builder import PRED, U32, Builder
from tilepipe.emulator.codegen.registry import handles
from tilepipe.emulator.ptx.dataflow import CARRY
from tilepipe.emulator.ptx.model import Imm, Instruction, Reg
from tilepipe.emulator.types import TYPES, ScalarType


def kind_of(b: Builder, i: Instruction) -> ScalarType:
    """The type that ends the opcode."""
    return b.scalar_type(i.mods[-1])


def extend(b: Builder, value: str, kind: ScalarType, bits: int) -> str:
    """`value` of `kind`, sign- or zero-extended to `bits`."""
    if kind.bits == bits:
        return value
    return b.value(f"{'sext' if kind.is_signed else 'zext'} {kind.llvm_int} {value} to i{bits}")


def minimum(b: Builder, op: str, kind: ScalarType, x: str, y: str) -> str:
    """Integer min or max."""
    name = f"llvm.{'s' if kind.is_signed else 'u'}{op}.{kind.llvm}"
    return b.call(kind.llvm, name, f"{kind.llvm} {x}", f"{kind.llvm} {y}")


def add_sub(b: Builder, i: Instruction, kind: ScalarType) -> None:
    x, y = b.read(i.operands[1], kind), b.read(i.operands[2], kind)
    if i.op in ("addc", "subc") or "cc" in i.mods:
        add_with_carry(b, i, kind, x, y)
        return
    if "sat" in i.mods:
        result = b.call(kind.llvm, f"llvm.s{i.op}.sat.{kind.llvm}", f"{kind.llvm} {x}", f"{kind.llvm} {y}")
    else:
        result = b.value(f"{i.op} {kind.llvm} {x}, {y}")
    b.write(i.operands[0], result, kind)


def add_with_carry(b: Builder, i: Instruction, kind: ScalarType, x: str, y: str) -> None:
    """add.cc, addc, sub.cc and subc in twice the width; the carry (or borrow) is the bit above."""
    wide = f"i{kind.bits + 1}"
    verb = "add" if i.op.startswith("add") else "sub"
    x, y = (b.value(f"zext {kind.llvm_int} {v} to {wide}") for v in (x, y))
    result = b.value(f"{verb} {wide} {x}, {y}")
    if i.op.endswith("c"):
        carry = b.value(f"zext i1 {b.read(Reg(CARRY), PRED)} to {wide}")
        result = b.value(f"{verb} {wide} {result}, {carry}")
    if "cc" in i.mods:
        high = b.value(f"lshr {wide} {result}, {kind.bits}")
        b.write(Reg(CARRY), b.value(f"trunc {wide} {high} to i1"), PRED)
    b.write(i.operands[0], b.value(f"trunc {wide} {result} to {kind.llvm_int}"), kind)


def multiply(b: Builder, i: Instruction, kind: ScalarType) -> None:
    """mul and mad with .lo, .hi and .wide, and their carry forms."""
    x, y = b.read(i.operands[1], kind), b.read(i.operands[2], kind)
    result_kind = kind
    if "wide" in i.mods or "hi" in i.mods:
        bits = 2 * kind.bits
        product = b.value(f"mul i{bits} {extend(b, x, kind, bits)}, {extend(b, y, kind, bits)}")
        if "wide" in i.mods:
            result_kind = TYPES[f"{kind.kind}{bits}"]
        else:
            high = b.value(f"lshr i{bits} {product}, {kind.bits}")
            product = b.value(f"trunc i{bits} {high} to {kind.llvm}")
    else:
        product = b.value(f"mul {kind.llvm} {x}, {y}")
    if i.op != "mul":
        addend = b.read(i.operands[3], result_kind)
        if i.op == "madc" or "cc" in i.mods:
            op = "addc" if i.op == "madc" else "add"
            add_with_carry(b, Instruction(op, i.mods, i.operands, i.place), result_kind, product, addend)
            return
        if "sat" in i.mods:
            operands = (f"{kind.llvm} {product}", f"{kind.llvm} {addend}")
            product = b.call(kind.llvm, f"llvm.sadd.sat.{kind.llvm}", *operands)
        else:
            product = b.value(f"add {result_kind.llvm} {product}, {addend}")
    b.write(i.operands[0], product, result_kind)


@handles("mul24", "mad24")
def multiply24(b: Builder, i: Instruction) -> None:
    kind = kind_of(b, i)
    shift = "ashr" if kind.is_signed else "lshr"
    factors = []
    for operand in i.operands[1:3]:
        up = b.value(f"shl i32 {b.read(operand, kind)}, 8")
        low = b.value(f"{shift} i32 {up}, 8")
        factors.append(extend(b, low, kind, 64))
    product = b.value(f"mul i64 {factors[0]}, {factors[1]}")
    if "hi" in i.mods:
        product = b.value(f"lshr i64 {product}, 16")
    result = b.value(f"trunc i64 {product} to i32")
    if i.op == "mad24":
        result = b.value(f"add i32 {result}, {b.read(i.operands[3], kind)}")
    b.write(i.operands[0], result, kind)


def divide(b: Builder, i: Instruction, kind: ScalarType) -> None:
    """Division by zero gives all ones (remainder: the dividend), and MIN / -1 wraps, instead of trapping."""
    x, y = b.read(i.operands[1], kind), b.read(i.operands[2], kind)
    bad = b.value(f"icmp eq {kind.llvm} {y}, 0")
    if kind.is_signed:
        negative = b.value(f"sub {kind.llvm} 0, {x}")
        minus_one = b.value(f"icmp eq {kind.llvm} {y}, -1")
        special = b.value(
            f"select i1 {minus_one}, {kind.llvm} {negative if i.op == 'div' else 0}, {kind.llvm} -1"
        )
        avoid = b.value(f"or i1 {bad}, {minus_one}")
    else:
        special, avoid = "-1", bad
    if i.op == "rem":
        special = b.value(f"select i1 {bad}, {kind.llvm} {x}, {kind.llvm} {special if kind.is_signed else 0}")
    safe = b.value(f"select i1 {avoid}, {kind.llvm} 1, {kind.llvm} {y}")
    result = b.value(f"{'s' if kind.is_signed else 'u'}{i.op} {kind.llvm} {x}, {safe}")
    b.write(i.operands[0], b.value(f"select i1 {avoid}, {kind.llvm} {special}, {kind.llvm} {result}"), kind)


@handles("sad")
def sum_of_differences(b: Builder, i: Instruction) -> None:
    kind = kind_of(b, i)
    x, y, z = (b.read(o, kind) for o in i.operands[1:4])
    high, low = minimum(b, "max", kind, x, y), minimum(b, "min", kind, x, y)
    difference = b.value(f"sub {kind.llvm} {high}, {low}")
    b.write(i.operands[0], b.value(f"add {kind.llvm} {z}, {difference}"), kind)


@handles("and", "or", "xor")
def logic(b: Builder, i: Instruction) -> None:
    kind = kind_of(b, i)
    x, y = b.read(i.operands[1], kind), b.read(i.operands[2], kind)
    b.write(i.operands[0], b.value(f"{i.op} {kind.llvm} {x}, {y}"), kind)


@handles("not", "cnot")
def invert(b: Builder, i: Instruction) -> None:
    kind = kind_of(b, i)
    x = b.read(i.operands[1], kind)
    if i.op == "not":
        result = b.value(f"xor {kind.llvm} {x}, -1")
    else:
        result = b.value(f"zext i1 {b.value(f'icmp eq {kind.llvm} {x}, 0')} to {kind.llvm}")
    b.write(i.operands[0], result, kind)


@handles("shl", "shr")
def shift(b: Builder, i: Instruction) -> None:
    """Shift amounts are unsigned 32-bit and clamp at the width."""
    kind = kind_of(b, i)
    x, amount = b.read(i.operands[1], kind), b.read(i.operands[2], U32)
    clamped = minimum(b, "min", U32, amount, str(kind.bits - 1))
    if kind.bits != 32:
        clamped = b.value(f"{'zext' if kind.bits > 32 else 'trunc'} i32 {clamped} to {kind.llvm}")
    if i.op == "shr" and kind.is_signed:
        result = b.value(f"ashr {kind.llvm} {x}, {clamped}")
    else:
        shifted = b.value(f"{'shl' if i.op == 'shl' else 'lshr'} {kind.llvm} {x}, {clamped}")
        gone = b.value(f"icmp uge i32 {amount}, {kind.bits}")
        result = b.value(f"select i1 {gone}, {kind.llvm} 0, {kind.llvm} {shifted}")
    b.write(i.operands[0], result, kind)


@handles("shf")
def funnel_shift(b: Builder, i: Instruction) -> None:
    """shf.l/.r over b:a; .wrap takes the amount modulo 32, .clamp at most 32."""
    low, high, amount = (b.read(o, U32) for o in i.operands[1:4])
    if "wrap" in i.mods:
        amount = b.value(f"and i32 {amount}, 31")
    else:
        amount = minimum(b, "min", U32, amount, "32")
    amount = b.value(f"zext i32 {amount} to i64")
    high = b.value(f"shl i64 {b.value(f'zext i32 {high} to i64')}, 32")
    both = b.value(f"or i64 {high}, {b.value(f'zext i32 {low} to i64')}")
    if "l" in i.mods:
        both = b.value(f"lshr i64 {b.value(f'shl i64 {both}, {amount}')}, 32")
    else:
        both = b.value(f"lshr i64 {both}, {amount}")
    b.write(i.operands[0], b.value(f"trunc i64 {both} to i32"), U32)


@handles("lop3")
def logic3(b: Builder, i: Instruction) -> None:
    """Any function of three bits: the OR of the minterms that the table names."""
    if not isinstance(i.operands[-1], Imm) or len(i.operands) != 5:
        raise b.unsupported(f"{i.text} in this form")
    table = i.operands[-1].value
    true = [b.read(o, U32) for o in i.operands[1:4]]
    false = [b.value(f"xor i32 {v}, -1") for v in true]
    result = "0"
    for row in range(8):
        if table >> row & 1:
            x, y, z = ((true if row >> (2 - k) & 1 else false)[k] for k in range(3))
            pair = b.value(f"and i32 {x}, {y}")
            result = b.value(f"or i32 {result}, {b.value(f'and i32 {pair}, {z}')}")
    b.write(i.operands[0], result, U32)


@handles("bfe")
def extract_bits(b: Builder, i: Instruction) -> None:
    kind = kind_of(b, i)
    wide = b.value(f"zext {kind.llvm} {b.read(i.operands[1], kind)} to i64") if kind.bits == 32 else ""
    wide = wide or b.read(i.operands[1], kind)
    position, length = (f"i32 {b.read(o, U32)}" for o in i.operands[2:4])
    result = b.call(
        "i64", "tp_bfe", f"i64 {wide}", position, length, f"i32 {kind.bits}", f"i32 {int(kind.is_signed)}"
    )
    b.write(i.operands[0], result, TYPES["b64"])


@handles("bfi")
def insert_bits(b: Builder, i: Instruction) -> None:
    kind = kind_of(b, i)
    sources = [b.read(o, kind) for o in i.operands[1:3]]
    if kind.bits == 32:
        sources = [b.value(f"zext i32 {s} to i64") for s in sources]
    position, length = (f"i32 {b.read(o, U32)}" for o in i.operands[3:5])
    result = b.call(
        "i64", "tp_bfi", f"i64 {sources[0]}", f"i64 {sources[1]}", position, length, f"i32 {kind.bits}"
    )
    b.write(i.operands[0], result, TYPES["b64"])


@handles("clz", "popc", "brev", "bfind")
def count_bits(b: Builder, i: Instruction) -> None:
    kind = kind_of(b, i)
    x = b.read(i.operands[1], kind)
    if i.op == "brev":
        b.write(i.operands[0], b.call(kind.llvm, f"llvm.bitreverse.{kind.llvm}", f"{kind.llvm} {x}"), kind)
        return
    if i.op == "popc":
        result = b.call(kind.llvm, f"llvm.ctpop.{kind.llvm}", f"{kind.llvm} {x}")
    else:
        if i.op == "bfind" and kind.is_signed:
            x = b.value(f"xor {kind.llvm} {x}, {b.value(f'ashr {kind.llvm} {x}, {kind.bits - 1}')}")
        result = b.call(kind.llvm, f"llvm.ctlz.{kind.llvm}", f"{kind.llvm} {x}", "i1 false")
    if i.op == "bfind":
        none = b.value(f"icmp eq {kind.llvm} {x}, 0")
        if "shiftamt" not in i.mods:
            result = b.value(f"sub {kind.llvm} {kind.bits - 1}, {result}")
        result = b.value(f"select i1 {none}, {kind.llvm} -1, {kind.llvm} {result}")
    b.write(i.operands[0], b.value(f"trunc i64 {result} to i32") if kind.bits == 64 else result, U32)


@handles("prmt")
def permute_bytes(b: Builder, i: Instruction) -> None:
    if i.mods != ("b32",):
        raise b.unsupported(i.text)
    x, y, selector = (f"i32 {b.read(o, U32)}" for o in i.operands[1:4])
    b.write(i.operands[0], b.call("i32", "tp_prmt", x, y, selector), U32)


@handles("dp4a", "dp2a")
def dot_product(b: Builder, i: Instruction) -> None:
    """Sums of four 8-bit products (dp2a: two of 16 by 8 bits, from the low or high half of b)."""
    left, right = (b.scalar_type(m) for m in i.mods[-2:])
    x, y, total = b.read(i.operands[1], U32), b.read(i.operands[2], U32), b.read(i.operands[3], U32)
    terms, width = (4, 8) if i.op == "dp4a" else (2, 16)
    base = 16 if "hi" in i.mods else 0

    def part(word: str, at: int, bits: int, signed: bool) -> str:
        narrow = b.value(f"trunc i32 {b.value(f'lshr i32 {word}, {at}')} to i{bits}")
        return b.value(f"{'sext' if signed else 'zext'} i{bits} {narrow} to i32")

    for k in range(terms):
        p = part(x, k * width, width, left.is_signed)
        q = part(y, base + k * 8, 8, right.is_signed)
        total = b.value(f"add i32 {total}, {b.value(f'mul i32 {p}, {q}')}")
    b.count_math(terms)
    b.write(i.operands[0], total, U32)
