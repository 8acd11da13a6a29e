"""Re-partitioning of copies with proof: the same elements, but V consecutive ones per thread.

The copy `for (i = t; i < N; i += T)` moves element i of the tile. If thread t takes the elements
V·i, …, V·i + V − 1 instead, the set of elements is the same, and one instruction can move V of them, provided that
for every group of V elements

1. the shared addresses are consecutive and the first is a multiple of V elements;
2. the global addresses are consecutive and the first is a multiple of V elements;
3. the guard holds for all of the group or for none.

Each is decided on the affine forms of `affine.py`: the compile-time part exhaustively, over every element of the
tile; the run-time part by divisibility, where a term is a multiple of V because its coefficient is, or because a
size is. Such sizes (and the pointer's own alignment, and the number of threads) become conditions that the
emitted kernel tests once per block, outside of the tile loop, with the author's loop as the other arm. What does
not fit is left as the author wrote it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from tree_sitter import Node

from tilepipe.kernel.affine import ONE, Form, Monomial, Vector, elements, evaluate, number, symbol
from tilepipe.kernel.copies import Copy
from tilepipe.kernel.flow import Flow, Item
from tilepipe.kernel.model import Answers, Ask, KernelModel, Study
from tilepipe.kernel.statements import Statement
from tilepipe.kernel.symbols import Symbol
from tilepipe.kernel.trips import Trips
from tilepipe.source import Span
from tilepipe.source.parse import parse_tree, span

WIDEST = 16
_DEPTH = 8  # definitions followed through definitions
_COORDINATE = re.compile(r"^(blockIdx|gridDim)\.[xyz]$")


@dataclass(frozen=True, eq=False)
class Wide:
    """A copy that may move `bytes` at a time, `elements` of the author's elements, once `conditions` hold.

    `loop` is the copy loop; `index` the variable that numbers the tile's elements (its counter, or a local that
    `declared` spans the initialiser of); `count` the number of elements, `threads` of threads that share them.
    """

    copy: Copy
    bytes: int
    elements: int
    loop: Statement
    index: Symbol
    declared: Span | None
    count: int
    threads: int
    conditions: tuple[str, ...]


@dataclass(frozen=True)
class Narrow:
    """A copy that stays as it is, and why."""

    copy: Copy
    reason: str


Symbols = frozenset[Symbol]


class _NotProvedError(Exception):
    """A step of the proof does not go through; the message says which."""


@dataclass(frozen=True, eq=False)
class _Domain:
    """The elements of a copy: numbered 0 … count − 1 by `index`, dealt to `threads` threads in turn."""

    loop: Statement
    index: Symbol
    declared: Span | None
    count: int
    threads: int
    conditions: tuple[str, ...]


def constants_wanted(found: Study) -> tuple[Ask, ...]:
    """Questions for the compile-time constants that the copies' index expressions may name."""
    offsets = {a.key.split(":", 1)[1]: a.offset for a in found.asks if a.key.startswith("size:")}
    copies = [
        c for c in found.copies if isinstance(c, Copy) and str(c.use.item.statement.span.start) in offsets
    ]
    asks: dict[str, Ask] = {}
    for copy in copies:
        offset = offsets[str(copy.use.item.statement.span.start)]
        for name in _maybe_constants(found):
            asks.setdefault(f"const:{name}", Ask(f"const:{name}", "value", name, offset))
        base = copy.target.split("[")[0]
        for rank in range(copy.target.count("[")):
            key = f"extent:{copy.use.buffer.name}:{rank}"
            asks.setdefault(key, Ask(key, "value", f"sizeof({base}{'[0]' * rank}[0])", offset))
    return tuple(asks.values())


