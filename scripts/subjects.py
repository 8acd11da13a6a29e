"""Pipelines kernels that stand elsewhere in every viable way and verifies each result in the emulator.

    python scripts/subjects.py LIST.toml [--only NAME ...] [--time]

The list has one table for each kernel: `[[subject]]` with `name`, `file`, `kernel` and `problem` (a problem
file), and where needed `include` and `define` (lists, as -I and -D), `std`, and `no_alias`
(pointers promised not to overlap). Paths are relative to the list. Each
kernel gets one line: what was emitted and at which sizes it is exact, or the refusal. The exit code is 1 where a
candidate is wrong. With `--time` each kernel whose entry has sizes in a table `target` is timed at them on a GPU
instead: the fastest candidate over the original, in one run, and whether it is exact at them.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from tilepipe import steps
from tilepipe.builds import verify_candidate
from tilepipe.diagnostics import Refusal
from tilepipe.job import Job
from tilepipe.opening import open_job
from tilepipe.options import Options
from tilepipe.planning import Planned, preconditions_and_variant, restructure
from tilepipe.toolchain.types import CompileOptions
from zoo import ASKED_FOR, Trial, asked_for, size_sets, try_candidate, words

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def opened(
    entry: dict[str, Any], folder: Path, device: Literal["auto", "cpu"] = "cpu", candidate: str | None = None
) -> Job | Refusal:
    """The kernel that an entry names, with its problem file."""
    include = tuple(str(folder / d) for d in entry.get("include", ()))
    options = Options(
        kernel=entry["kernel"],
        candidate=candidate,
        problem=str(folder / entry["problem"]),
        device=device,
        compile=CompileOptions(include, tuple(entry.get("define", ())), entry.get("std", "c++17")),
        allow_launch_change=True,
        no_alias=frozenset(entry.get("no_alias", ())),
    )
    return open_job(str(folder / entry["file"]), options)


def tried(job: Job) -> list[Trial] | Refusal:
    """Every viable candidate and the forms that are made on request, each built and verified."""
    model, plan = job.model, job.plan
    if isinstance(model, Refusal):
        return model
    if isinstance(plan, Refusal):
        return plan
    by_id = {c.id: c for c in plan.candidates}
    wanted = [by_id[i] for i in plan.order]
    wanted += [c for i in ASKED_FOR if i not in plan.order and (c := asked_for(job, i)) is not None]
    return [trial for c in wanted for trial in try_candidate(job, model, c, ())]


def described(job: Job | Refusal) -> tuple[str, bool]:
    """One line for a kernel, and whether something is wrong with what was emitted."""
    if isinstance(job, Refusal):
        return f"not opened: {words(job)}", False
    found = tried(job)
    if isinstance(found, Refusal):
        place = found.diagnostics[0].place
        return f"refused: {words(found)}" + (f" (line {place.line})" if place else ""), False
    exact = [t.id for t in found if t.status == "exact"]
    rest = [f"{t.status.upper()} {t.id}: {t.reason}" for t in found if t.status != "exact"]
    sizes = ", ".join(size_sets(job, 3, ()))
    return f"exact: {', '.join(exact) or 'none'} at {sizes}" + "".join(f"\n    {r}" for r in rest), any(
        t.status == "wrong" for t in found
    )


def at_target(entry: dict[str, Any], folder: Path, candidate: str | None = None) -> Job | Refusal:
    """The kernel on a GPU, its problem with the sizes of the entry's `target` too."""
    job = opened(entry, folder, "auto", candidate)
    if isinstance(job, Refusal):
        return job
    assert job.problem is not None
    sizes = {**job.problem.sizes, "target": entry["target"]}
    return replace(job, problem=replace(job.problem, sizes=sizes))


def timed(entry: dict[str, Any], folder: Path) -> tuple[str, bool]:
    """The fastest candidate of a kernel at the sizes of its `target`, or why there is none; whether it is wrong."""
    job = at_target(entry, folder)
    done = job if isinstance(job, Refusal) else steps.bench(job, lambda _: None)
    if isinstance(done, Refusal):
        return f"refused: {words(done)}", False
    found = done.evidence.benchmark
    if found is None or found.original is None or not found.candidates:
        return f"not timed: {found.reason if found is not None else done.diagnostics[0].message}", False
    best = min(found.candidates, key=lambda name: found.candidates[name].median_ms)
    timing = found.candidates[best]
    before = f"{found.original.median_ms:.4f} ms ±{found.original.spread:.1%}"
    exact = exactness(entry, folder, best)
    text = f"{best} {timing.speedup:.3f}x ±{timing.spread:.1%}, the original {before}; {exact}"
    return text, exact.startswith("failed")


def exactness(entry: dict[str, Any], folder: Path, candidate: str) -> str:
    """How one candidate's verification ends, at which sizes."""
    job = at_target(entry, folder, candidate)
    planned = job if isinstance(job, Refusal) else preconditions_and_variant(job)
    if isinstance(job, Refusal) or not isinstance(planned, Planned):
        return "failed: it cannot be built again"
    built, _ = restructure(planned, planned.viable(), lambda _: None)
    assert job.problem is not None
    found = verify_candidate(job, job.device, built[0], dict(job.problem.sizes))
    if isinstance(found, Refusal):
        return f"failed: {words(found)}"
    return f"{found[0].status} at {', '.join(found[0].sizes)} {found[0].reason or ''}".rstrip()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("list", type=Path)
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--time", action="store_true", help="time at the entries' target sizes, on a GPU")
    given = parser.parse_args()
    entries = tomllib.loads(given.list.read_text(encoding="utf-8"))["subject"]
    bad = False
    for entry in entries:
        if given.only and entry["name"] not in given.only:
            continue
        start = time.monotonic()
        if given.time:
            text, wrong = timed(entry, given.list.parent) if "target" in entry else ("no target sizes", False)
        else:
            text, wrong = described(opened(entry, given.list.parent))
        bad = bad or wrong
        print(f"{entry['name']} ({time.monotonic() - start:.1f} s): {text}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
