"""Shared elements that a thread keeps for itself: stored and read by the same thread, with no barrier between.

    q[t * d + x] = Q[…];
    sum += q[t * d + x] * tile[y * d + x];

Such an array is no tile: it stays in the computation as it stands. Nothing rests on the threads' elements being
apart: the computation keeps its statements and their order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from tilepipe.diagnostics import Refusal, refusal
from tilepipe.kernel.file import CudaFile
from tilepipe.kernel.flow import Item
from tilepipe.kernel.loop_facts import intervals
from tilepipe.kernel.symbols import THREAD, Symbol
from tilepipe.kernel.tileloop import TileLoop
from tilepipe.source import Span


def without_private(file: CudaFile, tile: TileLoop, divergent: frozenset[Symbol]) -> TileLoop | Refusal:
    """The loop with arrays that threads keep for themselves as scratch; TP001 where no tile is left."""
    private = {b for b in tile.staged if is_private(file, tile, b, divergent)}
    if private and private == tile.staged:
        buffer = min(private, key=lambda b: b.key)
        store = next(s for s in tile.stores if s.buffer == buffer)
        return refusal(
            "TP001",
            f"no tile loop: each thread reads only those elements of `{buffer.name}` that it stored itself",
            file.source.place(store.item.statement.span),
            "shared with no other thread",
            "keep the element in a register, which the compiler loads ahead by itself",
        )
    return replace(
        tile, stores=tuple(replace(s, kind="compute") if s.buffer in private else s for s in tile.stores)
    )


def is_private(file: CudaFile, tile: TileLoop, buffer: Symbol, divergent: frozenset[Symbol]) -> bool:
    """Whether every access of the loop names the same element, one that depends on the thread, and a store and a
    read stand in one interval between barriers."""
    accesses = list(_accesses(tile, buffer))
    texts = {_element(file, at) for _, at, _ in accesses}
    reads = {n for item, _, write in accesses if not write for n in intervals(tile, item)}
    writes = {n for item, _, write in accesses if write for n in intervals(tile, item)}
    if len(texts) != 1 or None in texts or not reads & writes:
        return False
    words = set(re.findall(r"[A-Za-z_]\w*", next(iter(texts)) or "")) - {buffer.name}
    counters = {i.statement.counter for i in tile.flow.items if i.statement.is_loop}
    return any(
        (s.name in words and s in divergent - counters) or (s == THREAD and "threadIdx" in words)
        for item, _, _ in accesses
        for s in item.own.uses
    )


def _accesses(tile: TileLoop, buffer: Symbol) -> Iterator[tuple[Item, Span, bool]]:
    """Every access of the loop to an array: the statement, where it stands, whether it is a write."""
    for item in tile.flow.items:
        for access in item.own.reads:
            if access.base == buffer:
                yield item, access.span, False
        for access in item.own.writes:
            if access.base == buffer:
                yield item, access.span, True


def _element(file: CudaFile, at: Span) -> str | None:
    """The element that an access names, None where it is not an array element by its text."""
    node = file.tree.root.named_descendant_for_byte_range(at.start, at.end)
    if node is not None and node.type == "assignment_expression":
        node = node.child_by_field_name("left")
    if node is None or node.type != "subscript_expression":
        return None
    return re.sub(r"\s", "", (node.text or b"").decode())
