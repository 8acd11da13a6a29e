"""Warp collectives and barriers as records for the runtime: what each does, and where its operands lie."""

from __future__ import annotations

import re
from collections.abc import Callable

from tilepipe.emulator import layout
from tilepipe.emulator.codegen.builder import Builder, items
from tilepipe.emulator.codegen.memory import memory_operand, space_of
from tilepipe.emulator.codegen.registry import known_form
from tilepipe.emulator.ptx.model import Imm, Instruction, Operand, Reg

# The numbers of `runtime/collectives.h`.
_OPS = {
    name: n + 1
    for n, name in enumerate(
        [
            "shfl",
            "vote",
            "match",
            "redux",
            "activemask",
            "warpsync",
            "ldmatrix",
            "movmatrix",
            "mma",
            "wmma_load",
            "wmma_mma",
            "wmma_store",
            "barrier",
            "yield",
            "phase_test",
        ]
    )
}
# The numbers of `runtime/tensor.h`.
_ELEMENTS = {name: n for n, name in enumerate(["f16", "bf16", "tf32", "f32", "f64", "s8", "u8", "s32"])}
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)$")
# mma.sync shapes of sm_80 by input type.
_MMA_SHAPES = {
    "f16": {(16, 8, 8), (16, 8, 16)},
    "bf16": {(16, 8, 8), (16, 8, 16)},
    "tf32": {(16, 8, 4), (16, 8, 8)},
    "f64": {(8, 8, 4)},
    "s8": {(8, 8, 16), (16, 8, 16), (16, 8, 32)},
    "u8": {(8, 8, 16), (16, 8, 16), (16, 8, 32)},
}
_WMMA_SHAPES = {(16, 16, 16), (8, 32, 16), (32, 8, 16), (16, 16, 8), (8, 8, 4)}

SlotOf = Callable[[Reg], int]


def split_kind(i: Instruction) -> int:
    """How the instruction stops a thread: a `layout.AT_…` number, or 0 when it does not."""
    if i.op in ("bar", "barrier"):
        if i.mods[:1] == ("warp",):
            return layout.AT_COLLECTIVE
        return 0 if "arrive" in i.mods else layout.AT_BARRIER
    if i.op == "nanosleep" or (i.op == "mbarrier" and i.mods[:1] in (("test_wait",), ("try_wait",))):
        return layout.AT_YIELD
    names = ("shfl", "vote", "match", "redux", "activemask", "ldmatrix", "movmatrix", "mma", "wmma")
    return layout.AT_COLLECTIVE if i.op in names else 0


def is_whole_warp(i: Instruction) -> bool:
    """Collectives that need all 32 lanes; consecutive ones run as one stop."""
    return i.op in ("ldmatrix", "movmatrix", "mma", "wmma")


class Recorder:
    """Fills one `layout.Collective`."""

    def __init__(self, b: Builder, i: Instruction, slot_of: SlotOf) -> None:
        self.b, self.i, self.slot_of = b, i, slot_of
        self.record = layout.Collective(site=b.site())

    def operand(self, operand: Operand) -> layout.Operand:
        if isinstance(operand, Imm):
            return layout.Operand(1, 0, operand.value & 0xFFFFFFFFFFFFFFFF)
        if isinstance(operand, Reg):
            if not operand.name:
                return layout.Operand(1, 0, 0)
            return layout.Operand(0, self.slot_of(operand), 0)
        raise self.b.unsupported(f"{self.i.text} with such an operand")

    def fill(self, op: str, operands: list[Operand], *parameters: int, mask: Operand | None = None) -> None:
        r = self.record
        if len(operands) > layout.MAX_OPERANDS:
            raise self.b.unsupported(f"{self.i.text}: too many operands")
        r.op, r.count = _OPS[op], len(operands)
        for n, p in enumerate(parameters):
            r.p[n] = p & 0xFFFFFFFF
        for n, operand in enumerate(operands):
            r.operands[n] = self.operand(operand)
        if mask is not None:
            r.mask = self.operand(mask)


def record(b: Builder, i: Instruction, slot_of: SlotOf) -> layout.Collective:
    """The record of a collective, a barrier or a yield; raises `Unsupported` for forms we do not run."""
    r = Recorder(b, i, slot_of)
    name = "warpsync" if i.mods[:1] == ("warp",) else {"barrier": "bar"}.get(i.op, i.op)
    with known_form(b, i):
        _RECORDERS[name](r)
    return r.record


