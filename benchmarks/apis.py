"""Times one ring written in each API, beside the original, in one run on a GPU.

    python benchmarks/apis.py [--candidate cp_async-3-ring] [FILE.cu ...]

Each version is compared bitwise with the original at the small sizes before it is timed.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import get_args

from tilepipe.builds import build_candidate, verify_candidate
from tilepipe.diagnostics import Refusal
from tilepipe.job import Job
from tilepipe.launch import CudaDevice
from tilepipe.opening import open_jobs
from tilepipe.options import Options
from tilepipe.plan.types import Api
from tilepipe.proving import measure

ROOT = Path(__file__).parents[1]
FILES = (
    "examples/hgemm_mma", "examples/hgemm_wmma", "tests/zoo/linear_bf16_mma", "tests/zoo/gather_rows_gemm",
    "tests/zoo/attn_rowblock", "tests/zoo/nbody_accel", "tests/zoo/dgemm_nt_pad", "tests/zoo/conv_igemm",
)  # fmt: skip


def compare(job: Job, identifier: str) -> list[str]:
    """The lines of one kernel's table."""
    device, problem = job.device, job.problem
    if not isinstance(device, CudaDevice) or problem is None:
        return ["no GPU, or no problem file"]
    small = {n: s for n, s in problem.sizes.items() if n != "target"}
    built, lines = [], []
    for api in get_args(Api):
        asked = replace(job, options=replace(job.options, api=api))
        model, plan = asked.model, asked.plan
        if isinstance(model, Refusal) or isinstance(plan, Refusal):
            return ["refused"]
        named = identifier if api == "ptx" else f"{identifier}-{api}"
        candidate = next((c for c in plan.candidates if c.id == named), None)
        made = build_candidate(asked, model, candidate) if candidate is not None else None
        if made is None or isinstance(made, Refusal):
            lines.append(
                f"   {api}: {made.diagnostics[0].message if made is not None else 'no such candidate'}"
            )
            continue
        found = verify_candidate(asked, device, made, small)
        if isinstance(found, Refusal) or found[0].status != "passed":
            lines.append(f"   {api}: not exact")
            continue
        built.append(made)
    found = measure(job, device, built)
    if found.original is None:
        return [*lines, f"   {found.reason}"]
    lines.append(f"   {'original':44s} {found.original.median_ms:9.4f} ms ±{found.original.spread:.1%}")
    for one in built:
        t = found.candidates[one.candidate.id]
        registers = one.cubin.registers
        lines.append(
            f"   {one.candidate.id:44s} {t.median_ms:9.4f} ms ±{t.spread:.1%} {t.speedup:.3f}x  {registers} registers"
        )
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, default=[ROOT / f"{f}.cu" for f in FILES])
    parser.add_argument("--candidate", default="cp_async-3-ring")
    wanted = parser.parse_args()
    for path in wanted.files:
        jobs = open_jobs(str(path), Options(device="cuda", allow_launch_change=True))
        if isinstance(jobs, Refusal):
            print(path, jobs.diagnostics[0].message)
            continue
        for job in jobs:
            print(f"== {job.kernel.name}", *compare(job, wanted.candidate), sep="\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
