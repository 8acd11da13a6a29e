"""A kernel problem at one size set → a `Case`: launch dimensions, arrays with random contents, scalars."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from tilepipe.diagnostics import Refusal, error
from tilepipe.problem.dtypes import DTYPE_NAMES, c_dtype, is_float, named_dtype, poison
from tilepipe.problem.expressions import ExpressionError, evaluate, evaluate_number
from tilepipe.problem.locate import place_of
from tilepipe.problem.types import Array, ArraySpec, Case, KernelProblem, Parameter, Scalar, ScalarSpec, Sizes

_ALIGNMENT = 256  # bytes, as device allocations are aligned; an `offset` then means what it says
_MAX_BYTES = 1 << 36  # 64 GiB: beyond this a size is taken for a mistake
_MAX_BLOCK = (1024, 1024, 64)
_MAX_GRID = (2**31 - 1, 65535, 65535)


class _BadCaseError(Exception):
    """Ends the making of a case; never leaves this module. `where` is the key at fault, and the number of its
    entry in a list."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.diagnostics[0].message)
        self.refusal = refusal
        self.where: tuple[str, int | None] | None = None


def _fail(code: str, message: str, help: str) -> _BadCaseError:
    return _BadCaseError(error(code, message, help=help))


@contextmanager
def _at(key: str, item: int | None = None) -> Iterator[None]:
    """What fails in this block is the fault of `key`, or of entry `item` of the list under it."""
    try:
        yield
    except _BadCaseError as bad:
        bad.where = bad.where or (key, item)
        raise


def make_case(
    problem: KernelProblem, size: str | Sizes, parameters: Sequence[Parameter], seed: int
) -> Case | Refusal:
    """Fresh data for one launch of `problem` at `size`, a name of its size sets or sizes of the caller's own.

    The contents depend on `seed`, the sizes and the array's position only. Refusals: TP113 expressions, TP114
    arguments against parameters, TP115 element types, TP116 unknown size set, TP117 impossible launch or
    array, TP119 scalars that their parameter cannot hold.
    """
    try:
        return _make_case(problem, size, parameters, seed)
    except _BadCaseError as bad:
        return bad.refusal
    except MemoryError:
        return error(
            "TP117", f"the arrays of `{problem.name}` do not fit in memory", help="choose a smaller size"
        )


def check_case(
    problem: KernelProblem, size: str | Sizes, parameters: Sequence[Parameter], path: str, text: str
) -> Refusal | None:
    """What `make_case` would refuse, with its place in the problem file at `path` that holds `text`. Nothing is
    allocated, so that sizes of gigabytes are checked as well."""
    try:
        _make_case(problem, size, parameters, 0, probe=True)
    except _BadCaseError as bad:
        key, item = bad.where or (None, None)
        place = place_of(path, text, f"kernels.{problem.name}", key, item)
        return Refusal(tuple(replace(d, place=place) for d in bad.refusal.diagnostics))
    return None


def _make_case(
    problem: KernelProblem, size: str | Sizes, parameters: Sequence[Parameter], seed: int, probe: bool = False
) -> Case:
    """`probe`: every check is made, on arrays of one element."""
    sizes = _sizes(problem, size)
    with _at("args"):
        if len(parameters) != len(problem.args):
            raise _fail(
                "TP114",
                f"kernel `{problem.name}` has {len(parameters)} parameters, its problem {len(problem.args)} args",
                f"give one entry of `args` for each of: {', '.join(p.name for p in parameters) or 'none'}",
            )
    with _at("shared"):
        shared = _integer(problem.shared, sizes, "shared")
        if shared < 0:
            raise _fail("TP117", f"`shared` is {shared} bytes", "dynamic shared memory is 0 bytes or more")
    args: list[Array | Scalar] = []
    for i, (spec, parameter) in enumerate(zip(problem.args, parameters, strict=True)):
        with _at("args", i):
            if isinstance(spec, ScalarSpec):
                args.append(_scalar(spec, parameter, sizes))
            else:
                rng = np.random.default_rng([seed, i, *sizes.values()])
                args.append(_array(spec, parameter, sizes, rng, probe))
    return Case(
        size=size if isinstance(size, str) else ",".join(f"{k}={v}" for k, v in sizes.items()),
        sizes=sizes,
        grid=_dimensions("grid", problem.grid, sizes, _MAX_GRID),
        block=_dimensions("block", problem.block, sizes, _MAX_BLOCK),
        shared=shared,
        args=tuple(args),
        flops=None if problem.flops is None else _integer(problem.flops, sizes, "flops"),
        bytes=None if problem.bytes is None else _integer(problem.bytes, sizes, "bytes"),
    )


