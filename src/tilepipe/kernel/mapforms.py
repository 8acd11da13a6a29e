"""Index expressions over the elements of a copy map: names followed to thread coordinates, counters and sizes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import TypeVar

import numpy as np
from tree_sitter import Node

from tilepipe.kernel.affine import ONE, Form, Vector, exact, number, symbol
from tilepipe.kernel.flow import Item
from tilepipe.kernel.grid import Grid
from tilepipe.kernel.integers import INTEGERS, Types, cast_to
from tilepipe.kernel.macros import Macro, expand
from tilepipe.kernel.meaning import meanings
from tilepipe.kernel.names import arguments_of, callee
from tilepipe.kernel.resolve import DEPTH, NotProvedError
from tilepipe.kernel.scopes import Scope, Scopes, Value
from tilepipe.kernel.symbols import Symbol
from tilepipe.source.parse import parse_tree

_COORDINATE = re.compile(r"^(blockIdx|gridDim)\.[xyz]$")
_THREAD = {"threadIdx.x": 0, "threadIdx.y": 1, "threadIdx.z": 2}
_BLOCK = {"blockDim.x": 0, "blockDim.y": 1, "blockDim.z": 2}
Made = TypeVar("Made")
_CASES = 16  # combinations of what several min, max and ?: may choose


@dataclass
class Forms:
    """Evaluates expressions of one copy over one grid.

    `constants` gives the value that the compiler has for a name at a scope. `states` collects the loop variables that
    forms mention, by the name of their run-time symbol, `asked` the expressions of parameters alone.
    """

    scopes: Scopes
    at: Item  # where the copy stands
    grid: Grid
    constants: Mapping[tuple[int, str], int]  # by number of calls around the place, and name
    types: Types
    counters: Mapping[Symbol, tuple[Value, int]]  # start and step of the loops of the map
    states: dict[str, Symbol] = field(default_factory=dict)
    asked: dict[str, str] = field(
        default_factory=dict
    )  # run-time symbol -> the expression that a condition may ask
    _choices: dict[tuple[object, ...], int] = field(default_factory=dict)
    _found: dict[tuple[object, ...], int] = field(default_factory=dict)  # choices met, and the ways of each
    _trees: list[object] = field(default_factory=list)

    def cases(self, made: Callable[[], Made]) -> list[Made]:
        """Everything that an evaluation may give, with each choice of a min, max or ?: made either way.

        Such a choice is the same for all elements of a group, or the expression is not followed.
        """
        self._choices, self._found = {}, {}
        first = made()
        met = self._found
        if not met:
            return [first]
        if prod(met.values()) > _CASES:
            raise NotProvedError("the index has too many cases")
        results = []
        for ways in product(*(range(n) for n in met.values())):
            self._choices = dict(zip(met, ways, strict=True))
            results.append(made())
        self._choices = {}
        return results

    def constant(self, value: Value) -> Vector:
        """The value of an expression that the compiler knows, for every element."""
        found = self.cases(lambda: self.form(value))
        constant = found[0].constant
        if len(found) != 1 or constant is None:
            raise NotProvedError(f"`{self._text(value.node)}` is not known at compile time")
        return constant

    def most(self, value: Value, depth: int = 0) -> Vector:
        """What an expression does not exceed, for every element: itself, or the constant of a min."""
        try:
            return self.constant(value)
        except NotProvedError:
            if depth > DEPTH:
                raise
        node = value.node
        if node.type == "parenthesized_expression":
            return self.most(Value(node.named_children[0], value.scope, value.item), depth + 1)
        if node.type == "identifier":
            found = value.scope.symbol(self._text(node))
            defined = self.scopes.definition(found, value.scope) if found is not None else None
            if defined is not None:
                return self.most(defined, depth + 1)
        if node.type == "binary_expression" and self._text(self._part(value, "operator").node) == "*":
            factors = [self.most(self._part(value, side), depth + 1) for side in ("left", "right")]
            signs = [self.constant(self._part(value, side)) for side in ("right",)]
            if all(np.all(f >= 0) for f in (*factors, *signs)):
                return factors[0] * factors[1]
        if node.type == "call_expression" and callee(node) == "min":
            return self._least(value, depth)
        raise NotProvedError(f"`{self._text(node)}` is not bounded")

    def _least(self, value: Value, depth: int) -> Vector:
        """The known one of what a min chooses from."""
        for argument in arguments_of(value.node):
            try:
                return self.most(Value(argument, value.scope, value.item), depth + 1)
            except NotProvedError:
                continue
        raise NotProvedError(f"`{self._text(value.node)}` is not bounded")

    def form(self, value: Value, depth: int = 0) -> Form:
        """The form of an integer expression."""
        node, scope = value.node, value.scope
        kind = node.type
        text = self._text(node)
        if depth > 4 * DEPTH:
            raise NotProvedError("definitions are followed too far")
        if kind in ("parenthesized_expression", "condition_clause") and node.named_children:
            return self.form(Value(node.named_children[0], scope, value.item), depth)
        if kind == "number_literal":
            try:
                return number(int(text.rstrip("uUlL"), 0))
            except ValueError:
                raise NotProvedError(f"`{text}` is not an integer") from None
        if kind == "cast_expression":
            return self._cast(
                value, node.child_by_field_name("type"), node.child_by_field_name("value"), depth
            )
        if kind in ("identifier", "field_expression", "qualified_identifier"):
            return self._named(text, value, depth)
        if kind == "binary_expression":
            return self._binary(value, depth)
        if kind == "conditional_expression":
            return self._conditional(value, depth)
        if kind == "call_expression":
            return self._call(value, depth)
        raise NotProvedError(f"`{text}` is not affine")

    def _part(self, value: Value, name: str) -> Value:
        node = value.node.child_by_field_name(name)
        if node is None:
            raise NotProvedError(f"`{self._text(value.node)}` is not affine")
        return Value(node, value.scope, value.item)

    def _cast(self, value: Value, kind: Node | None, inner: Node | None, depth: int) -> Form:
        if kind is None or inner is None or not self._keeps(self._text(kind), value):
            raise NotProvedError(f"`{self._text(value.node)}` converts an index")
        return self.form(Value(inner, value.scope, value.item), depth)

    def _keeps(self, type_: str, value: Value) -> bool:
        """Whether a conversion to a type keeps every index that a launch can have."""
        return self.types.named(type_, len(value.scope.calls)) in INTEGERS

    def _binary(self, value: Value, depth: int) -> Form:
        a, b = (self.form(self._part(value, side), depth) for side in ("left", "right"))
        sign = self._text(self._part(value, "operator").node)
        if sign == "+":
            return a + b
        if sign == "-":
            return a - b
        if sign == "*":
            return a * b
        found = exact(sign, a.constant, b.constant)
        return found if found is not None else self._opaque(value, (a, b))

    def _opaque(self, value: Value, parts: tuple[Form, ...]) -> Form:
        """An operation on parameters alone is a run-time symbol of its own: `N / 2`."""
        text = self._text(value.node)
        names = {n for part in parts for m in part.terms for n in m}
        parameters = {p.name for p in self.scopes.model.analysed.parameters}
        plain = all(np.all(v == v.flat[0]) for part in parts for v in part.terms.values())
        words = set(re.findall(r"[A-Za-z_]\w*", text))
        found = {value.scope.symbol(word) for word in words}
        known = all(s is not None and s.kind == "param" and self.fixed(s) for s in found)
        if not plain or not names or names - parameters or not known:
            raise NotProvedError(f"`{text}` is not affine")
        self.asked[f"({text})"] = f"({text})"
        return symbol(f"({text})")

    def _conditional(self, value: Value, depth: int) -> Form:
        ways = [self._part(value, p) for p in ("consequence", "alternative")]
        condition = self._part(value, "condition")
        if not self.uniform_condition(condition, depth + 1):
            raise NotProvedError("what is chosen by ?: differs within a group")
        return self._chosen(value, ways, depth)

    def _chosen(self, value: Value, ways: list[Value], depth: int) -> Form:
        at = (value.node.start_byte, value.node.end_byte)
        key = (value.item.order, *at, self._text(value.node), *(id(c) for c in value.scope.calls))
        self._found[key] = len(ways)
        forms = [self.form(w, depth + 1) for w in ways]
        return forms[self._choices.get(key, 0)]

    def _call(self, value: Value, depth: int) -> Form:
        name, arguments = callee(value.node), arguments_of(value.node)
        macro = self.scopes.model.file.macros.get(name)
        if macro is not None and macro.parameters is not None:
            return self.form(self.expanded_call(value, macro), depth + 1)
        ways = [Value(a, value.scope, value.item) for a in arguments]
        if name in ("min", "max") and len(ways) == 2:
            if not all(self.grid.uniform(self.form(w, depth + 1)) for w in ways):
                raise NotProvedError(f"what `{name}` chooses differs within a group")
            return self._chosen(value, ways, depth)
        function = value.node.child_by_field_name("function")
        if len(ways) == 1 and function is not None and self._keeps(cast_to(self._text(function)), value):
            return self.form(ways[0], depth + 1)
        raise NotProvedError(f"`{self._text(value.node)}` is not affine")

    def sure(self, macro: Macro) -> None:
        """Raises NotProvedError where it is not known which definition of a macro holds."""
        if not meanings(self.scopes.model.file).sure(macro.name):
            raise NotProvedError(f"the macro `{macro.name}` is defined in several ways, or under a condition")

    def expanded_call(self, value: Value, macro: Macro) -> Value:
        """What a call of a macro expands to, as an expression of the same place."""
        self.sure(macro)
        return self.expanded(value, expand(macro, [self._text(a) for a in arguments_of(value.node)]))

    def expanded(self, value: Value, text: str) -> Value:
        """A text as an expression of the same place."""
        tree = parse_tree(f"void tp() {{ ({text}); }}")
        self._trees.append(tree)
        body = tree.root_node.named_children[0].child_by_field_name("body")
        if body is None or tree.root_node.has_error:
            raise NotProvedError(f"`{text}` is not understood")
        return Value(body.named_children[0].named_children[0].named_children[0], value.scope, value.item)

    # -- names ---------------------------------------------------------------------------------------------------

    def _named(self, name: str, value: Value, depth: int) -> Form:
        if name in _THREAD:
            return Form({ONE: self.grid.threads[_THREAD[name]]})
        if name in _BLOCK:
            return number(self.grid.block[_BLOCK[name]])
        if _COORDINATE.match(name):
            return symbol(name)
        scope = value.scope
        found = scope.symbol(name)
        if found is None:
            given = self.scopes.argument(name, scope)
            return self.form(given, depth + 1) if given is not None else self._constant(name, scope)
        if found in self.grid.turns and self.types.keeps(found):
            start, step = self.counters[found]
            return self.form(start, depth + 1) + number(step) * Form({ONE: self.grid.turns[found]})
        model = self.scopes.model
        if found in model.split.carried:
            return self._runtime(found)
        if found.kind == "param":
            kept = self.fixed(found) and self.types.of(found) in INTEGERS
            return symbol(name) if kept else self._runtime(found)
        defined = self.scopes.definition(found, scope)
        if defined is None:
            return self._constant(name, scope) if found.const else self._runtime(found)
        try:
            if not self.types.keeps(found):
                raise NotProvedError(f"`{name}` is no integer of 32 bits or more")
            if self.scopes.stale(defined, self.at):
                raise NotProvedError(f"what `{name}` was made of has changed since")
            return self.form(defined, depth + 1)
        except NotProvedError:
            if found in self.scopes.divergent:
                raise
            return self._runtime(found)

    def _runtime(self, found: Symbol) -> Form:
        """A variable that is the same for all threads, whatever its value."""
        if found in self.scopes.divergent or found.pointer or found.is_array:
            raise NotProvedError(f"`{found.name}` is not followed")
        if self.types.of(found) not in INTEGERS:
            raise NotProvedError(f"`{found.name}` is no integer of 32 bits or more")
        setters = self.scopes.flow.definers[found]
        if any(p.counter in self.grid.turns for i in setters for p in i.parents if p.counter is not None):
            raise NotProvedError(f"`{found.name}` changes from turn to turn of the copy's loop")
        name = f"{found.name}@{found.key[0]}"
        self.states[name] = found
        return symbol(name)

    def type_of(self, value: Value, name: str) -> str:
        """The compiler's name of a variable's type, "" where it is not known or the name is none of a variable."""
        found = value.scope.symbol(name)
        return self.types.of(found) if found is not None else ""

    def followed(self, value: Value, name: str) -> Value | None:
        """What a name is followed to: a definition, or the argument of a call."""
        found = value.scope.symbol(name)
        if found is None:
            return self.scopes.argument(name, value.scope)
        if found in self.grid.turns or found.kind == "param" or found in self.scopes.model.split.carried:
            return None
        return self.scopes.definition(found, value.scope)

    def fixed(self, parameter: Symbol) -> bool:
        """Whether a parameter keeps its value, and its name means it before the tile loop."""
        if self.scopes.flow.definers[parameter] or parameter.pointer:
            return False
        body = self.scopes.model.analysed.body
        declared = (s for st in body.walk() for s in st.declares if s.key[1] == ())
        return not any(s.name == parameter.name and s != parameter for s in declared)

    def _constant(self, name: str, scope: Scope) -> Form:
        known = self.constants.get((len(scope.calls), name))
        if known is None:
            raise NotProvedError(f"the value of `{name}` is not known")
        return number(known)

    # -- conditions ----------------------------------------------------------------------------------------------

    def uniform_condition(self, value: Value, depth: int = 0) -> bool:
        """Whether a condition that holds no ordered comparison of elements has one answer for each group."""
        node = value.node
        if node.type in (
            "binary_expression",
            "parenthesized_expression",
            "condition_clause",
            "unary_expression",
        ):
            parts = [c for c in node.named_children if c.type != "comment"]
            return all(self.uniform_condition(Value(p, value.scope, value.item), depth) for p in parts)
        found = value.scope.symbol(self._text(node)) if node.type == "identifier" else None
        if found is not None and found.kind == "param" and self.fixed(found):
            return True
        return self.grid.uniform(self.form(value, depth))

    def comparisons(self, value: Value, depth: int = 0) -> Iterator[tuple[str, Value, Value]]:
        """The comparisons that a condition is made of, with the names of flags and macros followed."""
        node = value.node
        if depth > DEPTH:
            raise NotProvedError("the guard is not a conjunction of comparisons")
        if node.type in ("parenthesized_expression", "condition_clause", "unary_expression"):
            operator = node.child_by_field_name("operator")
            if operator is not None and self._text(operator) != "!":
                raise NotProvedError("the guard is not a conjunction of comparisons")
            yield from self.comparisons(Value(node.named_children[-1], value.scope, value.item), depth + 1)
        elif node.type == "binary_expression":
            sign = self._text(self._part(value, "operator").node)
            left, right = self._part(value, "left"), self._part(value, "right")
            if sign in ("&&", "||", "&"):
                yield from self.comparisons(left, depth + 1)
                yield from self.comparisons(right, depth + 1)
            elif sign in ("<", ">", "<=", ">=", "==", "!="):
                yield sign, left, right
            else:
                raise NotProvedError("the guard is not a conjunction of comparisons")
        else:
            yield from self._followed(value, depth)

    def conjunction(self, value: Value) -> Iterator[tuple[str, Value, Value]]:
        """Comparisons that must all hold for the condition to hold."""
        node = value.node
        if node.type in ("parenthesized_expression", "condition_clause"):
            yield from self.conjunction(Value(node.named_children[-1], value.scope, value.item))
        elif node.type == "binary_expression":
            sign = self._text(self._part(value, "operator").node)
            left, right = self._part(value, "left"), self._part(value, "right")
            if sign == "&&":
                yield from self.conjunction(left)
                yield from self.conjunction(right)
            elif sign in ("<", ">", "<=", ">=", "==", "!="):
                yield sign, left, right

    def _followed(self, value: Value, depth: int) -> Iterator[tuple[str, Value, Value]]:
        node = value.node
        text = self._text(node)
        if node.type == "identifier":
            found = value.scope.symbol(text)
            defined = (
                self.scopes.definition(found, value.scope)
                if found is not None
                else self.scopes.argument(text, value.scope)
            )
            if defined is not None:
                yield from self.comparisons(defined, depth + 1)
                return
            if found is not None and found not in self.scopes.divergent:
                return  # one value for the whole block
        macro = self.scopes.model.file.macros.get(callee(node)) if node.type == "call_expression" else None
        if macro is not None and macro.parameters is not None:
            yield from self.comparisons(self.expanded_call(value, macro), depth + 1)
            return
        if node.type in ("true", "false", "number_literal"):
            return
        raise NotProvedError("the guard is not a conjunction of comparisons")

    def _text(self, node: Node) -> str:
        return " ".join(node.text.decode().split()) if node.text else ""
