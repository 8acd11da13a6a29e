"""The seven steps, in order, and the commands made of them. The only module that names the order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilepipe.ahead import ask_ahead
from tilepipe.builds import audit_candidate
from tilepipe.dealing import dealt
from tilepipe.diagnostics import Refusal, error
from tilepipe.drafting import draft
from tilepipe.emulating import Emulation
from tilepipe.emulating import emulate as emulate_kernel
from tilepipe.evidence.benchmark import fastest
from tilepipe.evidence.types import Benchmark
from tilepipe.gpu import normalise_arch
from tilepipe.inspecting import inspect_cubin, inspect_kernel
from tilepipe.job import Job
from tilepipe.kernel.file import CudaFile
from tilepipe.launch import CpuDevice, CudaDevice
from tilepipe.opening import open_job, open_jobs
from tilepipe.options import Options
from tilepipe.planning import (
    Progress,
    base_report,
    finished,
    nothing_built,
    nothing_viable,
    preconditions_and_variant,
    ranked_builds,
    restructure,
    with_built,
)
from tilepipe.proving import (
    finalists,
    limit_of_fastest,
    measure,
    prove_on_cpu,
    prove_on_gpu,
)
from tilepipe.report import Evidence, RunReport, refused_report
from tilepipe.rewrite import Rewrite
from tilepipe.source import SourceFile
from tilepipe.toolchain import select_toolchain
from tilepipe.versions import verify_version

__all__ = [
    "bench",
    "check",
    "check_all",
    "draft",
    "emulate",
    "inspect_cubin",
    "inspect_kernel",
    "open_job",
    "open_jobs",
    "pipeline_source",
    "rewrite",
    "run",
    "sass",
    "verify",
]  # fmt: skip


def run(job: Job, progress: Progress) -> RunReport | Refusal:
    """All seven steps. On a GPU every candidate is verified and timed and the fastest kept; without one the
    choice is by the model, and the emulator verifies it."""
    progress("reading the kernel and asking the compiler")
    if _wants_original(job):
        return _original(job)
    planned = preconditions_and_variant(job)
    if isinstance(planned, RunReport):
        return planned
    if not planned.plan.order:
        return refused_report(nothing_viable(planned), planned.report)
    if isinstance(job.device, CudaDevice):
        return prove_on_gpu(planned, job.device, progress)
    return prove_on_cpu(planned, progress)


def _wants_original(job: Job) -> bool:
    """One stage is the original; a variant that prefetches into registers has one stage too, and a name."""
    return job.options.stages == 1 and job.options.variant is None


def _original(job: Job) -> RunReport:
    base = base_report(job)
    if job.fault is not None:
        return refused_report(job.fault, base)
    return replace(base, source=job.file.source.text)


def check(job: Job) -> RunReport | Refusal:
    """Steps 1 and 2 for one kernel."""
    planned = preconditions_and_variant(job)
    if isinstance(planned, RunReport):
        return planned
    if not planned.plan.order:
        return refused_report(nothing_viable(planned), planned.report)
    return replace(planned.report, chosen=None)


def check_all(jobs: tuple[Job, ...]) -> list[RunReport | Refusal]:
    """Steps 1 and 2 for the kernels of a file."""
    return dealt(_check_share, jobs)


def _check_share(jobs: Sequence[Job], processors: int) -> list[RunReport | Refusal]:
    if len(jobs) > 1:
        ask_ahead(jobs, processors)
    return [check(job) for job in jobs]


def rewrite(job: Job) -> RunReport | Refusal:
    """Steps 1 to 4 for the best candidate by the model, or the one asked for."""
    if _wants_original(job):
        return _original(job)
    planned = preconditions_and_variant(job)
    if isinstance(planned, RunReport):
        return planned
    ranked, report = ranked_builds(planned, lambda _: None)
    for built in ranked:
        return finished(replace(planned, report=report), built)
    return refused_report(nothing_built(planned, report), report)


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
    return refused_report(nothing_built(planned, report), report)


def bench(job: Job, progress: Progress) -> RunReport | Refusal:
    """Step 6 alone: every candidate against the original, on a GPU."""
    planned = preconditions_and_variant(job)
    if isinstance(planned, RunReport):
        return planned
    if not isinstance(job.device, CudaDevice):
        timed = Benchmark("unknown", reason="no GPU on this machine")
        return replace(planned.report, evidence=Evidence(benchmark=timed))
    built, report = restructure(planned, planned.viable(), progress)
    progress("timing the original and every candidate")
    timed = measure(job, job.device, built)
    if more := finalists(job, planned.model, built, timed):
        built, report = [*built, *more], with_built(report, planned, more)
        timed = measure(job, job.device, built)
    winner = fastest(timed.original, timed.candidates) if timed.original is not None else None
    outcome = "pipelined" if winner else "original_kept" if timed.original is not None else None
    limit = limit_of_fastest(job, job.device, built, timed, progress)
    evidence = Evidence(benchmark=timed, limit=limit)
    return replace(report, evidence=evidence, outcome=outcome, chosen=winner)  # type: ignore[arg-type]


def verify(job: Job, changed: str, progress: Progress) -> RunReport | Refusal:
    """Step 5 for two versions of a kernel: the job's file is the original, `changed` the path of the other."""
    return verify_version(job, changed, progress)


def emulate(job: Job, blocks: int | None, progress: Progress) -> Emulation | Refusal:
    """One kernel as it is on the CPU; `blocks` of each grid, None for as many as take seconds, 0 for all."""
    return job.fault or emulate_kernel(job, blocks, progress)


def pipeline_source(
    source: str, kernel: str, arch: str = "sm_80", candidate: str | None = None
) -> Rewrite | Refusal:
    """Pipeline a kernel held as a Python string: the new source with what its launch must know.

    For CUDA source in Python (raw kernels, inline extensions). `kernel` is its name, `candidate` an id such as
    "cp_async-3-ring", None for the model's choice. Nothing is executed: verify the result with your own data, or
    put the source into a file and use `run`. CRLF line ends stay as they are.
    """
    toolchain = select_toolchain("nvrtc")
    known = normalise_arch(arch)
    for answer in (toolchain, known):
        if isinstance(answer, Refusal):
            return answer
    text = source.removeprefix("\ufeff").replace("\r\n", "\n")
    file = CudaFile(SourceFile("<source>", text))
    found = next((k for k in file.kernels if k.name == kernel), None)
    if found is None:
        return error("TP145", f"the source has no kernel `{kernel}`")
    options = Options(kernel=kernel, candidate=candidate, allow_launch_change=True, arch=arch)
    job = Job(file, found, None, "", options, toolchain, CpuDevice(toolchain), known)  # type: ignore[arg-type]
    planned = preconditions_and_variant(job)
    if isinstance(planned, RunReport):
        return Refusal(planned.diagnostics)
    ranked, report = ranked_builds(planned, lambda _: None)
    if not ranked:
        return nothing_built(planned, report)
    made = ranked[0].rewrite
    # Mixed line ends come out as LF, as from the command line.
    all_crlf = "\n" in source and source.count("\n") == source.count("\r\n")
    return replace(made, text=made.text.replace("\n", "\r\n")) if all_crlf else made
