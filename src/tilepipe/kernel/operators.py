"""Whether operators of the author's may change what they are applied to, as `stream >> x` and `-state` may."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tree_sitter import Node

from tilepipe.kernel.names import has

_CLASSES = ("struct_specifier", "class_specifier", "union_specifier")
_METHODS = ("function_declarator", "abstract_function_declarator")
# Assignments change their left side by their look alone; a call is looked at as one.
_SEEN = re.compile(r"operator\s*(=|[-+*/%^&|]=|<<=|>>=|\+\+|--|\(\s*\))")

# Types that have no operators of the author's.
PLAIN = re.compile(
    r"(const |volatile )*(unsigned|signed|char|short|int|long|float|double|bool|size_t|u?int\d+_t|ptrdiff_t|(__)?half2?"
    r"|(__)?nv_bfloat16\d?|u?(char|short|int|long|longlong)[1-4]?|(float|double)[1-4])( (int|long|char|short))*"
)


def may_change(roots: Sequence[Node]) -> bool:
    """Whether the files have an operator that may change an operand: a method that is not const, or a function that
    takes one by a reference to what is not const."""
    mutable = any(b"mutable" in (root.text or b"") for root in roots)
    return any(
        _changes(node, mutable)
        for root in roots
        if b"operator" in (root.text or b"")
        for node in _declared(root)
    )


def _declared(root: Node) -> Iterator[Node]:
    """The declarators of operators."""
    stack = [root]
    while stack:
        node = stack.pop()
        stack.extend(node.named_children)
        kinds = [c.type for c in node.named_children]
        if node.type == "operator_cast" or (node.type == "function_declarator" and "operator_name" in kinds):
            yield node


def _changes(declarator: Node, mutable: bool) -> bool:
    text = (declarator.text or b"").decode()
    const = b"const" if not mutable else None  # a member that is mutable changes in what is const, too
    if _SEEN.match(text):
        return False
    function = declarator
    if declarator.type == "operator_cast":
        function = next((c for c in declarator.named_children if c.type in _METHODS), declarator)
    if _is_method(declarator):
        return not any(c.type == "type_qualifier" and c.text == const for c in function.named_children)
    listed = function.child_by_field_name("parameters")
    return any(
        has(p, "reference_declarator")
        and not any(c.type == "type_qualifier" and c.text == const for c in p.named_children)
        for p in (listed.named_children if listed is not None else ())
    )


def _is_method(declarator: Node) -> bool:
    node = declarator.parent
    while node is not None and node.type not in ("friend_declaration", *_CLASSES):
        node = node.parent
    return node is not None and node.type in _CLASSES
