"""Loads, stores, atomics and asynchronous copies."""

from __future__ import annotations

from tilepipe.emulator.codegen.builder import PRED, U32, U64, Builder, items
from tilepipe.emulator.codegen.integer import kind_of
from tilepipe.emulator.codegen.registry import handles
from tilepipe.emulator.ptx.model import Imm, Instruction, Mem, Operand, Reg
from tilepipe.emulator.types import ScalarType

_SPACES = ("param", "shared", "global", "const", "local")
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}
_HINTS = ("L1::cache_hint", "L2::cache_hint")


def space_of(i: Instruction) -> str:
    """The state space, or "generic"."""
    bases = (m.partition("::")[0] for m in i.mods)
    return next((m for m in bases if m in _SPACES), "generic")


def memory_operand(b: Builder, operand: Operand) -> Mem:
    if not isinstance(operand, Mem):
        raise b.unsupported("an operand that is not an address")
    return operand


# How an access meets those of other blocks; the numbers of `runtime/types.h`.
TOUCH, WRITE, ATOMIC = range(3)
_STRONG = ("volatile", "relaxed", "release")  # stores meant to meet other threads' accesses


def store_kind(i: Instruction) -> int:
    return ATOMIC if any(m in _STRONG for m in i.mods) else WRITE


def pointer(b: Builder, mem: Mem, space: str, size: int, access: int) -> str:
    """The host pointer for `size` bytes at `mem`, checked."""
    thread, kind = "ptr %thread", f"i32 {access}"
    if space == "param":
        return b.value(f"getelementptr i8, ptr %parameters, i64 {b.address(mem, U64)}")
    if space == "shared":
        return shared_pointer(b, b.address(mem, U32), size, access != TOUCH)
    address, site = b.address(mem, U64), f"i32 {b.site()}"
    if space == "local":
        return b.call("ptr", "tp_local", thread, f"i64 {address}", f"i32 {size}", site)
    if space != "const":  # constants have a cache of their own
        log(b, address, f"{size}", is_global=True)
    if space == "generic":
        return b.call("ptr", "tp_generic", thread, f"i64 {address}", f"i32 {size}", site, kind)
    return b.call("ptr", "tp_global", thread, f"i64 {address}", f"i32 {size}", f"i32 {size}", site, kind)


def log(b: Builder, address: str, size: str, is_global: bool) -> None:
    """Where a profile is wanted, tells it of an access; `address` is a 64-bit value."""
    if b.profile:
        arguments = (f"i64 {address}", f"i32 {size}", f"i32 {b.site()}", f"i32 {int(is_global)}")
        b.call("void", "tp_log", "ptr %thread", *arguments)


def log_shared(b: Builder, address: str, size: str) -> None:
    """The same for a 32-bit shared address."""
    if b.profile:
        log(b, b.value(f"zext i32 {address} to i64"), size, is_global=False)


def shared_pointer(b: Builder, address: str, size: int, write: bool) -> str:
    """With checks, the memory model looks at the access; without, an address outside wraps to 0."""
    log_shared(b, address, f"{size}")
    if b.checks:
        name = f"tp_shared_{'store' if write else 'load'}_{size}"
        return b.call("ptr", name, "ptr %thread", f"i32 {address}", f"i32 {b.site()}")
    inside = b.value(f"icmp ult i32 {address}, %shared_bytes")
    clamped = b.value(f"select i1 {inside}, i32 {address}, i32 0")
    return b.value(f"getelementptr i8, ptr %shared, i64 {b.value(f'zext i32 {clamped} to i64')}")


def access_size(b: Builder, i: Instruction) -> tuple[ScalarType, int]:
    """Element type and count of a ld or st."""
    kind = kind_of(b, i)
    count = next((_VECTORS[m] for m in i.mods if m in _VECTORS), 1)
    if kind.bytes * count > 16:
        raise b.unsupported(f"{i.text}: accesses of more than 16 bytes")
    return kind, count


def refuse_hints(b: Builder, i: Instruction) -> None:
    if any(m in _HINTS for m in i.mods):
        raise b.unsupported(f"{i.text}: cache policies")


