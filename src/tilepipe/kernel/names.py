"""Names of a kernel under analysis: scopes, pointers, and the text that a node stands for."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tree_sitter import Node

from tilepipe.kernel.effects import Access, Collector
from tilepipe.kernel.macros import Macro
from tilepipe.kernel.symbols import THREAD, Symbol
from tilepipe.source import SourceFile, Span
from tilepipe.source.parse import span

if TYPE_CHECKING:
    from tilepipe.kernel.unseen import Unseen

Bases = frozenset[Symbol]
NOTHING: Bases = frozenset()
TYPES = frozenset(
    [
        "primitive_type", "type_identifier", "type_descriptor", "sized_type_specifier", "template_argument_list",
        "namespace_identifier", "type_qualifier", "comment", "string_literal",
        "sizeof_expression", "number_literal", "char_literal", "true", "false", "null", "gnu_asm_clobber_list",
        "alignof_expression", "field_identifier",
    ]
)  # fmt: skip

_CASTS = frozenset(("reinterpret_cast", "static_cast", "const_cast"))


@dataclass(frozen=True)
class Function:
    """A function of the file that a kernel may call: its parameters and body, and its template parameters."""

    name: str
    node: Node
    parameters: tuple[Node, ...]
    body: Node
    template: tuple[str, ...] = ()
    foreign: bool = False  # it stands in an included header, or is one of several of its name
    overloads: tuple[Function, ...] = ()  # the others of its name
    scope: tuple[str, ...] = ()  # the namespaces around it
    captures_copies: bool = False  # a lambda that keeps values of the place where it is written


@dataclass(frozen=True)
class View:
    """A pointer that carves its own piece out of a shared array: `float* tb = pool + 4096;`.

    `piece` stands for the piece as an array of its own, `array` is the shared array it lies in, `start` the text of
    where it begins, without casts.
    """

    pointer: Symbol
    piece: Symbol
    array: Symbol
    start: str


@dataclass(frozen=True)
class Place:
    """Where an lvalue stands: a variable, or memory with the arrays that it may be in.

    `alias` is the reference through which it is named, if it is.
    """

    variables: Bases
    memory: bool
    bases: Bases
    alias: Symbol | None = None


class Names:
    """What is visible where the walk stands, what pointers point into, and the effects gathered so far."""

    def __init__(
        self, source: SourceFile, macros: dict[str, Macro], functions: dict[str, Function], unseen: Unseen
    ) -> None:
        self.source = source
        self.macros = macros
        self.functions = functions
        self.points: dict[Symbol, set[Symbol]] = defaultdict(set)
        self.lambdas: dict[Symbol, Node] = {}
        self.scopes: list[dict[str, Symbol | Place]] = [{}]
        self.context: tuple[int, ...] = ()
        self.views: dict[Symbol, View] = {}  # pointer variable -> the part of shared memory that it names
        self.direct: dict[Symbol, int] = {}  # array -> where it is first used by its own name
        # Pointer of a view -> where it is used, each with how far that use reaches: to the end of the loop around.
        self.viewed: dict[Symbol, dict[int, int]] = defaultdict(dict)
        self.whole: set[Symbol] = set()  # arrays that are not taken for several ones
        self.divergent: set[Symbol] = {THREAD}
        self.site: Span | None = None  # the macro call under expansion
        self.expanding: tuple[str, ...] = ()  # macros under expansion, which C does not expand again
        self.out = Collector()
        self.caller: tuple[str, ...] = ()  # the namespaces around the function that is walked
        self.opened: frozenset[str] = (
            frozenset()
        )  # names of namespaces and of their members that a `using` names
        self.operators_change = False  # whether operators of the author's may change their operands
        self.unseen = unseen
        self.position = 0  # of the statement that is walked, in the kernel's own text

    @contextmanager
    def scope(self) -> Iterator[None]:
        self.scopes.append({})
        try:
            yield
        finally:
            self.scopes.pop()

    def declare(self, symbol: Symbol) -> None:
        self.scopes[-1][symbol.name] = symbol

    def lookup(self, name: str) -> Symbol | Place | None:
        for names in reversed(self.scopes):
            if name in names:
                return names[name]
        return None

    def macro(self, name: str) -> Macro | None:
        """The macro that a name stands for here; none inside its own expansion."""
        return None if name in self.expanding else self.macros.get(name)

    @contextmanager
    def expansion(self, name: str) -> Iterator[None]:
        outer, self.expanding = self.expanding, (*self.expanding, name)
        try:
            yield
        finally:
            self.expanding = outer

    def named(self, name: str) -> Symbol | Place | None:
        """What a name that is evaluated stands for; a reference counts as used."""
        found = self.lookup(name)
        if isinstance(found, Place) and found.alias is not None:
            self.out.uses.add(found.alias)
        elif isinstance(found, Symbol) and found.kind == "shared":
            self.direct.setdefault(found, self.position)
        elif isinstance(found, Symbol) and found in self.views:
            self.viewed[found].setdefault(self.position, self.position)
        elif isinstance(found, Symbol) and found.kind == "lambda":
            self.out.flags.add("structure")  # handed on: whoever gets it may call it
        return found

    def forget_views(self, whole: set[Symbol]) -> None:
        """Start anew, with arrays that are not to be taken for several ones."""
        self.whole |= whole
        for known in (self.points, self.views, self.direct, self.viewed):
            known.clear()

    def repeated(self, loop: Span) -> None:
        """What is used in a loop with barriers is used up to its end, since the next iteration uses it again."""
        for places in self.viewed.values():
            for at, last in places.items():
                if loop.start <= at == last < loop.end:
                    places[at] = loop.end

    def overlapping(self) -> set[Symbol]:
        """Arrays with a view that is in use while the array is used by its own name too, or through another view that
        begins at the same place."""
        found: set[Symbol] = set()
        spans = {self.views[p]: (min(at), max(at.values())) for p, at in self.viewed.items()}
        for view, (first, last) in spans.items():
            if self.direct.get(view.array, last) < last:
                found.add(view.array)
            for other, (start, _) in spans.items():
                same = (other.array, other.start) == (view.array, view.start)
                if other is not view and same and first <= start < last:
                    found.add(view.array)
        return found - self.whole

    def text(self, node: Node) -> str:
        if self.site is not None:
            return node.text.decode() if node.text else ""
        return self.source.slice(span(node))

    def where(self, node: Node) -> Span:
        """The author's text that a node stands for: the macro call, inside an expansion."""
        return self.site if self.site is not None else span(node)

    @contextmanager
    def collecting(self) -> Iterator[Collector]:
        """Gather what is walked inside into a collector of its own."""
        outer, self.out = self.out, Collector()
        try:
            yield self.out
        finally:
            self.out = outer

    def merge(self, inner: Collector) -> None:
        self.out.uses |= inner.uses
        self.out.defs |= inner.defs
        self.out.reads += inner.reads
        self.out.writes += inner.writes
        self.out.stores += inner.stores
        self.out.flags |= inner.flags
        self.out.opaque += inner.opaque

    def pointees(self, symbols: Bases) -> Bases:
        return frozenset(t for s in symbols for t in ({s} if s.is_array else self.points[s]))

    def accesses(self, bases: Bases, node: Node) -> list[Access]:
        """Accesses of the node to each of `bases`, or to memory that is not known."""
        return [Access(b, self.where(node)) for b in bases] or [Access(None, self.where(node))]


