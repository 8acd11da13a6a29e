"""Which expressions are zero in every bit, so that an asynchronous copy's zero fill stands for them.

The text says how an expression is made of zeros; the compiler is asked for the types on the way, since a class may make
anything of a zero, and of an empty initialiser.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from tree_sitter import Node

from tilepipe.kernel.file import CudaFile
from tilepipe.kernel.tileloop import TileLoop
from tilepipe.source import Span
from tilepipe.source.parse import span

_VECTOR = r"(u?(?:char|short|int|long|longlong)|float|double)([1-4])"
_MADE = re.compile(rf"^make_(?:{_VECTOR}|half(2)|bfloat16(2))$")
_CONVERTED = re.compile(r"^__(\w*2(half|bfloat16)\w*|halves2\w+|u?(short|int|longlong)_as_\w+)$")
# Types of which an arithmetic zero makes zero bytes.
_BUILT_IN = re.compile(
    rf"^((un)?signed )?(char|short|int|long|long long|__int128)$|^(bool|float|double|__half2?|__nv_bfloat162?"
    rf"|__nv_fp8_e4m3|__nv_fp8_e5m2|{_VECTOR})$"
)
_NUMBER = re.compile(r"^(0[xX]0+|0*\.?0*)([eE][+-]?\d+)?[uUlLfF]*$")
_NO_VALUE = ("type_identifier", "comment")
_CLASSES = ("struct_specifier", "class_specifier", "union_specifier", "enum_specifier", "alias_declaration")
_IDENTIFIERS = ("identifier", "field_identifier", "type_identifier")


@dataclass(frozen=True)
class Zero:
    """An expression that is zero in every bit if its types allow: `types` are expressions whose types it goes through.

    `empty` says that nothing but empty initialisers made it, which need not be of a built-in type. `target` is the
    lvalue that it is stored to.
    """

    text: str
    types: tuple[str, ...] = ()
    empty: bool = False
    target: str = ""

    def asks(self, key: str) -> dict[str, tuple[Literal["type", "blank"], str]]:
        """Kind and expression of the questions about it, by keys that begin with `key`."""
        wanted: dict[str, tuple[Literal["type", "blank"], str]] = {}
        for number, expression in enumerate(self.types):
            wanted[f"{key}:{number}"] = ("type", expression)
        wanted[f"{key}:target"] = ("type", self.target)
        if self.empty:
            wanted[f"{key}:blank"] = ("blank", self.target)
        return wanted

    def holds(self, file: CudaFile, key: str, answers: Mapping[str, int | str | None]) -> bool:
        """Whether it is zero, given what the compiler said."""
        types = {answers.get(f"{key}:{number}") for number in range(len(self.types))}
        target = answers.get(f"{key}:target")
        if all(isinstance(t, str) and is_built_in(file, t) for t in (*types, target)):
            return True
        return self.empty and types == {target} and answers.get(f"{key}:blank") == 1


def is_built_in(file: CudaFile, type_: str) -> bool:
    """Whether a type, as the compiler spells it, is arithmetic or one of CUDA's own vectors and small floats, so that
    assigning to it and converting to it run no code of the author's."""
    return _BUILT_IN.match(type_) is not None and type_ not in _names(file)


def is_vector(file: CudaFile, type_: str) -> bool:
    """Whether a type is one of CUDA's vectors, whose members x, y, z and w lie apart."""
    return re.fullmatch(_VECTOR, type_) is not None and is_built_in(file, type_)


@lru_cache(maxsize=8)  # a file has many copies
def _names(file: CudaFile) -> frozenset[str]:
    """Names that the file and its headers give to types, functions and variables."""
    found: set[str] = set()
    stack = list(file.roots)
    while stack:
        node = stack.pop()
        named = node.children_by_field_name("declarator")
        if node.type in _CLASSES:
            named += node.children_by_field_name("name")
        elif node.type == "reference_declarator":
            named += node.named_children
        found |= {(n.text or b"").decode() for n in named if n.type in _IDENTIFIERS}
        stack.extend(node.named_children)
    return frozenset(found)


