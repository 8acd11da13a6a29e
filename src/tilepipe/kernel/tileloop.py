"""Finds the tile loop of a kernel and tells what its shared arrays are for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilepipe.kernel.effects import Effects, Store
from tilepipe.kernel.flow import Flow, Item
from tilepipe.kernel.statements import Statement
from tilepipe.kernel.symbols import Symbol


@dataclass(frozen=True, eq=False)
class Phase:
    """A top-level statement of the loop body with the number of the barrier interval it belongs to."""

    statement: Statement
    interval: int
    is_barrier: bool
    inner_barrier: bool


@dataclass(frozen=True, eq=False)
class StoreUse:
    """A store to shared memory within the loop, with everything that its value and address depend on."""

    item: Item
    store: Store | None  # None where the write is not an assignment (a matrix store, an unknown call)
    buffer: Symbol
    needs: frozenset[Item]
    kind: str  # "load" | "constant" | "compute"

    def needs_varying(self, varying: frozenset[Symbol]) -> bool:
        """Whether the element written differs from tile to tile."""
        return False if self.store is None else bool(self.address_symbols() & varying)

    def address_symbols(self) -> frozenset[Symbol]:
        """Names that the stored-to address is made of."""
        return self.store.address if self.store is not None else frozenset()


@dataclass(frozen=True, eq=False)
class TileLoop:
    """A loop that fills shared memory from global memory behind barriers and computes on it."""

    loop: Statement
    path: tuple[Statement, ...]  # enclosing statements, outermost first
    flow: Flow
    phases: tuple[Phase, ...]
    stores: tuple[StoreUse, ...]

    @property
    def body(self) -> tuple[Statement, ...]:
        return body_of(self.loop)

    def buffers(self, kind: str) -> frozenset[Symbol]:
        return frozenset(s.buffer for s in self.stores if s.kind == kind)

    @property
    def staged(self) -> frozenset[Symbol]:
        """Shared arrays that the load phase fills from global memory."""
        return self.buffers("load")

    @property
    def scratch(self) -> frozenset[Symbol]:
        """Shared arrays that only the compute phase writes."""
        return self.buffers("compute") - self.staged

    @property
    def invariant(self) -> frozenset[Symbol]:
        """Shared arrays that the loop reads and never writes."""
        read: set[Symbol] = set()
        written: set[Symbol] = set()
        for item in self.flow.items:
            read |= item.own.shared_reads()
            written |= item.own.shared_writes()
        return frozenset(read - written)


def body_of(loop: Statement) -> tuple[Statement, ...]:
    """The top-level statements of a loop body."""
    if not loop.children:
        return ()
    inner = loop.children[0]
    return inner.children if inner.kind == "block" else (inner,)


def loops(root: Statement, path: tuple[Statement, ...] = ()) -> list[tuple[Statement, tuple[Statement, ...]]]:
    """Every loop below `root` that stands in the kernel's own text, with its enclosing statements."""
    found = []
    for child in root.children:
        if child.is_loop:
            found.append((child, (*path, root)))
        if child.kind != "call":
            found += loops(child, (*path, root))
    return found


def tile_loops(root: Statement) -> list[TileLoop]:
    """The innermost loops with barriers whose body fills shared memory from global memory."""
    found: list[TileLoop] = []
    for loop, path in loops(root):
        effects = loop.effects()
        if "barrier" not in effects.flags or not effects.shared_writes() or not effects.global_reads():
            continue
        candidate = _describe(loop, path)
        if candidate.staged or _wants_load(candidate):
            found.append(candidate)
    return [t for t in found if not any(o is not t and t.loop in o.path for o in found)]


@dataclass(frozen=True, eq=False)
class Mixed:
    """A variable through which a loop fills shared memory from global memory and reads it too, so that its load
    cannot be told from its computation: a statement that loads it, and one that reads the tile."""

    tile: TileLoop
    symbol: Symbol
    load: Statement
    other: Statement


def mixed_registers(root: Statement) -> Iterator[Mixed]:
    """The variables of loops with barriers that take part in load and computation."""
    for loop, path in loops(root):
        if "barrier" not in loop.effects().flags:
            continue
        tile = _describe(loop, path)
        used = {s: None for t in tile.stores for s in sorted(t.item.own.uses, key=lambda s: s.key)}
        for symbol in used:
            setters = tile.flow.definers[symbol]
            loads = [i.statement for i in setters if i.own.global_reads() and not i.own.shared_reads()]
            others = [i.statement for i in setters if i.own.shared_reads()]
            if loads and others:
                yield Mixed(tile, symbol, loads[0], others[0])


def _wants_load(tile: TileLoop) -> bool:
    """A store of a global load whose address comes from the computation: a tile loop, though not a legal one."""
    return any(s.kind == "compute" and s.item.own.global_reads() for s in tile.stores)


def _describe(loop: Statement, path: tuple[Statement, ...]) -> TileLoop:
    body = body_of(loop)
    flow = Flow([*body])
    written: set[Symbol] = set()
    for item in flow.items:
        written |= item.own.shared_writes()
    stores = []
    for item in flow.items:
        for buffer in item.own.shared_writes():
            needs = frozenset(flow.backward([item]))
            matching = [s for s in item.own.stores if s.base == buffer]
            kind = _kind(item, needs, written, buffer, bool(matching))
            stores.append(StoreUse(item, matching[0] if matching else None, buffer, needs, kind))
    return TileLoop(loop, path, flow, _phases(body), tuple(stores))


def _kind(item: Item, needs: frozenset[Item], written: set[Symbol], buffer: Symbol, assigned: bool) -> str:
    if not assigned:
        return "compute"
    reads: set[Symbol] = set()
    flags: set[str] = set()
    loaded = False
    for need in needs:
        own = need.own
        reads |= own.shared_reads()
        flags |= own.flags
        loaded = loaded or bool(own.global_reads())
    if reads & written or flags & {"asm", "warp"}:
        return "compute"
    return "load" if loaded else "constant"


def _phases(body: tuple[Statement, ...]) -> tuple[Phase, ...]:
    interval = 0
    phases = []
    for statement in body:
        effects = statement.effects()
        has_barrier = "barrier" in effects.flags
        is_barrier = has_barrier and statement.kind == "leaf"
        inner = has_barrier and not is_barrier
        if is_barrier:
            interval += 1
        phases.append(Phase(statement, interval, is_barrier, inner))
        if inner:
            interval += 1
    return tuple(phases)


def header_effects(loop: Statement) -> Effects:
    """What the loop's condition and step do, without its initialisation."""
    return loop.condition_effects | loop.update_effects