def _sizes(problem: KernelProblem, size: str | Sizes) -> Sizes:
    names = next(iter(problem.sizes.values())).keys()
    if isinstance(size, str):
        if size not in problem.sizes:
            raise _fail(
                "TP116",
                f"kernel `{problem.name}` has no size set `{size}`",
                f"size sets: {', '.join(problem.sizes)}",
            )
        return problem.sizes[size]
    if size.keys() != names or any(value < 0 for value in size.values()):
        raise _fail(
            "TP116",
            f"sizes {dict(size)} do not fit `{problem.name}`",
            f"give {', '.join(names)}, each from 0",
        )
    return MappingProxyType({name: size[name] for name in names})


def _integer(text: str, sizes: Sizes, what: str) -> int:
    try:
        return evaluate(text, sizes)
    except ExpressionError as bad:
        raise _fail(
            "TP113", f"`{text}` for {what}: {bad}", "correct the expression in the problem file"
        ) from None


def _dimensions(
    what: str, texts: tuple[str, ...], sizes: Sizes, limits: tuple[int, int, int]
) -> tuple[int, int, int]:
    with _at(what):
        x, y, z = (*(_integer(text, sizes, what) for text in texts), 1, 1)[:3]
        if what == "block" and x * y * z > 1024:
            raise _fail("TP117", f"a block of {x * y * z} threads", "a block has at most 1024 threads")
        if any(not 1 <= value <= limit for value, limit in zip((x, y, z), limits, strict=True)):
            raise _fail("TP117", f"{what} is ({x}, {y}, {z})", f"each dimension lies between 1 and {limits}")
    return x, y, z


def _scalar(spec: ScalarSpec, parameter: Parameter, sizes: Sizes) -> Scalar:
    try:
        value = evaluate_number(spec.value, sizes)
    except ExpressionError as bad:
        raise _fail(
            "TP113", f"`{spec.value}` for `{parameter.name}`: {bad}", "correct the expression"
        ) from None
    if parameter.pointee is not None:
        raise _fail(
            "TP114",
            f"parameter `{parameter.name}` is a pointer, its argument the scalar `{spec.value}`",
            'give an array: { name = "…", in = ["…"] }',
        )
    dtype = c_dtype(parameter.type)
    if dtype is None:
        raise _fail(
            "TP115",
            f"parameter `{parameter.name}` is of type `{parameter.type}`, which no scalar here has",
            "pass its members as parameters of arithmetic types",
        )
    if not _holds(dtype, value):
        raise _fail(
            "TP119",
            f"`{spec.value}` is {value}, which `{parameter.type} {parameter.name}` cannot hold",
            "correct the value, or the order of `args`",
        )
    return Scalar(dtype.type(value))


