"""Emitted kernels to break, and the trial of a broken one: caught by a finding, a difference, or not at all."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache, cached_property
from pathlib import Path
from time import perf_counter
from types import FrameType
from typing import Literal

import numpy as np
from tests.mutants.operators import Mutant

from tilepipe.builds import Built, build_candidate
from tilepipe.diagnostics import Refusal
from tilepipe.evidence.compare import first_difference
from tilepipe.evidence.correctness import LaunchChange, changed_launch
from tilepipe.job import Job
from tilepipe.launch import CpuDevice
from tilepipe.launch.types import LaunchOptions, Loaded, RunResult
from tilepipe.opening import open_jobs
from tilepipe.options import Options
from tilepipe.plan.candidates import base_id, overrunning
from tilepipe.problem import ArraySpec, Case, Parameter, Sizes, fresh_copy, make_case, tile_sizes
from tilepipe.problem.dtypes import is_float
from tilepipe.rewrite import Rewrite

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (ROOT / "examples", ROOT / "tests" / "zoo", ROOT / "tests" / "zoo" / "poc")
CANDIDATES = (
    "cp_async-2-ring", "cp_async-3-ring", "cp_async-3-ring-16", "ldg-2-ring", "ldg-2-textbook", "mixed-2-ring",
    "prefetch-1-ring", "cp_async-3-ring-frags", "cp_async-3-ring-frags-spread", "ldg-2-ring-frags",
    "cp_async-3-ring-cuda-pipeline", "cp_async-3-ring-cuda-pipeline-block", "cp_async-3-ring-cuda-pipeline-block-frags",
    "stash-2-ring", "stash-3-ring", "cp_async-3-ring-16-overrun", "cp_async-3-ring-16-frags-overrun",
)  # fmt: skip
EQUIVALENT = Path(__file__).parent / "equivalent.toml"
_MOST_STEPS = 20_000_000  # of a block; small sizes need some hundred thousand
_MOST_BLOCKS = 16
_UNEVEN = (
    "ragged",
    "edge",
)  # size sets that tiles do not divide; "edge" is aligned for wide copies all the same
# A mutant whose endless loop passes barriers is given up after this many times what the unbroken kernel takes.
_PATIENCE = 10
_LEAST_SECONDS = 4.0
_OFFSETS = (1, 2, 4)  # elements


@cache
def jobs() -> dict[str, Job]:
    """Every kernel that has a problem file, by name."""
    found: dict[str, Job] = {}
    options = Options(device="cpu", allow_launch_change=True)
    for path in sorted(p for folder in FOLDERS for p in folder.glob("*.cu")):
        opened = open_jobs(str(path), options)
        assert not isinstance(opened, Refusal), opened
        found.update((job.kernel.name, job) for job in opened if job.problem is not None)
    return found


@dataclass(frozen=True, eq=False)
class Subject:
    """One kernel as one candidate emits it."""

    job: Job
    candidate: str
    made: Rewrite

    @property
    def kernel(self) -> str:
        return self.job.kernel.name

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        """The original's result at several numbers of tiles, those that show most bugs first."""
        stages = int(self.candidate.split("-")[1])
        parameters = self.job.toolchain.parameter_types(self.job.unit())
        original = CpuDevice(self.job.toolchain).load(self.job.unit(), self.job.arch.name)
        assert not isinstance(parameters, Refusal) and not isinstance(original, Refusal), self.kernel
        launches = [
            _launch(self, original, parameters, name, sizes, with_nan)
            for name, sizes in size_sets(self.job, stages).items()
            for with_nan in ((False, True) if name in ("small", *_UNEVEN) else (False,))
        ]
        if "tp_wide" in self.made.text:
            launches += self._unaligned(original, parameters)
        return tuple(sorted(launches, key=lambda launch: launch.size.endswith(_WITH_NAN)))

    def _unaligned(self, original: Loaded, parameters: tuple[Parameter, ...]) -> list[Launch]:
        """The author's own loop runs where arrays begin between multiples of 16 bytes: the problem's small sizes so,
        each array shifted by as few elements as the original allows."""
        problem = self.job.problem
        assert problem is not None
        shifted = self
        for name in [a.name for a in problem.args if isinstance(a, ArraySpec)]:
            for offset in _OFFSETS:
                further = shifted._with_shifted(name, offset)
                with suppress(_FaultyError):
                    _launch(further, original, parameters, "small", problem.sizes["small"], False)
                    shifted = further
                    break
        own = [(n, s) for n, s in problem.sizes.items() if n in ("small", *_UNEVEN)]
        return [
            _launch(shifted, original, parameters, f"{name}, arrays shifted", sizes, False)
            for name, sizes in own
        ]

    def _with_shifted(self, name: str, offset: int) -> Subject:
        """One array more is a view, `offset` elements into its memory."""
        problem = self.job.problem
        assert problem is not None
        args = tuple(
            replace(a, offset=offset) if isinstance(a, ArraySpec) and a.name == name else a
            for a in problem.args
        )
        return replace(self, job=replace(self.job, problem=replace(problem, args=args)))

    @cached_property
    def patience(self) -> float:
        """Seconds after which a mutant will not end."""
        loaded = _load(self, self.made.text)
        assert not isinstance(loaded, Refusal)
        start = perf_counter()
        for launch in self.launches:
            _try_launch(loaded, launch)
        return max(_LEAST_SECONDS, _PATIENCE * (perf_counter() - start))


