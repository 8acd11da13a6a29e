"""Splits a tile loop into the loader, which runs ahead, and the consumer, which computes."""

from __future__ import annotations

from dataclasses import dataclass

from tilepipe.kernel.effects import Effects
from tilepipe.kernel.flow import Item
from tilepipe.kernel.symbols import Symbol
from tilepipe.kernel.tileloop import TileLoop, header_effects


@dataclass(frozen=True, eq=False)
class Split:
    """Who runs which statement.

    `loader` holds the statements that fill the staged buffers and everything they need, pointer bumps
    included. `moved` are those that the consumer no longer needs. `state` are variables that carry a value from one
    tile's load to the next (staging variables declared before the loop do not); those in `copied` are needed by the
    consumer too, so the loader works on a copy. `carried` are all variables that change from tile to tile.
    """

    loader: frozenset[Item]
    moved: frozenset[Item]
    state: frozenset[Symbol]
    copied: frozenset[Symbol]
    carried: frozenset[Symbol]
    varying: frozenset[Symbol]


def split(tile: TileLoop, after: Effects) -> Split:
    """Divide the loop's statements; `after` is what the kernel does outside the loop, later in time."""
    roots = [s.item for s in tile.stores if s.buffer in tile.staged and s.kind in ("load", "constant")]
    carried = _carried(tile)
    header = header_effects(tile.loop)
    loader = _closed(tile, roots, header)
    outside = after.uses - _loaders_arrays(tile, loader, carried)
    moved = _movable(tile, loader, set(roots), outside, header)
    kept = [i for i in tile.flow.items if i not in moved]
    consumer = (
        frozenset().union(*(i.own.uses | i.own.defs for i in kept)) | header.uses | header.defs | outside
    )
    state = frozenset(
        s
        for s in carried
        if _defined_by(s, loader, tile) and (s in consumer or not _set_before_use(s, loader))
    )
    return Split(loader, moved, state, state & consumer, carried, _varying(tile, carried))


def _loaders_arrays(tile: TileLoop, loader: frozenset[Item], carried: frozenset[Symbol]) -> frozenset[Symbol]:
    """Arrays that nothing in the loop but the loader touches: it needs no copy of them, and leaves in them what the
    last tile's load leaves, since it runs once for each tile and in their order."""
    others = frozenset().union(*(i.own.uses | i.own.defs for i in tile.flow.items if i not in loader))
    return frozenset(s for s in carried if s.is_array and s not in others)


def _set_before_use(symbol: Symbol, loader: frozenset[Item]) -> bool:
    """Whether the loader sets a variable before each use of it, in every iteration anew: a staging variable."""
    setters = [i for i in loader if symbol in i.own.defs and symbol not in i.own.uses]
    return all(
        any(d.order < i.order and set(d.parents) <= set(i.parents) for d in setters)
        for i in loader
        if symbol in i.own.uses
    )


def _carried(tile: TileLoop) -> frozenset[Symbol]:
    """Variables declared outside the loop body that an iteration changes, the loop's counters included."""
    inside = {s for i in tile.flow.items for s in i.statement.declares}
    changed = {s for i in tile.flow.items for s in i.own.defs} | tile.loop.update_effects.defs
    changed |= tile.loop.condition_effects.defs
    return frozenset(s for s in changed if s not in inside and s.key[1] == ())


def _closed(tile: TileLoop, roots: list[Item], header: Effects) -> frozenset[Item]:
    """The roots with everything they need, and what moves the loop on (the header's own needs)."""
    advance = [i for s in header.uses | header.defs for i in tile.flow.definers[s]]
    return frozenset(tile.flow.backward([*roots, *advance]))


def _defined_by(symbol: Symbol, loader: frozenset[Item], tile: TileLoop) -> bool:
    if symbol in tile.loop.update_effects.defs | tile.loop.condition_effects.defs:
        return True
    return any(symbol in i.own.defs for i in loader)


def _movable(
    tile: TileLoop, loader: frozenset[Item], roots: set[Item], after: frozenset[Symbol], header: Effects
) -> frozenset[Item]:
    """Loader statements whose results nobody else needs; the consumer loses them. `after` are the variables needed
    after the loop."""
    moved = {i for i in loader if not i.own.global_writes() and not _is_barrier(i)}
    items = tile.flow.items
    changed = True
    while changed:
        changed = False
        needed: set[Symbol] = set(header.uses) | after
        for item in items:
            if item not in moved:
                needed |= item.own.uses
        for item in list(moved):
            if item in roots:
                continue
            left = tile.flow.left(item)
            if left is not None:
                keep = any(_acts(c) and c not in moved for c in items if left in c.parents)
            elif item.statement.children:
                keep = any(c not in moved for c in items if item.statement in c.parents)
            else:
                keep = bool(item.own.defs & needed) or _names_needed(
                    item, [i for i in items if i not in moved]
                )
            if keep:
                moved.discard(item)
                changed = True
    return frozenset(moved)


def _acts(item: Item) -> bool:
    """Whether an item does more than hold others together or leave them."""
    exits = item.own.flags & {"break", "continue", "return"}
    return not exits and not item.statement.children


def _names_needed(item: Item, kept: list[Item]) -> bool:
    """Whether a kept statement mentions a name that this declaration introduces."""
    return any(item.statement.declares & (k.own.defs | k.own.uses) for k in kept)


def _is_barrier(item: Item) -> bool:
    return "barrier" in item.own.flags


def _varying(tile: TileLoop, carried: frozenset[Symbol]) -> frozenset[Symbol]:
    """Symbols whose value may differ from tile to tile: by what they are computed from, or by the branches and
    loops that decide whether they are."""
    found = set(carried)
    changed = True
    while changed:
        changed = False
        for item in tile.flow.items:
            new = _made_varying(item, found) - found
            if new:
                found |= new
                changed = True
    return frozenset(found)


def _made_varying(item: Item, varying: set[Symbol]) -> set[Symbol]:
    statement = item.statement
    parts = [statement.own]
    if statement.is_loop:
        # How often a loop turns does not change what its counter counts.
        parts = [statement.init_effects, statement.condition_effects, statement.update_effects]
    made = {s for part in parts if part.uses & varying for s in part.defs}
    if statement.call is not None:
        # Each parameter has its own argument; what the arguments change otherwise counts for all of them.
        own = {s for s, uses in statement.call.made_of.items() if not uses & varying}
        made -= own
    for outer in (statement, *item.parents):
        if outer.kind != "block" and outer.condition_effects.uses & varying:
            made |= {s for s in item.own.defs if not outer.span.start <= s.key[0] < outer.span.end}
    return made
