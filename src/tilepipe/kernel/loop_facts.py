"""What the legality rules look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from tilepipe.diagnostics import Refusal, refusal
from tilepipe.kernel.effects import Effects
from tilepipe.kernel.flow import Item
from tilepipe.kernel.loader import Split
from tilepipe.kernel.macros import Macro
from tilepipe.kernel.statements import Statement
from tilepipe.kernel.symbols import Symbol
from tilepipe.kernel.tileloop import Phase, TileLoop
from tilepipe.source import SourceFile, Span


@dataclass(frozen=True, eq=False)
class LoopFacts:
    """Everything that the rules look at."""

    source: SourceFile
    root: Statement
    tile: TileLoop
    split: Split
    divergent: frozenset[Symbol]
    macros: Mapping[str, Macro]
    no_alias: frozenset[str]  # names of pointers that the user promises not to alias anything else

    def line(self, at: Span) -> str:
        """The line of a place, with its file where that is a header."""
        name, line = self.source.origin(at.start)
        return str(line) if name == self.source.name else f"{line} of {PurePath(name).name}"

    def unknown_call(self, own: Effects, what: str) -> Refusal:
        """TP018: a call of what `own` does is not understood; `what` says in words what that call does, with {} for the
        function's name."""
        name, at = own.opaque[0]
        before = self.source.slice(at).partition(name)[0]
        member = any(mark in before for mark in (".", "->", "::"))
        return refusal(
            "TP018",
            what.format(f"`{name}`"),
            self.source.place(at),
            "not understood",
            "make it a function of its own, in no class, and name its namespace without an alias; or inline the call"
            if member
            else "inline the call, or define the function in this file",
        )


def phase_of(tile: TileLoop, item: Item) -> Phase:
    """The phase of the loop's body that an item stands in."""
    top = item.parents[0] if item.parents else item.statement
    return next(p for p in tile.phases if p.statement is top)


def intervals(tile: TileLoop, item: Item) -> frozenset[int]:
    """The barrier intervals (cyclic) in which an item may run."""
    last = tile.phases[-1].interval if tile.phases else 0
    phase = phase_of(tile, item)
    numbers = {phase.interval, phase.interval + 1} if phase.inner_barrier else {phase.interval}
    return frozenset(0 if n >= last else n for n in numbers)


def same_interval(tile: TileLoop, store: Item, buffer: Symbol) -> Item | None:
    """A reader of `buffer` with no barrier between it and the store, on one side at least."""
    at = intervals(tile, store)
    for item in tile.flow.items:
        if buffer in item.own.shared_reads() and at & intervals(tile, item):
            return item
    return None
