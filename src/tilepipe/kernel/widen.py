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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from tree_sitter import Node

from tilepipe.kernel.acting import acting_class
from tilepipe.kernel.affine import ONE, Form, Monomial, Vector, number
from tilepipe.kernel.begins import asked_of_start
from tilepipe.kernel.copies import Copy
from tilepipe.kernel.domains import Domain, Domains
from tilepipe.kernel.integers import asked_type, spelled_types
from tilepipe.kernel.macros import Macro
from tilepipe.kernel.meaning import meanings
from tilepipe.kernel.model import Answers, Ask, KernelModel, Study
from tilepipe.kernel.resolve import NotProvedError, Resolver, Symbols
from tilepipe.kernel.statements import Statement
from tilepipe.kernel.symbols import Symbol
from tilepipe.kernel.tileend import past_end
from tilepipe.kernel.varying import varying_names
from tilepipe.kernel.wraps import Reading, rises
from tilepipe.source import Span

WIDEST = 16
FULL_WIDTH = "the author's copies are as wide as they can be"  # a reason that nobody need hear of
_CASTS = ("reinterpret_cast", "static_cast", "const_cast", "dynamic_cast")
DEPTH = 8  # definitions followed through definitions
_COORDINATE = re.compile(r"^(blockIdx|gridDim)\.[xyz]$")


@dataclass(frozen=True, eq=False)
class Widened:
    """A copy that may move `bytes` at a time, `elements` of the author's elements, once `conditions` hold.

    `past_end` is not None where its guard fails for all that lies past the tile loop's end (`overrun.py`).
    """

    copy: Copy
    bytes: int
    elements: int
    conditions: tuple[str, ...]
    past_end: int | None


@dataclass(frozen=True, eq=False)
class Wide(Widened):
    """A copy whose loop keeps its form.

    `loop` is the copy loop; `index` the variable that numbers the tile's elements (its counter, or a local that
    `declared` spans the initialiser of); `count` the number of elements, `threads` of threads that share them.
    """

    loop: Statement
    index: Symbol
    declared: Span | None
    count: int
    threads: int


@dataclass(frozen=True)
class Narrow:
    """A copy that stays as it is, and why."""

    copy: Copy
    reason: str


def constants_wanted(found: Study) -> tuple[Ask, ...]:
    """Questions for the compile-time constants that the copies' index expressions may name."""
    offsets = {a.key.split(":", 1)[1]: a.offset for a in found.asks if a.key.startswith("size:")}
    copies = [
        c for c in found.copies if isinstance(c, Copy) and str(c.use.item.statement.span.start) in offsets
    ]
    asks: dict[str, Ask] = {}
    own = [c for c in copies if not c.use.item.statement.context]
    for name in maybe_constants(found, body_node(found)) if own else ():
        offset = offsets[str(own[0].use.item.statement.span.start)]
        asks[f"const:{name}"] = Ask(f"const:{name}", "value", name, offset)
    for copy in copies:
        base = copy.target.split("[")[0]
        for rank in range(copy.target.count("[") if base.isidentifier() else 0):
            key = f"extent:{copy.use.buffer.name}:{rank}"
            offset = offsets[str(copy.use.item.statement.span.start)]
            asks.setdefault(key, Ask(key, "value", f"sizeof({base}{'[0]' * rank}[0])", offset))
    return (*asks.values(), *_type_asks(found, copies, offsets))


def _type_asks(found: Study, copies: Iterable[Copy], offsets: Mapping[str, int]) -> Iterator[Ask]:
    """Questions for the types of the kernel's variables and casts, and of those of helpers that copy."""
    declared = [s for st in found.analysed.body.walk() for s in st.declares]
    within: dict[str, tuple[int, Node | None]] = {}
    places = [a.offset for a in found.asks if a.key.startswith("array:")]
    for copy in copies:
        at = str(copy.use.item.statement.span.start)
        if copy.use.item.statement.context:
            within[at] = offsets[at], helper_of(found, int(at))
        else:
            places.append(offsets[at])
    if places:
        within[""] = places[0], body_node(found)
    for scope, (offset, root) in within.items():
        mine = [s for s in declared if bool(s.key[1]) == bool(scope)]
        for text in spelled_types(root, mine if scope else (*mine, *found.analysed.parameters)):
            yield Ask(f"spelled:{scope}:{text}", "type", asked_type(text), offset)


def helper_of(found: Study, at: int) -> Node | None:
    """The body of the helper or lambda that an offset stands in."""
    node = found.file.tree.root.named_descendant_for_byte_range(at, at)
    while node is not None and node.type not in ("function_definition", "lambda_expression"):
        node = node.parent
    return node.child_by_field_name("body") if node is not None else None


