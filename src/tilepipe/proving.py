"""Steps 5 to 7: built candidates verified, timed and audited, on a GPU or on this machine's processor."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from tilepipe.banks import bank_conflicts
from tilepipe.builds import (
    Built,
    audit_candidate,
    build_candidate,
    build_controls,
    extra_tile_counts,
    in_ptx,
    resident_blocks,
    verify_candidate,
)
from tilepipe.diagnostics import Diagnostic, Refusal
from tilepipe.evidence.benchmark import benchmark, fastest
from tilepipe.evidence.correctness import changed_launch
from tilepipe.evidence.types import Benchmark, Correctness, Limit, Races, Sass
from tilepipe.hostlaunch import shared_memory_told
from tilepipe.job import Job
from tilepipe.kernel.model import KernelModel
from tilepipe.launch import Contender, CpuDevice, CudaDevice
from tilepipe.limits import NO_GPU, overlap_limit
from tilepipe.plan.candidates import capped, overrunning, uncapped
from tilepipe.plan.types import Candidate
from tilepipe.planning import (
    Planned,
    Progress,
    candidate_report,
    finished,
    how_chosen,
    nothing_built,
    ranked_builds,
    restructure,
    with_built,
    with_candidate,
)
from tilepipe.problem import make_case
from tilepipe.report import Evidence, RunReport, refused_report, with_checklist

_FINALISTS = 3  # candidates that are tried once more, with other bounds


@dataclass(frozen=True, eq=False)
class Verified:
    """A built candidate with what step 5 found."""

    built: Built
    correctness: Correctness
    races: Races

    @property
    def failed(self) -> bool:
        return "failed" in (self.correctness.status, self.races.status)


def prove_on_cpu(planned: Planned, progress: Progress) -> RunReport:
    """Candidates in the model's order until one is right; a wrong one is a failure to report, never handed out."""
    ranked, report = ranked_builds(planned, progress)
    if not ranked:
        return refused_report(nothing_built(planned, report), report)
    for built in ranked:
        verified = verify_built(planned.job, built, progress)
        if isinstance(verified, Refusal):
            return refused_report(verified, report)
        if verified.failed:
            if verified.correctness.original_fault:
                return original_at_fault(report, planned.job, verified)
            report = _with_wrong(report, planned, verified)
            continue
        timed = Benchmark("unknown", reason=f"no GPU on this machine: {how_chosen(planned)}")
        return _conclude(replace(planned, report=report), verified, timed, progress)
    return replace(report, outcome="failed")


def original_at_fault(report: RunReport, job: Job, verified: Verified) -> RunReport:
    """The report that ends with the original's own fault: nothing can be held against it."""
    fault = f"the original itself fails with {job.problem_path}: {verified.correctness.original_fault}"
    advice = (
        "correct the launch, the data, the reference or its tolerance (`rtol` and `atol`, 0 where they are not given) "
        "in the problem file, or the kernel"
    )
    said = Diagnostic("TP433", "refusal", fault, job.place, help=advice)
    more = shared_memory_told(job, verified.races.original_findings, "TP433")
    # No file comes out that lines could be those of.
    races = replace(verified.races, file=verified.races.file or verified.built.candidate.id)
    evidence = evidence_of(replace(verified, races=races), None, None)
    return replace(
        report, outcome="failed", evidence=evidence, diagnostics=(*report.diagnostics, said, *more)
    )


def doubts(job: Job, verified: Verified) -> tuple[Diagnostic, ...]:
    """Warnings of a verification that did not fail: faults of the original, inputs that it wrote to."""
    found: list[Diagnostic] = []
    if verified.correctness.original_fault:
        fault = f"the original itself is not clean {verified.correctness.original_fault}"
        found.append(Diagnostic("TP433", "warning", fault))
        found += shared_memory_told(job, verified.races.original_findings, "TP433")
    if verified.correctness.changed_inputs:
        names = ", ".join(f"`{name}`" for name in verified.correctness.changed_inputs)
        text = f"the kernel writes to {names}, which {job.problem_path} declares `in`"
        found.append(Diagnostic("TP434", "warning", text, help="declare it `inout`, so that it is an output"))
    return tuple(found)


