"""Pipelines every kernel of the zoo in every way, verifies each result, and compares it with what is expected.

    python scripts/zoo.py [--device cpu|cuda|auto] [--kernel NAME ...] [--sizes small,...] [--processes N]
                          [--write docs/zoo.md]

For each kernel of `tests/zoo` (and `tests/zoo/poc`): model, plan, every viable candidate, and beside these the
prefetch and textbook forms, which a plan offers only when asked. Each candidate is compiled, compared bit for
bit with the original and with the reference at every size set but the target (on a GPU at the target too),
with additional tile counts where the problem file says what a tile is, and checked for races by the emulator.
The original runs through the same checks. The exit code is 1 where an expectation is not met.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from tilepipe.builds import Built, build_variants, extra_tile_counts, verify_candidate
from tilepipe.diagnostics import Refusal
from tilepipe.evidence.types import Correctness, Races
from tilepipe.job import Job
from tilepipe.kernel.model import KernelModel
from tilepipe.kernel.widen import covered
from tilepipe.launch import CpuDevice, Device
from tilepipe.opening import open_jobs
from tilepipe.options import Options
from tilepipe.plan.types import Candidate
from tilepipe.problem import Sizes, load_problem
from tilepipe.rewrite import Rewrite
from tilepipe.toolchain.types import Compiled

ROOT = Path(__file__).resolve().parents[1]
ZOO = ROOT / "tests" / "zoo"
# Forms that a plan leaves out because another does the same better; legal all the same.
ASKED_FOR = ("prefetch-1-ring", "cp_async-2-textbook")
Verdict = Literal["met", "NOT MET", "MANGLED"]


@dataclass(frozen=True)
class Trial:
    """One candidate: `status` is exact, wrong, unknown (could not be run) or failed (did not build)."""

    id: str
    status: Literal["exact", "wrong", "unknown", "failed"]
    sizes: int
    reason: str = ""


@dataclass(frozen=True)
class Row:
    """One kernel: what was expected and what happened. `staged` and `single` are (expected, found); widths in
    bytes, 0 where the kernel's copies cannot be asynchronous."""

    kernel: str
    file: str
    expect: Mapping[str, Any]
    original: str
    refusal: str
    trials: tuple[Trial, ...]
    staged: tuple[Mapping[str, int], Mapping[str, int]]
    single: tuple[tuple[str, ...], tuple[str, ...]]

    @property
    def exact(self) -> tuple[str, ...]:
        return tuple(t.id for t in self.trials if t.status == "exact")

    @property
    def verdict(self) -> Verdict:
        if any(t.status == "wrong" for t in self.trials):
            return "MANGLED"
        if self.original.startswith(("wrong", "clean, though")):
            return "NOT MET"
        outcome = self.expect["outcome"]
        refused = bool(self.refusal) and not self.trials
        if outcome == "refuse":
            return "met" if refused else "NOT MET"
        return "met" if self.exact or (outcome == "either" and refused) else "NOT MET"


@dataclass(frozen=True)
class Task:
    """One file, and which of its kernels under which size sets (empty: all)."""

    path: Path
    options: Options
    only: tuple[str, ...]
    sizes: tuple[str, ...]


def tasks(options: Options, only: tuple[str, ...], sizes: tuple[str, ...]) -> list[Task]:
    return [Task(path, options, only, sizes) for path in sorted([*ZOO.glob("*.cu"), *ZOO.glob("poc/*.cu")])]


def rows(task: Task) -> list[Row]:
    """A row for each of the file's kernels that has a problem."""
    jobs = open_jobs(str(task.path), task.options)
    if isinstance(jobs, Refusal):
        raise SystemExit(f"{task.path}: {words(jobs)}")
    wanted = [j for j in jobs if j.problem is not None and (not task.only or j.kernel.name in task.only)]
    return [examine(job, task.sizes) for job in wanted]


def words(refusal: Refusal) -> str:
    first = refusal.diagnostics[0]
    return f"{first.code} {first.message}"


def examine(job: Job, sizes: tuple[str, ...] = (), candidates: tuple[str, ...] = ()) -> Row:
    """Everything about one kernel; `sizes` and `candidates` narrow what is run (empty: all)."""
    expect = expectation(job)
    model = job.model
    original = describe_original(job, expect, sizes)
    single = tuple(sorted([*expect.get("invariant", ()), *expect.get("scratch", ())]))
    file = Path(job.path).relative_to(ZOO).as_posix()
    if isinstance(model, Refusal):
        name, refusal = job.kernel.name, words(model)
        return Row(name, file, expect, original, refusal, (), (expect["copies"], {}), (single, ()))
    plan = job.plan
    if isinstance(plan, Refusal):
        raise SystemExit(f"{job.path}: {words(plan)}")
    by_id = {c.id: c for c in plan.candidates}
    wanted = [by_id[i] for i in plan.order]
    wanted += [c for i in ASKED_FOR if (c := asked_for(job, i)) is not None and i not in plan.order]
    wanted += [replace(c, status="ok") for c in plan.candidates if c.status != "ok" and is_padded(c)]
    wanted = [c for c in wanted if not candidates or c.id in candidates]
    trials = tuple(t for c in wanted for t in try_candidate(job, model, c, sizes))
    refusal = "" if wanted else "; ".join(dict.fromkeys(c.reason or "" for c in plan.candidates))
    found = widths(job, model)
    kept = tuple(sorted(s.name for s in (*model.tile.invariant, *model.tile.scratch)))
    return Row(
        job.kernel.name, file, expect, original, refusal, trials, (expect["copies"], found), (single, kept)
    )


