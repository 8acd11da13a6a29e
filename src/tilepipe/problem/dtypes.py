"""Element types: C and CUDA names, NumPy names, and the poison that outputs are filled with."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

_NAMED: dict[str, npt.DTypeLike] = {
    "float16": np.float16,
    "float32": np.float32,
    "float64": np.float64,
    "int8": np.int8,
    "int16": np.int16,
    "int32": np.int32,
    "int64": np.int64,
    "uint8": np.uint8,
    "uint16": np.uint16,
    "uint32": np.uint32,
    "uint64": np.uint64,
    "bool": np.bool_,
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
}
DTYPE_NAMES = tuple(_NAMED)

# C types as a compiler on 64-bit Linux spells them (`long` has 8 bytes, plain `char` is signed).
_C_TYPES = {
    "float": "float32",
    "double": "float64",
    "__half": "float16",
    "half": "float16",
    "__nv_bfloat16": "bfloat16",
    "nv_bfloat16": "bfloat16",
    "__nv_fp8_e4m3": "float8_e4m3fn",
    "__nv_fp8_e5m2": "float8_e5m2",
    "bool": "bool",
    "char": "int8",
    "signed char": "int8",
    "unsigned char": "uint8",
    "short": "int16",
    "unsigned short": "uint16",
    "int": "int32",
    "unsigned": "uint32",
    "unsigned int": "uint32",
    "long": "int64",
    "unsigned long": "uint64",
    "long long": "int64",
    "unsigned long long": "uint64",
    "size_t": "uint64",
    "ptrdiff_t": "int64",
    **{f"{sign}int{bits}_t": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
_POISON_BYTE = 0xA5
# Quiet NaNs with a payload of 0xA5, so that an element never written is told from one that came out as NaN.
_POISON_BITS: dict[str, int] = {
    "float16": 0x7EA5,
    "float32": 0x7FC0A5A5,
    "float64": 0x7FF8A5A5A5A5A5A5,
    "bfloat16": 0x7FE5,
}


def named_dtype(name: str) -> np.dtype[Any] | None:
    """The dtype of a NumPy-style name (`"float32"`, `"bfloat16"`), None if there is none."""
    return np.dtype(_NAMED[name]) if name in _NAMED else None


def c_dtype(type_name: str) -> np.dtype[Any] | None:
    """The dtype of a scalar C or CUDA type; None for `void`, vector types and structs."""
    words = [w for w in type_name.replace("std::", "").split() if w not in ("const", "volatile")]
    if len(words) > 1:
        words = [w for w in words if w != "int"] or words
    name = _C_TYPES.get(" ".join(words))
    return None if name is None else named_dtype(name)


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether elements are floating point, the 16- and 8-bit types of ml_dtypes included."""
    return dtype.kind == "f" or dtype in map(np.dtype, (ml_dtypes.bfloat16, *_FP8))


_FP8 = (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)


def poison(array: npt.NDArray[Any]) -> None:
    """Fill `array` in place: floats with NaN, integers with 0xA5 bytes, booleans with True."""
    bits = _POISON_BITS.get(array.dtype.name)
    if bits is not None:
        array.view(f"u{array.dtype.itemsize}")[...] = bits
    elif is_float(array.dtype):
        array[...] = np.nan
    elif array.dtype.kind == "b":
        array[...] = True
    else:
        array.view(np.uint8)[...] = _POISON_BYTE
