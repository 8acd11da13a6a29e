"""How many tiles the loop goes through, read from its header: `for (int k = 0; k < K; k += BK)`."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tilepipe.kernel.model import KernelModel
from tilepipe.kernel.trips import counted

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,  # C's quotient of integers that are not negative
    ast.Mod: operator.mod,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
_SUFFIX = re.compile(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]+\b")
_MAX_TILE = 1 << 14  # what a tile may take of a size, at most
_TRIED = (1, 2, 3, 101)  # numbers of tiles at which a tile's extent is tried


@dataclass(frozen=True)
class TileCounter:
    """The trips of a tile loop that starts at 0. `parameters` are the kernel's parameters that decide them,
    `constants` the other names: those that the compiler must know."""

    bound: ast.expr
    step: ast.expr
    inclusive: bool
    parameters: frozenset[str]
    constants: frozenset[str]

    def count(self, values: Mapping[str, int]) -> int | None:
        """The number of tiles where every name has the value given; None where one has none, or is negative."""
        try:
            bound, step = _value(self.bound, values), _value(self.step, values)
        except (KeyError, ZeroDivisionError, ValueError, OverflowError):
            return None
        end = bound + 1 if self.inclusive else bound
        return max(0, -(-end // step)) if step > 0 else None

    def tile(self, constants: Mapping[str, int]) -> tuple[str, int] | None:
        """The parameter that drives the loop and what one tile takes of it; None where several do, or where the
        number of tiles is no quotient of it."""
        if len(self.parameters) != 1:
            return None
        (name,) = self.parameters
        for extent in range(1, _MAX_TILE):
            if all(self.count({**constants, name: n * extent}) == n for n in _TRIED):
                return name, extent
        return None


def tile_counter(model: KernelModel) -> TileCounter | None:
    """The tile loop's header taken apart; None where it is of another form or starts elsewhere than at 0."""
    loop = counted(model.file, model.tile.loop, model.max_threads)
    if loop is None or (loop.low, loop.high) != (0, 0):
        return None
    bound, step = _parsed(loop.bound_question), _parsed(loop.step_question)
    if bound is None or step is None:
        return None
    names = frozenset((*_names(bound), *_names(step)))
    own = names & frozenset(model.kernel.parameters)
    return TileCounter(bound, step, loop.inclusive, own, names - own)


def _parsed(text: str) -> ast.expr | None:
    """A C integer expression as Python parses it, None where it is more than names, numbers and arithmetic."""
    try:
        tree = ast.parse(_SUFFIX.sub(r"\1", text.strip()), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    inner = (n for n in ast.walk(tree) if not isinstance(n, ast.operator | ast.expr_context))
    known = all(
        isinstance(n, ast.Name)
        or (isinstance(n, ast.Constant) and type(n.value) is int)
        or (isinstance(n, ast.BinOp) and type(n.op) in _OPERATORS)
        for n in inner
    )
    return tree if known else None


def _names(tree: ast.expr) -> Iterator[str]:
    return (n.id for n in ast.walk(tree) if isinstance(n, ast.Name))


def _value(node: ast.expr, values: Mapping[str, int]) -> int:
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](_value(node.left, values), _value(node.right, values))
    if isinstance(node, ast.Name):
        return values[node.id]
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    raise ValueError(ast.dump(node))
