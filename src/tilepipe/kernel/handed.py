"""Whether what an element stands in hands out its place, so that others may point beyond it."""

from __future__ import annotations

from functools import lru_cache

from tree_sitter import Node

from tilepipe.kernel import known
from tilepipe.kernel.names import callee, has, operator_of
from tilepipe.source.parse import below

# What may be a place itself where its operand is one; what binds a list binds what is in it.
_PASSING = ("conditional_expression", "comma_expression", "assignment_expression", "update_expression",
            "parenthesized_expression", "initializer_list")  # fmt: skip
_CLASSES = ("struct_specifier", "class_specifier", "union_specifier")


def hands_out(node: Node) -> bool:
    """Whether what an element stands in may hand out its place, to be pointed at or referred to."""
    outer = node
    while outer.type in _PASSING and outer.parent is not None:
        outer = outer.parent
    taken = outer.type == "pointer_expression" and operator_of(outer) == "&"
    given = outer is not node and outer.type == "argument_list" and not _to_pure(outer)
    return taken or given or _binds_reference(outer) or _returns_reference(outer)


@lru_cache(maxsize=64)  # every tile asks
def points_at_arguments(root: Node) -> bool:
    """Whether a method, a constructor or an operator of a file takes the address of what it is given by reference: the
    place of an element would then be handed out where it looks like a value."""
    stack = [(root, False)]
    while stack:
        node, member = stack.pop()
        member = member or node.type in _CLASSES
        if node.type == "function_definition" and (member or has(node, "operator_name")):
            given = {_name(d) for d in below(node) if d.type == "reference_declarator"}
            taken = (n for n in below(node) if n.type == "pointer_expression" and operator_of(n) == "&")
            if any(_name(n) in given for n in taken):
                return True
        stack.extend((c, member) for c in node.named_children)
    return False


def _name(node: Node) -> bytes:
    """The first name in a node."""
    return next((n.text or b"" for n in below(node) if n.type == "identifier"), b"")


def _to_pure(arguments: Node) -> bool:
    call = arguments.parent
    return call is not None and call.type == "call_expression" and known.is_pure(callee(call))


def _returns_reference(node: Node) -> bool:
    """Whether a return hands out the place instead of its value, or it cannot be told which."""
    outer: Node | None = node if node.type == "return_statement" else None
    while outer is not None and outer.type not in ("function_definition", "lambda_expression"):
        outer = outer.parent
    if outer is None:
        return False
    inside = [n for n in map(outer.child_by_field_name, ("declarator", "type")) if n is not None]
    while inside:
        current = inside.pop()
        if current.type in ("reference_declarator", "abstract_reference_declarator", "decltype"):
            return True
        if current.type == "type_identifier" and current.text in _names_of_references(_root(outer)):
            return True
        inside += [
            c for c in current.named_children if c.type not in ("parameter_list", "template_argument_list")
        ]
    return False


@lru_cache(maxsize=64)
def _names_of_references(root: Node) -> frozenset[bytes]:
    """The names of a file that stand for a reference."""
    found = set()
    for node in below(root):
        if node.type in ("alias_declaration", "type_definition") and b"&" in (node.text or b""):
            name = node.child_by_field_name("name")
            found |= {name.text or b""} if name is not None else {_last(node)}
    return frozenset(found)


def _last(node: Node) -> bytes:
    """The name that a typedef ends in."""
    return next((n.text or b"" for n in reversed(list(below(node))) if n.type == "type_identifier"), b"")


def _root(node: Node) -> Node:
    while node.parent is not None:
        node = node.parent
    return node


def _binds_reference(node: Node) -> bool:
    """Whether a declarator makes a reference of its value."""
    inner, declaration = node.child_by_field_name("declarator"), node.parent
    type_ = declaration.child_by_field_name("type") if declaration is not None else None
    named = _names_of_references(_root(node)) if type_ is not None else frozenset()
    return (inner is not None and inner.type == "reference_declarator") or (
        type_ is not None and any(n.text in named for n in below(type_))
    )
