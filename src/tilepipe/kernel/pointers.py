"""Addresses of a copy in bytes: the pointer or array that they start from, and the distance from it as a form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import gcd

from tree_sitter import Node

from tilepipe.kernel.affine import Form, number
from tilepipe.kernel.mapforms import Forms
from tilepipe.kernel.model import Buffer
from tilepipe.kernel.names import arguments_of, callee, operator_of
from tilepipe.kernel.resolve import DEPTH, NotProvedError
from tilepipe.kernel.scopes import Scope, Value
from tilepipe.kernel.symbols import Symbol

_POINTED = re.compile(r"^(?:const |volatile )*(.*?)(?: const)?\s*\*(?: ?(?:const|__restrict__))*$")

# Bytes of the vector types that casts in copies name.


@dataclass(frozen=True, eq=False)
class Place:
    """`root` is the text whose alignment counts, "" for an array whose declaration is aligned; `unit` the size in
    bytes of what the pointer points to."""

    root: str
    distance: Form
    unit: int


@dataclass
class Pointers:
    """Follows the pointers of one copy.

    `sizes` gives the bytes of types by name, `rows` those of an element of a shared array by its name and the number
    of indices. `moved` collects the pointers that differ between threads and walk from tile to tile.
    """

    forms: Forms
    buffer: Buffer
    sizes: Mapping[str, int]
    rows: Mapping[tuple[str, int], int]
    moved: dict[Symbol, Value] = field(default_factory=dict)
    walked: dict[Symbol, int] = field(default_factory=dict)  # pointers that walk, with their units

    def lvalue(self, value: Value, depth: int = 0) -> Place:
        """The place of an element: `p[i]`, `a[i][j]`, `*p`."""
        node = value.node
        if node.type == "parenthesized_expression":
            return self.lvalue(_at(value, node.named_children[0]), depth)
        if node.type == "subscript_expression":
            return self._element(value, depth)
        if node.type == "pointer_expression" and operator_of(node) == "*":
            return self.pointer(_field(value, "argument"), depth)
        if node.type == "call_expression":
            macro = self.forms.scopes.model.file.macros.get(callee(node))
            if macro is not None and macro.parameters is not None:
                from_macro = self.forms.expanded_call(value, macro)
                return self.lvalue(from_macro, depth + 1)
        raise NotProvedError("the address is not that of an element")

    def _element(self, value: Value, depth: int) -> Place:
        indices: list[Value] = []
        base = value
        while base.node.type == "subscript_expression":
            listed = base.node.child_by_field_name("indices")
            if listed is None or len(listed.named_children) != 1:
                raise NotProvedError("an index is not understood")
            indices.insert(0, _at(value, listed.named_children[0]))
            base = _field(base, "argument")
        array = self._array(base, depth)
        if array is not None:
            return self._row(array, indices, depth)
        if len(indices) != 1:
            raise NotProvedError("an array of several dimensions is not followed")
        place = self.pointer(base, depth)
        return Place(
            place.root, place.distance + number(place.unit) * self.forms.form(indices[0]), place.unit
        )

    def _row(self, array: str, indices: list[Value], depth: int) -> Place:
        """An element, or a row, of the shared array."""
        total = number(0)
        unit = 0
        for rank, index in enumerate(indices):
            known = self.rows.get((array, rank + 1))
            if known is None:
                raise NotProvedError("the shared array's extents are not known")
            unit = known
            total = total + number(unit) * self.forms.form(index)
        return Place("", total, unit)

    def _array(self, value: Value, depth: int) -> str | None:
        """The declared shared array that a name stands for, None for a pointer."""
        node, scope = value.node, value.scope
        if node.type == "parenthesized_expression":
            return self._array(_at(value, node.named_children[0]), depth)
        name = self._text(node)
        if node.type != "identifier" or depth > DEPTH:
            return None
        found = scope.symbol(name)
        if found is None:
            given = self.forms.scopes.argument(name, scope)
            if given is not None:
                return self._array(given, depth + 1)
        array = self.buffer.array
        plain = not array.extern and self.buffer.piece == array and not self._parameter(name, scope)
        return name if plain and name == array.name and (found is None or found == array) else None

    def is_array(self, value: Value) -> bool:
        """Whether a name stands for the tile as a declared array."""
        return self._array(value, 0) is not None

    def _parameter(self, name: str, scope: Scope) -> bool:
        """Whether a call around the place has a parameter of that name."""
        return any(name in self.forms.scopes.parameters(call) for call in scope.calls)

    def pointer(self, value: Value, depth: int = 0) -> Place:
        """The place that a pointer points to."""
        node = value.node
        if depth > DEPTH:
            raise NotProvedError("pointers are followed too far")
        if node.type == "parenthesized_expression":
            return self.pointer(_at(value, node.named_children[0]), depth)
        if node.type == "pointer_expression" and operator_of(node) == "&":
            return self.lvalue(_field(value, "argument"), depth)
        if node.type == "cast_expression":
            return self._retyped(self.pointer(_field(value, "value"), depth), _field(value, "type").node)
        if node.type == "call_expression":
            return self._call(value, depth)
        if node.type == "binary_expression" and operator_of(node) in ("+", "-"):
            return self._sum(value, depth)
        if node.type == "subscript_expression":
            row = self._element(value, depth)
            if row.root:
                raise NotProvedError("a pointer read from memory is not followed")
            return row
        if node.type == "identifier":
            return self._named(value, depth)
        raise NotProvedError(f"`{self._text(node)}` is not a pointer that is followed")

    def _call(self, value: Value, depth: int) -> Place:
        name, arguments = callee(value.node), arguments_of(value.node)
        macro = self.forms.scopes.model.file.macros.get(name)
        if macro is not None and macro.parameters is not None:
            return self.pointer(self.forms.expanded_call(value, macro), depth + 1)
        function = value.node.child_by_field_name("function")
        if function is not None and name in ("reinterpret_cast", "static_cast") and len(arguments) == 1:
            inner = self.pointer(_at(value, arguments[0]), depth)
            listed = function.child_by_field_name("arguments")
            if listed is not None and listed.named_children:
                return self._retyped(inner, listed.named_children[0])
        raise NotProvedError(f"`{self._text(value.node)}` is not a pointer that is followed")

    def _retyped(self, place: Place, kind: Node) -> Place:
        found = _POINTED.match(self._text(kind))
        size = self.sizes.get(found.group(1).strip()) if found is not None else None
        if size is None:
            raise NotProvedError(f"the size of `{self._text(kind)}` is not known")
        return replace(place, unit=size)

    def _sum(self, value: Value, depth: int) -> Place:
        left, right = _field(value, "left"), _field(value, "right")
        minus = operator_of(value.node) == "-"
        if not minus and not self._points(left):
            left, right = right, left
        place = self.pointer(left, depth)
        offset = number(-place.unit if minus else place.unit) * self.forms.form(right)
        return Place(place.root, place.distance + offset, place.unit)

    def _points(self, value: Value) -> bool:
        """Whether an operand of a sum is its pointer, by the first name that stands in it."""
        node = value.node
        while node.type in ("parenthesized_expression", "binary_expression") and node.named_children:
            node = node.named_children[0]
        if node.type in ("pointer_expression", "call_expression"):
            return True
        if node.type == "cast_expression":
            kind = node.child_by_field_name("type")
            return kind is not None and "*" in self._text(kind)
        found = value.scope.symbol(self._text(node))
        if found is None:
            return self._array(_at(value, node), 0) is not None
        return found.pointer or found.is_array

    # -- names ---------------------------------------------------------------------------------------------------

    def _named(self, value: Value, depth: int) -> Place:
        name, scope = self._text(value.node), value.scope
        array = self._array(value, depth)
        if array is not None:
            unit = self.rows.get((array, 1))
            if unit is None:
                raise NotProvedError("the shared array's extents are not known")
            return Place("", number(0), unit)
        found = scope.symbol(name)
        if found is None:
            given = self.forms.scopes.argument(name, scope)
            if given is not None:
                return self.pointer(given, depth + 1)
            if name == self.buffer.name and not self._parameter(name, scope):
                return self._shared_pointer(name)
            raise NotProvedError(f"`{name}` is not a pointer of the kernel")
        if not found.pointer:
            raise NotProvedError(f"`{name}` is not a pointer of the kernel")
        return self._followed(found, scope, depth)

    def _shared_pointer(self, name: str) -> Place:
        """Dynamic shared memory, or a piece of an array: aligned as the launch and the author have it."""
        unit = self.rows.get((name, 1))
        if unit is None:
            raise NotProvedError("the size of the shared elements is not known")
        return Place(name, number(0), unit)

    def _followed(self, found: Symbol, scope: Scope, depth: int) -> Place:
        scopes, model = self.forms.scopes, self.forms.scopes.model
        unit = self._unit(found)
        piece = self.buffer.piece
        own = found.key == (piece.key[0], ())  # no parameter of a helper that has its name
        if own and piece in model.analysed.points.get(found, ()):
            return self._shared_pointer(found.name)
        uniform = found not in scopes.divergent
        loop = model.tile.loop.span
        if found in model.split.carried:
            self.walked[found] = unit
            if uniform and found.key[1] == ():
                return Place(found.name, number(0), unit)
            start = scopes.declared_value(found)
            if start is None:
                raise NotProvedError(f"where `{found.name}` starts is not understood")
            self.moved[found] = start
            return replace(self.pointer(start, depth + 1), unit=unit)
        before = found.key[1] == () and found.key[0] < loop.start
        if before and uniform:
            if model.tile.flow.definers[found]:
                raise NotProvedError(f"`{found.name}` is set anew for each tile")
            return Place(found.name, number(0), unit)
        defined = scopes.definition(found, scope)
        if defined is None:
            raise NotProvedError(f"`{found.name}` is given its value in a way that is not followed")
        return replace(self.pointer(defined, depth + 1), unit=unit)

    def _unit(self, found: Symbol) -> int:
        size = self.sizes.get(found.type)
        if size is None:
            raise NotProvedError(f"the size of `{found.type}` is not known")
        return size

    def _text(self, node: Node) -> str:
        return " ".join(node.text.decode().split()) if node.text else ""


def _at(value: Value, node: Node) -> Value:
    return Value(node, value.scope, value.item)


def _field(value: Value, name: str) -> Value:
    node = value.node.child_by_field_name(name)
    if node is None:
        raise NotProvedError("an address is not understood")
    return Value(node, value.scope, value.item)


def needed_factor(coefficient: int, width: int) -> int:
    """What a symbol must be a multiple of so that `coefficient` times it is one of `width`."""
    return width // gcd(width, coefficient)
