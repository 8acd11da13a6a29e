"""Candidates built: rewritten, compiled, loaded, and looked at in machine code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilepipe.diagnostics import Refusal, refusal
from tilepipe.evidence.correctness import LaunchChange, Subject, check_correctness
from tilepipe.evidence.sass import Expectation, audit
from tilepipe.evidence.types import Correctness, Races, Sass, Trial
from tilepipe.gpu import MAX_THREADS_PER_BLOCK, WARP, occupancy
from tilepipe.job import Job
from tilepipe.kernel.instance import Guard
from tilepipe.kernel.launchbounds import launch_bound_span
from tilepipe.kernel.model import KernelModel
from tilepipe.launch import Device
from tilepipe.plan.candidates import REMEDIES, base_id, capped, remedied
from tilepipe.plan.types import Candidate
from tilepipe.problem import KernelProblem, Sizes, check_case, tile_sizes
from tilepipe.rewrite import Rewrite, rewrite
from tilepipe.rewrite.cap import cap_edit
from tilepipe.rewrite.consumer import redundant_barriers
from tilepipe.rewrite.launches import unclear_instances
from tilepipe.source import apply_edits
from tilepipe.toolchain import builds_whole_file, disassemble
from tilepipe.toolchain.types import Compiled, Unit

# What the compiler can be talked out of: loads moved, barriers between, spills, a loop unrolled out of recognition.
_DEFEATED = {"TP420", "TP421", "TP425", "TP430", "TP431"}


@dataclass(frozen=True, eq=False)
class Built:
    """A candidate as source text and as a cubin for the job's architecture.

    `problem` is that of the changed kernel where it is launched in another way than the original, `unit` what is
    compiled where that is not the job's file with the candidate's text. `sass` is the
    audit, where it was made already, and `tried` are the remedies that it led to, with what became of each.
    """

    candidate: Candidate
    rewrite: Rewrite
    cubin: Compiled
    problem: KernelProblem | None = None
    sass: Sass | None = None
    tried: tuple[Trial, ...] = ()
    unit: Unit | None = None

    @property
    def change(self) -> LaunchChange:
        made = self.rewrite
        return LaunchChange(made.stages_factor, made.extra_dynamic_shared, self.problem, made.promised)


def build_candidate(job: Job, model: KernelModel, candidate: Candidate) -> Built | Refusal:
    """Rewrite one candidate and compile it; the compiler's answer where it does not build."""
    made = _written(job, model, candidate)
    if isinstance(made, Refusal):
        return made
    cubin = job.toolchain.compile(job.unit(made.text), job.arch.name, "cubin")
    return cubin if isinstance(cubin, Refusal) else Built(candidate, made, cubin)


def _written(job: Job, model: KernelModel, candidate: Candidate) -> Rewrite | Refusal:
    """The candidate's text, for all instances of a template that the file names: it has to be the same for each, and
    no others compile."""
    if isinstance(job.guards, Refusal):
        return job.guards
    instances = {job.guards: (job, model)}
    for other in job.others:
        for answer in (other.model, other.guards):
            if isinstance(answer, Refusal):
                return _not_for(candidate, job, other, answer)
        assert not isinstance(other.model, Refusal) and not isinstance(other.guards, Refusal)
        instances.setdefault(other.guards, (other, other.model))  # one may be spelled in several ways
    made = _rewritten(job, model, candidate, tuple(instances))
    others = [pair for pair in instances.values() if pair[0] is not job]
    if isinstance(made, Refusal):
        return made
    for other, theirs in others:
        written = _rewritten(other, theirs, candidate, tuple(instances))
        if isinstance(written, Refusal) or written.text != made.text:
            return _not_for(candidate, job, other, written if isinstance(written, Refusal) else None)
    return replace(made, notes=(*made.notes, *_instance_notes(job, [other for other, _ in others])))


