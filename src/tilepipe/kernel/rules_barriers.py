"""Rules of barriers: every thread reaches them, and they separate use from refill (TP010, TP011)."""

from __future__ import annotations

from tilepipe.diagnostics import Refusal, refusal
from tilepipe.kernel.flow import Item, is_divergent
from tilepipe.kernel.loop_facts import LoopFacts, phase_of, same_interval
from tilepipe.kernel.statements import Statement
from tilepipe.kernel.symbols import Symbol
from tilepipe.kernel.tileloop import Phase, StoreUse


def barriers_uniform(q: LoopFacts) -> Refusal | None:
    """TP011: every thread of the block must reach every barrier of the loop; TP018 where that hangs on an unknown call.

    Threads that return before the loop are the author's affair: the pipeline has no barrier below the return that
    the author's loop had not, and each thread waits for its own copies.
    """
    for outer in q.tile.path:
        if outer.kind in ("if", "for", "while", "do") and is_divergent(outer, q.divergent):
            return refusal(
                "TP011",
                "__syncthreads() stands inside a branch or loop that differs between threads of a block",
                q.source.place(outer.condition or outer.span),
                "not the same for all threads",
                "let every thread run the loop, zero the edges in the load and guard only the store",
            )
    if is_divergent(q.tile.loop, q.divergent):
        for item in q.tile.flow.items:
            changed = item.own.defs & q.tile.loop.condition_effects.uses & q.divergent
            if item.own.opaque and changed:
                name = min(s.name for s in changed)
                return q.unknown_call(item.own, f"the loop gives `{name}` to {{}}, whose effect is not known")
        return refusal(
            "TP011",
            "the number of tiles differs between threads of a block, and the loop has barriers",
            q.source.place(q.tile.loop.condition or q.tile.loop.span),
            "not the same for all threads",
            "make the loop's bounds the same for the whole block",
        )
    for phase in q.tile.phases:
        inner = _divergent_barrier(phase.statement, q.divergent, False)
        if inner is not None:
            return refusal(
                "TP011",
                "__syncthreads() stands inside a branch that differs between threads of a block",
                q.source.place(inner.span),
                "not reached by all threads",
                "take the barrier out of the branch",
            )
    return None


def barriers_separate(q: LoopFacts) -> Refusal | None:
    """TP010: between a tile's use and its refill, and between its fill and its use, stands a barrier."""
    if not any(p.is_barrier for p in q.tile.phases):
        return refusal(
            "TP010",
            "the loop has no barrier of its own at the top level of its body",
            q.source.place(q.tile.loop.span),
            help="put __syncthreads() between load and compute and at the end of the loop body",
        )
    for store in q.tile.stores:
        if store.buffer not in q.tile.staged or store.kind == "compute":
            continue
        reader = same_interval(q.tile, store.item, store.buffer)
        if reader is not None:
            return _not_separated(q, store, reader)
    return None


def _not_separated(q: LoopFacts, store: StoreUse, reader: Item) -> Refusal:
    """TP010: which of the barriers is missing, by the order in which a pass of the loop meets store and read."""
    name, line = store.buffer.name, q.line(store.item.statement.span)
    filling, reading = phase_of(q.tile, store.item), phase_of(q.tile, reader)
    if filling.inner_barrier or reading.inner_barrier:
        what = f"filling `{name}` and reading it are not separated by barriers at the top level of the loop's body"
        where = f"read here; filled at line {line}"
        edit = (
            "let the barriers stand at the top level of the loop's body, in no inner loop, branch or braces"
        )
    elif filling.interval != reading.interval:
        what = f"no barrier between reading `{name}` and overwriting it for the next tile"
        where = f"read here; overwritten at line {line} without a barrier between"
        edit = "add __syncthreads() at the end of the loop body"
    elif store.item.order < reader.order:
        what = f"no barrier between filling `{name}` and reading it"
        where = f"read here; filled at line {line} without a barrier between"
        edit = _between_load_and_compute(q, filling, reading)
    else:
        what = f"no barrier between reading `{name}` and overwriting it further down"
        where = f"read here; overwritten at line {line} without a barrier between"
        edit = f"add __syncthreads() before line {line}"
    at = q.source.place(reader.statement.span)
    return refusal("TP010", f"the input may be racy: {what}", at, where, edit)


def _between_load_and_compute(q: LoopFacts, filling: Phase, reading: Phase) -> str:
    """The edit: below all that the interval loads before it reads."""
    if filling is reading:
        return "load the whole tile first, then __syncthreads(), then compute"
    phases = q.tile.phases
    loads = {phase_of(q.tile, s.item) for s in q.tile.stores if s.buffer in q.tile.staged}
    last = [p for p in phases[phases.index(filling) : phases.index(reading)] if p in loads][-1]
    return f"add __syncthreads() between load and compute, after line {q.source.line_of(last.statement.span.end - 1)}"


def _divergent_barrier(statement: Statement, divergent: frozenset[Symbol], inside: bool) -> Statement | None:
    if inside and statement.kind == "leaf" and "barrier" in statement.own.flags:
        return statement
    deeper = inside or is_divergent(statement, divergent)
    return next((f for c in statement.children if (f := _divergent_barrier(c, divergent, deeper))), None)
