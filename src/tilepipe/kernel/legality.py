"""What must hold before a tile loop may be pipelined. Each rule returns None or says why not.

The rules follow the questions of the design in their order; `check` asks them all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilepipe.diagnostics import Refusal, refusal
from tilepipe.kernel import surroundings
from tilepipe.kernel.flow import Flow, Item, is_divergent
from tilepipe.kernel.loader import Split
from tilepipe.kernel.statements import Statement
from tilepipe.kernel.symbols import Symbol
from tilepipe.kernel.tileloop import TileLoop, header_effects
from tilepipe.source import SourceFile, Span


@dataclass(frozen=True, eq=False)
class Question:
    """Everything that the rules look at."""

    source: SourceFile
    root: Statement
    tile: TileLoop
    split: Split
    divergent: frozenset[Symbol]
    no_alias: frozenset[str]  # names of pointers that the user promises not to alias anything else

    def line(self, at: Span) -> int:
        return self.source.line_of(at.start)


Rule = Callable[[Question], Refusal | None]


def check(question: Question) -> Refusal | None:
    """The first rule that forbids pipelining, in order."""
    for rule in RULES:
        refused = rule(question)
        if refused is not None:
            return refused
    return None


def already_pipelined(q: Question) -> Refusal | None:
    """TP002: the loop computes on one stage while it fills another."""
    for store in q.tile.stores:
        if store.kind != "load" or store.store is None:
            continue
        left = q.source.slice(store.store.left)
        toggled = [s for s in q.split.carried if f"[{s.name}]" in left or f"[{s.name} " in left]
        if toggled and _same_interval(q.tile, store.item, store.buffer) is not None:
            return refusal(
                "TP002",
                f"already software-pipelined: `{store.buffer.name}` has stages selected by `{toggled[0].name}`, and the "
                "loop fills one while it computes on another",
                q.source.place(store.store.left),
                "the next tile is stored here",
                "hand over the version with a single buffer and plain loads",
            )
    return None


def structure(q: Question) -> Refusal | None:
    """TP019, TP020: exits from the loop, and statements whose flow is not understood."""
    for statement in _own_statements(q.tile.loop):
        flags = statement.own.flags
        words = flags & {"break", "continue", "goto", "return"}
        if words and not (words <= {"break", "continue"} and _inside_inner_loop(q.tile, statement)):
            word = next(iter(sorted(words)))
            return refusal(
                "TP019",
                f"`{word}` leaves the tile loop's body early, so the next tile's load cannot be moved above it",
                q.source.place(statement.span),
                f"`{word}` here",
                "end the loop by its condition, or move the early exit out of the loop",
            )
        if "structure" in flags:
            return refusal(
                "TP020",
                "this statement in the tile loop is of a kind that is not understood",
                q.source.place(statement.span),
                "not understood",
                "write it with if, for and while; take preprocessor conditions out of the loop",
            )
    return None


def barriers_uniform(q: Question) -> Refusal | None:
    """TP011, TP014: every thread of the block must reach every barrier of the loop."""
    for outer in q.tile.path:
        if outer.kind in ("if", "for", "while", "do") and is_divergent(outer, q.divergent):
            return refusal(
                "TP011",
                "__syncthreads() stands inside a branch or loop that differs between threads of a block",
                q.source.place(outer.condition or outer.span),
                "not the same for all threads",
                "let every thread run the loop, zero the edges in the load and guard only the store",
            )
    if is_divergent(q.tile.loop, q.divergent):
        return refusal(
            "TP011",
            "the number of tiles differs between threads of a block, and the loop has barriers",
            q.source.place(q.tile.loop.condition or q.tile.loop.span),
            "not the same for all threads",
            "make the loop's bounds the same for the whole block",
        )
    for phase in q.tile.phases:
        inner = _divergent_barrier(phase.statement, q.divergent, False)
        if inner is not None:
            return refusal(
                "TP011",
                "__syncthreads() stands inside a branch that differs between threads of a block",
                q.source.place(inner.span),
                "not reached by all threads",
                "take the barrier out of the branch",
            )
    return _early_return(q)


def _early_return(q: Question) -> Refusal | None:
    for statement in surroundings.before(q.tile):
        found = _divergent_return(statement, q.divergent, False)
        if found is not None:
            return refusal(
                "TP014",
                "some threads of a block return before the loop, so its barriers are not reached by all",
                q.source.place(found.span),
                "returns for some threads only",
                "let every thread run the loop and guard only the store",
            )
    return None


def barriers_separate(q: Question) -> Refusal | None:
    """TP010: between a tile's use and its refill, and between its fill and its use, stands a barrier."""
    if not any(p.is_barrier for p in q.tile.phases):
        return refusal(
            "TP010",
            "the loop has no barrier of its own at the top level of its body",
            q.source.place(q.tile.loop.span),
            help="put __syncthreads() between load and compute and at the end of the loop body",
        )
    for store in q.tile.stores:
        if store.buffer not in q.tile.staged or store.kind == "compute":
            continue
        reader = _same_interval(q.tile, store.item, store.buffer)
        if reader is not None:
            return refusal(
                "TP010",
                f"the input is racy: no barrier between reading `{store.buffer.name}` and overwriting it for the next tile",
                q.source.place(reader.statement.span),
                f"read here; overwritten at line {q.line(store.item.statement.span)} without a barrier between",
                "add __syncthreads() at the end of the loop body",
            )
    return None


