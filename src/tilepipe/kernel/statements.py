"""The statements of a kernel as a tree of spans with their effects."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from tree_sitter import Node

from tilepipe.kernel.analysis import Analyzer
from tilepipe.kernel.effects import NOTHING_DONE, Effects, total
from tilepipe.kernel.names import Function, has
from tilepipe.kernel.symbols import Symbol, declared
from tilepipe.source import SourceFile, Span
from tilepipe.source.parse import span

StatementKind = Literal["leaf", "declaration", "block", "if", "for", "while", "do", "call", "other"]
_SKIPPED = frozenset({"comment", ";", "{", "}"})


@dataclass(frozen=True)
class Statement:
    """A statement. For a compound one, `own` holds the effects of its header only.

    `init`, `condition`, `update` are the header parts of a loop or branch; `children` the statements inside
    (then and else of an `if`). A "call" is an expression statement that calls a helper of the file: its
    children are the callee's statements with parameters bound, `call` the spans that an inlined copy needs.
    """

    kind: StatementKind
    span: Span
    own: Effects
    children: tuple[Statement, ...] = field(default=(), compare=False)
    init: Span | None = None
    condition: Span | None = None
    update: Span | None = None
    init_effects: Effects = NOTHING_DONE
    condition_effects: Effects = NOTHING_DONE
    update_effects: Effects = NOTHING_DONE
    call: Callee | None = None
    context: tuple[int, ...] = ()
    declares: frozenset[Symbol] = frozenset()
    counter: Symbol | None = None  # the variable that a `for` header declares, if exactly one
    counter_type: str = ""
    start: Span | None = None  # the counter's initial value
    pragma: Span | None = None  # pragma lines directly above

    def __hash__(self) -> int:
        return hash((self.span, self.kind, self.context))

    @property
    def is_loop(self) -> bool:
        return self.kind in ("for", "while", "do")

    def effects(self) -> Effects:
        """Everything that the statement does, children included."""
        return total([self.own, *(c.effects() for c in self.children)])

    def walk(self) -> Iterator[Statement]:
        """The statement and everything below it, in source order."""
        yield self
        for child in self.children:
            yield from child.walk()


def acts(statement: Statement) -> bool:
    """Whether a statement does something itself: no block, no exit, no static_assert or alias, and no call of a helper
    but for what its arguments change."""
    if statement.kind == "call":
        return any(len(s.key[1]) <= len(statement.context) for s in statement.own.defs)
    exits = statement.own.flags & {"break", "continue", "return"}
    idle = statement.own == NOTHING_DONE
    return not statement.children and not exits and not idle and statement.kind != "block"


@dataclass(frozen=True)
class Callee:
    """What inlining a helper call needs: its parameter list and body text, and template arguments."""

    name: str
    parameters: Span
    body: Span
    arguments: Span
    template: tuple[tuple[str, str], ...]  # (parameter declaration, argument text)
    is_lambda: bool
    deduced: tuple[str, ...] = ()  # template parameters whose arguments the call's text does not say
    made_of: Mapping[Symbol, frozenset[Symbol]] = field(
        default_factory=dict, compare=False
    )  # parameters' values


class Builder:
    """Builds statement trees with an analyzer, which keeps the scopes."""

    def __init__(self, analyzer: Analyzer) -> None:
        self.a = analyzer

    def build(self, node: Node) -> Statement:
        kind = node.type
        if kind == "compound_statement":
            with self.a.scope():
                return self._block(node)
        if kind == "declaration":
            own = self.a.declaration(node)
            return Statement(
                "declaration", span(node), own, context=self.a.context, declares=self._names(node)
            )
        if kind == "if_statement":
            return self._if(node)
        if kind == "for_statement":
            return self._for(node)
        if kind in ("while_statement", "do_statement"):
            return self._while(node)
        if kind == "expression_statement":
            return self._expression(node)
        if kind == "else_clause":
            return self.build(node.named_children[-1])
        return self._leaf(node)

    def _names(self, node: Node) -> frozenset[Symbol]:
        text = self.a.source.slice(span(node))
        return frozenset(s for s, _ in declared(node, text, self.a.context, "local"))

    def _block(self, node: Node) -> Statement:
        children = tuple(self.build(c) for c in node.named_children if c.type not in _SKIPPED)
        return Statement("block", span(node), Effects(), children, context=self.a.context)

    def _if(self, node: Node) -> Statement:
        condition = node.child_by_field_name("condition")
        with self.a.scope():
            own = self._condition(condition)
            parts = [node.child_by_field_name("consequence"), node.child_by_field_name("alternative")]
            children = tuple(self.build(p) for p in parts if p is not None)
        at = span(condition) if condition is not None else None
        return Statement(
            "if", span(node), own, children, condition=at, condition_effects=own, context=self.a.context
        )

    def _condition(self, node: Node | None) -> Effects:
        """The effects of a condition; one that declares a name is not taken apart here."""
        if node is None:
            return Effects()
        own = self.a.expression(node)
        return own | Effects(flags=frozenset({"structure"})) if has(node, "declaration") else own

    def _for(self, node: Node) -> Statement:
        init, condition = node.child_by_field_name("initializer"), node.child_by_field_name("condition")
        update, body = node.child_by_field_name("update"), node.child_by_field_name("body")
        counter, counter_type, start = None, "", None
        names_here: frozenset[Symbol] = frozenset()
        with self.a.scope():
            if init is None:
                init_effects = Effects()
            elif init.type == "declaration":
                init_effects = self.a.declaration(init)
                names_here = self._names(init)
                names = declared(init, self.a.source.slice(span(init)), self.a.context, "local")
                if len(names) == 1 and names[0][1] is not None:
                    counter, start = names[0][0], span(names[0][1])
                    counter_type = names[0][0].type
            else:
                init_effects = self.a.expression(init)
            condition_effects = self.a.expression(condition) if condition is not None else Effects()
            inner = self.build(body) if body is not None else None
            update_effects = self.a.expression(update) if update is not None else Effects()
        self._repeated(node, inner)
        return Statement(
            "for",
            span(node),
            total([init_effects, condition_effects, update_effects]),
            (inner,) if inner is not None else (),
            span(init) if init is not None else None,
            span(condition) if condition is not None else None,
            span(update) if update is not None else None,
            init_effects,
            condition_effects,
            update_effects,
            context=self.a.context,
            declares=names_here,
            counter=counter,
            counter_type=counter_type,
            start=start,
        )

    def _while(self, node: Node) -> Statement:
        condition, body = node.child_by_field_name("condition"), node.child_by_field_name("body")
        own = self._condition(condition)
        children = (self.build(body),) if body is not None else ()
        self._repeated(node, *children)
        at = None
        if condition is not None:
            inner = condition.named_children[0] if condition.named_children else condition
            at = span(inner)
        kind: StatementKind = "while" if node.type == "while_statement" else "do"
        return Statement(
            kind, span(node), own, children, condition=at, condition_effects=own, context=self.a.context
        )

    def _repeated(self, loop: Node, body: Statement | None = None) -> None:
        """Views of shared memory stay in use in a loop of the kernel's own text that threads go through together."""
        if not self.a.context and body is not None and "barrier" in body.effects().flags:
            self.a.repeated(span(loop))

    def _expression(self, node: Node) -> Statement:
        inner = node.named_children[0] if node.named_children else None
        if inner is not None and inner.type == "call_expression":
            found = self.a.inlined(inner)
            if found is not None:
                return self._call(node, *found)
        own = self.a.expression(inner) if inner is not None else Effects()
        return Statement("leaf", span(node), own, context=self.a.context)

    def _call(self, node: Node, function: Function, call: Node) -> Statement:
        listed = call.child_by_field_name("arguments")
        context = self.a.context
        with self.a.collecting() as bound, self.a.entered(function, call) as made_of:
            body = self.build(function.body)
        first, last = (
            (function.parameters[0], function.parameters[-1]) if function.parameters else (None, None)
        )
        parameters = (
            Span(first.start_byte, last.end_byte) if first is not None and last is not None else Span(0, 0)
        )
        template, deduced = template_arguments(self.a.source, function, call)
        callee = Callee(
            function.name,
            parameters,
            span(function.body),
            span(listed) if listed is not None else Span(0, 0),
            template,
            function.node.type == "lambda_expression",
            deduced,
            made_of,
        )
        # The arguments' memory accesses are addresses formed, not reads: `f(tile, A + k)` reads nothing itself.
        own = bound.frozen()
        if function.captures_copies:
            own |= Effects(flags=frozenset({"structure"}))  # its text means something else elsewhere
        return Statement("call", span(node), own, (body,), call=callee, context=context, declares=own.defs)

    def _leaf(self, node: Node) -> Statement:
        """Statements without structure of interest: returns, breaks, and what the grammar has beyond."""
        flags = {
            "return_statement": "return",
            "break_statement": "break",
            "continue_statement": "continue",
            "goto_statement": "goto",
        }.get(node.type)
        simple = flags is not None or node.type in (
            "using_declaration",
            "alias_declaration",
            "type_definition",
            "static_assert_declaration",
            "empty_statement",
        )
        own = self.a.expression(node) if node.type == "return_statement" else Effects()
        if not simple:
            inside = self.a.expression(node)
            own = Effects(
                inside.uses, inside.defs, inside.reads, inside.writes, inside.loads, inside.stores,
                inside.flags | {"structure"}, inside.opaque,
            )  # fmt: skip
        elif flags is not None:
            own = own | Effects(flags=frozenset({flags}))
        return Statement("leaf" if simple else "other", span(node), own, context=self.a.context)


