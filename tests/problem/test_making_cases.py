"""Cases: shapes, types, contents, poison, scalars, alignment, and every refusal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from signatures import signature

from tilepipe.diagnostics import Refusal
from tilepipe.problem import (
    Array,
    ArraySpec,
    Case,
    KernelProblem,
    Parameter,
    Problem,
    Scalar,
    ScalarSpec,
    evaluate_reference,
    fresh_copy,
    load_problem,
    make_case,
    tile_sizes,
)
from tilepipe.problem.dtypes import DTYPE_NAMES, c_dtype, named_dtype, poison

ZOO = Path(__file__).parents[1] / "zoo"


def kernel(*args: ArraySpec | ScalarSpec, **changes: Any) -> KernelProblem:
    base = KernelProblem("k", None, ("1",), ("32",), "0", args, {"small": {"N": 7, "Z": 0}})
    return replace(base, **changes)


def pointer(pointee: str) -> Parameter:
    return Parameter("p", f"{pointee} *", pointee)


def array(spec: ArraySpec, pointee: str, seed: int = 1) -> Array:
    case = make_case(kernel(spec), "small", [pointer(pointee)], seed)
    assert isinstance(case, Case), case
    return case.arrays[0]


def scalar(value: str, type_name: str) -> np.generic:
    case = make_case(kernel(ScalarSpec(value)), "small", [Parameter("s", type_name, None)], 1)
    assert isinstance(case, Case), case
    assert isinstance(case.args[0], Scalar)
    return case.args[0].value


def code(problem: KernelProblem, *parameters: Parameter, size: Any = "small") -> str:
    answer = make_case(problem, size, parameters, 1)
    assert isinstance(answer, Refusal), answer
    assert answer.diagnostics[0].help
    return answer.diagnostics[0].code


@pytest.mark.parametrize("path", sorted(ZOO.glob("*.toml")), ids=lambda p: p.stem)
def test_every_zoo_case_and_reference(path: Path) -> None:
    """All but the target sizes: the case is made, and the reference gives arrays of the outputs' shapes."""
    problem = load_problem(str(path))
    assert isinstance(problem, Problem)
    for name, entry in problem.kernels.items():
        for size in entry.sizes.keys() - {"target"}:
            case = make_case(entry, size, signature(path.with_suffix(".cu").read_text(), name), 3)
            assert isinstance(case, Case), case
            expected = evaluate_reference(entry, str(path), case)
            assert isinstance(expected, dict) or entry.reference_at is not None, expected
            assert case.grid[0] >= 1 and case.block[0] >= 1


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_outputs_are_poisoned(dtype: str) -> None:
    made = array(ArraySpec("o", "out", ("N", "3"), dtype=dtype), "void")
    assert made.data.dtype == named_dtype(dtype) and made.data.shape == (7, 3)
    if "float" in dtype:
        assert np.isnan(made.data.astype(np.float64)).all()
    else:
        assert set(made.data.tobytes()) <= ({0xA5} if dtype != "bool" else {1})


def test_poison_carries_a_payload() -> None:
    values = np.zeros(3, np.float32)
    poison(values)
    assert (values.view(np.uint32) == 0x7FC0A5A5).all() and np.isnan(values).all()


@pytest.mark.parametrize("dtype", [name for name in DTYPE_NAMES if "float" in name])
def test_floats_default_to_the_unit_interval(dtype: str) -> None:
    data = array(ArraySpec("x", "in", ("100", "N"), dtype=dtype), "void").data.astype(np.float64)
    assert -1 <= data.min() < -0.9 and 0.9 < data.max() <= 1 and abs(data.mean()) < 0.15


@pytest.mark.parametrize(("low", "high"), [(-8, 8), (0, 1), (-128, 127)])
@pytest.mark.parametrize("pointee", ["float", "__half", "__nv_bfloat16", "signed char", "int", "long long"])
def test_intervals_are_integers(low: int, high: int, pointee: str) -> None:
    data = array(ArraySpec("x", "in", ("500",), low=low, high=high), pointee).data.astype(np.int64)
    assert low <= data.min() and data.max() < high and len(np.unique(data)) > (high - low) // 2


def test_index_arrays() -> None:
    data = array(ArraySpec("i", "in", ("300",), index_min="-1", index_max="N"), "int").data
    assert set(np.unique(data)) == set(range(-1, 7)) and data.dtype == np.int32


@pytest.mark.parametrize("pointee", ["unsigned char", "signed char", "int", "unsigned long long"])
def test_integers_default_to_every_pattern(pointee: str) -> None:
    data = array(ArraySpec("x", "in", ("4000",)), pointee).data
    limits = np.iinfo(data.dtype)
    assert int(data.max()) > limits.max * 0.98 and int(data.min()) < limits.min + limits.max * 0.02


def test_named_fills() -> None:
    assert (array(ArraySpec("x", "in", ("N",), fill="arange"), "float").data == np.arange(7)).all()
    assert (array(ArraySpec("x", "inout", ("N",), fill="zeros"), "int").data == 0).all()
    assert np.isnan(array(ArraySpec("x", "in", ("N",), fill="nan"), "__half").data).all()


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(["float", "double", "unsigned char", "__half"]), st.integers(0, 9))
def test_offsets_are_views_of_aligned_memory(pointee: str, offset: int) -> None:
    made = array(ArraySpec("x", "in", ("N", "2"), offset=offset), pointee)
    assert made.base.ctypes.data % 256 == 0 and made.base.size == offset + 14
    assert made.data.ctypes.data - made.base.ctypes.data == offset * made.base.itemsize
    assert np.shares_memory(made.base, made.data)
    untouched = made.base[:offset].copy()
    poison(untouched)
    assert made.base[:offset].tobytes() == untouched.tobytes()


