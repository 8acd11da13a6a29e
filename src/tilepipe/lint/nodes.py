"""Nodes of the parse as the walk needs them, lvalues in memory, and closures."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from tree_sitter import Node

from tilepipe.lint.state import stage_bytes
from tilepipe.lint.values import Cell, Pointer
from tilepipe.source import Span


@dataclass(frozen=True)
class Memory:
    """An lvalue in memory; `pointer.dims` are the extents of the object that it designates."""

    pointer: Pointer


@dataclass(frozen=True, eq=False)
class Closure:
    """A lambda with the scopes that it captured."""

    node: Node
    scopes: list[dict[str, Cell]]
    header: str | None


def text_of(node: Node | None) -> str:
    """The text of a node, empty for none."""
    return node.text.decode() if node is not None and node.text is not None else ""


def node_span(node: Node) -> Span:
    """The byte range of a node."""
    return Span(node.start_byte, node.end_byte)


def operator_of(node: Node) -> str:
    """The operator token of an expression."""
    return text_of(node.child_by_field_name("operator"))


def argument_of(node: Node) -> Node:
    """The operand of a unary expression."""
    return node.child_by_field_name("argument") or node.named_children[-1]


def stride_of(pointer: Pointer) -> int | None:
    """Bytes from one element of the designated array to the next, None where it is not known."""
    if not pointer.elem or None in pointer.dims[1:]:
        return None
    return pointer.elem * math.prod(d for d in pointer.dims[1:] if d is not None)


def free(pointer: Pointer) -> Pointer:
    """An address that arithmetic takes anywhere: where the extents are known its stage follows from the bytes."""
    lead = pointer.lead if stage_bytes(pointer.array) is None else None
    return replace(pointer, lead=lead)


def is_zero(text: str) -> bool:
    """Whether an expression spells zero."""
    return bool(
        re.fullmatch(
            r"[\s(]*(make_\w+\(|__float2half\w*\(|\w+\()?[\s(]*0+(\.0*)?f?([\s,)]|0+(\.0*)?f?)*", text
        )
    )
