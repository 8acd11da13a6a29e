"""The seven steps, in order, and the commands made of them. The only module that names the order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from tilepipe.builds import (
    Built,
    audit_candidate,
    build_candidate,
    build_variants,
    extra_tile_counts,
    launches_compile,
    loses_residency,
    verify_candidate,
)
from tilepipe.diagnostics import Diagnostic, Refusal, error, refusal
from tilepipe.evidence.benchmark import benchmark, fastest
from tilepipe.evidence.correctness import changed_launch
from tilepipe.evidence.types import Benchmark, Correctness, Races, Sass
from tilepipe.job import Job, open_job, open_jobs, read_source
from tilepipe.kernel.file import CudaFile
from tilepipe.kernel.model import KernelModel
from tilepipe.launch import Contender, CpuDevice, CudaDevice
from tilepipe.options import Options
from tilepipe.plan.types import Candidate, Plan
from tilepipe.problem import KernelDraft, draft_problem, make_case
from tilepipe.problem.expressions import evaluate
from tilepipe.report import (
    CandidateReport,
    Evidence,
    KernelInfo,
    LaunchInfo,
    LoopInfo,
    RunReport,
    ToolInfo,
    refused_report,
    with_checklist,
)
from tilepipe.rewrite import Rewrite
from tilepipe.toolchain import select_toolchain

__all__ = [
    "bench", "check", "draft", "open_job", "open_jobs", "pipeline_source", "rewrite", "run", "sass", "verify",
]  # fmt: skip

Progress = Callable[[str], None]
_NEAR = 0.95  # predictions closer than this to the best are not told apart
_BUILT = 4  # candidates built where nothing can be timed
DEFAULT_SHARED = 48 * 1024  # bytes of shared memory per block without raising the kernel's attribute


# -- steps 1 and 2 -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Planned:
    """A kernel that may be pipelined, with its plan."""

    job: Job
    model: KernelModel
    plan: Plan
    report: RunReport

    def viable(self) -> list[Candidate]:
        """The plan's candidates, best predicted first."""
        by_id = {c.id: c for c in self.plan.candidates}
        return [by_id[i] for i in self.plan.order]


def _base(job: Job) -> RunReport:
    line = job.file.source.line_of(job.kernel.span.start)
    instance = job.problem.instantiate if job.problem is not None else None
    info = KernelInfo(job.kernel.name, job.path, line, instance)
    return RunReport(ToolInfo(job.toolchain.name, job.device.name), info, job.arch.name)


def preconditions_and_variant(job: Job) -> Planned | RunReport:
    """Steps 1 and 2: the loop and its tiles, the budget, the variants and stages with reasons."""
    base = _base(job)
    model = job.model
    if isinstance(model, Refusal):
        return refused_report(model, base)
    loop = LoopInfo(
        model.line,
        len({p.interval for p in model.tile.phases}),
        tuple(b.name for b in model.buffers),
        tuple(sorted(s.name for s in model.tile.invariant)),
        tuple(sorted(s.name for s in model.tile.scratch)),
    )
    plan = job.plan
    if isinstance(plan, Refusal):
        return refused_report(plan, replace(base, loop=loop))
    candidates = tuple(_candidate_report(model, c) for c in plan.candidates)
    report = replace(base, loop=loop, budget=plan.budget, ratio=plan.ratio, candidates=candidates)
    return Planned(job, model, plan, report)


def _candidate_report(
    model: KernelModel, candidate: Candidate, built: Built | None = None
) -> CandidateReport:
    direct = candidate.variant in ("cp_async", "mixed")
    widths = {b.name: b.copy_bytes for b in model.buffers if direct and b.copy_bytes is not None}
    if built is None:
        return CandidateReport(candidate, widths)
    return CandidateReport(
        candidate, widths, built.cubin.registers, built.cubin.spill_stores + built.cubin.spill_loads
    )


