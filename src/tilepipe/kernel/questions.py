"""Questions for the compiler: sizes, types and bounds that the model of a loop needs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tilepipe.kernel.acting import objects_of
from tilepipe.kernel.copies import Copy, NotACopy
from tilepipe.kernel.file import Analysed, CudaFile
from tilepipe.kernel.fills import fill_asks
from tilepipe.kernel.flow import Item
from tilepipe.kernel.fragments import FragmentLoop
from tilepipe.kernel.launchbounds import launch_bound_text
from tilepipe.kernel.loader import Split
from tilepipe.kernel.meetings import Meeting, sizes_wanted
from tilepipe.kernel.slots import slot_questions
from tilepipe.kernel.statements import Statement
from tilepipe.kernel.symbols import Symbol
from tilepipe.kernel.tileloop import TileLoop
from tilepipe.kernel.trips import CountedLoop
from tilepipe.kernel.varying import is_varying, varying_names
from tilepipe.source import Edit, Span, apply_edits

_CONSTEXPR = re.compile(r"if\s+constexpr\b")


Kind = Literal["value", "type", "plain", "blank"]


@dataclass(frozen=True)
class Ask:
    """A question for the compiler; `offset` is a statement boundary of `the text that comes with it`."""

    key: str
    kind: Kind
    expression: str
    offset: int


def questions(
    file: CudaFile,
    analysed: Analysed,
    tile: TileLoop,
    parts: Split,
    copies: tuple[Copy | NotACopy, ...],
    loops: Mapping[int, CountedLoop],
    fragments: FragmentLoop | str,
    meetings: tuple[Meeting, ...],
) -> tuple[str, tuple[Ask, ...]]:
    """What the compiler must be asked about a loop, and the text to ask it in (with braces around unbraced bodies)."""
    wanted: dict[str, tuple[Kind, str, int]] = {}
    for copy in copies:
        at, asked_at = copy.use.item.statement.span.start, _place(file, copy.use.item)
        if copy.use.store is not None and not copy.use.store.in_macro:
            target = file.source.slice(copy.use.store.left)
            wanted[f"size:{at}"] = ("value", f"sizeof({target})", asked_at)
            # `alignof` would tell of the type: members of packed structs lie anywhere.
            wanted[f"align:{at}"] = ("value", f"__alignof__({target})", asked_at)
            wanted[f"type:{at}"] = ("type", target, asked_at)
            wanted[f"plain:{at}"] = ("plain", target, asked_at)
        for key, (kind, expression) in fill_asks(copy).items():
            wanted[key] = (kind, expression, asked_at)
        if isinstance(copy, Copy):
            source_at = _place(file, copy.source_at)
            wanted[f"source:{at}"] = ("type", copy.source, source_at)
            wanted[f"origin:{at}"] = ("value", f"__alignof__({copy.source})", source_at)
            if copy.held is not None:
                wanted[f"held:{at}"] = ("type", copy.held[0], asked_at)
                wanted[f"loaded:{at}"] = ("type", copy.held[1], source_at)
            for number, whole in enumerate(objects_of(copy.source)):
                wanted[f"type:{at}:{number}"] = ("type", whole, source_at)
                wanted[f"plain:{at}:{number}"] = ("plain", whole, source_at)
    loader = sorted(parts.loader, key=lambda i: i.order)  # a fixed order, since the cache knows answers by it
    for item in loader:
        for load in item.own.loads:
            wanted[f"load:{load.span.start}"] = ("type", file.source.slice(load.span), _place(file, item))
    wanted.update(slot_questions(file, loader))
    for item in loader:
        loop = loops.get(id(item.statement))
        if loop is not None:
            at, asked_at = item.statement.span.start, _place(file, item)
            wanted[f"bound:{at}"] = ("value", loop.bound_question, asked_at)
            wanted[f"step:{at}"] = ("value", loop.step_question, asked_at)
            wanted[f"start:{at}"] = ("value", loop.start, asked_at)
    if not isinstance(fragments, str):
        at = fragments.loop.span.start
        wanted["groups:bound"] = ("value", fragments.counted.bound_question, at)
        wanted["groups:step"] = ("value", fragments.counted.step_question, at)
    for array in {array_of(analysed, piece): None for piece in staged_arrays(tile)}:
        if not array.extern:
            at = array.decl.end if array.decl.start > tile.loop.span.start else tile.loop.span.start
            for rank in range(array.rank + 1):
                key = f"row:{array.key[0]}:{rank}" if rank else f"array:{array.key[0]}"
                wanted[key] = ("value", f"sizeof({array.name}{'[0]' * rank})", at)
    for key, expression, at in sizes_wanted(file, analysed, meetings):
        wanted[key] = ("value", expression, at)
    for pointer in _carving(analysed, tile):
        first = pointer.name + ("[0]" * max(pointer.rank, 1))
        wanted[f"pointee:{pointer.key[0]}"] = ("value", f"sizeof({first})", tile.loop.span.start)
    for found, at in _left_to_values(analysed, tile):
        wanted[f"auto:{found.key[0]}"] = ("type", found.name, at)
    kernel = analysed.kernel
    bound = launch_bound_text(file, kernel)
    if bound is not None:
        wanted["threads"] = ("value", bound, kernel.body.start + 1)
    varying = varying_names(file, analysed)
    wanted = {k: w for k, w in wanted.items() if w[0] != "value" or not is_varying(w[1], varying)}
    braces = _needed_braces(tile, {offset for _, _, offset in wanted.values()})
    text = apply_edits(file.source.text, braces)
    asks = tuple(Ask(key, kind, text_, _shifted(at, braces)) for key, (kind, text_, at) in wanted.items())
    return text, asks


def _left_to_values(analysed: Analysed, tile: TileLoop) -> list[tuple[Symbol, int]]:
    """The kernel's variables whose types their values decide, with a place where each is visible."""
    found = []
    for statement in analysed.body.walk():
        for declared in statement.declares if not statement.context else ():
            if "auto" not in declared.type.split() or declared.kind == "lambda":
                continue
            if statement.kind == "declaration":
                found.append((declared, statement.span.end))
            elif statement is tile.loop and statement.children[0].kind == "block":
                found.append((declared, statement.children[0].span.start + 1))
    return sorted(found, key=lambda f: f[0].key)


