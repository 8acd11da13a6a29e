"""What a problem's launches come to in numbers: the size that planning looks at, the shape of a block."""

from __future__ import annotations

from math import prod

from tilepipe.problem.expressions import evaluate
from tilepipe.problem.types import KernelProblem, Sizes


def planned_size(problem: KernelProblem | None) -> Sizes:
    """The sizes that planning looks at: the target, else the largest set; empty without a problem."""
    sizes = problem.sizes if problem is not None else {}
    if "target" in sizes:
        return sizes["target"]
    return max(sizes.values(), key=lambda s: sum(s.values()), default={})


def block_shape(problem: KernelProblem, size: Sizes) -> tuple[int, int, int]:
    """Threads of a block along x, y and z."""
    x, y, z, *_ = (*(evaluate(text, size) for text in problem.block), 1, 1)
    return x, y, z


def product(expressions: tuple[str, ...], size: Sizes) -> int:
    """The threads of a block or the blocks of a grid; 0 without any."""
    return prod(evaluate(text, size) for text in expressions) if expressions else 0
