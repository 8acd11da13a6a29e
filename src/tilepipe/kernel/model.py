"""The model of a kernel that can be pipelined: everything that planning and rewriting need to know.

Built in two pure steps around the compiler: `study` reads the source and returns a `Study` with questions,
`build` takes the answers and returns the `KernelModel`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tilepipe.diagnostics import Refusal, refusal
from tilepipe.kernel import disjoint, legality, rules_memory, surroundings
from tilepipe.kernel.acting import acting_class
from tilepipe.kernel.addresses import hidden_addresses
from tilepipe.kernel.askedtypes import asked_types
from tilepipe.kernel.copies import Copies, Copy, NotACopy
from tilepipe.kernel.file import Analysed, CudaFile, KernelText
from tilepipe.kernel.fills import settled
from tilepipe.kernel.flow import Item
from tilepipe.kernel.fragments import FragmentLoop, fragment_loop, with_groups
from tilepipe.kernel.fromheader import from_header
from tilepipe.kernel.inlined import inlined
from tilepipe.kernel.launchbounds import launch_bound
from tilepipe.kernel.layout import missing_layout
from tilepipe.kernel.loader import Split, split
from tilepipe.kernel.loop_facts import LoopFacts
from tilepipe.kernel.meetings import Meeting
from tilepipe.kernel.misread import read_as_written
from tilepipe.kernel.open_macros import open_macros
from tilepipe.kernel.poolnames import hidden_names
from tilepipe.kernel.prepared import own_registers, written_out
from tilepipe.kernel.private import without_private
from tilepipe.kernel.questions import Ask, array_of, questions, staged_arrays
from tilepipe.kernel.sharedclass import declared_here
from tilepipe.kernel.spliced import changed_meanings, lost_names
from tilepipe.kernel.stale import stale_reads
from tilepipe.kernel.statements import Statement
from tilepipe.kernel.symbols import Symbol
from tilepipe.kernel.theloop import the_loop
from tilepipe.kernel.tileloop import TileLoop
from tilepipe.kernel.trips import CountedLoop, Trips, counted, trips
from tilepipe.kernel.unclear import taken_coordinate, unclear_macro
from tilepipe.kernel.unseen import runs_unseen
from tilepipe.source import Edit, Span

__all__ = ["Answers", "Ask", "Buffer", "KernelModel", "LoadSite", "Study", "build", "study"]

Answers = Mapping[str, int | str | None]
_ASYNC_BYTES = (4, 8, 16)


@dataclass(frozen=True, eq=False)
class Study:
    """A kernel whose loop may be pipelined, before the compiler was asked. `text` has the braces that a
    question inside an unbraced branch needs; its line numbers are the file's."""

    file: CudaFile
    analysed: Analysed
    tile: TileLoop
    split: Split
    copies: tuple[Copy | NotACopy, ...]
    loops: Mapping[int, CountedLoop]  # by id of the loop statement
    fragments: FragmentLoop | str
    meetings: tuple[Meeting, ...]  # to be proved apart once the compiler has answered
    divergent: frozenset[Symbol]
    one_buffer: Refusal | None  # TP022 where a stale element is read: stages would change the result
    text: str
    asks: tuple[Ask, ...]


@dataclass(frozen=True, eq=False)
class Buffer:
    """A shared array that the load phase fills.

    `piece` is the array or the part of it that accesses name; `array` the declared array around it. `bytes` is
    the size of the declared array, None for dynamic shared memory. `copy_bytes` is the width of the author's
    copies where all are asynchronous copies as they stand, else None with the `reason`.
    """

    piece: Symbol
    array: Symbol
    bytes: int | None
    copy_bytes: int | None
    reason: str
    bytes_per_tile: int | None = None

    @property
    def name(self) -> str:
        return self.piece.name

    @property
    def dynamic(self) -> bool:
        return self.array.extern


@dataclass(frozen=True, eq=False)
class LoadSite:
    """A global load of the load phase that can wait in registers: its type and the counted loops around it.

    `trips` holds None where a loop's count is not known at compile time; `text` replaces the author's expression
    where that would widen the element.
    """

    item: Item
    span: Span
    type: str | None
    loops: tuple[Statement, ...]
    trips: tuple[Trips | None, ...]
    text: str | None = None


@dataclass(frozen=True, eq=False)
class KernelModel:
    """A kernel with one tile loop that may be pipelined."""

    file: CudaFile
    kernel: KernelText
    analysed: Analysed
    tile: TileLoop
    split: Split
    copies: tuple[Copy | NotACopy, ...]
    buffers: tuple[Buffer, ...]
    loads: tuple[LoadSite, ...]
    trips: Mapping[int, Trips]
    static_shared: int | None
    max_threads: int | None
    fragments: FragmentLoop | str  # the loop over a tile's groups, or why it cannot run a group ahead
    answers: Answers = field(default_factory=dict)
    one_buffer: Refusal | None = None  # why only register prefetch into the one buffer is legal

    @property
    def line(self) -> int:
        return self.file.source.line_of(self.tile.loop.span.start)

    @property
    def dynamic(self) -> bool:
        """Whether staged tiles lie in dynamic shared memory."""
        return any(b.dynamic for b in self.buffers)