def _shfl(r: Recorder) -> None:
    mods, operands = r.i.mods, r.i.operands
    if mods[0] != "sync" or len(operands) != 5:
        raise r.b.unsupported(r.i.text)
    mode = ("up", "down", "bfly", "idx").index(mods[1])
    destinations = list(items(operands[0]))
    r.fill("shfl", [*destinations, *operands[1:4]], mode, len(destinations) - 1, mask=operands[4])


def _vote(r: Recorder) -> None:
    mods, operands = r.i.mods, r.i.operands
    if mods[0] != "sync":
        raise r.b.unsupported(r.i.text)
    mode = ("all", "any", "uni", "ballot").index(mods[1])
    source = operands[1]
    negated = int(isinstance(source, Reg) and source.negated)
    r.fill("vote", [operands[0], source], mode, negated, mask=operands[2])


def _match(r: Recorder) -> None:
    mods, operands = r.i.mods, r.i.operands
    destinations = list(items(operands[0]))
    size = r.b.scalar_type(mods[-1]).bytes
    mode = ("any", "all").index(mods[0])
    r.fill("match", [*destinations, operands[1]], mode, len(destinations) - 1, size, mask=operands[2])


def _redux(r: Recorder) -> None:
    mods, operands = r.i.mods, r.i.operands
    if mods[-1] not in ("s32", "u32", "b32"):
        raise r.b.unsupported(r.i.text)
    mode = ("add", "min", "max", "and", "or", "xor").index(mods[1])
    r.fill("redux", list(operands[:2]), mode, int(mods[-1] == "s32"), mask=operands[2])


def _activemask(r: Recorder) -> None:
    r.fill("activemask", [r.i.operands[0]])


def _warpsync(r: Recorder) -> None:
    r.fill("warpsync", [], mask=r.i.operands[0])


def _ldmatrix(r: Recorder) -> None:
    mods = r.i.mods
    count = next((int(m[1:]) for m in mods if m in ("x1", "x2", "x4")), 0)
    if not count or "m8n8" not in mods or mods[-1] != "b16":
        raise r.b.unsupported(r.i.text)
    mem = memory_operand(r.b, r.i.operands[1])
    base, offset = _base(r, mem.base, mem.offset)
    generic = int(space_of(r.i) == "generic")
    r.fill("ldmatrix", [*items(r.i.operands[0]), base], count, int("trans" in mods), generic, offset)


def _movmatrix(r: Recorder) -> None:
    r.fill("movmatrix", list(r.i.operands))


def _base(r: Recorder, base: Operand, offset: int) -> tuple[Operand, int]:
    """A variable's name as base becomes an immediate."""
    if isinstance(base, (Reg, Imm)):
        return base, offset
    name = getattr(base, "name", "")
    if name not in r.b.addresses.shared:
        raise r.b.unsupported(f"{r.i.text} at {name}")
    return Imm(r.b.addresses.shared[name]), offset


def _shape(r: Recorder) -> tuple[int, int, int]:
    for m in r.i.mods:
        match = _SHAPE.match(m)
        if match:
            return int(match[1]), int(match[2]), int(match[3])
    raise r.b.unsupported(r.i.text)


def _unsigned_bits(left: str, right: str) -> int:
    return int(left == "u8") | int(right == "u8") << 1


def _mma(r: Recorder) -> None:
    mods, shape = r.i.mods, _shape(r)
    types = [m for m in mods if m in _ELEMENTS]
    plain = not any(m.startswith(("sp", "kind", "xor", "and")) for m in mods)
    known = len(types) == 4 and types[1] in _MMA_SHAPES and shape in _MMA_SHAPES[types[1]]
    if not (plain and known and "row" in mods and "col" in mods):
        raise r.b.unsupported(r.i.text)
    d, a, b_, c = types
    operands = [x for o in r.i.operands for x in items(o)]
    base = "s8" if a == "u8" else a  # the sign of each side is told apart
    numbers = (_ELEMENTS[base], _ELEMENTS[d], _ELEMENTS[c], _unsigned_bits(a, b_), int("satfinite" in mods))
    r.fill("mma", operands, *shape, *numbers)


def _wmma(r: Recorder) -> None:
    if _shape(r) not in _WMMA_SHAPES:
        raise r.b.unsupported(r.i.text)
    {"load": _wmma_load, "store": _wmma_store, "mma": _wmma_mma}[r.i.mods[0]](r)


