"""What the text of a fragment's load says: which elements it fills, and what its declarations are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tree_sitter import Node

_WORD = re.compile(r"[A-Za-z_]\w*")
_ARITHMETIC = re.compile(r"__\w+|fmaf?")  # functions that take scalars by value


def local_types(root: Node) -> list[str]:
    """The types that are given a name below a node."""
    found = []
    for node in nodes(root):
        if node.type == "alias_declaration":
            found.append(text_of(node.child_by_field_name("name") or node))
        elif node.type == "type_definition":
            found += [text_of(n) for d in node.children_by_field_name("declarator") for n in nodes(d)]
    return [name for name in found if _WORD.fullmatch(name)]


def apart(name: str, rank: int, vector: bool, load: Node, uses: list[Node]) -> bool:
    """Whether the elements of a variable that a load names are others than those that uses name.

    Each is one scalar, chosen by literals, and nothing else of the variable is mentioned. `vector` says that the
    variable is, or holds, one of CUDA's vectors.
    """
    filled, read = _scalars(load, name, rank, vector), set()
    for use in uses:
        mine = _scalars(use, name, rank, vector)
        if mine is None:
            return False
        read |= mine
    return filled is not None and not filled & read


def _scalars(root: Node, name: str, rank: int, vector: bool) -> set[tuple[int | str, ...]] | None:
    """The elements of a variable that a text mentions, None where one is not a scalar chosen by literals."""
    found: set[tuple[int | str, ...]] = set()
    for node in nodes(root):
        if node.type != "identifier" or text_of(node) != name or _is_declared(node):
            continue
        path: list[int | str] = []
        inner, outer = node, node.parent
        while outer is not None and outer.type in ("subscript_expression", "field_expression"):
            if outer.type == "subscript_expression":
                index = _literal(outer.child_by_field_name("indices"))
                if index is None or outer.child_by_field_name("argument") != inner:
                    return None
                path.append(index)
            else:
                path.append(text_of(outer.child_by_field_name("field") or outer))
            inner, outer = outer, outer.parent
        fields = [p for p in path if isinstance(p, str)]
        if len(path) != rank + vector or fields != path[rank:] or not set(fields) <= set("xyzw"):
            return None
        if outer is not None and not _reads_alone(outer):
            return None
        found.add(tuple(path))
    return found


def _reads_alone(outer: Node) -> bool:
    """Whether what stands around a scalar takes or sets its value, and not its address."""
    if outer.type == "argument_list":
        called = outer.parent.child_by_field_name("function") if outer.parent is not None else None
        return called is not None and _ARITHMETIC.fullmatch(text_of(called)) is not None
    return outer.type not in (
        "pointer_expression",
        "reference_declarator",
        "init_declarator",
        "initializer_list",
    )


def _literal(indices: Node | None) -> int | None:
    """The value of one literal index, octal ones included."""
    named = indices.named_children if indices is not None else []
    text = text_of(named[0]).rstrip("uUlL") if len(named) == 1 and named[0].type == "number_literal" else ""
    try:
        return int(text, 8 if re.fullmatch(r"0[0-7]+", text) else 0)
    except ValueError:
        return None


def _is_declared(node: Node) -> bool:
    outer = node.parent
    while outer is not None and outer.type in ("array_declarator", "init_declarator"):
        if outer.child_by_field_name("declarator") != node:
            return False
        node, outer = outer, outer.parent
    return outer is not None and outer.type == "declaration"


DIFFERS = "which elements of a fragment are loaded differs between groups"
UNCLEAR = "how a fragment is loaded is not understood"


def unlike_loads(root: Node, names: Mapping[str, bool], moving: set[str]) -> str:
    """Why the elements of `names` that a statement loads may not be the same ones each time it runs; "" if they are.

    Each mention of a name is the target of a plain assignment or of an `asm`, the first argument of a matrix load, an
    argument of a helper, or a declaration, and nothing but blocks and loops stands around it. Its element is chosen by
    names that are not `moving`. The value of a name says whether it is a pointer.
    """
    for node in nodes(root):
        if node.type == "identifier" and text_of(node) in names:
            why = _unlike(root, node, names, moving)
            if why:
                return why
    return ""


def _unlike(root: Node, node: Node, names: Mapping[str, bool], moving: set[str]) -> str:
    address = names[text_of(node)]
    inner, outer = node, node.parent
    while outer is not None and (step := _step(inner, outer, address)) is not None:
        if outer.type == "subscript_expression":
            why = _index(outer.child_by_field_name("indices"), moving | names.keys())
            if why:
                return why
        inner, address = step
        outer = inner.parent
    if outer is None:
        return UNCLEAR
    if outer.type == "assignment_expression" and outer.child_by_field_name("left") == inner:
        operator = outer.child_by_field_name("operator")
        good = not address and operator is not None and text_of(operator) == "="
        return "" if good and _runs_always(root, outer) else UNCLEAR
    if outer.type == "gnu_asm_output_operand":
        constraint, whole = outer.child_by_field_name("constraint"), outer.parent and outer.parent.parent
        plain = constraint is not None and text_of(constraint).startswith('"=')
        good = plain and whole is not None and not address and "@" not in text_of(whole)
        return "" if good and whole is not None and _runs_always(root, whole) else UNCLEAR
    if outer.type == "argument_list" and outer.parent is not None:
        return "" if _runs_always(root, outer.parent) else UNCLEAR
    return "" if _is_declared(node) else UNCLEAR


def _step(inner: Node, outer: Node, address: bool) -> tuple[Node, bool] | None:
    """One step from a place or an address out to the place or address that is made of it: the node, and whether it is
    an address; None where there is no such step."""
    if outer.type == "parenthesized_expression":
        return outer, address
    if outer.type in ("subscript_expression", "field_expression"):
        return (outer, False) if outer.child_by_field_name("argument") == inner else None
    if outer.type == "pointer_expression":
        operator = outer.child_by_field_name("operator")
        takes = operator is not None and text_of(operator) == "&"
        return (outer, takes) if takes != address else None
    if outer.type == "cast_expression":
        kind = outer.child_by_field_name("type")
        return (outer, True) if kind is not None and text_of(kind).endswith("*") else None
    called = outer.parent.child_by_field_name("function") if outer.parent is not None else None
    if outer.type == "argument_list" and called is not None and called.type == "template_function":
        cast = re.fullmatch(r"(?:reinterpret|static)_cast\s*<.*([*&])\s*>", text_of(called), re.DOTALL)
        assert outer.parent is not None
        return (outer.parent, cast[1] == "*") if cast is not None else None
    return None


def _index(indices: Node | None, moving: set[str]) -> str:
    """Why an index may differ from one time to the next, "" if it does not."""
    for node in nodes(indices) if indices is not None else ():
        if node.type == "identifier" and text_of(node) in moving:
            return DIFFERS
        if node.type in (
            "call_expression",
            "assignment_expression",
            "update_expression",
            "pointer_expression",
        ):
            return DIFFERS
    return "" if indices is not None and len(indices.named_children) == 1 else UNCLEAR


def _runs_always(root: Node, node: Node) -> bool:
    """Whether an expression is a statement of its own, or part of a list of such, in nothing but blocks and loops."""
    outer = node
    while outer.parent is not None and outer.parent.type in ("parenthesized_expression", "comma_expression"):
        outer = outer.parent
    if outer.parent is None or outer.parent.type != "expression_statement":
        return False
    outer = outer.parent
    while outer != root and outer.parent is not None:
        inner, outer = outer, outer.parent
        if outer.type == "for_statement" and outer.child_by_field_name("body") != inner:
            return False
        if outer.type not in ("compound_statement", "for_statement"):
            break
    return outer == root


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