def study(file: CudaFile, kernel: KernelText, no_alias: frozenset[str] = frozenset()) -> Study | Refusal:
    """Find the tile loop of a kernel and ask every legality rule. Codes TP001–TP023; TP024 comes later (`apart.py`).

    The answer's file is another than `file` where the loop had to be laid out first.
    """
    broken = [e for e in file.tree.errors() if kernel.span.start <= e.start < kernel.span.end]
    if broken:
        return refusal(
            "TP020",
            "the kernel's text is not understood here",
            file.source.place(broken[0]),
            "not understood",
            "take macros apart that hide statements or types at this place; give an initialiser in parentheses "
            "behind `=`",
        )
    taken = taken_coordinate(file, kernel)
    if taken is not None:
        return taken
    for shaped in (read_as_written, open_macros, declared_here):
        edits = shaped(file, kernel)
        if isinstance(edits, Refusal):
            return edits
        if edits:
            return _again(file, kernel, edits, no_alias)
    analysed = file.analyse(kernel)
    tile = the_loop(file, analysed)
    if isinstance(tile, Refusal):
        if tile.diagnostics[0].code != "TP001":
            return tile
        apart = own_registers(file, analysed)
        if apart:
            return _again(file, kernel, apart, no_alias)
    within = inlined(file, analysed, None if isinstance(tile, Refusal) else tile.loop)
    if isinstance(within, CudaFile):
        return _of(within, file, kernel, no_alias)
    if isinstance(tile, Refusal):
        return within or tile
    unclear = unclear_macro(file, kernel)
    if unclear is not None:
        return unclear
    divergent = legality.divergence(analysed.body)
    tile = without_private(file, tile, divergent)
    if isinstance(tile, Refusal):
        return tile
    parts = split(tile, surroundings.after_effects(tile))
    with_copy = from_header(file, tile, parts)
    if with_copy is not None:
        return _of(with_copy, file, kernel, no_alias)
    question = LoopFacts(file.source, analysed.body, tile, parts, divergent, file.macros, no_alias)
    refused = (
        legality.check(question)
        or runs_unseen(file, kernel)
        or hidden_addresses(file, analysed, tile, parts)
        or changed_meanings(file, kernel, parts)
        or lost_names(file, tile, parts)
        or asked_types(file, analysed, tile, parts)
        or hidden_names(file, analysed, tile)
    )
    if refused is not None:
        return refused
    layout = missing_layout(file.source, tile) or written_out(file, parts)
    if layout:
        return _again(file, kernel, layout, no_alias)
    copies = Copies(file, tile, parts).classify()
    threads = launch_bound(file, kernel)
    loops = {
        id(i.statement): loop
        for i in parts.loader
        if i.statement.is_loop and (loop := counted(file, i.statement, threads, _call_around(i))) is not None
    }
    meetings = rules_memory.meetings(question)
    fragments = fragment_loop(file, analysed, tile, parts)
    text, asks = questions(file, analysed, tile, parts, copies, loops, fragments, meetings)
    stale = stale_reads(question)
    return Study(
        file, analysed, tile, parts, copies, loops, fragments, meetings, divergent, stale, text, asks
    )


def _again(
    file: CudaFile, kernel: KernelText, edits: tuple[Edit, ...], no_alias: frozenset[str]
) -> Study | Refusal:
    """The kernel as it reads after the edits."""
    return _of(file.edited(edits), file, kernel, no_alias)


def _of(changed: CudaFile, file: CudaFile, kernel: KernelText, no_alias: frozenset[str]) -> Study | Refusal:
    """The kernel as it reads in the changed file."""
    return study(changed, changed.kernels[file.kernels.index(kernel)], no_alias)


def _call_around(item: Item) -> Statement | None:
    """The helper call through which a statement is reached, the innermost one."""
    return next((p for p in reversed(item.parents) if p.kind == "call"), None)


# -- building --------------------------------------------------------------------------------------------------


def build(found: Study, answers: Answers) -> KernelModel | Refusal:
    """The model, with what the compiler said. `answers` is by the keys of `found.asks`; None is unknown.

    TP017 where a load and a store of one array are not proved to stay apart.
    """
    model = _modelled(found, answers)
    return disjoint.settled(model, found.meetings, found.divergent) or model