def test_empty_dimensions() -> None:
    assert array(ArraySpec("x", "in", ("N", "Z")), "float").data.shape == (7, 0)
    assert array(ArraySpec("i", "in", ("Z",), index_max="Z"), "int").data.size == 0


def test_seeds() -> None:
    spec = ArraySpec("x", "in", ("N",))
    assert (array(spec, "float", 5).data == array(spec, "float", 5).data).all()
    assert (array(spec, "float", 5).data != array(spec, "float", 6).data).any()
    two = make_case(kernel(spec, replace(spec, name="y")), "small", [pointer("float")] * 2, 5)
    assert isinstance(two, Case) and (two.arrays[0].data != two.arrays[1].data).any()


def test_fresh_copies_share_nothing() -> None:
    specs = (
        ArraySpec("a", "in", ("N",), offset=1),
        ArraySpec("b", "inout", ("N",)),
        ArraySpec("c", "out", ("N",)),
    )
    case = make_case(kernel(*specs), "small", [pointer("float")] * 3, 1)
    assert isinstance(case, Case)
    case.arrays[2].base[...] = 5  # as if a launch had written it
    copy = fresh_copy(case)
    for old, new in zip(case.arrays, copy.arrays, strict=True):
        assert not np.shares_memory(old.base, new.base) and new.base.ctypes.data % 256 == 0
        assert new.data.ctypes.data - new.base.ctypes.data == old.data.ctypes.data - old.base.ctypes.data
        assert old.role == "out" or old.base.tobytes() == new.base.tobytes()
    assert np.isnan(copy.arrays[2].data).all()


def test_scalars_have_the_parameters_type() -> None:
    assert type(scalar("N", "int")) is np.int32 and scalar("N", "int") == 7
    assert type(scalar("0.5", "float")) is np.float32 and type(scalar("2", "double")) is np.float64
    assert (
        type(scalar("N", "unsigned long")) is np.uint64 and type(scalar("N*N", "const long long")) is np.int64
    )
    assert type(scalar("0.1", "__half")) is np.float16 and type(scalar("1", "bool")) is np.bool_
    assert type(scalar("0.1", "__nv_bfloat16")) is ml_dtypes.bfloat16
    assert type(scalar("N", "const unsigned char")) is np.uint8 and type(scalar("N", "short int")) is np.int16


def test_the_launch() -> None:
    problem = kernel(grid=("cdiv(N, 2)", "2"), block=("8", "4", "2"), shared="4*N", flops="2*N", bytes="N")
    case = make_case(problem, "small", [], 1)
    assert isinstance(case, Case)
    assert (case.grid, case.block, case.shared, case.flops, case.bytes) == ((4, 2, 1), (8, 4, 2), 28, 14, 7)
    own = make_case(problem, {"Z": 1, "N": 9}, [], 1)
    assert isinstance(own, Case) and own.grid == (5, 2, 1) and own.size == "N=9,Z=1"


def test_tile_counts() -> None:
    problem = kernel(ArraySpec("x", "in", ("N",)), tile={"N": 4})
    sizes = tile_sizes(problem, "small", range(4))
    assert [s["N"] for s in sizes.values()] == [0, 4, 8, 12] and list(sizes)[3] == "tiles3"
    assert tile_sizes(kernel(), "small", range(4)) == {}


def test_refusals() -> None:
    x, n = ArraySpec("x", "in", ("N",)), ScalarSpec("N")
    integer = Parameter("n", "int", None)
    assert code(kernel(x), size="big") == "TP116"
    assert code(kernel(), size={"N": 3}) == "TP116"
    assert code(kernel(), size={"N": 3, "Z": -1}) == "TP116"
    assert code(kernel(x)) == "TP114"
    assert code(kernel(x), integer) == "TP114"
    assert code(kernel(n), pointer("float")) == "TP114"
    assert code(kernel(x), pointer("float4")) == "TP115"
    assert code(kernel(x), pointer("void")) == "TP115"
    assert code(kernel(n), Parameter("t", "Params", None)) == "TP115"
    assert code(kernel(replace(x, fill="nan")), pointer("int")) == "TP115"
    assert code(kernel(replace(x, low=0, high=256)), pointer("signed char")) == "TP119"
    assert code(kernel(replace(x, index_max="N - 7")), pointer("int")) == "TP117"
    assert code(kernel(replace(x, shape=("N - 9",))), pointer("int")) == "TP117"
    assert code(kernel(replace(x, shape=("1048576*1048576",))), pointer("int")) == "TP117"
    assert code(kernel(ScalarSpec("0.5")), integer) == "TP119"
    assert code(kernel(ScalarSpec("2147483648")), integer) == "TP119"
    assert code(kernel(ScalarSpec("-1")), Parameter("u", "unsigned int", None)) == "TP119"
    assert code(kernel(ScalarSpec("1.0e6")), Parameter("h", "__half", None)) == "TP119"
    assert code(kernel(ScalarSpec("2")), Parameter("b", "bool", None)) == "TP119"
    assert code(kernel(grid=("Z",))) == "TP117"
    assert code(kernel(block=("32", "33"))) == "TP117"
    assert code(kernel(block=("1", "1", "65"))) == "TP117"
    assert code(kernel(shared="0-1")) == "TP117"
    assert code(kernel(grid=("N // Z",))) == "TP113"


def test_c_types() -> None:
    assert c_dtype("std::uint8_t") == np.uint8 and c_dtype("const unsigned int") == np.uint32
    assert c_dtype("long unsigned int") is None or c_dtype("unsigned long int") == np.uint64
    assert c_dtype("float2") is None and c_dtype("void") is None
