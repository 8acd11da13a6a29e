"""Comparisons in unsigned arithmetic: what they are made of, and whether it may wrap within a group of elements.

A difference of unsigned numbers below zero is a large number, so that `n - i > 0u` does not ask whether i < n. Where a
value rises by one from a multiple of the group's width, all elements of a group lie on one side of zero; where it falls
they need not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from tree_sitter import Node

from tilepipe.kernel.affine import ONE, Monomial, Vector
from tilepipe.kernel.integers import SIGNED, cast_to
from tilepipe.kernel.names import arguments_of, operator_of
from tilepipe.kernel.resolve import DEPTH, NotProvedError

Placed = TypeVar("Placed")
_COORDINATES = ("threadIdx.", "blockIdx.", "blockDim.", "gridDim.")
WRAPS = "the guard subtracts in unsigned arithmetic, which wraps below zero"


@dataclass(frozen=True)
class Reading(Generic[Placed]):
    """How one proof reads an expression at its place: the node, another node of the place, the compiler's name of the
    type that a cast names and of a variable's ("" where not known), and what a variable is defined as."""

    node: Callable[[Placed], Node]
    beside: Callable[[Placed, Node], Placed]
    cast: Callable[[Placed, str], str]
    variable: Callable[[Placed, str], str]
    defined: Callable[[Placed, str], Placed | None]

    def unsigned_parts(self, sides: Iterable[Placed]) -> list[Placed]:
        """The parts of a comparison's sides whose values may wrap; none where all of it is signed."""
        found = [p for side in sides for p in self._parts(side, 0)]
        return [part for part, _ in found] if any(unsigned for _, unsigned in found) else []

    def _parts(self, at: Placed, depth: int) -> Iterator[tuple[Placed, bool]]:
        """Each part of an expression, with whether it is unsigned, or may be."""
        node = self.node(at)
        text = " ".join(node.text.decode().split()) if node.text else ""
        if depth > DEPTH:
            yield at, True
        elif node.type in ("parenthesized_expression", "condition_clause") and node.named_children:
            yield from self._parts(self.beside(at, node.named_children[0]), depth)
        elif node.type == "number_literal":
            yield at, not text.isdecimal() or int(text) >= 1 << 31
        elif node.type == "cast_expression":
            kind, value = node.child_by_field_name("type"), node.child_by_field_name("value")
            yield from self._converted(at, kind, [value] if value is not None else [], depth)
        elif node.type == "call_expression":
            yield from self._converted(at, node.child_by_field_name("function"), arguments_of(node), depth)
        elif node.type in ("identifier", "qualified_identifier"):
            yield from self._named(at, text, depth)
        elif node.type == "field_expression" or not node.named_children:
            yield at, text.startswith(_COORDINATES)
        else:
            yield at, node.type not in ("binary_expression", "conditional_expression")
            for child in node.named_children:
                yield from self._parts(self.beside(at, child), depth + (operator_of(node) == ""))

    def _converted(
        self, at: Placed, kind: Node | None, values: list[Node], depth: int
    ) -> Iterator[tuple[Placed, bool]]:
        """A conversion, or a call: of one to `int` the value is that of the integers again."""
        text = (kind.text or b"").decode() if kind is not None else ""
        type_ = self.cast(at, cast_to(text))
        yield at, type_ not in SIGNED and text not in ("min", "max")
        for value in values if type_ != "int" else ():
            yield from self._parts(self.beside(at, value), depth + 1)

    def _named(self, at: Placed, name: str, depth: int) -> Iterator[tuple[Placed, bool]]:
        """A name. An `int` holds what its definition is among the integers; what is wider may hold what has wrapped."""
        type_ = self.variable(at, name)
        defined = self.defined(at, name) if type_ != "int" else None
        if defined is None:
            yield at, type_ not in SIGNED
            return
        yield at, type_ not in SIGNED and type_ != ""
        yield from self._parts(defined, depth + 1)


def rises(tables: Mapping[Monomial, Vector]) -> bool:
    """Whether a value that moves within groups rises by one from each element to the next. NotProvedError where it
    falls; False where it does not move, or never below zero is known."""
    steps = {
        m: t - t[:, :1]
        for m, t in tables.items()
        if not np.array_equal(t, np.broadcast_to(t[:, :1], t.shape))
    }
    if not steps or (set(tables) == {ONE} and bool(np.all(tables[ONE] >= 0))):
        return False
    if set(steps) != {ONE} or not np.array_equal(
        steps[ONE], np.broadcast_to(np.arange(steps[ONE].shape[1]), steps[ONE].shape)
    ):
        raise NotProvedError(WRAPS)
    return True
