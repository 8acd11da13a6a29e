"""Rules of the loop's form: already pipelined, exits, state that runs ahead (TP002, TP019–TP021)."""

from __future__ import annotations

from tilepipe.diagnostics import Refusal, refusal
from tilepipe.kernel.question import Question, same_interval
from tilepipe.kernel.statements import Statement
from tilepipe.kernel.tileloop import TileLoop, header_effects
from tilepipe.source import Span


def already_pipelined(q: Question) -> Refusal | None:
    """TP002: the loop computes on one stage while it fills another."""
    for store in q.tile.stores:
        if store.kind != "load" or store.store is None:
            continue
        left = q.source.slice(store.store.left)
        toggled = [s for s in q.split.carried if f"[{s.name}]" in left or f"[{s.name} " in left]
        if toggled and same_interval(q.tile, store.item, store.buffer) is not None:
            return refusal(
                "TP002",
                f"already software-pipelined: `{store.buffer.name}` has stages selected by `{toggled[0].name}`, "
                "and the loop fills one while it computes on another",
                q.source.place(store.store.left),
                "the next tile is stored here",
                "hand over the version with a single buffer and plain loads",
            )
    return None


def structure(q: Question) -> Refusal | None:
    """TP019, TP020: exits from the loop, and statements whose flow is not understood."""
    for statement in _own_statements(q.tile.loop):
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
        if "structure" in flags:
            return refusal(
                "TP020",
                "this statement in the tile loop is of a kind that is not understood",
                q.source.place(statement.span),
                "not understood",
                "write it with if, for and while; take preprocessor conditions out of the loop",
            )
    return None


def state_can_be_copied(q: Question) -> Refusal | None:
    """TP021: a variable that loader and consumer both use gets a copy; arrays do not."""
    for symbol in q.split.copied:
        if symbol.is_array:
            return refusal(
                "TP021",
                f"the array `{symbol.name}` is changed by the load phase and used by the compute phase too",
                q.source.place(Span(symbol.key[0], symbol.key[0] + len(symbol.name))),
                "shared by load and compute",
                "use an array of its own in the load phase",
            )
        writers = [i for i in q.tile.flow.items if symbol in i.own.defs]
        outside = [i for i in writers if i not in q.split.loader]
        if outside:
            return refusal(
                "TP021",
                f"`{symbol.name}` steers the load and is changed by the compute phase",
                q.source.place(outside[0].statement.span),
                "changed here",
                "use separate variables for load and compute",
            )
    header = header_effects(q.tile.loop)
    if header.global_reads() or header.shared_reads():
        return refusal(
            "TP021",
            "the loop's condition reads memory, which the loader cannot evaluate ahead",
            q.source.place(q.tile.loop.condition or q.tile.loop.span),
            "reads memory",
            "read the bound into a variable before the loop",
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
