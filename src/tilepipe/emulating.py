"""One kernel run as it is on the CPU: what it does wrong, and how it uses shared and global memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tilepipe.diagnostics import Diagnostic, Place, Refusal, Severity, error
from tilepipe.emulator.profile import Profile
from tilepipe.evidence.compare import errors_against
from tilepipe.evidence.sampling import estimated_flops, sample_blocks, with_measured_work
from tilepipe.hostlaunch import shared_memory_told
from tilepipe.job import Job
from tilepipe.launch import CpuDevice, Finding, LaunchOptions, RunResult
from tilepipe.launch.cpu import CpuKernel
from tilepipe.planning import Progress
from tilepipe.problem import Case, KernelProblem, Parameter, Sizes, evaluate_reference, fresh_copy, make_case
from tilepipe.source import SourceFile

# Findings that end a block where it stands: its result is no result.
STOPS = frozenset({"deadlock", "non-terminating", "trap"})
_OTHER = {"race between blocks": "the other block's access"}


@dataclass(frozen=True)
class Work:
    """Sums over the blocks that ran: bytes loaded from the kernel's arrays, by asynchronous copies or not, and
    floating-point operations (two a multiply-add, as counted by `math`); `tiles` is 0 where they cannot be told."""

    load_bytes: int
    flops: int
    tiles: int

    @property
    def bytes_per_tile(self) -> float | None:
        return self.load_bytes / self.tiles if self.tiles else None

    @property
    def flops_per_tile(self) -> float | None:
        return self.flops / self.tiles if self.tiles and self.flops else None

    @property
    def flops_per_byte(self) -> float | None:
        """The measured compute/load ratio; None where nothing is loaded or no multiply-add was counted."""
        return self.flops / self.load_bytes if self.load_bytes and self.flops else None


@dataclass(frozen=True)
class SizeRun:
    """One size set. `within` tells whether the result is within the tolerance of the reference, None where it was
    not compared (`why_not`)."""

    sizes: Sizes
    blocks: tuple[int, int]  # run, of the grid
    findings: tuple[Finding, ...]
    within: bool | None
    max_abs_error: float | None
    why_not: str
    profile: Profile
    work: Work


@dataclass(frozen=True)
class Emulation:
    """A kernel's runs by the name of the size set; `copies` are the ways in which asynchronous copies landed."""

    kernel: str
    file: str
    line: int
    copies: tuple[str, ...]
    runs: Mapping[str, SizeRun]
    notes: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...]

    @property
    def is_clean(self) -> bool:
        return not any(r.findings or r.within is False for r in self.runs.values())


def emulate(job: Job, blocks: int | None, progress: Progress) -> Emulation | Refusal:
    """Runs the job's kernel at every size set of its problem.

    `blocks` of each grid are run: None for as many as take seconds, 0 for all. TP304 where no problem file says how
    to launch the kernel; the refusals of the toolchain, the problem and the emulator are handed on.
    """
    problem = job.problem
    if problem is None:
        return error(
            "TP304",
            "emulate needs a problem file",
            help="`tilepipe init FILE.cu` drafts one; give it with -p",
        )
    progress("compiling for the CPU")
    kernel = CpuDevice(job.toolchain, job.options.max_steps).load(job.unit(), job.arch.name)
    if isinstance(kernel, Refusal):
        return kernel
    parameters = job.toolchain.parameter_types(job.unit())
    if isinstance(parameters, Refusal):
        return parameters
    runs: dict[str, SizeRun] = {}
    notes: dict[str, None] = {}
    for name in problem.sizes:
        progress(f"running size {name}")
        done = _run_size(job, kernel, problem, parameters, name, blocks)
        if isinstance(done, Refusal):
            return done
        runs[name] = done[0]
        notes.update(dict.fromkeys(done[1]))
    line = job.file.source.line_of(job.kernel.span.start)
    copies = ("late", "early") if kernel.program.has("cp") else ("late",)
    lacking = shared_memory_told(job, [f for r in runs.values() for f in r.findings], "TP305")
    told = (*job.zeros, *_findings_told(job.file.source, runs), *lacking, *_misses_told(runs))
    return Emulation(job.kernel.name, job.path, line, copies, runs, tuple(notes), told)


def _run_size(
    job: Job,
    kernel: CpuKernel,
    problem: KernelProblem,
    parameters: tuple[Parameter, ...],
    name: str,
    blocks: int | None,
) -> tuple[SizeRun, tuple[str, ...]] | Refusal:
    case = make_case(problem, name, parameters, job.options.seed)
    if isinstance(case, Refusal):
        return case
    sample = _sample(with_measured_work(case, kernel), job.options.seed, blocks)
    launched = fresh_copy(case)
    late = kernel.run(launched, LaunchOptions(sample, profile=True))
    if isinstance(late, Refusal):
        return late
    assert late.profile is not None
    findings = list(late.findings)
    if kernel.program.has("cp"):
        early = kernel.run(fresh_copy(case), LaunchOptions(sample, copies="early"))
        if isinstance(early, Refusal):
            return early
        findings += early.findings
    stopped = any(f.kind in STOPS for f in findings)
    compared = (None, None, "it was stopped") if stopped else _compared(job, problem, case, launched, sample)
    if isinstance(compared, Refusal):
        return compared
    within, worst, why_not = compared
    done = SizeRun(
        case.sizes,
        (late.blocks_run, late.blocks_total),
        _distinct(findings),
        within,
        worst,
        why_not,
        late.profile,
        _work(job, kernel, case, late, late.profile),
    )
    return done, late.notes