def _maybe_constants(found: Study) -> list[str]:
    """Names in the kernel that are neither its parameters nor its variables: macros, constants, template arguments."""
    body = found.analysed.body
    variables = {s.name for st in body.walk() for s in st.declares if not s.const}
    variables |= {p.name for p in found.analysed.parameters}
    names: set[str] = set()
    root = found.file.tree.root.named_descendant_for_byte_range(body.span.start, body.span.end)
    stack = [root] if root is not None else []
    while stack:
        node = stack.pop()
        if node.type == "identifier" and node.text:
            names.add(node.text.decode())
        stack.extend(node.named_children)
    builtin = {"threadIdx", "blockIdx", "blockDim", "gridDim"}
    return sorted(
        n for n in names - variables - builtin - set(found.file.functions) if not n.startswith("__")
    )


def widen(model: KernelModel, answers: Answers) -> tuple[Wide | Narrow, ...]:
    """For every plain copy, the widest legal form, or why it stays narrow."""
    prover = _Prover(model, answers)
    return tuple(prover.prove(c) for c in model.copies if isinstance(c, Copy))


def covered(model: KernelModel, proved: Iterable[Wide]) -> frozenset[Symbol]:
    """The staged tiles all of whose copies may be widened."""
    wide = {id(w.copy) for w in proved}
    found = {b.piece: [c for c in model.copies if c.use.buffer == b.piece] for b in model.buffers}
    return frozenset(
        piece for piece, copies in found.items() if copies and all(id(c) in wide for c in copies)
    )


