"""Slots of shared memory, one per thread and stage: the copies into them, and the moves on into the tiles."""

from __future__ import annotations

from dataclasses import dataclass

from tilepipe.kernel.copies import Copy
from tilepipe.kernel.flow import Item
from tilepipe.kernel.model import KernelModel
from tilepipe.kernel.slots import Slot, Stash
from tilepipe.kernel.symbols import Symbol
from tilepipe.kernel.vectorstores import VectorStore
from tilepipe.rewrite.addresses import address
from tilepipe.rewrite.asynchronous import Issue, asynchronous
from tilepipe.rewrite.counted import CountedLoops
from tilepipe.rewrite.project import Projection
from tilepipe.rewrite.registers import Register, register_of, together, uses_outside
from tilepipe.rewrite.rings import STAGES
from tilepipe.rewrite.state import LoaderState, following_state
from tilepipe.rewrite.vectorstores import store_edits
from tilepipe.rewrite.wide import Repartition
from tilepipe.source import Edit

THREAD = "tp_thread"


@dataclass(frozen=True, eq=False)
class Stashing:
    """The load phase with slots: `load` issues the copies of a tile, `store` moves a tile on from the slots to where
    it is read, with the `state` of that tile. `declarations` are those of the slots."""

    declarations: tuple[str, ...]
    load: Projection
    store: Projection
    state: LoaderState
    doubled: frozenset[Symbol]


def stashing(
    model: KernelModel,
    stash: Stash,
    stages: int,
    ahead: LoaderState,
    loops: CountedLoops,
    wide: Repartition,
    vectors: tuple[VectorStore, ...],
) -> Stashing | str:
    """Both halves of the load phase; a reason where it cannot be divided so. `ahead` is the loader's state, `vectors`
    are the stores that are made in vectors."""
    placed: list[tuple[Slot, Register]] = []
    for number, slot in enumerate(stash.slots):
        register = register_of(slot.site, number, loops)
        if isinstance(register, str):
            return register
        placed.append((slot, register))
    load = _load(model, stash, placed, loops, wide)
    if isinstance(load, str):
        return load
    stores = [s for s in model.tile.stores if s.buffer in stash.through and s.kind != "compute"]
    if any(s.store is None or s.store.in_macro for s in stores):
        return "a macro's body makes the shared store"
    parts = {i: [s.element.at for s in stash.slots if s.site.item is i] for i in model.split.loader}
    uses = {i: uses_outside(model, i, parts[i]) for i in model.split.loader}
    stored = frozenset(model.tile.flow.backward([s.item for s in stores], uses, ahead.tail))
    moved_on = next((i for i in stored if i.own.defs & model.split.state), None)
    if moved_on is not None:
        name = min(s.name for s in moved_on.own.defs & model.split.state)
        return f"`{name}` is moved on within the load phase and is needed again by the store"
    state = following_state(model, ahead, frozenset(s for i in stored for s in uses.get(i, i.own.uses)))
    if isinstance(state, str):
        return state
    store = _store(model, placed, stored | state.advance, loops, vectors)
    declarations = tuple(_declaration(s, r, stash.threads_text) for s, r in placed)
    return Stashing(declarations, load, store, state, _doubled(model, stash, stages))


def _doubled(model: KernelModel, stash: Stash, stages: int) -> frozenset[Symbol]:
    """The arrays that need two buffers only: nothing is under way to them while a tile is computed."""
    direct = {b.array for b in model.buffers if b.piece in stash.direct}
    arrays = {b.array for b in model.buffers if b.piece in stash.through and not b.dynamic}
    return frozenset(arrays - direct) if stages > 2 else frozenset()


def _declaration(slot: Slot, register: Register, threads: str) -> str:
    extents = "".join(f"[{n}]" for n in register.extents)
    return f"__shared__ {slot.type} {register.name}_ring[{STAGES}]{extents}[{threads}];  // each thread's own"


def _place(register: Register) -> str:
    """The slot of this thread, in the stage at hand."""
    return f"{register.name}_ring[tp_stage]{register.index}[{THREAD}]"


def _load(
    model: KernelModel,
    stash: Stash,
    placed: list[tuple[Slot, Register]],
    loops: CountedLoops,
    wide: Repartition,
) -> Projection | str:
    """Copies into tiles and slots, with everything that they need, moving on included."""
    by_item: dict[Item, list[tuple[Slot, Register]]] = {}
    for slot, register in placed:
        by_item.setdefault(slot.site.item, []).append((slot, register))
    issues = {}
    for item, own in by_item.items():
        text = together(model, item, [_copy(s, r) for s, r in own])
        issues[item] = Issue(text, frozenset(u for s, _ in own for u in s.uses))
    load = asynchronous(model, stash.direct, frozenset(), loops, wide, issues=issues)
    made = frozenset(s for i in issues for s in i.own.defs)
    copies = {
        c.use.item: c.uses for c in model.copies if isinstance(c, Copy) and c.use.buffer in stash.direct
    }
    for item in load.keep - issues.keys():
        lost = made & copies.get(item, item.own.uses)
        if lost:
            return f"`{min(s.name for s in lost)}` is needed by the loader itself"
    return load


def _copy(slot: Slot, register: Register) -> str:
    target, source = (address(text, slot.type) for text in (_place(register), slot.element.source))
    call = f"tp_copy({target}, {source});"
    return f"if ({slot.element.guard}) {call}" if slot.element.guard else call


def _store(
    model: KernelModel,
    placed: list[tuple[Slot, Register]],
    kept: frozenset[Item],
    loops: CountedLoops,
    vectors: tuple[VectorStore, ...],
) -> Projection:
    """The author's own statements with the slots in the place of the loads."""
    edits = store_edits(kept, loops, vectors)
    for slot, register in placed:
        key = id(slot.site.item.statement)
        edits[key] = (*edits.get(key, ()), Edit(slot.element.at, _place(register)))
    return Projection(model.file.source, model.tile, kept, {}, edits, loops.pragmas(kept))
