"""The elements of a copy loop, numbered, and the threads that share them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tree_sitter import Node

from tilepipe.kernel.affine import ONE, Form, elements, symbol
from tilepipe.kernel.copies import Copy
from tilepipe.kernel.resolve import DEPTH, NotProvedError, Resolver, Symbols
from tilepipe.kernel.statements import Statement
from tilepipe.kernel.symbols import Symbol
from tilepipe.kernel.trips import Trips
from tilepipe.source import Span
from tilepipe.source.parse import span


@dataclass(frozen=True, eq=False)
class Domain:
    """The elements of a copy: numbered 0 … count − 1 by `index`, dealt to `threads` threads in turn."""

    loop: Statement
    index: Symbol
    declared: Span | None
    count: int
    threads: int
    conditions: tuple[str, ...]


class Domains:
    """Recognises how a copy loop deals its elements to the threads of a block."""

    def __init__(self, names: Resolver) -> None:
        self.names = names
        self.model = names.model

    def of(self, copy: Copy) -> Domain:
        item = copy.use.item
        loops = [p for p in item.parents if p.is_loop]
        if len(loops) != 1 or item.statement.context:
            raise NotProvedError("the copy is not in one loop of the kernel's own text")
        trips = self.model.trips.get(id(loops[0]))
        if trips is None:
            raise NotProvedError("the copy loop's trip count is not known")
        decided = list(copy.replaces.walk())
        if any(p.kind == "if" and p not in decided for p in item.parents):
            raise NotProvedError("the copy stands under a condition")
        if changed := self._changed(loops[0], copy.uses):
            raise NotProvedError(f"the copy's loop changes `{changed[0].name}` from turn to turn")
        return self._by_local(loops[0], trips) if trips.simple else self._by_stride(loops[0], trips)

    def _changed(self, loop: Statement, uses: Symbols) -> list[Symbol]:
        """What the loop of a copy changes that the copy, the next tile or another statement uses: fewer turns would
        leave it with other values."""
        inside = {id(s): s for s in loop.walk()}
        changed = {s for st in inside.values() for s in st.own.defs}
        changed -= {s for st in inside.values() for s in st.declares}
        used = {s for i in self.names.flow.items if id(i.statement) not in inside for s in i.own.uses}
        return sorted(changed & (used | uses | self.model.split.carried), key=lambda s: s.key)

    def _by_stride(self, loop: Statement, trips: Trips) -> Domain:
        """`for (i = t; i < N; i += T)` with t the number of the thread and T their count."""
        at = loop.span.start
        bound, step = self.model.answers.get(f"bound:{at}"), self.model.answers.get(f"step:{at}")
        known = isinstance(bound, int) and isinstance(step, int) and not trips.loop.inclusive
        if not known or loop.start is None or loop.counter is None:
            raise NotProvedError("the copy loop's bounds are not constant")
        threads = self._threads(self.names.node(loop.start), loop.own.uses, int(step))  # type: ignore[arg-type]
        return Domain(loop, loop.counter, None, int(bound), int(step), threads)  # type: ignore[arg-type]

    def _by_local(self, loop: Statement, trips: Trips) -> Domain:
        """`for (s = 0; s < S; ++s) { e = t + s * T; … }` where the copy knows s and t through e alone."""
        for statement in loop.children[0].walk():
            if statement.kind != "declaration":
                continue
            for declared in statement.declares:
                value = self.names.value(statement, declared.name)
                found = self._linear(value, statement, trips) if value is not None else None
                if found is not None and value is not None:
                    stride, conditions = found
                    return Domain(loop, declared, span(value), stride * trips.count, stride, conditions)
        raise NotProvedError("no variable numbers the elements of the tile")

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
            return self.names.constant(name)

        form = self.names.form(value, lookup)
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
            raise NotProvedError("the number of the thread in its block is not recognised")
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
            defined = self.names.defined(name, uses) if depth < DEPTH else None
            if defined is None:
                return self.names.constant(name)
            if not all(self.names.types.keeps(s) for s in uses if s.name == name):
                return None
            return self._thread_form(defined[1], defined[0].own.uses, depth + 1)

        return self.names.form(node, lookup)