def template_arguments(
    source: SourceFile, function: Function, call: Node
) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Template parameters with the arguments given or, where nothing can be deduced, their defaults; and the names of
    the others."""
    named = call.child_by_field_name("function")
    while named is not None and named.type == "qualified_identifier":
        named = named.child_by_field_name("name")
    listed = named.child_by_field_name("arguments") if named is not None else None
    explicit = named is not None and named.type == "template_function" and listed is not None
    arguments = [a for a in listed.named_children if a.type != "comment"] if listed is not None else []
    given = [source.slice(span(a)) for a in arguments] if explicit else []
    known, deduced = [], []
    spelled = " ".join((p.text or b"").decode() for p in function.parameters)
    spelled = re.sub(r"\[\s*\w+\s*[^\]\w\s][^\]]*\]", "", spelled)  # nothing is deduced from `[N + 1]`
    for position, parameter in enumerate(function.template):
        declared_as, _, default = (part.strip() for part in parameter.partition("="))
        name = declared_as.split()[-1].lstrip(".")
        if position < len(given):
            known.append((declared_as, given[position]))
        elif default and not re.search(rf"\b{re.escape(name)}\b", spelled):
            known.append((declared_as, default))
        else:
            deduced.append(name)
    return tuple(known), tuple(deduced)
