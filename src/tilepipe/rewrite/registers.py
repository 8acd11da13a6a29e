"""Register staging: the loads of a tile into registers (fetch), and from there into shared memory (store)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tilepipe.kernel.acting import acting_type
from tilepipe.kernel.flow import Item
from tilepipe.kernel.model import KernelModel, LoadSite
from tilepipe.kernel.symbols import Symbol
from tilepipe.kernel.vectorstores import VectorStore
from tilepipe.rewrite.counted import CountedLoops
from tilepipe.rewrite.project import Projection
from tilepipe.rewrite.vectorstores import store_edits
from tilepipe.source import Edit, SourceFile, Span

_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, eq=False)
class Register:
    """A register, or an array of them, that holds what one load site loads for a tile."""

    site: LoadSite
    name: str
    extents: tuple[int, ...]
    index: str

    @property
    def declaration(self) -> str:
        return f"{self.site.type} {self.name}{''.join(f'[{n}]' for n in self.extents)};"

    def loaded(self, source: SourceFile) -> str:
        """The expression that is loaded."""
        return self.site.text or source.slice(self.site.span)

    @property
    def element(self) -> str:
        return self.name + self.index


@dataclass(frozen=True, eq=False)
class Staging:
    """The two halves of the load phase for buffers that go through registers."""

    registers: tuple[Register, ...]
    fetch: Projection
    store: Projection
    store_uses: frozenset[Symbol]


def stage(
    model: KernelModel,
    buffers: frozenset[Symbol],
    tail: frozenset[Item],
    loops: CountedLoops,
    vectors: tuple[VectorStore, ...],
) -> Staging | str:
    """Split the loads of `buffers` into fetch and store; a reason where that cannot be done.

    `tail` are the statements that advance to the next tile and run after the store, `vectors` the stores that are made
    in vectors.
    """
    flow = model.tile.flow
    stores = [s.item for s in model.tile.stores if s.buffer in buffers and s.kind != "compute"]
    if any(s.store is None or s.store.in_macro for s in model.tile.stores if s.buffer in buffers):
        return "a macro's body makes the shared store"
    uses = {i: _uses_outside_loads(model, i) for i in model.split.loader}
    stored = flow.backward(stores, uses, tail)
    sites = [site for site in model.loads if site.item in stored]
    registers: list[Register] = []
    for number, site in enumerate(sites):
        register = register_of(site, number, loops)
        if isinstance(register, str):
            return register
        registers.append(register)
    fetched = flow.backward([s.item for s in sites], None, tail) | set(_inner(model, tail))
    fetch = _fetch(model, registers, frozenset(fetched), loops)
    store = _store(model, registers, frozenset(stored), loops, vectors)
    needed = frozenset(s for i in stored for s in uses.get(i, i.own.uses))
    inner = frozenset(s for i in _inner(model, tail) for s in i.own.defs)
    if needed & inner:
        moved = needed & inner
        name = min(s.name for s in moved & model.split.state or moved)
        return f"`{name}` is moved on within the load phase and is needed again by the store"
    return Staging(tuple(registers), fetch, store, needed)


def _inner(model: KernelModel, tail: frozenset[Item]) -> list[Item]:
    """Statements that advance loader state in the middle of the load phase."""
    return [i for i in model.split.loader if i.own.defs & model.split.state and i not in tail]


def _uses_outside_loads(model: KernelModel, item: Item) -> frozenset[Symbol]:
    """The names that a statement uses apart from those inside its global loads."""
    return uses_outside(model, item, [load.span for load in item.own.loads])


def uses_outside(model: KernelModel, item: Item, spans: list[Span]) -> frozenset[Symbol]:
    """The names that a statement uses apart from those in some parts of it; all of them where a macro hides some."""
    if not spans:
        return item.own.uses
    statement = item.statement
    header = statement.condition if statement.children and statement.condition is not None else statement.span
    rest = bytearray(model.file.source.data[header.start : header.end])
    for part in spans:
        at = slice(max(part.start - header.start, 0), max(part.end - header.start, 0))
        rest[at] = b" " * len(rest[at])
    words = set(_WORD.findall(rest.decode()))
    if any(w in model.file.macros for w in words):
        return item.own.uses
    return frozenset(s for s in item.own.uses if s.name in words)


def register_of(site: LoadSite, number: int, loops: CountedLoops) -> Register | str:
    """The register for the load site of a number; a reason where it cannot have one."""
    if site.type is None:
        return "the type of a global load is not known"
    model = loops.model
    if acting := acting_type(model.file, site.type, model.answers):
        return f"a `{acting}` would be assigned twice, and that runs code of its own"
    extents = []
    index = ""
    for loop, trips in zip(site.loops, site.trips, strict=True):
        if trips is None:
            line = model.file.source.line_of(loop.span.start)
            return f"the trip count of the copy loop at line {line} is not known at compile time"
        extents.append(max(trips.count, 1))
        index += f"[{loops.number(loop)}]"
    base = next(
        (load.bases[0].name for load in site.item.own.loads if load.span == site.span and load.bases), "value"
    )
    return Register(site, f"tp_{base}{number}", tuple(extents), index)


def _fetch(
    model: KernelModel,
    registers: list[Register],
    fetched: frozenset[Item],
    loops: CountedLoops,
) -> Projection:
    by_item: dict[Item, list[Register]] = {}
    for register in registers:
        by_item.setdefault(register.site.item, []).append(register)
    needed = _needed_values(model, fetched, by_item)
    replaced: dict[int, str] = {}
    edits: dict[int, tuple[Edit, ...]] = dict(loops.edits(fetched))
    for item, own in by_item.items():
        if item in needed or item.statement.children:
            text = tuple(Edit(r.site.span, f"({r.element} = {r.loaded(model.file.source)})") for r in own)
            edits[id(item.statement)] = edits.get(id(item.statement), ()) + text
        else:
            lines = [f"{r.element} = {r.loaded(model.file.source)};" for r in own]
            replaced[id(item.statement)] = together(model, item, lines)
    stores = {s.item for s in model.tile.stores if s.item not in by_item}
    return Projection(
        model.file.source, model.tile, fetched - stores, replaced, edits, loops.pragmas(fetched)
    )


def together(model: KernelModel, item: Item, lines: list[str]) -> str:
    """Several statements in the place of one: braces where the place takes one only."""
    if len(lines) == 1:
        return lines[0]
    parent = item.parents[-1] if item.parents else None
    text = "\n".join(lines)
    return text if parent is None or parent.kind == "block" else "{ " + " ".join(lines) + " }"


def _needed_values(
    model: KernelModel, fetched: frozenset[Item], by_item: dict[Item, list[Register]]
) -> frozenset[Item]:
    """Items with loads whose variable the fetch itself needs (the index of a gather)."""
    found = set()
    for item in by_item:
        for other in fetched:
            if other is not item and item.own.defs & other.own.uses:
                found.add(item)
    return frozenset(found)


def _store(
    model: KernelModel,
    registers: list[Register],
    stored: frozenset[Item],
    loops: CountedLoops,
    vectors: tuple[VectorStore, ...],
) -> Projection:
    edits = store_edits(stored, loops, vectors)
    for register in registers:
        key = id(register.site.item.statement)
        edits[key] = (*edits.get(key, ()), Edit(register.site.span, register.element))
    return Projection(model.file.source, model.tile, stored, {}, edits, loops.pragmas(stored))
