"""The copies of a tile spread over the groups of the tile that is multiplied, instead of issued in one burst."""

from __future__ import annotations

from dataclasses import dataclass

from tilepipe.kernel.copies import Copy
from tilepipe.kernel.model import KernelModel
from tilepipe.rewrite.counted import CountedLoops
from tilepipe.rewrite.wide import Repartition


@dataclass(frozen=True)
class Spread:
    """`shares` has a condition on `tp_part` for each copy, in the model's order; together the parts issue each copy
    of a tile once."""

    shares: tuple[str, ...]
    parts: int


def spread(model: KernelModel, loops: CountedLoops, wide: Repartition, groups: int) -> Spread | str:
    """Deal the copies of a tile out to at most `groups` parts in turn; a reason where they cannot be told apart."""
    if wide.spread:
        return "the copies are dealt to the threads anew"
    copies = [c for c in model.copies if isinstance(c, Copy)]
    stores = [s for s in model.tile.stores if s.buffer in model.tile.staged and s.kind != "compute"]
    if len(copies) != len(stores):
        return "the load phase stores more than copies"
    numbers = []
    total = 0
    for copy in copies:
        number, count = _number(model, copy, loops, wide)
        if count == 0:
            return "the number of copies in a tile is not known at compile time"
        if count == 1:
            numbers.append(str(total))
        else:
            numbers.append(f"({number} + {total})" if total or " " in number else number)
        total += count
    parts = min(groups, total)
    if parts < 2:
        return "a tile is one copy"
    return Spread(tuple(f"{n} % {parts} == tp_part" for n in numbers), parts)


def _number(model: KernelModel, copy: Copy, loops: CountedLoops, wide: Repartition) -> tuple[str, int]:
    """The expression that numbers a copy's iterations, and how many there are: 0 where that is not known."""
    words = "0"
    count = 1
    parents = copy.use.item.parents
    if parents and parents[-1].kind == "if":
        return "", 0  # its `else` would belong to another `if`
    for loop in (p for p in parents if p.is_loop):
        if id(loop) not in model.trips:
            return "", 0
        widened = wide.loops().get(id(loop))
        turns = model.trips[id(loop)].count
        if widened is not None:
            turns = -(-(widened.count // widened.elements) // widened.threads)
        words = loops.number(loop) if count == 1 else f"({words}) * {turns} + {loops.number(loop)}"
        count *= turns
    return words, count
