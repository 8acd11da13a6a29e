"""A candidate with one half of its work taken out, or with its overlap taken out: what its time is made of.

- `loads`: copies, waits and barriers stay; of each tile every thread reads one byte, and computes nothing.
- `compute`: the stages are filled once; from then on the loader's condition is false, and the same tiles are computed
  on again and again.
- `control`: nothing overlaps. One stage; each tile is loaded as the candidate loads it, waited for, and computed on.

None of them computes what the kernel should: they are timed, and never handed out. The compiler cannot take more out
than is meant: copies, waits and barriers are inline assembly, the one read is volatile, and what is computed is stored
after the loop as ever. The loader's condition is a variable and not a constant, so that the loader keeps its place in
the code and its registers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from tilepipe.kernel.flow import Item
from tilepipe.kernel.model import KernelModel
from tilepipe.plan.types import Candidate
from tilepipe.rewrite.rings import STAGES, Ring
from tilepipe.rewrite.state import LoaderState
from tilepipe.source import Edit

Ablation = Literal["loads", "compute", "control"]
ABLATIONS: tuple[Ablation, ...] = ("loads", "compute", "control")
_WAIT = f"tp_wait<{STAGES} - 2>();"
_FILLING = "tp_filling"


def ablated_candidate(candidate: Candidate, ablation: Ablation) -> Candidate | str:
    """The candidate to emit for an ablation; a reason where the form has none."""
    if candidate.variant not in ("cp_async", "ldg", "mixed", "prefetch"):
        return f"the parts of {candidate.variant} are not taken apart"
    if candidate.api != "ptx":
        return "the parts of a ring in another API than PTX are not taken apart"
    if ablation == "control":
        if candidate.variant != "cp_async":
            return "loads that go through registers are the original's"
        plain = replace(candidate, remedy="" if candidate.remedy == "overrun" else candidate.remedy)
        return replace(plain, stages=1, form="ring", dynamic=False, fragments=False, spread=False)
    if ablation == "loads":
        return replace(candidate, fragments=False, spread=False)
    if ablation == "compute" and candidate.spread:
        # The stages are full once the first turn has loaded its tile whole.
        return replace(candidate, spread=False)
    if ablation == "compute" and candidate.form == "textbook":
        # The textbook's main loop ends by the loader's condition.
        return replace(candidate, form="ring")
    return candidate


def ablated_state(state: LoaderState, ablation: Ablation | None) -> LoaderState:
    """The loader's condition: false once the stages are filled, for `compute`."""
    if ablation != "compute":
        return state
    setup = (*state.setup, f"bool {_FILLING} = true;")
    return replace(state, setup=setup, more=f"{_FILLING} && ({state.more})" if state.more else _FILLING)


def ablated_ring(model: KernelModel, ring: Ring, ablation: Ablation | None) -> Ring:
    """What the loop's body does first, behind the names of its stage."""
    if ablation == "compute":
        return replace(ring, bind=(*ring.bind, f"{_FILLING} = false;"))
    if ablation == "control":
        return replace(ring, bind=(*ring.bind, "tp_wait<0>();", "__syncthreads();"))
    if ablation == "loads":
        seen = (
            f"[[maybe_unused]] const unsigned char tp_seen_{b.name} = "
            f"reinterpret_cast<const volatile unsigned char*>({b.name})[0];"
            for b in model.buffers
        )
        return replace(ring, bind=(*ring.bind, *seen))
    return ring


def ablated_edits(edits: list[Edit], ablation: Ablation | None) -> list[Edit]:
    """Without the wait for a ring of several stages, for `control`."""
    if ablation != "control":
        return edits
    return [Edit(e.span, e.text.replace(_WAIT, "")) for e in edits]


def left_out(model: KernelModel, ablation: Ablation | None) -> frozenset[Item]:
    """The statements of the loop that `loads` takes out: all but what the loop's own course needs."""
    if ablation != "loads":
        return frozenset()
    flow, loop = model.tile.flow, model.tile.loop
    course = loop.condition_effects.uses | loop.update_effects.uses
    roots = [i for i in flow.items if i.own.defs & course and i not in model.split.moved]
    needed = flow.backward([*roots, *flow.exits.get(id(loop), ())])
    return frozenset(i for i in flow.items if i not in needed)
