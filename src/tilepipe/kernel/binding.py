"""Which node of a function introduces a name, as C++ scopes have it: the text alone, no types.

Whatever may introduce a name counts: variables, parameters, structured bindings, types, enumerators, `using`, lambda
captures, template parameters, and declarations that a macro makes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tree_sitter import Node

from tilepipe.kernel.macros import Macro, expansion_body, written

Introduction = tuple[int, str]  # where a node begins, and of which kind it is
_WORD = re.compile(r"[A-Za-z_]\w*")
_NAMES = ("identifier", "type_identifier", "namespace_identifier")
_TYPES = ("struct_specifier", "class_specifier", "union_specifier", "enum_specifier")
_HEADED = (
    "if_statement",
    "while_statement",
    "for_range_loop",
    "switch_statement",
    "for_statement",
    "catch_clause",
)
_FUNCTIONS = ("function_definition", "lambda_expression")


def introduced(node: Node, macros: Mapping[str, Macro]) -> Iterator[tuple[str, int]]:
    """The names that one node of a block introduces to the block, with where each stands. `using namespace q` gives
    the name "namespace q"."""
    kind = node.type
    if kind in ("declaration", "parameter_declaration", "optional_parameter_declaration", "type_definition",
                "variadic_parameter_declaration", "field_declaration"):  # fmt: skip
        yield from _of_type(node.child_by_field_name("type"))
        for at, child in enumerate(node.children):
            if node.field_name_for_child(at) == "declarator":
                yield from _declared(child)
    elif kind in _TYPES:
        yield from _of_type(node)
    elif kind in ("alias_declaration", "namespace_alias_definition"):
        yield from _name(node.child_by_field_name("name"))
    elif kind == "using_declaration":
        yield from _used(node)
    elif kind.endswith("_parameter_declaration"):  # of a template
        named = [
            c for c in node.named_children if c.type in ("type_identifier", "type_parameter_declaration")
        ]
        for child in named[-1:] if kind.startswith("template") else named[:1]:
            yield from _name(child) if child.type == "type_identifier" else introduced(child, macros)
    elif kind == "for_range_loop":
        declared = node.child_by_field_name("declarator")
        yield from _declared(declared) if declared is not None else ()
    elif kind == "lambda_capture_initializer":
        yield from _name(node.child_by_field_name("left"))
    elif kind == "init_statement" or kind in ("labeled_statement", "template_declaration"):
        for child in node.named_children:
            yield from introduced(child, macros)
    elif kind == "expression_statement" and macros.keys() & set(_WORD.findall(_text(node))):
        yield from _by_macro(node, macros)


def _by_macro(node: Node, macros: Mapping[str, Macro]) -> Iterator[tuple[str, int]]:
    body = expansion_body(written(_text(node), macros))
    if body is None:  # what it says is not known: any of its words may be a name
        words = set(_WORD.findall(written(_text(node), macros)))
        yield from ((word, node.start_byte) for word in words)
        return
    for child in body.named_children:
        if child.type != "expression_statement":
            yield from ((name, node.start_byte) for name, _ in introduced(child, macros))


def _of_type(node: Node | None) -> Iterator[tuple[str, int]]:
    """The type and the enumerators that a type specifier introduces."""
    if node is None or node.type not in _TYPES:
        return
    yield from _name(node.child_by_field_name("name"))
    body = node.child_by_field_name("body")
    if node.type == "enum_specifier" and body is not None:
        for child in body.named_children:
            yield from _name(child.child_by_field_name("name"))


def _declared(node: Node) -> Iterator[tuple[str, int]]:
    """The names of a declarator."""
    if node.type in (*_NAMES, "field_identifier"):
        yield _text(node), node.start_byte
    elif node.type == "structured_binding_declarator":
        for child in node.named_children:
            yield _text(child), child.start_byte
    else:
        inner = node.child_by_field_name("declarator")
        if inner is None:
            kinds = ("parenthesized_declarator", "reference_declarator", "pointer_declarator")
            inside = [c for c in node.named_children if c.type.endswith("declarator") or c.type in _NAMES]
            inner = inside[0] if inside and (node.type in kinds or node.type.endswith("declarator")) else None
        if inner is not None:
            yield from _declared(inner)


def _name(node: Node | None) -> Iterator[tuple[str, int]]:
    if node is not None:
        yield _text(node), node.start_byte


def _used(node: Node) -> Iterator[tuple[str, int]]:
    named = node.named_children[-1] if node.named_children else node
    last = re.split(r"\s*::\s*", _text(named))[-1]
    directive = any(c.type == "namespace" for c in node.children)
    yield (f"namespace {last}" if directive else last), node.start_byte


def _text(node: Node) -> str:
    return node.text.decode() if node.text else ""


@dataclass(frozen=True)
class _Seen:
    """An introduction within a node, as what stands in that node sees it: from its part at `since` on; where it is not
    `everywhere`, from the name on; and not from within `not_within`."""

    offset: int
    kind: str
    since: int
    everywhere: bool
    not_within: Node | None


class Binder:
    """The innermost introduction of a name seen from a node within a function. What a node introduces is kept, since
    many names are looked up from many places of few functions."""

    def __init__(self, macros: Mapping[str, Macro]) -> None:
        self.macros = macros
        self._seen: dict[Node, dict[str, list[_Seen]]] = {}

    def bound(self, name: str, at: Node) -> Introduction | None:
        """The introduction; None where the function has none. What introduces a name counts from where it stands; in a
        class, everywhere."""
        node = at
        while node.parent is not None:
            outer = node.parent
            for seen in self._within(outer).get(name, ()):
                visible = seen.since <= node.start_byte and seen.not_within != node
                if visible and (seen.everywhere or seen.offset <= at.start_byte):
                    return seen.offset, seen.kind
            if outer.type in ("translation_unit", "namespace_definition"):
                return None
            node = outer
        return None

    def _within(self, outer: Node) -> dict[str, list[_Seen]]:
        """What a node introduces by name, innermost first."""
        if outer not in self._seen:
            found: dict[str, list[_Seen]] = {}
            for part, since, everywhere, not_within in _introducing(outer):
                for name, offset in introduced(part, self.macros):
                    found.setdefault(name, []).append(_Seen(offset, part.type, since, everywhere, not_within))
            self._seen[outer] = found
        return self._seen[outer]


def _introducing(outer: Node) -> Iterator[tuple[Node, int, bool, Node | None]]:
    """The parts of a node whose names what stands in it sees, innermost first: each with the place from which on it
    counts, whether names that come later are seen too, and from within which part it is not seen."""
    kind = outer.type
    if kind in ("compound_statement", "case_statement"):
        yield from ((c, c.start_byte, False, None) for c in reversed(outer.named_children))
    elif kind == "declaration":
        yield outer, outer.start_byte, False, None
    elif kind in _HEADED:
        for field in ("initializer", "condition", "declarator", "parameters"):
            head = outer.child_by_field_name(field)
            if head is not None:
                yield from ((part, head.start_byte, False, None) for part in _heads(head))
    elif kind in _FUNCTIONS:
        declarator = outer.child_by_field_name("declarator")
        yield from ((p, outer.start_byte, True, None) for p in _parameters(declarator))
        captures = outer.child_by_field_name("captures")
        for c in captures.named_children if captures is not None else ():
            if c.type == "lambda_capture_initializer":
                yield c, outer.start_byte, True, captures
    elif kind == "field_declaration_list":
        yield from ((c, outer.start_byte, True, None) for c in outer.named_children)
    elif kind == "template_declaration":
        listed = outer.child_by_field_name("parameters")
        yield from ((c, outer.start_byte, True, None) for c in (listed.named_children if listed else ()))


def _heads(head: Node) -> Iterator[Node]:
    """What a head of a branch or loop may introduce names by."""
    if head.type in ("condition_clause", "parameter_list"):
        yield from (c for c in head.named_children)
    elif head.type in _NAMES or head.type.endswith("declarator"):  # `for (auto e : …)`
        if head.parent is not None:
            yield head.parent
    else:
        yield head


def _parameters(declarator: Node | None) -> Iterator[Node]:
    stack = [declarator] if declarator is not None else []
    while stack:
        node = stack.pop()
        if node.type.endswith("parameter_declaration"):
            yield node
        else:
            stack.extend(c for c in node.named_children if c.type != "compound_statement")


def names_within(root: Node, macros: Mapping[str, Macro]) -> frozenset[str]:
    """Every name that something at or below a node introduces, members of classes included."""
    return frozenset(name for name, _ in introductions(root, macros, members=True))


def introductions(
    root: Node, macros: Mapping[str, Macro], members: bool = False
) -> Iterator[tuple[str, int]]:
    """The names that something at or below a node introduces, and where."""
    stack = [root]
    while stack:
        node = stack.pop()
        if members or node.type != "field_declaration":
            yield from introduced(node, macros)
        stack.extend(node.named_children)


def uses(root: Node) -> Iterator[tuple[str, Node]]:
    """The names below a node that are looked up where they stand: no members, no tails of qualified names."""
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type in _NAMES:
            yield _text(node), node
        elif node.type == "qualified_identifier":
            scope, tail = node.child_by_field_name("scope"), node.child_by_field_name("name")
            stack.extend(_lists(tail) if tail is not None else ())
            stack.extend([scope] if scope is not None else [])
        else:
            stack.extend(reversed(node.named_children))


def _lists(tail: Node) -> list[Node]:
    """The template arguments in the tail of a qualified name."""
    if tail.type == "template_argument_list":
        return [tail]
    return [n for c in tail.named_children for n in _lists(c)]


def namespaces(node: Node) -> tuple[str, ...]:
    """The namespaces around a node whose names are not visible from outside: named ones that are not inline."""
    outer = node.parent
    if outer is None:
        return ()
    return (*namespaces(outer), *opened_by(outer))


def opened_by(node: Node) -> tuple[str, ...]:
    """The namespaces that a node opens for what stands in it."""
    name = node.child_by_field_name("name") if node.type == "namespace_definition" else None
    if name is None or any(c.type == "inline" for c in node.children):
        return ()
    return tuple(re.split(r"\s*::\s*", _text(name)))


def function_name(node: Node) -> str:
    """The name of a function definition without its namespaces and template arguments."""
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "identifier":
        if declarator.type in ("template_function", "qualified_identifier"):
            declarator = declarator.child_by_field_name("name")
        else:
            declarator = declarator.child_by_field_name("declarator") or next(
                (c for c in declarator.named_children if c.type.endswith("declarator")), None
            )
    return (declarator.text or b"").decode() if declarator is not None else ""


def signature(node: Node) -> str:
    """The parameters of a function, in parentheses, as they are written, without their names; "" for what is none."""
    for declarator in _declarators(node):
        listed = declarator.child_by_field_name("parameters")
        if declarator.type == "function_declarator" and listed is not None:
            kinds = [_kind(p) for p in listed.named_children if p.type.endswith("parameter_declaration")]
            return f"({','.join(kinds)})"
    return ""


def _declarators(node: Node) -> Iterator[Node]:
    inner = node.child_by_field_name("declarator")
    while inner is not None:
        yield inner
        inner = inner.child_by_field_name("declarator")


def _kind(parameter: Node) -> str:
    """A parameter's type as it is written: all words but its name and default."""
    names = {offset for _, offset in introduced(parameter, {})}
    default = parameter.child_by_field_name("default_value")
    words = []
    stack = [parameter]
    while stack:
        node = stack.pop()
        if node == default or (node.start_byte in names and not node.children):
            continue
        if not node.children:
            words.append((node.text or b"").decode())
        stack.extend(reversed(node.children))
    return " ".join(w for w in words if w != "=")
