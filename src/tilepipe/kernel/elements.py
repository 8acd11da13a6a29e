"""What the text of a fragment's load says: which elements it fills, and what its declarations are."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

_WORD = re.compile(r"[A-Za-z_]\w*")


def local_types(root: Node) -> list[str]:
    """The types that are given a name below a node."""
    found = []
    for node in nodes(root):
        if node.type == "alias_declaration":
            found.append(text_of(node.child_by_field_name("name") or node))
        elif node.type == "type_definition":
            found += [text_of(n) for d in node.children_by_field_name("declarator") for n in nodes(d)]
    return [name for name in found if _WORD.fullmatch(name)]


def apart(name: str, load: str, uses: list[str]) -> bool:
    """Whether the elements of a variable that a load names are by their spelling others than those that uses name."""
    mention = re.compile(rf"(?<![\w.>]){name}\b\s*(\.\s*\w+|(?:\[\s*\d+\s*\])*)")
    filled, read = ({re.sub(r"\s", "", e) for e in mention.findall(t)} for t in (load, " ".join(uses)))
    depths = {(e.count("["), e.startswith(".")) for e in filled | read}
    return not filled & read and len(depths) == 1 and depths != {(0, False)}


def same_elements(root: Node, names: set[str], fixed: set[str], moving: set[str]) -> bool:
    """Whether every element of `names` that the text mentions is chosen by constants and by `fixed` counters."""
    for node in nodes(root):
        if node.type != "identifier" or text_of(node) not in names:
            continue
        inner, outer = node, node.parent
        while outer is not None and outer.type in (
            "subscript_expression",
            "field_expression",
            "parenthesized_expression",
            "pointer_expression",
            "cast_expression",
        ):
            if outer.type == "subscript_expression":
                for child in outer.named_children:
                    chosen = {text_of(n) for n in nodes(child) if n.type == "identifier"}
                    if child.id != inner.id and chosen & (moving | names) - fixed:
                        return False
            inner, outer = outer, outer.parent
        if outer is not None and outer.type in ("binary_expression", "subscript_argument_list"):
            return False  # a pointer into the fragment
    return True


def nodes(root: Node) -> Iterator[Node]:
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(node.named_children)


def text_of(node: Node) -> str:
    return node.text.decode() if node.text else ""


def last_identifier(node: Node) -> str:
    """The name that a parameter or declarator declares."""
    current: Node | None = node
    while current is not None and current.type != "identifier":
        inner = current.child_by_field_name("declarator")
        current = (
            inner
            if inner is not None
            else next(
                (
                    c
                    for c in current.named_children
                    if c.type
                    in (
                        "identifier",
                        "array_declarator",
                        "reference_declarator",
                        "pointer_declarator",
                        "parenthesized_declarator",
                    )
                ),
                None,
            )
        )
    return text_of(current) if current is not None else ""


def is_plain_declaration(node: Node) -> bool:
    """`T a = x, b = y;` where every name has a value that is no list."""
    if node.type != "declaration":
        return False
    values = [
        c.child_by_field_name("value") if c.type == "init_declarator" else None
        for i, c in enumerate(node.children)
        if node.field_name_for_child(i) == "declarator"
    ]
    return all(v is not None and v.type not in ("initializer_list", "argument_list") for v in values)