def operator_of(node: Node) -> str:
    """The operator of an expression, "" without one."""
    operator = node.child_by_field_name("operator")
    return operator.text.decode() if operator is not None and operator.text else ""


def summands(node: Node) -> list[Node]:
    """The terms of a sum, through parentheses; the expression itself where it is none."""
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if (
        node.type == "binary_expression"
        and operator_of(node) == "+"
        and left is not None
        and right is not None
    ):
        return [*summands(left), *summands(right)]
    if node.type == "parenthesized_expression" and len(node.named_children) == 1:
        return summands(node.named_children[0])
    return [node]


def callee(node: Node) -> str:
    """The unqualified name that a call expression calls."""
    function = node.child_by_field_name("function")
    while function is not None and function.type not in (
        "identifier",
        "field_identifier",
        "primitive_type",
    ):
        step = function.child_by_field_name("name") or function.child_by_field_name("field")
        if step is None:
            break
        function = step
    return function.text.decode() if function is not None and function.text else ""


def reaches(function: Function, call: Node, caller: tuple[str, ...], opened: frozenset[str]) -> bool:
    """Whether a call by name in a function of the namespaces `caller` may mean the function, or another of its name."""
    named = call.child_by_field_name("function")
    if named is None or named.type not in ("identifier", "template_function", "qualified_identifier"):
        return False
    *outer, _ = re.split(r"\s*::\s*", re.sub(r"<.*", "", (named.text or b"").decode(), flags=re.S).strip())
    scopes = [f.scope for f in (function, *function.overloads)]
    if not outer:
        return any(s == caller[: len(s)] or {*s[-1:], function.name} & opened for s in scopes)
    return any(s == tuple(outer[1:]) if not outer[0] else s[-len(outer) :] == tuple(outer) for s in scopes)


def arguments_of(node: Node) -> list[Node]:
    """The arguments of a call expression."""
    listed = node.child_by_field_name("arguments")
    return [a for a in listed.named_children if a.type != "comment"] if listed is not None else []


def uncast(node: Node) -> Node:
    """What is left of a pointer expression without its casts and parentheses."""
    inner: Node | None = node
    while inner is not None:
        node, inner = inner, None
        if node.type == "parenthesized_expression" and len(node.named_children) == 1:
            inner = node.named_children[0]
        elif node.type == "cast_expression":
            inner = node.child_by_field_name("value")
        elif node.type == "call_expression" and callee(node) in _CASTS and len(arguments_of(node)) == 1:
            inner = arguments_of(node)[0]
    return node


def has(node: Node, kind: str) -> bool:
    """Whether a node of the kind stands in the tree below `node`, itself included."""
    return node.type == kind or any(has(child, kind) for child in node.named_children)


def lambda_function(name: str, node: Node) -> Function:
    """A lambda expression as a function."""
    declarator = node.child_by_field_name("declarator")
    between = declarator.child_by_field_name("parameters") if declarator is not None else None
    listed = between.named_children if between is not None else []
    parameters = tuple(p for p in listed if p.type != "comment")
    body = node.child_by_field_name("body")
    captures = node.child_by_field_name("captures")
    captured = (captures.text or b"").decode().strip("[] ").split(",") if captures is not None else []
    by_copy = any("=" in c or not (c.strip() in ("", "this") or c.strip().startswith("&")) for c in captured)
    return Function(name, node, parameters, body if body is not None else node, captures_copies=by_copy)