@dataclass(frozen=True, eq=False)
class Launch:
    """One size: the data, the launch of the pipelined kernel, the blocks to run and what the original made."""

    size: str
    changed: Case
    blocks: tuple[int, ...]
    expected: Case


def size_sets(job: Job, stages: int) -> dict[str, Sizes]:
    """3, stages + 1, 2, 1 and 0 tiles where the problem file says what a tile is, and the sizes that tiles do
    not divide; else the problem's own small sizes."""
    problem = job.problem
    assert problem is not None
    own = {n: s for n, s in problem.sizes.items() if n != "target"}
    if problem.tile is None:
        return own
    counts = dict.fromkeys((3, stages + 1, 2, 1, *([0] if "short0" in own else [])))
    made = dict(tile_sizes(problem, "small", counts))
    return {**made, **{n: s for n, s in own.items() if n in _UNEVEN}}


class _FaultyError(Exception):
    """The original itself is not clean."""


_WITH_NAN = ", some inputs NaN"


def _launch(
    s: Subject,
    original: Loaded,
    parameters: tuple[Parameter, ...],
    name: str,
    sizes: Sizes,
    with_nan: bool,
) -> Launch:
    assert s.job.problem is not None
    case = make_case(s.job.problem, sizes, parameters, 0)
    assert isinstance(case, Case), case
    if with_nan:
        _sow_nan(case)
    change = LaunchChange(s.made.stages_factor, s.made.extra_dynamic_shared)
    changed = changed_launch(change, case, parameters, 0)
    assert isinstance(changed, Case), changed
    blocks = _spread(case.grid[0] * case.grid[1] * case.grid[2])
    expected = fresh_copy(case)
    done = original.run(expected, LaunchOptions(blocks=blocks))
    if not isinstance(done, RunResult) or done.findings:
        raise _FaultyError(s.kernel, name, done)
    return Launch(name + (_WITH_NAN if with_nan else ""), changed, blocks, expected)


def _sow_nan(case: Case) -> None:
    """Makes one input element in sixteen NaN, in place: zero times what must not be read is then not zero."""
    random = np.random.default_rng(0)
    for array in case.arrays:
        if array.role != "out" and is_float(array.data.dtype):
            array.data[random.random(array.data.shape) < 1 / 16] = np.nan


