"""Correctness and races of real kernels, compiled and run by the emulator: the zoo's own, and broken ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilepipe.diagnostics import Refusal
from tilepipe.evidence.correctness import Subject, check_correctness
from tilepipe.evidence.types import Correctness, Races
from tilepipe.launch.cpu import CpuDevice
from tilepipe.problem import Problem, load_problem
from tilepipe.toolchain import NvrtcToolchain, Unit

ZOO = Path(__file__).parents[1] / "zoo"
SIZES = ("small", "ragged", "short1", "short2")


@pytest.fixture(scope="module")
def toolchain() -> NvrtcToolchain:
    made = NvrtcToolchain()
    if made.unavailable() is not None:
        pytest.skip("NVRTC is not installed")
    return made


def verify(toolchain: NvrtcToolchain, stem: str, *replacement: str) -> tuple[Correctness, Races]:
    """Verify the kernel of `stem` against its own text with one replacement made."""
    path = ZOO / f"{stem}.toml"
    problem = load_problem(str(path))
    assert isinstance(problem, Problem)
    kernel = problem.kernels[stem]
    text = path.with_suffix(".cu").read_text()
    assert not replacement or replacement[0] in text
    changed = text.replace(*replacement, 1) if replacement else text
    device = CpuDevice(toolchain)
    units = [Unit(t, str(path.with_suffix(".cu")), stem, kernel.instantiate) for t in (text, changed)]
    parameters = toolchain.parameter_types(units[0])
    loaded = [device.load(unit, device.arch) for unit in units]
    assert not isinstance(parameters, Refusal)
    originals = [kernel for kernel in loaded if not isinstance(kernel, Refusal)]
    subject = Subject(device, originals[0], originals[1], kernel, parameters, str(path))
    answer = check_correctness(subject, {n: s for n, s in kernel.sizes.items() if n in SIZES})
    assert not isinstance(answer, Refusal), answer
    return answer


@pytest.mark.parametrize(
    "stem", ["sgemm_copyloop", "igemm_bytes", "linear_bf16_mma", "fir_halo", "caxpy_walk"]
)
def test_a_kernel_equals_itself_and_its_reference(toolchain: NvrtcToolchain, stem: str) -> None:
    correctness, races = verify(toolchain, stem)
    assert (correctness.status, races.status) == ("passed", "passed"), (correctness, races)
    assert all(r.bitwise and r.within_tolerance for r in correctness.sizes.values())


def test_a_missing_barrier_is_a_race(toolchain: NvrtcToolchain) -> None:
    _, races = verify(toolchain, "sgemm_copyloop", "__syncthreads();", "")
    assert races.status == "failed" and races.findings and not races.original_findings


def test_a_racy_original_has_nothing_to_preserve(toolchain: NvrtcToolchain) -> None:
    correctness, races = verify(toolchain, "gemm_no_tail_sync")
    assert correctness.status == "failed" and "no defined result" in correctness.reason
    assert races.status == "unknown" and races.original_findings
