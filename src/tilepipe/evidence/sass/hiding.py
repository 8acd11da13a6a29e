"""Whether there is enough to run under a load at all, wherever in the loop it stands.

Math that runs under a load saves at most the time that the math itself takes. Where that is next to nothing beside
the latency of a load, the place of the loads in the text tells nothing about time: such a loop waits for memory in
any order, and what a ring may gain there comes from more loads in flight. And where the window between a load and
its wait is short, the warps of other blocks have to fill the rest of the latency, as they did for the original.
"""

from __future__ import annotations

from collections.abc import Sequence

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


def hides_less(cycles: Sequence[int], warps: int, warps_original: int) -> str | None:
    """Says so where a pipeline has fewer resident warps than its original and cannot do without them.

    `cycles` are the issue cycles of one warp between each load and its wait, the warps those of an SM. All warps of a
    scheduler together issue for at least so long before the first of them is at its wait again; where that is less
    than the latency of a load, the rest is waited for. Without a pipeline warps wait for all of the latency, but more
    of them take turns: the text does not tell which of the two waits longer.
    """
    if not cycles or warps >= warps_original:
        return None
    hidden = min(cycles) * warps / SCHEDULERS
    if hidden >= LOAD_LATENCY_CYCLES:
        return None
    return (
        f"{warps} warps are resident of the original's {warps_original}, and {min(cycles)} cycles from load to wait, "
        f"{hidden:g} with all warps of a scheduler, hide only a part of the {LOAD_LATENCY_CYCLES} of a load: "
        "overlap cannot be told from this loop, timing decides"
    )