def _with_wrong(report: RunReport, planned: Planned, verified: Verified) -> RunReport:
    candidate = verified.built.candidate
    why = (
        verified.correctness.reason or "; ".join(f.message for f in verified.races.findings[:2]) or "differs"
    )
    failed = replace(candidate, status="failed", reason=f"verification failed: {why}")
    text = f"candidate {candidate.id} is wrong and was discarded: {why}"
    report = with_candidate(report, candidate_report(planned.model, failed, verified.built, planned.job.wide))
    return replace(report, diagnostics=(*report.diagnostics, Diagnostic("TP155", "warning", text)))


def verify_built(job: Job, built: Built, progress: Progress) -> Verified | Refusal:
    """Step 5 on the job's device; races always by the emulator. A `Refusal`: the problem file is at fault."""
    sizes = dict(job.problem.sizes) if job.problem is not None else {}
    more = extra_tile_counts(job, built.candidate.stages)
    progress(f"verifying {built.candidate.id}")
    found = verify_candidate(job, job.device, built, {**sizes, **more})
    if isinstance(found, Refusal):
        return found
    if not isinstance(job.device, CudaDevice):
        return Verified(built, *found)
    small = {n: s for n, s in {**sizes, **more}.items() if n != "target"}
    emulated = verify_candidate(job, CpuDevice(job.toolchain, job.options.max_steps), built, small)
    if isinstance(emulated, Refusal):
        return emulated
    return Verified(built, emulated[0] if emulated[0].status == "failed" else found[0], emulated[1])


def prove_on_gpu(planned: Planned, device: CudaDevice, progress: Progress) -> RunReport:
    """Every candidate verified and timed; the fastest kept, or the original where that wins."""
    built, report = restructure(planned, planned.viable(), progress)
    sifted = _sift(planned, device, built, report, progress)
    if isinstance(sifted, RunReport):
        return sifted
    right, report = sifted
    if not right:
        return replace(report, outcome="failed")
    progress("timing the original and every candidate")
    timed = measure(planned.job, device, right)
    if more := finalists(planned.job, planned.model, right, timed):
        sifted = _sift(planned, device, more, with_built(report, planned, more), progress)
        if isinstance(sifted, RunReport):
            return sifted
        right, report = [*right, *sifted[0]], sifted[1]
        progress("timing the fastest with other bounds, too")
        timed = measure(planned.job, device, right)
    winner = fastest(timed.original, timed.candidates) if timed.original is not None else None
    chosen = next((b for b in right if b.candidate.id == winner), None)
    if timed.original is not None and chosen is None:
        limit = limit_of_fastest(planned.job, device, right, timed, progress)
        kept = replace(report, outcome="original_kept", evidence=Evidence(benchmark=timed, limit=limit))
        return with_checklist(kept)
    verified = verify_built(planned.job, chosen or right[0], progress)
    if isinstance(verified, Refusal):
        return refused_report(verified, report)
    if verified.failed:
        if verified.correctness.original_fault:
            return original_at_fault(report, planned.job, verified)
        report = _with_wrong(report, planned, verified)
        return replace(report, outcome="failed", evidence=evidence_of(verified, timed, None))
    return _conclude(replace(planned, report=report), verified, timed, progress)


def _sift(
    planned: Planned, device: CudaDevice, built: list[Built], report: RunReport, progress: Progress
) -> tuple[list[Built], RunReport] | RunReport:
    """Those that are right at all sizes but the target, and the report with the others; only a report where
    the problem file or the original is at fault."""
    right: list[Built] = []
    sizes = planned.job.problem.sizes if planned.job.problem else {}
    small = {n: s for n, s in sizes.items() if n != "target"}
    for one in built:
        progress(f"verifying {one.candidate.id}")
        found = verify_candidate(planned.job, device, one, small)
        if isinstance(found, Refusal):
            return refused_report(found, report)
        if found[0].status != "failed":
            right.append(one)
        elif found[0].original_fault:
            return original_at_fault(report, planned.job, Verified(one, *found))
        else:
            report = _with_wrong(report, planned, Verified(one, *found))
    return right, report


