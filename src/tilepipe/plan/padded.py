"""A plan's candidates once more, on tiles with padded rows."""

from __future__ import annotations

from dataclasses import replace

from tilepipe.plan.candidates import base_id
from tilepipe.plan.types import Candidate, Plan

SUFFIX = "-pad"


def without_padding(identifier: str) -> str | None:
    """The id of the same candidate with the layout kept, None where it keeps the layout already."""
    base, remedy, blocks = base_id(identifier)
    if not base.endswith(SUFFIX):
        return None
    return base.removesuffix(SUFFIX) + (f"-{remedy}" if remedy else "") + (f"-b{blocks}" if blocks else "")


def with_padded(plan: Plan, padded: Plan, padding: int, kept_because: str) -> Plan:
    """`plan`, and the viable candidates of the plan for the kernel with `padding` bytes more a row. What padding brings
    is not in the time model: they come last, and are passed over where `kept_because` says why."""
    viable = [c for c in padded.candidates if c.status == "ok"]
    more = tuple(_padded(c, padding, kept_because) for c in viable)
    order = () if kept_because else tuple(c + SUFFIX for c in padded.order)
    return replace(plan, candidates=(*plan.candidates, *more), order=(*plan.order, *order))


def _padded(candidate: Candidate, padding: int, kept_because: str) -> Candidate:
    named = replace(candidate, id=candidate.id + SUFFIX, padding=padding)
    return replace(named, status="rejected", reason=kept_because) if kept_because else named
