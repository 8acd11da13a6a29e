"""Data flow over a statement tree: what a statement needs, and what may differ between threads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tilepipe.kernel.effects import Effects
from tilepipe.kernel.statements import Statement
from tilepipe.kernel.symbols import THREAD, Symbol


@dataclass(frozen=True, eq=False)
class Item:
    """A statement's own part (all of a leaf, the header of a compound one) with its enclosing statements."""

    statement: Statement
    parents: tuple[Statement, ...]
    order: int

    @property
    def own(self) -> Effects:
        return self.statement.own

    @property
    def changed(self) -> frozenset[Symbol]:
        """Variables that it changes, those of helpers called within an expression left out."""
        depth = len(self.statement.context)
        return frozenset(s for s in self.own.defs if len(s.key[1]) <= depth)


class Flow:
    """Definitions and uses among the statements below one root (the root's own header not included)."""

    def __init__(self, roots: Iterable[Statement]) -> None:
        self.items: list[Item] = []
        self.of: dict[int, Item] = {}
        for root in roots:
            self._add(root, ())
        self.definers: dict[Symbol, list[Item]] = defaultdict(list)
        self.declarer: dict[Symbol, Item] = {}
        self.exits: dict[int, list[Item]] = defaultdict(list)  # by id of the loop or call that they leave
        for item in self.items:
            left = self.left(item)
            if left is not None:
                self.exits[id(left)].append(item)
            for symbol in item.statement.declares:
                self.declarer[symbol] = item
            for symbol in item.own.defs:
                self.definers[symbol].append(item)

    def _add(self, statement: Statement, parents: tuple[Statement, ...]) -> None:
        item = Item(statement, parents, len(self.items))
        self.items.append(item)
        self.of[id(statement)] = item
        for child in statement.children:
            self._add(child, (*parents, statement))

    def left(self, item: Item) -> Statement | None:
        """The loop or helper call that an exit leaves, or turns anew."""
        flags = item.own.flags
        if flags & {"break", "continue"}:
            return next((p for p in reversed(item.parents) if p.is_loop), None)
        if "return" in flags:
            return next((p for p in reversed(item.parents) if p.kind == "call"), None)
        return None

    def backward(
        self,
        roots: Iterable[Item],
        uses: Mapping[Item, frozenset[Symbol]] | None = None,
        without: frozenset[Item] = frozenset(),
    ) -> set[Item]:
        """Everything that the roots need: definitions of what they use, the branches and loops around, and the
        exits of these loops.

        `uses` overrides what an item uses; the items in `without` are left out.
        """
        instead = uses or {}
        needed: set[Item] = set()
        work = list(roots)
        while work:
            item = work.pop()
            if item in needed or item in without:
                continue
            needed.add(item)
            work += [self.of[id(p)] for p in item.parents]
            work += self.exits.get(id(item.statement), ())
            used = instead.get(item, item.own.uses)
            for symbol in used:
                work += self.definers[symbol]
            work += [self.declarer[s] for s in used | item.own.defs if s in self.declarer]
        return needed

    def divergent(self) -> frozenset[Symbol]:
        """Symbols whose value may differ between the threads of a block."""
        found = {THREAD}
        changed = True
        while changed:
            changed = False
            for item in self.items:
                if item.own.defs <= found:
                    continue
                if self._varies(item.own, found) or any(_splits(p, found) for p in item.parents):
                    found |= item.own.defs
                    changed = True
        return frozenset(found)

    def _varies(self, effects: Effects, found: set[Symbol]) -> bool:
        return bool(effects.uses & found) or bool(effects.shared_reads()) or "asm" in effects.flags


def _splits(statement: Statement, divergent: set[Symbol]) -> bool:
    """Whether threads of a block may take different ways through the statement's header."""
    if statement.kind not in ("if", "for", "while", "do"):
        return False
    return bool(statement.own.uses & divergent) or bool(statement.condition_effects.shared_reads())


def is_divergent(statement: Statement, divergent: frozenset[Symbol]) -> bool:
    """Whether a branch or loop may go different ways for threads of one block.

    For a loop it is the condition that counts: a divergent start with a uniform trip count is not told apart.
    """
    return _splits(statement, set(divergent))