def _modelled(found: Study, answers: Answers) -> KernelModel:
    found = replace(found, copies=settled(found.file, found.copies, answers))
    threads = _integer(answers.get("threads"))
    loops = {key: _known(loop, threads) for key, loop in found.loops.items()}
    counts: dict[int, Trips] = {}
    for item in found.split.loader:
        loop = loops.get(id(item.statement))
        if loop is None:
            continue
        at = item.statement.span.start
        start = _integer(answers.get(f"start:{at}"))
        if start is not None:
            loop = CountedLoop(**{**loop.__dict__, "low": start, "high": start})
        known = trips(loop, _integer(answers.get(f"bound:{at}")), _integer(answers.get(f"step:{at}")))
        if known is not None:
            counts[id(item.statement)] = known
    buffers = tuple(_buffer(found, symbol, answers) for symbol in staged_arrays(found.tile))
    guarded = _guarded_copies(found)
    loads = tuple(
        _site(item, load.span, guarded.get(item), answers, counts)
        for item in _ordered(found)
        for load in item.own.loads
    )
    static = sum(b.bytes or 0 for b in {b.array: b for b in buffers}.values())
    fragments = found.fragments
    if not isinstance(fragments, str):
        bound, step = (_integer(answers.get(f"groups:{part}")) for part in ("bound", "step"))
        fragments = with_groups(fragments, bound, step)
    return KernelModel(
        found.file, found.analysed.kernel, found.analysed, found.tile, found.split, found.copies, buffers, loads,
        counts, static, threads, fragments, dict(answers), found.one_buffer,
    )  # fmt: skip


def _known(loop: CountedLoop, threads: int | None) -> CountedLoop:
    if threads is not None and loop.high is None and loop.start == "threadIdx.x":
        return CountedLoop(**{**loop.__dict__, "high": threads - 1})
    return loop


def _ordered(found: Study) -> list[Item]:
    return sorted(found.split.loader, key=lambda i: i.order)


def _integer(answer: int | str | None) -> int | None:
    return answer if isinstance(answer, int) else None


def _guarded_copies(found: Study) -> dict[Item, Copy]:
    return {
        c.source_at: c
        for c in found.copies
        if isinstance(c, Copy) and c.guard is not None and c.source_at is c.use.item
    }


def _site(item: Item, at: Span, copy: Copy | None, answers: Answers, counts: Mapping[int, Trips]) -> LoadSite:
    loops = tuple(p for p in item.parents if p.is_loop)
    type_ = answers.get(f"load:{at.start}")
    size = answers.get(f"size:{item.statement.span.start}")
    text = None
    if copy is not None and isinstance(size, int) and size < 4 and copy.replaces is item.statement:
        # `c ? bytes[i] : 0` is an int to C++, so the compiler would widen each byte as it arrives, before the
        # math that should hide the load. With both arms of the element's type it stays a byte.
        type_ = answers.get(f"source:{item.statement.span.start}")
        text = f"({copy.guard}) ? {copy.source} : static_cast<{type_}>({copy.fill or 0})"
    known = type_ if isinstance(type_, str) else None
    return LoadSite(item, at, known, loops, tuple(counts.get(id(p)) for p in loops), text)


def _buffer(found: Study, symbol: Symbol, answers: Answers) -> Buffer:
    array = array_of(found.analysed, symbol)
    reason = ""
    widths: set[int] = set()
    for copy in found.copies:
        if copy.use.buffer != symbol:
            continue
        why = copy.reason if isinstance(copy, NotACopy) else _not_async(found, copy, answers)
        size = _integer(answers.get(f"size:{copy.use.item.statement.span.start}"))
        if why:
            reason = reason or why
        elif size is not None:
            widths.add(size)
    bytes_ = _integer(answers.get(f"array:{array.key[0]}")) if not array.extern else None
    width = min(widths) if widths and not reason else None
    return Buffer(symbol, array, bytes_, width, reason)


def _not_async(found: Study, copy: Copy, answers: Answers) -> str:
    """Why a plain copy cannot be asynchronous as it stands, "" if it can."""
    arrays = (copy.use.buffer, copy.root)
    if any(a is not None and "volatile" in found.file.source.slice(a.decl) for a in arrays):
        return "it is volatile"
    at = copy.use.item.statement.span.start
    size, target, source = (answers.get(f"{k}:{at}") for k in ("size", "type", "source"))
    if not isinstance(size, int) or size not in _ASYNC_BYTES:
        return (
            f"its elements of {size} bytes are too small for cp.async"
            if isinstance(size, int)
            else "size unknown"
        )
    if target is None or source is None:
        return "the types of the copy are not known"
    if target != source:
        return f"the copy converts {source} to {target}"
    align, origin = (answers.get(f"{k}:{at}") for k in ("align", "origin"))
    if not isinstance(align, int) or align < size or (isinstance(origin, int) and origin < size):
        return f"its elements of {size} bytes are not known to lie at multiples of that"
    acting = acting_class(found.file, copy, answers)
    if acting:
        return f"copying a `{acting}` runs code of its own"
    return ""