def has_staged(q: Question) -> Refusal | None:
    """TP013: the load must not depend on what the same iteration computes."""
    if q.tile.staged:
        return None
    for store in q.tile.stores:
        if store.kind == "compute" and store.item.own.global_reads():
            producer = _shared_source(q, store.needs)
            label = "depends on this iteration's computation"
            if producer is not None:
                label += f" through line {q.line(producer.statement.span)}"
            return refusal(
                "TP013",
                f"the next tile's load into `{store.buffer.name}` depends on the result computed from this one",
                q.source.place(store.item.statement.span),
                label,
                "load ahead is possible only where the addresses are known before the computation",
            )
    return None


def _shared_source(q: Question, needs: frozenset[Item]) -> Item | None:
    written = q.tile.staged | q.tile.scratch
    return next((i for i in sorted(needs, key=lambda i: i.order) if i.own.shared_reads() & written), None)


def loader_is_pure(q: Question) -> Refusal | None:
    """TP018, TP013: the loader consists of arithmetic, loads and copies alone."""
    written = q.tile.staged | q.tile.scratch
    for item in sorted(q.split.loader, key=lambda i: i.order):
        own = item.own
        if own.opaque:
            name, at = own.opaque[0]
            return refusal(
                "TP018",
                f"the load phase calls `{name}`, whose effect is not known",
                q.source.place(at),
                "not understood",
                "inline the call, or define the function in this file",
            )
        if own.shared_reads() & written or own.flags & {"asm", "warp", "barrier"}:
            what = (
                "reads shared memory that the loop writes" if own.shared_reads() & written else "is not plain"
            )
            return refusal(
                "TP013",
                f"the load of the next tile needs a statement that {what}",
                q.source.place(item.statement.span),
                "the loader would have to run this ahead",
                "compute addresses and counters of the load without the tile's own data",
            )
        if own.global_writes():
            return refusal(
                "TP016",
                "the load phase writes global memory",
                q.source.place(item.statement.span),
                "written here",
                "store to global memory in the compute phase",
            )
    return None


def compute_keeps_tiles(q: Question) -> Refusal | None:
    """TP012: the compute phase must not change a staged tile, unless the next load overwrites the change."""
    for store in q.tile.stores:
        if store.buffer not in q.tile.staged or store.kind != "compute":
            continue
        if _is_dead_write(q, store.item, store.buffer):
            continue
        return refusal(
            "TP012",
            f"the compute phase writes to the tile `{store.buffer.name}`, and the value may live to the next iteration",
            q.source.place(store.item.statement.span),
            "the tile is changed here",
            "write to another shared array, or refill every element of the tile in each iteration",
        )
    return None


def _is_dead_write(q: Question, item: Item, buffer: Symbol) -> bool:
    """A write to the very element that the same thread refills, unconditionally, in every iteration."""
    refills = {
        q.source.slice(s.store.left)
        for s in q.tile.stores
        if s.buffer == buffer
        and s.kind == "load"
        and s.store is not None
        and len(s.item.parents) == 0
        and not s.needs_varying(q.split.varying)
    }
    return all(q.source.slice(s.left) in refills for s in item.own.stores) and bool(item.own.stores)


def not_filled_outside(q: Question) -> Refusal | None:
    """TP015: what stands in a tile before the loop would be in one stage only."""
    for statement in (*surroundings.before(q.tile), *_repeated(q)):
        for inner in statement.walk():
            hit = inner.own.shared_writes() & q.tile.staged
            if hit:
                name = next(iter(hit)).name
                return refusal(
                    "TP015",
                    f"`{name}` is filled before the loop too, and the loop may rely on what stands there",
                    q.source.place(inner.span),
                    "filled here",
                    "fill the whole tile in each iteration of the loop",
                )
    return None


def _repeated(q: Question) -> tuple[Statement, ...]:
    return surroundings.after(q.tile) if surroundings.is_repeated(q.tile) else ()


def memory_independent(q: Question) -> Refusal | None:
    """TP016, TP017: a load may move above a store of an earlier iteration only if they cannot meet."""
    loads = [(i, a) for i in q.split.loader for a in i.own.global_reads()]
    for item in q.tile.flow.items:
        for write in item.own.global_writes():
            for load_item, load in sorted(loads, key=lambda pair: pair[0].order):
                refused = _may_meet(q, item, write.base, load_item, load.base)
                if refused is not None:
                    return refused
    return None


