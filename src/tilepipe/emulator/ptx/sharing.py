"""Which arrays a kernel may write, and how finely it accesses global memory: what the search for races between
blocks has to watch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tilepipe.emulator.ptx.dataflow import definitions, registers_of
from tilepipe.emulator.ptx.model import Function, Imm, Instruction, Mem, Operand, Reg, Sym, Vec
from tilepipe.emulator.types import TYPES

_ANYWHERE = "*"
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}
_STRONG = ("volatile", "relaxed", "acquire", "release", "acq_rel")
_GPU_SCOPE = ("gpu", "sys", "gl")
_READS_MEMORY = ("ld", "ldu", "atom", "wmma")
_WRITES_MEMORY = ("st", "atom", "red", "wmma")


@dataclass(frozen=True)
class Sharing:
    """What a kernel does to global memory. `written`: the parameters and variables whose memory it may write,
    None where that is not known. `unit`: bytes of the smallest access. `ordered`: it orders its blocks itself
    (fences of the GPU's scope together with atomics), in ways that a look at single accesses cannot judge.
    `leading`: for each PTX line that accesses it the parameters and variables that its address may be made of."""

    written: frozenset[str] | None
    unit: int
    ordered: bool
    leading: Mapping[int, frozenset[str]]


def sharing(function: Function) -> Sharing:
    """Looks at a kernel without calls."""
    instructions = [i for i in function.body if isinstance(i, Instruction)]
    origins = _origins(function, instructions)
    written: set[str] = set()
    leading: dict[int, frozenset[str]] = {}
    unit = 4
    for i in instructions:
        if not _is_global(i):
            continue
        unit = min(unit, _bytes(i))
        reached = (_origins_of(o, origins) for o in i.operands if isinstance(o, Mem))
        leading[i.place.ptx_line] = frozenset[str]().union(*reached)
        if i.op in _WRITES_MEMORY and (i.op != "wmma" or "store" in i.mods):
            memory = next(o for o in i.operands if isinstance(o, Mem))
            found = _origins_of(memory, origins)
            written |= found or {_ANYWHERE}
    fences = any(i.op in ("membar", "fence") and any(m in _GPU_SCOPE for m in i.mods) for i in instructions)
    strong = any(
        _is_global(i) and (i.op in ("atom", "red") or any(m in _STRONG for m in i.mods)) for i in instructions
    )
    known = None if _ANYWHERE in written else frozenset(written)
    return Sharing(known, max(unit, 1), fences and strong, leading)


def _is_global(i: Instruction) -> bool:
    if i.op not in (*_READS_MEMORY, *_WRITES_MEMORY, "cp") or not any(isinstance(o, Mem) for o in i.operands):
        return False
    spaces = {m.partition("::")[0] for m in i.mods} & {"param", "shared", "global", "const", "local"}
    return not spaces or "global" in spaces


def _bytes(i: Instruction) -> int:
    """Bytes of the smallest part that the instruction accesses as one; whole vectors are one access."""
    if i.op == "cp":
        return 4
    kind = TYPES.get(i.mods[-1])
    count = next((_VECTORS[m] for m in i.mods if m in _VECTORS), 1)
    return kind.bytes * count if kind is not None else 1


def _origins(function: Function, instructions: list[Instruction]) -> dict[str, frozenset[str]]:
    """For each register the parameters and variables that its value may be derived from. A 64-bit value read
    from memory may be a pointer to anywhere."""
    origins: dict[str, frozenset[str]] = {}
    changed = True
    while changed:
        changed = False
        for i in instructions:
            found = _result_origin(function, i, origins)
            for register in definitions(i) if found else ():
                old = origins.get(register, frozenset())
                if not found <= old:
                    origins[register] = old | found
                    changed = True
    return origins


def _result_origin(function: Function, i: Instruction, origins: dict[str, frozenset[str]]) -> frozenset[str]:
    if i.op in _READS_MEMORY and not any(m.startswith("param") for m in i.mods):
        wide = any(
            function.registers[r].bits == 64 and function.registers[r].name != "f64"
            for r in definitions(i)
            if r in function.registers
        )
        return frozenset({_ANYWHERE} if wide else ())
    found: frozenset[str] = frozenset()
    for operand in i.operands[1:]:
        found |= _origins_of(operand, origins)
    return found


def _origins_of(operand: Operand, origins: dict[str, frozenset[str]]) -> frozenset[str]:
    if isinstance(operand, Imm):
        return frozenset()
    names = {origin for r in registers_of(operand) for origin in origins.get(r, ())}
    return frozenset(names.union(_symbols(operand)))


def _symbols(operand: Operand) -> Iterator[str]:
    """Names of variables and parameters in an operand; special registers hold no address."""
    if isinstance(operand, Mem):
        yield from _symbols(operand.base)
    elif isinstance(operand, Vec):
        for item in operand.items:
            yield from _symbols(item)
    elif isinstance(operand, Sym) and not isinstance(operand, Reg) and not operand.name.startswith("%"):
        yield operand.name
