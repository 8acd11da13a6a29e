"""A kernel through model, rewrite, compiler and emulator: what the tests of emitted kernels have in common."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tilepipe.diagnostics import Refusal
from tilepipe.evidence.correctness import LaunchChange, Subject, check_correctness
from tilepipe.kernel.file import CudaFile
from tilepipe.kernel.model import KernelModel, build, study
from tilepipe.kernel.vectorstores import vector_asks
from tilepipe.launch import CpuDevice
from tilepipe.plan.types import Candidate, Form, Variant
from tilepipe.problem import KernelProblem, Problem, Sizes, load_problem
from tilepipe.rewrite import Rewrite, rewrite
from tilepipe.source import SourceFile
from tilepipe.toolchain import NvrtcToolchain, Question, Unit

ZOO = Path(__file__).parents[1] / "zoo"
EXAMPLES = Path(__file__).parents[2] / "examples"
TILES = (0, 1, 2, 3, 4, 7)
PARAMETERS = "const float* __restrict__ a, const int* __restrict__ idx, float* __restrict__ c, int n"
_PROBLEM = """schema = 1
[kernels.f]
grid = ["2"]
block = ["128"]
shared = "2048"
args = [
  { name = "a", in = ["8192"] },
  { name = "idx", in = ["64"], max = "16" },
  { name = "c", out = ["4", "128"] },
  { value = "N" },
]
[kernels.f.sizes]
small = { N = 4 }
"""


def candidate(variant: Variant, stages: int, form: Form = "ring") -> Candidate:
    return Candidate(f"{variant}-{stages}-{form}", variant, stages, form)


FORMS = (
    candidate("ldg", 2),
    candidate("ldg", 2, "textbook"),
    candidate("prefetch", 1),
    candidate("cp_async", 2),
    candidate("cp_async", 3),
    candidate("cp_async", 4),
    candidate("cp_async", 2, "textbook"),
    candidate("mixed", 2),
    candidate("mixed", 2, "textbook"),
    candidate("stash", 2),
    candidate("stash", 3),
)


def parse_candidate(identifier: str) -> Candidate:
    """The candidate of an id such as "cp_async-3-ring" or "cp_async-4-ring-frags-spread"."""
    plain = identifier.removesuffix("-spread").removesuffix("-frags")
    known = (*FORMS, *(candidate(v, n) for v in ("cp_async", "stash") for n in range(9)))
    found = next(c for c in known if c.id == plain)
    return replace(found, id=identifier, fragments="-frags" in identifier, spread="-spread" in identifier)


@functools.cache
def toolchain() -> NvrtcToolchain:
    made = NvrtcToolchain()
    if made.unavailable() is not None:
        pytest.skip("NVRTC is not installed")
    return made


@functools.cache
def device() -> CpuDevice:
    return CpuDevice(toolchain())


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel with the problem that launches it."""

    text: str
    path: str
    name: str
    problem: KernelProblem
    problem_path: str

    def unit(self, text: str | None = None) -> Unit:
        return Unit(self.text if text is None else text, self.path, self.name, self.problem.instantiate)

    @functools.cached_property
    def model(self) -> KernelModel | Refusal:
        file = CudaFile(SourceFile(self.path, self.text))
        found = study(file, next(k for k in file.kernels if k.name == self.name))
        if isinstance(found, Refusal):
            return found
        asks = (*found.asks, *vector_asks(found))
        asked = tuple(Question(a.key, a.kind, a.expression, a.offset) for a in asks)
        answers = toolchain().answer(self.unit(found.text), asked)
        return answers if isinstance(answers, Refusal) else build(found, answers)

    def emit(self, wanted: Candidate) -> Rewrite | Refusal:
        """The candidate's text, or why there is none."""
        return self.model if isinstance(self.model, Refusal) else rewrite(self.model, wanted)

    def difference(self, made: Rewrite, sizes: Mapping[str, Sizes]) -> str:
        """What distinguishes the emitted kernel from this one at the sizes: "" for nothing, races included."""
        parameters = toolchain().parameter_types(self.unit())
        original = device().load(self.unit(), "sm_80")
        changed = device().load(self.unit(made.text), "sm_80")
        assert not isinstance(parameters, Refusal), parameters
        assert not isinstance(original, Refusal), original
        assert not isinstance(changed, Refusal), changed
        change = LaunchChange(made.stages_factor, made.extra_dynamic_shared)
        subject = Subject(device(), original, changed, self.problem, parameters, self.problem_path, change)
        answer = check_correctness(subject, sizes)
        assert not isinstance(answer, Refusal), answer
        correctness, races = answer
        if correctness.status == "passed" and races.status == "passed":
            return ""
        if correctness.original_fault and all(size.bitwise for size in correctness.sizes.values()):
            # Equal to a kernel that has faults itself: no pass for a user, and all that can be asked of a rewrite.
            return f"passed ; {races.status} {races.reason}"
        return f"{correctness.status} {correctness.reason}; {races.status} {races.reason}"


def zoo_kernel(path: Path, name: str | None = None) -> Kernel:
    """A kernel of the zoo or the examples with the problem file beside it."""
    problem = load_problem(str(path.with_suffix(".toml")))
    assert isinstance(problem, Problem)
    name = name or path.stem
    return Kernel(path.read_text(), str(path), name, problem.kernels[name], str(path.with_suffix(".toml")))


def snippet(
    body: str, folder: Path, head: str = "", parameters: str = PARAMETERS, bounds: str = ""
) -> Kernel:
    """`body` as the body of a kernel `f`: two blocks of 128 threads, `n` tiles, arrays `a`, `idx` and `c`."""
    path = folder / "f.toml"
    path.write_text(_PROBLEM)
    problem = load_problem(str(path))
    assert isinstance(problem, Problem), problem
    text = f"{head}\n__global__ {bounds}void f({parameters})\n{{\n{body}\n}}\n"
    return Kernel(text, "f.cu", "f", problem.kernels["f"], str(path))


def tile_counts(counts: Iterable[int] = TILES) -> dict[str, Sizes]:
    """Size sets of a snippet: so many tiles each."""
    return {f"tiles{n}": {"N": n} for n in counts}


def with_dynamic(wanted: Candidate) -> Candidate:
    """The candidate with its static tiles moved to dynamic shared memory."""
    return replace(wanted, id=f"{wanted.id}-dynamic", dynamic=True)
