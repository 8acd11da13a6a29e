"""Where a kernel's variables live: offsets in shared, local and parameter memory, host memory for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from tilepipe.emulator.codegen.builder import Addresses
from tilepipe.emulator.ptx.calls import expand_calls
from tilepipe.emulator.ptx.model import (
    Function,
    Instruction,
    Mem,
    Module,
    Operand,
    Sym,
    Unsupported,
    Variable,
    Vec,
)


@dataclass(frozen=True)
class Prepared:
    """A kernel without calls, and its variables' places. Sizes in bytes; `shared_names` has name, offset and
    size of each static shared variable, `dynamic_name` names the dynamic one, which begins at `dynamic_offset`;
    `shared_gaps` are offset and size of what no variable owns; `host_memory` has the global and constant
    variables' memory by name."""

    function: Function
    addresses: Addresses
    static_shared: int
    dynamic_offset: int
    shared_gaps: tuple[tuple[int, int], ...]
    local_bytes: int
    parameter_bytes: int
    shared_names: tuple[tuple[str, int, int], ...]
    dynamic_name: str
    host_memory: dict[str, npt.NDArray[np.uint8]]


def _place(variables: Sequence[Variable]) -> tuple[dict[str, int], int]:
    """Lays variables out one after the other; returns offsets and the end."""
    offsets: dict[str, int] = {}
    end = 0
    for v in variables:
        end = -(-end // v.align) * v.align
        offsets[v.name] = end
        end += v.size
    return offsets, end


def _spread(
    variables: Sequence[Variable], packed: dict[str, int]
) -> tuple[dict[str, int], list[tuple[int, int]]]:
    """Moves shared variables apart, so that an overrun of one meets no other: behind each comes a gap as large as
    it. Distances stay whole multiples of the 128 bytes of a row of banks, and of every alignment."""
    unit = max([128, *(v.align for v in variables)])
    offsets, gaps, shift = dict(packed), [], 0
    for v, following in pairwise(variables):
        end = offsets[v.name] + v.size
        shift += -(-v.size // unit) * unit
        offsets[following.name] += shift
        gaps.append((end, offsets[following.name] - end))
    return offsets, gaps


def _named(function: Function) -> set[str]:
    """The names that are not registers in a function's instructions."""
    names: set[str] = set()

    def visit(operand: Operand) -> None:
        if isinstance(operand, Sym):
            names.add(operand.name)
        elif isinstance(operand, Mem):
            visit(operand.base)
        elif isinstance(operand, Vec):
            for item in operand.items:
                visit(item)

    for i in function.body:
        if isinstance(i, Instruction):
            for operand in i.operands:
                visit(operand)
    return names


def _host_variables(
    variables: Sequence[Variable],
) -> dict[str, npt.NDArray[np.uint8]]:
    """Global and constant variables get host memory."""
    memory = {}
    for v in variables:
        if v.space in ("global", "const") and v.size:
            buffer = np.zeros(v.size + v.align, np.uint8)
            at = -buffer.ctypes.data % v.align
            view = buffer[at : at + v.size]
            view[: len(v.initial)] = np.frombuffer(v.initial, np.uint8)
            memory[v.name] = view
    return memory


def prepare(module: Module, symbol: str) -> Prepared:
    """Expands the calls of kernel `symbol` and places all variables that it names; raises `Unsupported`."""
    if symbol not in module.functions or not module.functions[symbol].is_kernel:
        raise Unsupported(f"the PTX has no kernel {symbol}")
    function = expand_calls(module, symbol)
    named = _named(function)
    of_module = [v for v in module.variables.values() if v.name in named]
    everywhere = [*of_module, *function.variables]
    for v in everywhere:
        if v.pointing:
            raise Unsupported(f"variable {v.name} initialised with an address")
    static = [v for v in everywhere if v.space == "shared" and v.size]
    dynamic = [v for v in everywhere if v.space == "shared" and not v.size]
    packed, end = _place(static)
    shared, gaps = _spread(static, packed)
    last = max((shared[v.name] + v.size for v in static), default=0)
    if dynamic:
        align = max(16, *(v.align for v in dynamic))
        end = -(-end // align) * align
        # As far from the end of the static variables as before, and a gap as large as the last of them further.
        behind = end + -(-(last + static[-1].size - end) // 1024) * 1024 if static else end
        gaps += [(last, behind - last)] if static else []
        shared.update((v.name, behind) for v in dynamic)
        last = behind
    local, local_bytes = _place([v for v in function.variables if v.space == "local"])
    parameters, parameter_bytes = _place(function.parameters)
    memory = _host_variables(of_module)
    host = {name: view.ctypes.data for name, view in memory.items()}
    names = tuple((v.name, shared[v.name], v.size) for v in static)
    addresses = Addresses(shared, local, host, parameters)
    local_bytes = -(-local_bytes // 16) * 16
    dynamic_name = dynamic[0].name if len(dynamic) == 1 else "dynamic shared memory"
    return Prepared(
        function,
        addresses,
        end,
        last,
        tuple(gaps),
        local_bytes,
        max(parameter_bytes, 8),
        names,
        dynamic_name,
        memory,
    )
