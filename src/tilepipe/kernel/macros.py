"""Macros of the file, expanded for analysis only: the author's text is never expanded in the output."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from tree_sitter import Node, Tree

from tilepipe.source.parse import parse_tree

_WORD = re.compile(r"[A-Za-z_]\w*")
_LINE_JOIN = re.compile(r"\\\r?\n")
_VALUE = re.compile(r"[\w\s.+\-*/%<>]*")
_ACTS = re.compile(r"\+\+|--|restrict|volatile")
_CONTAINERS = ("translation_unit", "declaration_list", "namespace_definition", "linkage_specification")
# A name alone in parentheses, where these change nothing: `(a) && (b)` would be read as a conversion to a type `a`.
_GROUPED = re.compile(r"(?<![\w)>\]])\(\s*(\w+)\s*\)(?=\s*(?:[-+*&]|$))")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)


@dataclass(frozen=True)
class Macro:
    """`#define name(parameters) body`; `parameters` is None for an object-like macro."""

    name: str
    parameters: tuple[str, ...] | None
    body: str


def file_macros(root: Node) -> dict[str, Macro]:
    """Every macro that the file defines, by name; a later definition wins."""
    return {macro.name: macro for macro in _definitions(root)}


def ambiguous(root: Node) -> frozenset[str]:
    """Macros defined in several ways of which one is more than a value or a type: which of them holds at a place
    (`#undef`, `#ifdef`) is not followed. Values and types are asked of the compiler where they matter."""
    ways: dict[str, set[Macro]] = {}
    for macro in _definitions(root):
        ways.setdefault(macro.name, set()).add(macro)
    return frozenset(n for n, of in ways.items() if len(of) > 1 and not all(_is_value(m) for m in of))


def _is_value(macro: Macro) -> bool:
    return _VALUE.fullmatch(macro.body) is not None and not _ACTS.search(macro.body)


def _definitions(root: Node) -> list[Macro]:
    found: list[Macro] = []
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type in ("preproc_def", "preproc_function_def"):
            name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
            parameters = node.child_by_field_name("parameters")
            if name is not None and name.text is not None:
                body = value.text.decode() if value is not None and value.text else ""
                names = None
                if parameters is not None:
                    names = tuple(c.text.decode() for c in parameters.named_children if c.text)
                macro = Macro(name.text.decode(), names, _COMMENT.sub(" ", _LINE_JOIN.sub(" ", body)).strip())
                found.append(macro)
        elif node.type.startswith("preproc_") or node.type in _CONTAINERS:
            stack.extend(reversed(node.children))
    return found


def expand(macro: Macro, arguments: Sequence[str]) -> str:
    """The macro's body with its parameters replaced by `arguments`, one level deep."""
    if macro.parameters is None:
        return macro.body
    values = dict(zip(macro.parameters, arguments, strict=False))
    return _GROUPED.sub(r"\1", _WORD.sub(lambda m: values.get(m.group(), m.group()), macro.body))


@lru_cache(maxsize=4096)
def _parsed(text: str) -> tuple[Tree, int]:
    head = "void tp() {"
    return parse_tree(f"{head}{text};}}"), len(head)


def expansion_body(text: str) -> Node | None:
    """The compound statement that holds a parsed macro expansion, None where it does not parse."""
    tree, _ = _parsed(text)
    if tree.root_node.has_error:
        return None
    function = tree.root_node.named_children[0]
    return function.child_by_field_name("body")
