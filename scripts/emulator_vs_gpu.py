"""Holds the emulator against a GPU: every original of the zoo, on the same data, at every size but the target.

    python scripts/emulator_vs_gpu.py [--kernel NAME ...] [--zoo DIR] [--write FILE]

Both sides are compiled with `--fmad=false`, so that the same operations are rounded at the same places. Kernels
whose arithmetic PTX defines exactly must then agree bit by bit; those with matrix instructions on floats,
approximate functions or float atomics must agree within the problem's tolerance (docs/emulator.md says where PTX
leaves freedom). Kernels that the emulator finds faulty have no defined result and are listed apart. Prints a
table in Markdown; the exit code is 1 where the two disagree, 2 where there is no GPU.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from tilepipe.diagnostics import Refusal
from tilepipe.emulator.ptx.model import Instruction
from tilepipe.evidence.compare import close_to, first_difference
from tilepipe.job import Job
from tilepipe.launch import CpuDevice, Device, LaunchOptions, Loaded, find_gpu
from tilepipe.launch.cpu import CpuKernel
from tilepipe.opening import open_jobs
from tilepipe.options import Options
from tilepipe.problem import Case, KernelProblem, fresh_copy, make_case
from tilepipe.toolchain import CompileOptions, select_toolchain

ZOO = Path(__file__).resolve().parents[1] / "tests" / "zoo"
NO_FUSING = CompileOptions(extra=("--fmad=false",))
Kind = Literal["exact", "matrix", "approximate", "atomic"]
Verdict = Literal["agree", "DISAGREE", "faulty", "not run"]

_FLOATS = {"f16", "bf16", "f32", "tf32", "f64", "f16x2", "bf16x2"}


@dataclass(frozen=True)
class Row:
    """One kernel: how exactly it must agree, the sizes that were compared, the largest absolute difference of any
    output element, and the verdict with its reason."""

    kernel: str
    kind: Kind
    sizes: int
    largest: float
    verdict: Verdict
    reason: str = ""


def kind_of(kernel: CpuKernel) -> Kind:
    """How closely two right executions of the kernel's PTX agree."""
    body = [i for i in kernel.program.kernel.function.body if isinstance(i, Instruction)]
    if any(i.op in ("atom", "red") and _FLOATS & set(i.mods) for i in body):
        return "atomic"
    if any(i.op in ("mma", "wmma") and "mma" in (i.op, i.mods[0]) and _is_float(i) for i in body):
        return "matrix"
    return "approximate" if any({"approx", "full"} & set(i.mods) for i in body) else "exact"


def _is_float(i: Instruction) -> bool:
    return bool(_FLOATS & set(i.mods)) or not {"s32", "s8", "u8"} & set(i.mods)


def compare(job: Job, gpu: Device) -> Row:
    """Runs the job's kernel on the emulator and on `gpu`."""
    name, problem = job.kernel.name, job.problem
    emulated = CpuDevice(job.toolchain).load(job.unit(), job.arch.name)
    if isinstance(emulated, Refusal):
        return Row(name, "exact", 0, 0.0, "not run", _words(emulated))
    kind = kind_of(emulated)
    on_gpu = gpu.load(job.unit(), gpu.arch)
    parameters = job.toolchain.parameter_types(job.unit())
    for answer in (on_gpu, parameters):
        if isinstance(answer, Refusal):
            return Row(name, kind, 0, 0.0, "not run", _words(answer))
    assert problem is not None and not isinstance(parameters, Refusal) and not isinstance(on_gpu, Refusal)
    largest, compared = 0.0, 0
    for size in problem.sizes:
        if size == "target":
            continue
        case = make_case(problem, size, parameters, job.options.seed)
        if isinstance(case, Refusal):
            return Row(name, kind, compared, largest, "not run", _words(case))
        ran = _run_both(emulated, on_gpu, case)
        if isinstance(ran, tuple):
            return Row(name, kind, compared, largest, *ran)
        compared += 1
        largest = max(largest, ran.largest)
        reason = ran.disagreement(kind, problem)
        if reason:
            return Row(name, kind, compared, largest, "DISAGREE", f"size {size}: {reason}")
    return Row(name, kind, compared, largest, "agree")


