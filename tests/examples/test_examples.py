"""The shipped examples: their problem files load, and they are competent kernels on every architecture."""

from pathlib import Path

import numpy as np
import pytest

from tilepipe.diagnostics import Refusal
from tilepipe.problem import load_problem
from tilepipe.problem.types import ArraySpec, KernelProblem
from tilepipe.toolchain import NvrtcToolchain, Unit

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(EXAMPLES.glob("*.cu"))
NEEDS_SM80 = ("hgemm_mma",)  # mma.sync.m16n8k16
RESIDENT = {"hgemm_mma": 1}  # blocks of 256 threads that an SM keeps, by their registers
NAMES = [path.stem for path in FILES]


def problem_of(path: Path) -> KernelProblem:
    problem = load_problem(str(path.with_suffix(".toml")))
    assert not isinstance(problem, Refusal), problem
    (kernel,) = problem.kernels.values()
    return kernel


def test_every_example_has_a_problem_file() -> None:
    assert FILES
    assert sorted(p.stem for p in EXAMPLES.glob("*.toml")) == NAMES


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_problem_files(path: Path) -> None:
    kernel = problem_of(path)
    assert kernel.name == path.stem
    assert {"small", "short0", "short1", "short2", "target"} <= set(kernel.sizes)
    assert kernel.reference
    assert kernel.tile
    assert kernel.flops or kernel.bytes


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_short_sizes_are_that_short(path: Path) -> None:
    kernel = problem_of(path)
    ((name, step),) = (kernel.tile or {}).items()
    tiles = {size: -(-kernel.sizes[size][name] // step) for size in ("short0", "short1", "short2")}
    assert tiles == {"short0": 0, "short1": 1, "short2": 2}


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_the_reference_is_an_expression_over_the_arrays(path: Path) -> None:
    kernel = problem_of(path)
    inputs = {
        a.name: np.ones((2, 2), np.float32)
        for a in kernel.args
        if isinstance(a, ArraySpec) and a.role == "in"
    }
    value = eval(kernel.reference or "", {"np": np}, inputs)
    assert value.shape == (2, 2)


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_120"])
@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_they_compile_without_spills(path: Path, arch: str) -> None:
    unit = Unit(path.read_text(encoding="utf-8"), str(path), path.stem)
    compiled = NvrtcToolchain(None).compile(unit, arch, "cubin")
    if path.stem in NEEDS_SM80 and arch == "sm_75":
        assert isinstance(compiled, Refusal)
        return
    assert not isinstance(compiled, Refusal), compiled
    assert compiled.local_bytes == compiled.spill_stores == compiled.spill_loads == 0
    assert compiled.registers <= 65536 // (256 * RESIDENT.get(path.stem, 2))
    assert 0 < compiled.static_shared <= 48 * 1024
