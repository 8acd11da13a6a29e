"""Matrix accesses of `nvcuda::wmma`: which argument is the address, how far rows are apart, how long a line is."""

from __future__ import annotations

from tree_sitter import Node

from tilepipe.kernel.bounds import Ranges
from tilepipe.kernel.mentions import identifiers
from tilepipe.kernel.names import arguments_of, callee

POINTERS = {"load_matrix_sync": 1, "store_matrix_sync": 0}  # which argument is the address
LINE = 32  # elements: the longest line of a fragment whose shape is not known


def fragment_line(fragment: Node, at: Node, ranges: Ranges) -> int:
    """Elements of a fragment that lie next to each other in memory, at most."""
    root = fragment
    while root.type == "subscript_expression":
        root = root.child_by_field_name("argument") or root
    found = ranges.declaration((root.text or b"").decode(), at)
    kind = found[0].child_by_field_name("type") if found is not None else None
    stack = [kind] if kind is not None else []
    while stack:
        node = stack.pop()
        if node.type == "template_type" and (node.child_by_field_name("name") or node).text == b"fragment":
            listed = node.child_by_field_name("arguments")
            shape = [ranges.of(_inner(a), at).value for a in listed.named_children[1:4]] if listed else []
            extents = [v for v in shape if v is not None]
            return max(extents) if len(extents) == 3 else LINE
        stack.extend(node.named_children)
    return LINE


def _inner(node: Node) -> Node:
    """The expression of a template argument."""
    while node.type in ("type_descriptor", "expression_argument") and node.named_children:
        node = node.named_children[0]
    return node


def leading_dimensions(root: Node, name: str) -> list[Node]:
    """The leading dimensions of the matrix accesses whose address names an array."""
    found: list[Node] = []
    stack = [root] if b"_matrix_sync" in (root.text or b"") else []
    while stack:
        node = stack.pop()
        stack.extend(node.named_children)
        pointer = POINTERS.get(callee(node)) if node.type == "call_expression" else None
        arguments = arguments_of(node) if pointer is not None else []
        if pointer is not None and len(arguments) > 2 and identifiers(arguments[pointer], name):
            found.append(arguments[2])
    return found
