"""How a statement moves a variable on: `++i`, `i += x`, `i -= x`, `i = i + x`."""

from __future__ import annotations

from collections.abc import Callable

from tree_sitter import Node


def step_nodes(node: Node, name: str, text: Callable[[Node], str]) -> list[tuple[int, Node | None]] | None:
    """(sign, what is added; None for 1) of each step that the statement or loop header makes, None where it
    changes the variable in another way."""
    if node.type in ("expression_statement", "comma_expression"):
        found: list[tuple[int, Node | None]] = []
        for child in node.named_children:
            steps = step_nodes(child, name, text)
            if steps is None:
                return None
            found += steps
        return found
    target = node.child_by_field_name("left") or node.child_by_field_name("argument")
    if node.type not in ("assignment_expression", "update_expression") or target is None:
        return None if name in text(node) else []
    right, operator = node.child_by_field_name("right"), node.child_by_field_name("operator")
    sign = text(operator) if operator is not None else ""
    if text(target) != name:
        return None if name in text(target) or (right is not None and name in text(right)) else []
    if node.type == "update_expression":
        return [(1 if sign == "++" else -1, None)]
    if right is None or sign not in ("+=", "-=", "="):
        return None
    if sign != "=":
        return [(1 if sign == "+=" else -1, right)]
    first, added = right.child_by_field_name("left"), right.child_by_field_name("right")
    inner = right.child_by_field_name("operator")
    if right.type != "binary_expression" or first is None or inner is None or text(first) != name:
        return None
    return [(1 if text(inner) == "+" else -1, added)] if text(inner) in ("+", "-") else None
