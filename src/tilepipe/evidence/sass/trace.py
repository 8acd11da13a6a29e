"""One iteration of a loop as a straight sequence of instructions.

A loop body has guards, alternatives and inner loops. The trace through a block is the longest path of the
body that passes it, each inner loop taken once: every guard is taken, and of two alternatives the longer one.
What an inner loop contributes is weighted by its trip count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter

from tilepipe.evidence.sass.cfg import Graph, Loop
from tilepipe.evidence.sass.decode import Instruction


@dataclass(frozen=True)
class Step:
    """An instruction of a trace; `inner` are the headers of the inner loops around it, innermost first. `always` tells
    that no branch of the iteration passes it by; what loops of unknown trips do is not told by that."""

    instruction: Instruction
    inner: tuple[int, ...] = ()
    always: bool = True


@dataclass(frozen=True)
class Trace:
    """The steps of one iteration in order; `trips` of each inner loop, None where it is not a constant."""

    steps: tuple[Step, ...]
    trips: Mapping[int, int | None]
    assumed: int = 1  # trips where they are unknown

    def weight(self, index: int, seen_from: int | None = None) -> int:
        """How often a step runs per iteration, or per iteration of the inner loops around step `seen_from`
        as long as control has not left them (that is, for the steps after it)."""
        around = self.steps[index].inner
        if seen_from is not None and index > seen_from:
            around = tuple(header for header in around if header not in self.steps[seen_from].inner)
        product = 1
        for header in around:
            product *= self.trips[header] or self.assumed
        return product

    def is_certain(self, indices: Iterable[int]) -> bool:
        """Whether the weights of all the steps are constants."""
        return all(self.trips[header] is not None for index in indices for header in self.steps[index].inner)

    def cycle(self, start: int, rounds: int) -> Iterator[tuple[int, int]]:
        """(step, round) from the step after `start`, around the back edge, for so many whole rounds."""
        count = len(self.steps)
        for ahead in range(1, rounds * count + 1):
            yield (start + ahead) % count, (start + ahead) // count

    def find(self, instruction: Instruction) -> int | None:
        """The index of an instruction, None where the trace does not pass it."""
        for index, step in enumerate(self.steps):
            if step.instruction is instruction:
                return index
        return None


def trace_through(
    graph: Graph, loop: Loop, trips: Mapping[int, int | None], block: int | None = None, assumed: int = 1
) -> Trace:
    """The longest path through the loop's body, through `block` if given."""
    edges = _forward_edges(graph, loop)
    order = list(TopologicalSorter(_reversed(edges)).static_order())
    size = {b: sum(i.opcode != "NOP" for i in graph.code(b)) for b in loop.blocks}
    path = _longest(edges, order, size, loop, loop.header if block is None else block)
    steps = []
    for passed in path:
        around = tuple(nest.header for nest in graph.nest(passed) if nest.blocks < loop.blocks)
        always = _always(graph, loop, trips, passed)
        steps += [
            Step(instruction, around, always and instruction.guard in (None, "PT", "UPT"))
            for instruction in graph.code(passed)
        ]
    return Trace(tuple(steps), trips, assumed)


def _always(graph: Graph, loop: Loop, trips: Mapping[int, int | None], block: int) -> bool:
    """Whether every iteration of the loop, and of the inner loops around it, passes a block."""
    for around in graph.nest(block):
        if around.header != loop.header and trips.get(around.header, 0) is None:
            return True
        if not all(graph.dominates(block, latch) for latch in around.latches):
            return False
        if around.header == loop.header:
            break
        block = around.header
    return True


def _forward_edges(graph: Graph, loop: Loop) -> dict[int, set[int]]:
    """Edges of the body without back edges; the latch of an inner loop leads to that loop's exits, so that a
    path through a loop which is left at its top still passes its body."""
    edges = {
        block: {
            s for s in graph.blocks[block].successors if s in loop.blocks and not graph.dominates(s, block)
        }
        for block in loop.blocks
    }
    for inner in graph.loops.values():
        if inner.blocks < loop.blocks:
            exits = {s for b in inner.blocks for s in graph.blocks[b].successors if s not in inner.blocks}
            for latch in inner.latches:
                edges[latch] |= {s for s in exits & loop.blocks if not graph.dominates(s, latch)}
    return edges


def _reversed(edges: Mapping[int, set[int]]) -> dict[int, set[int]]:
    before: dict[int, set[int]] = {block: set() for block in edges}
    for block, successors in edges.items():
        for successor in successors:
            before[successor].add(block)
    return before


def _longest(
    edges: Mapping[int, set[int]], order: list[int], size: Mapping[int, int], loop: Loop, through: int
) -> list[int]:
    """The heaviest path header → `through` → a latch."""
    from_header = {loop.header: (size[loop.header], -1)}
    for block in order:
        if block in from_header:
            for successor in edges[block]:
                reached = (from_header[block][0] + size[successor], block)
                from_header[successor] = max(from_header.get(successor, (-1, -1)), reached)
    to_latch: dict[int, tuple[int, int]] = {}
    for block in reversed(order):
        onward = [(to_latch[s][0], s) for s in edges[block] if s in to_latch]
        if onward or block in loop.latches:
            length, successor = max([*onward, (0, -1)] if block in loop.latches else onward)
            to_latch[block] = (length + size[block], successor)
    if through not in to_latch or through not in from_header:
        return []
    path = [through]
    while path[0] != loop.header:
        path.insert(0, from_header[path[0]][1])
    while to_latch[path[-1]][1] != -1:
        path.append(to_latch[path[-1]][1])
    return path
