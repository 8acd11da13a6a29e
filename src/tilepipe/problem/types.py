"""The problem file as data: how a kernel is launched and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class ArraySpec:
    """An array argument: row-major, `shape` in integer expressions over the size names."""

    name: str
    role: Literal["in", "out", "inout"]
    shape: tuple[str, ...]
    dtype: str | None = None
    low: int | None = None  # `range`: random integers in [low, high)
    high: int | None = None
    fill: str | None = None
    index_min: str | None = None
    index_max: str | None = None
    offset: int = 0  # elements by which the pointer is moved into a larger allocation


@dataclass(frozen=True)
class ScalarSpec:
    """A scalar argument: an expression over the size names."""

    value: str


@dataclass(frozen=True)
class KernelProblem:
    """One `[kernels.NAME]` table."""

    name: str
    instantiate: str | None
    grid: tuple[str, ...]
    block: tuple[str, ...]
    shared: str
    args: tuple[ArraySpec | ScalarSpec, ...]
    sizes: Mapping[str, Sizes]
    flops: str | None = None
    bytes: str | None = None
    reference: str | None = None
    reference_at: tuple[str, ...] | None = None
    rtol: float = 0.0
    atol: float = 0.0
    tile: Mapping[str, int] | None = None
    expect: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Problem:
    """A whole problem file."""

    path: str
    kernels: Mapping[str, KernelProblem]
    expect: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Parameter:
    """A kernel parameter as the source declares it; `type` is canonical (`"const float *"`, `"int"`)."""

    name: str
    type: str
    pointee: str | None  # canonical element type of a pointer, without cv; None for a scalar


@dataclass(frozen=True)
class Array:
    """A materialised array argument. `base` is the whole allocation (1-D), `data` the view the kernel is
    given: it starts `offset` elements into `base`. Outputs are poisoned."""

    name: str
    role: Literal["in", "out", "inout"]
    base: npt.NDArray[Any]
    data: npt.NDArray[Any]


@dataclass(frozen=True)
class Scalar:
    """A scalar argument as a 0-d NumPy value of the parameter's exact type."""

    value: np.generic


@dataclass(frozen=True)
class Case:
    """A kernel problem at one size set, with fresh data: all that a launch needs."""

    size: str
    sizes: Sizes
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    args: tuple[Array | Scalar, ...]
    flops: int | None
    bytes: int | None

    @property
    def arrays(self) -> tuple[Array, ...]:
        return tuple(a for a in self.args if isinstance(a, Array))