def body_node(found: Study) -> Node | None:
    """The kernel's body."""
    body = found.analysed.body.span
    return found.file.tree.root.named_descendant_for_byte_range(body.start, body.end)


@lru_cache(maxsize=16)  # each kind of copy asks for its own
def maybe_constants(found: Study, root: Node | None) -> list[str]:
    """Names below `root` that are neither the kernel's parameters nor its variables: macros, constants, template
    arguments."""
    variables = {s.name for st in found.analysed.body.walk() for s in st.declares if not s.const}
    taken = variables | varying_names(found.file, found.analysed) | {*_CASTS, *found.file.functions}
    mentioned = _mentioned(root) if root is not None else ()
    wanted = [(name, node) for name, node in mentioned if name not in taken and not name.startswith("__")]
    return sorted({name for name, _ in wanted} - _otherwise_meant(found, root, wanted))


def _otherwise_meant(found: Study, root: Node | None, wanted: list[tuple[str, Node]]) -> set[str]:
    """Names that mean another thing where they stand than at the loop, where the compiler is asked."""
    loop = found.tile.loop.span.start
    place = found.file.tree.root.named_descendant_for_byte_range(loop, loop + 1)
    if place is None or root != body_node(found):
        return set()
    known = meanings(found.file)
    return {name for name, node in wanted if not known.same(re.findall(r"[A-Za-z_]\w*", name), node, place)}


def _mentioned(root: Node) -> tuple[tuple[str, Node], ...]:
    """Names below `root` that are not those of what is called, and where they stand."""
    found: list[tuple[str, Node]] = []
    stack = [root]
    while stack:
        node = stack.pop()
        called = node.parent is not None and node.parent.child_by_field_name("function") == node
        if node.type in ("identifier", "qualified_identifier") and node.text and not called:
            found.append((node.text.decode(), node))
        stack.extend(node.named_children)
    return tuple(found)


def widen(model: KernelModel, answers: Answers) -> tuple[Wide | Narrow, ...]:
    """For every plain copy, the widest legal form, or why it stays narrow."""
    prover = _Prover(model, answers)
    return tuple(prover.prove(c) for c in model.copies if isinstance(c, Copy))


def covered(model: KernelModel, proved: Iterable[Widened]) -> frozenset[Symbol]:
    """The staged tiles all of whose copies may be widened."""
    wide = {id(w.copy) for w in proved}
    found = {b.piece: [c for c in model.copies if c.use.buffer == b.piece] for b in model.buffers}
    return frozenset(
        piece for piece, copies in found.items() if copies and all(id(c) in wide for c in copies)
    )


def one_fill(copy: Copy, macros: Mapping[str, Macro]) -> bool:
    """Whether what is stored outside of the guard is one value for all: it names no variable but parameters."""
    words = set(re.findall(r"[A-Za-z_]\w*", copy.fill or ""))
    for _ in range(DEPTH):
        words |= {w for name in words & macros.keys() for w in re.findall(r"[A-Za-z_]\w*", macros[name].body)}
    named = [s for s in copy.uses if s.name in words]
    return "threadIdx" not in words and all(s.kind == "param" and not s.pointer for s in named)


