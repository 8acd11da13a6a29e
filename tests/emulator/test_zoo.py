"""The zoo's kernels on the CPU device: right results, and findings exactly where a kernel is wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tilepipe.diagnostics import Refusal
from tilepipe.launch.cpu import CpuDevice
from tilepipe.launch.types import LaunchOptions, RunResult
from tilepipe.problem import Case, Problem, evaluate_reference, fresh_copy, load_problem, make_case
from tilepipe.toolchain import NvrtcToolchain, Unit

ZOO = Path(__file__).parent.parent / "zoo"
RACY = {"gemm_no_tail_sync"}  # lacks the barrier that its name says; right with a single tile only
SMALL_SIZES = ("ragged", "short0", "short1", "short2")
SAMPLE = [
    "attn_rowblock",
    "axpy_async_ring",
    "bgemm_strided_half",
    "dgemm_nt_pad",
    "gemm_no_tail_sync",
    "hgemm_pairs",
    "hgemm_wmma_bias",
    "igemm_bytes",
    "linear_bf16_mma",
    "nearest_point",
    "qgemm_dp4a",
    "sgemm_copyloop",
    "w8a16_groups",
]


def problems() -> dict[str, tuple[Path, Problem]]:
    found = {}
    for path in sorted(ZOO.glob("*.toml")):
        problem = load_problem(str(path))
        assert isinstance(problem, Problem)
        found.update((name, (path, problem)) for name in problem.kernels)
    return found


def run(nvrtc: NvrtcToolchain, name: str, sizes: tuple[str, ...]) -> list[tuple[str, RunResult, bool]]:
    """For each size: what was found, and whether the outputs match the reference."""
    path, problem = problems()[name]
    kernel = problem.kernels[name]
    source = path.with_suffix(".cu")
    unit = Unit(source.read_text(), str(source), name, kernel.instantiate)
    parameters = nvrtc.parameter_types(unit)
    assert not isinstance(parameters, Refusal)
    loaded = CpuDevice(nvrtc).load(unit, "sm_80")
    assert not isinstance(loaded, Refusal), loaded
    results = []
    for size in sizes:
        if size not in kernel.sizes:
            continue
        case = make_case(kernel, size, parameters, 0)
        assert isinstance(case, Case)
        want = evaluate_reference(kernel, str(path), case)
        assert isinstance(want, dict)
        launched = fresh_copy(case)
        done = loaded.run(launched, LaunchOptions())
        assert isinstance(done, RunResult)
        exact = all(
            np.allclose(values(a.data), np.asarray(want[a.name], np.float64), kernel.rtol, kernel.atol)
            for a in launched.arrays
            if a.name in want
        )
        results.append((size, done, exact))
    assert results
    return results


def values(data: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    """Array contents as float64; bfloat16 travels as 16-bit patterns."""
    if data.dtype == np.uint16:
        data = (data.astype(np.uint32) << 16).view(np.float32)
    return data.astype(np.float64)


def check(results: list[tuple[str, RunResult, bool]], racy: bool) -> None:
    for size, done, exact in results:
        assert done.blocks_run == done.blocks_total
        if racy and size != "short1":
            assert {f.kind for f in done.findings} == {"write-read race", "read-write race"}
            assert all(len(f.lines) == 2 for f in done.findings)
        else:
            assert done.findings == (), size
            assert exact, size


@pytest.mark.parametrize("name", SAMPLE)
def test_sample_at_small_sizes(nvrtc: NvrtcToolchain, name: str) -> None:
    check(run(nvrtc, name, SMALL_SIZES), name in RACY)


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(problems()))
def test_every_kernel(nvrtc: NvrtcToolchain, name: str) -> None:
    check(run(nvrtc, name, (*SMALL_SIZES, "small")), name in RACY)


def test_early_copies_and_unchecked_runs_agree(nvrtc: NvrtcToolchain) -> None:
    """The same bits in every mode: what the bitwise comparison of two kernels rests on."""
    path, problem = problems()["axpy_async_ring"]
    kernel, source = problem.kernels["axpy_async_ring"], path.with_suffix(".cu")
    unit = Unit(source.read_text(), str(source), kernel.name)
    parameters, loaded = nvrtc.parameter_types(unit), CpuDevice(nvrtc).load(unit, "sm_80")
    assert not isinstance(parameters, Refusal) and not isinstance(loaded, Refusal)
    case = make_case(kernel, "short2", parameters, 3)
    assert isinstance(case, Case)
    outputs = set()
    for options in (LaunchOptions(), LaunchOptions(copies="early"), LaunchOptions(checks=False)):
        launched = fresh_copy(case)
        loaded.run(launched, options)
        outputs.add(b"".join(a.data.tobytes() for a in launched.arrays))
    assert len(outputs) == 1


def test_device_describes_itself_and_hands_refusals_on(nvrtc: NvrtcToolchain) -> None:
    device = CpuDevice(nvrtc)
    assert (device.kind, device.name, device.arch) == ("cpu", "cpu", "sm_80")
    broken = device.load(Unit("__global__ void k(int* p) { *p = }", "broken.cu", "k"), "sm_80")
    assert isinstance(broken, Refusal)
    assert broken.diagnostics[0].code == "TP200"
    heap = "__global__ void k(void** p) { *p = malloc(8); }"
    refused = device.load(Unit(heap, "heap.cu", "k"), "sm_80")
    assert isinstance(refused, Refusal)
    assert refused.diagnostics[0].code == "TP300"
