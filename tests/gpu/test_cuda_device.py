"""The CUDA device over a fake driver: arguments, copies, opt-in, refusals, and interleaved timing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from fakes import FakeDriver, FakeToolchain

from tilepipe.diagnostics import Refusal
from tilepipe.launch.gpu import Contender, CudaDevice, CudaKernel
from tilepipe.launch.types import LaunchOptions, RunResult
from tilepipe.problem import ArraySpec, Case, KernelProblem, Parameter, ScalarSpec, fresh_copy, make_case
from tilepipe.toolchain.types import Unit

ARGS = (
    ArraySpec("x", "in", ("N",), offset=1),
    ArraySpec("y", "inout", ("N",)),
    ArraySpec("z", "out", ("N",), offset=3),
    ScalarSpec("N"),
    ScalarSpec("0.5"),
)
PARAMETERS = [Parameter(n, "float *", "float") for n in "xyz"] + [
    Parameter("n", "int", None),
    Parameter("a", "__nv_bfloat16", None),
]


def axpy(driver: FakeDriver, x: Any, y: Any, z: Any, n: Any, a: Any) -> float:
    assert type(n) is np.int32 and type(a) is np.uint16
    scale = np.float32(np.array(a).view(ml_dtypes.bfloat16))
    vx, vy, vz = (driver.view(p, n, np.float32) for p in (x, y, z))
    vz[:] = vy
    vy += scale * vx
    return 1.0


def case(shared: str = "0") -> Case:
    problem = KernelProblem("axpy", None, ("2", "3"), ("32",), shared, ARGS, {"small": {"N": 5}})
    made = make_case(problem, "small", PARAMETERS, 1)
    assert isinstance(made, Case)
    return made


def setup(static_shared: int = 0, **kernels: Any) -> tuple[FakeDriver, CudaDevice, CudaKernel]:
    driver = FakeDriver(**(kernels or {"axpy": axpy}))
    device = CudaDevice(driver, FakeToolchain(static_shared))
    loaded = device.load(Unit("", "k.cu", next(iter(driver.kernels))), "sm_90")
    assert isinstance(loaded, CudaKernel)
    return driver, device, loaded


def code(answer: object) -> str:
    assert isinstance(answer, Refusal), answer
    assert answer.diagnostics[0].help
    return answer.diagnostics[0].code


def test_a_run_passes_views_and_scalars_and_copies_back() -> None:
    driver, _, kernel = setup()
    data, before = case(), case()
    result = kernel.run(data, LaunchOptions())
    assert isinstance(result, RunResult) and result.blocks_run == result.blocks_total == 6
    x, y, z = (a.data for a in data.arrays)
    assert (y == before.arrays[1].data + np.float32(0.5) * x).all()
    assert (z == before.arrays[1].data).all()
    assert data.arrays[2].base[:3].tobytes() == before.arrays[2].base[:3].tobytes()
    assert not driver.blocks


@pytest.mark.parametrize(
    ("static", "dynamic", "allowed"),
    [(0, 0, 0), (49152, 0, 0), (0, 49152, 0), (1, 49152, 1), (0, 227 * 1024, 1)],
)
def test_the_opt_in_is_made_when_static_and_dynamic_exceed_48_kilobytes(
    static: int, dynamic: int, allowed: int
) -> None:
    driver, _, kernel = setup(static)
    assert isinstance(kernel.run(case(str(dynamic)), LaunchOptions()), RunResult)
    assert [e for e in driver.log if e[0] == "allow"] == [("allow", "axpy", dynamic)] * allowed
    assert ("launch", "axpy", dynamic) in driver.log


def test_too_much_shared_memory_is_refused_before_the_launch() -> None:
    driver, _, kernel = setup(1024)
    assert code(kernel.run(case(str(227 * 1024)), LaunchOptions())) == "TP352"
    assert not [e for e in driver.log if e[0] == "launch"]


@pytest.mark.parametrize(
    ("method", "status", "expected"),
    [
        ("allocate", "CUDA_ERROR_OUT_OF_MEMORY", "TP355"),
        ("launch", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "TP351"),
        ("launch", "CUDA_ERROR_INVALID_VALUE", "TP351"),
        ("wait", "CUDA_ERROR_ILLEGAL_ADDRESS", "TP353"),
        ("wait", "CUDA_ERROR_MISALIGNED_ADDRESS", "TP353"),
        ("launch", "CUDA_ERROR_UNKNOWN", "TP353"),
    ],
)
def test_failures_are_refusals(method: str, status: str, expected: str) -> None:
    driver, device, kernel = setup()
    driver.fail[method] = status
    answer = kernel.run(case(), LaunchOptions())
    assert code(answer) == expected
    assert device.name in answer.diagnostics[0].message  # type: ignore[union-attr]
    driver.fail.clear()
    again = kernel.run(case(), LaunchOptions())
    if expected == "TP353":  # the context is gone for good
        assert again is answer and device.load(Unit("", "k.cu", "axpy"), "sm_90") is answer
        assert device.time_interleaved({"a": Contender(kernel, case())}, case(), 1) is answer
    else:
        assert isinstance(again, RunResult)


def test_a_hung_kernel_is_reported_once_and_for_all() -> None:
    driver, _, kernel = setup()
    driver.hangs = True
    answer = kernel.run(case(), LaunchOptions())
    assert code(answer) == "TP356"
    driver.hangs = False
    assert kernel.run(case(), LaunchOptions()) is answer


def test_a_cubin_that_does_not_load() -> None:
    driver = FakeDriver(axpy=axpy)
    driver.fail["load"] = "CUDA_ERROR_NO_BINARY_FOR_GPU"
    assert code(CudaDevice(driver, FakeToolchain()).load(Unit("", "k.cu", "axpy"), "sm_86")) == "TP354"


def contenders(device: CudaDevice, data: Case, **shared: int) -> dict[str, Contender]:
    loaded = {name: device.load(Unit("", "k.cu", name), "sm_90") for name in shared}
    return {
        name: Contender(kernel, replace(data, shared=shared[name]))
        for name, kernel in loaded.items()
        if isinstance(kernel, CudaKernel)
    }


def bump(milliseconds: float) -> Any:
    def kernel(driver: FakeDriver, x: Any, y: Any, *_: Any) -> float:
        values = driver.view(y, 5, np.float32)
        assert abs(values).max() < 1  # restored before every launch
        values += 1
        return milliseconds

    return kernel


def test_timing_interleaves_restores_and_flushes() -> None:
    driver, device, _ = setup(slow=bump(4.0), fast=bump(2.0), big=bump(3.0))
    data = case()
    kept = fresh_copy(data)
    samples = device.time_interleaved(contenders(device, data, slow=0, fast=8, big=60000), data, 20, warmup=2)
    assert isinstance(samples, dict)
    assert {n: set(s) for n, s in samples.items()} == {"slow": {4.0}, "fast": {2.0}, "big": {3.0}}
    assert all(len(s) == 20 for s in samples.values())
    assert [e for e in driver.log if e[0] == "allow"] == [("allow", "big", 60000)]
    steps = [e for e in driver.log if e[0] in ("fill", "record", "launch")]
    assert all(
        [e[0] for e in steps[i : i + 4]] == ["fill", "record", "launch", "record"]
        for i in range(0, len(steps), 4)
    )
    assert {e[1] for e in steps if e[0] == "fill"} == {2000}
    launches = [e[1] for e in steps if e[0] == "launch"][6:]
    orders = [tuple(launches[i : i + 3]) for i in range(0, 60, 3)]
    assert all(set(order) == {"slow", "fast", "big"} for order in orders) and len(set(orders)) > 2
    assert all(a.base.tobytes() == b.base.tobytes() for a, b in zip(data.arrays, kept.arrays, strict=True))
    assert not driver.blocks


def test_timing_without_a_flush_still_restores() -> None:
    driver, device, _ = setup(slow=bump(4.0))
    data = case()
    samples = device.time_interleaved(contenders(device, data, slow=0), data, 3, flush_l2=False)
    assert isinstance(samples, dict)
    assert not [e for e in driver.log if e[0] == "fill"]


def test_timing_refuses_what_does_not_fit() -> None:
    _, device, _ = setup(slow=bump(4.0))
    assert code(device.time_interleaved(contenders(device, case(), slow=300_000), case(), 3)) == "TP352"