class _Prover:
    """Proves or gives up, one copy at a time. Names are resolved to declarations, never by spelling alone."""

    def __init__(self, model: KernelModel, answers: Answers) -> None:
        self.model = model
        self.answers = answers
        self.flow = Flow([model.analysed.body])
        self._needs: dict[str, None] = {}  # ordered set of run-time conditions
        self._trees: list[object] = []  # keeps the nodes of `_expression` alive

    def prove(self, copy: Copy) -> Wide | Narrow:
        size = self.model.answers.get(f"size:{copy.use.item.statement.span.start}")
        if not isinstance(size, int) or size >= WIDEST:
            return Narrow(copy, "the author's copies are as wide as they can be")
        reason = ""
        for bytes_ in (16, 8, 4):
            if bytes_ <= size or bytes_ % size:
                continue
            try:
                return self._attempt(copy, size, bytes_)
            except _NotProvedError as failed:
                reason = reason or str(failed)
        return Narrow(copy, reason or "nothing wider is possible")

    def _attempt(self, copy: Copy, size: int, bytes_: int) -> Wide:
        self._needs = {}
        width = bytes_ // size
        domain = self._domain(copy)
        if domain.count % width:
            raise _NotProvedError(f"{domain.count} elements are no multiple of {width}")
        shared = self._shared(copy, domain, size)
        self._consecutive(shared, width, domain.count, "shared")
        self._divisible(self._starts(shared, width, domain.count), width, "the shared address", copy.uses)
        root, index = self._global(copy, domain, width)
        self._consecutive(index, width, domain.count, "global")
        self._divisible(self._starts(index, width, domain.count), width, "the global address", copy.uses)
        self._needs[f"tp_aligned({root}, {bytes_})"] = None
        for atom in self._atoms(self._expression(copy.guard)) if copy.guard is not None else ():
            self._uniform(atom, copy, domain, width)
        return Wide(
            copy, bytes_, width, domain.loop, domain.index, domain.declared, domain.count, domain.threads,
            (*domain.conditions, *self._needs),
        )  # fmt: skip

    # -- the elements --------------------------------------------------------------------------------------------

    def _domain(self, copy: Copy) -> _Domain:
        item = copy.use.item
        loops = [p for p in item.parents if p.is_loop]
        if len(loops) != 1 or item.statement.context:
            raise _NotProvedError("the copy is not in one loop of the kernel's own text")
        trips = self.model.trips.get(id(loops[0]))
        if trips is None:
            raise _NotProvedError("the copy loop's trip count is not known")
        if any(p.kind == "if" for p in item.parents if p is not copy.replaces):
            raise _NotProvedError("the copy stands under a condition")
        return self._by_local(loops[0], trips) if trips.simple else self._by_stride(loops[0], trips)

    def _by_stride(self, loop: Statement, trips: Trips) -> _Domain:
        """`for (i = t; i < N; i += T)` with t the number of the thread and T their count."""
        at = loop.span.start
        bound, step = self.model.answers.get(f"bound:{at}"), self.model.answers.get(f"step:{at}")
        known = isinstance(bound, int) and isinstance(step, int) and not trips.loop.inclusive
        if not known or loop.start is None or loop.counter is None:
            raise _NotProvedError("the copy loop's bounds are not constant")
        threads = self._threads(self._node(loop.start), loop.own.uses, int(step))  # type: ignore[arg-type]
        return _Domain(loop, loop.counter, None, int(bound), int(step), threads)  # type: ignore[arg-type]

    def _by_local(self, loop: Statement, trips: Trips) -> _Domain:
        """`for (s = 0; s < S; ++s) { e = t + s * T; … }` where the copy knows s and t through e alone."""
        for statement in loop.children[0].walk():
            if statement.kind != "declaration":
                continue
            for declared in statement.declares:
                value = self._value(statement, declared.name)
                found = self._linear(value, statement, trips) if value is not None else None
                if found is not None and value is not None:
                    stride, conditions = found
                    return _Domain(loop, declared, span(value), stride * trips.count, stride, conditions)
        raise _NotProvedError("no variable numbers the elements of the tile")

    def _linear(self, value: Node, statement: Statement, trips: Trips) -> tuple[int, tuple[str, ...]] | None:
        """Threads and conditions when the value is (number of the thread) + counter · threads."""
        starts: list[Node] = []

        def lookup(name: str, node: Node) -> Form | None:
            if name == trips.loop.counter:
                # A vector of counter values, so that shifts of the counter are taken exactly.
                return elements(trips.count)
            if self._columns(node, statement.own.uses, 0) is not None:
                starts.append(node)
                return symbol("#t")
            return self._constant(name)

        form = evaluate(value, self._text, lookup)
        if form is None or set(form.terms) - {("#t",), ONE} or len(starts) != 1:
            return None
        steps = np.broadcast_to(form.terms.get(ONE, np.zeros(1, np.int64)), (trips.count,))
        stride = int(steps[1]) if trips.count > 1 else 0
        if np.any(form.terms[("#t",)] != 1) or stride < 1 or np.any(steps != stride * np.arange(trips.count)):
            return None
        return stride, self._threads(starts[0], statement.own.uses, stride)

    def _threads(self, start: Node, uses: Symbols, count: int) -> tuple[str, ...]:
        """Conditions under which `start` numbers the `count` threads of the block from 0."""
        columns = self._columns(start, uses, 0)
        if columns is None:
            raise _NotProvedError("the number of the thread in its block is not recognised")
        if columns == 0:
            return (f"blockDim.x == {count} && blockDim.y * blockDim.z == 1",)
        return (f"blockDim.x == {columns} && blockDim.x * blockDim.y == {count} && blockDim.z == 1",)

    def _columns(self, node: Node, uses: Symbols, depth: int) -> int | None:
        """C where the node is threadIdx.y · C + threadIdx.x, 0 where it is threadIdx.x, None for another thing."""
        form = self._thread_form(node, uses, depth)
        terms = dict(form.terms) if form is not None else {}
        values = {m: int(v[0]) for m, v in terms.items() if np.any(v != 0)}
        if values.pop(("threadIdx.x",), 0) != 1:
            return None
        columns = values.pop(("threadIdx.y",), 0)
        return columns if not values and columns >= 0 else None

    def _thread_form(self, node: Node, uses: Symbols, depth: int) -> Form | None:
        def lookup(name: str, at: Node) -> Form | None:
            if name in ("threadIdx.x", "threadIdx.y"):
                return symbol(name)
            defined = self._defined(name, uses) if depth < _DEPTH else None
            if defined is None:
                return self._constant(name)
            return self._thread_form(defined[1], defined[0].own.uses, depth + 1)

        return evaluate(node, self._text, lookup)

    # -- addresses -----------------------------------------------------------------------------------------------

    def _shared(self, copy: Copy, domain: _Domain, size: int) -> Form:
        """The shared element that each element of the copy goes to, counted from the array's start."""
        node = self._expression(copy.target)
        indices: list[Node] = []
        while node.type == "subscript_expression":
            listed = node.child_by_field_name("indices")
            if listed is None or len(listed.named_children) != 1:
                raise _NotProvedError("the shared index is not understood")
            indices.insert(0, listed.named_children[0])
            node = node.child_by_field_name("argument") or node
        if node.type != "identifier" or not indices or self._text(node) != copy.use.buffer.name:
            raise _NotProvedError("the shared address is not an array element")
        total = number(0)
        for rank, index in enumerate(indices):
            extent = self.answers.get(f"extent:{copy.use.buffer.name}:{rank}")
            if not isinstance(extent, int) or extent % size:
                raise _NotProvedError("the shared array's extents are not known")
            total = total + number(extent // size) * self._form(index, copy, domain)
        if total.constant is None:
            raise _NotProvedError("the shared address depends on what the launch decides")
        return total

    def _global(self, copy: Copy, domain: _Domain, width: int) -> tuple[str, Form]:
        """The pointer that the copy reads through and the element's distance from it."""
        node = self._expression(copy.source)
        listed = node.child_by_field_name("indices") if node.type == "subscript_expression" else None
        base = node.child_by_field_name("argument")
        if listed is None or base is None or base.type != "identifier":
            raise _NotProvedError("the global address is not an element of a named pointer")
        name = self._text(base)
        pointer = next((s for s in copy.uses if s.name == name and s.pointer), None)
        if pointer is None or self._hidden(pointer):
            raise _NotProvedError(f"`{name}` is not a pointer of the kernel")
        if pointer in self.model.split.carried:
            for step in self._steps_of(pointer) or self._give_up("the pointer's step is not understood"):
                self._divisible(step.terms, width, "the pointer's step", copy.uses)
        elif self.model.tile.flow.definers[pointer]:
            raise _NotProvedError(f"`{name}` is set anew for each tile")
        return name, self._form(listed.named_children[0], copy, domain)

    def _give_up(self, why: str) -> list[Form]:
        raise _NotProvedError(why)

    def _form(self, node: Node, copy: Copy, domain: _Domain) -> Form:
        form = evaluate(node, self._text, lambda name, _: self._named(name, copy.uses, domain, 0))
        if form is None:
            raise _NotProvedError(f"`{self._text(node)}` is not affine")
        return form

    def _named(self, name: str, uses: Symbols, domain: _Domain | None, depth: int) -> Form | None:
        """The form of a name: an element number, a constant, a size, a loop variable, or its definition's form."""
        if _COORDINATE.match(name):
            return symbol(name)
        found = next((s for s in uses if s.name == name), None)
        if found is None:
            return self._constant(name)
        if domain is not None and found == domain.index:
            return elements(domain.count)
        if found in self.model.split.carried:
            return symbol(name)
        if found.kind == "param":
            return symbol(name) if not found.pointer and self._fixed(found) else None
        defined = self._defined(name, uses)
        if defined is None or depth > _DEPTH:
            return self._constant(name) if found.const else None
        item, value = defined
        return evaluate(value, self._text, lambda n, _: self._named(n, item.own.uses, domain, depth + 1))

    # -- the three conditions ------------------------------------------------------------------------------------

    def _consecutive(self, form: Form, width: int, count: int, which: str) -> None:
        tables = form.of_groups(width, count)
        good = ONE in tables
        for monomial, table in tables.items():
            step = np.arange(width) if monomial == ONE else np.zeros(width, np.int64)
            good = good and np.array_equal(table, table[:, :1] + step)
        if not good:
            raise _NotProvedError(f"neighbours are not consecutive in {which} memory")

    def _starts(self, form: Form, width: int, count: int) -> dict[Monomial, Vector]:
        return {m: table[:, 0] for m, table in form.of_groups(width, count).items()}

    def _divisible(self, terms: Mapping[Monomial, Vector], width: int, what: str, uses: Symbols) -> None:
        """Every term a multiple of `width`: by its coefficient, or by a size that a condition makes one."""
        for monomial, vector in terms.items():
            if np.any(vector % width) and not self._factor(monomial, width, uses):
                raise _NotProvedError(f"{what} is not known to be a multiple of {width} elements")

    def _factor(self, monomial: Monomial, width: int, uses: Symbols) -> bool:
        for name in monomial:
            state = next((s for s in self.model.split.carried if s.name == name), None)
            if state is not None and self._state_divisible(state, width):
                return True
        for parameter in self.model.analysed.parameters:
            if parameter.name in monomial and self._fixed(parameter):
                self._needs[f"{parameter.name} % {width} == 0"] = None
                return True
        return False

    def _fixed(self, parameter: Symbol) -> bool:
        """Whether a parameter keeps its value, and its name means it wherever the condition could be asked."""
        return not self.flow.definers[parameter] and not self._hidden(parameter)

    def _hidden(self, found: Symbol) -> bool:
        """Whether another declaration of the kernel has the same name."""
        declared = (s for st in self.model.analysed.body.walk() for s in st.declares)
        return any(s.name == found.name and s != found and s.key[1] == () for s in declared)

    def _state_divisible(self, state: Symbol, width: int) -> bool:
        """Whether a loop variable is a multiple of `width` in every iteration: its start and all its steps are."""
        start, steps = self._start_of(state), self._steps_of(state)
        if start is None or not steps:
            return False
        try:
            for form in (start, *steps):
                self._divisible(form.terms, width, "a step", frozenset())
        except _NotProvedError:
            return False
        return True

    def _atoms(self, node: Node) -> list[Node]:
        """The comparisons of a conjunction."""
        if node.type == "parenthesized_expression" and node.named_children:
            return self._atoms(node.named_children[0])
        operator = node.child_by_field_name("operator")
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if node.type != "binary_expression" or operator is None or left is None or right is None:
            raise _NotProvedError("the guard is not a conjunction of comparisons")
        return [*self._atoms(left), *self._atoms(right)] if operator.type == "&&" else [node]

    def _uniform(self, atom: Node, copy: Copy, domain: _Domain, width: int) -> None:
        """The comparison has one answer for every group: it does not see the position within, or both sides are
        multiples of the width there (a < b then means a + width <= b)."""
        operator = atom.child_by_field_name("operator")
        left, right = atom.child_by_field_name("left"), atom.child_by_field_name("right")
        if operator is None or left is None or right is None or operator.type not in ("<", ">", "<=", ">="):
            raise _NotProvedError("the guard is not a conjunction of comparisons")
        low, high = (self._form(side, copy, domain) for side in (left, right))
        # a < b and a >= b ask whether a - b is negative; a > b and a <= b whether b - a is.
        difference = low - high if operator.type in ("<", ">=") else high - low
        tables = difference.of_groups(width, domain.count)
        moving = [m for m, t in tables.items() if not np.array_equal(t, np.broadcast_to(t[:, :1], t.shape))]
        if not moving:
            return
        if moving != [ONE] or not np.array_equal(tables[ONE], tables[ONE][:, :1] + np.arange(width)):
            raise _NotProvedError("the guard may change within a group")
        self._divisible(self._starts(difference, width, domain.count), width, "the guard's edge", copy.uses)

    # -- loop variables ------------------------------------------------------------------------------------------

    def _steps_of(self, state: Symbol) -> list[Form] | None:
        """What is added to a variable per iteration, None where it changes in another way."""
        loop = self.model.tile.loop
        places = [(i.statement.span, i.own.uses) for i in self.model.tile.flow.definers[state]]
        if state in loop.update_effects.defs and loop.update is not None:
            places.append((loop.update, loop.update_effects.uses))
        if state in loop.condition_effects.defs or any(
            i.parents for i in self.model.tile.flow.definers[state]
        ):
            return None
        forms: list[Form] = []
        for place, uses in places:
            step = self._added(self._node(place), state.name)
            form = evaluate(step, self._text, partial(self._outside, uses)) if step is not None else None
            if form is None:
                return None
            forms.append(form)
        return forms

    def _outside(self, uses: Symbols, name: str, node: Node) -> Form | None:
        del node
        return self._named(name, uses, None, 0)

    def _added(self, node: Node, name: str) -> Node | None:
        """`step` of the one `name += step` at the top of the node."""
        found: list[Node | None] = []
        stack = [node]
        while stack:
            current = stack.pop()
            left = current.child_by_field_name("left") or current.child_by_field_name("argument")
            if current.type in ("assignment_expression", "update_expression"):
                if left is not None and self._text(left) == name:
                    operator = current.child_by_field_name("operator")
                    plus = operator is not None and self._text(operator) == "+="
                    found.append(current.child_by_field_name("right") if plus else None)
            elif current.type in ("expression_statement", "comma_expression"):
                stack.extend(current.named_children)
        return found[0] if len(found) == 1 else None

    def _start_of(self, state: Symbol) -> Form | None:
        loop = self.model.tile.loop
        if state in loop.declares:
            value, uses = self._value(loop, state.name), loop.init_effects.uses
        else:
            outside = [i for i in self.flow.definers[state] if i.statement.span.end <= loop.span.start]
            if len(outside) != 1 or outside[0].statement.kind != "declaration":
                return None
            value, uses = self._value(outside[0].statement, state.name), outside[0].own.uses
        return evaluate(value, self._text, partial(self._outside, uses)) if value is not None else None

    # -- names and text ------------------------------------------------------------------------------------------

    def _constant(self, name: str) -> Form | None:
        value = self.answers.get(f"const:{name}")
        return number(value) if isinstance(value, int) else None

    def _defined(self, name: str, uses: Symbols) -> tuple[Item, Node] | None:
        """The one declaration that gives a variable its value, and the value."""
        found = next((s for s in uses if s.name == name), None)
        definers = self.flow.definers[found] if found is not None else []
        if len(definers) != 1 or definers[0].statement.kind != "declaration":
            return None
        value = self._value(definers[0].statement, name)
        return (definers[0], value) if value is not None else None

    def _value(self, statement: Statement, name: str) -> Node | None:
        """The initialiser of a name in a declaration or loop header."""
        node = self._node(statement.init if statement.init is not None else statement.span)
        stack = [node]
        while stack:
            current = stack.pop()
            if current.type == "init_declarator":
                target = current.child_by_field_name("declarator")
                if target is not None and self._text(target).lstrip("*& ") == name:
                    return current.child_by_field_name("value")
            elif current.type in ("declaration", "for_statement"):
                stack.extend(current.named_children)
        return None

    def _node(self, at: Span) -> Node:
        found = self.model.file.tree.root.named_descendant_for_byte_range(at.start, at.end)
        if found is None:
            raise _NotProvedError("a part of the text is not understood")
        return found

    def _text(self, node: Node) -> str:
        return node.text.decode() if node.text else ""

    def _expression(self, text: str) -> Node:
        """An expression text of a copy as a node of its own."""
        tree = parse_tree(f"void tp() {{ ({text}); }}")
        self._trees.append(tree)
        body = tree.root_node.named_children[0].child_by_field_name("body")
        node = body.named_children[0].named_children[0].named_children[0] if body is not None else None
        if node is None or tree.root_node.has_error:
            raise _NotProvedError(f"`{text}` is not understood")
        return node
