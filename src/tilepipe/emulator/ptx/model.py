"""A parsed PTX module as data."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilepipe.emulator.types import ScalarType


@dataclass(frozen=True)
class Reg:
    """A register, named uniquely within its function; `_` (a result nobody wants) has the empty name."""

    name: str
    negated: bool = False


@dataclass(frozen=True)
class Imm:
    """An integer literal, or the bits of a float literal whose own width is `float_bits` (0 for integers)."""

    value: int
    float_bits: int = 0


@dataclass(frozen=True)
class Sym:
    """A name that is not a register: a variable, a function, a label or a special register."""

    name: str


@dataclass(frozen=True)
class Mem:
    """`[base + offset]`."""

    base: Reg | Sym | Imm
    offset: int = 0


@dataclass(frozen=True)
class Vec:
    """`{a, b, …}`, `p|q`, or the parenthesised lists of a call."""

    items: tuple[Operand, ...]


Operand = Reg | Imm | Sym | Mem | Vec


@dataclass(frozen=True)
class Place:
    """Where an instruction comes from: its PTX line, and the source line if the PTX has line information. Within
    an inlined function `call_line` is the line of its call."""

    ptx_line: int
    source_line: int = 0
    call_line: int = 0


@dataclass(frozen=True)
class Instruction:
    """`@guard opcode.modifiers operands`; `mods` holds the parts after the first, without dots."""

    op: str
    mods: tuple[str, ...]
    operands: tuple[Operand, ...]
    place: Place
    guard: Reg | None = None

    @property
    def text(self) -> str:
        return ".".join((self.op, *self.mods))


@dataclass(frozen=True)
class Label:
    name: str


@dataclass(frozen=True)
class Variable:
    """A declared variable: `size` bytes (0 for an unsized extern array), with initial bytes if it has any.

    `pointing`: it is initialised with addresses, which nothing here can lay out."""

    name: str
    space: str
    align: int
    size: int
    initial: bytes = b""
    pointing: bool = False


@dataclass
class Function:
    """A kernel or a device function. `registers` maps unique register names to their declared types; `notes`
    tell the user what is left out."""

    name: str
    is_kernel: bool
    parameters: list[Variable] = field(default_factory=list)
    results: list[Variable] = field(default_factory=list)
    registers: dict[str, ScalarType] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    body: list[Instruction | Label] = field(default_factory=list)
    has_body: bool = True
    notes: list[str] = field(default_factory=list)


@dataclass
class Module:
    """Everything in one PTX text."""

    functions: dict[str, Function] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    has_lines: bool = False


class Unsupported(Exception):
    """PTX that the emulator does not execute. `load_program` turns it into a `Refusal`; it never escapes."""

    def __init__(self, what: str, line: int = 0) -> None:
        super().__init__(what)
        self.what = what
        self.line = line
