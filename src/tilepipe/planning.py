"""Steps 1 to 4: preconditions, variant, buffers and copies. From an opened kernel to built candidates."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Literal

from tilepipe.builds import Built, build_variants, is_defeated, launches_compile, loses_residency
from tilepipe.diagnostics import Diagnostic, Refusal, error, refusal
from tilepipe.job import Job
from tilepipe.kernel.model import KernelModel
from tilepipe.kernel.slots import Stash, stash
from tilepipe.kernel.widen import FULL_WIDTH, Widened, covered
from tilepipe.plan.candidates import NOT_ASKED, Wishes, base_id
from tilepipe.plan.types import Candidate, Plan
from tilepipe.problem.expressions import evaluate
from tilepipe.report import (
    CandidateReport,
    KernelInfo,
    LaunchInfo,
    LoopInfo,
    RunReport,
    ToolInfo,
    refused_report,
    words,
)
from tilepipe.rewrite import Rewrite

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


def base_report(job: Job) -> RunReport:
    """A report that says what was opened, and nothing yet of what came of it."""
    line = job.file.source.line_of(job.kernel.span.start)
    info = KernelInfo(job.kernel.name, job.path, line, job.instance)
    promised = sorted(job.options.no_alias & ({*job.kernel.parameters} | _carved_names(job)))
    notes = tuple(
        Diagnostic(
            "TP157",
            "note",
            f"taken on trust, as --assume says: `{name}` overlaps no other pointer, and no later tile loads what is "
            "stored through it",
        )
        for name in promised
    )
    if job.options.aligned:
        text = "taken on trust, as --assume says: launches allow whole copies of 16 bytes; those made here are checked"
        notes += (Diagnostic("TP157", "note", text),)
    tool = ToolInfo(job.toolchain.name, job.device.name)
    return RunReport(tool, info, job.arch.name, diagnostics=notes + job.zeros)


def _carved_names(job: Job) -> set[str]:
    """The names of the pieces that the kernel carves out of the arrays of its tiles."""
    return set() if isinstance(job.model, Refusal) else {p.name for p in job.model.analysed.carved}


def how_chosen(planned: Planned) -> str:
    """What a choice without a measurement rests on."""
    known = any(c.predicted_speedup for c in planned.viable())
    return "the choice is by the time model" if known else "chosen without a prediction"


def preconditions_and_variant(job: Job) -> Planned | RunReport:
    """Steps 1 and 2: the loop and its tiles, the budget, the variants and stages with reasons."""
    base = base_report(job)
    if job.fault is not None:
        return refused_report(job.fault, base)
    model = job.model
    for answer in (model, job.guards):
        if isinstance(answer, Refusal):
            return refused_report(answer, base)
    assert not isinstance(model, Refusal)
    loop = LoopInfo(
        model.line,
        max(p.interval for p in model.tile.phases),
        tuple(b.name for b in model.buffers),
        tuple(sorted(s.name for s in model.tile.invariant)),
        tuple(sorted(s.name for s in model.tile.scratch)),
        job.padding.layout if job.padding is not None else {},
    )
    plan = job.plan
    if isinstance(plan, Refusal):
        return refused_report(plan, replace(base, loop=loop))
    candidates = tuple(candidate_report(model, c, wide=job.wide) for c in plan.candidates)
    notes = (*base.diagnostics, *_stays_narrow(job, model))
    if job.problem is not None and plan.ratio.cls == "unknown":
        notes += (_no_prediction(job),)
    report = replace(
        base, loop=loop, budget=plan.budget, ratio=plan.ratio, candidates=candidates, diagnostics=notes
    )
    return Planned(job, model, plan, report)


def _stays_narrow(job: Job, model: KernelModel) -> tuple[Diagnostic, ...]:
    """TP159: for each tile whose copies could be wider, why they are not."""
    wide = covered(model, job.wide) if job.arch.has_async_copy else frozenset(b.piece for b in model.buffers)
    reasons = {n.copy.use.buffer: n for n in reversed(job.narrow) if n.reason != FULL_WIDTH}
    return tuple(
        Diagnostic(
            "TP159",
            "note",
            f"copies into `{b.name}` stay as narrow as they are written: {reasons[b.piece].reason}",
            model.file.source.place(reasons[b.piece].copy.use.item.statement.span),
        )
        for b in model.buffers
        if b.piece in reasons and b.piece not in wide
    )


def _no_prediction(job: Job) -> Diagnostic:
    """TP123: what the problem file would have to say for the time model."""
    problem = job.problem
    names = " or ".join(job.main_size or ())
    wanted = []
    if problem is None or problem.flops is None:
        wanted.append(
            f"`flops`, the operations of a launch as an expression in {names.replace(' or ', ', ')}"
        )
    if job.tile_count is None:
        wanted.append(f"`tile = {{ SIZE = … }}`, where SIZE is {names} and … what one tile takes of it")
    text = "candidates are ranked without a prediction: compute and load of a tile are not known"
    advice = "say in the problem file " + "; and ".join(wanted)
    return Diagnostic("TP123", "note", text, help=advice if wanted else "")


def candidate_report(
    model: KernelModel, candidate: Candidate, built: Built | None = None, wide: Iterable[Widened] = ()
) -> CandidateReport:
    """What is known of a candidate: with its registers and spills once it is built. `wide` are the copies that
    a candidate with `copy_bytes` may widen."""
    direct = candidate.variant in ("cp_async", "mixed", "stash")
    widths = {b.name: b.copy_bytes for b in model.buffers if direct and b.copy_bytes is not None}
    widened = [w for w in wide if w.bytes <= candidate.copy_bytes]
    for piece in covered(model, widened):
        widths[piece.name] = min(w.bytes for w in widened if w.copy.use.buffer == piece)
    if candidate.variant == "stash":
        stashed = stash(model, {b.piece: widths.get(b.name) for b in model.buffers})
        if isinstance(stashed, Stash):
            widths |= {piece.name: bytes_ for piece, bytes_ in stashed.through.items()}
    if built is None:
        return CandidateReport(candidate, widths)
    spilled = built.cubin.spill_stores + built.cubin.spill_loads
    return CandidateReport(candidate, widths, built.cubin.registers, spilled, built.tried)


def nothing_viable(planned: Planned) -> Refusal:
    """TP151: the plan has no candidate that may be built; TP022 where one buffer is the only legal way."""
    if planned.model.one_buffer is not None:
        return planned.model.one_buffer
    wishes = planned.job.wishes
    reasons: dict[str, list[str]] = {}
    for c in planned.plan.candidates:
        if isinstance(wishes, Wishes) and wishes.admit(c):
            reasons.setdefault(c.reason or c.status, []).append(c.id)
    why = "; ".join(f"{_some(ids)}: {reason}" for reason, ids in list(reasons.items())[:3])
    place = planned.model.file.source.place(planned.model.tile.loop.span)
    return refusal("TP151", f"no candidate is left: {why}", place, help=_what_would_help(planned))


def _some(ids: list[str]) -> str:
    return ids[0] if len(ids) == 1 else f"{ids[0]} and {len(ids) - 1} more"


def _other_api(job: Job) -> str:
    return "use --api primitives, or leave --api out" if job.options.api.startswith("cuda-pipeline") else ""


def _what_would_help(planned: Planned) -> str:
    job = planned.job
    if other := _other_api(job):
        return other
    if job.problem is None and planned.model.max_threads is None:
        return "say how many threads a block has: __launch_bounds__(N), or a problem file (`tilepipe init` drafts one)"
    others = [c.id for c in planned.plan.candidates if c.reason == NOT_ASKED]
    if others:
        return f"ask for another one that can be built: --candidate {_some(others)}"
    return "all reasons are in the table, and with --json"


# -- steps 3 and 4 -----------------------------------------------------------------------------------------------


def restructure(
    planned: Planned, candidates: list[Candidate], progress: Progress
) -> tuple[list[Built], RunReport]:
    """Steps 3 and 4: each candidate's new source with its buffers, copies and launches, compiled."""
    built: list[Built] = []
    report = planned.report
    for candidate, made in zip(candidates, _built(planned, candidates, progress), strict=True):
        if isinstance(made, Refusal):
            status: Literal["failed", "rejected"] = "failed" if made.exit_code == 2 else "rejected"
            failed = replace(candidate, status=status, reason=made.diagnostics[0].message)
            report = with_candidate(report, candidate_report(planned.model, failed, wide=planned.job.wide))
            continue
        built += made
        report = with_built(report, planned, made)
    note = remedies_note(built)
    return built, replace(report, diagnostics=(*report.diagnostics, note)) if note is not None else report


