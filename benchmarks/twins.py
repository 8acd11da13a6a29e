"""Times tilepipe's candidates against twins that were pipelined by hand, and the originals, in one run on a GPU.

    python benchmarks/twins.py [LIST.toml] [--only NAME]

The list names pairs: an un-pipelined kernel with its problem file, and the version by hand with its own (default: this
project's pair, `benchmarks/twins.toml`). Each candidate is compared bitwise with the original at the small sizes before
anything is timed; whether the version by hand equals the original is told, not asked.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tilepipe.builds import Built, verify_candidate
from tilepipe.diagnostics import Refusal
from tilepipe.evidence.benchmark import benchmark
from tilepipe.evidence.compare import first_difference
from tilepipe.evidence.correctness import changed_launch
from tilepipe.evidence.types import Benchmark
from tilepipe.job import Job
from tilepipe.launch import Contender, CudaDevice
from tilepipe.launch.types import LaunchOptions
from tilepipe.opening import open_job
from tilepipe.options import Options
from tilepipe.planning import preconditions_and_variant, restructure
from tilepipe.problem import Array, Case, Sizes, fresh_copy, make_case
from tilepipe.report import RunReport
from tilepipe.toolchain.types import CompileOptions

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
BY_HAND = "by hand"


@dataclass(frozen=True)
class Twin:
    """A pair of the list, opened."""

    name: str
    original: Job
    by_hand: Job
    sizes: tuple[Sizes, ...]


def opened(entry: dict[str, Any], folder: Path) -> Twin | str:
    """The pair of an entry; a reason where it cannot be opened. Paths are relative to the list."""
    jobs = []
    for role in ("original", "by_hand"):
        part = entry[role]
        build = CompileOptions(include_dirs=tuple(str(folder / d) for d in part.get("include", ())))
        problem = str(folder / part["problem"]) if "problem" in part else None
        options = Options(kernel=part.get("kernel"), problem=problem, compile=build, allow_launch_change=True)
        job = open_job(str(folder / part["file"]), options)
        if isinstance(job, Refusal):
            return f"{role}: {job.diagnostics[0].message}"
        if job.problem is None or not isinstance(job.device, CudaDevice):
            return f"{role}: no problem file, or no GPU"
        jobs.append(job)
    return Twin(entry["name"], jobs[0], jobs[1], tuple(entry["sizes"]))


def case_of(job: Job, sizes: Sizes) -> Case | str:
    """The launch of a job at some sizes."""
    parameters = job.toolchain.parameter_types(job.unit())
    assert job.problem is not None
    problem = replace(job.problem, sizes={"target": sizes})
    if isinstance(parameters, Refusal):
        return parameters.diagnostics[0].message
    made = make_case(problem, "target", parameters, 0)
    return made.diagnostics[0].message if isinstance(made, Refusal) else made


def right_candidates(job: Job, device: CudaDevice) -> list[Built] | str:
    """The candidates that equal the original bitwise at the small sizes."""
    planned = preconditions_and_variant(job)
    if isinstance(planned, RunReport):
        return planned.diagnostics[0].message
    assert job.problem is not None
    built, _ = restructure(planned, planned.viable(), lambda _: None)
    small = {n: s for n, s in job.problem.sizes.items() if n != "target"}
    right = []
    for one in built:
        found = verify_candidate(job, device, one, small)
        if isinstance(found, Refusal):
            return found.diagnostics[0].message
        if found[0].status == "passed":
            right.append(one)
        else:
            print(f"   {one.candidate.id}: {found[0].status} {found[0].reason}")
    return right


def timed(twin: Twin, built: list[Built], sizes: Sizes) -> tuple[Benchmark, str] | str:
    """All versions at one size, interleaved, and how the result by hand compares with the original's."""
    job, device = twin.original, twin.original.device
    assert isinstance(device, CudaDevice)
    case, other = case_of(job, sizes), case_of(twin.by_hand, sizes)
    original = device.load(job.unit(), job.arch.name)
    by_hand = device.load(twin.by_hand.unit(), job.arch.name)
    parameters = job.toolchain.parameter_types(job.unit())
    for answer in (case, other, original, by_hand, parameters):
        if isinstance(answer, str | Refusal):
            return answer if isinstance(answer, str) else answer.diagnostics[0].message
    assert isinstance(case, Case) and isinstance(other, Case) and not isinstance(original, Refusal)
    assert not isinstance(by_hand, Refusal) and not isinstance(parameters, Refusal)
    # The same arrays for both, each kernel's own types for the numbers.
    pairs = zip(case.args, other.args, strict=True)
    other = replace(other, args=tuple(a if isinstance(a, Array) else b for a, b in pairs))
    contenders = {BY_HAND: Contender(by_hand, other)}
    for one in built:
        kernel = device.load_compiled(one.cubin)
        changed = changed_launch(one.change, case, parameters, 0)
        if not isinstance(kernel, Refusal) and not isinstance(changed, Refusal):
            contenders[one.candidate.id] = Contender(kernel, changed)
    same = _equality(original, case, by_hand, other)
    return benchmark(device, Contender(original, case), contenders, case), same


def _equality(original: Any, case: Case, by_hand: Any, other: Case) -> str:
    mine = fresh_copy(case)
    theirs = replace(fresh_copy(case), grid=other.grid, block=other.block, shared=other.shared)
    theirs = replace(
        theirs,
        args=tuple(a if isinstance(a, Array) else b for a, b in zip(theirs.args, other.args, strict=True)),
    )
    for kernel, launch in ((original, mine), (by_hand, theirs)):
        done = kernel.run(launch, LaunchOptions())
        if isinstance(done, Refusal):
            return f"by hand does not run: {done.diagnostics[0].message}"
    found = first_difference(mine, theirs)
    if found is not None:
        return f"by hand differs from the original: {found}"
    return "by hand equals the original bitwise"


def show(sizes: Sizes, found: Benchmark, same: str) -> None:
    """One table."""
    words = ", ".join(f"{k} = {v}" for k, v in sizes.items())
    if found.original is None:
        print(f"   {words}: {found.reason}")
        return
    hand = found.candidates[BY_HAND].median_ms
    print(f"   {words}; {same}")
    print(f"   {'original':30s} {found.original.median_ms:9.4f} ms ±{found.original.spread:.1%}")
    for name, t in sorted(found.candidates.items(), key=lambda pair: pair[1].median_ms)[:8]:
        print(
            f"   {name:30s} {t.median_ms:9.4f} ms ±{t.spread:.1%}  {t.speedup:.3f}x original  "
            f"{hand / t.median_ms:.3f}x by hand"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("list", nargs="?", type=Path, default=HERE / "twins.toml")
    parser.add_argument("--only", action="append", default=[])
    wanted = parser.parse_args()
    status = 0
    for entry in tomllib.loads(wanted.list.read_text())["twin"]:
        if wanted.only and entry["name"] not in wanted.only:
            continue
        print(f"== {entry['name']}", flush=True)
        twin = opened(entry, wanted.list.parent)
        device = twin.original.device if isinstance(twin, Twin) else None
        built = right_candidates(twin.original, device) if isinstance(device, CudaDevice) else str(twin)
        if isinstance(built, str) or isinstance(twin, str):
            print(f"   {built}")
            status = 2
            continue
        for sizes in twin.sizes:
            found = timed(twin, built, sizes)
            if isinstance(found, str):
                print(f"   {found}")
                status = 2
            else:
                show(sizes, *found)
    return status


if __name__ == "__main__":
    sys.exit(main())