def _sample(case: Case, seed: int, blocks: int | None) -> tuple[int, ...] | None:
    """Which blocks run; None: all."""
    if blocks is None:
        return sample_blocks(case, seed)
    if blocks == 0:
        return None
    total = case.grid[0] * case.grid[1] * case.grid[2]
    if blocks >= total:
        return None
    if blocks == 1:
        return (0,)
    work = max(estimated_flops(case), total)
    return sample_blocks(replace(case, flops=work, bytes=None), seed, -(-work * blocks // total))


def _compared(
    job: Job, problem: KernelProblem, before: Case, after: Case, sample: tuple[int, ...] | None
) -> tuple[bool | None, float | None, str] | Refusal:
    """Whether the result is within tolerance, the largest error, and why it was not compared."""
    if sample is not None:
        return None, None, "a sample of the blocks ran"
    expected = evaluate_reference(problem, job.problem_path, before)
    if isinstance(expected, Refusal):
        return expected
    if expected is None:
        return None, None, "there is no reference"
    errors = errors_against(after, expected, problem.rtol, problem.atol)
    return errors.within, errors.max_abs, ""


def _distinct(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The first finding of each kind and pair of lines."""
    kept: dict[tuple[str, tuple[int, ...], str], Finding] = {}
    for f in findings:
        kept.setdefault((f.kind, f.lines, f.where if not f.lines else ""), f)
    return tuple(kept.values())


_LOADS = ("load", "copy", "wmma load")


def _work(job: Job, kernel: CpuKernel, case: Case, done: RunResult, profile: Profile) -> Work:
    """A tile ends at a barrier: at one of the tile loop's where the kernel has a model, else at the source line
    whose barriers completed most often. mbarriers (`cuda::pipeline`) are not counted."""
    tiles = max((profile.barriers.get(line, 0) for line in _barrier_lines(job)), default=0)
    if not tiles and not kernel.program.has("mbarrier"):
        tiles = max(profile.barriers.values(), default=0)
    arrays = {a.name for a in case.arrays}
    loaded = sum(a.bytes for a in profile.global_ if a.operation in _LOADS and a.array in arrays)
    return Work(loaded, 2 * int(done.counters["math"]), tiles)


def _barrier_lines(job: Job) -> list[int]:
    model = job.model
    if isinstance(model, Refusal):
        return []
    spans = [p.statement.span for p in model.tile.phases if p.is_barrier]
    return [job.file.source.line_of(s.start) for s in spans]


def _findings_told(source: SourceFile, runs: Mapping[str, SizeRun]) -> list[Diagnostic]:
    """One message for each finding, with the sizes at which it shows."""
    sizes: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    first: dict[tuple[str, tuple[int, ...]], Finding] = {}
    for name, run in runs.items():
        for f in run.findings:
            key = (f.kind, f.lines)
            first.setdefault(key, f)
            if name not in sizes.setdefault(key, []):
                sizes[key].append(name)
    return [_told(source, f, sizes[key]) for key, f in first.items()]


def _told(source: SourceFile, finding: Finding, sizes: list[str]) -> Diagnostic:
    where = f"size {sizes[0]}" + (f" and {len(sizes) - 1} more" if len(sizes) > 1 else "")
    block = "" if finding.block == (0, 0, 0) else f", block {finding.block}"
    told = finding_told(source, finding, "TP305", "error")
    return replace(told, message=f"{told.message} ({where}{block})")


def finding_told(source: SourceFile, finding: Finding, code: str, severity: Severity) -> Diagnostic:
    """What the emulator found, at its line of `source`."""
    place = _place(source, finding.lines[0]) if finding.lines else None
    label = finding.kind + "".join(finding.called[:1])
    if len(finding.lines) > 1:
        label += f"; {_OTHER.get(finding.kind, 'the other access')} is on line {finding.lines[1]}"
        label += finding.called[1]
    return Diagnostic(code, severity, finding.message, place, label)


def _place(source: SourceFile, line: int) -> Place | None:
    lines = source.text.split("\n")
    if not 0 < line <= len(lines):
        return None
    text = lines[line - 1]
    bare = text.strip()
    return Place(source.name, line, len(text) - len(text.lstrip()) + 1, max(len(bare), 1), text)


def _misses_told(runs: Mapping[str, SizeRun]) -> list[Diagnostic]:
    return [
        Diagnostic(
            "TP306",
            "error",
            f"size {name}: the result is outside the tolerance of the reference (largest error "
            f"{run.max_abs_error or 0.0:.3g})",
            help="correct the kernel, the reference, or `rtol` and `atol`",
        )
        for name, run in runs.items()
        if run.within is False
    ]
