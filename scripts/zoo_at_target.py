"""The zoo's pipelined kernels on a GPU at their target sizes: the candidate that the plan prefers, bit for bit.

    python scripts/zoo_at_target.py [--processes N] [--minutes M] [--write FILE] [NAME ...]

Every kernel of `tests/zoo` whose problem has the size set `target` and for which a candidate can be built: it is
compared with the original at every size set on the GPU, the target included, and at the small ones in the emulator,
which looks for races. Kernels are taken by several processes at once (compiling, emulating and making inputs is what
takes the time), so nothing is timed. References are left out: the claim is equality with the original. The exit code
is 1 where a candidate differs or races.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from tilepipe.builds import Built, verify_candidate
from tilepipe.diagnostics import Refusal
from tilepipe.job import Job
from tilepipe.launch import CpuDevice
from tilepipe.opening import open_jobs
from tilepipe.options import Options
from tilepipe.planning import Planned, preconditions_and_variant, ranked_builds

ZOO = Path(__file__).resolve().parents[1] / "tests" / "zoo"


@dataclass(frozen=True)
class Result:
    """One kernel: `status` is exact, wrong or unknown."""

    kernel: str
    candidate: str
    status: str
    device: str
    sizes: str
    races: str
    seconds: float
    reason: str = ""


def tasks(only: tuple[str, ...]) -> list[tuple[str, str]]:
    """File and kernel of everything that has a target."""
    found = []
    for path in sorted([*ZOO.glob("*.cu"), *ZOO.glob("poc/*.cu")]):
        jobs = open_jobs(str(path), Options(device="cpu"))
        for job in () if isinstance(jobs, Refusal) else jobs:
            if job.problem is not None and "target" in job.problem.sizes:
                found += [(str(path), job.kernel.name)] if not only or job.kernel.name in only else []
    return found


def examine(task: tuple[str, str]) -> Result | None:
    """One kernel, None where it is refused or nothing can be built."""
    begun = time.monotonic()
    options = Options(kernel=task[1], device="auto", allow_launch_change=True, use_reference=False)
    jobs = open_jobs(task[0], options)
    if isinstance(jobs, Refusal):
        return None
    job = jobs[0]
    planned = preconditions_and_variant(job)
    built = ranked_builds(planned, lambda _: None)[0] if isinstance(planned, Planned) else []
    return compared(job, built[0], begun) if built else None


def compared(job: Job, built: Built, begun: float) -> Result:
    sizes = dict(job.problem.sizes) if job.problem is not None else {}
    small = {n: s for n, s in sizes.items() if n != "target"}
    emulated = verify_candidate(job, CpuDevice(job.toolchain), built, small)
    on_gpu = verify_candidate(job, job.device, built, sizes) if job.device.kind == "cuda" else emulated
    if isinstance(emulated, Refusal) or isinstance(on_gpu, Refusal):
        raise RuntimeError(f"{job.path}: the problem file is at fault")
    parts = (emulated[0], emulated[1], on_gpu[0])
    status = next((s for s in ("failed", "unknown") if s in {p.status for p in parts}), "exact")
    reason = next((p.reason for p in parts if p.status == status), "")
    equal = {n for n, s in on_gpu[0].sizes.items() if s.bitwise}
    return Result(
        job.kernel.name, built.candidate.id, "wrong" if status == "failed" else status, job.device.name,
        f"{len(equal)} of {len(on_gpu[0].sizes)}" + (", target" if "target" in equal else ""),
        emulated[1].status, time.monotonic() - begun, reason,
    )  # fmt: skip


def table(done: list[Result]) -> str:
    lines = [
        "| kernel | candidate | outcome | equal at | races | device |",
        "|---|---|---|---|---|---|",
    ]
    for r in sorted(done, key=lambda r: r.kernel):
        outcome = r.status + (f": {r.reason}" if r.reason else "")
        lines.append(f"| `{r.kernel}` | {r.candidate} | {outcome} | {r.sizes} | {r.races} | {r.device} |")
    exact = sum(r.status == "exact" for r in done)
    return "\n".join([f"{len(done)} kernels: {exact} exact\n", *lines]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*")
    parser.add_argument("--processes", type=int, default=max(1, (os.cpu_count() or 1) - 2))
    parser.add_argument("--minutes", type=float, default=60.0, help="stop there with what is done")
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    wanted = tasks(tuple(given.names))
    until = time.monotonic() + 60 * given.minutes
    done: list[Result] = []
    with multiprocessing.get_context("spawn").Pool(given.processes, maxtasksperchild=4) as pool:
        waiting = pool.imap_unordered(examine, wanted)
        for _ in wanted:
            try:
                result = waiting.next(max(0.1, until - time.monotonic()))
            except multiprocessing.TimeoutError:
                print("out of time", flush=True)
                break
            except Exception as problem:  # of one kernel: the others are still worth knowing
                print(f"FAILED {type(problem).__name__}: {problem}", flush=True)
                continue
            if result is not None:
                done.append(replace(result, seconds=round(result.seconds, 1)))
                print(done[-1], flush=True)
            if given.write is not None:
                given.write.write_text(table(done), encoding="utf-8")
        pool.terminate()
    print(table(done))
    return 1 if any(r.status == "wrong" for r in done) else 0


if __name__ == "__main__":
    sys.exit(main())