def is_padded(candidate: Candidate) -> bool:
    """Padded rows, with few stages: a plan offers these on a GPU only."""
    return candidate.padding > 0 and candidate.stages <= 3


def widths(job: Job, model: KernelModel) -> dict[str, int]:
    """The widest asynchronous copies emitted into each staged tile: the author's, or wider ones that were proved."""
    proved = covered(model, job.wide)
    found = {}
    for b in model.buffers:
        wide = [w.bytes for w in job.wide if b.piece in proved and w.copy.use.buffer == b.piece]
        found[b.name] = min(wide) if wide else b.copy_bytes or 0
    return found


def expectation(job: Job) -> Mapping[str, Any]:
    """The kernel's own `[expect]`, else its file's."""
    if job.problem is not None and job.problem.expect is not None:
        return job.problem.expect
    whole = load_problem(job.problem_path)
    if not isinstance(whole, Refusal) and whole.expect is not None:
        return whole.expect
    raise SystemExit(f"{job.problem_path} has no [expect] for `{job.kernel.name}`")


def asked_for(job: Job, candidate: str) -> Candidate | None:
    """A candidate that the plan offers when it is asked for by name; None where it is not legal."""
    plan = replace(job, options=replace(job.options, candidate=candidate)).plan
    if isinstance(plan, Refusal):
        return None
    return next((c for c in plan.candidates if c.id == candidate and c.status == "ok"), None)


def try_candidate(job: Job, model: KernelModel, candidate: Candidate, sizes: tuple[str, ...]) -> list[Trial]:
    """The candidate, and with it the variant that keeps the original's resident blocks where there is one."""
    made = build_variants(job, model, candidate)
    if isinstance(made, Refusal):
        return [Trial(candidate.id, "failed", 0, words(made))]
    return [judge(built.candidate.id, *run(job, built, sizes)) for built in made]


def verified(job: Job, device: Device, built: Built, sizes: dict[str, Sizes]) -> tuple[Correctness, Races]:
    """`verify_candidate`, for kernels whose problem files are known to be right."""
    found = verify_candidate(job, device, built, sizes)
    if isinstance(found, Refusal):
        raise SystemExit(f"{job.path}: {words(found)}")
    return found


def run(job: Job, built: Built, only: tuple[str, ...]) -> tuple[Correctness, Races]:
    """Correctness on the job's device and races by the emulator, which leaves the target size out."""
    chosen = size_sets(job, built.candidate.stages, only)
    small = {n: s for n, s in chosen.items() if n != "target"}
    if job.device.kind == "cpu":
        return verified(job, job.device, built, small)
    correctness, _ = verified(job, job.device, built, chosen)
    emulated, races = verified(job, CpuDevice(job.toolchain), built, small)
    return (emulated if emulated.status == "failed" else correctness), races


def size_sets(job: Job, stages: int, only: tuple[str, ...]) -> dict[str, Sizes]:
    """The problem's size sets, with more tile counts where it says what a tile is and no choice was made.

    No tiles at all only where the kernel allows it, which a problem file says by having the set `short0`.
    """
    declared = dict(job.problem.sizes) if job.problem is not None else {}
    if only:
        return {n: s for n, s in declared.items() if n in only}
    more = extra_tile_counts(job, stages)
    if "short0" not in declared:
        more.pop("tiles0", None)
    return {**declared, **more}


def judge(identifier: str, correctness: Correctness, races: Races) -> Trial:
    count = len(correctness.sizes)
    if "failed" in (correctness.status, races.status):
        failed = correctness if correctness.status == "failed" else races
        return Trial(identifier, "wrong", count, failed.reason)
    if "unknown" in (correctness.status, races.status):
        return Trial(identifier, "unknown", count, correctness.reason or races.reason)
    return Trial(identifier, "exact", count)


