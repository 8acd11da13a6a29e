"""What only a real GPU can answer: the driver's occupancy, launches, opt-in, timing, faults."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilepipe.diagnostics import Refusal
from tilepipe.launch.gpu import Contender, CudaDevice, CudaKernel
from tilepipe.launch.types import LaunchOptions, RunResult
from tilepipe.problem import ArraySpec, Case, KernelProblem, Parameter, ScalarSpec, make_case
from tilepipe.toolchain.types import Unit

pytestmark = pytest.mark.gpu

SOURCE = r"""
extern "C" __global__ void axpy(const float* x, float* y, float* z, int n, float a)
{
    extern __shared__ float s[];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    s[threadIdx.x] = i < n ? x[i] : 0.f;
    __syncthreads();
    if (i < n) { z[i] = y[i]; y[i] += a * s[threadIdx.x]; }
}
extern "C" __global__ void spin(const float* x, float* y, float* z, int n, float a)
{
    float v = x[0];
    for (int i = 0; i < 200000; ++i) v = v * a + 1.f;
    if (v == 12345.f) y[0] = v;
}
extern "C" __global__ void wild(const float* x, float* y, float* z, int n, float a)
{
    z[(1ll << 44) + n] = a;
}
"""
ARGS = (
    ArraySpec("x", "in", ("N",), offset=1),
    ArraySpec("y", "inout", ("N",)),
    ArraySpec("z", "out", ("N",), offset=3),
    ScalarSpec("N"),
    ScalarSpec("0.5"),
)
PARAMETERS = [Parameter(n, "float *", "float") for n in "xyz"] + [
    Parameter("n", "int", None),
    Parameter("a", "float", None),
]


def made(shared: str = "1024") -> Case:
    problem = KernelProblem("axpy", None, ("cdiv(N, 256)",), ("256",), shared, ARGS, {"small": {"N": 10_001}})
    case = make_case(problem, "small", PARAMETERS, 1)
    assert isinstance(case, Case)
    return case


def load(gpu: CudaDevice, name: str) -> CudaKernel:
    kernel = gpu.load(Unit(SOURCE, "k.cu", name), gpu.arch)
    assert isinstance(kernel, CudaKernel), kernel
    return kernel


@pytest.mark.parametrize("shared", ["1024", "60000", "100000"])
def test_a_launch_computes(gpu: CudaDevice, shared: str) -> None:
    case, before = made(shared), made(shared)
    result = load(gpu, "axpy").run(case, LaunchOptions())
    assert isinstance(result, RunResult), result
    x, y = before.arrays[0].data, before.arrays[1].data
    assert np.allclose(case.arrays[1].data, y + np.float32(0.5) * x)
    assert (case.arrays[2].data == y).all() and np.isnan(case.arrays[2].base[:3]).all()


def test_timing_tells_slow_from_fast(gpu: CudaDevice) -> None:
    case = made()
    contenders = {name: Contender(load(gpu, name), case) for name in ("axpy", "spin")}
    samples = gpu.time_interleaved(contenders, case, 15)
    assert isinstance(samples, dict)
    assert 0 < np.median(samples["axpy"]) < np.median(samples["spin"]) / 3
    assert case.arrays[1].base.tobytes() == made().arrays[1].base.tobytes()


def test_more_shared_memory_than_the_gpu_has_is_a_refusal(gpu: CudaDevice) -> None:
    answer = load(gpu, "axpy").run(made(str(300 * 1024)), LaunchOptions())
    assert isinstance(answer, Refusal) and answer.diagnostics[0].code == "TP352"


def test_a_fault_is_a_refusal_and_ends_nothing_else(gpu: CudaDevice) -> None:
    """In a process of its own, since the fault takes the CUDA context with it."""
    script = """
        import sys
        sys.path.insert(0, {folder!r})
        from conftest import CoreToolchain
        from test_on_gpu import load, made
        from tilepipe.launch.gpu import find_gpu
        from tilepipe.launch.types import LaunchOptions
        gpu = find_gpu(CoreToolchain())
        kernels = [load(gpu, "wild"), load(gpu, "axpy")]
        answers = [kernel.run(made(), LaunchOptions()) for kernel in kernels]
        assert answers[0] is answers[1]
        print(answers[0].diagnostics[0].code, answers[0].diagnostics[0].message)
    """
    text = textwrap.dedent(script).format(folder=str(Path(__file__).parent))
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("TP353") and "ILLEGAL_ADDRESS" in done.stdout


def test_the_drivers_occupancy_agrees_everywhere(gpu: CudaDevice) -> None:
    script = Path(__file__).parents[2] / "benchmarks" / "occupancy_sweep.py"
    spec = importlib.util.spec_from_file_location("occupancy_sweep", script)
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    result = module.sweep()
    assert len({registers for registers, _ in result.kernels}) > 10
    assert result.checked > 10_000 and not result.mismatches, result.mismatches[:10]
