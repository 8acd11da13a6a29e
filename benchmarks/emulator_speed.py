"""Measures how fast the emulator runs: multiply-adds a second, with and without checks, and time to a verdict.

    python benchmarks/emulator_speed.py [--rounds N] [--scale N]

Each kernel is compiled once and then run `--rounds` times in each mode; the table shows the median of the wall-clock
rates with their interquartile range over the median, and the same a second of processor time ("a core"). The last
line is everything that a user waits for at 128 x 128 x 128 with an empty cache: compiling the example and its
candidates, and running both versions, in a new process.
Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tilepipe.diagnostics import Refusal
from tilepipe.job import Job
from tilepipe.launch import CpuDevice, LaunchOptions, RunResult
from tilepipe.opening import open_job
from tilepipe.options import Options
from tilepipe.problem import fresh_copy, make_case

ROOT = Path(__file__).resolve().parents[1]
VERIFY_LIMIT_S = 8.0


@dataclass(frozen=True)
class Subject:
    """A kernel, the sizes it is run at, and the rates asked for in 10^6 multiply-adds a second on two cores."""

    name: str
    file: str
    kernel: str
    sizes: dict[str, int]
    checked: float
    unchecked: float


SUBJECTS = (
    Subject(
        "shared memory, 1 x 1 a thread",
        "tests/zoo/poc/naive_sgemm.cu",
        "sgemm_naive",
        {"M": 256, "N": 256, "K": 256},
        60,
        250,
    ),
    Subject(
        "shared memory, 8 x 8 a thread",
        "examples/sgemm_tiled.cu",
        "sgemm_tiled",
        {"M": 512, "N": 512, "K": 512},
        600,
        2500,
    ),
    Subject(
        "mma.sync and ldmatrix, fp16",
        "tests/zoo/poc/k4_mma_ptx.cu",
        "mma_hgemm",
        {"M": 512, "N": 512, "K": 512},
        600,
        2500,
    ),
)


def opened(subject: Subject) -> Job:
    job = open_job(str(ROOT / subject.file), Options(kernel=subject.kernel, device="cpu"))
    if isinstance(job, Refusal):
        sys.exit(f"{subject.file}: {job.diagnostics[0].message}")
    return job


def rates(subject: Subject, checks: bool, rounds: int, scale: int) -> tuple[list[float], list[float]]:
    """10^6 multiply-adds of each round: a second, and a second of processor time (which neighbours do not slow)."""
    job = opened(subject)
    kernel = CpuDevice(job.toolchain).load(job.unit(), job.arch.name)
    parameters = job.toolchain.parameter_types(job.unit())
    assert not isinstance(kernel, Refusal) and not isinstance(parameters, Refusal) and job.problem
    sizes = {name: size * scale for name, size in subject.sizes.items()}
    case = make_case(job.problem, sizes, parameters, 0)
    assert not isinstance(case, Refusal), case
    measured: list[float] = []
    of_processor: list[float] = []
    for n in range(rounds + 1):
        launched = fresh_copy(case)
        start, used = time.perf_counter(), time.process_time()
        done = kernel.run(launched, LaunchOptions(checks=checks))
        seconds, used = time.perf_counter() - start, time.process_time() - used
        assert isinstance(done, RunResult) and not done.findings, done
        if n:  # the first round compiles
            measured.append(done.counters["math"] / seconds / 1e6)
            of_processor.append(done.counters["math"] / used / 1e6)
    return measured, of_processor


def row(values: list[float]) -> tuple[float, float]:
    """Median, and interquartile range over the median."""
    low, median, high = (float(np.percentile(values, q)) for q in (25, 50, 75))
    return median, (high - low) / median


def verify_seconds() -> float:
    """Seconds from an empty cache until both versions of the example are verified at 128 x 128 x 128."""
    example = ROOT / "examples" / "sgemm_tiled"
    with tempfile.TemporaryDirectory() as folder:
        problem = Path(folder) / "problem.toml"
        text = example.with_suffix(".toml").read_text()
        head, _, _ = text.partition("[kernels.sgemm_tiled.sizes]")
        problem.write_text(head + "[kernels.sgemm_tiled.sizes]\ncube = { M = 128, N = 128, K = 128 }\n")
        command = [sys.executable, "-c", "from tilepipe.cli.main import entry; entry()"]
        command += ["run", str(example.with_suffix(".cu")), "-p", str(problem), "--device", "cpu"]
        start = time.perf_counter()
        done = subprocess.run(
            command,
            env={**os.environ, "TILEPIPE_CACHE_DIR": folder + "/cache"},
            capture_output=True,
            check=False,
        )
        seconds = time.perf_counter() - start
    if done.returncode:
        sys.exit(done.stderr.decode())
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="runs of each kernel in each mode")
    parser.add_argument("--scale", type=int, default=1, help="factor on every size")
    wanted = parser.parse_args()
    print(f"{os.cpu_count()} cores; 10^6 multiply-adds a second, median ± interquartile range\n")
    print("| kernel | checks on | a core | asked | checks off | a core | asked |")
    print("|---|---|---|---|---|---|---|")
    for subject in SUBJECTS:
        cells = [subject.name]
        for checks, asked in ((True, subject.checked), (False, subject.unchecked)):
            wall, core = (row(r) for r in rates(subject, checks, wanted.rounds, wanted.scale))
            cells += [f"{wall[0]:.0f} ± {wall[1]:.0%}", f"{core[0]:.0f} ± {core[1]:.0%}", f"{asked:.0f}"]
        print("| " + " | ".join(cells) + " |", flush=True)
    times = [verify_seconds() for _ in range(3)]
    print(
        f"\nexample at 128 x 128 x 128, every step, empty cache: {statistics.median(times):.1f} s "
        f"(of {VERIFY_LIMIT_S:.0f} asked; {min(times):.1f} to {max(times):.1f})"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
