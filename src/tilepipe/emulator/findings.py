"""What the memory model caught, in words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace

from tilepipe.emulator import layout
from tilepipe.emulator.ptx.model import Place

# Kind and message by the runtime's number (`runtime/types.h`). {a} and {b} are the threads, {at} the address.
_KINDS = {
    1: ("write-read race", "thread {a} reads {at}, which {b} wrote with no barrier between"),
    2: ("read-write race", "thread {a} writes {at}, which {b} read with no barrier between"),
    3: ("write-write race", "thread {a} writes {at}, which {b} wrote with no barrier between"),
    4: ("read of in-flight copy", "thread {a} reads {at} while an asynchronous copy of {b} is still pending"),
    5: (
        "overwritten while pending",
        "thread {a} writes {at} while an asynchronous copy of {b} is still pending",
    ),
    6: ("pending at exit", "thread {a} exits with an asynchronous copy to {at} still pending"),
    7: ("uninitialised read", "thread {a} reads {at}, which nobody has written"),
    8: ("shared out of bounds", "thread {a} accesses {at}, outside the block's shared memory"),
    9: ("global out of bounds", "thread {a} accesses {at}, outside every array"),
    10: ("local out of bounds", "thread {a} accesses {at}, outside its local memory"),
    11: ("misaligned access", "thread {a} accesses {at} with too little alignment"),
    12: ("divergent barrier", "thread {a} waits at a barrier that {b} does not reach"),
    13: ("divergent warp instruction", "thread {a} runs a warp-wide instruction without {b}"),
    14: ("deadlock", "thread {a} waits for threads that never come"),
    15: ("non-terminating", "thread {a} is still running after the step limit (--max-steps)"),
    16: ("trap", "thread {a} {at}"),
    17: ("bad operand", "thread {a} gives an operand that the instruction does not allow"),
}
_SHARED_KINDS = (1, 2, 3, 4, 5, 6, 7, 8)
_TRAP = 16
_NEAR = 4096  # bytes from an array's ends


@dataclass(frozen=True)
class EmulatorFinding:
    """One kind of mistake at one pair of instructions, with its first occurrence.

    `lines` are source lines (PTX lines where the PTX has no line information): the access, then the other; `calls`
    has the line of the call for each that stands in an inlined function, else 0.
    `threads` are linear thread numbers, in the same order; `interval` counts the block's barriers from 0;
    `count` is the number of occurrences in the blocks that ran.
    """

    kind: str
    message: str
    lines: tuple[int, ...]
    where: str
    threads: tuple[int, ...]
    interval: int
    block: tuple[int, int, int]
    count: int
    calls: tuple[int, ...] = ()


@dataclass(frozen=True)
class Shape:
    """How a shared variable is declared: its dimensions, outermost first (0 where unknown), and the bytes of
    an element."""

    dimensions: tuple[int, ...]
    element: int


@dataclass(frozen=True)
class ArrayPlace:
    """A global array: where its allocation lies, the address that the kernel was given, bytes an element, and the
    parameter or variable that leads to it."""

    name: str
    start: int
    size: int
    pointer: int
    element: int
    symbol: str = ""

    def distance(self, address: int) -> int:
        """Bytes from the array's nearer end."""
        return min(abs(address - self.start), abs(address - self.start - self.size))