def check(job: Job) -> RunReport | Refusal:
    """Steps 1 and 2 for one kernel."""
    planned = preconditions_and_variant(job)
    if isinstance(planned, RunReport):
        return planned
    if not planned.plan.order:
        return refused_report(_nothing_viable(planned), planned.report)
    return replace(planned.report, chosen=None)


def _nothing_viable(planned: Planned) -> Refusal:
    rejected = [c for c in planned.plan.candidates if c.reason and c.reason != "not asked for"]
    why = "; ".join(f"{c.id}: {c.reason}" for c in rejected[:3]) or "no candidate of that name"
    place = planned.model.file.source.place(planned.model.tile.loop.span)
    return refusal("TP151", f"no candidate is left: {why}", place, help="widen --variant, --stages or --form")


# -- steps 3 and 4 -----------------------------------------------------------------------------------------------


def restructure(
    planned: Planned, candidates: list[Candidate], progress: Progress
) -> tuple[list[Built], RunReport]:
    """Steps 3 and 4: each candidate's new source with its buffers, copies and launches, compiled."""
    built: list[Built] = []
    report = planned.report
    for candidate in candidates:
        progress(f"building {candidate.id}")
        made = build_variants(planned.job, planned.model, candidate)
        if isinstance(made, Refusal):
            status: Literal["failed", "rejected"] = "failed" if made.exit_code == 2 else "rejected"
            failed = replace(candidate, status=status, reason=made.diagnostics[0].message)
            report = _with_candidate(report, _candidate_report(planned.model, failed))
            continue
        built += made
        for one in made:
            report = _with_candidate(report, _candidate_report(planned.model, one.candidate, one))
    return built, report


def _with_candidate(report: RunReport, changed: CandidateReport) -> RunReport:
    kept = tuple(changed if c.candidate.id == changed.candidate.id else c for c in report.candidates)
    known = any(c.candidate.id == changed.candidate.id for c in report.candidates)
    return replace(report, candidates=kept if known else (*kept, changed))


def rewrite(job: Job) -> RunReport | Refusal:
    """Steps 1 to 4 for the best candidate by the model, or the one asked for."""
    planned = preconditions_and_variant(job)
    if isinstance(planned, RunReport):
        return planned
    ranked, report = ranked_builds(planned, lambda _: None)
    for built in ranked:
        return _finished(replace(planned, report=report), built)
    return refused_report(_nothing_built(planned, report), report)


def ranked_builds(planned: Planned, progress: Progress) -> tuple[list[Built], RunReport]:
    """Candidates in the order to try them where nothing can be timed: by the model, but what loses resident
    blocks or spills comes after what is predicted nearly as well and does neither."""
    viable = planned.viable()
    best = viable[0].predicted_speedup or 0.0 if viable else 0.0
    near = [c for c in viable if (c.predicted_speedup or 0.0) >= _NEAR * best][:_BUILT]
    built, report = restructure(planned, near, progress)
    built.sort(key=lambda b: loses_residency(planned.job, b))
    if not built:
        built, report = restructure(replace(planned, report=report), viable[len(near) :], progress)
    return built, report


def _nothing_built(planned: Planned, report: RunReport) -> Refusal:
    if not planned.plan.order:
        return _nothing_viable(planned)
    reasons = [c.candidate.reason or "" for c in report.candidates if c.candidate.id in planned.plan.order]
    return error("TP152", "no candidate could be built: " + "; ".join(reasons[:3]))


def _finished(planned: Planned, built: Built) -> RunReport:
    """The report with a chosen candidate's source and launch."""
    rewritten = built.rewrite
    notes = tuple(Diagnostic("TP153", "note", note) for note in rewritten.notes)
    if launches_compile(planned.job, built) is False:
        text = "the file with its edited launches does not compile with nvcc; check the edited lines"
        notes += (Diagnostic("TP154", "warning", text),)
    return replace(
        planned.report,
        outcome="pipelined",
        chosen=built.candidate.id,
        launch=_launch(planned.job, rewritten, built.cubin.static_shared),
        source=rewritten.text,
        diagnostics=planned.report.diagnostics + notes,
    )