def finalists(job: Job, model: KernelModel, built: list[Built], timed: Benchmark) -> list[Built]:
    """The fastest candidates in forms that only a measurement can judge: with other minima of resident blocks stated
    (one, two, as many as they have, one more), and with a loader that runs past the last tile.

    ptxas orders loads and allocates registers differently for each of them. What that is worth can be told neither
    from registers nor from the audit, nor from what it does to the original (docs/measurements.md), so it is timed.
    Left out is what compiles to code that is there already, and bounds that would rule launches out.
    """
    if timed.original is None:
        return []
    bounds = not job.unstated_threads or job.options.allow_launch_change
    by_id = {b.candidate.id: b for b in built}
    families: dict[str, Built] = {}
    for name in sorted(timed.candidates, key=lambda name: timed.candidates[name].median_ms):
        families.setdefault(uncapped(by_id[name].candidate).id, by_id[name])
    wanted: dict[str, Candidate] = {}
    for one in list(families.values())[:_FINALISTS]:
        plain = uncapped(one.candidate)
        past = overrunning(plain)
        near = sorted({1, 2, *_near(resident_blocks(job, one.cubin, one.candidate))}) if bounds else []
        forms = [past] if past is not None else []
        forms += [capped(form, b, job.unstated_threads) for form in (plain, *forms) for b in near]
        wanted |= {form.id: form for form in forms}
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        made = list(pool.map(lambda candidate: build_candidate(job, model, candidate), wanted.values()))
    images = {b.cubin.image for b in built}
    found = {b.cubin.image: b for b in reversed(made) if isinstance(b, Built) and b.cubin.image not in images}
    return list(reversed(found.values()))


def _near(blocks: int) -> tuple[int, int]:
    return blocks, blocks + 1


def limit_of_fastest(
    job: Job, device: CudaDevice, built: list[Built], timed: Benchmark, progress: Progress
) -> Limit | None:
    """What the time of the fastest candidate is made of, whether or not it beats the original."""
    by_id = {b.candidate.id: b for b in built}
    running = [name for name in timed.candidates if name in by_id]
    if not running:
        return None
    fastest_one = min(running, key=lambda name: timed.candidates[name].median_ms)
    return overlap_limit(job, device, by_id[fastest_one], progress)


def measure(job: Job, device: CudaDevice, built: list[Built]) -> Benchmark:
    """Step 6: the original and the candidates at the target size, interleaved, and as controls the original with a
    cap stated, and in PTX what is written in another API: what that costs."""
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

    def contenders(of: Iterable[Built]) -> dict[str, Contender]:
        found: dict[str, Contender] = {}
        for one in of:
            kernel = device.load_compiled(one.cubin)
            changed = changed_launch(one.change, case, parameters, job.options.seed)  # type: ignore[arg-type]
            if not isinstance(kernel, Refusal) and not isinstance(changed, Refusal):
                found[one.candidate.id] = Contender(kernel, changed)
        return found

    controls = {
        name: Contender(kernel, case)  # type: ignore[arg-type]
        for name, cubin in build_controls(job).items()
        if not isinstance(kernel := device.load_compiled(cubin), Refusal)
    }
    controls |= contenders(p for one in built if (p := in_ptx(job, one)) is not None)
    return benchmark(device, Contender(original, case), contenders(built), case, controls=controls)  # type: ignore[arg-type]


def evidence_of(verified: Verified, timed: Benchmark | None, sass: Sass | None) -> Evidence:
    """The evidence of a report, where steps were taken."""
    return Evidence(verified.correctness, verified.races, sass, timed)


def _conclude(planned: Planned, verified: Verified, timed: Benchmark, progress: Progress) -> RunReport:
    """Step 7, and the report with its checklist."""
    progress("auditing the machine code")
    sass = audit_candidate(planned.job, planned.model, verified.built)
    device, limit = planned.job.device, Limit(reason=NO_GPU)
    if isinstance(device, CudaDevice):
        limit = overlap_limit(planned.job, device, verified.built, progress)
    banks = bank_conflicts(planned.job, verified.built)
    evidence = replace(evidence_of(verified, timed, sass), limit=limit, banks=banks)
    report = replace(finished(planned, verified.built), evidence=evidence)
    said = (*report.diagnostics, *doubts(planned.job, verified))
    return with_checklist(replace(report, diagnostics=said))
