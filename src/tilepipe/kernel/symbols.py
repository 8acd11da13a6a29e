"""Names of a kernel: what an identifier declares, and where it is visible."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from tree_sitter import Node

from tilepipe.source import Span
from tilepipe.source.parse import span

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
_RESTRICT = re.compile(r"\b__restrict(?:__)?\b")

Kind = Literal["param", "local", "shared", "file", "lambda", "thread"]


@dataclass(frozen=True)
class Symbol:
    """A declared name. Equal symbols are the same declaration in the same inlined call.

    `key` is the byte offset of the declarator and the offsets of the calls through which it was reached;
    `rank` counts array dimensions; `decl` spans the whole declaration statement.
    """

    key: tuple[int, tuple[int, ...]]
    name: str = field(compare=False)
    kind: Kind = field(compare=False)
    type: str = field(compare=False, default="")
    rank: int = field(compare=False, default=0)
    pointer: bool = field(compare=False, default=False)
    reference: bool = field(compare=False, default=False)
    const: bool = field(compare=False, default=False)
    restrict: bool = field(compare=False, default=False)
    extern: bool = field(compare=False, default=False)
    decl: Span = field(compare=False, default=Span(0, 0))

    @property
    def is_array(self) -> bool:
        return self.rank > 0


# The coordinates of a thread: every value that depends on them may differ between the threads of a block.
THREAD = Symbol((-1, ()), "threadIdx", "thread")


@dataclass(frozen=True)
class Declarator:
    """One name of a declaration, taken apart."""

    name: str
    offset: int
    rank: int
    pointer: bool
    reference: bool
    value: Node | None


def declarators(declaration: Node) -> list[Declarator]:
    """The names that a declaration or parameter declares."""
    return [
        _unwrap(child)
        for i, child in enumerate(declaration.children)
        if declaration.field_name_for_child(i) == "declarator"
    ]


def _unwrap(node: Node) -> Declarator:
    value = None
    rank = 0
    pointer = reference = False
    current: Node | None = node
    while current is not None and current.type not in ("identifier", "field_identifier"):
        if current.type == "init_declarator":
            value = current.child_by_field_name("value")
        rank += current.type == "array_declarator"
        pointer = pointer or current.type == "pointer_declarator"
        reference = reference or current.type == "reference_declarator"
        inner = current.child_by_field_name("declarator")
        current = inner if inner is not None else next(iter(current.named_children), None)
    if current is None or current.text is None:
        return Declarator("", node.start_byte, rank, pointer, reference, value)
    return Declarator(current.text.decode(), current.start_byte, rank, pointer, reference, value)


def qualifiers(declaration: Node) -> frozenset[str]:
    """Storage classes and type qualifiers of a declaration: const, constexpr, __shared__, extern, static …"""
    words = ("type_qualifier", "storage_class_specifier")
    return frozenset(c.text.decode() for c in declaration.children if c.type in words and c.text)


def declared(
    declaration: Node, text: str, context: tuple[int, ...], kind: Kind
) -> list[tuple[Symbol, Node | None]]:
    """The symbols of a declaration with their initialisers. `text` is the unmasked declaration text."""
    words = qualifiers(declaration)
    type_node = declaration.child_by_field_name("type")
    type_text = type_node.text.decode() if type_node is not None and type_node.text else ""
    found: list[tuple[Symbol, Node | None]] = []
    for d in declarators(declaration):
        is_lambda = d.value is not None and d.value.type == "lambda_expression"
        actual: Kind = "shared" if "__shared__" in words else "lambda" if is_lambda else kind
        symbol = Symbol(
            (d.offset, context),
            d.name,
            actual,
            type_text,
            d.rank,
            d.pointer,
            d.reference,
            bool(words & {"const", "constexpr"}) and not d.pointer,
            _RESTRICT.search(_COMMENT.sub(" ", text)) is not None,
            "extern" in words,
            span(declaration),
        )
        found.append((symbol, d.value))
    return found
