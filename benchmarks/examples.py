"""Runs `tilepipe run` on the examples (or the kernels named) on a GPU and prints one table, with the JSON beside it.

    python benchmarks/examples.py [--out DIR] [--sizes SIZES.toml] [FILE.cu ...]

Each row is one kernel: the original's rate, every candidate's speed-up over it with the spread of both, whether
the outputs were bitwise equal, and the verdict of the SASS audit. All candidates of a kernel are timed in one run,
interleaved, with a cold L2.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

from tilepipe import steps
from tilepipe.diagnostics import Refusal
from tilepipe.job import Job
from tilepipe.options import Options
from tilepipe.problem import Sizes
from tilepipe.report import RunReport, to_json

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

EXAMPLES = Path(__file__).parents[1] / "examples"


def describe(report: RunReport) -> list[str]:
    """The lines of one kernel's table."""
    name = report.kernel.name if report.kernel is not None else "?"
    evidence = report.evidence
    bench = evidence.benchmark
    lines = [f"== {name}: {report.outcome}, chosen {report.chosen}, {report.tool.device}"]
    if evidence.correctness is not None:
        c = evidence.correctness
        equal = sum(bool(s.bitwise) for s in c.sizes.values())
        lines.append(
            f"   correctness {c.status}: bitwise equal at {equal} of {len(c.sizes)} size sets {c.reason}"
        )
    if evidence.races is not None:
        lines.append(
            f"   races {evidence.races.status}: {len(evidence.races.findings)} findings {evidence.races.reason}"
        )
    if evidence.sass is not None:
        lines.append(
            f"   SASS {evidence.sass.status} {evidence.sass.arch}: {'; '.join(evidence.sass.reasons)}"
        )
    if bench is not None and bench.original is not None:
        o = bench.original
        lines.append(
            f"   {'original':24s} {o.median_ms:9.4f} ms ±{o.spread:.1%} {o.rate or 0:12.1f} {bench.unit}"
        )
        for key, t in bench.controls.items():
            lines.append(
                f"   {key:24s} {t.median_ms:9.4f} ms ±{t.spread:.1%} {t.rate or 0:12.1f} {bench.unit} "
                f"{t.speedup or 0:.3f}x  control"
            )
        for key, t in sorted(bench.candidates.items(), key=lambda pair: pair[1].median_ms):
            row = report.candidate(key)
            registers = row.registers if row is not None else None
            lines.append(
                f"   {key:24s} {t.median_ms:9.4f} ms ±{t.spread:.1%} {t.rate or 0:12.1f} {bench.unit} "
                f"{t.speedup or 0:.3f}x  {registers} registers"
            )
        lines.append(f"   {bench.reason}")
    if evidence.limit is not None:
        lines.append(f"   {evidence.limit}")
        lines.append(f"   limit {evidence.limit.limit_ms} ms, efficiency {evidence.limit.efficiency}")
    lines += [f"   {d.severity} {d.code}: {d.message}" for d in report.diagnostics]
    return lines


def at_size(job: Job, size: Sizes | None) -> Job:
    """The job with another target size."""
    if size is None or job.problem is None:
        return job
    return replace(job, problem=replace(job.problem, sizes={**job.problem.sizes, "target": size}))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, default=sorted(EXAMPLES.glob("*.cu")))
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--kernel", default=None)
    parser.add_argument("--bench-only", action="store_true")
    parser.add_argument("--sizes", type=Path, default=None, help="other target sizes, by kernel")
    wanted = parser.parse_args()
    results = []
    other_sizes = tomllib.loads(wanted.sizes.read_text()) if wanted.sizes is not None else {}
    for path in wanted.files:
        begun = time.perf_counter()
        jobs = steps.open_jobs(
            str(path), Options(device="auto", kernel=wanted.kernel, allow_launch_change=True)
        )
        if isinstance(jobs, Refusal):
            print(path, jobs.diagnostics[0].message)
            continue
        for job in (at_size(j, other_sizes.get(j.kernel.name)) for j in jobs):
            done = steps.bench(job, lambda _: None) if wanted.bench_only else steps.run(job, lambda _: None)
            if isinstance(done, Refusal):
                print(path, done.diagnostics[0].message)
                continue
            print(
                "\n".join(describe(done)), f"   [{time.perf_counter() - begun:.1f} s]", sep="\n", flush=True
            )
            results.append(to_json(done))
    if wanted.out is not None:
        (wanted.out / "examples.json").write_text(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
