"""Every access to a shared array that pointers carve pieces out of: the bytes of the array that it may touch, by which
piece, and when."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tree_sitter import Node

from tilepipe.kernel.bounds import Ranges
from tilepipe.kernel.intervals import number
from tilepipe.kernel.mentions import KeepsLayoutError
from tilepipe.kernel.model import KernelModel
from tilepipe.kernel.symbols import Symbol
from tilepipe.kernel.walks import RowAccess, Walk, Walks
from tilepipe.source import Span
from tilepipe.source.parse import span

_LOOPS = ("for_statement", "while_statement", "do_statement", "for_range_loop")


@dataclass(frozen=True, eq=False)
class Touch:
    """An access by way of `piece` to bytes `low` to `high` (excluded) of its array, None where there is no bound.

    `stored` says that it writes and does not read, `at` where the kernel's text has it, `during` the text that may
    run before it happens for the last time and after it happens for the first: the loop around, if there is one.
    """

    piece: Symbol
    low: int | None
    high: int | None
    stored: bool
    at: Span
    during: Span

    def meets(self, other: Touch) -> bool:
        """Whether both may touch one byte."""
        return _below(self.low, other.high) and _below(other.low, self.high)


def _below(low: int | None, high: int | None) -> bool:
    return low is None or high is None or low < high


class Extents(Walks):
    """The accesses to one array, in bytes. `pieces` are those that pointers carve out of it, by the offset of the
    pointer's declarator."""

    def __init__(self, model: KernelModel, ranges: Ranges, array: Symbol, pieces: dict[int, Symbol]) -> None:
        super().__init__(model, ranges, 1)
        self.array = array
        self.pieces = pieces

    def found(self) -> list[Touch]:
        """All accesses. Raises KeepsLayoutError."""
        at = self.model.kernel.body
        body = self.model.file.tree.root.named_descendant_for_byte_range(at.start, at.end)
        if body is None:
            raise KeepsLayoutError("the kernel's text is not understood")
        found: list[RowAccess] = []
        for node, scope, own in self.mentions.of(body, self.array.name):
            if not own or not self.array.decl.start <= node.start_byte < self.array.decl.end:
                walk = Walk(number(0), number(0), 1, scope, 0, own, scope)
                found += self._named(node, walk, 1)
        return [self._touch(access, body) for access in found]

    def _named(self, node: Node, walk: Walk, level: int) -> list[RowAccess]:
        """The array's name, or what is left of it with `level - 1` subscripts."""
        unit = self._sizeof(self.array.name + "[0]" * level, walk)
        index, element = self._subscript(node, walk)
        if index is None or element is None:
            parent = self._parent(node, walk)
            if level < self.array.rank and parent.type not in ("cast_expression", "argument_list"):
                raise self._not_understood(walk)
            return self._address(node, replace(walk, unit=unit))
        walk = replace(walk, column=walk.column + index * number(unit))
        if level < self.array.rank:
            return self._named(element, walk, level + 1)
        return self._lvalue(element, walk, unit)

    def _touch(self, access: RowAccess, body: Node) -> Touch:
        walk, low, high = access.walk, access.column.low, access.column.high
        if access.leading is not None and high is not None:
            leading = self.ranges.of(access.leading, walk.at if walk.own_text else access.leading).high
            high = None if leading is None else high + (access.lines - 1) * leading * walk.unit
        piece = next((self.pieces[o] for o in reversed(walk.through) if o in self.pieces), self.array)
        end = None if high is None else high + access.bytes
        return Touch(piece, low, end, access.stored, _statement(walk.place), _during(walk.place, body))


def _statement(node: Node) -> Span:
    """The statement that a node of the kernel stands in, without what it heads."""
    while node.parent is not None and not node.type.endswith(("statement", "declaration")):
        node = node.parent
    return span(node)


def _during(node: Node, body: Node) -> Span:
    """From the first to the last time that a node runs: the outermost loop around it, all of the kernel for what
    stands in a lambda."""
    found, current = span(node), node.parent
    while current is not None and current != body:
        if current.type == "lambda_expression":
            return span(body)
        if current.type in _LOOPS:
            found = span(current)
        current = current.parent
    return found
