"""The elements that a copy moves in one load of a tile, all numbered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tilepipe.kernel.affine import Form, Vector
from tilepipe.kernel.symbols import Symbol


@dataclass(frozen=True, eq=False)
class Grid:
    """The elements of a copy, numbered 0 … count − 1, with the thread and the iterations that move each.

    `block` are the threads of a block; `threads` the coordinate x, y and z of every element; `turns` the number of
    the iteration of each copy loop, by the loop's counter; `width` the elements of a group.
    """

    block: tuple[int, int, int]
    count: int
    threads: tuple[Vector, Vector, Vector]
    turns: Mapping[Symbol, Vector]
    width: int = 1

    def same(self, vector: Vector) -> bool:
        """Whether a coefficient is the same for all elements of each group."""
        table = np.broadcast_to(vector, (self.count,)).reshape(-1, self.width)
        return bool(np.all(table == table[:, :1]))

    def uniform(self, form: Form) -> bool:
        """Whether a form has one value for each group."""
        return all(self.same(v) for v in form.terms.values())