class Zeros:
    """Recognises zeros in the load phase of one tile loop."""

    def __init__(self, file: CudaFile, tile: TileLoop) -> None:
        self.file = file
        self.tile = tile

    def text(self, at: Span) -> str:
        return self.file.source.slice(at)

    def is_zero(self, node: Node) -> bool:
        """Whether an expression is made of zeros; what the compiler must be asked for it to be one says `zero`."""
        return self.zero(node) is not None

    def zero(self, node: Node, depth: int = 0) -> Zero | None:
        """Literals, conversions of zero, empty initialisers, and variables so initialised that nothing changes."""
        node = bare(node)
        text = self.text(span(node))
        if node.type == "number_literal":
            return Zero(text) if _NUMBER.match(text) else None
        if node.type == "cast_expression":
            value = node.child_by_field_name("value")
            return self._made(text, [value], depth) if value is not None else None
        if node.type == "call_expression":
            return self._called(node, text, depth)
        if node.type == "initializer_list":
            return self._made("", [c for c in node.named_children if c.type not in _NO_VALUE], depth)
        if node.type == "compound_literal_expression":
            inner = node.child_by_field_name("value")
            values = [c for c in inner.named_children if c.type not in _NO_VALUE] if inner is not None else []
            made = self._made(text, values, depth)
            return replace(made, empty=not values) if made is not None else None
        if node.type == "identifier" and depth < 4:
            value = self._initial_value(node, text)
            found = self.zero(value, depth + 1) if value is not None else None
            if value is None or found is None:
                return None
            return self.held(text, value, found)
        return None

    def held(self, name: str, value: Node, zero: Zero) -> Zero:
        """The zero that a variable holds once it is initialised with another."""
        empty = zero.empty or (value.type == "initializer_list" and not value.named_children)
        return Zero(name, (*zero.types, name), empty)

    def _made(self, text: str, values: list[Node], depth: int) -> Zero | None:
        """What is made of other zeros, of the type that `text` has; "" for a list, whose type shows elsewhere."""
        found = [self.zero(v, depth) for v in values]
        types = [t for zero in found if zero is not None for t in zero.types]
        return None if None in found else Zero(text, (*types, *([text] if text else [])))

    def _called(self, node: Node, text: str, depth: int) -> Zero | None:
        """`T(0)`, `T()`, `static_cast<T>(0)`, and the functions of the CUDA headers that make values of numbers."""
        name, listed = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if name is None or listed is None:
            return None
        arguments = [a for a in listed.named_children if a.type != "comment"]
        made, called = self._made(text, arguments, depth), self.text(span(name))
        if made is None or called in self.file.functions or called in self.file.macros:
            return None
        if called.startswith("static_cast<"):
            return made if arguments else None
        vector = _MADE.match(called)
        if vector is not None or _CONVERTED.match(called):
            size = next((int(g) for g in reversed(vector.groups()) if g), 1) if vector is not None else 1
            known = bool(arguments) and (vector is None or len(arguments) == size)
            return made if known and called not in _names(self.file) else None
        if name.type not in ("identifier", "primitive_type"):
            return None
        # Only the name of a type can stand in this place.
        return replace(made, types=(*made.types, f"*static_cast<{called}*>(nullptr)"), empty=not arguments)

    def _initial_value(self, use: Node, name: str) -> Node | None:
        """The initialiser of a variable, if that is its value where it is used: the kernel declares the name once,
        and never changes it or not before this use in the iteration that it lives in."""
        root = self.tile.path[0]
        found: list[Node] = []
        stack = [
            n
            for n in [self.file.tree.root.named_descendant_for_byte_range(root.span.start, root.span.end)]
            if n
        ]
        while stack:
            node = stack.pop()
            if node.type == "init_declarator":
                inner = node.child_by_field_name("declarator")
                value = node.child_by_field_name("value")
                if inner is not None and self.text(span(inner)) == name and value is not None:
                    found.append(value)
            stack.extend(node.named_children)
        changes = [
            s.span.start
            for s in root.walk()
            if s.kind != "declaration" and name in {v.name for v in s.own.defs}
        ]
        if len(found) != 1 or (changes and not self._is_fresh(found[0], use, min(changes))):
            return None
        return found[0]

    def _is_fresh(self, value: Node, use: Node, change: int) -> bool:
        """Whether each iteration initialises the variable anew and uses it in the same block before any change."""
        inside = self.tile.loop.span.start <= value.start_byte < self.tile.loop.span.end
        return inside and _block(value) == _block(use) and value.start_byte < use.start_byte < change


def _block(node: Node) -> Node | None:
    above = node.parent
    while above is not None and above.type != "compound_statement":
        above = above.parent
    return above


def bare(node: Node) -> Node:
    """The expression inside of its parentheses."""
    while node.type in ("parenthesized_expression", "condition_clause") and node.named_children:
        node = node.named_children[0]
    return node