def _may_meet(
    q: Question, item: Item, written: Symbol | None, load_item: Item, loaded: Symbol | None
) -> Refusal | None:
    names = {s.name for s in (written, loaded) if s is not None}
    if written is not None and written == loaded:
        if written.name in q.no_alias:
            return None
        return refusal(
            "TP017",
            f"`{written.name}` is stored in this loop and loaded in it: the next tile may hold what this one stores",
            q.source.place(item.statement.span),
            f"stored here; loaded at line {q.line(load_item.statement.span)}",
            f"keep input and output apart, or state --assume no-alias={written.name} if they never meet",
        )
    if written is not None and loaded is not None:
        constant = loaded.kind == "file" and loaded.const
        if written.restrict or loaded.restrict or names & q.no_alias or constant:
            return None
    known = " and ".join(f"`{n}`" for n in sorted(names)) or "two pointers"
    return refusal(
        "TP016",
        f"{known} may alias: a store of one tile may change what a later tile loads",
        q.source.place(item.statement.span),
        f"stored here; loaded at line {q.line(load_item.statement.span)}",
        "declare the pointers __restrict__, or state --assume no-alias=NAME",
    )


def state_can_be_copied(q: Question) -> Refusal | None:
    """TP021: a variable that loader and consumer both use gets a copy; arrays do not."""
    for symbol in q.split.copied:
        if symbol.is_array:
            return refusal(
                "TP021",
                f"the array `{symbol.name}` is changed by the load phase and used by the compute phase too",
                q.source.place(Span(symbol.key[0], symbol.key[0] + len(symbol.name))),
                "shared by load and compute",
                "use an array of its own in the load phase",
            )
        writers = [i for i in q.tile.flow.items if symbol in i.own.defs]
        outside = [i for i in writers if i not in q.split.loader]
        if outside:
            return refusal(
                "TP021",
                f"`{symbol.name}` steers the load and is changed by the compute phase",
                q.source.place(outside[0].statement.span),
                "changed here",
                "use separate variables for load and compute",
            )
    header = header_effects(q.tile.loop)
    if header.global_reads() or header.shared_reads():
        return refusal(
            "TP021",
            "the loop's condition reads memory, which the loader cannot evaluate ahead",
            q.source.place(q.tile.loop.condition or q.tile.loop.span),
            "reads memory",
            "read the bound into a variable before the loop",
        )
    return None


# -- helpers -----------------------------------------------------------------------------------------------


def _own_statements(loop: Statement) -> list[Statement]:
    """Statements of the kernel's own text inside the loop; a helper's returns are its own affair."""
    found = []
    for child in loop.children:
        found += [child, *_own_statements(child)] if child.kind != "call" else [child]
    return found


def _inside_inner_loop(tile: TileLoop, statement: Statement) -> bool:
    return any(p.is_loop for p in tile.flow.of[id(statement)].parents)


def _divergent_barrier(statement: Statement, divergent: frozenset[Symbol], inside: bool) -> Statement | None:
    if inside and statement.kind == "leaf" and "barrier" in statement.own.flags:
        return statement
    deeper = inside or is_divergent(statement, divergent)
    return next((f for c in statement.children if (f := _divergent_barrier(c, divergent, deeper))), None)


def _divergent_return(statement: Statement, divergent: frozenset[Symbol], inside: bool) -> Statement | None:
    if statement.kind == "call":
        return None
    if inside and "return" in statement.own.flags:
        return statement
    deeper = inside or is_divergent(statement, divergent)
    return next((f for c in statement.children if (f := _divergent_return(c, divergent, deeper))), None)


def _interval_count(tile: TileLoop) -> int:
    return tile.phases[-1].interval if tile.phases else 0


def _intervals(tile: TileLoop, item: Item) -> frozenset[int]:
    """The barrier intervals (cyclic) in which an item may run."""
    top = item.parents[0] if item.parents else item.statement
    last = _interval_count(tile)
    phase = next(p for p in tile.phases if p.statement is top)
    numbers = {phase.interval, phase.interval + 1} if phase.inner_barrier else {phase.interval}
    return frozenset(0 if n >= last else n for n in numbers)


def _same_interval(tile: TileLoop, store: Item, buffer: Symbol) -> Item | None:
    """A reader of `buffer` with no barrier between it and the store, on one side at least."""
    at = _intervals(tile, store)
    for item in tile.flow.items:
        if buffer in item.own.shared_reads() and at & _intervals(tile, item):
            return item
    return None


RULES: tuple[Rule, ...] = (
    structure,
    already_pipelined,
    barriers_uniform,
    has_staged,
    barriers_separate,
    loader_is_pure,
    compute_keeps_tiles,
    not_filled_outside,
    memory_independent,
    state_can_be_copied,
)


def divergence(root: Statement) -> frozenset[Symbol]:
    """The divergent symbols of a whole kernel."""
    return Flow([root]).divergent()
