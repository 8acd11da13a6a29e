"""Rules of memory: what the load may depend on, and who may change a tile (TP012, TP013, TP015–TP018)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tilepipe.diagnostics import Refusal, refusal
from tilepipe.kernel import surroundings
from tilepipe.kernel.effects import Access
from tilepipe.kernel.flow import Item
from tilepipe.kernel.loop_facts import LoopFacts
from tilepipe.kernel.meetings import Meeting
from tilepipe.kernel.operators import PLAIN
from tilepipe.kernel.statements import Statement
from tilepipe.kernel.symbols import Symbol


def has_staged(q: LoopFacts) -> Refusal | None:
    """TP013, TP018: the load must not depend on what the same iteration computes, nor be made by unknown calls."""
    if q.tile.staged:
        return None
    for store in q.tile.stores:
        if store.kind == "compute" and store.item.own.global_reads():
            if store.store is None and store.item.own.opaque:
                return q.unknown_call(
                    store.item.own, f"`{store.buffer.name}` is given to {{}}, whose effect is not known"
                )
            producer = _shared_source(q, store.needs)
            label = "depends on this iteration's computation"
            if producer is not None:
                label += f" through line {q.line(producer.statement.span)}"
            return refusal(
                "TP013",
                f"the next tile's load into `{store.buffer.name}` depends on the result computed from this one",
                q.source.place(store.item.statement.span),
                label,
                "load ahead is possible only where the addresses are known before the computation",
            )
    return None


def _shared_source(q: LoopFacts, needs: frozenset[Item]) -> Item | None:
    written = q.tile.staged | q.tile.scratch
    return next((i for i in sorted(needs, key=lambda i: i.order) if i.own.shared_reads() & written), None)


def loader_is_pure(q: LoopFacts) -> Refusal | None:
    """TP018, TP013: the loader consists of arithmetic, loads and copies alone."""
    written = q.tile.staged | q.tile.scratch
    for item in sorted(q.split.loader, key=lambda i: i.order):
        own = item.own
        if own.opaque:
            return q.unknown_call(own, "the load of the next tile depends on {}, whose effect is not known")
        if own.shared_reads() & written or own.flags & {"asm", "warp", "barrier"}:
            what = (
                "reads shared memory that the loop writes" if own.shared_reads() & written else "is not plain"
            )
            return refusal(
                "TP013",
                f"the load of the next tile needs a statement that {what}",
                q.source.place(item.statement.span),
                "the loader would have to run this ahead",
                "compute addresses and counters of the load without the tile's own data",
            )
        if own.global_writes():
            known = all(write.base is not None for write in own.global_writes())
            return refusal(
                "TP016",
                "the load phase writes global memory"
                if known
                else "the load phase stores to what is not followed, which may be global memory",
                q.source.place(item.statement.span),
                "written here",
                "store to global memory in the compute phase" if known else _FOLLOWED,
            )
    return None


def filled_at_once(q: LoopFacts) -> Refusal | None:
    """TP012: a tile is filled between two barriers; what is stored in another phase meets what this one left."""
    first: dict[Symbol, Item] = {}
    for store in q.tile.stores:
        if store.buffer not in q.tile.staged or store.kind == "compute":
            continue
        before = first.setdefault(store.buffer, store.item)
        if _phase(q, before) != _phase(q, store.item):
            return refusal(
                "TP012",
                f"`{store.buffer.name}` is filled in two phases of the loop body, with a barrier between",
                q.source.place(store.item.statement.span),
                f"filled here; at line {q.line(before.statement.span)} before",
                "fill the tile in one phase, or use a second array",
            )
    return None


def _phase(q: LoopFacts, item: Item) -> int:
    top = item.parents[0] if item.parents else item.statement
    return next(p.interval for p in q.tile.phases if p.statement is top)


def compute_keeps_tiles(q: LoopFacts) -> Refusal | None:
    """TP012: the compute phase must not change a staged tile, unless the next load overwrites the change."""
    for store in q.tile.stores:
        if store.buffer not in q.tile.staged or store.kind != "compute":
            continue
        if _is_dead_write(q, store.item, store.buffer):
            continue
        return refusal(
            "TP012",
            f"the compute phase writes to the tile `{store.buffer.name}`, and the value may live to the next iteration",
            q.source.place(store.item.statement.span),
            "the tile is changed here",
            "write to another shared array, or refill every element of the tile in each iteration",
        )
    return None


def _is_dead_write(q: LoopFacts, item: Item, buffer: Symbol) -> bool:
    """A write to the very element that the same thread refills, unconditionally, in every iteration."""
    refills = {
        q.source.slice(s.store.left)
        for s in q.tile.stores
        if s.buffer == buffer
        and s.kind == "load"
        and s.store is not None
        and len(s.item.parents) == 0
        and not s.needs_varying(q.split.varying)
    }
    return all(q.source.slice(s.left) in refills for s in item.own.stores) and bool(item.own.stores)


def not_filled_outside(q: LoopFacts) -> Refusal | None:
    """TP015: what stands in a tile before the loop would be in one stage only."""
    for statement in (*surroundings.before(q.tile), *_repeated(q)):
        for inner in statement.walk():
            hit = inner.own.shared_writes() & q.tile.staged
            if hit:
                name = next(iter(hit)).name
                return refusal(
                    "TP015",
                    f"`{name}` is filled before the loop too, and the loop may rely on what stands there",
                    q.source.place(inner.span),
                    "filled here",
                    "fill the whole tile in each iteration of the loop",
                )
    return None


def _repeated(q: LoopFacts) -> tuple[Statement, ...]:
    return surroundings.after(q.tile) if surroundings.is_repeated(q.tile) else ()


def memory_independent(q: LoopFacts) -> Refusal | None:
    """TP016, TP017: a load may move above a store of an earlier iteration only if they cannot meet.

    Where one array is streamed in place, the proof needs the compiler's answers: it is made later, of `meetings`.
    """
    for item, write, load_item, load in _pairs(q):
        if write.base is not None and write.base == load.base:
            meeting = _meeting(q, item, write, load_item, load)
            refused = None if write.base.name in q.no_alias or meeting.plain else meeting.refusal
        else:
            refused = _may_alias(q, item, write.base, load_item, load.base)
        if refused is not None:
            return refused
    return None


def meetings(q: LoopFacts) -> tuple[Meeting, ...]:
    """The loads and stores of one array that only a proof keeps apart."""
    return tuple(
        _meeting(q, item, write, load_item, load)
        for item, write, load_item, load in _pairs(q)
        if write.base is not None and write.base == load.base and write.base.name not in q.no_alias
    )


def _pairs(q: LoopFacts) -> Iterator[tuple[Item, Access, Item, Access]]:
    """Every global store of the loop with every load of the loader."""
    loads = sorted(
        ((i, a) for i in q.split.loader for a in i.own.global_reads()), key=lambda pair: pair[0].order
    )
    for item in q.tile.flow.items:
        for write in item.own.global_writes():
            for load_item, load in loads:
                yield item, write, load_item, load


def _meeting(q: LoopFacts, item: Item, write: Access, load_item: Item, load: Access) -> Meeting:
    array = write.base
    assert array is not None
    refused = refusal(
        "TP017",
        f"`{array.name}` is stored in this loop and loaded in it: the next tile may hold what this one stores",
        q.source.place(item.statement.span),
        f"stored here; loaded at line {q.line(load_item.statement.span)}",
        "keep input and output apart; where no tile loads what an earlier one stores, "
        f"state --assume no-alias={array.name}",
    )
    return Meeting(array, item, write.span, load_item, load.span, refused)


_FOLLOWED = (
    "store to a local array or through a pointer parameter by name; what operators and functions return "
    "(`operator[]` of a class) is not followed"
)


def _is_plain(q: LoopFacts, type_: str) -> bool:
    """Whether a type is a built-in one, or another name of one: elements of others may hold pointers."""
    name = re.escape(type_)
    alias = re.search(rf"\busing\s+{name}\s*=([^;]*);|\btypedef\b([^;]*)\b{name}\s*;", q.source.text)
    return PLAIN.fullmatch((alias[1] or alias[2]).strip() if alias is not None else type_) is not None


def _may_alias(
    q: LoopFacts, item: Item, written: Symbol | None, load_item: Item, loaded: Symbol | None
) -> Refusal | None:
    if written is not None and loaded is not None:
        constant = loaded.kind == "file" and loaded.const and _is_plain(q, loaded.type)
        if written.restrict or loaded.restrict or {written.name, loaded.name} & q.no_alias or constant:
            return None
        both = f"`{written.name}` and `{loaded.name}`"
        message = f"{both} may alias: a store of one tile may change what a later tile loads"
        remedy = "declare the pointers __restrict__, or state --assume no-alias=NAME"
    elif written is None:
        known = f"`{loaded.name}`" if loaded is not None else "memory"
        message = f"where this stores to is not followed: it may change {known} that a later tile loads"
        remedy = _FOLLOWED
    else:
        message = f"where the tile is loaded from is not followed: a store to `{written.name}` may change it"
        remedy = "load through a pointer parameter by name, not through what operators and functions return"
    place, at = q.source.place(item.statement.span), q.line(load_item.statement.span)
    return refusal("TP016", message, place, f"stored here; loaded at line {at}", remedy)
