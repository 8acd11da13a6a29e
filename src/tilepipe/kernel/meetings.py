"""Loads and stores of one array that only a proof keeps apart, and the sizes that the proof needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from tilepipe.diagnostics import Refusal
from tilepipe.kernel.file import Analysed, CudaFile
from tilepipe.kernel.flow import Item
from tilepipe.kernel.names import callee
from tilepipe.kernel.symbols import Symbol
from tilepipe.source import Span

CASTS = ("static_cast", "reinterpret_cast", "const_cast")


@dataclass(frozen=True, eq=False)
class Meeting:
    """A store and a load of one array in the loop, to be proved apart; `refusal` is the answer otherwise."""

    array: Symbol
    store: Item
    stored: Span
    load: Item
    loaded: Span
    refusal: Refusal

    @property
    def plain(self) -> bool:
        """Whether both stand in the kernel's own text, the load first, so that a proof can be tried."""
        own = not self.store.statement.context and not self.load.statement.context
        simple = all(i.statement.kind in ("leaf", "declaration") for i in (self.store, self.load))
        return own and simple and self.load.order < self.store.order


def sizes_wanted(
    file: CudaFile, analysed: Analysed, meetings: tuple[Meeting, ...]
) -> Iterator[tuple[str, str, int]]:
    """Questions for the sizes that the addresses are counted in: key, expression, place."""
    places = {(m.store.statement.span.start, m.stored) for m in meetings}
    places |= {(m.load.statement.span.start, m.loaded) for m in meetings}
    arrays = {m.array for m in meetings}
    pointers = {s for s, targets in analysed.points.items() if targets & arrays}
    for statement in analysed.body.walk():
        if statement.kind == "declaration" and statement.declares & pointers and not statement.context:
            places.add((statement.span.start, statement.span))
    names = {s.name for s in pointers}
    for start, at in sorted(places, key=lambda p: (p[0], p[1].start)):
        node = file.tree.root.named_descendant_for_byte_range(at.start, at.end)
        for expression in _measured(node, names) if node is not None else ():
            yield size_key(start, expression), f"sizeof({expression})", start
        for name in sorted({m.array.name for m in meetings} if (start, at) in _stores(meetings) else ()):
            yield size_key(start, f"*({name})"), f"sizeof(*({name}))", start


def _stores(meetings: tuple[Meeting, ...]) -> set[tuple[int, Span]]:
    return {(m.store.statement.span.start, m.stored) for m in meetings}


def size_key(start: int, expression: str) -> str:
    """The key of the question for the size of an expression in a statement."""
    return f"bytes:{start}:{expression}"


def _measured(node: Node, pointers: set[str]) -> Iterator[str]:
    """Elements that a place's address is counted in: what is subscripted, dereferenced or stepped over."""
    text = (node.text or b"").decode()
    if node.type == "subscript_expression" or (node.type == "pointer_expression" and text.startswith("*")):
        yield text
    elif node.type == "binary_expression" and _points(node.child_by_field_name("left"), pointers):
        yield f"*({(node.child_by_field_name('left').text or b'').decode()})"  # type: ignore[union-attr]
    for child in node.named_children:
        yield from _measured(child, pointers)


def _points(node: Node | None, pointers: set[str]) -> bool:
    while node is not None and node.type in ("parenthesized_expression", "binary_expression"):
        node = node.child_by_field_name("left") or node.named_children[0]
    if node is None:
        return False
    text = (node.text or b"").decode()
    cast = node.type == "cast_expression" or (node.type == "call_expression" and callee(node) in CASTS)
    return (node.type == "identifier" and text in pointers) or (cast and "*" in text.partition(")")[0])