def _place(file: CudaFile, item: Item) -> int:
    """Where to ask about a statement: before it, and before every `if constexpr` around it whose names it does not
    use, since a discarded arm is never compiled."""
    at = item.statement.span.start
    for outer in reversed(item.parents):
        if outer.kind == "if" and _CONSTEXPR.match(file.source.slice(outer.span)):
            inside = {s for inner in outer.walk() for s in inner.declares} - item.statement.declares
            if inside & item.own.uses:
                break
            at = outer.span.start
    return at


def staged_arrays(tile: TileLoop) -> tuple[Symbol, ...]:
    """The shared arrays, or pieces of them, that the load phase fills, in source order."""
    found = {s.buffer for s in tile.stores if s.buffer in tile.staged}
    return tuple(sorted(found, key=lambda s: s.key))


def _carving(analysed: Analysed, tile: TileLoop) -> list[Symbol]:
    """Shared arrays that tiles are carved out of, and the pointers into them: what these count in. An array of several
    dimensions counts in rows."""
    carved = {array for s in staged_arrays(tile) if (array := array_of(analysed, s)).extern or array != s}
    decls = {array.decl for array in carved}
    carving = {
        p
        for p, to in analysed.points.items()
        if any(t.decl in decls for t in to)
        and p.key[1] == ()
        and p.key[0] < tile.loop.span.start
        and not p.reference
    }
    return sorted({s for s in carved | carving if s.rank <= 1}, key=lambda s: s.key)


def _needed_braces(tile: TileLoop, offsets: set[int]) -> list[Edit]:
    """Braces around unbraced bodies that hold a question, so that it can stand before the statement."""
    edits: dict[tuple[int, int], Edit] = {}  # by where the body begins: several may end at one place
    for item in tile.flow.items:
        statement = item.statement
        if not statement.is_loop and statement.kind != "if":
            continue
        for child in statement.children:
            if child.kind not in ("block", "call") and child.span.start in offsets | _starts(child, offsets):
                start, end = child.span.start, child.span.end
                edits[(start, end)] = Edit(Span(start, start), "{")
                edits[(start, -end)] = Edit(Span(end, end), "}")
    return list(edits.values())


def _starts(child: Statement, offsets: set[int]) -> set[int]:
    return {child.span.start} if child.span.start in offsets else set()


def _shifted(offset: int, edits: list[Edit]) -> int:
    """Where a boundary of the file lies in the braced text: after the braces that open there."""
    shift = 0
    for edit in edits:
        at = edit.span.start
        if at < offset or (at == offset and edit.text == "{"):
            shift += 1
    return offset + shift


def array_of(analysed: Analysed, piece: Symbol) -> Symbol:
    """The declared array that a carved piece lies in; an array itself otherwise."""
    return analysed.carved.get(piece, piece)
