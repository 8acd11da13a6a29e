"""The one tile loop of a kernel, or why there is none to pipeline (TP001–TP003, TP020)."""

from __future__ import annotations

import re

from tilepipe.diagnostics import Refusal, refusal
from tilepipe.kernel.effects import Effects
from tilepipe.kernel.file import Analysed, CudaFile
from tilepipe.kernel.tileloop import TileLoop, mixed_registers, tile_loops
from tilepipe.source import Span

_OURS = re.compile(rb"\b(TP_STAGES|tp_(fetch|store|load))\b")  # in whatever tilepipe writes
_NAMES = re.compile(rb"\btp_\w+")


def the_loop(file: CudaFile, analysed: Analysed) -> TileLoop | Refusal:
    """The loop that fills shared memory and computes on it behind barriers."""
    effects = analysed.body.effects()
    found = tile_loops(analysed.body)
    place = file.source.place(Span(analysed.kernel.body.start, analysed.kernel.body.start + 1))
    if "async" in effects.flags:
        at = next(s for s in analysed.body.walk() if "async" in s.own.flags)
        return refusal(
            "TP002",
            "already software-pipelined: the kernel issues asynchronous copies of its own",
            file.source.place(at.span),
            "asynchronous copy, commit or wait here",
            "hand over the version with one tile and plain loads",
        )
    ours = _OURS.search(file.source.data, analysed.kernel.body.start, analysed.kernel.body.end)
    if ours is not None:
        return refusal(
            "TP002",
            "already software-pipelined: the kernel is an output of tilepipe",
            file.source.place(Span(ours.start(), ours.end())),
            "a name that a pipelined kernel has",
            "hand over the file that it was made from",
        )
    taken = _NAMES.search(file.source.data, analysed.kernel.body.start, analysed.kernel.body.end)
    if taken is not None:
        return refusal(
            "TP020",
            f"`{taken.group().decode()}` is a name that a pipelined kernel may use",
            file.source.place(Span(taken.start(), taken.end())),
            "names with `tp_` are tilepipe's",
            "give it another name",
        )
    if not found:
        reason, remedy = _why_none(file, effects, analysed)
        return refusal("TP001", f"no tile loop in `{analysed.kernel.name}`: {reason}", place, help=remedy)
    if len(found) > 1:
        lines = ", ".join(str(file.source.line_of(t.loop.span.start)) for t in found)
        return refusal(
            "TP003",
            f"`{analysed.kernel.name}` has {len(found)} tile loops (lines {lines}); one is handled",
            file.source.place(Span(found[1].loop.span.start, found[1].loop.span.start + 3)),
            "the second tile loop",
            "split the kernel, or move one of the loops to a kernel of its own",
        )
    return found[0]


_BARRIERS = (
    "put __syncthreads() between filling a tile and computing on it, and at the end of the loop's body"
)


def _why_none(file: CudaFile, effects: Effects, analysed: Analysed) -> tuple[str, str]:
    """Why there is no tile loop, and the edit that would make one ("" where that is another kernel)."""
    shared = {s for statement in analysed.body.walk() for s in statement.declares if s.kind == "shared"}
    barriers = [s for s in analysed.body.walk() if "barrier" in s.own.flags]
    objects = sorted(s.name for s in shared - effects.shared_writes() if not s.rank and not s.pointer)
    if objects and not effects.shared_writes() and any(w.base is None for w in effects.writes):
        reason = f"`{objects[0]}` in shared memory is no array: what is stored to members of an object is not followed"
        return reason, "declare each tile as a `__shared__` array of its own"
    if not barriers:
        if not shared and not effects.shared_writes():
            return "it has neither shared memory nor a barrier", ""
        return "it has shared memory, but no barrier", _BARRIERS
    if not shared and not effects.shared_writes():
        return "it has barriers, but stores nothing to shared memory", ""
    if all(s.context or s.kind == "declaration" for s in barriers):
        reason = (
            "its barriers stand in a function that it calls, and loops of called functions are not pipelined"
        )
        return reason, "write the loop in the kernel itself"
    mixed = next(mixed_registers(analysed.body), None)
    if mixed is not None:
        load, other = (file.source.line_of(s.span.start) for s in (mixed.load, mixed.other))
        return (
            f"`{mixed.symbol.name}` takes loads from global memory (line {load}) and from the tile (line {other})",
            "give each a variable of its own",
        )
    return "no loop both fills shared memory from global memory and computes on it behind barriers", ""
