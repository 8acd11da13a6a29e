"""What must hold before a tile loop may be pipelined: the rules in the order in which they are asked.

Each rule returns None or says why not. They follow the questions of the design.
"""

from __future__ import annotations

from collections.abc import Callable

from tilepipe.diagnostics import Refusal
from tilepipe.kernel.flow import Flow
from tilepipe.kernel.loop_facts import LoopFacts
from tilepipe.kernel.rules_barriers import barriers_separate, barriers_uniform
from tilepipe.kernel.rules_loop import already_pipelined, structure
from tilepipe.kernel.rules_memory import (
    compute_keeps_tiles,
    filled_at_once,
    has_staged,
    loader_is_pure,
    memory_independent,
    not_filled_outside,
)
from tilepipe.kernel.rules_state import (
    calls_can_be_inlined,
    parts_can_be_split,
    state_can_be_copied,
    state_is_named,
)
from tilepipe.kernel.stale import same_elements
from tilepipe.kernel.statements import Statement
from tilepipe.kernel.symbols import Symbol

Rule = Callable[[LoopFacts], Refusal | None]
RULES: tuple[Rule, ...] = (
    structure,
    already_pipelined,
    barriers_uniform,
    has_staged,
    barriers_separate,
    loader_is_pure,
    filled_at_once,
    compute_keeps_tiles,
    not_filled_outside,
    memory_independent,
    state_can_be_copied,
    parts_can_be_split,
    calls_can_be_inlined,
    state_is_named,
    same_elements,
)


def check(question: LoopFacts) -> Refusal | None:
    """The first rule that forbids pipelining, in order."""
    for rule in RULES:
        refused = rule(question)
        if refused is not None:
            return refused
    return None


def divergence(root: Statement) -> frozenset[Symbol]:
    """The divergent symbols of a whole kernel."""
    return Flow([root]).divergent()
