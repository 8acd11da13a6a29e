"""Branches that decide between a loaded element and zero, however they are nested."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilepipe.kernel.effects import Store
from tilepipe.kernel.flow import Item
from tilepipe.kernel.statements import Statement
from tilepipe.kernel.symbols import Symbol
from tilepipe.source import Span

_MOST = 16  # ways through the branches that are followed


@dataclass(frozen=True, eq=False)
class Way:
    """One way through branches: the conditions that it takes, with whether they fail on it, and what it runs."""

    conditions: tuple[tuple[Span, bool], ...] = ()
    leaves: tuple[Statement, ...] = ()


@dataclass(frozen=True, eq=False)
class Decision:
    """`branch` puts the element of a store where the conditions of `way` hold, and zero into its place otherwise.

    `zeros` are the stores of zero to any of the places.
    """

    branch: Statement
    way: Way
    uses: frozenset[Symbol]
    zeros: tuple[Store, ...]


def zero_otherwise(
    item: Item, text: Callable[[Span], str], is_zero: Callable[[Span], bool]
) -> Decision | None:
    """The outermost branches around a store that only decide between elements and zeros.

    On every way through them each place that they store to is stored to once; an element is loaded on one way, and zero
    is put there on all others.
    """
    found = None
    for parent in reversed(item.parents):
        if parent.kind not in ("if", "block"):
            break
        if parent.kind == "if":
            decision = _decided(parent, item, text, is_zero)
            found = decision if decision is not None else found
    return found


def _decided(
    branch: Statement, item: Item, text: Callable[[Span], str], is_zero: Callable[[Span], bool]
) -> Decision | None:
    ways = _ways(branch)
    if ways is None or len(ways) < 2:
        return None
    inside = [s for s in branch.walk() if s.kind == "if"]
    if any(s.own.defs or s.own.shared_reads() for s in inside):
        return None
    places = [[_place(leaf, text) for leaf in way.leaves] for way in ways]
    if any("" in way or sorted(way) != sorted(set(way)) or set(way) != set(places[0]) for way in places):
        return None
    zeros: dict[Span, Store] = {}
    for place in places[0]:
        stores = [w.leaves[p.index(place)].own.stores[0] for w, p in zip(ways, places, strict=True)]
        if sum(not is_zero(store.right) for store in stores) != 1:
            return None
        zeros |= {store.span: store for store in stores if is_zero(store.right)}
    mine = next((w for w in ways if item.statement in w.leaves), None)
    uses = frozenset().union(*(s.own.uses for s in inside))
    return Decision(branch, mine, uses, tuple(zeros.values())) if mine is not None else None


def _place(leaf: Statement, text: Callable[[Span], str]) -> str:
    """The lvalue that a plain store of one element stores to, "" for anything else."""
    stores = leaf.own.stores
    if leaf.kind != "leaf" or len(stores) != 1 or stores[0].op != "=" or stores[0].in_macro:
        return ""
    whole = text(stores[0].span) + ";" == text(leaf.span)
    return text(stores[0].left) if whole and not leaf.own.defs else ""


def _ways(statement: Statement) -> list[Way] | None:
    """Every way through blocks and branches, None where there is more to it."""
    if statement.kind == "leaf":
        return [Way((), (statement,))]
    if statement.kind == "block":
        ways = [Way()]
        for child in statement.children:
            further = _ways(child)
            if further is None or len(ways) * len(further) > _MOST:
                return None
            ways = [Way(a.conditions + b.conditions, a.leaves + b.leaves) for a in ways for b in further]
        return ways
    if statement.kind != "if" or statement.condition is None:
        return None
    found: list[Way] = []
    for n, arm in enumerate((*statement.children, None)[:2]):
        further = _ways(arm) if arm is not None else [Way()]
        if further is None:
            return None
        found += [Way(((statement.condition, n == 1), *w.conditions), w.leaves) for w in further]
    return found
