"""Which registers an instruction writes and reads, and which are live after it."""

from __future__ import annotations

from collections.abc import Iterator

from tilepipe.emulator.ptx.model import Function, Instruction, Label, Mem, Operand, Reg, Sym, Unsupported, Vec

# The carry of add.cc, sub.cc and mad.cc: one hidden predicate.
CARRY = "%carry"

_NO_RESULT = frozenset(
    [
        "st",
        "bra",
        "brx",
        "ret",
        "exit",
        "bar",
        "barrier",
        "cp",
        "membar",
        "fence",
        "red",
        "trap",
        "nanosleep",
        "prefetch",
        "prefetchu",
        "brkpt",
        "discard",
        "applypriority",
        "griddepcontrol",
        "pmevent",
        "stmatrix",
    ]
)
_NO_RESULT_FORMS = ("wmma.store", "mbarrier.init", "mbarrier.inval", "bar.warp")


def registers_of(operand: Operand) -> Iterator[str]:
    """Names of the registers in an operand."""
    if isinstance(operand, Reg):
        if operand.name:
            yield operand.name
    elif isinstance(operand, Mem):
        yield from registers_of(operand.base)
    elif isinstance(operand, Vec):
        for item in operand.items:
            yield from registers_of(item)


def has_result(i: Instruction) -> bool:
    """Whether operand 0 is written."""
    if i.op in ("bar", "barrier") and "red" in i.mods:
        return True
    return i.op not in _NO_RESULT and not i.text.startswith(_NO_RESULT_FORMS)


def definitions(i: Instruction) -> set[str]:
    """Registers that the instruction may write."""
    found: set[str] = set()
    if has_result(i) and i.operands and not isinstance(i.operands[0], Mem):
        found.update(registers_of(i.operands[0]))
    if "cc" in i.mods:
        found.add(CARRY)
    return found


def uses(i: Instruction) -> set[str]:
    """Registers that it reads; a guarded write keeps the old value, so it reads what it writes."""
    defined = definitions(i)
    found: set[str] = set(defined) if i.guard else set()
    start = 1 if defined - {CARRY} else 0
    for operand in i.operands[start:]:
        found.update(registers_of(operand))
    if i.guard:
        found.add(i.guard.name)
    if i.op in ("addc", "subc", "madc"):
        found.add(CARRY)
    return found


def live_after(function: Function) -> list[set[str]]:
    """For each position of the body, the registers live just after it."""
    body = function.body
    index = {name: n for n, name in enumerate([*function.registers, CARRY])}
    labels = {item.name: n for n, item in enumerate(body) if isinstance(item, Label)}

    def mask(names: set[str]) -> int:
        bits = 0
        for name in names:
            bits |= 1 << index[name]
        return bits

    defined = [mask(definitions(i)) if isinstance(i, Instruction) and not i.guard else 0 for i in body]
    used = [mask(uses(i)) if isinstance(i, Instruction) else 0 for i in body]
    successors = [_successors(body, n, labels) for n in range(len(body))]
    before = [0] * (len(body) + 1)
    after = [0] * len(body)
    changed = True
    while changed:
        changed = False
        for n in range(len(body) - 1, -1, -1):
            out = 0
            for s in successors[n]:
                out |= before[s]
            after[n] = out
            into = (out & ~defined[n]) | used[n]
            if into != before[n]:
                before[n] = into
                changed = True
    names = list(index)
    return [_names(bits, names) for bits in after]


def _names(bits: int, names: list[str]) -> set[str]:
    found = set()
    while bits:
        low = bits & -bits
        found.add(names[low.bit_length() - 1])
        bits ^= low
    return found


def _successors(body: list[Instruction | Label], n: int, labels: dict[str, int]) -> tuple[int, ...]:
    item = body[n]
    if isinstance(item, Label):
        return (n + 1,)
    if item.op == "bra":
        target = item.operands[0]
        if not isinstance(target, Sym) or target.name not in labels:
            raise Unsupported("a branch to an unknown label", item.place.ptx_line)
        return (labels[target.name], n + 1) if item.guard else (labels[target.name],)
    if item.op in ("ret", "exit", "trap") and not item.guard:
        return ()
    return (n + 1,)