def _instance_notes(job: Job, others: Sequence[Job]) -> list[str]:
    """What users of the file's other instances should know."""
    notes = []
    if others:
        also = ", ".join(f"`{other.instance}`" for other in others)
        notes.append(
            f"the text is the same for {also}, which the file names too; `{job.instance}` alone is looked at"
        )
    unclear = ", ".join(f"`{one}`" for one in unclear_instances(job.file, job.kernel))
    if unclear:
        notes.append(f"the file names {unclear}, which compiles for no instance but those the kernel asserts")
    return notes


def _not_for(candidate: Candidate, job: Job, other: Job, refused: Refusal | None) -> Refusal:
    """TP150: an instance that the file names gets another text than the job's, or none."""
    why = f" ({refused.diagnostics[0].message})" if refused is not None else ""
    return refusal(
        "TP150",
        f"candidate {candidate.id} cannot be emitted: right for `{job.instance}`, it is not for `{other.instance}`, "
        f"which the file names too{why}; let that be an instance of a copy of the template, under another name",
        job.place,
    )


def _rewritten(
    job: Job, model: KernelModel, candidate: Candidate, instances: Sequence[tuple[Guard, ...]]
) -> Rewrite | Refusal:
    aligned = job.options.aligned
    if not candidate.padding:
        return rewrite(model, candidate, job.wide, aligned, instances=instances)
    padded = job.padded
    if padded is None or job.padding is None:
        raise ValueError(f"{candidate.id} without a padded tile")
    found = padded.model
    made = (
        found
        if isinstance(found, Refusal)
        else rewrite(found, candidate, padded.wide, aligned, instances=instances)
    )
    if isinstance(made, Refusal):
        return made
    names = ", ".join(f"`{name}`" for name in job.padding.rows)
    note = f"rows of {names} are {candidate.padding} bytes longer, against bank conflicts"
    return replace(made, notes=(*made.notes, note))


def build_variants(job: Job, model: KernelModel, candidate: Candidate) -> list[Built] | Refusal:
    """The candidate, and with it the one that keeps the original's resident blocks where staging lost some, and the
    one with a remedy where the compiler defeated the overlap. A candidate that was asked for by name stands alone.

    One register too many can cost a block and with it the whole gain, so a cap is tried then. The capped kernel
    comes first unless it spills; timing decides where there is a GPU.
    """
    wishes = job.wishes
    named = "" if isinstance(wishes, Refusal) else wishes.candidate or ""
    _, remedy, blocks = base_id(named)
    if remedy or blocks:
        asked = remedied(candidate, remedy) if remedy else candidate
        asked = capped(asked, blocks, job.unstated_threads) if blocks else asked
        made = build_candidate(job, model, asked)
        return made if isinstance(made, Refusal) else [made]
    plain = build_candidate(job, model, candidate)
    if isinstance(plain, Refusal):
        return plain
    if named:
        return [plain]
    if launch_bound_span(job.file, job.kernel) is None:
        return [*mended(job, model, plain), *_with_bound(job, model, candidate)]
    before, after = resident_blocks(job, job.original, None), resident_blocks(job, plain.cubin, candidate)
    uncapped = mended(job, model, plain)
    if after >= before:
        return uncapped
    fewer = build_candidate(job, model, capped(candidate, before))
    if isinstance(fewer, Refusal):
        return uncapped
    spills = fewer.cubin.spill_stores > plain.cubin.spill_stores
    return [*uncapped, fewer] if spills else [fewer, *uncapped]


def mended(job: Job, model: KernelModel, plain: Built) -> list[Built]:
    """The candidate with its audit; before it, where the compiler defeated the overlap, the same with the first
    remedy that the audit says is one.

    One remedy at a time: the tile loop not unrolled, a fence between load and compute, and launch bounds that leave
    the compiler all registers. Load and compute stand in functions of their own already. What is not mended is not
    thrown away: timing decides where there is a GPU.
    """
    plain = replace(plain, sass=audit_candidate(job, model, plain))
    if plain.sass is None or not _DEFEATED & set(plain.sass.codes):
        return [plain]
    remedies = [remedied(plain.candidate, remedy) for remedy in REMEDIES]
    if not plain.candidate.min_blocks and launch_bound_span(job.file, job.kernel) is not None:
        remedies.append(capped(plain.candidate, 1))
    tried: list[Trial] = []
    for candidate in remedies:
        made = build_candidate(job, model, candidate)
        if isinstance(made, Refusal):
            continue
        sass = audit_candidate(job, model, made)
        tried.append(Trial(candidate.id, sass.status, sass.codes))
        if sass.status == "passed":
            return [replace(made, sass=sass, tried=tuple(tried)), plain]
    return [replace(plain, tried=tuple(tried))]


