"""A first problem file for a kernel, from what its source says: loadable, with comments where the user
fills in."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle

from tilepipe.problem.dtypes import c_dtype, is_float
from tilepipe.problem.types import Parameter

_COUNT = "COUNT"  # the made-up size that unknown shapes stand on
# Of scalars: neither 0 nor 1, which would hide a factor or a term that a changed kernel forgets; exact in any float.
_VALUES = ("0.75", "1.25", "0.625", "1.5", "0.875", "1.75")


def _strings(texts: Sequence[str]) -> str:
    return "[" + ", ".join(json.dumps(text) for text in texts) + "]"


def size_names(parameters: Sequence[Parameter]) -> dict[str, str]:
    """Integer scalar parameters by name → the size name that stands for each, in capitals where that is
    free."""
    names: dict[str, str] = {}
    for parameter in parameters:
        dtype = None if parameter.pointee is not None else c_dtype(parameter.type)
        if dtype is not None and dtype.kind in "iu":
            taken = {_COUNT, *names.values()}
            choices = (parameter.name.upper(), parameter.name, f"{parameter.name}_size")
            names[parameter.name] = next(name for name in choices if name not in taken)
    return names


def _arguments(parameters: Sequence[Parameter], names: Mapping[str, str]) -> list[str]:
    values = cycle(_VALUES)
    return [_argument(parameter, names, values) for parameter in parameters]


def _argument(parameter: Parameter, names: Mapping[str, str], values: Iterator[str]) -> str:
    if parameter.pointee is None:
        if parameter.name in names:
            return f'{{ value = "{names[parameter.name]}" }},'
        dtype = c_dtype(parameter.type)
        known = dtype is not None and is_float(dtype)
        note = "FILL IN the value" if known else f"FILL IN: `{parameter.type}` must be an arithmetic type"
        return f'{{ value = "{next(values)}" }},  # {note} of {parameter.name}'
    read_only = _is_read_only(parameter)
    role = "in" if read_only else "out"
    name = _array_name(parameter, names)
    override = "" if c_dtype(parameter.pointee) else ', dtype = "float32"'
    notes = ["FILL IN the shape"]
    if override:
        notes.append(f"and what a `{parameter.pointee}` consists of")
    if not read_only:
        notes.append("(inout if the kernel also reads it)")
    return f'{{ name = "{name}", {role} = ["{_COUNT}"]{override} }},  # {" ".join(notes)}'


def _array_name(parameter: Parameter, names: Mapping[str, str]) -> str:
    """The array's name for expressions: no size's, and no word of Python's (`in`)."""
    taken = parameter.name in names.values() or keyword.iskeyword(parameter.name)
    return f"{parameter.name}_" if taken else parameter.name


def _reference(parameters: Sequence[Parameter], names: Mapping[str, str]) -> str:
    """A reference to begin with: a product of two inputs under three sizes or more, else the first input."""
    inputs = [_array_name(p, names) for p in parameters if p.pointee is not None and _is_read_only(p)] or [
        "A"
    ]
    factors = inputs[: 2 if len(names) > 2 else 1]
    return " @ ".join(f"{name}.astype(np.float64)" for name in factors)


def _flops(kernel: KernelDraft, names: Mapping[str, str]) -> str:
    """The work to begin with: two operations for each point of the sizes. Nothing is known where a template's arguments
    may hold some of these."""
    if kernel.instantiate is not None and len(names) < 3:
        return "…"
    return "*".join(["2", *(names.values() or [_COUNT])])


def _is_read_only(parameter: Parameter) -> bool:
    return re.search(r"\bconst\b[^*]*\*", parameter.type) is not None


@dataclass(frozen=True)
class KernelDraft:
    """What the source says of one kernel. `grid`, `block` and `shared` are integer expressions over the
    size names, where the source shows a launch; `tile` is the size that drives the tile loop and what one
    tile takes of it. `dynamic`: the kernel has dynamic shared memory, however much that is."""

    name: str
    parameters: Sequence[Parameter]
    grid: Sequence[str] = ()
    block: Sequence[str] = ()
    shared: str | None = None
    tile: Mapping[str, int] | None = None
    instantiate: str | None = None
    dynamic: bool = False


def draft_problem(kernels: Sequence[KernelDraft]) -> str:
    """TOML text of a first problem file for `kernels`.

    Integer parameters become sizes of the same name in capitals. The text loads as it stands; `# FILL IN`
    marks what only the author knows: shapes, values, sizes, and the launch where the source does not show
    it.
    """
    return "\n".join(["schema = 1\n", *map(_kernel, kernels)])


def _kernel(kernel: KernelDraft) -> str:
    names = size_names(kernel.parameters)
    sizes = [_COUNT, *names.values(), *(t for t in kernel.tile or () if t not in names.values())]

    def size_set(value: int) -> str:
        return "{ " + ", ".join(f"{name} = {value}" for name in sizes) + " }"

    fill_in = "  # FILL IN the launch: integer expressions over the size names"
    optional: list[str] = []
    if kernel.shared is not None:
        optional.append(f"shared = {json.dumps(kernel.shared)}")
    elif kernel.dynamic:
        optional.append('shared = "0"  # FILL IN the bytes of dynamic shared memory that launches ask for')
    if kernel.tile:
        optional += [f"tile   = {{ {name} = {step} }}" for name, step in kernel.tile.items()]
    table = kernel.name if kernel.name.isidentifier() else json.dumps(kernel.name)
    lines = [
        f"[kernels.{table}]",
        *([] if kernel.instantiate is None else [f"instantiate = {json.dumps(kernel.instantiate)}"]),
        f"grid   = {_strings(kernel.grid or ['1'])}" + ("" if kernel.grid else fill_in),
        f"block  = {_strings(kernel.block or ['256'])}" + ("" if kernel.block else fill_in),
        *optional,
        f'# flops = "{_flops(kernel, names)}"   # the work, for GFLOP/s and predictions',
        '# bytes = "…"         # the least global traffic, for GB/s',
        "args = [",
        *(f"  {argument}" for argument in _arguments(kernel.parameters, names)),
        "]",
        f'# reference = "{_reference(kernel.parameters, names)}"   # NumPy over the arrays and sizes',
        "# rtol = 1e-4",
        "# atol = 1e-4",
        "",
        f"[kernels.{table}.sizes]   # FILL IN: sizes that the launch and the shapes allow",
        f"small  = {size_set(256)}",
        f"target = {size_set(4096)}",
    ]
    return "\n".join(lines) + "\n"