def remedies_note(built: Iterable[Built]) -> Diagnostic | None:
    """TP158: what was tried where the compiler defeated the overlap, and what came of it."""
    said = [f"{base_id(b.candidate.id)[0]}: {words.tried(b.tried)}" for b in built if b.tried]
    if not said:
        return None
    return Diagnostic(
        "TP158", "note", "the compiler defeats the overlap of some candidates: " + "; ".join(said)
    )


def _built(planned: Planned, candidates: list[Candidate], progress: Progress) -> list[list[Built] | Refusal]:
    """Every candidate with its variants, several at a time: compilers and disassemblers run beside this interpreter."""
    job, model = planned.job, planned.model
    _ = job.original, job.wide, job.padded  # found once, before the threads ask for them

    def build(candidate: Candidate) -> list[Built] | Refusal:
        progress(f"building {candidate.id}")
        return build_variants(job, model, candidate)

    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        return list(pool.map(build, candidates))


def with_built(report: RunReport, planned: Planned, built: Iterable[Built]) -> RunReport:
    """The report with what is known of candidates that were built."""
    for one in built:
        entry = candidate_report(planned.model, one.candidate, one, planned.job.wide)
        report = with_candidate(report, entry)
    return report


def with_candidate(report: RunReport, changed: CandidateReport) -> RunReport:
    """The report with one candidate's entry replaced, or added."""
    kept = tuple(changed if c.candidate.id == changed.candidate.id else c for c in report.candidates)
    known = any(c.candidate.id == changed.candidate.id for c in report.candidates)
    return replace(report, candidates=kept if known else (*kept, changed))


