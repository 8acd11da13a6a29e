"""Times tilepipe's candidates against a twin that was pipelined by hand, and the original, in one run on a GPU.

    python benchmarks/twins.py examples/igemm_wmma.cu benchmarks/twins/igemm_cp_async4.cu [--size target]

The twin is a whole `.cu` file with a kernel of the same name, launched as the original is. Outputs of all versions are
compared bitwise with the original's before anything is timed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tilepipe import steps
from tilepipe.builds import Built, verify_candidate
from tilepipe.diagnostics import Refusal
from tilepipe.launch import CudaDevice
from tilepipe.options import Options
from tilepipe.plan.types import Candidate
from tilepipe.planning import preconditions_and_variant, restructure
from tilepipe.proving import measure
from tilepipe.report import RunReport
from tilepipe.rewrite import Rewrite

TWIN = Candidate("by hand", "cp_async", 2, "textbook")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("original", type=Path)
    parser.add_argument("twin", type=Path)
    parser.add_argument("--kernel", default=None)
    parser.add_argument("--size", default="target")
    wanted = parser.parse_args()
    job = steps.open_job(str(wanted.original), Options(device="cuda", kernel=wanted.kernel))
    if isinstance(job, Refusal):
        print(job.diagnostics[0].message)
        return 2
    planned = preconditions_and_variant(job)
    if isinstance(planned, RunReport) or not isinstance(job.device, CudaDevice) or job.problem is None:
        print("not pipelined, no GPU, or no problem file")
        return 2
    built, _ = restructure(planned, planned.viable(), lambda _: None)
    text = wanted.twin.read_text()
    cubin = job.toolchain.compile(job.unit(text, str(wanted.twin)), job.arch.name, "cubin")
    if isinstance(cubin, Refusal):
        print(cubin.diagnostics[0].message)
        return 2
    twin = Built(TWIN, Rewrite(TWIN.id, text, ()), cubin)
    size = {wanted.size: job.problem.sizes[wanted.size]}
    for one in (*built, twin):
        correctness, _ = verify_candidate(job, job.device, one, size)
        if correctness.status != "passed":
            print(f"{one.candidate.id}: {correctness.status} {correctness.reason}")
    timed = measure(job, job.device, [*built, twin])
    if timed.original is None:
        print(timed.reason)
        return 2
    hand = timed.candidates[TWIN.id]
    print(f"{'original':26s} {timed.original.median_ms:9.4f} ms ±{timed.original.spread:.1%}")
    for name, t in sorted(timed.candidates.items(), key=lambda pair: pair[1].median_ms):
        ratio = hand.median_ms / t.median_ms
        print(
            f"{name:26s} {t.median_ms:9.4f} ms ±{t.spread:.1%}  {t.speedup:.3f}x original  {ratio:.3f}x by hand"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
