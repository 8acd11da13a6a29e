"""Exact rational arithmetic and its rounding to binary formats: the reference for floating point."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import ml_dtypes
import numpy as np
import numpy.typing as npt


class Format(NamedTuple):
    """Significand bits with the hidden one, least and greatest exponent of a normal number."""

    precision: int
    least: int
    greatest: int


FORMATS = {
    "f16": Format(11, -14, 15),
    "bf16": Format(8, -126, 127),
    "f32": Format(24, -126, 127),
    "f64": Format(53, -1022, 1023),
}
DTYPES: dict[str, npt.DTypeLike] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
}


def rounded(x: Fraction, name: str, mode: str = "rn") -> float:
    """`x` in the format, as a Python float (all formats fit in one)."""
    f = FORMATS[name]
    if x == 0:
        return 0.0
    size = abs(x)
    exponent = (
        math.floor(math.log2(size)) if size < 2**900 and size > Fraction(1, 2**900) else _exponent(size)
    )
    while Fraction(2) ** exponent > size:
        exponent -= 1
    while Fraction(2) ** (exponent + 1) <= size:
        exponent += 1
    unit = Fraction(2) ** (max(exponent, f.least) - f.precision + 1)
    whole, rest = divmod(size, unit)
    up = {
        "rn": rest * 2 > unit or (rest * 2 == unit and whole % 2 == 1),
        "rz": False,
        "rm": rest > 0 and x < 0,
        "rp": rest > 0 and x > 0,
    }[mode]
    result = (whole + up) * unit
    limit = (2 - Fraction(2) ** (1 - f.precision)) * Fraction(2) ** f.greatest
    if result > limit:
        away = mode == "rn" or (mode == "rm" and x < 0) or (mode == "rp" and x > 0)
        result_size = math.inf if away else float(limit)
    else:
        result_size = float(result)
    return -result_size if x < 0 else result_size


def _exponent(size: Fraction) -> int:
    return size.numerator.bit_length() - size.denominator.bit_length()


def same(got: float, want: float) -> bool:
    """Equal, with every NaN the same and zeros told apart only by value."""
    return (math.isnan(got) and math.isnan(want)) or got == want
