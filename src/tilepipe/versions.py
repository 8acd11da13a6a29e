"""Two versions of a kernel, one made by somebody else: held against each other, and what is wrong with it in words."""

from __future__ import annotations

from dataclasses import replace

from tilepipe.builds import Built
from tilepipe.diagnostics import Diagnostic, Refusal, error
from tilepipe.emulating import finding_told
from tilepipe.hostlaunch import wanted_shared
from tilepipe.job import Job
from tilepipe.kernel.file import CudaFile
from tilepipe.kernel.poolnames import has_dynamic_shared
from tilepipe.launch import OUT_OF_SHARED
from tilepipe.opening import open_job, read_source
from tilepipe.plan.types import Candidate
from tilepipe.planning import Progress, base_report
from tilepipe.problem import Parameter
from tilepipe.problem.dtypes import c_dtype
from tilepipe.proving import Verified, doubts, evidence_of, original_at_fault, verify_built
from tilepipe.report import Outcome, RunReport
from tilepipe.rewrite import Rewrite
from tilepipe.rewrite.launches import asked_shared

# The changed version in the shape of a candidate.
_CHANGED = Candidate("changed", "ldg", 1, "ring")
_MAX_FINDINGS = 3


def verify_version(job: Job, changed: str, progress: Progress) -> RunReport | Refusal:
    """Step 5 for the kernel of the same name in the file `changed`; the job's file is the original.

    What is wrong with it is told by TP437, with its file and line. A `Refusal`: the two cannot be compared.
    """
    other = _opened(job, changed)
    if isinstance(other, Refusal):
        return other
    if job.problem is None:
        return error(
            "TP156", "verify needs a problem file", help="`tilepipe init FILE.cu` drafts one; give it with -p"
        )
    if job.fault is not None:
        return job.fault
    cubin = job.toolchain.compile(other.unit(), job.arch.name, "cubin")
    if isinstance(cubin, Refusal):
        return cubin
    if (unlike := _takes_other_arguments(job, other)) is not None:
        return unlike
    built = Built(_CHANGED, Rewrite("changed", other.file.source.text, ()), cubin, unit=other.unit())
    if job.options.changed_problem is not None:
        own = open_job(
            job.path, replace(job.options, problem=job.options.changed_problem, kernel=job.kernel.name)
        )
        if isinstance(own, Refusal):
            return own
        if own.fault is not None:
            return own.fault
        built = replace(built, problem=own.problem)
    progress("running both versions")
    done = verify_built(job, built, progress)
    if isinstance(done, Refusal):
        return done
    base, done = base_report(job), replace(done, races=replace(done.races, file=changed))
    if done.correctness.original_fault:
        return original_at_fault(base, job, done)
    outcome: Outcome | None = "failed" if done.failed else None
    told = (*base.diagnostics, *doubts(job, done), *_wrong(job, other, done))
    return replace(base, outcome=outcome, evidence=evidence_of(done, None, None), diagnostics=told)


def _opened(job: Job, changed: str) -> Job | Refusal:
    """The job of the changed kernel, compiled and instantiated as the original is."""
    source = read_source(changed)
    if isinstance(source, Refusal):
        return source
    file = CudaFile(source)
    kernel = next((k for k in file.kernels if k.name == job.kernel.name), None)
    if kernel is None:
        return error("TP145", f"{changed} has no kernel `{job.kernel.name}`")
    return replace(job, file=file, kernel=kernel, template_id=job.instance)


def _takes_other_arguments(job: Job, other: Job) -> Refusal | None:
    """TP162: no launch can be given to both versions, since their parameters differ in number or in what is handed
    over. Pointers are alike whatever they point to: `float4*` for `float*` is another way to the same bytes."""
    before, after = (version.toolchain.parameter_types(version.unit()) for version in (job, other))
    for answer in (before, after):
        if isinstance(answer, Refusal):
            return answer
    assert not isinstance(before, Refusal) and not isinstance(after, Refusal)
    help = "give it the parameters of the original, in the same order"
    if len(before) != len(after):
        what = f"`{job.kernel.name}` has {len(after)} parameters, and {len(before)} in {job.path}"
        return error("TP162", f"{what}: no launch fits both", other.place, f"{len(after)} parameters", help)
    for n, (ours, theirs) in enumerate(zip(before, after, strict=True), 1):
        if _handed_over(ours) != _handed_over(theirs):
            what = f"parameter {n} of `{job.kernel.name}` is `{theirs.type}`, and `{ours.type}` in {job.path}"
            return error("TP162", f"{what}: no launch fits both", other.place, f"`{theirs.name}`", help)
    return None


def _handed_over(parameter: Parameter) -> object:
    if parameter.pointee is not None:
        return "pointer"
    dtype = c_dtype(parameter.type)
    return (
        parameter.type
        if dtype is None
        else ("integer" if dtype.kind in "iub" else dtype.name, dtype.itemsize)
    )


def _wrong(job: Job, other: Job, done: Verified) -> tuple[Diagnostic, ...]:
    """TP437: other results than the original's, then what the emulator found in the changed kernel. TP438: it is not
    known whether the results are the same."""
    told: list[Diagnostic] = []
    if done.correctness.status == "unknown":
        what = f"whether `{other.kernel.name}` is the same as in {job.path} is not known: {done.correctness.reason}"
        help = "with --require correctness this ends with exit code 4"
        told.append(Diagnostic("TP438", "warning", what, other.place, "the changed kernel", help))
    help = _shared_memory(job, other, done) if done.failed else ""
    if done.correctness.status == "failed":
        what = f"`{other.kernel.name}` is not the same as in {job.path}: {done.correctness.reason}"
        told.append(Diagnostic("TP437", "refusal", what, other.place, "the changed kernel", help))
    if done.races.status == "failed":
        source = other.file.source
        shown = [finding_told(source, f, "TP437", "refusal") for f in done.races.findings[:_MAX_FINDINGS]]
        told += shown if told else [replace(shown[0], help=help), *shown[1:]]
    return tuple(told)


def _shared_memory(job: Job, other: Job, done: Verified) -> str:
    """The advice where the changed kernel may have been given too little dynamic shared memory."""
    outside = any(f.kind == OUT_OF_SHARED for f in done.races.findings)
    asked = asked_shared(other.file, other.kernel)
    unlike = [
        (line, text) for line, text in asked if text not in {t for _, t in asked_shared(job.file, job.kernel)}
    ]
    if not has_dynamic_shared(other.file, other.kernel) or not (outside or unlike):
        return ""
    if job.options.changed_problem is not None:
        return f"`shared` in {job.options.changed_problem} may be too small" if outside else ""
    wanted = "; if it needs more, "
    if unlike:
        line, text = unlike[0]
        wanted = f", but line {line} of {other.path} asks for `{text}`: "
    return (
        f"it was launched with the dynamic shared memory of the original (`shared` in {job.problem_path}){wanted}"
        f"copy {job.problem_path}, write {wanted_shared(other)} into the copy, and give it as --changed-problem"
    )