def _wmma_load(r: Recorder) -> None:
    m, n, k = _shape(r)
    rows, columns = {"a": (m, k), "b": (k, n), "c": (m, n)}[r.i.mods[1]]
    accumulator = r.i.mods[1] == "c"
    data, address, *stride = r.i.operands
    _wmma_move(r, (rows, columns), accumulator, data, (address, *stride))


def _wmma_store(r: Recorder) -> None:
    m, n, _ = _shape(r)
    address, data, *stride = r.i.operands
    _wmma_move(r, (m, n), True, data, (address, *stride))


def _wmma_move(
    r: Recorder, shape: tuple[int, int], accumulator: bool, data: Operand, place: tuple[Operand, ...]
) -> None:
    """`place` is the address and, if given, the stride in elements."""
    (rows, columns), address = shape, place[0]
    mods = r.i.mods
    column_major = "col" in mods
    if mods[-1] not in _ELEMENTS:
        raise r.b.unsupported(r.i.text)
    mem = memory_operand(r.b, address)
    base, offset = _base(r, mem.base, mem.offset)
    space = {"shared": 0, "global": 1, "generic": 2}[space_of(r.i)]
    ld = place[1] if len(place) > 1 else Imm(rows if column_major else columns)
    numbers = (_ELEMENTS[mods[-1]], int(column_major), space, offset, int(accumulator))
    r.fill(f"wmma_{mods[0]}", [*items(data), base, ld], rows, columns, *numbers)


def _wmma_mma(r: Recorder) -> None:
    mods, shape = r.i.mods, _shape(r)
    at = next(n for n, m in enumerate(mods) if _SHAPE.match(m))
    layouts = [m for m in mods[:at] if m in ("row", "col")]
    types = [m for m in mods[at + 1 :] if m in _ELEMENTS]
    if len(types) == 2 and set(types) <= {"f16", "f32"}:
        types = [types[0], "f16", "f16", types[1]]  # the f16 form names only d and c
    if len(types) != 4 or len(layouts) != 2:
        raise r.b.unsupported(r.i.text)
    d, a, b_, c = types
    if "u8" in (a, b_) and a != b_:
        raise r.b.unsupported(r.i.text)
    parts = [list(items(o)) for o in r.i.operands]
    columns = int(layouts[0] == "col") | int(layouts[1] == "col") << 1
    counts = len(parts[1]) << 8 | len(parts[2]) << 16 | len(parts[3]) << 24 | int("satfinite" in mods)
    numbers = (_ELEMENTS[a], _ELEMENTS[d], _ELEMENTS[c], columns, counts)
    r.fill("wmma_mma", [x for p in parts for x in p], *shape, *numbers)


def _barrier(r: Recorder) -> None:
    """bar.sync a{, b}; bar.red.op d, a{, b}, p."""
    mods, operands = r.i.mods, list(r.i.operands)
    none: Operand = Imm(0)
    destination, source, reduction, negated = none, none, 0, 0
    if "red" in mods:
        destination, source = operands.pop(0), operands.pop()
        reduction = 1 + next(n for n, m in enumerate(("popc", "and", "or")) if m in mods)
        negated = int(isinstance(source, Reg) and source.negated)
    elif "sync" not in mods:
        raise r.b.unsupported(r.i.text)
    count = operands[1] if len(operands) > 1 else none
    aligned = int(r.i.op == "bar" or "aligned" in mods)
    numbers = (reduction, negated, aligned, int(len(operands) > 1))
    r.fill("barrier", [operands[0], count, destination, source], *numbers)


def _yield(r: Recorder) -> None:
    r.fill("yield", [])


def _phase_test(r: Recorder) -> None:
    """mbarrier.test_wait{.parity} p, [address], token or parity."""
    mods, (destination, address, token, *hint) = r.i.mods, r.i.operands
    del hint  # how long try_wait may suspend the thread
    mem = memory_operand(r.b, address)
    base, offset = _base(r, mem.base, mem.offset)
    generic = int(space_of(r.i) == "generic")
    r.fill("phase_test", [destination, base, token], int("parity" in mods), generic, offset)


_RECORDERS: dict[str, Callable[[Recorder], None]] = {
    "shfl": _shfl,
    "vote": _vote,
    "match": _match,
    "redux": _redux,
    "activemask": _activemask,
    "warpsync": _warpsync,
    "ldmatrix": _ldmatrix,
    "movmatrix": _movmatrix,
    "mma": _mma,
    "wmma": _wmma,
    "bar": _barrier,
    "nanosleep": _yield,
    "mbarrier": _phase_test,
}
