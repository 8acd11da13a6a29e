"""Copy maps: the elements that one copy statement moves, by thread and iteration, and a numbering of them.

A copy without a loop moves an element per thread; loops around it multiply that by their turns. The numbering has the
axis along which shared addresses rise most slowly first, so that neighbours in memory are neighbours in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tilepipe.kernel.affine import Vector
from tilepipe.kernel.copies import Copy
from tilepipe.kernel.flow import is_divergent
from tilepipe.kernel.grid import Grid
from tilepipe.kernel.mapforms import Forms
from tilepipe.kernel.resolve import NotProvedError
from tilepipe.kernel.scopes import Scope, Scopes, Value
from tilepipe.kernel.statements import Statement
from tilepipe.kernel.symbols import Symbol
from tilepipe.kernel.trips import counted

Block = tuple[int, int, int]  # threads of a block
MOST = 1 << 16  # elements of a copy that are looked at


@dataclass(frozen=True, eq=False)
class Axis:
    """One coordinate of an element: that of the thread (`name` "x", "y" or "z"), or a loop's turn (its counter)."""

    name: str | Symbol
    extent: int


@dataclass(frozen=True, eq=False)
class Counter:
    """A copy loop of the nest: its counter starts at `start` and rises by `step` up to `bound`."""

    symbol: Symbol
    loop: Statement
    start: Value
    step: int
    bound: Value
    inclusive: bool


@dataclass(frozen=True, eq=False)
class Nest:
    """Where a copy stands: `top` is the outermost statement that its new form takes the place of; `loops` those of the
    nest, outermost first; `whens` the conditions without another branch, with whether they are negated."""

    top: Statement
    inner: tuple[Statement, ...]
    whens: tuple[tuple[Statement, bool], ...]

    @property
    def loops(self) -> tuple[Statement, ...]:
        return tuple(s for s in self.inner if s.is_loop)


def nest_of(copy: Copy, scopes: Scopes) -> Nest:
    """The loops and branches around a copy, up to the tile loop's body or that of the helper that it stands in."""
    item = copy.use.item
    last = max((n for n, p in enumerate(item.parents) if p.kind == "call"), default=-1)
    outside, inside = item.parents[: last + 1], item.parents[last + 1 :]
    for parent in outside:
        if parent.kind == "other" or is_divergent(parent, scopes.divergent):
            raise NotProvedError("the copy is reached by some threads only")
        if any(s.own.flags & {"return", "break", "continue", "goto"} for s in parent.walk()):
            raise NotProvedError("what is called leaves early")
    inner = [p for p in (*inside, item.statement) if p.kind != "block"]
    if copy.replaces in inner:
        inner = inner[: inner.index(copy.replaces)]
    whens: list[tuple[Statement, bool]] = []
    for outer, below in zip(inside, (*inside, item.statement)[1:], strict=True):
        if outer.kind == "if" and outer in inner:
            whens.append((outer, len(outer.children) == 2 and below is outer.children[1]))
    inner = [p for p in inner if p is not item.statement]
    top = inner[0] if inner else copy.replaces
    if any(s.own.flags & {"return", "break", "continue", "goto", "structure"} for s in top.walk()):
        raise NotProvedError("the copy's loop is left early")
    return Nest(top, tuple(inner), tuple(whens))


def counters_of(nest: Nest, scopes: Scopes, forms: Callable[[Grid, dict[Symbol, tuple[Value, int]]], Forms],
                block: Block, scope: Scope, unbounded: int = 0) -> tuple[list[Counter], list[Axis]]:  # fmt: skip
    """The loops of a nest with their turns, and all axes of its copies. `unbounded` are the turns of loops with unknown
    bounds; without any, there is no proof."""
    axes = [Axis(n, e) for n, e in zip("xyz", block, strict=True) if e > 1]
    found: list[Counter] = []
    for loop in nest.loops:
        shape = counted(scopes.model.file, loop, None, scope.calls[-1] if scope.calls else None)
        if shape is None or loop.counter is None or loop.start is None:
            raise NotProvedError("a copy loop is not counted")
        known = forms(grid_of(axes, block), {c.symbol: (c.start, c.step) for c in found})
        here = Scope(loop.own.uses, scope.calls)
        item = scopes.item(loop)
        start = Value(scopes.node(loop.start), here, item)
        texts = [known.expanded(Value(start.node, here, item), t) for t in (shape.step, shape.bound)]
        step, first = known.constant(texts[0]), known.constant(start)
        if np.any(step != step.flat[0]) or step.flat[0] < 1:
            raise NotProvedError("a copy loop's step is not understood")
        stride = int(step.flat[0])
        try:
            turns = int(np.max(-(-(known.most(texts[1]) + shape.inclusive - first) // stride)))
        except NotProvedError:
            if not unbounded:
                raise
            turns = unbounded
        if turns < 1:
            raise NotProvedError("a copy loop never runs")
        found.append(Counter(loop.counter, loop, start, stride, texts[1], shape.inclusive))
        axes.append(Axis(loop.counter, turns))
    return found, axes


def grid_of(axes: list[Axis], block: Block, width: int = 1) -> Grid:
    """The elements of the axes, numbered with the first axis fastest."""
    count = int(np.prod([a.extent for a in axes], dtype=np.int64))
    if count > MOST:
        raise NotProvedError(f"{count} elements are more than are looked at")
    index = np.arange(count, dtype=np.int64)
    threads: dict[str, Vector] = {n: np.zeros(1, np.int64) for n in "xyz"}
    turns: dict[Symbol, Vector] = {}
    for axis in axes:
        if isinstance(axis.name, str):
            threads[axis.name] = index % axis.extent
        else:
            turns[axis.name] = index % axis.extent
        index = index // axis.extent
    return Grid(block, count, (threads["x"], threads["y"], threads["z"]), turns, width)


def ordered(axes: list[Axis], address: Vector, count: int) -> list[Axis]:
    """The axes by how far their neighbours lie apart, nearest first; those that do not matter last."""
    table = np.broadcast_to(address, (count,))
    steps: list[tuple[bool, int, int]] = []
    stride = 1
    for position, axis in enumerate(axes):
        step = abs(int(table[stride] - table[0])) if axis.extent > 1 else 0
        steps.append((step == 0, step, position))
        stride *= axis.extent
    return [axes[position] for _, _, position in sorted(steps)]


def asked(block: Block) -> str:
    """The condition that a launch has blocks of this shape."""
    x, y, z = block
    if y == z == 1:
        return f"blockDim.x == {x} && blockDim.y * blockDim.z == 1"
    return f"blockDim.x == {x} && blockDim.y == {y} && blockDim.z == {z}"
