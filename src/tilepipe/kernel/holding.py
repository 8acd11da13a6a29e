"""Conditions that hold where a node stands, because a branch leads there."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from tilepipe.kernel.names import operator_of

_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_BRANCHES = ("if_statement", "conditional_expression")


def upper_bounds(name: str, at: Node) -> Iterator[tuple[Node, bool]]:
    """What `name` is below where `at` stands, in `if (name < bound && …) at`, and whether it may be equal to it."""
    node = at
    while node.parent is not None and node.parent.type != "function_definition":
        outer = node.parent
        condition = outer.child_by_field_name("condition")
        leads = outer.type in _BRANCHES and outer.child_by_field_name("consequence") == node
        if leads and condition is not None:
            yield from _bounds(name, condition)
        node = outer


def _bounds(name: str, condition: Node) -> Iterator[tuple[Node, bool]]:
    if condition.type in ("condition_clause", "parenthesized_expression"):
        inner = condition.child_by_field_name("value")
        if inner is None and len(condition.named_children) == 1:
            inner = condition.named_children[0]
        yield from _bounds(name, inner) if inner is not None else ()
        return
    left, right = condition.child_by_field_name("left"), condition.child_by_field_name("right")
    if condition.type != "binary_expression" or left is None or right is None:
        return
    sign = operator_of(condition)
    if sign == "&&":
        yield from _bounds(name, left)
        yield from _bounds(name, right)
        return
    for one, other, said in ((left, right, sign), (right, left, _TURNED.get(sign))):
        if said in ("<", "<=") and one.text == name.encode():
            yield other, said == "<="
