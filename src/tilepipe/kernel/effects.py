"""What a statement does: names read and written, memory accessed, barriers, exits."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilepipe.kernel.symbols import Symbol
from tilepipe.source import Span


@dataclass(frozen=True)
class Access:
    """A read or write of memory through `base`: a shared array, a kernel parameter, a file-scope array.

    `base` is None where the analysis cannot say what the pointer points to.
    """

    base: Symbol | None
    span: Span


@dataclass(frozen=True)
class Load:
    """A maximal expression that reads global memory and can be evaluated ahead of its use.

    `span` covers the guarding ternary when there is one; `guarded` says so. `symbols` are the names that it
    reads, `bases` the arrays. `pointers` is the text of the address when the expression is one plain lvalue.
    """

    span: Span
    bases: tuple[Symbol, ...]
    lvalue: bool
    nested: bool  # its address reads global memory too (a gather)


@dataclass(frozen=True)
class Store:
    """An assignment `left = right` to shared memory, `op` being "=" or a compound assignment.

    `in_macro` marks a store that a macro's body makes: it has no text of its own to edit.
    """

    base: Symbol
    span: Span
    left: Span
    right: Span
    op: str
    in_macro: bool
    address: frozenset[Symbol] = frozenset()  # names in the address


@dataclass(frozen=True)
class Effects:
    """The sum of what an expression or statement does."""

    uses: frozenset[Symbol] = frozenset()
    defs: frozenset[Symbol] = frozenset()
    reads: tuple[Access, ...] = ()
    writes: tuple[Access, ...] = ()
    loads: tuple[Load, ...] = ()
    stores: tuple[Store, ...] = ()
    flags: frozenset[str] = frozenset()
    opaque: tuple[tuple[str, Span], ...] = ()  # calls whose effect is not known

    def shared_reads(self) -> frozenset[Symbol]:
        return frozenset(a.base for a in self.reads if a.base is not None and a.base.kind == "shared")

    def shared_writes(self) -> frozenset[Symbol]:
        return frozenset(a.base for a in self.writes if a.base is not None and a.base.kind == "shared")

    def global_reads(self) -> tuple[Access, ...]:
        return tuple(a for a in self.reads if a.base is None or a.base.kind in ("param", "file"))

    def global_writes(self) -> tuple[Access, ...]:
        return tuple(a for a in self.writes if a.base is None or a.base.kind in ("param", "file"))

    def __or__(self, other: Effects) -> Effects:
        return Effects(
            self.uses | other.uses,
            self.defs | other.defs,
            self.reads + other.reads,
            self.writes + other.writes,
            self.loads + other.loads,
            self.stores + other.stores,
            self.flags | other.flags,
            self.opaque + other.opaque,
        )


NOTHING_DONE = Effects()


@dataclass
class Collector:
    """Gathers effects while an expression is walked."""

    uses: set[Symbol] = field(default_factory=set)
    defs: set[Symbol] = field(default_factory=set)
    reads: list[Access] = field(default_factory=list)
    writes: list[Access] = field(default_factory=list)
    loads: list[Load] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)
    flags: set[str] = field(default_factory=set)
    opaque: list[tuple[str, Span]] = field(default_factory=list)

    def frozen(self) -> Effects:
        return Effects(
            frozenset(self.uses),
            frozenset(self.defs),
            tuple(self.reads),
            tuple(self.writes),
            tuple(self.loads),
            tuple(self.stores),
            frozenset(self.flags),
            tuple(self.opaque),
        )


def total(parts: list[Effects]) -> Effects:
    """The union of several effects, in order."""
    result = Effects()
    for part in parts:
        result = result | part
    return result
