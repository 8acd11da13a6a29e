"""What a name stands for at a place of the kernel, through helpers that are called there."""

from __future__ import annotations

from dataclasses import dataclass

from tree_sitter import Node

from tilepipe.kernel.flow import Flow, Item
from tilepipe.kernel.model import KernelModel
from tilepipe.kernel.resolve import NotProvedError, Symbols
from tilepipe.kernel.statements import Statement
from tilepipe.kernel.symbols import Symbol, declarators
from tilepipe.source import Span
from tilepipe.source.parse import span


@dataclass(frozen=True, eq=False)
class Scope:
    """A place: the names that are used there, and the helper calls that lead to it, outermost first."""

    uses: Symbols
    calls: tuple[Statement, ...]

    @property
    def outer(self) -> tuple[Statement, ...]:
        return self.calls[:-1]

    def symbol(self, name: str) -> Symbol | None:
        """The innermost declaration of the name among the names used, those within helpers called here left out."""
        found = [s for s in self.uses if s.name == name and len(s.key[1]) <= len(self.calls)]
        return max(found, key=lambda s: (len(s.key[1]), s.key[0]), default=None)


@dataclass(frozen=True, eq=False)
class Value:
    """An expression with the place that its names belong to. `item` is the statement that evaluates it."""

    node: Node
    scope: Scope
    item: Item


class Scopes:
    """Definitions and arguments of a kernel, with its helpers walked at each call."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self.flow = Flow([model.analysed.body])
        self.divergent = self.flow.divergent()
        self._stale: dict[tuple[int, int, int, int], bool] = {}
        self._at = {id(i.statement): i for i in self.flow.items}

    def item(self, statement: Statement) -> Item:
        """The statement's item in the flow of the whole kernel."""
        return self._at[id(statement)]

    def scope(self, item: Item, uses: Symbols) -> Scope:
        return Scope(uses, tuple(p for p in item.parents if p.kind == "call"))

    def argument(self, name: str, scope: Scope) -> Value | None:
        """What the innermost call passes for a parameter of that name."""
        if not scope.calls:
            return None
        call = scope.calls[-1]
        node = self.parameters(call).get(name)
        if node is None:
            return None
        return Value(node, Scope(call.own.uses, scope.outer), self.item(call))

    def definition(self, symbol: Symbol, scope: Scope) -> Value | None:
        """The one value that a variable is given where it is declared, None if it is changed or has several."""
        definers = self.flow.definers[symbol]
        if len(definers) != 1:
            return None
        (item,) = definers
        if item.statement.kind == "call":
            return self.argument(symbol.name, scope)
        if item.statement.kind != "declaration":
            return None
        node = self._initialiser(item.statement.span, symbol)
        return Value(node, self.scope(item, item.own.uses), item) if node is not None else None

    def declared_value(self, symbol: Symbol) -> Value | None:
        """The initial value of a variable that its declaration gives, whatever happens to it later."""
        item = self.flow.declarer.get(symbol)
        if item is None or item.statement.kind != "declaration":
            return None
        node = self._initialiser(item.statement.span, symbol)
        return Value(node, self.scope(item, item.own.uses), item) if node is not None else None

    def _initialiser(self, at: Span, symbol: Symbol) -> Node | None:
        stack = [self.node(at)]
        while stack:
            current = stack.pop()
            if current.type == "init_declarator":
                target = current.child_by_field_name("declarator")
                if target is not None and target.start_byte <= symbol.key[0] < target.end_byte:
                    return current.child_by_field_name("value")
            elif current.type == "declaration":
                stack.extend(current.named_children)
        return None

    def parameters(self, call: Statement) -> dict[str, Node]:
        """A call's arguments by the names of the parameters."""
        assert call.call is not None
        if not call.call.parameters.end:
            return {}
        listed = self.node(call.call.arguments)
        parameters = self.node(call.call.parameters)
        kinds = ("parameter_declaration", "optional_parameter_declaration")
        nodes = [parameters] if parameters.type in kinds else parameters.named_children
        names = [d[0].name for p in nodes if p.type in kinds and (d := declarators(p))]
        return dict(zip(names, [a for a in listed.named_children if a.type != "comment"], strict=False))

    def changed_between(self, symbols: Symbols, first: Item, last: Item) -> bool:
        """Whether one of the variables may change after `first` has run and before `last` does.

        What is declared before the tile loop is used in every iteration, so that all of the loop counts.
        """
        loop = self.item(self.model.tile.loop)
        outside = first.order < loop.order
        for item in self.flow.items:
            if not item.own.defs & symbols or item is first:
                continue
            between = first.order < item.order < last.order
            inside = self.model.tile.loop in item.parents or item is loop
            if between or (outside and inside):
                return True
        return False

    def stale(self, value: Value, at: Item) -> bool:
        """Whether a variable that the value is made of may have changed before `at`."""
        key = (value.node.start_byte, value.node.end_byte, value.item.order, at.order)
        if key not in self._stale:
            names: set[Symbol] = set()
            stack = [value.node]
            while stack:
                current = stack.pop()
                found = value.scope.symbol(self.slice(current)) if current.type == "identifier" else None
                names |= {found} if found is not None else set()
                stack.extend(current.named_children)
            self._stale[key] = self.changed_between(frozenset(names), value.item, at)
        return self._stale[key]

    def node(self, at: Span) -> Node:
        found = self.model.file.tree.root.named_descendant_for_byte_range(at.start, at.end)
        if found is None:
            raise NotProvedError("a part of the text is not understood")
        return found

    def text(self, node: Node) -> str:
        """The text of a node of any tree."""
        return " ".join(node.text.decode().split()) if node.text else ""

    def slice(self, node: Node) -> str:
        return self.model.file.source.slice(span(node))
