"""Bank conflicts of the original and of a candidate, counted by the emulator in one block of a small size."""

from __future__ import annotations

from collections import defaultdict
from typing import Literal

from tilepipe.builds import Built
from tilepipe.diagnostics import Refusal
from tilepipe.emulator.profile import Profile
from tilepipe.evidence.correctness import changed_launch
from tilepipe.evidence.types import Banks, BankUse
from tilepipe.job import Job
from tilepipe.launch import CpuDevice, LaunchOptions, RunResult
from tilepipe.problem import Case, fresh_copy, make_case

_WRITES = ("store", "copy", "wmma store", "stmatrix")
_Key = tuple[str, Literal["read", "write"]]


def bank_conflicts(job: Job, built: Built) -> Banks | None:
    """What both kernels' accesses to shared memory take, by array; None where that cannot be counted here."""
    problem = job.problem
    parameters = job.toolchain.parameter_types(job.unit())
    if problem is None or isinstance(parameters, Refusal):
        return None
    size = "small" if "small" in problem.sizes else next((n for n in problem.sizes if n != "target"), None)
    case = make_case(problem, size, parameters, job.options.seed) if size is not None else None
    if size is None or not isinstance(case, Case):
        return None
    launch = changed_launch(built.change, case, parameters, job.options.seed)
    if isinstance(launch, Refusal):
        return None
    before = _profile(job, job.file.source.text, case)
    after = _profile(job, built.rewrite.text, launch)
    if before is None or after is None:
        return None
    return Banks(size, _compared(_degrees(before), _degrees(after)))


def _profile(job: Job, text: str, case: Case) -> Profile | None:
    kernel = CpuDevice(job.toolchain).load(job.unit(text), job.arch.name)
    if isinstance(kernel, Refusal):
        return None
    done = kernel.run(fresh_copy(case), LaunchOptions(blocks=(0,), profile=True))
    return done.profile if isinstance(done, RunResult) else None


def _degrees(profile: Profile) -> dict[_Key, tuple[float, tuple[int, ...]]]:
    """Wavefronts over the least possible, and the source lines, by array and direction. A ring is the array that it
    was made of."""
    taken: dict[_Key, list[int]] = defaultdict(lambda: [0, 0])
    lines: dict[_Key, set[int]] = defaultdict(set)
    for a in profile.shared:
        key: _Key = (a.array.removesuffix("_ring"), "write" if a.operation in _WRITES else "read")
        taken[key][0] += a.wavefronts
        taken[key][1] += a.least
        lines[key].add(a.line)
    return {key: (n / max(least, 1), tuple(sorted(lines[key]))) for key, (n, least) in taken.items()}


def _compared(
    before: dict[_Key, tuple[float, tuple[int, ...]]], after: dict[_Key, tuple[float, tuple[int, ...]]]
) -> tuple[BankUse, ...]:
    uses = []
    for array, access in sorted({**before, **after}):
        old, new = before.get((array, access)), after.get((array, access))
        lines = old[1] if old is not None else ()
        uses.append(
            BankUse(
                array,
                access,
                lines,
                old[0] if old is not None else None,
                new[0] if new is not None else None,
            )
        )
    return tuple(uses)
