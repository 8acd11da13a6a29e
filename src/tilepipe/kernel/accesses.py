"""Every mention of a shared array of rows, as an access to one of its rows – or why one is not understood."""

from __future__ import annotations

from dataclasses import replace

from tree_sitter import Node

from tilepipe.kernel.bounds import Ranges
from tilepipe.kernel.flat import Place, Rows, place
from tilepipe.kernel.intervals import number
from tilepipe.kernel.mentions import KeepsLayoutError, identifiers
from tilepipe.kernel.model import KernelModel
from tilepipe.kernel.names import operator_of
from tilepipe.kernel.symbols import Symbol
from tilepipe.kernel.walks import RowAccess, Walk, Walks
from tilepipe.source import Edit


class Accesses(Walks):
    """The accesses to one array of elements of `element` bytes."""

    def __init__(self, model: KernelModel, ranges: Ranges, array: Symbol, element: int, rows: Rows) -> None:
        super().__init__(model, ranges, element)
        self.array = array
        self.rows = rows

    def found(self) -> list[RowAccess]:
        """All accesses. Raises KeepsLayoutError."""
        at = self.model.kernel.body
        body = self.model.file.tree.root.named_descendant_for_byte_range(at.start, at.end)
        if body is None:
            raise KeepsLayoutError("the kernel's text is not understood")
        accesses: list[RowAccess] = []
        for node, scope, own in self.mentions.of(body, self.array.name):
            if not self._in_declaration(node) or not own:
                walk = Walk(number(0), number(0), self.element, scope, 0, own, scope)
                accesses += self._flat(node, walk) if self.array.rank == 1 else self._named(node, walk)
        far = next((a for a in accesses if a.leading is not None and not a.walk.own_text), None)
        if far is not None:
            raise KeepsLayoutError(f"the matrix access in line {far.line} is not in the kernel's text")
        return accesses

    def _in_declaration(self, node: Node) -> bool:
        return self.array.decl.start <= node.start_byte < self.array.decl.end

    def index_edits(self) -> list[Edit]:
        """The edits on the indices of an array with one extent. Raises KeepsLayoutError."""
        at = self.model.kernel.body
        body = self.model.file.tree.root.named_descendant_for_byte_range(at.start, at.end)
        edits: list[Edit] = []
        for node in identifiers(body, self.array.name) if body is not None and self.array.rank == 1 else ():
            if self._in_declaration(node):
                continue
            index, whole = self._index(node)
            if self.mentions.macro_around(node, body) is not None and (  # type: ignore[arg-type]
                index is None or whole is None or whole.type != "subscript_expression"
            ):
                raise KeepsLayoutError(f"the macro in line {self._line(node)} is not followed")
            if index is not None:
                edits += self._place(index, node).edits
        return edits

    # -- from the name to an element or an address ---------------------------------------------------------------

    def _index(self, node: Node) -> tuple[Node | None, Node | None]:
        """The index of an array with one extent, and the element or address: `A[e]`, `A + e`; neither for `A`."""
        parent = node.parent
        if parent is not None and parent.type == "subscript_expression":
            listed = parent.child_by_field_name("indices")
            if parent.child_by_field_name("argument") == node and listed is not None:
                return (listed.named_children[0], parent) if len(listed.named_children) == 1 else (None, None)
        if parent is not None and parent.type == "binary_expression" and operator_of(parent) == "+":
            left, right = parent.child_by_field_name("left"), parent.child_by_field_name("right")
            return (right if left == node else left), parent
        return None, None

    def _place(self, index: Node, at: Node) -> Place:
        found = place(index, at, self.ranges, self.rows)
        if found is None:
            raise KeepsLayoutError(f"the index in line {self._line(at)} is not understood")
        return found

    def _flat(self, node: Node, walk: Walk) -> list[RowAccess]:
        index, whole = self._index(node)
        if index is None or whole is None:
            return self._address(node, walk)
        found = self._place(index, walk.at)
        walk = replace(walk, row=found.row, column=found.column)
        if whole.type == "subscript_expression":
            return self._lvalue(whole, walk, self.element)
        return self._address(whole, walk)

    def _named(self, node: Node, walk: Walk) -> list[RowAccess]:
        row, parent = self._subscript(node, walk)
        if row is None or parent is None:
            raise KeepsLayoutError(f"line {self._line(walk.at)} names it without a row")
        walk = replace(walk, row=row)
        column, inner = self._subscript(parent, walk)
        if column is None or inner is None:
            return self._address(parent, walk)
        return self._lvalue(inner, replace(walk, column=column), self.element)