def ranked_builds(planned: Planned, progress: Progress) -> tuple[list[Built], RunReport]:
    """Candidates in the order to try them where nothing can be timed: by the model, but what loses resident
    blocks or spills, or has its loads moved by the compiler, comes after what is predicted nearly as well and
    does none of it."""
    viable = planned.viable()
    best = viable[0].predicted_speedup or 0.0 if viable else 0.0
    near = [c for c in viable if (c.predicted_speedup or 0.0) >= _NEAR * best][:_BUILT]
    built, report = restructure(planned, near, progress)
    built.sort(key=lambda b: (loses_residency(planned.job, b), is_defeated(planned.job, planned.model, b)))
    if not built:
        built, report = restructure(replace(planned, report=report), viable[len(near) :], progress)
    return built, report


def nothing_built(planned: Planned, report: RunReport) -> Refusal:
    """TP150, TP151 or TP152: no candidate can be emitted, none may be built, or none compiled."""
    if not planned.plan.order:
        return nothing_viable(planned)
    tried = [c.candidate for c in report.candidates if c.candidate.id in planned.plan.order]
    reasons = [c.reason or "" for c in tried]
    if all(c.status == "rejected" for c in tried):
        why = "; ".join(
            dict.fromkeys(reason.partition("cannot be emitted: ")[2] or reason for reason in reasons)
        )
        place = planned.model.file.source.place(planned.model.tile.loop.span)
        return refusal("TP150", f"no candidate can be emitted: {why}", place, help=_other_api(planned.job))
    return error("TP152", "no candidate could be built: " + "; ".join(reasons[:3]))


def finished(planned: Planned, built: Built) -> RunReport:
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
