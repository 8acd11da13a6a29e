"""Elements that are stored to twice in one load of a tile: then the last store counts, and asynchronous copies have no
order.

Every store of the load phase is a map from (thread, iteration) to a place (`copymap.py`). Where its index is made of
thread coordinates, loop counters and constants alone, the map is enumerated; run-time terms count as equal where their
coefficients are. Two stores in different arms of one branch do not meet where one evaluation of it decides. A loop with
an unknown bound is followed for some turns, and only places that one thread meets again there count. What cannot be
enumerated is taken to be free of such places, as its author wrote it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from tilepipe.diagnostics import Refusal, refusal
from tilepipe.kernel.affine import ONE, Form, Monomial, Vector
from tilepipe.kernel.begins import start_of
from tilepipe.kernel.copies import Copy
from tilepipe.kernel.copymap import Block, Counter, counters_of, grid_of
from tilepipe.kernel.flow import is_divergent
from tilepipe.kernel.grid import Grid
from tilepipe.kernel.macros import Macro, expand
from tilepipe.kernel.mapforms import Forms
from tilepipe.kernel.model import Answers, Buffer, KernelModel
from tilepipe.kernel.names import arguments_of, callee
from tilepipe.kernel.resolve import NotProvedError
from tilepipe.kernel.scopes import Scope, Scopes, Value
from tilepipe.kernel.spread import blocks
from tilepipe.kernel.spreader import Spreader
from tilepipe.kernel.statements import Statement
from tilepipe.kernel.symbols import Symbol, declarators
from tilepipe.kernel.tileloop import StoreUse

_TURNS = 32  # of a loop whose bound is not known
TWICE = "some of its elements are stored to twice in one load, and the last store counts"


@dataclass(frozen=True, eq=False)
class _Stored:
    """Where one store puts its elements: `places` are byte addresses of (thread, iteration), by run-time term, counted
    from `base`; `bytes` are those of an element, `threads` and `turns` say who stores it, and when."""

    use: StoreUse
    buffer: Buffer
    base: str
    places: dict[Monomial, Vector]
    bytes: int
    threads: Vector
    turns: dict[int, Vector]  # by id of the loop statement
    open: frozenset[int] = frozenset()  # the loops whose bounds are not known

    @property
    def count(self) -> int:
        return len(self.threads)


class _Named(Forms):
    """Forms that see through helpers which only return a value."""

    def _call(self, value: Value, depth: int) -> Form:
        try:
            return super()._call(value, depth)
        except NotProvedError:
            helper = _returned(self.scopes.model, callee(value.node), value.scope)
            if helper is None or depth > _TURNS:
                raise
            arguments = [self._text(a) for a in arguments_of(value.node)]
            return self.form(self.expanded(value, expand(helper, arguments)), depth + 1)


class _Enumerated(Spreader):
    """The places of one store, for one shape of the block."""

    def _forms(self, grid: Grid, counters: dict[Symbol, tuple[Value, int]]) -> Forms:
        known = super()._forms(grid, counters)
        return _Named(known.scopes, known.at, grid, known.constants, known.types, counters)

    def _bounded(self, forms: Forms, counter: Counter) -> bool:
        try:
            forms.most(counter.bound)
        except NotProvedError:
            return False
        return True

    def stored(self) -> _Stored:
        counters, axes = counters_of(
            self.nest, self.scopes, self._forms, self.block, self.scope, unbounded=_TURNS
        )
        grid = grid_of(axes, self.block)
        steps = {c.symbol: (c.start, c.step) for c in counters}
        pointers = self._pointers(self._forms(grid, steps))
        (place, *others) = pointers.forms.cases(lambda: pointers.lvalue(self._value(self.copy.target)))
        if others:
            raise NotProvedError("the place is chosen among several")
        bounded = [c for c in counters if self._bounded(pointers.forms, c)]
        live = self._live(pointers.forms, bounded) & ~self._excluded(pointers.forms)
        offset = start_of(self.model, self.buffer, place.root) if place.root else 0
        terms = {m: np.broadcast_to(v, live.shape)[live] for m, v in place.distance.terms.items()}
        terms[ONE] = terms.get(ONE, np.zeros(int(live.sum()), np.int64)) + (offset or 0)
        x, y, z = (np.broadcast_to(t, live.shape)[live] for t in grid.threads)
        turns = {id(c.loop): np.broadcast_to(grid.turns[c.symbol], live.shape)[live] for c in counters}
        return _Stored(
            self.copy.use,
            self.buffer,
            "" if offset is not None else place.root,
            {m: v for m, v in terms.items() if m == ONE or np.any(v)},
            place.unit,
            x + self.block[0] * (y + self.block[1] * z),
            turns,
            frozenset(id(c.loop) for c in counters if c not in bounded),
        )


def _returned(model: KernelModel, name: str, scope: Scope) -> Macro | None:
    """A helper of the file that only returns an expression of its parameters, as a macro."""
    function = model.file.functions.get(name)
    if function is None or function.foreign or function.overloads or scope.symbol(name) is not None:
        return None
    names = [d[0].name for p in function.parameters if (d := declarators(p))]
    statements = [s for s in function.body.named_children if s.type != "comment"]
    if len(names) != len(function.parameters) or len(statements) != 1 or not statements[0].named_children:
        return None
    if statements[0].type != "return_statement":
        return None
    text = (statements[0].named_children[0].text or b"").decode()
    strange = set(re.findall(r"[A-Za-z_]\w*", text)) - set(names)
    if any(scope.symbol(word) is not None for word in strange):
        return None  # it means another thing there
    return Macro(name, tuple(names), f"({text})")


def settled(model: KernelModel, answers: Answers, launched: Block | None) -> KernelModel | Refusal:
    """The model, with no asynchronous copies into tiles that have elements stored to twice; TP012 where two tiles share
    such an element."""
    block, certain = _block(model, answers, launched)
    if block is None:
        return model
    scopes = Scopes(model)
    found = list(_enumerated(model, answers, scopes, block))
    twice = {s.buffer.piece for s in found if _meets_itself(s, certain)}
    for one, other in combinations(found, 2):
        if (one.buffer.array, one.base) != (other.buffer.array, other.base):
            continue
        if _meet(one, other, _branch(one.use, other.use), scopes, certain):
            if one.buffer.piece != other.buffer.piece:
                return _shared(model, one, other)
            twice.add(one.buffer.piece)
    changed = (replace(b, copy_bytes=None, reason=TWICE) if b.piece in twice else b for b in model.buffers)
    return replace(model, buffers=tuple(changed)) if twice else model


def _block(model: KernelModel, answers: Answers, launched: Block | None) -> tuple[Block | None, bool]:
    """The shape of a block, and whether it is more than a guess."""
    shapes = blocks(model, answers, launched)
    stated = model.max_threads is not None and "threadIdx.y" not in model.file.source.slice(model.kernel.span)
    return (shapes[0], launched is not None or stated) if shapes else (None, False)


def _enumerated(model: KernelModel, answers: Answers, scopes: Scopes, block: Block) -> Iterator[_Stored]:
    """The stores of the load phase whose places can be enumerated."""
    staged = {b.piece for b in model.buffers}
    for use in model.tile.stores:
        store, item = use.store, use.item
        if use.buffer not in staged or use.kind == "compute" or store is None or store.in_macro:
            continue
        text = model.file.source.slice(store.left)
        alone = Copy(use, text, "", None, item.own.uses, None, item.statement, item)
        try:
            yield _Enumerated(model, answers, scopes, alone, block).stored()
        except NotProvedError:
            continue


# -- where two elements meet -------------------------------------------------------------------------------------


def _cells(stores: Iterable[_Stored], certain: bool) -> list[tuple[Vector, Vector]]:
    """For each store the numbers of the places that it touches, equal for equal places, and the elements that do. What
    is `certain` are the threads of a block: where they are guessed, places of different threads are different."""
    stores = list(stores)
    unit = int(np.gcd.reduce(np.concatenate([[s.bytes, *s.places[ONE]] for s in stores])))
    monomials = sorted({m for s in stores for m in s.places} - {ONE})
    rows, elements = [], []
    for s in stores:
        per = s.bytes // unit
        of = np.repeat(np.arange(s.count), per)
        first = s.places[ONE][of] // unit + np.tile(np.arange(per), s.count)
        others = [s.places.get(m, np.zeros(s.count, np.int64))[of] for m in monomials]
        rows.append(np.stack([first, *others, *([] if certain else [s.threads[of]])], axis=1))
        elements.append(of)
    _, numbers = np.unique(np.concatenate(rows), axis=0, return_inverse=True)
    parts = np.split(numbers.reshape(-1), np.cumsum([len(r) for r in rows])[:-1])
    return list(zip(parts, elements, strict=True))


def _meets_itself(stored: _Stored, certain: bool) -> bool:
    """Whether a store puts two elements to one place: in one turn of the loops that are open, or one thread in several
    turns of one of them."""
    ((cells, of),) = _cells([stored], certain)
    keys = [np.stack([cells, *(stored.turns[loop][of] for loop in stored.open)], axis=1)]
    ((cells, of),) = _cells([stored], certain=False)
    for loop in stored.open:
        beside = (turns[of] for other, turns in stored.turns.items() if other != loop)
        keys.append(np.stack([cells, *beside], axis=1))
    return any(len(np.unique(k, axis=0)) != len(k) for k in keys)


def _meet(one: _Stored, other: _Stored, branch: Statement | None, scopes: Scopes, certain: bool) -> bool:
    """Whether two stores put an element to one place, in one load and not by the choice of the branch between them."""
    first = [_at_first(s) for s in (one, other)]
    (a, of_a), (b, of_b) = _cells(first, certain and not (one.open or other.open))
    one, other = first
    _, in_a, in_b = np.intersect1d(a, b, return_indices=True)
    met = np.ones(len(in_a), np.bool_)
    if branch is not None:
        i, j = of_a[in_a], of_b[in_b]
        alike = np.ones(len(in_a), np.bool_)
        if is_divergent(branch, scopes.divergent):
            alike &= one.threads[i] == other.threads[j]
        around = {id(p) for p in one.use.item.parents[: one.use.item.parents.index(branch)]}
        for loop in around & one.turns.keys() & other.turns.keys():
            alike &= one.turns[loop][i] == other.turns[loop][j]
        met &= ~alike
    return bool(met.any())


def _at_first(stored: _Stored) -> _Stored:
    """What a store does in the first turns of the loops whose bounds are not known."""
    if not stored.open:
        return stored
    mask = np.all([stored.turns[loop] == 0 for loop in stored.open], axis=0)
    return replace(
        stored,
        places={m: v[mask] for m, v in stored.places.items()},
        threads=stored.threads[mask],
        turns={loop: v[mask] for loop, v in stored.turns.items()},
    )


def _branch(one: StoreUse, other: StoreUse) -> Statement | None:
    """The branch that sends two stores different ways, None where they may both be made."""
    first, second = ((*u.item.parents, u.item.statement) for u in (one, other))
    for n, (a, b) in enumerate(zip(first, second, strict=False)):
        if a is not b:
            above = first[n - 1] if n else None
            return above if above is not None and above.kind == "if" else None
    return None


def _shared(model: KernelModel, one: _Stored, other: _Stored) -> Refusal:
    line = model.file.source.line_of(one.use.item.statement.span.start)
    array = one.buffer.array.name
    return refusal(
        "TP012",
        f"`{one.buffer.name}` and `{other.buffer.name}` are filled as two tiles, and share elements of `{array}`",
        model.file.source.place(other.use.item.statement.span),
        f"stored here; at line {line} before",
        "store every element once, or name all of the tile by one pointer",
    )
