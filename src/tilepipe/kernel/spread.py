"""Copies of any form re-partitioned with proof: one element per thread, blocks of threads in two dimensions, nested
loops, helpers.

`widen.py` keeps a strided loop and lets its index rise by V. Here a copy is a map from (thread, iteration) to its
addresses and guard (`copymap.py`): all its elements are numbered, groups of V neighbours are proved to be moved by one
instruction, and groups are dealt to threads anew. A thread then works out which thread and iteration the first element
of its group belonged to, and evaluates the author's own expressions for these (`redeclared`).

The proof asks for the three conditions of `widen.py`, and that

4. the numbering is one to one: every (thread, iteration) has one number, and no two elements share an address;
5. a variable that is evaluated anew would have had the same value where the author declares it;
6. nothing else writes to the tile while it is loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tilepipe.kernel.copies import Copy
from tilepipe.kernel.copymap import Block
from tilepipe.kernel.model import Answers, Ask, Buffer, KernelModel, Study
from tilepipe.kernel.pointers import SIZES
from tilepipe.kernel.resolve import NotProvedError
from tilepipe.kernel.scopes import Scopes
from tilepipe.kernel.spreader import Spread, Spreader
from tilepipe.kernel.widen import Narrow, body_node, helper_of, maybe_constants


def spread_asks(found: Study) -> tuple[Ask, ...]:
    """Questions for the sizes and constants that copies of other forms than strided loops need."""
    offsets = {a.key.split(":", 1)[1]: a.offset for a in found.asks if a.key.startswith("size:")}
    arrays = {a.key.split(":", 1)[1]: a.offset for a in found.asks if a.key.startswith("array:")}
    declared = [s for st in found.analysed.body.walk() for s in st.declares]
    pointers = [s for s in (*declared, *found.analysed.parameters) if s.pointer and s.type]
    types = sorted({s.type for s in pointers} - SIZES.keys())
    asks: dict[str, Ask] = {}
    # The first copy may stand where nothing is compiled, or in a helper: constants are asked at the tile loop too.
    for name in maybe_constants(found, body_node(found)) if arrays else ():
        asks[f"outer:{name}"] = Ask(f"outer:{name}", "value", name, next(iter(arrays.values())))
    for copy in found.copies:
        at = str(copy.use.item.statement.span.start)
        if not isinstance(copy, Copy) or at not in offsets:
            continue
        called = bool(copy.use.item.statement.context)
        place = offsets[at] if called or not arrays else next(iter(arrays.values()))
        scope = at if called else ""
        for type_ in types:
            key = f"pointee:{scope}:{type_}"
            asks.setdefault(key, Ask(key, "value", f"sizeof({type_})", place))
        for name in maybe_constants(found, helper_of(found, int(at))) if called else ():
            key = f"named:{at}:{name}"
            asks[key] = Ask(key, "value", name, offsets[at])
        buffer = copy.use.buffer
        for rank in range(1, max(buffer.rank, 1) + 1):
            key = f"row:{buffer.key[0]}:{rank}"
            if str(buffer.key[0]) not in arrays:  # else it is asked with the array
                asks.setdefault(key, Ask(key, "value", f"sizeof({buffer.name}{'[0]' * rank})", offsets[at]))
    return tuple(asks.values())


def blocks(model: KernelModel, answers: Answers, launched: Block | None) -> tuple[Block, ...]:
    """Shapes of a block that the kernel may be meant for: the launch's, else what its text suggests. The emitted kernel
    asks for the one taken, so that another costs speed alone."""
    found: list[Block] = [launched] if launched is not None else []
    threads = model.max_threads
    text = model.file.source.slice(model.kernel.span)
    if "threadIdx.y" not in text:
        guesses = [threads] if threads is not None else [_extent(b, answers) for b in model.buffers]
        return tuple(found or dict.fromkeys((n, 1, 1) for n in guesses if 0 < n <= 1024))
    for buffer in model.buffers:
        rows = [answers.get(f"row:{buffer.piece.key[0]}:{rank}") for rank in (1, 2)]
        whole = buffer.bytes
        if isinstance(rows[0], int) and isinstance(rows[1], int) and whole and launched is None:
            guess = (rows[0] // rows[1], threads * rows[1] // rows[0] if threads else whole // rows[0], 1)
            found += [guess] if guess not in found and 0 < guess[0] * guess[1] <= 1024 else []
    return tuple(found or ([(threads, 1, 1)] if threads is not None else []))


def _extent(buffer: Buffer, answers: Answers) -> int:
    """The elements of a tile of one dimension, 0 for others."""
    row = answers.get(f"row:{buffer.piece.key[0]}:1")
    return buffer.bytes // row if isinstance(row, int) and buffer.bytes and buffer.piece.rank == 1 else 0


def spread(
    model: KernelModel, answers: Answers, launched: Block | None, wanted: Iterable[Copy]
) -> list[Spread | Narrow]:
    """For each copy, the widest form with its elements dealt anew, or why there is none."""
    copies = list(wanted)
    unknown = "the number of threads is not known: neither a launch nor __launch_bounds__ says it"
    best: list[Spread | Narrow] = [Narrow(c, unknown) for c in copies]
    scopes = Scopes(model)
    for shape in blocks(model, answers, launched) if copies else ():
        # One shape for all: a kernel has one launch, and asks for one.
        found = _compatible(model, [_proved(model, answers, scopes, c, shape) for c in copies])
        if _widened(found) > _widened(best) or all(
            isinstance(r, Narrow) and r.reason == unknown for r in best
        ):
            best = found
    return best


def _widened(results: list[Spread | Narrow]) -> int:
    return sum(isinstance(r, Spread) for r in results)


def _proved(
    model: KernelModel, answers: Answers, scopes: Scopes, copy: Copy, shape: Block
) -> Spread | Narrow:
    try:
        return Spreader(model, answers, scopes, copy, shape).widest()
    except NotProvedError as failed:
        return Narrow(copy, str(failed))


def _compatible(model: KernelModel, results: list[Spread | Narrow]) -> list[Spread | Narrow]:
    """Those left when the copies into one tile must be dealt anew together."""
    while True:
        good = {id(r.copy): r for r in results if isinstance(r, Spread)}
        changed = False
        for n, result in enumerate(results):
            if isinstance(result, Spread) and (why := _alone(model, result, good)):
                results[n] = Narrow(result.copy, why)
                changed = True
                break
        if not changed:
            return results


def _alone(model: KernelModel, one: Spread, good: Mapping[int, Spread]) -> str:
    """Why a copy cannot be dealt anew given those that can; "" where it can."""
    seen = one.addresses
    for other in model.copies:
        if other is one.copy or other.use.buffer != one.copy.use.buffer:
            continue
        if id(other) not in good:
            return "another copy into the tile stays as it is"
        if good[id(other)].addresses & seen:
            return "two copies write to one place of the tile"
    return ""