def is_defeated(job: Job, model: KernelModel, built: Built) -> bool:
    """Whether the audit says that the compiler defeated the overlap."""
    return audit_candidate(job, model, built).status == "failed"


def _with_bound(job: Job, model: KernelModel, candidate: Candidate) -> list[Built]:
    """The candidate of a kernel that states no bound, with the launches' block size and one resident block stated.

    That rules larger blocks out, so it is made only where the launch may change, and only where it can be timed.
    """
    if not (job.unstated_threads and job.options.allow_launch_change and job.device.kind == "cuda"):
        return []
    made = build_candidate(job, model, capped(candidate, 1, job.unstated_threads))
    return [] if isinstance(made, Refusal) else [made]


def build_controls(job: Job) -> dict[str, Compiled]:
    """The original with nothing but a minimum of resident blocks stated, one and as many as it has: what a cap is
    worth by itself. Empty where the kernel states one, or where no block size is known."""
    controls: dict[str, Compiled] = {}
    for blocks in sorted({1, resident_blocks(job, job.original, None)} - {0}):
        edit = cap_edit(job.file, job.kernel, blocks, job.unstated_threads)
        if edit is None:
            continue
        text = apply_edits(job.file.source.text, [edit])
        cubin = job.toolchain.compile(job.unit(text), job.arch.name, "cubin")
        if not isinstance(cubin, Refusal):
            controls[f"original-b{blocks}"] = cubin
    return controls


def in_ptx(job: Job, built: Built) -> Built | None:
    """A candidate that is written in another API, in PTX; None for one that is in PTX already."""
    candidate, model = built.candidate, job.model
    if candidate.api == "ptx" or isinstance(model, Refusal):
        return None
    plain = replace(candidate, id=candidate.id.replace(f"-{candidate.api}", "", 1), api="ptx")
    made = build_candidate(job, model, plain)
    return None if isinstance(made, Refusal) else made


def loses_residency(job: Job, built: Built) -> bool:
    """Whether a candidate has fewer resident blocks than the original, or spills where that does not."""
    original = job.original
    spilled = 0 if isinstance(original, Refusal) else original.spill_stores
    fewer = resident_blocks(job, built.cubin, built.candidate) < resident_blocks(job, original, None)
    return fewer or built.cubin.spill_stores > spilled


def resident_blocks(job: Job, cubin: Compiled | Refusal, candidate: Candidate | None) -> int:
    """Resident blocks per SM of a compiled kernel under the job's launch."""
    if isinstance(cubin, Refusal):
        return 0
    plan = job.plan
    shared = cubin.static_shared
    if candidate is not None and candidate.needs_launch_change:
        shared = candidate.shared_bytes
    elif not isinstance(plan, Refusal):
        shared = max(shared, plan.budget[0].shared_bytes if candidate is None else candidate.shared_bytes)
    return occupancy(job.arch, job.threads, cubin.registers, shared).blocks


