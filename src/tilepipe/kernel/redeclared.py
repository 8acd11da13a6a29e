"""Names that a thread must evaluate anew when it copies an element that was another thread's."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np
from tree_sitter import Node

from tilepipe.kernel.affine import ONE, Form
from tilepipe.kernel.copymap import Counter
from tilepipe.kernel.flow import Item
from tilepipe.kernel.pointers import Pointers
from tilepipe.kernel.resolve import NotProvedError
from tilepipe.kernel.scopes import Scope, Scopes, Value
from tilepipe.kernel.statements import Statement
from tilepipe.kernel.symbols import Symbol

_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Line:
    """One name with the text of its value. `number`: its value is the element's number, so that no text is needed;
    `start`: it is a pointer whose text gives where it starts, and it has walked on since."""

    type: str
    name: str
    text: str
    number: bool = False
    start: bool = False
    counter: Symbol | None = None
    step: int = 0


@dataclass(frozen=True, eq=False)
class Redeclared:
    """The lines in the order in which they depend on each other, and the variables of the place that are read."""

    lines: tuple[Line, ...]
    uses: frozenset[Symbol]


@dataclass
class Redeclares:
    """Collects what the texts of one copy need."""

    scopes: Scopes
    pointers: Pointers
    item: Item
    nest: Statement
    counters: list[Counter]
    _lines: dict[Symbol, Line] = field(default_factory=dict)
    _kept: dict[Symbol, None] = field(default_factory=dict)
    _open: set[Symbol] = field(default_factory=set)

    def result(self) -> Redeclared:
        names = [line.name for line in self._lines.values()]
        kept = {s.name for s in self._kept if s not in self._lines}
        if len(set(names)) != len(names) or kept & set(names):
            raise NotProvedError("two variables of one name are needed")
        return Redeclared(tuple(self._lines.values()), frozenset(self._kept))

    def visit(self, value: Value) -> None:
        """Everything that an expression names."""
        for name in self._names(value.node):
            found = value.scope.symbol(name)
            if found is not None:
                self._symbol(found, value.scope)
            elif name in self._parameters():
                self._array_parameter(name, value.scope)

    def _names(self, node: Node) -> list[str]:
        """Names in the expression and in the macros that it calls."""
        macros = self.scopes.model.file.macros
        found: dict[str, None] = {}
        stack = [node]
        while stack:
            current = stack.pop()
            if current.type == "identifier" and current.text:
                found.setdefault(current.text.decode())
            stack.extend(current.named_children)
        work = [n for n in found if n in macros]
        seen: set[str] = set()
        while work:
            name = work.pop()
            if name in seen:
                continue
            seen.add(name)
            words = _WORD.findall(macros[name].body)
            if "threadIdx" in words:
                raise NotProvedError(f"the macro `{name}` names the thread")
            found.update(dict.fromkeys(words))
            work += [w for w in words if w in macros]
        return list(found)

    def _parameters(self) -> set[str]:
        calls = self.scopes.scope(self.item, frozenset()).calls
        return {n for call in calls for n in self.scopes.parameters(call)}

    def _array_parameter(self, name: str, scope: Scope) -> None:
        """A parameter that is the caller's array by another name: visible as it is where the copy stands. A reference
        to a variable would show the thread's own."""
        given = self.scopes.argument(name, scope)
        if given is None or scope.calls != self.scopes.scope(self.item, frozenset()).calls:
            raise NotProvedError(f"`{name}` is a parameter of another function")
        if not self.pointers.is_array(given):
            raise NotProvedError(f"`{name}` refers to a variable of the caller")

    def _symbol(self, found: Symbol, scope: Scope) -> None:
        if (
            found in self._lines
            or found in self._kept
            or found.kind in ("thread", "shared", "lambda", "file")
        ):
            return
        if found in self._open:
            raise NotProvedError(f"`{found.name}` depends on itself")
        self._open.add(found)
        counter = next((c for c in self.counters if c.symbol == found), None)
        if counter is not None:
            self._counter(counter)
        elif found in self.pointers.moved:
            self._moved(found, self.pointers.moved[found])
        else:
            self._variable(found, scope)
        self._open.discard(found)

    def _counter(self, counter: Counter) -> None:
        form = self._integer(Value(counter.start.node, counter.start.scope, counter.start.item))
        grid = self.pointers.forms.grid
        turn = grid.turns[counter.symbol]
        value = form.constant if form is not None else None
        number = value is not None and np.array_equal(
            np.broadcast_to(value + counter.step * turn, (grid.count,)), np.arange(grid.count)
        )
        if not number:
            self.visit(counter.start)
        text = self.scopes.slice(counter.start.node)
        name, kind = counter.symbol.name, counter.symbol.type
        self._lines[counter.symbol] = Line(kind, name, text, number, False, counter.symbol, counter.step)

    def _moved(self, found: Symbol, start: Value) -> None:
        definers = self.scopes.flow.definers[found]
        loop = self.scopes.model.tile.loop
        late = [i for i in definers if i is not start.item and i.statement.span.start < loop.span.start]
        if late or start.scope.calls or not self._visible(found):
            raise NotProvedError(f"`{found.name}` is changed before the loop")
        self._stable(start, found)
        self.visit(start)
        self._lines[found] = Line("auto", found.name, self.scopes.slice(start.node), start=True)
        self._kept[found] = None

    def _variable(self, found: Symbol, scope: Scope) -> None:
        value = self.scopes.definition(found, scope)
        item = value.item if value is not None else None
        inside = any(found in s.declares for s in self.nest.walk())
        if value is None:
            if found in self.scopes.divergent or inside:
                raise NotProvedError(f"`{found.name}` is given its value in a way that is not followed")
            self._keep(found)
            return
        form = self._integer(value) if not found.pointer else None
        if not inside and (found not in self.scopes.divergent or self._same(found, value, form)):
            self._keep(found)
            return
        same_name = value.node.type == "identifier" and self.scopes.slice(value.node) == found.name
        if found.reference or found.is_array:
            raise NotProvedError(f"`{found.name}` is not evaluated anew")
        assert item is not None
        self._stable(value, found)
        self.visit(value)
        if same_name:
            return  # `load(row)` with a parameter `row`: the argument has the name already
        number = self._is_number(form)
        kind = "auto" if found.pointer else found.type
        self._lines[found] = Line(kind, found.name, self.scopes.slice(value.node), number)

    def _integer(self, value: Value) -> Form | None:
        """The value over the elements, None where it has several cases or is no integer that is followed."""
        try:
            cases = self.pointers.forms.cases(lambda: self.pointers.forms.form(value))
        except NotProvedError:
            return None
        return cases[0] if len(cases) == 1 else None

    def _same(self, found: Symbol, value: Value, form: Form | None) -> bool:
        """Whether the value is one for all elements."""
        if found.pointer:
            try:
                places = self.pointers.forms.cases(lambda: self.pointers.pointer(value))
            except NotProvedError:
                return False
            form = places[0].distance if len(places) == 1 else None
            if value.item.statement.kind == "call" and form is not None and self.pointers.moved:
                return False
        return form is not None and all(bool(np.all(v == v.flat[0])) for v in form.terms.values())

    def _is_number(self, form: Form | None) -> bool:
        count = self.pointers.forms.grid.count
        vector = form.terms.get(ONE) if form is not None and set(form.terms) == {ONE} else None
        return vector is not None and np.array_equal(np.broadcast_to(vector, (count,)), np.arange(count))

    def _keep(self, found: Symbol) -> None:
        if not self._visible(found):
            raise NotProvedError(f"`{found.name}` names something else where the copy stands")
        self._kept[found] = None

    def _stable(self, value: Value, found: Symbol) -> None:
        """What a value is made of has not changed since the author evaluated it."""
        names = {s for n in self._names(value.node) if (s := value.scope.symbol(n)) is not None}
        own = {c.symbol for c in self.counters}
        nest = self.scopes.item(self.nest)
        if value.item.order < nest.order and self.scopes.changed_between(
            frozenset(names - own), value.item, nest
        ):
            raise NotProvedError(f"what `{found.name}` was made of has changed since")

    def _visible(self, found: Symbol) -> bool:
        """Whether the name means this variable where the copy stands."""
        flow = self.scopes.flow
        here = set(map(id, (*self.item.parents, self.item.statement)))
        depth = len(found.key[1])
        calls = self.scopes.scope(self.item, frozenset()).calls
        if depth > len(calls) or any(found.name in self.scopes.parameters(c) for c in calls[depth:]):
            return False
        for other, declarer in flow.declarer.items():
            if other.name != found.name or other == found:
                continue
            nearer = (len(other.key[1]), other.key[0]) > (depth, found.key[0])
            around = (
                self.item.statement.context[: len(other.key[1])] == other.key[1]
            )  # not within another call
            if nearer and around and all(id(p) in here for p in declarer.parents if p.kind != "other"):
                return False
        return True
