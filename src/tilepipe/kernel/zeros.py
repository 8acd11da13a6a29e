"""Which expressions are zero in every bit, so that an asynchronous copy's zero fill stands for them."""

from __future__ import annotations

import re

from tree_sitter import Node

from tilepipe.kernel.file import CudaFile
from tilepipe.kernel.tileloop import TileLoop
from tilepipe.source import Span
from tilepipe.source.parse import span

_ZERO_CALLS = re.compile(
    r"^(make_\w+|__\w*2(half|bfloat16)\w*|__u?(short|int|longlong)_as_\w+|static_cast<.*>"
    r"|float|double|int|unsigned|char|short|long|bool|size_t|u?int\d+_t|half2?|__half2?|__nv_bfloat162?)$"
)
_NUMBER = re.compile(r"^(0[xX]0+|0*\.?0*)([eE][+-]?\d+)?[uUlLfF]*$")
_NO_VALUE = ("type_identifier", "comment")


class Zeros:
    """Recognises zeros in the load phase of one tile loop."""

    def __init__(self, file: CudaFile, tile: TileLoop) -> None:
        self.file = file
        self.tile = tile

    def text(self, at: Span) -> str:
        return self.file.source.slice(at)

    def is_zero(self, node: Node, depth: int = 0) -> bool:
        """Whether an expression is zero in every bit: literals, conversions of zero, and variables
        so initialised that nothing changes."""
        node = bare(node)
        text = self.text(span(node))
        if node.type == "number_literal":
            return bool(_NUMBER.match(text))
        if node.type == "cast_expression":
            value = node.child_by_field_name("value")
            return value is not None and self.is_zero(value, depth)
        if node.type == "call_expression":
            name, listed = node.child_by_field_name("function"), node.child_by_field_name("arguments")
            arguments = (
                [a for a in listed.named_children if a.type != "comment"] if listed is not None else []
            )
            called = self.text(span(name)) if name is not None else ""
            return (
                (bool(_ZERO_CALLS.match(called)) or self._is_type(called))
                and called not in self.file.functions
                and called not in self.file.macros
                and bool(arguments)
                and all(self.is_zero(a, depth) for a in arguments)
            )
        if node.type in ("initializer_list", "compound_literal_expression"):
            inner = node.child_by_field_name("value") or node
            return all(self.is_zero(c, depth) for c in inner.named_children if c.type not in _NO_VALUE)
        if node.type == "identifier" and depth < 4:
            value = self._initial_value(node, text)
            return value is not None and self.is_zero(value, depth + 1)
        return False

    def _is_type(self, name: str) -> bool:
        """Whether the file introduces the name as a type: a template parameter, an alias."""
        word = re.escape(name)
        kinds = rf"\b(?:typename|class)\s+{word}\b|\busing\s+{word}\s*=|\btypedef\b[^;]*\b{word}\s*;"
        return name.isidentifier() and re.search(kinds, self.file.source.text) is not None

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