def _resident_warps(job: Job, cubin: Compiled, candidate: Candidate | None) -> int:
    """Resident warps per SM of a compiled kernel, zero where no block size is known."""
    warps = -(-(job.known_threads or 0) // WARP)
    return resident_blocks(job, cubin, candidate) * warps


def launches_compile(job: Job, built: Built) -> bool | None:
    """Whether a file with edited launches compiles with its host code; None where nothing can tell."""
    if not built.rewrite.edited_launches:
        return None
    return builds_whole_file(built.rewrite.text, job.path, job.options.compile, job.arch.name)


def extra_tile_counts(job: Job, stages: int) -> dict[str, Sizes]:
    """Size sets with 0, 1, stages − 1, stages and stages + 1 tiles, where the problem file says what a tile is;
    those that make no launch (an empty grid, say) are left out."""
    problem = job.problem
    base = "small" if problem is not None and "small" in problem.sizes else None
    if problem is None or base is None or not problem.tile:
        return {}
    parameters = job.toolchain.parameter_types(job.unit())
    if isinstance(parameters, Refusal):
        return {}
    more = tile_sizes(problem, base, sorted({0, 1, max(stages - 1, 1), stages, stages + 1}))
    return {n: s for n, s in more.items() if check_case(problem, s, parameters, job.problem_path, "") is None}


def verify_candidate(
    job: Job, device: Device, built: Built, sizes: dict[str, Sizes]
) -> tuple[Correctness, Races] | Refusal:
    """Original against candidate at the given sizes; unknown where no problem file says how to launch, or where
    the device cannot run the kernels. A `Refusal`: the problem file is at fault."""
    problem = job.problem
    if problem is None:
        reason = job.no_problem
        return Correctness("unknown", reason=reason), Races("unknown", reason=reason)
    parameters = job.toolchain.parameter_types(job.unit())
    if isinstance(parameters, Refusal):
        return parameters
    loaded = [
        device.load(job.unit(), job.arch.name),
        device.load(built.unit or job.unit(built.rewrite.text), job.arch.name),
    ]
    for answer in loaded:
        if isinstance(answer, Refusal):
            words = f"{answer.diagnostics[0].code} {answer.diagnostics[0].message}"
            return Correctness("unknown", device=device.name, reason=words), Races("unknown", reason=words)
    subject = Subject(device, loaded[0], loaded[1], problem, parameters, job.problem_path, built.change)  # type: ignore[arg-type]
    ours = [name for name in sizes if name not in problem.sizes]
    return check_correctness(subject, sizes, job.options.seed, optional=ours)


def audit_candidate(job: Job, model: KernelModel, built: Built) -> Sass:
    """The candidate's machine code against the original's, on the job's architecture."""
    if built.sass is not None:
        return built.sass
    original = job.original
    if isinstance(original, Refusal):
        return Sass("unknown", job.arch.name, reasons=(original.diagnostics[0].message,))
    texts = [disassemble(c.image, c.symbol, line_info=True) for c in (built.cubin, original)]
    for text in texts:
        if isinstance(text, Refusal):
            return Sass("unknown", job.arch.name, reasons=(text.diagnostics[0].message,))
    after, before = (t for t in texts if isinstance(t, str))
    sass = audit(
        after,
        before,
        job.arch.name,
        (built.cubin.symbol, original.symbol),
        replace(
            expectation(model, built.candidate, built.rewrite.fallback),
            threads=job.known_threads or MAX_THREADS_PER_BLOCK,
            warps=_resident_warps(job, built.cubin, built.candidate),
            warps_original=_resident_warps(job, original, None),
        ),
    )
    return replace(sass, registers=built.cubin.registers, registers_original=original.registers)


def expectation(model: KernelModel, candidate: Candidate, fallback: bool) -> Expectation:
    """What the emitted loop should look like: its barriers and copies. With a `fallback` the author's loop stands
    beside it."""
    barriers = [p.statement for p in model.tile.phases if p.is_barrier]
    kept = [b for b in barriers if b not in redundant_barriers(model)]
    ours = 2 if candidate.variant == "prefetch" else 1
    return Expectation(
        asynchronous=candidate.variant in ("cp_async", "mixed", "stash"),
        barriers=ours + len(kept),
        barriers_original=len(barriers),
        author_barriers=len(kept),
        fallback=fallback,
        registers=candidate.variant not in ("cp_async", "stash"),
        stages=candidate.stages if candidate.variant in ("cp_async", "stash") else None,
        fragments=candidate.fragments,
    )
