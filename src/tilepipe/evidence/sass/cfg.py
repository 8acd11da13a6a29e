"""Control-flow graph, dominators and natural loops of a function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilepipe.evidence.sass.decode import Function, Instruction

_ENDS = frozenset(("EXIT", "RET", "KILL"))
_CALL_SETUP = 24  # instructions before a call among which its return address is set
_JUMPS = frozenset(("BRA", "BRX", "JMP", "JMX"))


@dataclass(frozen=True)
class Block:
    """A straight run of instructions, `first` … `last` as indices into the function; `successors` are indices
    of blocks, fall-through first."""

    first: int
    last: int
    successors: tuple[int, ...]


@dataclass(frozen=True)
class Loop:
    """A natural loop: the blocks that reach one of `latches` without passing `header`. `parent` is the header
    of the smallest loop around it, None for an outermost one."""

    header: int
    blocks: frozenset[int]
    latches: tuple[int, ...]
    parent: int | None = None


@dataclass(frozen=True)
class Graph:
    """Blocks of a function in address order, their immediate dominators (None for the entry and for blocks
    that cannot be reached), and the natural loops by header. `irreducible` tells that a cycle has a second
    entry, so that `loops` does not describe it."""

    function: Function
    blocks: tuple[Block, ...]
    dominators: tuple[int | None, ...]
    loops: Mapping[int, Loop]
    irreducible: bool

    def code(self, block: int) -> tuple[Instruction, ...]:
        """The instructions of a block."""
        span = self.blocks[block]
        return self.function.instructions[span.first : span.last + 1]

    def dominates(self, above: int, below: int) -> bool:
        """Whether every path from the entry to block `below` passes block `above`."""
        walk: int | None = below
        while walk is not None and walk != above:
            walk = self.dominators[walk]
        return walk == above

    def children(self, loop: Loop) -> list[Loop]:
        """The loops directly inside a loop."""
        return [inner for inner in self.loops.values() if inner.parent == loop.header]

    def nest(self, block: int) -> list[Loop]:
        """The loops around a block, innermost first."""
        around = [loop for loop in self.loops.values() if block in loop.blocks]
        return sorted(around, key=lambda loop: len(loop.blocks))


def build_graph(function: Function) -> Graph:
    """The graph of a function; of one without instructions, an empty graph."""
    blocks = _blocks(function.instructions)
    order = _reverse_postorder(blocks)
    dominators = _immediate_dominators(blocks, order)
    graph = Graph(function, blocks, dominators, {}, False)
    position = {block: place for place, block in enumerate(order)}
    back_edges: dict[int, list[int]] = {}
    irreducible = False
    for block in order:
        for successor in blocks[block].successors:
            if graph.dominates(successor, block):
                back_edges.setdefault(successor, []).append(block)
            elif position[successor] <= position[block]:
                irreducible = True
    loops = _nested([_natural_loop(blocks, header, latches) for header, latches in back_edges.items()])
    return Graph(function, blocks, dominators, loops, irreducible)


def _blocks(code: tuple[Instruction, ...]) -> tuple[Block, ...]:
    if not code:
        return ()
    at = {instruction.address: index for index, instruction in enumerate(code)}
    leaders = {0}
    for index in range(len(code)):
        following = _next(code, at, index)
        if following != [index + 1]:
            leaders.add(index + 1)
            leaders.update(target for target in following if target < len(code))
    starts = sorted(leader for leader in leaders if leader < len(code))
    block_of = {start: number for number, start in enumerate(starts)}
    ends = [*(start - 1 for start in starts[1:]), len(code) - 1]
    return tuple(
        Block(start, end, tuple(block_of[i] for i in _next(code, at, end) if i in block_of))
        for start, end in zip(starts, ends, strict=True)
    )


def _next(code: tuple[Instruction, ...], at: Mapping[int, int], index: int) -> list[int]:
    """Where control goes after an instruction, as indices: the next one and the branch targets.

    BSSY only names the place where its BSYNC reconverges, which is the instruction behind that BSYNC. A CALL
    comes back, except where the compiler uses it as a long jump.
    """
    instruction = code[index]
    if instruction.opcode in _ENDS:
        return [index + 1] if _conditional(instruction) else []
    jumps = instruction.opcode in _JUMPS or (instruction.opcode == "CALL" and not _returns(code, index))
    if jumps or (instruction.opcode == "WARPSYNC" and instruction.targets):
        targets = [at[target] for target in instruction.targets if target in at]
        falls_through = instruction.opcode == "WARPSYNC" or _conditional(instruction)
        return list(dict.fromkeys([index + 1, *targets] if falls_through else targets))
    return [index + 1]


def _returns(code: tuple[Instruction, ...], index: int) -> bool:
    """Whether the return address of a call, that of the instruction behind it, is put into a register shortly
    before; a call out of the function returns too."""
    call = code[index]
    behind = f"{call.address + 16:#x}"
    return not call.targets or any(behind in i.operands for i in code[max(0, index - _CALL_SETUP) : index])


def _conditional(instruction: Instruction) -> bool:
    """By its guard, or by an operand before the label (`BRA.U !UP0, …`, `BRA.DIV UR4, …`)."""
    if instruction.guard not in (None, "PT", "UPT"):
        return True
    if instruction.opcode == "BRA":
        return len(instruction.operands) > 1 and instruction.operands[0] not in ("PT", "UPT")
    return instruction.opcode in _ENDS and any(p.lstrip("!").startswith("P") for p in instruction.operands)


def _reverse_postorder(blocks: tuple[Block, ...]) -> list[int]:
    if not blocks:
        return []
    order: list[int] = []
    seen = {0}
    stack = [(0, iter(blocks[0].successors))]
    while stack:
        block, rest = stack[-1]
        for successor in rest:
            if successor not in seen:
                seen.add(successor)
                stack.append((successor, iter(blocks[successor].successors)))
                break
        else:
            order.append(block)
            stack.pop()
    return order[::-1]


def _immediate_dominators(blocks: tuple[Block, ...], order: list[int]) -> tuple[int | None, ...]:
    """Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm"."""
    position = {block: place for place, block in enumerate(order)}
    predecessors: dict[int, list[int]] = {block: [] for block in order}
    for block in order:
        for successor in blocks[block].successors:
            predecessors[successor].append(block)
    found: dict[int, int] = {0: 0} if order else {}
    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            known = [p for p in predecessors[block] if p in found]
            best = known[0]
            for other in known[1:]:
                while other != best:
                    if position[other] > position[best]:
                        other = found[other]  # noqa: PLW2901 - walks up the tree
                    else:
                        best = found[best]
            if found.get(block) != best:
                found[block] = best
                changed = True
    return tuple(found.get(block) if block else None for block in range(len(blocks)))


def _natural_loop(blocks: tuple[Block, ...], header: int, latches: list[int]) -> Loop:
    predecessors: dict[int, list[int]] = {}
    for number, source in enumerate(blocks):
        for successor in source.successors:
            predecessors.setdefault(successor, []).append(number)
    body = {header}
    work = list(latches)
    while work:
        block = work.pop()
        if block not in body:
            body.add(block)
            work += predecessors.get(block, [])
    return Loop(header, frozenset(body), tuple(latches))


def _nested(loops: list[Loop]) -> dict[int, Loop]:
    nested = {}
    for loop in loops:
        around = [o for o in loops if o.header != loop.header and loop.header in o.blocks]
        parent = min(around, key=lambda outer: len(outer.blocks)).header if around else None
        nested[loop.header] = Loop(loop.header, loop.blocks, loop.latches, parent)
    return nested