@dataclass(frozen=True)
class AddressBook:
    """Names for addresses: shared variables by offset and size with their shapes by plain name, arrays by host
    range, and what stands in the module's variables (the texts of assertions)."""

    shared: tuple[tuple[str, int, int], ...]
    arrays: tuple[ArrayPlace, ...]
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    texts: tuple[tuple[int, bytes], ...] = ()

    def shared_variable(self, address: int) -> str:
        """The variable at a shared address, or "" outside all."""
        return next((plain_name(n) for n, start, size in self.shared if start <= address < start + size), "")

    def shared_name(self, address: int) -> str:
        """Such as `As[1][37]`; without a shape the variable and an offset in bytes."""
        for name, start, size in self.shared:
            if start <= address < start + size:
                plain = plain_name(name)
                if plain in self.shapes:
                    return plain + subscripts(self.shapes[plain], address - start)
                return f"{plain} + {address - start} bytes"
        return f"shared address {address}"

    def array(self, address: int) -> str:
        """The array that holds a global address, or ""."""
        return next((a.name for a in self.arrays if a.start <= address < a.start + a.size), "")

    def global_name(self, address: int, leading: Set[str] = frozenset()) -> str:
        """Such as `C[12]`, counted from the address that the kernel was given. Outside of all arrays it is the one that
        `leading` leads to by parameters and variables; where that is not one, those that lie near."""
        for a in self.arrays:
            if a.start <= address < a.start + a.size:
                return _element(a, address)
        led = [a for a in self.arrays if a.symbol in leading]
        near = [a for a in led or self.arrays if a.start - _NEAR <= address < a.start + a.size + _NEAR]
        named = led if len(led) == 1 else sorted(near, key=lambda a: a.distance(address))
        if not named:
            return f"global address {address:#x}"
        ends = ((a.start + a.size - a.pointer) // a.element for a in named)
        return " or ".join(
            f"{_element(a, address)} (of {n} elements)" for a, n in zip(named, ends, strict=True)
        )

    def text(self, address: int) -> str:
        """The zero-terminated text at an address of a module's variable, or ""."""
        for start, data in self.texts:
            if start <= address < start + len(data):
                return data[address - start :].split(b"\0")[0].decode(errors="replace")
        return ""


def _element(array: ArrayPlace, address: int) -> str:
    index, rest = divmod(address - array.pointer, array.element)
    return f"{array.name}[{index}]" + (f" + {rest} bytes" if rest else "")


def subscripts(shape: Shape, offset: int) -> str:
    """The indices of the element at `offset` bytes, such as `[1][37]`."""
    element, rest = divmod(offset, shape.element)
    if not shape.dimensions:
        return f" + {offset} bytes" if offset else ""
    indices: list[int] = []
    for n in reversed(shape.dimensions[1:]):
        element, index = divmod(element, n)
        indices.insert(0, index)
    indices.insert(0, element)
    return "".join(f"[{i}]" for i in indices) + (f" + {rest} bytes" if rest else "")


def plain_name(symbol: str) -> str:
    """The source name in a mangled local variable: `_ZZ11sgemm_naiveE2As` is `As`."""
    match = re.match(r"_ZZ?.*?E(\d+)([A-Za-z_]\w*)$", symbol)
    while match and len(match[2]) > int(match[1]):  # the E belonged to an inner name
        rest = re.match(r".*?E(\d+)([A-Za-z_]\w*)$", match[2])
        if rest is None:
            return match[2][: int(match[1])]
        match = rest
    return match[2] if match else symbol


def describe(
    raw: Iterable[layout.RawFinding],
    sites: tuple[Place, ...],
    has_lines: bool,
    names: AddressBook,
    grid: tuple[int, int, int],
    leading: Mapping[int, frozenset[str]],
) -> list[EmulatorFinding]:
    """Merges raw findings of all workers by kind and pair of lines; the earliest interval of the lowest block
    stands for the rest. `leading`: by PTX line, what an address is made of."""
    merged: dict[tuple[int, int, int], layout.RawFinding] = {}
    counts: dict[tuple[int, int, int], int] = {}
    for f in sorted(raw, key=lambda f: (f.block, f.interval)):
        key = (f.kind, line_of(sites[f.site], has_lines), line_of(sites[f.other_site], has_lines))
        merged.setdefault(key, f)
        counts[key] = counts.get(key, 0) + f.count
    return [
        replace(
            _finding(
                f,
                counts[key],
                tuple(line for line in key[1:] if line),
                names,
                grid,
                leading.get(sites[f.site].ptx_line, frozenset()),
            ),
            calls=calls_of((sites[f.site], sites[f.other_site]), has_lines),
        )
        for key, f in merged.items()
    ]


def _finding(
    f: layout.RawFinding,
    count: int,
    lines: tuple[int, ...],
    names: AddressBook,
    grid: tuple[int, int, int],
    leading: frozenset[str],
) -> EmulatorFinding:
    kind, template = _KINDS[f.kind]
    where = ""
    if f.kind in _SHARED_KINDS or (f.kind == 11 and f.address < layout.SHARED_WINDOW >> 28):
        where = names.shared_name(f.address)
    elif f.kind in (9, 11):
        where = names.global_name(f.address, leading)
    elif f.kind == _TRAP:
        asserted = names.text(f.address)
        where = f"fails the assertion `{asserted}`" if asserted else "executes a trap"
    threads = (f.thread,) if f.other == layout.NOBODY else (f.thread, f.other)
    other = f"thread {f.other}" if len(threads) == 2 else "another thread"
    message = template.format(a=f.thread, b=other, at=where or f"address {f.address}")
    where = "" if f.kind == _TRAP else where
    return EmulatorFinding(
        kind, message, lines, where, threads, f.interval, block_index(f.block, grid), count
    )


def block_index(n: int, grid: tuple[int, int, int]) -> tuple[int, int, int]:
    """The block with linear number `n`."""
    return (n % grid[0], n // grid[0] % grid[1], n // (grid[0] * grid[1]))


def calls_of(places: Iterable[Place], has_lines: bool) -> tuple[int, ...]:
    """The lines of the calls for those places that have a source line."""
    return tuple(p.call_line for p in places if line_of(p, has_lines))


def line_of(place: Place, has_lines: bool) -> int:
    """The source line, or the PTX line where the PTX has no line information."""
    return place.source_line if has_lines else place.ptx_line
