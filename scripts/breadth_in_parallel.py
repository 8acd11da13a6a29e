"""The variations of the zoo and the damaged sources of the full tier, over all cores.

    python scripts/breadth_in_parallel.py [--processes N] [--minutes M] [--fuzzed 2000] [--skip-variations]

Variations: every one of `tests/variations`, as its test has it. Damaged sources: every seed must get an answer in time
(`tests/kernel/test_robustness.py`), and where the damaged text still compiles and is pipelined, the result must equal
the damaged kernel bit for bit in the emulator, at the small sizes of the problem it came with. The exit code is 1
where anything fails.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from tests.kernel import test_robustness as fuzz  # noqa: E402
from tests.variations import test_variations as variations  # noqa: E402

from tilepipe.builds import build_candidate, verify_candidate  # noqa: E402
from tilepipe.diagnostics import Refusal  # noqa: E402
from tilepipe.job import Job  # noqa: E402
from tilepipe.kernel.file import CudaFile  # noqa: E402
from tilepipe.opening import open_job  # noqa: E402
from tilepipe.options import Options  # noqa: E402
from tilepipe.plan.types import Candidate  # noqa: E402
from tilepipe.source import SourceFile  # noqa: E402

FORMS = (
    Candidate("ldg-2-ring", "ldg", 2, "ring"),
    Candidate("cp_async-3-ring", "cp_async", 3, "ring"),
    Candidate("prefetch-1-ring", "prefetch", 1, "ring"),
)
SMALL = ("small", "ragged", "short1")
Outcome = tuple[str, str]  # a word to count, and what to print where it is a failure


def vary(which: tuple[Path, str, str]) -> Outcome:
    path, kernel, name = which
    try:
        variations.examine(path, kernel, name)
    except Exception as problem:
        return "variation FAILED", f"{path.stem} {kernel} {name}: {type(problem).__name__} {problem!s:.500}"
    return "variation as its origin", ""


def damage(seed: int) -> Outcome:
    try:
        fuzz.check(seed)
        return damaged_is_exact(seed)
    except Exception as problem:
        return "damaged FAILED", f"seed {seed}: {type(problem).__name__} {problem!s:.500}"


def damaged_is_exact(seed: int) -> Outcome:
    """Pipeline a damaged source where that is possible, and compare it with itself as it was."""
    origin = random.Random(seed).choice(fuzz.ZOO)
    text = fuzz.damaged(seed)
    file = CudaFile(SourceFile(str(origin), text))
    named = {k.name: k for k in file.kernels}
    first = CudaFile(SourceFile(str(origin), origin.read_text())).kernels[0].name
    opened = open_job(str(origin), Options(device="cpu", kernel=first))
    if first not in named or isinstance(opened, Refusal):
        return "damaged refused", ""
    job = replace(opened, file=file, kernel=named[first])
    if job.fault is not None or isinstance(job.model, Refusal) or job.problem is None:
        return "damaged refused", ""
    return compared(job, seed)


def compared(job: Job, seed: int) -> Outcome:
    model = job.model
    assert not isinstance(model, Refusal) and job.problem is not None
    sizes = {n: s for n, s in job.problem.sizes.items() if n in SMALL}
    for form in FORMS:
        built = build_candidate(job, model, form)
        if isinstance(built, Refusal):
            continue
        answer = verify_candidate(job, job.device, built, sizes)
        if isinstance(answer, Refusal):
            return "damaged beyond its problem file", ""
        correctness, races = answer
        if correctness.original_fault:
            return "damaged kernel at fault itself", ""
        if "failed" in (correctness.status, races.status) and not races.original_findings:
            return "damaged WRONG", f"seed {seed} {form.id}: {correctness.reason} {races.reason}"
    return "damaged and exact", ""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--fuzzed", type=int, default=2000)
    parser.add_argument("--skip-variations", action="store_true")
    given = parser.parse_args()
    until = time.monotonic() + 60 * given.minutes
    todo = [] if given.skip_variations else variations.ALL
    counts: Counter[str] = Counter()
    with multiprocessing.get_context("spawn").Pool(given.processes) as pool:
        # Damaged sources first: each takes a moment, and a variation seconds.
        waiting = [pool.imap_unordered(damage, range(given.fuzzed)), pool.imap_unordered(vary, todo)]
        for left, results in ((given.fuzzed, waiting[0]), (len(todo), waiting[1])):
            for _ in range(left):
                try:
                    word, text = results.next(max(0.1, until - time.monotonic()))
                except multiprocessing.TimeoutError:
                    print(f"out of time; {left} were wanted", flush=True)
                    break
                counts[word] += 1
                if text:
                    print(f"{word}: {text}", flush=True)
        pool.terminate()
    for word, count in sorted(counts.items()):
        print(f"{count:6d} {word}")
    return 1 if any(w.isupper() for key in counts for w in key.split()) else 0


if __name__ == "__main__":
    sys.exit(main())