class _Prover:
    """Proves or gives up, one copy at a time."""

    def __init__(self, model: KernelModel, answers: Answers) -> None:
        self.model = model
        self.answers = answers
        self.names = Resolver(model, answers)
        self.domains = Domains(self.names)
        self._needs: dict[str, None] = {}  # ordered set of run-time conditions

    def prove(self, copy: Copy) -> Wide | Narrow:
        size = self.model.answers.get(f"size:{copy.use.item.statement.span.start}")
        at = copy.use.item.statement.span.start
        target, source = (self.model.answers.get(f"{kind}:{at}") for kind in ("type", "source"))
        if target is None or target != source:
            return Narrow(copy, f"the copy converts {source} to {target}")
        if acting := acting_class(self.model.file, copy, self.model.answers):
            return Narrow(copy, f"copying a `{acting}` runs code of its own")
        arrays = (copy.use.buffer, copy.root)
        if any(a is not None and "volatile" in self.model.file.source.slice(a.decl) for a in arrays):
            return Narrow(copy, "it is volatile")
        if not isinstance(size, int) or size >= WIDEST:
            return Narrow(copy, FULL_WIDTH)
        reason = ""
        for bytes_ in (16, 8, 4):
            if bytes_ <= size or bytes_ % size:
                continue
            try:
                return self._attempt(copy, size, bytes_)
            except NotProvedError as failed:
                reason = reason or str(failed)
        return Narrow(copy, reason or "nothing wider is possible")

    def _attempt(self, copy: Copy, size: int, bytes_: int) -> Wide:
        self._needs = {}
        width = bytes_ // size
        if not one_fill(copy, self.model.file.macros):
            raise NotProvedError("what is stored outside of the guard differs between elements")
        domain = self.domains.of(copy)
        if domain.count % width:
            raise NotProvedError(f"{domain.count} elements are no multiple of {width}")
        shared = self._shared(copy, domain, size)
        self._consecutive(shared, width, domain.count, "shared")
        places = np.broadcast_to(shared.constant if shared.constant is not None else 0, (domain.count,))
        if len(np.unique(places)) != domain.count:
            raise NotProvedError("two elements go to one place of the tile")
        self._divisible(self._starts(shared, width, domain.count), width, "the shared address", copy.uses)
        buffer = next(b for b in self.model.buffers if b.piece == copy.use.buffer)
        if start := asked_of_start(self.model, buffer, copy.use.buffer.name, bytes_):
            self._needs[start] = None
        root, index = self._global(copy, domain, width)
        self._consecutive(index, width, domain.count, "global")
        self._divisible(self._starts(index, width, domain.count), width, "the global address", copy.uses)
        self._needs[f"tp_aligned({root}, {bytes_})"] = None
        comparisons = self._atoms(self.names.expression(copy.guard)) if copy.guard is not None else []
        for comparison in comparisons:
            self._uniform(*comparison, copy, domain, width)
        ends = (
            past_end(self.model, sign, self._form(left, copy, domain), self._form(right, copy, domain))
            for sign, left, right in comparisons
        )
        return Wide(
            copy, bytes_, width, (*domain.conditions, *self._needs), next((e for e in ends if e is not None), None),
            domain.loop, domain.index, domain.declared, domain.count, domain.threads,
        )  # fmt: skip

    # -- addresses -----------------------------------------------------------------------------------------------

    def _shared(self, copy: Copy, domain: Domain, size: int) -> Form:
        """The shared element that each element of the copy goes to, counted from the array's start."""
        node = self.names.expression(copy.target)
        indices: list[Node] = []
        while node.type == "subscript_expression":
            listed = node.child_by_field_name("indices")
            if listed is None or len(listed.named_children) != 1:
                raise NotProvedError("the shared index is not understood")
            indices.insert(0, listed.named_children[0])
            node = node.child_by_field_name("argument") or node
        if node.type != "identifier" or not indices or self.names.text(node) != copy.use.buffer.name:
            raise NotProvedError("the shared address is not an array element")
        total = number(0)
        for rank, index in enumerate(indices):
            extent = self.answers.get(f"extent:{copy.use.buffer.name}:{rank}")
            if not isinstance(extent, int) or extent % size:
                raise NotProvedError("the shared array's extents are not known")
            total = total + number(extent // size) * self._form(index, copy, domain)
        if total.constant is None:
            raise NotProvedError("the shared address depends on what the launch decides")
        return total

    def _global(self, copy: Copy, domain: Domain, width: int) -> tuple[str, Form]:
        """The pointer that the copy reads through and the element's distance from it."""
        node = self.names.expression(copy.source)
        listed = node.child_by_field_name("indices") if node.type == "subscript_expression" else None
        base = node.child_by_field_name("argument")
        if listed is None or base is None or base.type != "identifier":
            raise NotProvedError("the global address is not an element of a named pointer")
        name = self.names.text(base)
        pointer = next((s for s in copy.uses if s.name == name and s.pointer), None)
        if pointer is None or self.names.hidden(pointer):
            raise NotProvedError(f"`{name}` is not a pointer of the kernel")
        if pointer in self.model.split.carried:
            for step in self.names.steps_of(pointer) or self._give_up("the pointer's step is not understood"):
                self._divisible(step.terms, width, "the pointer's step", copy.uses)
        elif self.model.tile.flow.definers[pointer]:
            raise NotProvedError(f"`{name}` is set anew for each tile")
        return name, self._form(listed.named_children[0], copy, domain)

    def _give_up(self, why: str) -> list[Form]:
        raise NotProvedError(why)

    def _form(self, node: Node, copy: Copy, domain: Domain) -> Form:
        form = self.names.form(
            node,
            lambda name, _: self.names.named(name, copy.uses, domain.index, domain.count, 0),
        )
        if form is None:
            raise NotProvedError(f"`{self.names.text(node)}` is not affine")
        return form

    # -- the three conditions ------------------------------------------------------------------------------------

    def _consecutive(self, form: Form, width: int, count: int, which: str) -> None:
        tables = form.of_groups(width, count)
        good = ONE in tables
        for monomial, table in tables.items():
            step = np.arange(width) if monomial == ONE else np.zeros(width, np.int64)
            good = good and np.array_equal(table, table[:, :1] + step)
        if not good:
            raise NotProvedError(f"neighbours are not consecutive in {which} memory")

    def _starts(self, form: Form, width: int, count: int) -> dict[Monomial, Vector]:
        return {m: table[:, 0] for m, table in form.of_groups(width, count).items()}

    def _divisible(self, terms: Mapping[Monomial, Vector], width: int, what: str, uses: Symbols) -> None:
        """Every term a multiple of `width`: by its coefficient, or by a size that a condition makes one."""
        for monomial, vector in terms.items():
            if np.any(vector % width) and not self._factor(monomial, width, uses):
                raise NotProvedError(f"{what} is not known to be a multiple of {width} elements")

    def _factor(self, monomial: Monomial, width: int, uses: Symbols) -> bool:
        for name in monomial:
            state = next((s for s in self.model.split.carried if s.name == name), None)
            if state is not None and self._state_divisible(state, width):
                return True
        for parameter in self.model.analysed.parameters:
            if parameter.name in monomial and self.names.fixed(parameter):
                self._needs[f"{parameter.name} % {width} == 0"] = None
                return True
        return False

    def _state_divisible(self, state: Symbol, width: int) -> bool:
        """Whether a loop variable is a multiple of `width` in every iteration: its start and all its steps are."""
        start, steps = self.names.start_of(state), self.names.steps_of(state)
        if start is None or not steps:
            return False
        try:
            for form in (start, *steps):
                self._divisible(form.terms, width, "a step", frozenset())
        except NotProvedError:
            return False
        return True

    def _atoms(self, node: Node) -> list[tuple[str, Node, Node]]:
        """The comparisons of a conjunction, by sign, left and right side."""
        if node.type == "parenthesized_expression" and node.named_children:
            return self._atoms(node.named_children[0])
        operator = node.child_by_field_name("operator")
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if node.type != "binary_expression" or operator is None or left is None or right is None:
            raise NotProvedError("the guard is not a conjunction of comparisons")
        if operator.type == "&&":
            return [*self._atoms(left), *self._atoms(right)]
        if operator.type not in ("<", ">", "<=", ">="):
            raise NotProvedError("the guard is not a conjunction of comparisons")
        return [(operator.type, left, right)]

    def _uniform(self, sign: str, left: Node, right: Node, copy: Copy, domain: Domain, width: int) -> None:
        """The comparison has one answer for every group: it does not see the position within, or both sides are
        multiples of the width there (a < b then means a + width <= b)."""
        self._unwrapped(left, right, copy, domain, width)
        low, high = (self._form(side, copy, domain) for side in (left, right))
        # a < b and a >= b ask whether a - b is negative; a > b and a <= b whether b - a is.
        difference = low - high if sign in ("<", ">=") else high - low
        tables = difference.of_groups(width, domain.count)
        moving = [m for m, t in tables.items() if not np.array_equal(t, np.broadcast_to(t[:, :1], t.shape))]
        if not moving:
            return
        if moving != [ONE] or not np.array_equal(tables[ONE], tables[ONE][:, :1] + np.arange(width)):
            raise NotProvedError("the guard may change within a group")
        self._divisible(self._starts(difference, width, domain.count), width, "the guard's edge", copy.uses)

    def _unwrapped(self, left: Node, right: Node, copy: Copy, domain: Domain, width: int) -> None:
        """No part of a comparison in unsigned arithmetic passes zero within a group."""
        names = self.names
        reading = Reading[tuple[Node, Symbols]](
            node=lambda at: at[0],
            beside=lambda at, node: (node, at[1]),
            cast=lambda at, text: names.types.named(text),
            variable=lambda at, name: names.type_of(name, at[1]),
            defined=lambda at, name: names.followed(name, at[1], domain.index),
        )
        for node, uses in reading.unsigned_parts([(side, copy.uses) for side in (left, right)]):
            form = names.form(
                node,
                lambda name, _, uses=uses: names.named(name, uses, domain.index, domain.count, 0),  # type: ignore[misc]
            )
            if form is None:
                raise NotProvedError(f"`{names.text(node)}` is not affine")
            if rises(form.of_groups(width, domain.count)):
                starts = self._starts(form, width, domain.count)
                self._divisible(starts, width, "the guard's edge", copy.uses)
