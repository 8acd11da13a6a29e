"""Data flow along a trace: what comes from memory, what goes to shared memory, and where the math is."""

from __future__ import annotations

from dataclasses import dataclass

from tilepipe.evidence.sass.decode import Instruction
from tilepipe.evidence.sass.registers import reads, store_data, writes
from tilepipe.evidence.sass.trace import Trace

SHARED_LOADS = frozenset({"LDS", "LDSM"})
_DATA_LOADS = frozenset({"LDG", "LD", "LDL"}) | SHARED_LOADS
_LOADS = frozenset({"LDC", "LDCU", "ULDC", "ATOM", "ATOMG", "ATOMS"}) | _DATA_LOADS
_TENSOR = frozenset({"HMMA", "IMMA", "DMMA", "BMMA", "QMMA", "OMMA"})
_SCALAR = frozenset(
    {"FFMA", "FMUL", "FADD", "DFMA", "DMUL", "DADD", "HFMA2", "HMUL2", "HADD2", "MUFU", "IDP"}
)
_ADDS = frozenset({"FADD", "HADD2"})
_PACKED = frozenset({"FFMA2", "FMUL2", "FADD2"})  # two single-precision operations
# Units that take several cycles for a warp: tensor and special ones, double precision (2 to 64 by architecture).
SLOW = _TENSOR | {"DFMA", "DMUL", "DADD", "MUFU"}
_SUMS = _SCALAR | _PACKED | {"IMAD", "IADD3", "IADD", "VIADD"}
_MOVES = _LOADS | {
    "MOV", "UMOV", "SEL", "STS", "STG", "STL", "SHFL", "PRMT", "R2UR", "LDGSTS", "BAR", "BRA", "NOP",
}  # fmt: skip


def derived(trace: Trace, sources: frozenset[str], carried: bool = True) -> list[bool]:
    """For each step, whether it reads something that comes from a load whose opcode is in `sources`, through
    any number of other instructions, also of the iteration before where `carried`."""
    tainted: set[str] = set()
    marks = [False] * len(trace.steps)
    for _ in range(1 + carried):  # the second round sees what the back edge carries
        for index, step in enumerate(trace.steps):
            instruction = step.instruction
            if instruction.never_runs:
                continue
            marks[index] = bool(reads(instruction) & tainted)
            carries = instruction.opcode in sources or (marks[index] and instruction.opcode not in _LOADS)
            if carries:
                tainted |= writes(instruction)
            elif instruction.guard is None:
                tainted -= writes(instruction)
    return marks


def reaches_shared_store(trace: Trace, index: int) -> bool:
    """Whether a loaded value is stored to shared memory within the next iteration, converted perhaps, but not
    summed up on the way."""
    live = set(writes(trace.steps[index].instruction))
    for place, _ in trace.cycle(index, 1):
        instruction = trace.steps[place].instruction
        if instruction.opcode == "STS" and store_data(instruction) & live:
            return True
        results = writes(instruction)
        adds = instruction.opcode in _SUMS and bool(results & (reads(instruction) - live))
        summed = instruction.opcode in _TENSOR or adds
        if reads(instruction) & live and instruction.opcode not in _LOADS and not summed:
            live |= results
        elif instruction.guard is None:
            live -= results
        if not live:
            return False
    return False


@dataclass(frozen=True)
class Math:
    """Math operations of each step of a trace. `all` are the floating-point, tensor and dot-product
    operations on loaded data (which leaves out constants moved through the floating-point pipe and address
    arithmetic). `work` is what a tile's compute is measured by: its tensor operations if it has any, else its
    operations on data from shared memory, else all integer arithmetic on such data, which locates the work
    but does not count it (`counted` is then false), since it shares its opcodes with addresses."""

    all: list[int]
    work: list[int]
    counted: bool


def find_math(trace: Trace) -> Math:
    """The math of a trace."""
    code = [step.instruction for step in trace.steps]
    on_loaded = derived(trace, _DATA_LOADS)
    on_shared = derived(trace, SHARED_LOADS | {"LDL"})
    everything = [_operations(i) if used else 0 for i, used in zip(code, on_loaded, strict=True)]
    tensor = [int(i.opcode in _TENSOR) for i in code]
    shared = [n if used else 0 for n, used in zip(everything, on_shared, strict=True)]
    for work in (tensor, shared):
        if any(work):
            return Math(everything, work, True)
    return Math(
        everything, [int(used and _computes(i)) for i, used in zip(code, on_shared, strict=True)], False
    )


def arithmetic(trace: Trace) -> list[int]:
    """Operations of each step on loaded data, the integer ones on a tile's data too: no less than its math.

    What the iteration before left in a register that is written under a guard only, an address say, is no such data.
    """
    code = [step.instruction for step in trace.steps]
    on_loaded = derived(trace, _DATA_LOADS)
    on_shared = derived(trace, SHARED_LOADS | {"LDL"}, carried=False)
    return [
        max(_operations(i) if loaded else 0, int(shared and _computes(i)))
        for i, loaded, shared in zip(code, on_loaded, on_shared, strict=True)
    ]


def _computes(instruction: Instruction) -> bool:
    return instruction.opcode not in _MOVES and "MOV" not in instruction.modifiers


def _operations(instruction: Instruction) -> int:
    if instruction.opcode in _PACKED:
        return 2
    if instruction.opcode in _ADDS and any("RZ" in operand for operand in instruction.operands[1:]):
        return 0  # adding zero is how a value is moved, negated or widened
    return int(instruction.opcode in _SCALAR or instruction.opcode in _TENSOR)
