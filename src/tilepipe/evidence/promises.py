"""Whether a launch meets the conditions that a kernel with unguarded wide copies takes for granted."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from tilepipe.problem import Array, Case, Parameter

_ALIGNED = re.compile(r"tp_aligned\((\w+), (\d+)\)")
_MULTIPLE = re.compile(r"(\w+|\((\w+) (/|>>) (\d+)\)) % (\d+) == 0")


def broken_promise(conditions: Sequence[str], case: Case, parameters: Sequence[Parameter]) -> str | None:
    """The first condition that the launch of `case` does not meet, None where it meets all. One that is not understood
    counts as broken."""
    arguments = dict(zip((p.name for p in parameters), case.args, strict=False))
    pointers = {
        n: a.data.ctypes.data - a.base.ctypes.data for n, a in arguments.items() if isinstance(a, Array)
    }
    scalars = {n: a.value for n, a in arguments.items() if not isinstance(a, Array)}
    numbers = {n: int(v) for n, v in scalars.items() if isinstance(v, np.integer)}
    return next((c for c in conditions if not _meets(c, case, pointers, numbers)), None)


def _meets(condition: str, case: Case, pointers: Mapping[str, int], numbers: Mapping[str, int]) -> bool:
    x, y, z = case.block
    if condition.startswith("blockDim"):
        return all(_extent(part, x, y, z) for part in condition.split(" && "))
    aligned = _ALIGNED.fullmatch(condition)
    if aligned is not None:
        # Allocations begin at multiples of far more than 16 bytes; a view begins where its offset says.
        return aligned[1] in pointers and pointers[aligned[1]] % int(aligned[2]) == 0
    multiple = _MULTIPLE.fullmatch(condition)
    if multiple is None:
        return False
    name, by = multiple[2] or multiple[1], int(multiple[4] or 1)
    if name not in numbers:
        return False
    value = numbers[name] >> by if multiple[3] == ">>" else numbers[name] // by
    return value % int(multiple[5]) == 0


def _extent(part: str, x: int, y: int, z: int) -> bool:
    """A condition such as `blockDim.x * blockDim.y == 256`."""
    left, _, right = part.partition(" == ")
    product = 1
    for name in left.split(" * "):
        product *= {"blockDim.x": x, "blockDim.y": y, "blockDim.z": z}.get(name, 0)
    return product == int(right)
