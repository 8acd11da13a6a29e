"""Whether a loader may run past the last tile: no condition asks there whether another tile exists, since the author's
own guards fail for every element of such a tile, so that the copies fill with zero and read nothing.

Of a loop `for (int k = …; k < K; k += step)` with `step` > 0 the loader's own `k` is at least K from the last tile on.
A guard that asks `k + c < K`, or `k + c <= K` with c > 0, fails there for all c >= 0, whatever else it asks: what `&&`
joins fails with one of its parts. That holds of the integers; the sum `k + c` must not leave the type `int`, so K must
lie so far below its end as the loader runs ahead, and so must the start, which may lie beyond K. The stage that such a
tile is put into is one that was consumed, and nobody reads it again.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilepipe.kernel.copies import Copy
from tilepipe.kernel.model import KernelModel
from tilepipe.kernel.resolve import Resolver
from tilepipe.kernel.tileend import header
from tilepipe.kernel.widen import Widened

_INT_MAX = 2**31 - 1


def overrun(model: KernelModel, widened: Sequence[Widened], stages: int) -> tuple[str, ...] | str:
    """The conditions under which a ring's loader may run past the last tile, or why it may not."""
    ends = header(model)
    if ends is None:
        return "the loop's end is no `int` parameter that an `int` counter stays below"
    counter, bound = ends
    names = Resolver(model, model.answers)
    steps = names.steps_of(counter) or []
    step = steps[0].constant if len(steps) == 1 and not model.tile.flow.definers[counter] else None
    if step is None or step[0] <= 0:
        return f"`{counter.name}` does not rise by a number that is known"
    if not names.fixed(bound):
        return f"`{bound.name}` changes"
    start, begin = names.start_of(counter), names.start(counter)
    if start is None or begin is None:
        return f"`{counter.name}` starts at a value that is not followed"
    by_copy = {id(w.copy): w for w in widened}
    above = 0
    for copy in model.copies:
        wide = by_copy.get(id(copy))
        if not isinstance(copy, Copy) or wide is None or wide.past_end is None or copy.fill is not None:
            line = model.file.source.line_of(copy.use.item.statement.span.start)
            return f"nothing keeps the copy in line {line} from reading past the last tile"
        above = max(above, wide.past_end)
    copying = {i for w in widened for i in (w.copy.use.item, w.copy.source_at)}
    if any(i.own.loads or i.own.global_reads() for i in model.split.loader if i not in copying):
        return "the loader reads more than the tiles"
    most = _INT_MAX - (stages * int(step[0]) + above)
    within = (f"{bound.name} >= 0", f"{bound.name} <= {most}")
    if start.constant is not None and int(start.constant[0]) <= most:
        return within
    return (*within, f"({names.text(begin[0])}) <= {most}")