def _holds(dtype: np.dtype[Any], value: int | float) -> bool:
    """Whether `dtype` has `value`: integers exactly, floats rounded but not to infinity."""
    if is_float(dtype):
        with np.errstate(over="ignore"):
            return bool(np.isfinite(np.float64(dtype.type(value))))
    limits = (np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype.kind in "iu" else (0, 1)
    return isinstance(value, int) and limits[0] <= value <= limits[1]


def _dtype(spec: ArraySpec, parameter: Parameter) -> np.dtype[Any]:
    if parameter.pointee is None:
        raise _fail(
            "TP114",
            f"parameter `{parameter.name}` is a `{parameter.type}`, its argument the array `{spec.name}`",
            'give a scalar: { value = "…" }, and check the order of `args`',
        )
    found = c_dtype(parameter.pointee) if spec.dtype is None else named_dtype(spec.dtype)
    if found is None:
        raise _fail(
            "TP115",
            f"array `{spec.name}`: elements of `{parameter.pointee}` need a dtype",
            f'say what they consist of, e.g. dtype = "float32"; known: {", ".join(DTYPE_NAMES)}',
        )
    return found


def _array(
    spec: ArraySpec, parameter: Parameter, sizes: Sizes, rng: np.random.Generator, probe: bool = False
) -> Array:
    dtype = _dtype(spec, parameter)
    shape = tuple(_integer(text, sizes, f"the shape of `{spec.name}`") for text in spec.shape)
    count = math.prod(shape)
    if min(shape) < 0 or (spec.offset + count) * dtype.itemsize > _MAX_BYTES:
        raise _fail(
            "TP117", f"array `{spec.name}` has shape {shape}", "dimensions are 0 or more, and fit in memory"
        )
    if probe:
        spec, shape, count = replace(spec, offset=0), (min(count, 1),), min(count, 1)
    base = _aligned_empty(spec.offset + count, dtype)
    poison(base if spec.role == "out" else base[: spec.offset])
    array = Array(spec.name, spec.role, base, base[spec.offset :].reshape(shape))
    if spec.role != "out":
        _fill(array.data, spec, sizes, rng)
    return array


def _aligned_empty(count: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    raw = np.empty(count * dtype.itemsize + _ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    return raw[start : start + count * dtype.itemsize].view(dtype)


def _fill(data: npt.NDArray[Any], spec: ArraySpec, sizes: Sizes, rng: np.random.Generator) -> None:
    """Random contents in place: `range` and `max` integers, else floats in [-1, 1), else any integer."""
    dtype = data.dtype
    if spec.fill is not None:
        _fill_named(data, spec)
    elif spec.index_max is not None:
        low = 0 if spec.index_min is None else _integer(spec.index_min, sizes, f"`min` of `{spec.name}`")
        _fill_integers(data, spec.name, low, _integer(spec.index_max, sizes, f"`max` of `{spec.name}`"), rng)
    elif spec.low is not None and spec.high is not None:
        _fill_integers(data, spec.name, spec.low, spec.high, rng)
    elif dtype in (np.float32, np.float64):
        rng.random(dtype=dtype, out=data)  # in place: these can be gigabytes
        data *= 2
        data -= 1
    elif is_float(dtype):
        data[...] = (rng.random(data.shape, np.float32) * 2 - 1).astype(dtype)
    elif dtype.kind == "b":
        data[...] = rng.integers(0, 2, data.shape, np.uint8)
    else:
        limits = np.iinfo(dtype)
        data[...] = rng.integers(limits.min, limits.max, data.shape, dtype, endpoint=True)


def _fill_named(data: npt.NDArray[Any], spec: ArraySpec) -> None:
    if spec.fill == "nan" and not is_float(data.dtype):
        raise _fail("TP115", f"array `{spec.name}` of {data.dtype} cannot hold NaN", "use another fill")
    if spec.fill == "arange":
        data[...] = np.arange(data.size).reshape(data.shape).astype(data.dtype)
    else:
        data[...] = data.dtype.type(np.nan if spec.fill == "nan" else 0)


def _fill_integers(data: npt.NDArray[Any], name: str, low: int, high: int, rng: np.random.Generator) -> None:
    if data.size == 0:
        return
    if low >= high:
        raise _fail(
            "TP117", f"array `{name}` takes integers from {low} up to {high}: there are none", "widen it"
        )
    limits = np.iinfo(data.dtype) if data.dtype.kind in "iu" else np.iinfo(np.int64)
    if low < limits.min or high - 1 > limits.max:
        raise _fail(
            "TP119", f"array `{name}` of {data.dtype} cannot hold [{low}, {high})", "narrow the range"
        )
    small = low >= -(2**31) and high <= 2**31
    data[...] = rng.integers(low, high, data.shape, np.int32 if small else np.int64).astype(data.dtype)


def fresh_copy(case: Case) -> Case:
    """`case` with its own memory: inputs as they are, outputs poisoned anew.

    Launch copies and keep the case itself unlaunched: a launch overwrites `inout` arrays.
    """
    return replace(case, args=tuple(_copy(arg) if isinstance(arg, Array) else arg for arg in case.args))


def _copy(array: Array) -> Array:
    base = _aligned_empty(array.base.size, array.base.dtype)
    data = base[base.size - array.data.size :].reshape(array.data.shape)
    if array.role == "out":
        poison(base)
    else:
        base[...] = array.base
    return replace(array, base=base, data=data)


def tile_sizes(problem: KernelProblem, size: str, counts: Iterable[int]) -> dict[str, Sizes]:
    """Size sets with the given numbers of tiles, made from set `size` by the problem's `tile` entry:
    `{"tiles0": {…, "K": 0}, "tiles3": {…, "K": 192}}`. Empty where the problem has none."""
    if problem.tile is None:
        return {}
    ((name, step),) = problem.tile.items()
    return {f"tiles{n}": MappingProxyType({**problem.sizes[size], name: n * step}) for n in counts}
