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


def with_padded(plan: Plan, padded: Plan, padding: int) -> Plan:
    """`plan`, and the viable candidates of the plan for the kernel with `padding` bytes more a row. What padding brings
    is not in the time model: they come last."""
    more = tuple(_padded(c, padding) for c in padded.candidates if c.status == "ok")
    order = tuple(c + SUFFIX for c in padded.order)
    return replace(plan, candidates=(*plan.candidates, *more), order=(*plan.order, *order))


def with_padded_passed_over(plan: Plan, padding: int, added: int, why: str) -> Plan:
    """`plan`, and its viable candidates with `padding` bytes more a row, `added` bytes a stage, rejected because of
    `why`: the kernel with padded rows is not looked at."""
    more = tuple(
        replace(
            _padded(c, padding), status="rejected", reason=why, shared_bytes=c.shared_bytes + c.stages * added
        )
        for c in plan.candidates
        if c.status == "ok"
    )
    return replace(plan, candidates=(*plan.candidates, *more))


def _padded(candidate: Candidate, padding: int) -> Candidate:
    return replace(candidate, id=candidate.id + SUFFIX, padding=padding)
