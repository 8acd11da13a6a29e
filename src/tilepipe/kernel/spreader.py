"""Proves for one copy, and one shape of the block, that its elements may be dealt to the threads anew.

What is proved, and of what, is in `spread.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tilepipe.kernel.acting import acting_class
from tilepipe.kernel.affine import ONE, Form
from tilepipe.kernel.begins import asked_of_start
from tilepipe.kernel.copies import Copy
from tilepipe.kernel.copymap import Axis, Block, Counter, asked, counters_of, grid_of, nest_of, ordered
from tilepipe.kernel.edges import Edge, edge
from tilepipe.kernel.grid import Grid
from tilepipe.kernel.integers import Types
from tilepipe.kernel.mapforms import Forms
from tilepipe.kernel.model import Answers, KernelModel
from tilepipe.kernel.multiples import Multiples
from tilepipe.kernel.pointers import Place, Pointers
from tilepipe.kernel.redeclared import Redeclared, Redeclares
from tilepipe.kernel.resolve import NotProvedError, Resolver
from tilepipe.kernel.rising import rising
from tilepipe.kernel.scopes import Scope, Scopes, Value
from tilepipe.kernel.sizes import SIZES
from tilepipe.kernel.statements import Statement
from tilepipe.kernel.symbols import Symbol
from tilepipe.kernel.tileend import first_end
from tilepipe.kernel.widen import FULL_WIDTH, WIDEST, Widened, one_fill

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Spread(Widened):
    """A copy whose elements are dealt to the threads anew.

    `nest` is the statement that the new copy stands in the place of, `block` the threads of a block, `count` the
    elements. `axes` number them, the first fastest. `redeclared` are the names that a thread must evaluate anew,
    `whens` the conditions under which a group is copied at all, and `addresses` the shared bytes that are written.
    `edges` are the comparisons of the guard that hold for the first elements of a group and then for none.
    """

    nest: Statement
    block: Block
    count: int
    axes: tuple[Axis, ...]
    redeclared: Redeclared
    whens: tuple[str, ...]
    addresses: frozenset[int]
    edges: tuple[Edge, ...] = ()


class Spreader:
    """One copy, for one shape of the block."""

    def __init__(
        self, model: KernelModel, answers: Answers, scopes: Scopes, copy: Copy, block: Block
    ) -> None:
        self.model = model
        self.answers = answers
        self.scopes = scopes
        self.copy = copy
        self.block = block
        self.names = Resolver(model, answers)
        self.at = copy.use.item.statement.span.start
        self.item = scopes.item(copy.use.item.statement)
        self.multiples = Multiples(model, self.names, self.item)
        self.scope = scopes.scope(self.item, copy.uses)
        self.buffer = next(b for b in model.buffers if b.piece == copy.use.buffer)
        self.nest = nest_of(copy, scopes)
        self.whens = self._whens()

    def widest(self) -> Spread:
        size = self.answers.get(f"size:{self.at}")
        target, source = (self.answers.get(f"{kind}:{self.at}") for kind in ("type", "source"))
        if target is None or target != source:
            raise NotProvedError(f"the copy converts {source} to {target}")
        if acting := acting_class(self.model.file, self.copy, self.answers):
            raise NotProvedError(f"copying a `{acting}` runs code of its own")
        if not isinstance(size, int) or size >= WIDEST:
            raise NotProvedError(FULL_WIDTH)
        if any(a is not None and self._volatile(a) for a in (self.copy.use.buffer, self.copy.root)):
            raise NotProvedError("it is volatile")
        self._undisturbed()
        if not one_fill(self.copy, self.model.file.macros):
            raise NotProvedError("what is stored outside of the guard differs between elements")
        reason = ""
        for bytes_ in (16, 8, 4):
            if bytes_ <= size or bytes_ % size:
                continue
            try:
                return self._attempt(size, bytes_)
            except NotProvedError as failed:
                reason = reason or str(failed)
        raise NotProvedError(reason or "nothing wider is possible")

    def _volatile(self, array: Symbol) -> bool:
        return "volatile" in self.model.file.source.slice(array.decl)

    def _undisturbed(self) -> None:
        """Nothing but copies writes to the tile while it is loaded."""
        copies = {id(c.use.item) for c in self.model.copies}
        merged = {
            id(s) for c in self.model.copies if isinstance(c, Copy) for s in c.replaces.walk()
        }  # an `else` that stores zero goes with its copy
        for store in self.model.tile.stores:
            if store.buffer != self.copy.use.buffer or store.kind == "compute":
                continue
            if id(store.item) not in copies and id(store.item.statement) not in merged:
                raise NotProvedError("something else is stored to the tile while it is loaded")
        if self.copy.source_at is not self.copy.use.item:
            there = self.scopes.item(self.copy.source_at.statement)
            if self.scopes.scope(there, self.copy.uses).calls != self.scope.calls:
                raise NotProvedError("the load and the store are not in one function")

    def _whens(self) -> list[tuple[Value, str]]:
        found = []
        for branch, negated in self.nest.whens:
            assert branch.condition is not None
            text = self.model.file.source.slice(branch.condition).strip()
            value = Value(
                self.scopes.node(branch.condition), Scope(branch.own.uses, self.scope.calls), self.item
            )
            found.append((value, f"!({text})" if negated else text))
        return found

    # -- the attempt ---------------------------------------------------------------------------------------------

    def _forms(self, grid: Grid, counters: dict[Symbol, tuple[Value, int]]) -> Forms:
        constants: dict[tuple[int, str], int] = {}
        depth = len(self.scope.calls)
        for key, value in self.answers.items():
            kind, _, rest = key.partition(":")
            at, _, name = rest.partition(":")
            if isinstance(value, int) and kind == "const":
                constants[(0, rest)] = value
            elif isinstance(value, int) and kind == "outer":
                constants.setdefault((0, rest), value)
            elif isinstance(value, int) and kind == "named" and at == str(self.at):
                constants[(depth, name)] = value
        return Forms(self.scopes, self.item, grid, constants, Types(self.answers, self.at, depth), counters)

    def _pointers(self, forms: Forms) -> Pointers:
        sizes = dict(SIZES)
        rows: dict[tuple[str, int], int] = {}
        for key, value in self.answers.items():
            kind, _, rest = key.partition(":")
            at, _, type_ = rest.partition(":")
            if kind == "pointee" and isinstance(value, int) and at in ("", str(self.at)):
                sizes[type_] = value
        for rank in range(1, max(self.buffer.piece.rank, 1) + 1):
            known = self.answers.get(f"row:{self.buffer.piece.key[0]}:{rank}")
            if isinstance(known, int):
                rows[(self.buffer.name, rank)] = known
        return Pointers(forms, self.buffer, sizes, rows)

    def _attempt(self, size: int, bytes_: int) -> Spread:
        self.multiples.needs = {}
        width = bytes_ // size
        counters, axes = counters_of(self.nest, self.scopes, self._forms, self.block, self.scope)
        steps = {c.symbol: (c.start, c.step) for c in counters}
        rough = self._pointers(self._forms(grid_of(axes, self.block), steps))
        (place, *others) = rough.forms.cases(lambda: rough.lvalue(self._value(self.copy.target)))
        if others or place.distance.constant is None:
            raise NotProvedError("the shared address depends on what the launch decides")
        axes = ordered(axes, place.distance.constant, rough.forms.grid.count)
        if rough.forms.grid.count % width:
            raise NotProvedError(f"{rough.forms.grid.count} elements are no multiple of {width}")
        grid = grid_of(axes, self.block, width)
        pointers = self._pointers(self._forms(grid, steps))
        masks = self._masks(pointers.forms, counters)
        live = self._live(pointers.forms, counters) & ~self._excluded(pointers.forms)
        groups = live.reshape(-1, width)
        if not np.array_equal(groups, np.broadcast_to(groups[:, :1], groups.shape)):
            raise NotProvedError("a loop ends within a group")
        addresses = self._shared(pointers, live, size, bytes_)
        root = self._global(pointers, live, size, bytes_)
        self.multiples.needs[f"tp_aligned({root}, {bytes_})"] = None
        edges, ends = self._guard(pointers.forms, width)
        for condition, _ in (*masks, *self.whens):
            for sign, left, right in pointers.forms.comparisons(condition):
                self._one_answer(pointers.forms, sign, left, right, width)
        redeclared = self._redeclared(pointers, counters, masks)
        return Spread(
            self.copy, bytes_, width, (asked(self.block), *self.multiples.needs), ends,
            self.nest.top, self.block, grid.count, tuple(axes), redeclared,
            tuple(text for _, text in (*masks, *self.whens)), addresses, edges,
        )  # fmt: skip

    def _value(self, text: str) -> Value:
        """A text of the copy as an expression at its place."""
        return Value(self.names.expression(text), self.scope, self.item)

    def _live(self, forms: Forms, counters: list[Counter]) -> Mask:
        """Which elements are within the bounds of all loops."""
        live = np.ones(forms.grid.count, np.bool_)
        for counter in counters:
            first, end = forms.constant(counter.start), forms.most(counter.bound)
            if np.any(first < 0) or np.any(end < 0):
                raise NotProvedError("a copy loop's bounds are below zero")
            live &= first + counter.step * forms.grid.turns[counter.symbol] < end + counter.inclusive
        return live

    def _excluded(self, forms: Forms) -> Mask:
        """Which elements fail a comparison of numbers that a branch around the copy asks for."""
        fails = np.zeros(forms.grid.count, np.bool_)
        for value, text in self.whens:
            if text.startswith("!"):
                continue
            for sign, left, right in forms.conjunction(value):
                try:
                    low, high = forms.constant(left), forms.constant(right)
                except NotProvedError:
                    continue
                if np.all(low >= 0) and np.all(high >= 0):  # unsigned differences below zero wrap
                    fails |= ~_COMPARED[sign](low, high)
        return fails

    def _masks(self, forms: Forms, counters: list[Counter]) -> list[tuple[Value, str]]:
        """The loop conditions that some element may not meet, which the new form must ask."""
        found = []
        for counter in counters:
            bound = forms.cases(lambda counter=counter: forms.form(counter.bound))  # type: ignore[misc]
            known = len(bound) == 1 and bound[0].constant is not None
            if known and self._live(forms, [counter]).all():
                continue
            assert counter.loop.condition is not None
            node = self.scopes.node(counter.loop.condition)
            value = Value(node, counter.start.scope, counter.start.item)
            found.append((value, self.model.file.source.slice(counter.loop.condition).strip()))
        return found

    def _shared(self, pointers: Pointers, live: Mask, size: int, bytes_: int) -> frozenset[int]:
        """The shared bytes that elements go to, once they are proved consecutive, aligned and different."""
        places = pointers.forms.cases(lambda: pointers.lvalue(self._value(self.copy.target)))
        constant = places[0].distance.constant
        if len(places) != 1 or constant is None:
            raise NotProvedError("the shared address depends on what the launch decides")
        self._consecutive(places[0].distance, live, size, bytes_, "shared")
        self._aligned(places[0], live, pointers.forms, bytes_, "the shared address")
        found = np.broadcast_to(constant, live.shape)[live]
        if not np.all(np.diff(np.sort(found))):
            raise NotProvedError("two elements go to one place of the tile")
        root = places[0].root
        if root and (start := asked_of_start(self.model, self.buffer, root, bytes_)):
            self.multiples.needs[start] = None
        return frozenset(int(a) for a in found)

    def _global(self, pointers: Pointers, live: Mask, size: int, bytes_: int) -> str:
        """The pointer that the copy reads through, once its elements are proved consecutive and aligned."""
        places = pointers.forms.cases(lambda: pointers.lvalue(self._value(self.copy.source)))
        if len({p.root for p in places}) != 1 or not places[0].root:
            raise NotProvedError("the global address starts from several pointers")
        for place in places:
            self._consecutive(place.distance, live, size, bytes_, "global")
            self._aligned(place, live, pointers.forms, bytes_, "the global address")
        for pointer, unit in pointers.walked.items():
            for step in self.multiples.steps(pointer, pointers.forms):
                for monomial, vector in step.terms.items():
                    self.multiples.multiple(
                        monomial, unit * int(vector[0]), bytes_, pointers.forms, "the pointer's step"
                    )
        return places[0].root

    # -- conditions ----------------------------------------------------------------------------------------------

    def _consecutive(self, form: Form, live: Mask, size: int, bytes_: int, which: str) -> None:
        width = bytes_ // size
        good = ONE in form.terms
        for monomial, vector in form.terms.items():
            table = np.broadcast_to(vector, live.shape).reshape(-1, width)[live.reshape(-1, width)[:, 0]]
            step = size * np.arange(width) if monomial == ONE else np.zeros(width, np.int64)
            good = good and np.array_equal(table, table[:, :1] + step)
        if not good:
            raise NotProvedError(f"neighbours are not consecutive in {which} memory")

    def _aligned(self, place: Place, live: Mask, forms: Forms, bytes_: int, what: str) -> None:
        width = forms.grid.width
        starts = {
            m: np.broadcast_to(v, live.shape)[::width][live[::width]] for m, v in place.distance.terms.items()
        }
        for monomial, vector in starts.items():
            self.multiples.multiple(monomial, int(np.gcd.reduce(np.append(vector, 0))), bytes_, forms, what)

    def _one_answer(self, forms: Forms, sign: str, left: Value, right: Value, width: int) -> None:
        """A comparison has one answer for each group: it does not see the position within, or both sides are multiples
        of the width there (a < b then means a + width <= b)."""
        for form in rising(forms, left, right):
            for monomial, table in form.of_groups(width, forms.grid.count).items():
                factor = int(np.gcd.reduce(np.append(table[:, 0], 0)))
                self.multiples.multiple(monomial, factor, width, forms, "the guard's edge")
        for low in forms.cases(lambda: forms.form(left)):
            for high in forms.cases(lambda: forms.form(right)):
                # a < b and a >= b ask whether a - b is negative; a > b and a <= b whether b - a is.
                difference = low - high if sign in ("<", ">=") else high - low
                if forms.grid.uniform(difference):
                    continue
                tables = difference.of_groups(width, forms.grid.count)
                moving = [m for m, t in tables.items() if not forms.grid.same(t.reshape(-1))]
                steps = tables[ONE] - tables[ONE][:, :1] if ONE in tables else np.zeros((1, width))
                by_one = bool(np.all(steps == np.arange(width)))
                if sign in ("==", "!=") or moving != [ONE] or not by_one:
                    raise NotProvedError("the guard may change within a group")
                for monomial, table in tables.items():
                    factor = int(np.gcd.reduce(np.append(table[:, 0], 0)))
                    self.multiples.multiple(monomial, factor, width, forms, "the guard's edge")

    def _guard(self, forms: Forms, width: int) -> tuple[tuple[Edge, ...], int | None]:
        """The comparisons of the guard that may fail within a group, all others proved to have one answer, and what one
        of them says of the elements past the tile loop's end."""
        if self.copy.guard is None:
            return (), None
        guard = self._value(self.copy.guard)
        together = [(left.node, right.node) for _, left, right in forms.conjunction(guard)]
        edges = []
        for sign, left, right in forms.comparisons(guard):
            moving = rising(forms, left, right)
            try:
                self._one_answer(forms, sign, left, right, width)
            except NotProvedError:
                for form in moving:
                    self.multiples.natural(form, forms)
                if self.copy.fill is not None or (left.node, right.node) not in together:
                    raise
                edges.append(edge(forms, sign, left, right))
        return tuple(edges), first_end(self.model, forms, guard)

    # -- names ---------------------------------------------------------------------------------------------------

    def _redeclared(
        self, pointers: Pointers, counters: list[Counter], masks: list[tuple[Value, str]]
    ) -> Redeclared:
        found = Redeclares(self.scopes, pointers, self.item, self.nest.top, counters)
        copy = self.copy
        for text in (copy.target, copy.source, copy.guard, copy.fill, *(t for _, t in (*masks, *self.whens))):
            if text is not None:
                uses = self.scope.uses | {s for st in self.nest.top.walk() for s in st.own.uses}
                value = Value(self.names.expression(text), replace(self.scope, uses=uses), self.item)
                found.visit(value)
        made = found.result()
        inside = list(self.nest.top.walk())
        changed = {s for st in inside for s in st.own.defs} - {s for st in inside for s in st.declares}
        if changed & (made.uses | copy.uses):
            raise NotProvedError("the copy's loop changes what the copy needs")
        return made


_COMPARED = {
    "<": np.less, ">": np.greater, "<=": np.less_equal, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
}  # fmt: skip
