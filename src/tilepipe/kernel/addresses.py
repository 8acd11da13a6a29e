"""Addresses that the analysis cannot follow (TP023): then nobody knows what a store through them changes.

Pointers are followed by name through declarations, assignments, casts and calls. What is kept elsewhere – in an
integer, in an array or struct of pointers, behind a second pointer, in shared memory – is not, and neither is a
variable of the loader that somebody may change through its address.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from tree_sitter import Node

from tilepipe.diagnostics import Refusal, refusal
from tilepipe.kernel.file import Analysed, CudaFile
from tilepipe.kernel.loader import Split
from tilepipe.kernel.symbols import Symbol
from tilepipe.kernel.tileloop import TileLoop, header_effects
from tilepipe.source.parse import below, span

_INTEGER = re.compile(r"\b(?:int|unsigned|long|short|size_t|u?int(?:ptr|\d+)_t|ptrdiff_t)\b")
_TO_SHARED = "__cvta_generic_to_shared"


def hidden_addresses(file: CudaFile, analysed: Analysed, tile: TileLoop, parts: Split) -> Refusal | None:
    """TP023: every address of a tile, and of what the loader needs, is held by a plain pointer."""
    finder = _Finder(file, analysed, tile, parts)
    found = next(finder.hidden(), None)
    if found is None:
        return None
    node, what, remedy = found
    return refusal(
        "TP023",
        f"{what}, which is not followed: what is changed or read through it is not known",
        file.source.place(span(node)),
        "not followed beyond this point",
        remedy,
    )


class _Finder:
    def __init__(self, file: CudaFile, analysed: Analysed, tile: TileLoop, parts: Split) -> None:
        self.file = file
        self.body = analysed.body.span
        self.loop = tile.loop.span
        header = header_effects(tile.loop)
        used = header.uses | header.defs
        used = used.union(*(i.own.uses | i.own.defs for i in parts.loader))
        inside = {s.key for st in tile.loop.walk() for s in st.declares} - {s.key for s in tile.loop.declares}
        pointers = {s.name for s, targets in analysed.points.items() if targets and not s.is_array}
        self.watched = {s.name for s in used if s.key not in inside and not s.is_array} | pointers
        staged = tile.staged
        self.tiles = {s.name for s in staged}
        self.tiles |= {s.name for s, targets in analysed.points.items() if targets & staged}
        self.holders = {
            s
            for s, targets in analysed.points.items()
            if targets & staged and s.kind == "local" and not s.rank and s.key[1] == ()
        }
        self.shared = {s.name for st in analysed.body.walk() for s in st.declares if s.kind == "shared"}

    def hidden(self) -> Iterator[tuple[Node, str, str]]:
        """Each place where an address gets out of sight: the node, what it is, what to write instead."""
        kernel = self.file.tree.root.named_descendant_for_byte_range(self.body.start, self.body.end)
        bound = _types_with_references(self.file)
        yield from self._held(kernel)
        for node in below(kernel) if kernel is not None else ():
            before = node.end_byte <= self.loop.start
            if node.type == "pointer_expression" and self.text(node).startswith("&"):
                name = self.text(node)[1:].strip()
                if name in self.watched and not self._to_helper(node):
                    yield (
                        node,
                        f"the address of `{name}` is taken",
                        f"use `{name}` by its name, or a copy of it",
                    )
            elif node.type == "structured_binding_declarator" and self._named_inside(node):
                yield (
                    node,
                    "a structured binding is changed or read in the loop",
                    "use variables of their own",
                )
            elif node.type == "type_identifier" and self.text(node) in bound:
                what = f"`{self.text(node)}` holds a reference"
                yield node, what, "use the variable by its name"
            elif node.type == "pointer_declarator" and _of_pointers(node):
                yield node, f"`{self.text(node)}` holds pointers", "use one plain pointer for each array"
            elif before and node.type in ("cast_expression", "call_expression") and self._to_integer(node):
                yield node, "a tile's address becomes an integer", "compute the address inside the loop"
            elif before and node.type == "assignment_expression" and self._kept_elsewhere(node):
                yield node, "a tile's address is stored", "use the array, or a plain local pointer to it"

    def _held(self, kernel: Node | None) -> Iterator[tuple[Node, str, str]]:
        """Variables that hold a tile's address and are no plain pointers to its elements."""
        for symbol in sorted(self.holders, key=lambda s: s.key):
            node = (
                kernel.descendant_for_byte_range(symbol.key[0], symbol.key[0] + 1)
                if kernel is not None
                else None
            )
            if node is None:
                continue
            if symbol.pointer and "volatile" in self.file.source.slice(symbol.decl):
                yield node, f"`{symbol.name}` points to volatile elements of a tile", "leave `volatile` out"
            elif not (symbol.pointer or symbol.reference or _is_number(symbol)):
                yield (
                    node,
                    f"`{symbol.name}` holds a tile's address",
                    "use the array, or a plain pointer to it",
                )

    def text(self, node: Node | None) -> str:
        return self.file.source.slice(span(node)) if node is not None else ""

    def _to_helper(self, node: Node) -> bool:
        """Whether a node is an argument of one of the file's functions, which are walked with their arguments."""
        listed = node.parent
        call = listed.parent if listed is not None and listed.type == "argument_list" else None
        return call is not None and self.text(call.child_by_field_name("function")) in self.file.functions

    def _named_inside(self, binding: Node) -> bool:
        """Whether the tile loop uses a name of a structured binding, which a loader cannot capture."""
        return bool(self._words(binding) & set(re.findall(r"\w+", self.file.source.slice(self.loop))))

    def _words(self, node: Node) -> set[str]:
        return {self.text(n) for n in below(node) if n.type == "identifier"}

    def _to_integer(self, node: Node) -> bool:
        """Whether an integer is made of a tile's address in a way that its stages would not follow."""
        called = self.text(node.child_by_field_name("function"))
        if called == _TO_SHARED:
            return bool(self._words(node) & self.tiles) and not _only_sums(node)
        if node.type == "cast_expression":
            kind, value = self.text(node.child_by_field_name("type")), node.child_by_field_name("value")
        else:
            cast = re.match(r"(?:reinterpret|static)_cast\s*<(.*)>$", called)
            kind, value = (cast.group(1) if cast else ""), node.child_by_field_name("arguments")
        if value is None or "*" in kind or not _INTEGER.search(kind) or _TO_SHARED in self.text(value):
            return False
        return any(
            n.type == "identifier" and self.text(n) in self.tiles and not _is_element(n) for n in below(value)
        )

    def _kept_elsewhere(self, node: Node) -> bool:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is None or right is None:
            return False
        plain = left.type == "identifier" and self.text(left) not in self.shared
        names = [n for n in below(right) if n.type == "identifier" and self.text(n) in self.tiles]
        return not plain and any(not _is_element(n) for n in names)


