"""What a kernel does outside its tile loop, in the order of time."""

from __future__ import annotations

from itertools import pairwise

from tilepipe.kernel.effects import Effects, total
from tilepipe.kernel.statements import Statement
from tilepipe.kernel.tileloop import TileLoop


def before(tile: TileLoop) -> tuple[Statement, ...]:
    """Statements that run before the loop is reached, outermost first."""
    found: list[Statement] = []
    chain = (*tile.path, tile.loop)
    for outer, inner in pairwise(chain):
        for child in outer.children:
            if child is inner:
                break
            found.append(child)
    return tuple(found)


def after(tile: TileLoop) -> tuple[Statement, ...]:
    """Statements that run after the loop. Within an outer loop, what stands before it runs after it too."""
    found: list[Statement] = []
    chain = (*tile.path, tile.loop)
    repeated = False
    for outer, inner in pairwise(chain):
        repeated = repeated or outer.is_loop
        seen = False
        for child in outer.children:
            if child is inner:
                seen = True
            elif seen or repeated:
                found.append(child)
    return tuple(found)


def after_effects(tile: TileLoop) -> Effects:
    """The sum of what runs after the loop, the headers of outer loops included."""
    headers = [p.own for p in tile.path if p.is_loop]
    return total([*headers, *(s.effects() for s in after(tile))])


def is_repeated(tile: TileLoop) -> bool:
    """Whether an outer loop runs the tile loop again."""
    return any(p.is_loop for p in tile.path)
