"""Every copy with its widest legal form: the author's loop with another index, or its elements dealt anew."""

from __future__ import annotations

from tilepipe.kernel.arriving import gone
from tilepipe.kernel.collisions import TWICE
from tilepipe.kernel.copies import Copy
from tilepipe.kernel.copymap import Block
from tilepipe.kernel.model import Answers, KernelModel
from tilepipe.kernel.spread import spread
from tilepipe.kernel.widen import WIDEST, Narrow, Wide, Widened, widen


def repartitioned(model: KernelModel, answers: Answers, block: Block | None) -> tuple[Widened | Narrow, ...]:
    """For every plain copy its widest form, or why it stays narrow. `block` is the shape of the launch's blocks.

    A copy loop that can keep its form does: its text changes least. Tiles into which all copies cannot be widened so
    have theirs dealt anew, if that is wider.
    """
    line = gone(model)
    if line is not None:
        why = f"some threads of a block may leave the kernel in line {line}, and each loads its own elements"
        return tuple(Narrow(r.copy, why) for r in widen(model, answers))
    twice = {b.piece for b in model.buffers if b.reason == TWICE}
    kept = tuple(Narrow(r.copy, TWICE) if r.copy.use.buffer in twice else r for r in widen(model, answers))
    results: list[Widened | Narrow] = [_together(model, r, kept) for r in kept]
    full = {id(r.copy) for r in results if isinstance(r, Widened) and r.bytes == WIDEST}
    short = {r.copy.use.buffer for r in results if id(r.copy) not in full} - twice
    rest: list[Copy] = [r.copy for r in results if r.copy.use.buffer in short]
    anew = {id(s.copy): s for s in spread(model, answers, block, rest)}
    for piece in short:
        mine = [n for n, r in enumerate(results) if r.copy.use.buffer == piece]
        found = [anew[id(results[n].copy)] for n in mine]
        before = [r.bytes if isinstance(r := results[n], Widened) else 0 for n in mine]
        wider = min((s.bytes if isinstance(s, Widened) else 0 for s in found), default=0)
        for n, one in zip(mine, found, strict=True):
            if wider > min(before) or (isinstance(results[n], Narrow) and isinstance(one, Narrow)):
                results[n] = one
    return tuple(results)


def _together(model: KernelModel, one: Wide | Narrow, others: tuple[Wide | Narrow, ...]) -> Widened | Narrow:
    """A copy in the author's loop, which all copies of that loop can share; Narrow where another one cannot."""
    if isinstance(one, Narrow):
        return one
    by_copy = {id(w.copy): w for w in others if isinstance(w, Wide)}
    inside = [by_copy.get(id(c)) for c in model.copies if one.loop in c.use.item.parents]
    same = all(w is not None and (w.index, w.elements) == (one.index, one.elements) for w in inside)
    return one if same else Narrow(one.copy, "another copy of its loop stays as it is")
