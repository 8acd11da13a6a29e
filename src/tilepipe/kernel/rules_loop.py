"""Rules of the loop's form: already pipelined, exits from it (TP002, TP019, TP020)."""

from __future__ import annotations

import re

from tilepipe.diagnostics import Refusal, refusal
from tilepipe.kernel.flow import Item
from tilepipe.kernel.loop_facts import LoopFacts, same_interval
from tilepipe.kernel.statements import Statement
from tilepipe.kernel.symbols import Symbol
from tilepipe.kernel.tileloop import StoreUse, TileLoop


def already_pipelined(q: LoopFacts) -> Refusal | None:
    """TP002: the loop loads one tile while it computes on another, through registers or in a second stage."""
    for store in q.tile.stores:
        if store.kind != "load" or store.store is None:
            continue
        stage = _stage_index(q, store)
        ahead = _loaded_ahead(q, store)
        if stage is not None and same_interval(q.tile, store.item, store.buffer) is not None:
            why = f"`{store.buffer.name}` has stages selected by `{stage}`, and the loop fills one while it computes"
        elif ahead is not None:
            line = q.line(ahead.statement.span)
            why = f"what is stored into `{store.buffer.name}` waits in registers since line {line}"
        else:
            continue
        return refusal(
            "TP002",
            f"already software-pipelined: {why}",
            q.source.place(store.store.left),
            "the next tile is stored here",
            "hand over the version with a single buffer and plain loads",
        )
    return None


def _stage_index(q: LoopFacts, store: StoreUse) -> str | None:
    """The name that selects the stage stored to: a first subscript of several that differs from tile to tile."""
    if store.store is None:
        return None
    subscripts = re.findall(r"\[([^\[\]]*)\]", q.source.slice(store.store.left))
    if len(subscripts) < 2:
        return None
    words = set(re.findall(r"[A-Za-z_]\w*", subscripts[0]))
    return next((s.name for s in store.address_symbols() & q.split.varying if s.name in words), None)


def _loaded_ahead(q: LoopFacts, store: StoreUse) -> Item | None:
    """The load whose value the store takes from a register across a use of the tile: the compute phase of the
    tile before stands between the two."""
    readers = [i.order for i in q.tile.flow.items if store.buffer in i.own.shared_reads()]
    loads = _loads_behind(q, store)
    carried = all(load.order > store.item.order for load in loads)
    for load in loads:
        if carried:
            return load  # stored in the next iteration
        if any(load.order < reader < store.item.order for reader in readers):
            return load
    return None


def _loads_behind(q: LoopFacts, store: StoreUse) -> list[Item]:
    """The items that load the stored value from global memory, where it passes through variables."""
    at = store.store
    if at is None or store.item.own.global_reads():
        return []
    words = set(re.findall(r"[A-Za-z_]\w*", q.source.slice(at.right)))
    work = [s for s in store.item.own.uses if s.name in words]
    seen: set[Symbol] = set()
    found: list[Item] = []
    while work:
        symbol = work.pop()
        if symbol in seen:
            continue
        seen.add(symbol)
        for item in q.tile.flow.definers[symbol]:
            if item.own.global_reads():
                found.append(item)
            elif not item.statement.is_loop:
                work += item.own.uses
    return sorted(found, key=lambda i: i.order)


def structure(q: LoopFacts) -> Refusal | None:
    """TP019, TP020: exits from the loop, and statements whose flow is not understood."""
    for statement in (q.tile.loop, *_own_statements(q.tile.loop)):
        flags = statement.own.flags
        words = flags & {"break", "continue", "goto", "return"}
        if words and not (words <= {"break", "continue"} and _inside_inner_loop(q.tile, statement)):
            word = next(iter(sorted(words)))
            return refusal(
                "TP019",
                f"`{word}` leaves the tile loop's body early, so the next tile's load cannot be moved above it",
                q.source.place(statement.span),
                f"`{word}` here",
                "end the loop by its condition, or move the early exit out of the loop",
            )
        if {"structure", "barrier", "asm"} <= flags:
            return refusal(
                "TP020",
                "a barrier with a number of threads need not be one of the whole block",
                q.source.place(statement.span),
                "so many threads wait here",
                "where all threads of the block take part write __syncthreads(), or `bar.sync 0;` without a number",
            )
        if "structure" in flags:
            return refusal(
                "TP020",
                "this statement in the tile loop is of a kind that is not understood",
                q.source.place(statement.span),
                "not understood",
                "write it with if, for and while; take preprocessor conditions out of the loop",
            )
    return None


def _own_statements(loop: Statement) -> list[Statement]:
    """Statements of the kernel's own text inside the loop; a helper's returns are its own affair."""
    found = []
    for child in loop.children:
        found += [child, *_own_statements(child)] if child.kind != "call" else [child]
    return found


def _inside_inner_loop(tile: TileLoop, statement: Statement) -> bool:
    return any(p.is_loop for p in tile.flow.of[id(statement)].parents)