@dataclass(frozen=True)
class _Both:
    """The same launch on the emulator and on the GPU."""

    emulated: Case
    on_gpu: Case

    @property
    def largest(self) -> float:
        """The largest absolute difference of any output element; infinite where one is NaN or infinite alone."""
        worst = 0.0
        for a, b in zip(self.emulated.arrays, self.on_gpu.arrays, strict=True):
            if a.role == "in" or not a.data.size:
                continue
            x, y = a.data.astype(np.float64), b.data.astype(np.float64)
            same = (x == y) | (np.isnan(x) & np.isnan(y))
            with np.errstate(invalid="ignore"):
                error = np.where(same, 0.0, np.abs(x - y))
            worst = max(worst, float(np.where(np.isnan(error), np.inf, error).max()))
        return worst

    def disagreement(self, kind: Kind, problem: KernelProblem) -> str:
        if kind == "exact":
            return first_difference(self.on_gpu, self.emulated) or ""
        close = close_to(self.emulated, self.on_gpu, problem.rtol, problem.atol)
        return "" if close else "outside the tolerance"


def _run_both(emulated: Loaded, on_gpu: Loaded, case: Case) -> _Both | tuple[Verdict, str]:
    both = _Both(fresh_copy(case), fresh_copy(case))
    done = emulated.run(both.emulated, LaunchOptions())
    if isinstance(done, Refusal):
        return "not run", _words(done)
    if done.findings:
        return "faulty", f"{done.findings[0].kind}: its result is not defined"
    done = on_gpu.run(both.on_gpu, LaunchOptions())
    return ("DISAGREE", _words(done)) if isinstance(done, Refusal) else both


def _words(refusal: Refusal) -> str:
    return f"{refusal.diagnostics[0].code} {refusal.diagnostics[0].message}"


def jobs(folder: Path, kernels: Sequence[str]) -> Iterator[Job]:
    """The kernels of every file of the zoo that has a problem file, or those named."""
    for path in sorted((*folder.glob("*.cu"), *folder.glob("poc/*.cu"))):
        opened = open_jobs(str(path), Options(device="cpu", compile=NO_FUSING))
        if isinstance(opened, Refusal):
            continue
        yield from (j for j in opened if j.problem is not None and (not kernels or j.kernel.name in kernels))


def table(rows: Sequence[Row], device: str) -> str:
    """The rows in Markdown, with a summary below."""
    lines = ["| kernel | must agree | sizes | largest difference | verdict |", "|---|---|---|---|---|"]
    for row in rows:
        must = "bit by bit" if row.kind == "exact" else f"within tolerance ({row.kind})"
        verdict = row.verdict + (f": {row.reason}" if row.reason else "")
        lines.append(f"| {row.kernel} | {must} | {row.sizes} | {row.largest:.3g} | {verdict} |")
    counts = {
        verdict: sum(r.verdict == verdict for r in rows) for verdict in dict.fromkeys(r.verdict for r in rows)
    }
    summary = ", ".join(f"{n} {verdict}" for verdict, n in counts.items())
    exact = sum(r.kind == "exact" and r.verdict == "agree" for r in rows)
    return "\n".join([*lines, "", f"{len(rows)} kernels on {device}: {summary}; {exact} bit by bit.", ""])


def report(folder: Path, kernels: Sequence[str], gpu: Device, write: Path | None) -> int:
    """Compares, prints the table, and returns the exit code."""
    rows = []
    for job in jobs(folder, kernels):
        rows.append(compare(job, gpu))
        print(f"{rows[-1].kernel}: {rows[-1].verdict} {rows[-1].reason}", file=sys.stderr, flush=True)
    text = table(rows, gpu.name)
    print(text)
    if write is not None:
        write.write_text(text, encoding="utf-8")
    return 1 if not rows or any(r.verdict == "DISAGREE" for r in rows) else 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernel", action="append", default=[], help="only this kernel (repeatable)")
    parser.add_argument("--zoo", type=Path, default=ZOO, help="folder of kernels with problem files")
    parser.add_argument("--write", type=Path, default=None, help="also write the table here")
    wanted = parser.parse_args(arguments)
    toolchain = select_toolchain("nvrtc")
    gpu = None if isinstance(toolchain, Refusal) else find_gpu(toolchain)
    if gpu is None:
        print("there is no GPU to compare with", file=sys.stderr)
        return 2
    return report(wanted.zoo, wanted.kernel, gpu, wanted.write)


if __name__ == "__main__":
    sys.exit(main())