def _spread(total: int) -> tuple[int, ...]:
    """A few blocks of the grid, the first and the last (which sees every ragged edge) among them."""
    few = min(total, _MOST_BLOCKS)
    return tuple(sorted({i * (total - 1) // max(few - 1, 1) for i in range(few)}))


@cache
def subject(kernel: str, candidate: str) -> Subject | None:
    """The kernel as the candidate emits it; None where it is refused or the candidate is not possible."""
    job = jobs()[kernel]
    asked = replace(job, options=replace(job.options, candidate=candidate))
    model, plan = asked.model, asked.plan
    if isinstance(model, Refusal) or isinstance(plan, Refusal):
        return None
    plain, remedy, _ = base_id(candidate)
    chosen = next((c for c in plan.candidates if c.id == plain and c.status == "ok"), None)
    chosen = overrunning(chosen) if chosen is not None and remedy == "overrun" else chosen
    built = build_candidate(asked, model, chosen) if chosen is not None else None
    return Subject(job, candidate, built.rewrite) if isinstance(built, Built) else None


@dataclass(frozen=True)
class Verdict:
    """`caught` says by what, at which size and with copies landing when; None: nothing was observed. `valid` is
    False for a mutant that does not compile, which says nothing."""

    caught: str | None
    valid: bool = True


class _TooLongError(Exception):
    """The mutant runs on and on."""


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Ends what runs in the main thread by an exception."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise _TooLongError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def try_text(s: Subject, text: str) -> Verdict:
    """Compile and run a changed text of the subject at every size, with copies landing late, then early."""
    loaded = _load(s, text)
    if isinstance(loaded, Refusal):
        return Verdict(f"{loaded.diagnostics[0].code} {loaded.diagnostics[0].message}", valid=False)
    try:
        with _time_limit(s.patience):
            for launch in s.launches:
                caught = _try_launch(loaded, launch)
                if caught:
                    return Verdict(f"{caught} ({launch.size})")
    except _TooLongError:
        return Verdict("does not end")
    return Verdict(None)


def _load(s: Subject, text: str) -> Loaded | Refusal:
    return CpuDevice(s.job.toolchain).load(s.job.unit(text), s.job.arch.name)


def _try_launch(loaded: Loaded, launch: Launch) -> str | None:
    modes: tuple[Literal["late", "early"], ...] = ("late", "early")
    for mode in modes:
        case = fresh_copy(launch.changed)
        options = LaunchOptions(blocks=launch.blocks, copies=mode, max_steps=_MOST_STEPS)
        done = loaded.run(case, options)
        if isinstance(done, Refusal):
            return done.diagnostics[0].message
        if done.findings:
            return ", ".join(sorted({f.kind for f in done.findings}))
        if first_difference(launch.expected, case) is not None:
            return "numbers differ"
    return None


@dataclass(frozen=True)
class Equivalence:
    """Mutants proved to change nothing observable: shell patterns and the proof."""

    operator: str
    region: str
    candidate: str
    kernel: str
    line: str
    why: str

    def covers(self, kernel: str, candidate: str, operator: str, region: str, was: str) -> bool:
        pairs = (
            (self.operator, operator), (self.region, region), (self.candidate, candidate), (self.line, was)
        )  # fmt: skip
        kernels = self.kernel.split()
        return all(fnmatchcase(v, p) for p, v in pairs) and any(fnmatchcase(kernel, k) for k in kernels)


@cache
def equivalences() -> tuple[Equivalence, ...]:
    """The entries of equivalent.toml."""
    data = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))
    return tuple(_entry(**e) for e in data["equivalent"])


def _entry(
    operator: str, why: str, region: str = "*", candidate: str = "*", kernel: str = "*", line: str = "*"
) -> Equivalence:
    return Equivalence(operator, region, candidate, kernel, line, why)


def equivalence(s: Subject, mutant: Mutant) -> Equivalence | None:
    """The entry that says why this mutant cannot be observed."""
    return proof_of(s.kernel, s.candidate, mutant.operator, mutant.region, mutant.was)


def proof_of(kernel: str, candidate: str, operator: str, region: str, was: str) -> Equivalence | None:
    """The first entry that covers a mutant."""
    return next((e for e in equivalences() if e.covers(kernel, candidate, operator, region, was)), None)
