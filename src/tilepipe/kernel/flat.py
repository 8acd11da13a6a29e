"""Tiles declared with one extent, `As[BM * BK]`: the row and column that an index means, and the index of the same
element once rows are longer.

An index that is spelled `row * BK + column` keeps its form: `row * (BK + 8) + column`. Any other index e that is not
negative becomes `e + e / BK * 8`: its row is e / BK, and its column what is left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tree_sitter import Node

from tilepipe.kernel.bounds import Ranges
from tilepipe.kernel.intervals import Range, number, quotient, remainder
from tilepipe.kernel.macros import addend, operand
from tilepipe.kernel.names import has, operator_of, summands
from tilepipe.source import Edit
from tilepipe.source.parse import span

_ACTS = ("call_expression", "assignment_expression", "update_expression", "lambda_expression")


@dataclass(frozen=True)
class Place:
    """An element's row and column, and the edits on its index that make rows longer."""

    row: Range
    column: Range
    edits: tuple[Edit, ...]


@dataclass(frozen=True)
class Rows:
    """Rows of `length` elements that are to have `more`; `name` is what the author calls the length, or a number."""

    length: int
    more: int
    name: str


def place(index: Node, at: Node, ranges: Ranges, rows: Rows) -> Place | None:
    """Where an index points, and how it changes with longer rows; None where that cannot be told. `at` gives its names
    their meaning."""
    length, more = rows.length, rows.more
    spelled = _spelled(index, at, ranges, length, more)
    if spelled is not None:
        return spelled
    value = ranges.of(index, at)
    if not value.natural or any(has(index, kind) for kind in _ACTS):
        return None
    row, column = quotient(value, length), remainder(value, length)
    if row.value == 0:
        return Place(row, column, ())
    text = operand(_text(index), ranges.file.macros)
    edit = Edit(span(index), f"{text} + {text} / {rows.name} * {more}")
    return Place(row, column, (edit,))


def row_length(index: Node, at: Node, ranges: Ranges) -> Node | None:
    """The constant that an index spells as the length of a row: the largest factor of its terms, None without one."""
    factors: list[tuple[int, Node]] = []
    for term in summands(index):
        found = _row_factor(term, lambda node: ranges.of(node, at).value is not None)
        value = ranges.of(found[1], at).value if found is not None else None
        if found is not None and value is not None:
            factors.append((value, found[1]))
    return max(factors, key=lambda pair: pair[0])[1] if factors else None


def _spelled(index: Node, at: Node, ranges: Ranges, length: int, more: int) -> Place | None:
    """`row * length + column`, with terms in any order; None for another form, or a column beyond the row."""
    row, column = number(0), number(0)
    factors: list[Node] = []
    for term in summands(index):
        found = _row_factor(term, lambda node: ranges.of(node, at).value == length)
        if found is None:
            column += ranges.of(term, at)
        else:
            row += ranges.of(found[0], at)
            factors.append(found[1])
    if not factors or not column.natural or column.high is None or column.high >= length:
        return None
    return Place(
        row,
        column,
        tuple(Edit(span(f), f"({addend(_text(f), ranges.file.macros)} + {more})") for f in factors),
    )


def _row_factor(term: Node, is_length: Callable[[Node], bool]) -> tuple[Node, Node] | None:
    """The row and the length of a product of the two."""
    left, right = term.child_by_field_name("left"), term.child_by_field_name("right")
    if term.type != "binary_expression" or operator_of(term) != "*" or left is None or right is None:
        return None
    for row, length in ((left, right), (right, left)):
        if is_length(length):
            return row, length
    return None


def _text(node: Node) -> str:
    return node.text.decode() if node.text else ""
