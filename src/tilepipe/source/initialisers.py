"""Initialisers in parentheses that the grammar takes for the parameters of a function.

    float v(tile[i]);        reads like        float v(T[3]);

C++ decides by whether `tile` is a type, which a grammar cannot know. A kernel hardly declares a function in its body,
so that what may be a value there is one, and is shown to the grammar in braces: `float v{tile[i]};`, as long as before.

    const float* p(tile + i);     reads like        const float* p(T …

Behind a pointer's name the grammar goes on to expect parameters, and stumbles. Where it does, and such a declaration
stands in the text, its initialiser is put in braces, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tree_sitter import Node

from tilepipe.source.lexical import closing
from tilepipe.source.text import Span

_AROUND = ("pointer_declarator", "reference_declarator")
_NAMES = ("identifier", "structured_binding_declarator")
_TYPES = ("type_identifier", "qualified_identifier")
# How an expression that begins with a name reads as a declarator: `a[i]`, `a * b`, `a & b`, `a && b`.
_EXPRESSIONS = ("abstract_array_declarator", *_AROUND)
# From the end of what stands before a statement to the parenthesis behind the name of a pointer or reference.
_POINTER = re.compile(
    rb"(?:[{};)]|\*/|//[^\n]*\n|\bfor\s*\()\s*"
    rb"(?:(?:const|constexpr|static|volatile|unsigned|signed)\s+)*"
    rb"(?!(?:return|throw|delete|new|else|goto|case|sizeof|typedef|using|extern|void)\b)[A-Za-z_][\w:]*(?:\s+const)?"
    rb"\s*[*&][*&\s]*(?:const\s+)?[A-Za-z_]\w*\s*(?=\()"
)
_AFTER = re.compile(rb"\s*[;,]")
_ANOTHER = re.compile(rb"\s*,\s*[*&\s]*(?:const\s+)?[A-Za-z_]\w*\s*(?=\()")


def with_braces(data: bytes, root: Node) -> bytes:
    """The text of a tree with such initialisers in braces."""
    changed = bytearray(data)
    for listed in _misread(root):
        changed[listed.start_byte] = ord("{")
        changed[listed.end_byte - 1] = ord("}")
    return bytes(changed)


def pointers_with_braces(data: bytes, broken: Sequence[Span]) -> bytes:
    """The text with initialisers of pointers in braces, in the declarations that overlap what did not parse."""
    changed = bytearray(data)
    for found in _POINTER.finditer(data):
        next_: re.Match[bytes] | None = found
        while next_ is not None:
            start = next_.end()
            end = closing(data, start)
            if end is None or _AFTER.match(data, end) is None:
                break  # a function's body follows
            if any(b.start < end and found.start() < b.end for b in broken):
                changed[start] = ord("{")
                changed[end - 1] = ord("}")
            next_ = _ANOTHER.match(data, end)
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