@lru_cache(maxsize=8)  # a file has many kernels
def _types_with_references(file: CudaFile) -> frozenset[str]:
    """Names of the file's structs that have a reference among their members."""
    found = set()
    for node in below(file.tree.root) if _has_types(file) else ():
        if node.type in ("struct_specifier", "class_specifier"):
            members = node.child_by_field_name("body")
            fields = members.named_children if members is not None else []
            held = any(
                child.type == "reference_declarator"
                for field in fields
                if field.type == "field_declaration"
                for child in field.named_children
            )
            name = node.child_by_field_name("name")
            if held and name is not None:
                found.add(file.source.slice(span(name)))
    return frozenset(found)


def _has_types(file: CudaFile) -> bool:
    return b"struct" in file.source.data or b"class" in file.source.data


def _is_element(name: Node) -> bool:
    """Whether a name stands for an element's value: `s[i]`, and not `&s[i]` or `s`."""
    node, subscripted = name, False
    while node.parent is not None and node.parent.type == "subscript_expression":
        if node.parent.child_by_field_name("argument") != node:
            return True
        node, subscripted = node.parent, True
    parent = node.parent
    return subscripted and not (parent is not None and parent.type == "pointer_expression")


def _is_number(symbol: Symbol) -> bool:
    """Whether a variable can hold no more than a shared address as a number, or is a pointer by deduction."""
    return symbol.type.startswith("auto") or _INTEGER.search(symbol.type) is not None


def _of_pointers(node: Node) -> bool:
    """Whether a declarator is an array of pointers or a pointer to a pointer, of a local variable."""
    inner, outer = node.child_by_field_name("declarator"), node.parent
    while outer is not None and outer.type.endswith("_declarator"):
        outer = outer.parent
    local = outer is not None and outer.type == "declaration"
    return local and inner is not None and inner.type in ("array_declarator", "pointer_declarator")


def _only_sums(node: Node) -> bool:
    """Whether nothing but casts and sums stands between an expression and the variable that it is given to."""
    current = node.parent
    while current is not None and current.type not in (
        "init_declarator",
        "assignment_expression",
        "argument_list",
    ):
        operator = current.child_by_field_name("operator")
        if current.type == "binary_expression" and operator is not None and operator.type != "+":
            return False
        current = current.parent
    return True
