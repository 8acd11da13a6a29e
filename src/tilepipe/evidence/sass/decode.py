"""Text of `nvdisasm -c -hex` → instructions with their control bits.

Every instruction of sm_75 … sm_121 is 128 bits wide and printed with its encoding on two lines, the low 64
bits first. Bits 105–125 hold what the hardware scheduler obeys: stall 105–108, yield 109, write barrier
110–112, read barrier 113–115 (7 means none), wait mask 116–121, reuse 122–125.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_FIRST = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;\s*(?:/\* 0x([0-9a-f]{16}) \*/)?\s*$")
_SECOND = re.compile(r"^\s*/\* 0x([0-9a-f]{16}) \*/\s*$")
_LABEL = re.compile(r"^\s*([.\w$@]+):\s*$")
_SECTION = re.compile(r"^\s*\.section\s+([^,\s]+)")
_TARGET = re.compile(r"`\(([^)]+)\)")
_TABLE = re.compile(r'\(\*"BRANCH_TARGETS ([^"]*)"\*\)')
_SOURCE = re.compile(r'^\s*//## File "([^"]*)", line (\d+)( inlined at)?')
_COMMA = re.compile(r",(?![^\[]*\])")
_NO_BARRIER = 7


@dataclass(frozen=True)
class Control:
    """The scheduler's bits of one instruction.

    `stall` is the number of cycles until the warp may issue again; `write_barrier` is the scoreboard that the
    result releases, `read_barrier` the one released once the operands are read (None: none); bit b of
    `wait_mask` holds the instruction back until scoreboard b is empty; `reuse` has one bit per operand slot.
    """

    stall: int
    yields: bool
    write_barrier: int | None
    read_barrier: int | None
    wait_mask: int
    reuse: int

    def waits_for(self, scoreboard: int | None) -> bool:
        """Whether the instruction waits for the scoreboard."""
        return scoreboard is not None and bool(self.wait_mask >> scoreboard & 1)

    def __str__(self) -> str:
        waits = "".join(str(b) if self.wait_mask >> b & 1 else "-" for b in range(6))
        read = "-" if self.read_barrier is None else str(self.read_barrier)
        write = "-" if self.write_barrier is None else str(self.write_barrier)
        return f"B{waits} R{read} W{write} {'Y' if self.yields else '-'} S{self.stall:02d}"


@dataclass(frozen=True, eq=False)  # one object a place in the code, compared and hashed as such
class Instruction:
    """One instruction. `address` is its byte offset in the function; `opcode` the mnemonic up to its first
    dot, `modifiers` what follows; `guard` the predicate (`P0`, `!UP1`) or None; `targets` the addresses that
    its label operands name (several for an indexed branch); `line` the line of the kernel's own file that it comes
    from, None where the listing has no line information."""

    address: int
    text: str
    opcode: str
    modifiers: tuple[str, ...]
    guard: str | None
    operands: tuple[str, ...]
    control: Control
    targets: tuple[int, ...] = ()
    line: int | None = None

    @property
    def never_runs(self) -> bool:
        """Guarded by the constant false, like the `@!PT LDS RZ` that ptxas puts before runs of LDGSTS."""
        return self.guard in ("!PT", "!UPT")

    @property
    def is_barrier(self) -> bool:
        """A barrier that the threads of the block wait at."""
        return self.opcode == "BAR" and bool({"SYNC", "RED"} & set(self.modifiers))


@dataclass(frozen=True)
class Function:
    """The code of one function; `labels` maps a label to its address."""

    name: str
    instructions: tuple[Instruction, ...]
    labels: Mapping[str, int] = field(default_factory=dict)


def decode_control(encoding: int) -> Control:
    """The control bits of a 128-bit encoding."""
    write, read = encoding >> 110 & 7, encoding >> 113 & 7
    return Control(
        stall=encoding >> 105 & 15,
        yields=not encoding >> 109 & 1,  # the bit is set where the warp keeps its slot
        write_barrier=None if write == _NO_BARRIER else write,
        read_barrier=None if read == _NO_BARRIER else read,
        wait_mask=encoding >> 116 & 63,
        reuse=encoding >> 122 & 15,
    )


def decode(text: str, only: str | None = None) -> dict[str, Function]:
    """The functions in a listing by (mangled) name, or `only` the one of that name.

    Instructions without an encoding on their lines (a listing made without `-hex`) are left out, so such a
    listing gives functions without instructions.
    """
    functions: dict[str, Function] = {}
    section = _Section("", only)
    for line in text.splitlines():
        if ".section" in line and (opened := _SECTION.match(line)):
            section.close(functions)
            section = _Section(opened[1], only)
        elif section.is_code:
            section.read(line)
    section.close(functions)
    return functions


class _Section:
    """Collects the lines of one `.text.NAME` section."""

    def __init__(self, name: str, only: str | None) -> None:
        self.name = name.removeprefix(".text.")
        self.is_code = name.startswith(".text.") and only in (None, self.name)
        self.rows: list[tuple[int, str, int, int | None]] = []  # address, text, encoding, source line
        self.labels: dict[str, int] = {}
        self.names_ahead: list[str] = []  # labels whose instruction has not come yet
        self.half: tuple[int, str, int] | None = None
        self.chain: list[tuple[str, int]] = []  # file and line, the innermost inlined function's first
        self.open = False  # whether the chain has its outermost place yet to come

    def read(self, line: str) -> None:
        if first := _FIRST.match(line):
            address = int(first[1], 16)
            self.labels.update(dict.fromkeys(self.names_ahead, address))
            self.names_ahead = []
            self.half = (address, " ".join(first[2].split()), int(first[3], 16)) if first[3] else None
        elif (second := _SECOND.match(line)) and self.half is not None:
            address, text, low = self.half
            self.rows.append((address, text, low | int(second[1], 16) << 64, self._source_line()))
            self.half = None
        elif source := _SOURCE.match(line):
            self.chain = [*(self.chain if self.open else []), (source[1], int(source[2]))]
            self.open = source[3] is not None
        elif label := _LABEL.match(line):
            self.names_ahead.append(label[1])

    def _source_line(self) -> int | None:
        """The innermost line in the file that the outermost one is in: the kernel's own, not a header's."""
        return next((line for file, line in self.chain if file == self.chain[-1][0]), None)

    def close(self, functions: dict[str, Function]) -> None:
        if not self.is_code:
            return
        code = tuple(_instruction(*row, labels=self.labels) for row in self.rows)
        functions[self.name] = Function(self.name, code, self.labels)


def _instruction(
    address: int, text: str, encoding: int, line: int | None, labels: Mapping[str, int]
) -> Instruction:
    names = _TARGET.findall(text)
    for table in _TABLE.findall(text):
        names += [name.strip() for name in table.split(",")]
    body = _TABLE.sub("", text).strip()
    guard = None
    if body.startswith("@"):
        guard, _, body = body[1:].partition(" ")
    mnemonic, _, rest = body.strip().partition(" ")
    opcode, *modifiers = mnemonic.split(".")
    operands = tuple(part.strip() for part in _COMMA.split(rest)) if rest.strip() else ()
    return Instruction(
        address=address,
        text=text,
        opcode=opcode,
        modifiers=tuple(modifiers),
        guard=guard,
        operands=operands,
        control=decode_control(encoding),
        targets=tuple(labels[name] for name in names if name in labels),
        line=line,
    )
