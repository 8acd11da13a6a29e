"""Initialisers in parentheses that the grammar takes for the parameters of a function.

    float v(tile[i]);        reads like        float v(T[3]);

C++ decides by whether `tile` is a type, which a grammar cannot know. A kernel hardly declares a function in its body,
so that what may be a value there is one, and is shown to the grammar in braces: `float v{tile[i]};`, as long as before.
"""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

_AROUND = ("pointer_declarator", "reference_declarator")
_NAMES = ("identifier", "structured_binding_declarator")
_TYPES = ("type_identifier", "qualified_identifier")
# How an expression that begins with a name reads as a declarator: `a[i]`, `a * b`, `a & b`, `a && b`.
_EXPRESSIONS = ("abstract_array_declarator", *_AROUND)


def with_braces(data: bytes, root: Node) -> bytes:
    """The text of a tree with such initialisers in braces."""
    changed = bytearray(data)
    for listed in _misread(root):
        changed[listed.start_byte] = ord("{")
        changed[listed.end_byte - 1] = ord("}")
    return bytes(changed)


def _misread(root: Node) -> Iterator[Node]:
    """The parameter lists that are initialisers."""
    stack = [(root, False)]
    while stack:
        node, within = stack.pop()
        if within and node.type == "declaration" and not _is_function(node):
            yield from (found for c in node.named_children if (found := _parameters(c)) is not None)
        within = within or node.type == "compound_statement"
        stack.extend((c, within) for c in node.named_children)


def _is_function(declaration: Node) -> bool:
    """Whether nothing but functions can be declared so."""
    kind = declaration.child_by_field_name("type")
    words = {c.text for c in declaration.children if c.type == "storage_class_specifier"}
    return b"extern" in words or (kind is not None and kind.text == b"void")


def _parameters(declarator: Node) -> Node | None:
    """The parameters of a declarator, where all of them may be values."""
    inner: Node | None = declarator
    while inner is not None and inner.type in _AROUND:
        inner = next((c for c in inner.named_children if c.type.endswith("declarator")), None)
    if inner is None or inner.type != "function_declarator" or len(inner.named_children) != 2:
        return None
    name, listed = inner.named_children
    if name.type not in _NAMES or not listed.named_children:
        return None
    return listed if all(_may_be_value(p) for p in listed.named_children) else None


def _may_be_value(parameter: Node) -> bool:
    """Whether a parameter reads as an expression too: `a`, `a[i]`, `a * b`."""
    if parameter.type == "comment":
        return True
    kind = parameter.child_by_field_name("type")
    others = [c for c in parameter.named_children if c != kind]
    return (
        parameter.type == "parameter_declaration"
        and kind is not None
        and kind.type in _TYPES
        and all(c.type in _EXPRESSIONS for c in others)
    )
