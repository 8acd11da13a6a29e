"""Where warps wait, before and after: the long-scoreboard stall share of kernels under ncu, beside the audit's verdict.

    python scripts/stall_shares.py [--write docs/stall-shares.md] [FILE.cu ...]

Needs a GPU and ncu (on PATH or in /usr/local/cuda/bin) with access to the performance counters. Each kernel (the
examples, without FILE) runs at its target size: the original, its register-staged candidates and its first rings. The
exit code is 1 where the share does not fall for a candidate that the audit calls overlapped.
"""

from __future__ import annotations

import argparse
import csv
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tilepipe.builds import Built, audit_candidate, build_candidate
from tilepipe.diagnostics import Refusal
from tilepipe.evidence.correctness import changed_launch
from tilepipe.job import Job
from tilepipe.launch.once import write_job
from tilepipe.opening import open_job
from tilepipe.options import Options
from tilepipe.problem import Case, make_case
from tilepipe.toolchain.types import Compiled

ROOT = Path(__file__).resolve().parents[1]
STALLED = "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio"
LATENCY = "smsp__average_warp_latency_per_inst_issued.ratio"
TIME = "gpu__time_duration.sum"  # ns
RINGS = 3
HEADER = """\
# Stall shares

The share of a warp's time between two instructions that it waits for memory (ncu's long scoreboard: loads from global
memory, and the waits for asynchronous copies), at the target sizes, beside the audit's verdict. Written by

    python scripts/stall_shares.py --write docs/stall-shares.md

ncu fixes the clocks, so the times compare with each other only.
The audit is *unknown* where a tile has too little math to hide a load (TP435), and where fewer resident warps than the
original's leave a part of a load's latency open (TP436).

| kernel | version | audit | stalled for memory | µs |
|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Row:
    """One version of a kernel; `audit` is empty for the original."""

    kernel: str
    version: str
    audit: str
    share: float
    time_us: float


def profile(ncu: str, compiled: Compiled, case: Case) -> tuple[float, float]:
    """The stall share of one launch, and its time in µs. Raises RuntimeError with what ncu says instead."""
    with tempfile.TemporaryDirectory() as folder:
        write_job(Path(folder), compiled, case)
        command = [ncu, "--csv", "--print-units", "base", "--metrics", f"{STALLED},{LATENCY},{TIME}"]
        command += [sys.executable, "-m", "tilepipe.launch.once", folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    rows = csv.DictReader(line for line in done.stdout.splitlines() if line.startswith('"'))
    found = {row["Metric Name"]: float(row["Metric Value"].replace(",", "")) for row in rows}
    if not {STALLED, LATENCY, TIME} <= found.keys():
        raise RuntimeError(f"ncu gave no metrics: {done.stdout[-500:]}{done.stderr[-500:]}")
    return found[STALLED] / found[LATENCY], found[TIME] / 1000


def candidates(job: Job) -> Iterator[Built]:
    """The register-staged candidates and the first rings, best predicted first."""
    model, plan = job.model, job.plan
    if isinstance(model, Refusal) or isinstance(plan, Refusal):
        return
    by_id = {c.id: c for c in plan.candidates}
    rings = [name for name in plan.order if name.startswith("cp_async")][:RINGS]
    for name in [*(n for n in plan.order if n.startswith("ldg")), *rings]:
        built = build_candidate(job, model, by_id[name])
        if isinstance(built, Built):
            yield built


def examined(ncu: str, path: Path) -> Iterator[Row]:
    """The original's row and those of its candidates."""
    job = open_job(str(path), Options(device="cuda", allow_launch_change=True))
    if isinstance(job, Refusal) or job.problem is None or isinstance(job.original, Refusal):
        raise RuntimeError(f"{path} cannot be run")
    parameters = job.toolchain.parameter_types(job.unit())
    case = make_case(job.problem, "target", parameters, 0)  # type: ignore[arg-type]
    assert isinstance(case, Case) and not isinstance(parameters, Refusal), case
    yield Row(job.kernel.name, "original", "", *profile(ncu, job.original, case))
    for built in candidates(job):
        changed = changed_launch(built.change, case, parameters, 0)
        assert isinstance(changed, Case), changed
        verdict = audit_candidate(job, job.model, built).status  # type: ignore[arg-type]
        yield Row(job.kernel.name, built.candidate.id, verdict, *profile(ncu, built.cubin, changed))


def page(rows: list[Row]) -> str:
    return HEADER + "".join(
        f"| {r.kernel} | {r.version} | {r.audit} | {r.share:.1%} | {r.time_us:,.0f} |\n" for r in rows
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE.cu")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page there")
    given = parser.parse_args()
    ncu = shutil.which("ncu") or shutil.which("ncu", path="/usr/local/cuda/bin")
    if ncu is None:
        print("there is no ncu on this machine")
        return 2
    rows: list[Row] = []
    for path in given.files or sorted((ROOT / "examples").glob("*.cu")):
        for row in examined(ncu, path):
            print(
                f"{row.kernel:14} {row.version:24} {row.audit:8} {row.share:6.1%} {row.time_us:10,.1f} µs",
                flush=True,
            )
            rows.append(row)
    if given.write is not None:
        given.write.write_text(page(rows), encoding="utf-8")
    before = {r.kernel: r.share for r in rows if r.version == "original"}
    return 1 if any(r.audit == "passed" and r.share >= before[r.kernel] for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
