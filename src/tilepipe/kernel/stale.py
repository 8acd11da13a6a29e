"""Tiles that a guard leaves partly unfilled: what compute must not read."""

from __future__ import annotations

import re

from tilepipe.diagnostics import Refusal, refusal
from tilepipe.kernel.flow import Item
from tilepipe.kernel.loop_facts import LoopFacts
from tilepipe.kernel.statements import Statement
from tilepipe.kernel.symbols import Symbol
from tilepipe.kernel.tileloop import StoreUse


def same_elements(q: LoopFacts) -> Refusal | None:
    """TP022: every tile fills the same elements: where a store goes does not depend on the tile."""
    for store in q.tile.stores:
        if store.buffer in q.tile.staged and store.kind != "compute" and _moves(q, store):
            return refusal(
                "TP022",
                f"the elements of `{store.buffer.name}` that a tile fills differ from tile to tile",
                q.source.place(store.item.statement.span),
                "where this stores depends on the tile",
                "fill the same elements for every tile",
            )
    return None


def stale_reads(q: LoopFacts) -> Refusal | None:
    """TP022: an element left from an earlier tile must not be read.

    With a ring the element left over is that of another tile than with one buffer, so that only register prefetch
    into the one buffer keeps the result. A guard that varies from tile to tile and fills nothing otherwise is legal
    with stages only where every read of the tile stands under a bound made of the same varying count, with the
    bounded counter as an index.
    """
    for store in q.tile.stores:
        if store.buffer not in q.tile.staged or store.kind == "compute":
            continue
        guard = _partial_guard(q, store)
        if guard is None:
            continue
        counts = guard.condition_effects.uses & q.split.varying
        for item in q.tile.flow.items:
            if store.buffer in item.own.shared_reads() and not _bounded(q, item, store, guard, counts):
                return refusal(
                    "TP022",
                    f"`{store.buffer.name}` is filled in part for some tiles, and compute may read what an earlier "
                    "tile left",
                    q.source.place(item.statement.span),
                    f"read here; filled only under the condition at line {q.line(guard.span)}",
                    "put zero where the guard fails: `tile[i] = inside ? source[j] : 0`",
                )
    return None


def _moves(q: LoopFacts, store: StoreUse) -> bool:
    """Whether the element stored to depends on the tile. Parameters of helpers are not told apart."""
    return any(s in q.split.varying for s in store.address_symbols() if s.key[1] == ())


def _partial_guard(q: LoopFacts, store: StoreUse) -> Statement | None:
    """The innermost branch or loop around the store that leaves other elements alone in some tiles."""
    for parent in reversed(store.item.parents):
        if parent.kind == "if" and parent.condition_effects.uses & q.split.varying:
            if not _filled_otherwise(q, store, parent):
                return parent
        elif parent.is_loop and parent.condition_effects.uses & _outer_varying(q, parent):
            return parent
        for leaving in q.tile.flow.exits.get(id(parent), ()):
            guard = _deciding(q, leaving, parent)
            if guard is not None and not _fills(q, store, guard):
                return guard
    return None


def _deciding(q: LoopFacts, leaving: Item, left: Statement) -> Statement | None:
    """The branch that decides on an exit from a loop or call differently from tile to tile."""
    inner = leaving.parents[leaving.parents.index(left) + 1 :]
    return next((p for p in inner if p.kind == "if" and p.condition_effects.uses & q.split.varying), None)


def _fills(q: LoopFacts, store: StoreUse, branch: Statement) -> bool:
    """Whether the branch that leaves stores to the same element before."""
    if store.store is None:
        return False
    left = q.source.slice(store.store.left)
    return any(q.source.slice(s.left) == left for inner in branch.walk() for s in inner.own.stores)


def _outer_varying(q: LoopFacts, loop: Statement) -> frozenset[Symbol]:
    """Varying symbols other than the loop's own counter."""
    return q.split.varying - loop.declares - loop.update_effects.defs


def _filled_otherwise(q: LoopFacts, store: StoreUse, branch: Statement) -> bool:
    """Whether the other side of the branch stores to the same element."""
    if len(branch.children) != 2 or store.store is None:
        return False
    left = q.source.slice(store.store.left)
    sides = [[s for inner in side.walk() for s in inner.own.stores] for side in branch.children]
    return all(any(q.source.slice(s.left) == left for s in side) for side in sides)


def _bounded(q: LoopFacts, item: Item, store: StoreUse, guard: Statement, counts: frozenset[Symbol]) -> bool:
    """Whether the read lies under a counting loop with the guard's bound, and indexes by that counter."""
    if store.store is None or guard.condition is None:
        return False
    limit = re.fullmatch(
        r"\(?\s*(\w+(?:\.\w+)?)\s*<\s*(\w+)\s*(?:\*\s*(\d+))?\s*\)?", q.source.slice(guard.condition)
    )
    if limit is None:
        return False
    index, bound, scale = limit.group(1), limit.group(2), int(limit.group(3) or 1)
    if bound not in {s.name for s in counts} or not _last_index_is(q.source.slice(store.store.left), index):
        return False
    for loop in item.parents:
        if loop.kind != "for" or loop.condition is None or loop.counter is None:
            continue
        header = re.fullmatch(rf"\s*{loop.counter.name}\s*<\s*{bound}\s*", q.source.slice(loop.condition))
        if header is not None and _reads_below(q, item, store, loop.counter.name, scale):
            return True
    return False


def _last_index_is(left: str, index: str) -> bool:
    return left.rstrip().endswith(f"[{index}]")


def _reads_below(q: LoopFacts, item: Item, store: StoreUse, counter: str, scale: int) -> bool:
    """Whether every read of the tile in the statement has last index `counter` or `scale * counter + d`, d < scale."""
    text = q.source.slice(item.statement.span)
    reads = re.findall(rf"\b{store.buffer.name}((?:\[[^\[\]]*\])+)", text)
    if not reads or len(reads) != len(re.findall(rf"\b{store.buffer.name}\b", text)):
        return False
    for subscripts in reads:
        last = re.sub(r"\s", "", subscripts[subscripts.rindex("[") + 1 : -1])
        if last == counter and scale == 1:
            continue
        found = re.fullmatch(rf"{scale}\*{counter}(?:\+(\d+))?", last)
        if found is None or int(found.group(1) or 0) >= scale:
            return False
    return True
