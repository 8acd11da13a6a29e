"""Names of a kernel as forms: constants, sizes, loop variables, and definitions followed to these."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from tree_sitter import Node

from tilepipe.kernel.affine import Form, Lookup, elements, evaluate, number, symbol
from tilepipe.kernel.flow import Flow, Item
from tilepipe.kernel.integers import INTEGERS, Types
from tilepipe.kernel.statements import Statement
from tilepipe.kernel.symbols import Symbol
from tilepipe.source import Span
from tilepipe.source.parse import parse_tree

if TYPE_CHECKING:
    from tilepipe.kernel.model import Answers, KernelModel

Symbols = frozenset[Symbol]
DEPTH = 8  # definitions followed through definitions
_COORDINATE = re.compile(r"^(blockIdx|gridDim)\.[xyz]$")


class NotProvedError(Exception):
    """A step of a proof does not go through; the message says which."""


class Resolver:
    """Resolves names to declarations, never by spelling alone."""

    def __init__(self, model: KernelModel, answers: Answers) -> None:
        self.model = model
        self.answers = answers
        self.types = Types(answers)
        self.flow = Flow([model.analysed.body])
        self._trees: list[object] = []  # keeps the nodes of `expression` alive

    def named(self, name: str, uses: Symbols, index: Symbol | None, count: int, depth: int) -> Form | None:
        """The form of a name: an element number, a constant, a size, a loop variable, or its definition's form."""
        if _COORDINATE.match(name):
            return symbol(name)
        found = next((s for s in uses if s.name == name), None)
        if found is None:
            return self.constant(name)
        if index is not None and found == index:
            return elements(count) if self.types.keeps(found) else None
        if found in self.model.split.carried:
            return symbol(name) if self.types.of(found) in INTEGERS else None
        if found.kind == "param":
            return symbol(name) if self.types.of(found) in INTEGERS and self.fixed(found) else None
        defined = self.defined(name, uses)
        if defined is None or depth > DEPTH or not self.types.keeps(found):
            return self.constant(name) if found.const else None
        item, value = defined
        return self.form(value, lambda n, _: self.named(n, item.own.uses, index, count, depth + 1))

    def form(self, node: Node, lookup: Lookup) -> Form | None:
        """The form of an integer expression of the kernel, None where it is none that is followed."""
        return evaluate(node, self.text, lookup, lambda type_: self.types.named(type_) in INTEGERS)

    def type_of(self, name: str, uses: Symbols) -> str:
        """The compiler's name of a variable's type, "" where it is not known or the name is none of a variable."""
        found = next((s for s in uses if s.name == name), None)
        return self.types.of(found) if found is not None else ""

    def followed(self, name: str, uses: Symbols, index: Symbol | None) -> tuple[Node, Symbols] | None:
        """The definition that `named` follows a name to, with the names that it uses."""
        found = next((s for s in uses if s.name == name), None)
        if found is None or found == index or found.kind == "param" or found in self.model.split.carried:
            return None
        defined = self.defined(name, uses)
        return (defined[1], defined[0].own.uses) if defined is not None else None

    def fixed(self, parameter: Symbol) -> bool:
        """Whether a parameter keeps its value, and its name means it wherever the condition could be asked."""
        return not self.flow.definers[parameter] and not self.hidden(parameter)

    def hidden(self, found: Symbol) -> bool:
        """Whether another declaration of the kernel has the same name."""
        declared = (s for st in self.model.analysed.body.walk() for s in st.declares)
        return any(s.name == found.name and s != found and s.key[1] == () for s in declared)

    # -- loop variables ------------------------------------------------------------------------------------------

    def steps_of(self, state: Symbol) -> list[Form] | None:
        """What is added to a variable per iteration, None where it changes in another way."""
        forms: list[Form] = []
        for step, uses in self.added(state) or ():
            form = self.form(step, partial(self._outside, uses))
            if form is None:
                return None
            forms.append(form)
        return forms or None

    def added(self, state: Symbol) -> list[tuple[Node, Symbols]] | None:
        """The expressions that are added to a variable per iteration, each with the names that it uses, None where it
        changes in another way."""
        loop = self.model.tile.loop
        places = [(i.statement.span, i.own.uses) for i in self.model.tile.flow.definers[state]]
        if state in loop.update_effects.defs and loop.update is not None:
            places.append((loop.update, loop.update_effects.uses))
        if state in loop.condition_effects.defs or any(
            i.parents for i in self.model.tile.flow.definers[state]
        ):
            return None
        steps = [(self._added(self.node(place), state.name), uses) for place, uses in places]
        return None if any(s is None for s, _ in steps) else [(s, uses) for s, uses in steps if s is not None]

    def _outside(self, uses: Symbols, name: str, node: Node) -> Form | None:
        del node
        return self.named(name, uses, None, 0, 0)

    def _added(self, node: Node, name: str) -> Node | None:
        """`step` of the one `name += step` at the top of the node."""
        found: list[Node | None] = []
        stack = [node]
        while stack:
            current = stack.pop()
            left = current.child_by_field_name("left") or current.child_by_field_name("argument")
            if current.type in ("assignment_expression", "update_expression"):
                if left is not None and self.text(left) == name:
                    operator = current.child_by_field_name("operator")
                    plus = operator is not None and self.text(operator) == "+="
                    found.append(current.child_by_field_name("right") if plus else None)
            elif current.type in ("expression_statement", "comma_expression"):
                stack.extend(current.named_children)
        return found[0] if len(found) == 1 else None

    def start_of(self, state: Symbol) -> Form | None:
        found = self.start(state)
        return self.form(found[0], partial(self._outside, found[1])) if found is not None else None

    def start(self, state: Symbol) -> tuple[Node, Symbols] | None:
        """The expression that a loop variable starts at, with the names that it uses."""
        loop = self.model.tile.loop
        if state in loop.declares:
            value, uses = self.value(loop, state.name), loop.init_effects.uses
        else:
            outside = [i for i in self.flow.definers[state] if i.statement.span.end <= loop.span.start]
            if len(outside) != 1 or outside[0].statement.kind != "declaration":
                return None
            value, uses = self.value(outside[0].statement, state.name), outside[0].own.uses
        return (value, uses) if value is not None else None

    # -- names and text ------------------------------------------------------------------------------------------

    def constant(self, name: str) -> Form | None:
        value = self.answers.get(f"const:{name}")
        return number(value) if isinstance(value, int) else None

    def defined(self, name: str, uses: Symbols) -> tuple[Item, Node] | None:
        """The one declaration that gives a variable its value, and the value."""
        found = next((s for s in uses if s.name == name), None)
        definers = self.flow.definers[found] if found is not None else []
        if len(definers) != 1 or definers[0].statement.kind != "declaration":
            return None
        value = self.value(definers[0].statement, name)
        return (definers[0], value) if value is not None else None

    def value(self, statement: Statement, name: str) -> Node | None:
        """The initialiser of a name in a declaration or loop header."""
        node = self.node(statement.init if statement.init is not None else statement.span)
        stack = [node]
        while stack:
            current = stack.pop()
            if current.type == "init_declarator":
                target = current.child_by_field_name("declarator")
                if target is not None and self.text(target).lstrip("*& ") == name:
                    return current.child_by_field_name("value")
            elif current.type in ("declaration", "for_statement"):
                stack.extend(current.named_children)
        return None

    def node(self, at: Span) -> Node:
        found = self.model.file.tree.root.named_descendant_for_byte_range(at.start, at.end)
        if found is None:
            raise NotProvedError("a part of the text is not understood")
        return found

    def text(self, node: Node) -> str:
        return node.text.decode() if node.text else ""

    def expression(self, text: str) -> Node:
        """An expression text of a copy as a node of its own."""
        tree = parse_tree(f"void tp() {{ ({text}); }}")
        self._trees.append(tree)
        body = tree.root_node.named_children[0].child_by_field_name("body")
        node = body.named_children[0].named_children[0].named_children[0] if body is not None else None
        if node is None or tree.root_node.has_error:
            raise NotProvedError(f"`{text}` is not understood")
        return node
