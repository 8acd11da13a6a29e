"""Tiles that pointers carve out of a shared array, and what else is carved out of it: proved to stay apart.

    float* t = p;         // a tile: bytes 0 to 1024 of p by every access through t
    float* u = p + 256;   // scratch: from byte 1024 on

A pipeline gives the tile stages and leaves the rest where it is, so no byte may be reached both by way of the tile and
by way of another piece while both are in use. The accesses are followed from the array's name to the bytes that they
may touch (`extents.py`). Pieces that are in use at different times may lie over each other, if the later one reads
nothing but what was written by way of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

from tilepipe.diagnostics import Refusal, refusal
from tilepipe.kernel.bounds import Ranges
from tilepipe.kernel.extents import Extents, Touch
from tilepipe.kernel.mentions import KeepsLayoutError
from tilepipe.kernel.model import Answers, Ask, KernelModel
from tilepipe.kernel.questions import array_of
from tilepipe.kernel.symbols import Symbol

_CURE = (
    "give it an array of its own, or bound the indices by constants; where the two never meet, state --assume "
    "no-alias={}"
)


@dataclass(frozen=True)
class Apart:
    """TP024 where a tile and another piece are not proved to stay apart. `asks` must be answered first where there are
    any."""

    refused: Refusal | None
    asks: tuple[Ask, ...] = ()


def apart(
    model: KernelModel, answers: Answers, block: tuple[int, int, int] | None, no_alias: Set[str]
) -> Apart:
    """Whether the tiles stay apart from all else in their arrays. `answers` by the keys of earlier `asks`, `block` the
    shape of a block, if known; what the names in `no_alias` are pieces of is taken to be apart from all others."""
    asks: dict[str, Ask] = {}
    for array, pieces in _carved(model).items():
        tiles = {b.piece for b in model.buffers if b.array == array}
        others = set(pieces.values()) - tiles
        if not {p for p in others if p.name not in no_alias} or {t.name for t in tiles} <= no_alias:
            continue
        ranges = _ranges(model, answers, block, asks)
        try:
            touches = Extents(model, ranges, array, pieces).found()
        except KeepsLayoutError as why:
            if not asks:
                return Apart(_not_followed(model, array, tiles, str(why)))
            continue
        threads = block is not None or model.max_threads is not None
        refused = next(_meeting(model, touches, tiles, no_alias, threads), None)
        if refused is not None and not asks:
            return Apart(refused)
    return Apart(None, tuple(asks.values()))


def _carved(model: KernelModel) -> Mapping[Symbol, dict[int, Symbol]]:
    """The arrays that tiles lie in, with all pieces of them that are in use: by the offset of the pointer that carves
    one out, the array itself by its own."""
    used = model.analysed.body.effects()
    touched = used.shared_reads() | used.shared_writes()
    found: dict[Symbol, dict[int, Symbol]] = {}
    for buffer in model.buffers:
        within = (p for p in touched if array_of(model.analysed, p) == buffer.array)
        found[buffer.array] = {p.key[0]: p for p in within}
    return found


def _ranges(
    model: KernelModel, answers: Answers, block: tuple[int, int, int] | None, asks: dict[str, Ask]
) -> Ranges:
    at = model.tile.loop.span.start

    def asked(text: str) -> int | None:
        key = f"value:{at}:{text}"
        if key not in answers:
            asks[key] = Ask(key, "value", text, at)
        value = answers.get(key)
        return value if isinstance(value, int) else None

    return Ranges(model.file, model.analysed, model.max_threads, asked, at, block)


def _meeting(
    model: KernelModel, touches: list[Touch], tiles: set[Symbol], no_alias: Set[str], threads: bool
) -> Iterator[Refusal]:
    by_piece: dict[Symbol, list[Touch]] = {}
    for touch in touches:
        by_piece.setdefault(touch.piece, []).append(touch)
    for tile in sorted(tiles & by_piece.keys(), key=lambda s: s.key):
        for piece in sorted(by_piece.keys() - tiles, key=lambda s: s.key):
            if {tile.name, piece.name} & no_alias:
                continue
            met = _met(by_piece[tile], by_piece[piece], threads)
            if met is not None:
                yield _refusal(model, tile, piece, *met)


def _met(tile: list[Touch], other: list[Touch], threads: bool) -> tuple[Touch, Touch] | None:
    """An access by way of each that may touch one byte, where that counts. `threads` says whether the threads of a
    block are known: without, bounds tell little of what scratch reads after the loop, and that it was written is taken
    on trust."""
    met = ((one, two) for two in other for one in tile if one.meets(two))
    if _ends(other) <= _begins(tile):
        return next((m for m in met if not _given(m[0], tile)), None)
    if _ends(tile) <= _begins(other):
        bounded = (m for m in met if threads and m[1].low is not None and m[1].high is not None)
        return next((m for m in bounded if not _given(m[1], other)), None)
    return next(met, None)


def _begins(touches: list[Touch]) -> int:
    return min(t.during.start for t in touches)


def _ends(touches: list[Touch]) -> int:
    return max(t.during.end for t in touches)


def _given(read: Touch, piece: list[Touch]) -> bool:
    """Whether an access reads nothing beyond what is written by way of its piece, as far as the bounds tell."""
    written = [t for t in piece if t.stored and t.low is not None and t.high is not None]
    if read.stored:
        return True
    if read.low is None or read.high is None or not written:
        return False
    return min(t.low or 0 for t in written) <= read.low and read.high <= max(t.high or 0 for t in written)


def _refusal(model: KernelModel, tile: Symbol, piece: Symbol, one: Touch, two: Touch) -> Refusal:
    source, lines = model.file.source, [model.file.source.line_of(t.at.start) for t in (one, two)]
    open_ = next((t for t in (two, one) if t.low is None or t.high is None), None)
    at = open_ or two
    by = f"`{at.piece.name}`"
    label = (
        f"the place by way of {by} has no known bounds"
        if open_ is not None
        else f"bytes {two.low} to {two.high} here; {one.low} to {one.high} by way of `{tile.name}` in line {lines[0]}"
    )
    return refusal(
        "TP024",
        f"the tile `{tile.name}` and `{piece.name}` are pieces of one array, and may touch the same element: a "
        "pipeline gives the tile alone other places",
        source.place(at.at),
        label,
        _CURE.format(piece.name),
    )


def _not_followed(model: KernelModel, array: Symbol, tiles: set[Symbol], why: str) -> Refusal:
    names = ", ".join(f"`{t.name}`" for t in sorted(tiles, key=lambda s: s.key))
    return refusal(
        "TP024",
        f"other pieces of `{array.name}`, where {names} lies, are in use too, and may touch the same element: {why}",
        model.file.source.place(model.tile.loop.span),
        "",
        _CURE.format("NAME"),
    )
