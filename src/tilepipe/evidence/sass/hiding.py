"""Whether a tile has enough math to hide its loads at all, wherever in the loop that math stands.

Math that runs under a load saves at most the time that the math itself takes. Where that is next to nothing beside
the latency of a load, the place of the loads in the text tells nothing about time: such a loop waits for memory in
any order, and what a ring may gain there comes from more loads in flight.
"""

from __future__ import annotations

from tilepipe.evidence.sass.flow import SLOW, arithmetic
from tilepipe.evidence.sass.measure import LoopFacts
from tilepipe.gpu import LOAD_LATENCY_CYCLES, SCHEDULERS, WARP

# The largest gain that is not called overlap: interleaved timings of one kernel on an otherwise idle H200 spread by
# up to 4 % (docs/measurements.md), so that it could hardly be told from noise.
_NOTICEABLE = 0.05


def hides_nothing(facts: LoopFacts, threads: int) -> str | None:
    """Says so where the math of a tile, by a block of `threads`, takes less than a twentieth of a load's latency.

    Only the block's own warps count: the math of other resident blocks runs under its loads without a pipeline, too.
    Each instruction is one issue cycle of its scheduler, integer ones on the tile's data included. Math on slower
    units, or in inner loops whose trips are unknown, may take long and is left alone.
    """
    marks = arithmetic(facts.trace)
    used = [k for k, mark in enumerate(marks) if mark]
    slow = any(facts.trace.steps[k].instruction.opcode in SLOW for k in used)
    if slow or not facts.trace.is_certain(used):
        return None
    most = sum(marks[k] * facts.trace.weight(k) for k in used) / (facts.tiles or 1)
    warps = -(-threads // (WARP * SCHEDULERS))
    if most * warps >= _NOTICEABLE * LOAD_LATENCY_CYCLES:
        return None
    count = facts.math_per_tile or most
    return (
        f"{count:g} math instructions a tile, which {threads} threads issue in {count * warps:g} cycles, hide next to "
        f"nothing of the {LOAD_LATENCY_CYCLES} of a load: overlap cannot be told from this loop, timing decides"
    )