def _launch(job: Job, rewritten: Rewrite, static: int) -> LaunchInfo:
    sizes = job.problem.sizes if job.problem is not None else {}
    wanted: dict[str, int] = {}
    for name, values in sizes.items():
        before = evaluate(job.problem.shared, values) if job.problem is not None else 0
        stage = before if rewritten.stages_factor == 1 else -(-before // 16) * 16
        wanted[name] = stage * rewritten.stages_factor + rewritten.extra_dynamic_shared
    most = max(wanted.values(), default=rewritten.extra_dynamic_shared)
    return LaunchInfo(wanted, most + static > DEFAULT_SHARED, rewritten.edited_launches)


# -- steps 5, 6 and 7 --------------------------------------------------------------------------------------------


def run(job: Job, progress: Progress) -> RunReport | Refusal:
    """All seven steps. On a GPU every candidate is verified and timed and the fastest kept; without one the
    choice is by the model, and the emulator verifies it."""
    progress("reading the kernel and asking the compiler")
    planned = preconditions_and_variant(job)
    if isinstance(planned, RunReport):
        return planned
    if not planned.plan.order:
        return refused_report(_nothing_viable(planned), planned.report)
    if isinstance(job.device, CudaDevice):
        return _run_on_gpu(planned, job.device, progress)
    return _run_on_cpu(planned, progress)


@dataclass(frozen=True, eq=False)
class _Verified:
    built: Built
    correctness: Correctness
    races: Races


def _run_on_cpu(planned: Planned, progress: Progress) -> RunReport:
    """Candidates in the model's order until one is right; a wrong one is a failure to report, never handed out."""
    ranked, report = ranked_builds(planned, progress)
    if not ranked:
        return refused_report(_nothing_built(planned, report), report)
    for built in ranked:
        verified = _verify(planned.job, built, progress)
        if "failed" in (verified.correctness.status, verified.races.status):
            report = _with_wrong(report, planned.model, verified)
            if verified.races.original_findings:
                return with_checklist(
                    replace(report, outcome="failed", evidence=_evidence(verified, None, None))
                )
            continue
        timed = Benchmark("unknown", reason="no GPU on this machine: the choice is by the time model")
        return _conclude(replace(planned, report=report), verified, timed, progress)
    return replace(report, outcome="failed")


def _with_wrong(report: RunReport, model: KernelModel, verified: _Verified) -> RunReport:
    candidate = verified.built.candidate
    why = (
        verified.correctness.reason or "; ".join(f.message for f in verified.races.findings[:2]) or "differs"
    )
    failed = replace(candidate, status="failed", reason=f"verification failed: {why}")
    text = f"candidate {candidate.id} is wrong and was discarded: {why}"
    report = _with_candidate(report, _candidate_report(model, failed, verified.built))
    return replace(report, diagnostics=(*report.diagnostics, Diagnostic("TP155", "warning", text)))


def _verify(job: Job, built: Built, progress: Progress) -> _Verified:
    """Step 5 on the job's device; races always by the emulator."""
    sizes = dict(job.problem.sizes) if job.problem is not None else {}
    more = extra_tile_counts(job, built.candidate.stages)
    progress(f"verifying {built.candidate.id}")
    correctness, races = verify_candidate(job, job.device, built, {**sizes, **more})
    if isinstance(job.device, CudaDevice):
        small = {n: s for n, s in {**sizes, **more}.items() if n != "target"}
        emulated, races = verify_candidate(job, CpuDevice(job.toolchain), built, small)
        if emulated.status == "failed":
            correctness = emulated
    return _Verified(built, correctness, races)


def _run_on_gpu(planned: Planned, device: CudaDevice, progress: Progress) -> RunReport:
    built, report = restructure(planned, planned.viable(), progress)
    right: list[Built] = []
    small = {
        n: s for n, s in (planned.job.problem.sizes if planned.job.problem else {}).items() if n != "target"
    }
    for one in built:
        progress(f"verifying {one.candidate.id}")
        correctness, races = verify_candidate(planned.job, device, one, small)
        if correctness.status == "failed":
            report = _with_wrong(report, planned.model, _Verified(one, correctness, races))
        else:
            right.append(one)
    if not right:
        return replace(report, outcome="failed")
    progress("timing the original and every candidate")
    timed = measure(planned.job, device, right)
    winner = fastest(timed.original, timed.candidates) if timed.original is not None else None
    chosen = next((b for b in right if b.candidate.id == winner), None)
    if timed.original is not None and chosen is None:
        kept = replace(report, outcome="original_kept", evidence=Evidence(benchmark=timed))
        return with_checklist(kept)
    verified = _verify(planned.job, chosen or right[0], progress)
    if "failed" in (verified.correctness.status, verified.races.status):
        report = _with_wrong(report, planned.model, verified)
        return replace(report, outcome="failed", evidence=_evidence(verified, timed, None))
    return _conclude(replace(planned, report=report), verified, timed, progress)


def measure(job: Job, device: CudaDevice, built: list[Built]) -> Benchmark:
    """Step 6: the original and the candidates at the target size, interleaved."""
    problem = job.problem
    if problem is None:
        return Benchmark("unknown", reason="no problem file says how to launch the kernel")
    size = "target" if "target" in problem.sizes else next(iter(problem.sizes))
    parameters = job.toolchain.parameter_types(job.unit())
    if isinstance(parameters, Refusal):
        return Benchmark("unknown", size, reason=parameters.diagnostics[0].message)
    case = make_case(problem, size, parameters, job.options.seed)
    original = device.load(job.unit(), job.arch.name)
    for answer in (case, original):
        if isinstance(answer, Refusal):
            return Benchmark("unknown", size, reason=answer.diagnostics[0].message)
    contenders: dict[str, Contender] = {}
    for one in built:
        kernel = device.load_compiled(one.cubin)
        changed = changed_launch(one.change, case, parameters, job.options.seed)  # type: ignore[arg-type]
        if not isinstance(kernel, Refusal) and not isinstance(changed, Refusal):
            contenders[one.candidate.id] = Contender(kernel, changed)
    return benchmark(device, Contender(original, case), contenders, case)  # type: ignore[arg-type]


def _evidence(verified: _Verified, timed: Benchmark | None, sass: Sass | None) -> Evidence:
    return Evidence(verified.correctness, verified.races, sass, timed)


def _conclude(planned: Planned, verified: _Verified, timed: Benchmark, progress: Progress) -> RunReport:
    """Step 7, and the report with its checklist."""
    progress("auditing the machine code")
    sass = audit_candidate(planned.job, planned.model, verified.built)
    report = replace(_finished(planned, verified.built), evidence=_evidence(verified, timed, sass))
    return with_checklist(report)


# -- commands made of single steps -------------------------------------------------------------------------------


def sass(job: Job) -> RunReport | Refusal:
    """Step 7 for the best candidate by the model, or the one asked for."""
    planned = preconditions_and_variant(job)
    if isinstance(planned, RunReport):
        return planned
    ranked, report = ranked_builds(planned, lambda _: None)
    for built in ranked:
        found = audit_candidate(job, planned.model, built)
        done = replace(report, chosen=built.candidate.id, evidence=Evidence(sass=found))
        return replace(done, outcome="failed" if found.status == "failed" else None)
    return refused_report(_nothing_built(planned, report), report)


def bench(job: Job, progress: Progress) -> RunReport | Refusal:
    """Step 6 alone: every candidate against the original, on a GPU."""
    planned = preconditions_and_variant(job)
    if isinstance(planned, RunReport):
        return planned
    built, report = restructure(planned, planned.viable(), progress)
    if not isinstance(job.device, CudaDevice):
        timed = Benchmark("unknown", reason="no GPU on this machine")
        return replace(report, evidence=Evidence(benchmark=timed))
    progress("timing the original and every candidate")
    timed = measure(job, job.device, built)
    winner = fastest(timed.original, timed.candidates) if timed.original is not None else None
    outcome = "pipelined" if winner else "original_kept" if timed.original is not None else None
    return replace(report, evidence=Evidence(benchmark=timed), outcome=outcome, chosen=winner)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class _Changed:
    """A changed version of the kernel that somebody else made, in the shape of a built candidate."""

    text: str
    candidate: Candidate = field(default=Candidate("changed", "ldg", 1, "ring"))


def verify(job: Job, changed: str, progress: Progress) -> RunReport | Refusal:
    """Step 5 for two versions of a kernel: the job's file is the original, `changed` the path of the other."""
    source = read_source(changed)
    if isinstance(source, Refusal):
        return source
    file = CudaFile(source)
    if job.kernel.name not in {k.name for k in file.kernels}:
        return error("TP145", f"{changed} has no kernel `{job.kernel.name}`")
    if job.problem is None:
        return error(
            "TP156", "verify needs a problem file", help="`tilepipe init FILE.cu` drafts one; give it with -p"
        )
    cubin = job.toolchain.compile(job.unit(source.text, changed), job.arch.name, "cubin")
    if isinstance(cubin, Refusal):
        return cubin
    built = Built(_Changed.candidate, Rewrite("changed", source.text, ()), cubin)
    if job.options.changed_problem is not None:
        other = open_job(
            job.path, replace(job.options, problem=job.options.changed_problem, kernel=job.kernel.name)
        )
        if isinstance(other, Refusal):
            return other
        built = _with_problem(built, other)
    progress("running both versions")
    done = _verify(job, built, progress)
    failed = "failed" in (done.correctness.status, done.races.status)
    return replace(_base(job), outcome="failed" if failed else None, evidence=_evidence(done, None, None))


def _with_problem(built: Built, other: Job) -> Built:
    return _BuiltWithProblem(built.candidate, built.rewrite, built.cubin, other)


@dataclass(frozen=True, eq=False)
class _BuiltWithProblem(Built):
    other: Job

    @property
    def change(self):  # type: ignore[no-untyped-def]
        return replace(super().change, problem=self.other.problem)


def draft(path: str, options: Options) -> str | Refusal:
    """A first problem file for every kernel of a file, from its parameters and its launches."""
    jobs = open_jobs(path, replace(options, device="cpu"))
    if isinstance(jobs, Refusal):
        return jobs
    drafts = []
    for job in jobs:
        parameters = job.toolchain.parameter_types(job.unit())
        if isinstance(parameters, Refusal):
            return parameters
        drafts.append(KernelDraft(job.kernel.name, parameters))
    return draft_problem(drafts)


def pipeline_source(
    source: str, kernel: str, arch: str = "sm_80", candidate: str | None = None
) -> Rewrite | Refusal:
    """Pipeline a kernel held as a Python string: the new source with what its launch must know.

    For CUDA source in Python (raw kernels, inline extensions). `kernel` is its name, `candidate` an id such as
    "cp_async-3-ring", None for the model's choice. Nothing is executed: verify the result with your own data, or
    put the source into a file and use `run`.
    """
    from tilepipe.gpu import normalise_arch  # noqa: PLC0415
    from tilepipe.source import SourceFile  # noqa: PLC0415

    toolchain = select_toolchain("nvrtc")
    known = normalise_arch(arch)
    for answer in (toolchain, known):
        if isinstance(answer, Refusal):
            return answer
    file = CudaFile(SourceFile("<source>", source))
    found = next((k for k in file.kernels if k.name == kernel), None)
    if found is None:
        return error("TP145", f"the source has no kernel `{kernel}`")
    options = Options(kernel=kernel, candidate=candidate, allow_launch_change=True, arch=arch)
    job = Job(file, found, None, "", options, toolchain, CpuDevice(toolchain), known)  # type: ignore[arg-type]
    planned = preconditions_and_variant(job)
    if isinstance(planned, RunReport):
        return Refusal(planned.diagnostics)
    for one in planned.viable():
        built = build_candidate(job, planned.model, one)
        if not isinstance(built, Refusal):
            return built.rewrite
    return _nothing_viable(planned)
