"""The lines of the main loop that matter, annotated for a reader."""

from __future__ import annotations

from tilepipe.evidence.sass.decode import Instruction
from tilepipe.evidence.sass.flow import find_math
from tilepipe.evidence.sass.measure import LoopFacts
from tilepipe.evidence.sass.scoreboard import groups_left

_WIDTH = 58  # columns of the instruction's text


def excerpt(facts: LoopFacts) -> tuple[str, ...]:
    """Loads, waits, barriers and the first and last math of each run of math in one iteration, in order.

    A line holds the address, the source line where the cubin has line information, the control bits (waits, read
    and write scoreboard, yield, stall), the text and what it is; a line of dots stands for what is left out.
    """
    waits: dict[Instruction, list[int]] = {}
    issued = {}
    for number, load in enumerate(facts.loads, 1):
        issued[load.instruction] = number
        if load.wait is not None:
            waits.setdefault(load.wait, []).append(number)
    work = find_math(facts.trace).work
    lines = []
    run = 0  # math since the last line shown
    pending = ""  # the last math of the run
    for place, step in enumerate(facts.trace.steps):
        instruction = step.instruction
        note = _note(instruction, issued, waits)
        if not note and work[place]:
            weight = work[place] * facts.trace.weight(place)
            if run == 0:
                lines.append(_line(instruction, "first math"))
            else:
                pending = _line(instruction, f"math, {run + weight} since the first")
            run += weight
        if note:
            lines += [line for line in ("    …", pending) if pending]
            lines.append(_line(instruction, note))
            run, pending = (0, "") if not work[place] else (work[place], "")
    lines += [line for line in ("    …", pending) if pending]
    return tuple(lines)


def _note(
    instruction: Instruction, issued: dict[Instruction, int], waits: dict[Instruction, list[int]]
) -> str:
    notes = []
    if instruction in issued:
        kind = "copy" if instruction.opcode == "LDGSTS" else "load"
        notes.append(f"{kind} {issued[instruction]}")
    if instruction in waits:
        notes.append(f"waits for {_numbers(waits[instruction])}")
    if instruction.is_barrier:
        notes.append("block barrier")
    if instruction.opcode == "LDGDEPBAR":
        notes.append("closes the group")
    return ", ".join(notes)


def _numbers(numbers: list[int]) -> str:
    if len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]}–{numbers[-1]}"
    return ", ".join(map(str, numbers))


def _line(instruction: Instruction, note: str) -> str:
    source = f"{instruction.line:>5}  " if instruction.line is not None else ""
    return f"{instruction.address:04x}  {source}{instruction.control}  {instruction.text:<{_WIDTH}}  {note}"


def stalls(facts: LoopFacts) -> dict[str, tuple[int, int]]:
    """The least and the most stall cycles of the loop's loads and of its math, by opcode."""
    loads = {load.instruction for load in facts.loads}
    work = find_math(facts.trace).work
    found: dict[str, tuple[int, int]] = {}
    for place, step in enumerate(facts.trace.steps):
        instruction = step.instruction
        if instruction in loads or work[place]:
            stall = instruction.control.stall
            least, most = found.get(instruction.opcode, (stall, stall))
            found[instruction.opcode] = (min(least, stall), max(most, stall))
    return found


def wait_depths(facts: LoopFacts) -> tuple[int, ...]:
    """How many groups of asynchronous copies each wait of the loop leaves pending, in order."""
    depths = (groups_left(step.instruction) for step in facts.trace.steps)
    return tuple(depth for depth in depths if depth is not None)