@handles("ld", "ldu")
def load(b: Builder, i: Instruction) -> None:
    refuse_hints(b, i)
    kind, count = access_size(b, i)
    space = space_of(i)
    where = pointer(b, memory_operand(b, i.operands[1]), space, kind.bytes * count, TOUCH)
    if space in ("global", "generic"):
        b.count_loaded(kind.bytes * count)
    if count == 1:
        b.write(i.operands[0], b.value(f"load {kind.llvm}, ptr {where}, align 1"), kind)
        return
    vector = b.value(f"load <{count} x {kind.llvm}>, ptr {where}, align 1")
    for n, destination in enumerate(items(i.operands[0])):
        b.write(destination, b.value(f"extractelement <{count} x {kind.llvm}> {vector}, i32 {n}"), kind)


@handles("st")
def store(b: Builder, i: Instruction) -> None:
    refuse_hints(b, i)
    kind, count = access_size(b, i)
    size = kind.bytes * count
    where = pointer(b, memory_operand(b, i.operands[0]), space_of(i), size, store_kind(i))
    values = [b.read(o, kind) for o in items(i.operands[1])]
    if count == 1:
        b.emit(f"store {kind.llvm} {values[0]}, ptr {where}, align 1")
        return
    vector = "poison"
    for n, value in enumerate(values):
        vector = b.value(f"insertelement <{count} x {kind.llvm}> {vector}, {kind.llvm} {value}, i32 {n}")
    b.emit(f"store <{count} x {kind.llvm}> {vector}, ptr {where}, align 1")


@handles("prefetch", "prefetchu", "membar", "fence")
def no_effect(b: Builder, i: Instruction) -> None:
    """Prefetches move no data that counts. Fences order what is already in order: threads of a block run one
    after the other, and fences do not synchronise threads, so the race model takes nothing from them."""


# The numbers of `runtime/atomics.h`.
_ATOMIC_OPS = {
    name: n for n, name in enumerate(["add", "and", "or", "xor", "min", "max", "exch", "cas", "inc", "dec"])
}
_ATOMIC_TYPES = {"f32": 2, "f64": 2, "f16x2": 3, "f16": 4, "bf16x2": 5, "bf16": 6}


@handles("atom", "red")
def atomic(b: Builder, i: Instruction) -> None:
    kind = kind_of(b, i)
    op = next((m for m in i.mods if m in _ATOMIC_OPS), None)
    is_float = kind.name in _ATOMIC_TYPES
    if op is None or kind.bits not in (16, 32, 64) or any(m in _VECTORS for m in i.mods):
        raise b.unsupported(i.text)
    if is_float and op != "add":
        raise b.unsupported(i.text)
    refuse_hints(b, i)
    result, *rest = i.operands if i.op == "atom" else (Reg(""), *i.operands)
    cell = atomic_pointer(b, i, memory_operand(b, rest[0]), kind)
    values = []
    for operand in rest[1:3]:
        value = b.read_int(operand, kind)
        values.append(b.value(f"zext {kind.llvm_int} {value} to i64") if kind.bits < 64 else value)
    values += ["0"] * (2 - len(values))
    type_number = _ATOMIC_TYPES.get(kind.name, int(kind.is_signed))
    arguments = (f"ptr {cell}", f"i32 {_ATOMIC_OPS[op]}", f"i32 {type_number}", *(f"i64 {v}" for v in values))
    old = b.call("i64", f"tp_atomic_{kind.bits}", *arguments)
    if kind.bits < 64:
        old = b.value(f"trunc i64 {old} to {kind.llvm_int}")
    if kind.llvm != kind.llvm_int:
        old = b.value(f"bitcast {kind.llvm_int} {old} to {kind.llvm}")
    b.write(result, old, kind)


def atomic_pointer(b: Builder, i: Instruction, mem: Mem, kind: ScalarType) -> str:
    space, size, site = space_of(i), f"i32 {kind.bytes}", f"i32 {b.site()}"
    if space == "shared":
        at = b.address(mem, U32)
        log_shared(b, at, f"{kind.bytes}")
        return b.call("ptr", "tp_shared_atomic", "ptr %thread", f"i32 {at}", size, site)
    if space == "generic":
        address = b.address(mem, U64)
        log(b, address, f"{kind.bytes}", is_global=True)
        return b.call("ptr", "tp_generic_atomic", "ptr %thread", f"i64 {address}", size, site)
    return pointer(b, mem, space, kind.bytes, ATOMIC)


