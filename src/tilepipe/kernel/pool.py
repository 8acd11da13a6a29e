"""Which part of a carved pool of dynamic shared memory the tiles take, so that only that part gets stages.

The load phase's stores are bounded by intervals: the number of a thread lies below the block's size, a copy loop's
counter within its bounds, and `+ - * / % << >> &` of bounded values are bounded. A bound may be loose, never short.
What the intervals do not reach leaves the pool as a whole.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tree_sitter import Node

from tilepipe.kernel import surroundings
from tilepipe.kernel.bounds import MOST_THREADS
from tilepipe.kernel.model import KernelModel
from tilepipe.kernel.names import operator_of
from tilepipe.kernel.resolve import DEPTH, NotProvedError, Resolver, Symbols
from tilepipe.kernel.sizes import SIZES
from tilepipe.kernel.statements import Statement
from tilepipe.kernel.symbols import Symbol
from tilepipe.kernel.tileloop import StoreUse

Interval = tuple[int, int]
_MOST = 2**31 - 1  # values beyond are not followed: they may wrap
_ALIGNED = 128  # bytes: stages keep whatever alignment the pool has
_INTEGERS = frozenset(
    ("int", "unsigned", "unsigned int", "size_t", "long", "long long", "uint32_t", "int32_t")
)
_CAST = re.compile(r"(reinterpret|static)_cast\s*<")


def tile_part(model: KernelModel) -> int | None:
    """Bytes from the start of the dynamic shared memory that one stage takes, a multiple of 128; None where it is
    not known, or where anything else of it is in use while the tiles are."""
    arrays = {b.array for b in model.buffers if b.dynamic}
    if len(arrays) != 1 or model.max_threads is None or _used_otherwise(model, next(iter(arrays))):
        return None
    bounds = _Bounds(model, Resolver(model, model.answers), next(iter(arrays)), model.max_threads)
    pieces = {b.piece for b in model.buffers if b.dynamic}
    try:
        end = max(bounds.end(s) for s in model.tile.stores if s.buffer in pieces)
    except NotProvedError:
        return None
    return -(-end // _ALIGNED) * _ALIGNED


def begins(model: KernelModel, pointer: Symbol, array: Symbol) -> int | None:
    """Bytes from the start of a shared array to where a pointer into it points, None where that is no constant."""
    bounds = _Bounds(model, Resolver(model, model.answers), array, model.max_threads or MOST_THREADS)
    try:
        (low, high), _ = bounds.named(pointer.name, frozenset((pointer, array)), 0)
    except NotProvedError:
        return None
    return low if low == high else None


def _used_otherwise(model: KernelModel, pool: Symbol) -> bool:
    """Whether the loop or what runs before it touches the pool in another way than through its tiles."""
    pieces = {b.piece for b in model.buffers}
    inside = [i.own for i in model.tile.flow.items]
    outside = [s.effects() for s in surroundings.before(model.tile)]
    if surroundings.is_repeated(model.tile):
        outside.append(surroundings.after_effects(model.tile))
    touched = [s for e in inside for s in e.shared_reads() | e.shared_writes() if s not in pieces]
    touched += [s for e in outside for s in e.shared_reads() | e.shared_writes()]
    declared = {
        s for st in model.analysed.body.walk() for s in st.declares if s.kind == "shared" and s.extern
    }
    return any(s.decl == pool.decl for s in touched) or len({s.decl for s in declared}) != 1


@dataclass(frozen=True, eq=False)
class _Bounds:
    """Bounds of addresses within the pool, in bytes, and of the integers in them."""

    model: KernelModel
    names: Resolver
    pool: Symbol
    threads: int

    def end(self, use: StoreUse) -> int:
        """The byte behind the last one that a store may write."""
        item = use.item
        size = self.model.answers.get(f"size:{item.statement.span.start}")
        if use.store is None or use.store.in_macro or item.statement.context or not isinstance(size, int):
            raise NotProvedError("a store is not understood")
        low, high = self._lvalue(self.names.node(use.store.left), item.own.uses, item.parents)
        if low < 0:
            raise NotProvedError("a store may lie before the pool")
        return high + size

    # -- addresses -----------------------------------------------------------------------------------------------

    def _lvalue(self, node: Node, uses: Symbols, loops: tuple[Statement, ...]) -> Interval:
        node = _bare(node)
        argument = node.child_by_field_name("argument")
        if node.type == "pointer_expression" and operator_of(node) == "*" and argument is not None:
            return self._pointer(argument, uses, loops, 0)[0]
        if node.type == "subscript_expression":
            return self._element(node, uses, loops, 0)
        raise NotProvedError("a store is not understood")

    def _element(self, node: Node, uses: Symbols, loops: tuple[Statement, ...], depth: int) -> Interval:
        base, listed = node.child_by_field_name("argument"), node.child_by_field_name("indices")
        if base is None or listed is None or len(listed.named_children) != 1:
            raise NotProvedError("a store is not understood")
        at, size = self._pointer(base, uses, loops, depth)
        return self._moved(at, size, self._value(listed.named_children[0], uses, loops, depth))

    def _pointer(
        self, node: Node, uses: Symbols, loops: tuple[Statement, ...], depth: int
    ) -> tuple[Interval, int | None]:
        """Where a pointer may point, and the bytes of what it points to (None: not known)."""
        node = _bare(node)
        argument = node.child_by_field_name("argument")
        if node.type == "identifier":
            return self.named(self.names.text(node), uses, depth)
        cast = _cast_value(node, self.names.text(node))
        if cast is not None:
            return self._pointer(cast, uses, loops, depth)[0], None
        if node.type == "pointer_expression" and operator_of(node) == "&" and argument is not None:
            inner = _bare(argument)
            if inner.type == "subscript_expression":
                base = inner.child_by_field_name("argument") or inner
                return self._element(inner, uses, loops, depth), self._pointer(base, uses, loops, depth)[1]
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if (
            node.type == "binary_expression"
            and operator_of(node) == "+"
            and left is not None
            and right is not None
        ):
            at, size = self._pointer(left, uses, loops, depth)
            return self._moved(at, size, self._value(right, uses, loops, depth)), size
        raise NotProvedError("an address is not understood")

    def _moved(self, at: Interval, size: int | None, by: Interval) -> Interval:
        if size is None:
            raise NotProvedError("the size of an element is not known")
        return at[0] + size * by[0], at[1] + size * by[1]

    def named(self, name: str, uses: Symbols, depth: int) -> tuple[Interval, int | None]:
        """Where the pointer or array of that name points, and the bytes of what it points to (None: not known)."""
        found = next((s for s in uses if s.name == name), None)
        if found is None or depth > DEPTH or self.names.hidden(found):
            raise NotProvedError(f"`{name}` is not understood")
        size = self.model.answers.get(f"pointee:{found.key[0]}")
        known = size if isinstance(size, int) else None
        if found.decl == self.pool.decl and found.name == self.pool.name:
            return (0, 0), known
        defined = self.names.defined(name, uses)
        if defined is None or found in self.model.split.carried:
            raise NotProvedError(f"`{name}` is set in several places")
        item, value = defined
        return self._pointer(value, item.own.uses | {self.pool}, item.parents, depth + 1)[0], known

    # -- integers ------------------------------------------------------------------------------------------------

    def _value(self, node: Node, uses: Symbols, loops: tuple[Statement, ...], depth: int) -> Interval:
        """Between what an integer expression lies; all partial results stay in the range of an int."""
        node = _bare(node)
        text = self.names.text(node)
        found: Interval | None = None
        if node.type == "number_literal":
            digits = text.rstrip("uUlL")
            found = (int(digits), int(digits)) if digits.isdigit() else None
        elif node.type in ("identifier", "field_expression", "qualified_identifier"):
            found = self._integer(text, uses, loops, depth)
        elif node.type == "sizeof_expression":
            size = SIZES.get(text.removeprefix("sizeof").strip(" ()"))
            found = (size, size) if size is not None else None
        elif node.type == "cast_expression":
            value, kind = node.child_by_field_name("value"), node.child_by_field_name("type")
            if value is not None and kind is not None and self.names.text(kind) in _INTEGERS:
                found = self._value(value, uses, loops, depth)
        elif node.type == "binary_expression":
            left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
            if left is not None and right is not None:
                both = (self._value(side, uses, loops, depth) for side in (left, right))
                found = _combined(operator_of(node), *both)
        if found is None or not -_MOST <= found[0] <= found[1] <= _MOST:
            raise NotProvedError(f"`{text}` is not bounded")
        return found

    def _integer(self, name: str, uses: Symbols, loops: tuple[Statement, ...], depth: int) -> Interval | None:
        if name in ("threadIdx.x", "threadIdx.y", "threadIdx.z"):
            return 0, self.threads - 1
        symbol = next((s for s in uses if s.name == name), None)
        if symbol is None or symbol.const:
            known = self.names.constant(name)
            if known is not None and known.constant is not None:
                return int(known.constant[0]), int(known.constant[0])
        if symbol is None or depth > DEPTH or symbol in self.model.split.carried:
            return None
        if " ".join(w for w in symbol.type.split() if w != "const") not in _INTEGERS:
            return None  # a narrower type would wrap
        loop = next((p for p in loops if p.is_loop and p.counter == symbol), None)
        if loop is not None:
            return self._counter(loop, depth)
        defined = self.names.defined(name, uses)
        if defined is None or self.names.flow.definers[symbol] != [defined[0]]:
            return None
        return self._value(defined[1], defined[0].own.uses, defined[0].parents, depth + 1)

    def _counter(self, loop: Statement, depth: int) -> Interval | None:
        trips = self.model.trips.get(id(loop))
        if trips is None:
            return None
        if trips.simple:
            return 0, max(trips.count - 1, 0)
        bound = self.model.answers.get(f"bound:{loop.span.start}")
        if not isinstance(bound, int) or loop.start is None:
            return None
        start = self._value(self.names.node(loop.start), loop.own.uses, (), depth + 1)
        last = bound if trips.loop.inclusive else bound - 1
        return (start[0], max(last, start[1])) if start[0] >= 0 else None


def _bare(node: Node) -> Node:
    while node.type == "parenthesized_expression" and node.named_children:
        node = node.named_children[0]
    return node


def _cast_value(node: Node, text: str) -> Node | None:
    """What is cast by `(T*)x` or `reinterpret_cast<T*>(x)`, None for another node."""
    if node.type == "cast_expression":
        return node.child_by_field_name("value")
    arguments = node.child_by_field_name("arguments")
    if node.type == "call_expression" and _CAST.match(text) and arguments is not None:
        values = arguments.named_children
        return values[0] if len(values) == 1 else None
    return None


def _combined(operator: str, a: Interval, b: Interval) -> Interval | None:
    """The bounds of an operation's result; operands below zero are not divided, shifted or masked."""
    if operator == "+":
        return a[0] + b[0], a[1] + b[1]
    if operator == "-":
        return a[0] - b[1], a[1] - b[0]
    if operator == "*":
        products = [x * y for x in a for y in b]
        return min(products), max(products)
    if min(a[0], b[0]) < 0:
        return None
    if operator == "/" and b[0] > 0:
        return a[0] // b[1], a[1] // b[0]
    if operator == "%" and b[0] > 0:
        return 0, min(a[1], b[1] - 1)
    if operator in ("<<", ">>") and b[1] < 31:
        return (a[0] << b[0], a[1] << b[1]) if operator == "<<" else (a[0] >> b[1], a[1] >> b[0])
    if operator == "&":
        return 0, min(a[1], b[1])
    if operator in ("|", "^"):
        return 0, (1 << max(a[1], b[1]).bit_length()) - 1
    return None
