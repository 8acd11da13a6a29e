"""Neighbours in a tile stored in vectors: their values collected in an array of the thread's own, then stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tilepipe.kernel.flow import Item
from tilepipe.kernel.vectorstores import VectorStore
from tilepipe.rewrite.addresses import address
from tilepipe.rewrite.counted import CountedLoops
from tilepipe.rewrite.lines import indent_of, line_start
from tilepipe.source import Edit, SourceFile, Span


def store_edits(
    kept: frozenset[Item], loops: CountedLoops, stores: Iterable[VectorStore]
) -> dict[int, tuple[Edit, ...]]:
    """Edits by statement id for the part of the load phase that stores: loops with a constant trip count, and around
    some of these the array that the loop fills instead of the tile, and the store of it."""
    edits = loops.edits(kept)
    source = loops.model.file.source
    numbers: Counter[str] = Counter()
    for store in stores:
        if store.item not in kept or id(store.loop) in loops.wide:
            continue
        number = numbers[store.array.name]
        numbers[store.array.name] += 1
        values = f"tp_{store.array.name}_values{number or ''}"
        edits[id(store.loop)] = (
            Edit(Span(store.loop.span.start, store.loop.span.start), _declared(source, store, values)),
            *edits.get(id(store.loop), ()),
            Edit(Span(store.loop.span.end, store.loop.span.end), _stored(source, store, values)),
        )
        element = Edit(store.left, f"{values}[{loops.number(store.loop)}]")
        edits[id(store.item.statement)] = (*edits.get(id(store.item.statement), ()), element)
    return edits


def _declared(source: SourceFile, store: VectorStore, values: str) -> str:
    start = store.loop.span.start
    indent = indent_of(source, start)
    text = f"__align__(16) {store.type} {values}[{store.count}];"
    shared_line = source.data[line_start(source, start) : start].strip()
    return f"\n{indent}{text}" if shared_line else f"{text}\n{indent}"


def _stored(source: SourceFile, store: VectorStore, values: str) -> str:
    indent = indent_of(source, store.loop.span.start)
    return f"\n{indent}tp_store_wide<{store.bytes}>({address(store.first, store.type)}, {values});"