@handles("cp")
def asynchronous_copy(b: Builder, i: Instruction) -> None:
    if i.mods[:1] != ("async",):
        raise b.unsupported(i.text)
    thread = "ptr %thread"
    if "mbarrier" in i.mods:
        cell, noinc = barrier_address(b, i, i.operands[0]), int("noinc" in i.mods)
        b.call("void", "tp_mbarrier_arrive_on_copies", thread, cell, f"i32 {noinc}", f"i32 {b.site()}")
        return
    if "commit_group" in i.mods:
        b.call("void", "tp_copy_commit", thread)
    elif "wait_group" in i.mods:
        b.call("void", "tp_copy_wait", thread, f"i32 {b.read(i.operands[0], U32)}", "i32 0")
    elif "wait_all" in i.mods:
        b.call("void", "tp_copy_wait", thread, "i32 0", "i32 1")
    else:
        issue_copy(b, i)


def issue_copy(b: Builder, i: Instruction) -> None:
    """cp.async.{ca,cg}.shared.global [dst], [src], size {, src-size | ignore-src} {, policy}."""
    operands = list(i.operands)
    if "L2::cache_hint" in i.mods:
        operands.pop()
    size = operands[2]
    if not isinstance(size, Imm) or size.value not in ((16,) if "cg" in i.mods else (4, 8, 16)):
        raise b.unsupported(f"{i.text} of this size")
    target = b.address(memory_operand(b, operands[0]), U32)
    source = b.address(memory_operand(b, operands[1]), U64)
    source_size = str(size.value)
    if len(operands) > 3:
        extra = operands[3]
        if isinstance(extra, Reg) and b.storage[extra.name] == "i1":
            source_size = b.value(f"select i1 {b.read(extra, PRED)}, i32 0, i32 {size.value}")
        else:
            source_size = b.read(extra, U32)
    log_shared(b, target, f"{size.value}")
    log(b, source, source_size, is_global=True)
    arguments = (
        f"i32 {target}",
        f"i64 {source}",
        f"i32 {size.value}",
        f"i32 {source_size}",
        f"i32 {b.site()}",
    )
    b.call("void", "tp_copy", "ptr %thread", *arguments)


def barrier_address(b: Builder, i: Instruction, operand: Operand) -> str:
    """The shared address of an mbarrier object, given in shared or generic space, as an argument."""
    mem = memory_operand(b, operand)
    if space_of(i) == "shared":
        return f"i32 {b.address(mem, U32)}"
    return f"i32 {b.value(f'trunc i64 {b.address(mem, U64)} to i32')}"


@handles("mbarrier")
def barrier_object(b: Builder, i: Instruction) -> None:
    """All but the waits, which are stops of the thread (`collective.py`)."""
    verb, thread, site = i.mods[0], "ptr %thread", f"i32 {b.site()}"
    if verb == "init":
        count = f"i32 {b.read(i.operands[1], U32)}"
        b.call("void", "tp_mbarrier_init", thread, barrier_address(b, i, i.operands[0]), count, site)
    elif verb == "inval":
        b.call("void", "tp_mbarrier_invalidate", thread, barrier_address(b, i, i.operands[0]), site)
    elif verb in ("arrive", "arrive_drop"):
        result, address, *rest = i.operands
        count = f"i32 {b.read(rest[0], U32) if rest else 1}"
        drop = f"i32 {int(verb == 'arrive_drop')}"
        cell = barrier_address(b, i, address)
        b.write(result, b.call("i64", "tp_mbarrier_arrive", thread, cell, count, drop, site), U64)
    elif verb == "pending_count":
        state = b.read(i.operands[1], U64)
        b.write(i.operands[0], b.value(f"and i64 {state}, {0xFFFFF}"), U64)
    else:
        raise b.unsupported(i.text)
