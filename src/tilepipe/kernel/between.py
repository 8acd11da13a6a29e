"""What happens between the statements of a load phase: which runs first, which decides, what a name still means."""

from __future__ import annotations

from collections.abc import Iterable

from tilepipe.kernel.flow import Flow, Item
from tilepipe.kernel.statements import Statement
from tilepipe.kernel.symbols import Symbol


def guarding(flow: Flow, load: Item, zero: Item, store: Item) -> Statement | None:
    """The `if` that decides between the loaded and the zero value."""
    ifs = [p for p in load.parents if p.kind == "if"]
    if not ifs:
        return None
    branch = ifs[-1]
    if branch in store.parents or not set(flow.of[id(branch)].parents) <= set(store.parents):
        return None
    in_then = load.statement in list(branch.children[0].walk())
    before = zero.order < flow.of[id(branch)].order and dominates(zero, store)
    other = len(branch.children) == 2 and zero.statement in list(branch.children[1].walk())
    if not in_then or not ((before and len(branch.children) == 1) or other):
        return None
    depth = len(load.parents) - 1 - load.parents.index(branch)
    return branch if all(p.kind == "block" for p in load.parents[-depth:] if depth) else None


def means_the_same(flow: Flow, symbol: Symbol, item: Item) -> bool:
    """Whether the name of a variable names it where `item` stands: it is visible there, and nothing hides it."""
    declarer = flow.declarer
    own = declarer.get(symbol)
    if own is not None and not visible(own, item):
        return False
    depth = len(own.parents) if own is not None else -1
    return not any(
        other != symbol and other.name == symbol.name and len(d.parents) > depth and visible(d, item)
        for other, d in declarer.items()
    )


def changed_between(loader: Iterable[Item], start: Item, end: Item, symbols: frozenset[Symbol]) -> bool:
    """Whether the loader sets one of the variables between two of its statements."""
    return any(
        i.own.defs & symbols
        for i in loader
        if start.order < i.order < end.order and i.statement.kind != "declaration"
    )


def dominates(first: Item, second: Item) -> bool:
    """Whether the first statement always runs before the second: its enclosing statements enclose both."""
    return first.order < second.order and set(first.parents) <= set(second.parents)


def visible(declaration: Item, item: Item) -> bool:
    """Whether what a statement declares can be named where `item` stands."""
    if declaration.statement.is_loop or declaration.statement.kind == "call":
        return declaration.statement in item.parents
    return dominates(declaration, item)
