"""Writes LLVM IR text for one kernel: operands in, instructions out, counters, sites."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilepipe.emulator import layout
from tilepipe.emulator.ptx.dataflow import CARRY
from tilepipe.emulator.ptx.model import (
    Function,
    Imm,
    Instruction,
    Mem,
    Operand,
    Place,
    Reg,
    Sym,
    Unsupported,
    Vec,
)
from tilepipe.emulator.types import TYPES, ScalarType

PRED = TYPES["pred"]
U32 = TYPES["u32"]
U64 = TYPES["u64"]

_THREAD_REGISTERS = {"%tid.x": "x", "%tid.y": "y", "%tid.z": "z", "%laneid": "lane", "%warpid": "warp"}
_BLOCK_REGISTERS = {
    **{f"%ntid.{d}": ("block_dim", i) for i, d in enumerate("xyz")},
    **{f"%nctaid.{d}": ("grid_dim", i) for i, d in enumerate("xyz")},
    **{f"%ctaid.{d}": ("block_id", i) for i, d in enumerate("xyz")},
    "%dynamic_smem_size": ("dynamic_bytes", 0),
    "%total_smem_size": ("total_bytes", 0),
}
_CONSTANT_REGISTERS = {"WARP_SZ": 32, "%smid": 0, "%nsmid": 1, "%gridid": 0, "%is_explicit_cluster": 0}


@dataclass
class Addresses:
    """Where variables live: shared and local ones by offset, global and constant ones by host address."""

    shared: dict[str, int] = field(default_factory=dict)
    local: dict[str, int] = field(default_factory=dict)
    host: dict[str, int] = field(default_factory=dict)
    parameters: dict[str, int] = field(default_factory=dict)


class Builder:
    """State of one translation. `checks` selects the code with the memory model or the fast code, `profile`
    code that also logs every access of shared and global memory."""

    def __init__(self, function: Function, addresses: Addresses, checks: bool, profile: bool = False) -> None:
        self.function = function
        self.addresses = addresses
        self.checks = checks
        self.profile = profile
        self.lines: list[str] = []
        self.sites: list[Place] = [Place(0)]  # site 0: nowhere
        self.operations: list[str] = [""]  # opcodes, "wmma load" and the like among them, by site
        self.operation = ""
        self.externals: dict[str, str] = {}
        self.place = Place(0)
        self.storage = {name: _storage(t) for name, t in function.registers.items()}
        self.storage[CARRY] = "i1"
        self._temporaries = 0
        self._labels = 0
        self._math = 0
        self._loaded = 0
        self._site_of: dict[tuple[Place, str], int] = {}

    # -- text

    def emit(self, line: str) -> None:
        self.lines.append("  " + line)

    def value(self, expression: str) -> str:
        """A new temporary holding `expression`."""
        self._temporaries += 1
        self.lines.append(f"  %t{self._temporaries} = {expression}")
        return f"%t{self._temporaries}"

    def label(self, stem: str) -> str:
        self._labels += 1
        return f"{stem}{self._labels}"

    def start(self, label: str) -> None:
        self.lines.append(f'"{label}":')

    def branch(self, label: str) -> None:
        self.flush()
        self.emit(f'br label %"{label}"')

    def branch_if(self, condition: str, yes: str, no: str) -> None:
        self.flush()
        self.emit(f'br i1 {condition}, label %"{yes}", label %"{no}"')

    def call(self, result: str, name: str, *arguments: str) -> str:
        """Calls a runtime function or intrinsic; `arguments` are typed values ("i32 %x")."""
        types = ", ".join(a.split(" ", 1)[0] for a in arguments)
        self.externals[name] = f"declare {result} @{name}({types})"
        text = f"call {result} @{name}({', '.join(arguments)})"
        if result == "void":
            self.emit(text)
            return ""
        return self.value(text)

    # -- counters and sites

    def count_math(self, n: int) -> None:
        self._math += n

    def count_loaded(self, n: int) -> None:
        self._loaded += n

    def flush(self) -> None:
        """Adds the basic block's counts; called before every terminator."""
        for cell, n in (("%math", self._math), ("%loaded", self._loaded)):
            if n:
                old = self.value(f"load i64, ptr {cell}")
                new = self.value(f"add i64 {old}, {n}")
                self.emit(f"store i64 {new}, ptr {cell}")
        self._math = self._loaded = 0

    def at(self, i: Instruction) -> None:
        """What follows is the translation of `i`."""
        self.place = i.place
        self.operation = f"{i.op} {i.mods[0]}" if i.op == "wmma" else i.op

    def site(self, purpose: str = "") -> int:
        """The number of the current instruction in the table of places."""
        key = (self.place, purpose)
        if key not in self._site_of:
            self._site_of[key] = len(self.sites)
            self.sites.append(self.place)
            self.operations.append(self.operation)
            if len(self.sites) > 0xFFFF:
                raise self.unsupported("more than 65535 memory instructions")
        return self._site_of[key]

    def unsupported(self, what: str) -> Unsupported:
        return Unsupported(what, self.place.ptx_line)

    # -- registers and operands

    @staticmethod
    def cell(register: str) -> str:
        return '%"R' + register + '"'

    def read(self, operand: Operand, kind: ScalarType) -> str:
        """The operand as a value of LLVM type `kind.llvm`."""
        if isinstance(operand, Reg):
            return self._read_register(operand, kind)
        if isinstance(operand, Imm):
            return self.literal(operand, kind)
        if isinstance(operand, Sym):
            return self._resize(*self._symbol(operand.name), kind)
        if isinstance(operand, Mem):  # an address expression outside brackets
            return self.address(operand, kind)
        raise self.unsupported("a vector operand")

    def read_int(self, operand: Operand, kind: ScalarType) -> str:
        """The operand's bits as `kind.llvm_int`."""
        return self.read(operand, TYPES.get(f"b{kind.bits}", PRED))

    def _read_register(self, register: Reg, kind: ScalarType) -> str:
        storage = self.storage[register.name]
        value = self.value(f"load {storage}, ptr {self.cell(register.name)}")
        if register.negated:
            value = self.value(f"xor i1 {value}, true")
        return self._resize(value, storage, kind)

    def _resize(self, value: str, have: str, kind: ScalarType) -> str:
        """Reinterprets `value` of LLVM type `have` as `kind`: truncated or zero-extended bits."""
        want = kind.llvm
        if have == want:
            return value
        if have in ("float", "double"):
            bits = "i32" if have == "float" else "i64"
            value, have = self.value(f"bitcast {have} {value} to {bits}"), bits
        size, target = int(have[1:]), kind.bits
        if size != target:
            value = self.value(f"{'trunc' if size > target else 'zext'} {have} {value} to i{target}")
        return value if want == f"i{target}" else self.value(f"bitcast i{target} {value} to {want}")

    def literal(self, imm: Imm, kind: ScalarType) -> str:
        bits = imm.value
        if kind.is_float and imm.float_bits == 64 and kind.bits == 32:
            return self.value(f"fptrunc double bitcast (i64 {bits} to double) to float")
        bits &= (1 << kind.bits) - 1
        if kind.bits == 1:
            return "true" if bits else "false"
        return str(bits) if kind.llvm.startswith("i") else f"bitcast ({kind.llvm_int} {bits} to {kind.llvm})"

    def _symbol(self, name: str) -> tuple[str, str]:
        """Value and LLVM type of a special register or a variable's address."""
        where = self.addresses
        if name in _THREAD_REGISTERS:
            return self.load_field("%thread", layout.Thread, _THREAD_REGISTERS[name]), "i32"
        if name in _BLOCK_REGISTERS:
            array, index = _BLOCK_REGISTERS[name]
            return self.load_field("%block", layout.Block, array, index), "i32"
        if name in _CONSTANT_REGISTERS:
            return str(_CONSTANT_REGISTERS[name]), "i32"
        if name.startswith("%lanemask_"):
            return self._lane_mask(name.removeprefix("%lanemask_")), "i32"
        if name in ("%clock", "%clock64", "%globaltimer", "%globaltimer_lo"):
            return self._tick(), "i64"
        for table in (where.shared, where.local, where.host, where.parameters):
            if name in table:
                return str(table[name]), "i64"
        raise self.unsupported(f"name {name}")

    def _tick(self) -> str:
        """Clocks count how often the block has read a clock."""
        at = self.value(f"getelementptr i8, ptr %block, i64 {layout.offset(layout.Block, 'ticks')}")
        ticks = self.value(f"add i64 {self.value(f'load i64, ptr {at}')}, 1")
        self.emit(f"store i64 {ticks}, ptr {at}")
        return ticks

    def _lane_mask(self, which: str) -> str:
        lane = self.load_field("%thread", layout.Thread, "lane")
        bit = self.value(f"shl i32 1, {lane}")
        below = self.value(f"sub i32 {bit}, 1")
        if which == "eq":
            return bit
        if which in ("lt", "ge"):
            return below if which == "lt" else self.value(f"xor i32 {below}, -1")
        up_to = self.value(f"or i32 {bit}, {below}")
        if which in ("le", "gt"):
            return up_to if which == "le" else self.value(f"xor i32 {up_to}, -1")
        raise self.unsupported(f"%lanemask_{which}")

    def load_field(self, base: str, structure: type, name: str, index: int = 0) -> str:
        """A 32-bit field of the thread or block structure."""
        at = layout.offset(structure, name) + 4 * index
        pointer = self.value(f"getelementptr i8, ptr {base}, i64 {at}")
        return self.value(f"load i32, ptr {pointer}")

    def address(self, mem: Mem, kind: ScalarType) -> str:
        """Base plus offset, as an integer of `kind`."""
        base = self.read(mem.base, kind)
        return self.value(f"add {kind.llvm} {base}, {mem.offset}") if mem.offset else base

    def write(self, destination: Operand, value: str, kind: ScalarType) -> None:
        """Stores `value` (of `kind.llvm`) in a register, extended by its sign or truncated to the width."""
        if not isinstance(destination, Reg):
            raise self.unsupported("a destination that is not a register")
        if not destination.name:
            return
        storage, have = self.storage[destination.name], kind.llvm
        if storage != have:
            value = self._convert_for_storage(value, kind, storage)
        self.emit(f"store {storage} {value}, ptr {self.cell(destination.name)}")

    def _convert_for_storage(self, value: str, kind: ScalarType, storage: str) -> str:
        if kind.llvm in ("float", "double"):
            value = self.value(f"bitcast {kind.llvm} {value} to {kind.llvm_int}")
        target = {"float": 32, "double": 64}.get(storage) or int(storage[1:])
        if kind.bits != target:
            extend = "sext" if kind.is_signed else "zext"
            verb = extend if kind.bits < target else "trunc"
            value = self.value(f"{verb} {kind.llvm_int} {value} to i{target}")
        if storage in ("float", "double"):
            value = self.value(f"bitcast i{target} {value} to {storage}")
        return value

    def scalar_type(self, name: str) -> ScalarType:
        if name not in TYPES:
            raise self.unsupported(f"type .{name}")
        return TYPES[name]


def _storage(kind: ScalarType) -> str:
    return {"f32": "float", "f64": "double"}.get(kind.name, f"i{kind.bits}")


def items(operand: Operand) -> tuple[Operand, ...]:
    """The parts of a vector operand, or the operand alone."""
    return operand.items if isinstance(operand, Vec) else (operand,)


def last_type(i: Instruction) -> str:
    """The type name that ends most opcodes."""
    return i.mods[-1] if i.mods else ""
