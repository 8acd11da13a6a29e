"""Where the hardware waits for a load or an asynchronous copy, along a trace.

A load (LDG) is waited for by the first instruction whose wait mask names its scoreboard. A load without one
is covered by that of a later load of its kind, since loads of one kind return in order. Asynchronous copies
(LDGSTS) are closed into groups by LDGDEPBAR; `DEPBAR.LE SB0, n` waits until at most the n newest groups are
pending.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilepipe.evidence.sass.decode import Instruction
from tilepipe.evidence.sass.trace import Trace

_COPY_ROUNDS = 16  # iterations that a group is followed; rings are far shallower
_DEPTH_OPERANDS = 2


@dataclass(frozen=True)
class Wait:
    """The step that waits, and how many iterations after the issue."""

    step: int
    round: int
    issue: int


def wait_for(trace: Trace, issue: int) -> Wait | None:
    """The wait that covers the load or copy at step `issue`; None where the loop has none."""
    if trace.steps[issue].instruction.opcode == "LDGSTS":
        return _wait_for_copy(trace, issue)
    return _wait_for_load(trace, issue)


def _wait_for_load(trace: Trace, issue: int) -> Wait | None:
    load = trace.steps[issue].instruction
    scoreboards = {load.control.write_barrier} - {None}
    newer = 0  # later loads on the same scoreboard
    groups = any(step.instruction.opcode == "LDGDEPBAR" for step in trace.steps)
    for place, turn in trace.cycle(issue, 2):
        instruction = trace.steps[place].instruction
        if any(instruction.control.waits_for(scoreboard) for scoreboard in scoreboards):
            return Wait(place, turn, issue)
        depth = None if groups else _scoreboard_depth(instruction)
        if depth is not None and depth[0] in scoreboards and newer >= depth[1]:
            return Wait(place, turn, issue)
        if instruction.opcode == load.opcode and instruction.control.write_barrier is not None:
            if load.control.write_barrier is None:
                scoreboards.add(instruction.control.write_barrier)
            newer += instruction.control.write_barrier in scoreboards
    return None


def _wait_for_copy(trace: Trace, issue: int) -> Wait | None:
    groups = None  # groups closed since the copy's own one, None while that is open
    for place, turn in trace.cycle(issue, _COPY_ROUNDS):
        instruction = trace.steps[place].instruction
        if instruction.opcode == "LDGDEPBAR":
            groups = 0 if groups is None else groups + trace.weight(place)
        depth = _scoreboard_depth(instruction)
        if depth is not None and depth[0] == 0 and groups is not None and groups >= depth[1]:
            return Wait(place, turn, issue)
    return None


def _scoreboard_depth(instruction: Instruction) -> tuple[int, int] | None:
    """(scoreboard, n) of `DEPBAR.LE SBk, n`."""
    operands = instruction.operands
    if instruction.opcode != "DEPBAR" or "LE" not in instruction.modifiers or len(operands) < _DEPTH_OPERANDS:
        return None
    return int(operands[0].removeprefix("SB")), int(operands[1], 0)


def groups_left(instruction: Instruction) -> int | None:
    """The groups of copies that a wait for them leaves pending; None for all other instructions."""
    depth = _scoreboard_depth(instruction)
    return depth[1] if depth is not None and depth[0] == 0 else None