def describe_original(job: Job, expect: Mapping[str, Any], only: tuple[str, ...]) -> str:
    """How the original itself fares in the emulator, which must find fault with a racy one and with no other."""
    same = Rewrite("original", job.file.source.text, ())
    built = Built(Candidate("original", "ldg", 1, "ring"), same, Compiled("cubin", b"", "", job.arch.name))
    small = {n: s for n, s in size_sets(job, 1, only).items() if n != "target"}
    correctness, races = verified(job, CpuDevice(job.toolchain), built, small)
    if races.original_findings:
        kinds = ", ".join(sorted({f.kind for f in races.original_findings}))
        return f"racy: {kinds}" if not expect.get("deterministic", True) else f"wrong: {kinds}"
    if not expect.get("deterministic", True):
        return "clean, though it is racy"
    if correctness.status == "failed":
        return f"wrong: {correctness.reason}"
    return "clean" if correctness.status == "passed" else f"unknown: {correctness.reason}"


# -- the table ---------------------------------------------------------------------------------------------------

HEADER = """\
# The zoo

Un-pipelined kernels in the many forms that real code has, each with its expected outcome, and what tilepipe
does with them. This page is written by

    python scripts/zoo.py --write docs/zoo.md

which pipelines every kernel in every viable way and verifies each result bit for bit against the original, with
the emulator's race detector, at every size set but the target. A case is **met** when a kernel that should be
pipelined has at least one candidate and all that were emitted are exact, or when one that should be refused is
refused with a code. **MANGLED** would be a candidate that differs or races.

*Staged* lists the tiles with the widest asynchronous copy in bytes, expected → emitted where they differ (0: not
a plain copy). *Single* lists the shared arrays that are not multiplied.
"""


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def staged_cell(row: Row) -> str:
    expected, found = row.staged
    names = list(dict.fromkeys([*expected, *found]))
    if not row.trials:
        return ""
    if set(expected) != set(found):
        return f"expected {', '.join(expected) or 'none'}; found {', '.join(found)}"
    return ", ".join(
        f"{n} {expected[n]}" + ("" if expected[n] == found[n] else f" → {found[n]}") for n in names
    )


def single_cell(row: Row) -> str:
    expected, found = row.single
    if not row.trials or expected == found:
        return ", ".join(expected) if row.trials else ""
    return f"expected {', '.join(expected) or 'none'}; found {', '.join(found) or 'none'}"


def outcome_cell(row: Row) -> str:
    if not row.trials:
        return f"refused: {row.refusal}"
    parts = [f"exact: {', '.join(row.exact)}"] if row.exact else []
    parts += [f"{t.status}: {t.id} ({t.reason})" for t in row.trials if t.status != "exact"]
    lacking = [v for v in row.expect["variants"] if not any(i.startswith(f"{v}-") for i in row.exact)]
    parts += [f"legal but not offered: {', '.join(lacking)}"] if lacking else []
    return "; ".join(parts)


def table(done: list[Row], device: str) -> str:
    """The page: one table sorted by kernel, with the totals above it."""
    lines = [HEADER]
    counts = {v: sum(r.verdict == v for r in done) for v in ("met", "NOT MET", "MANGLED")}
    exact = sum(len(r.exact) for r in done)
    runs = sum(t.sizes for r in done for t in r.trials)
    lines.append(
        f"{len(done)} kernels on {device}: {counts['met']} met, {counts['NOT MET']} not met, "
        f"{counts['MANGLED']} mangled; {exact} candidates exact over {runs} comparisons.\n"
    )
    lines.append("| kernel | expected | outcome | staged | single | original | verdict |")
    lines.append("|---|---|---|---|---|---|---|")
    for r in sorted(done, key=lambda r: (r.file.count("/"), r.kernel)):
        cells = [
            f"`{r.kernel}`", r.expect["outcome"], outcome_cell(r), staged_cell(r), single_cell(r), r.original,
            r.verdict,
        ]  # fmt: skip
        lines.append("| " + " | ".join(cell(c) for c in cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cpu", "cuda", "auto"), default="cpu")
    parser.add_argument("--kernel", action="append", default=[], metavar="NAME")
    parser.add_argument("--sizes", default="", help="size sets, separated by commas; all without it")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page there")
    parser.add_argument("--processes", type=int, default=1, help="files that are worked on at a time")
    given = parser.parse_args()
    options = Options(device=given.device, allow_launch_change=True)
    sizes = tuple(s for s in given.sizes.split(",") if s)
    done: list[Row] = []
    with multiprocessing.get_context("spawn").Pool(given.processes) as pool:
        for found in pool.imap_unordered(rows, tasks(options, tuple(given.kernel), sizes)):
            done += found
            for row in found:
                print(
                    f"{row.verdict:8s} {row.kernel}: {outcome_cell(row)}; original {row.original}", flush=True
                )
    if given.write is not None:
        given.write.write_text(table(done, given.device), encoding="utf-8")
    bad = [r.kernel for r in done if r.verdict != "met"]
    print(f"{len(done) - len(bad)} of {len(done)} met" + (f"; not met: {', '.join(bad)}" if bad else ""))
    return 1 if bad or not done else 0


if __name__ == "__main__":
    sys.exit(main())
