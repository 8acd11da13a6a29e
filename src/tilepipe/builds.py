"""Candidates built: rewritten, compiled, loaded, and looked at in machine code."""

from __future__ import annotations

from dataclasses import dataclass

from tilepipe.diagnostics import Refusal
from tilepipe.evidence.correctness import LaunchChange, Subject, check_correctness
from tilepipe.evidence.sass import Expectation, audit
from tilepipe.evidence.types import Correctness, Races, Sass
from tilepipe.gpu import occupancy
from tilepipe.job import Job
from tilepipe.kernel.launchbounds import launch_bound_span
from tilepipe.kernel.model import KernelModel
from tilepipe.launch import Device
from tilepipe.plan.candidates import base_id, capped
from tilepipe.plan.types import Candidate
from tilepipe.problem import KernelProblem, Sizes, check_case, tile_sizes
from tilepipe.rewrite import Rewrite, rewrite
from tilepipe.rewrite.consumer import redundant_barriers
from tilepipe.toolchain import builds_whole_file, disassemble
from tilepipe.toolchain.types import Compiled


@dataclass(frozen=True, eq=False)
class Built:
    """A candidate as source text and as a cubin for the job's architecture.

    `problem` is that of the changed kernel where it is launched in another way than the original.
    """

    candidate: Candidate
    rewrite: Rewrite
    cubin: Compiled
    problem: KernelProblem | None = None

    @property
    def change(self) -> LaunchChange:
        made = self.rewrite
        return LaunchChange(made.stages_factor, made.extra_dynamic_shared, self.problem, made.promised)


def build_candidate(job: Job, model: KernelModel, candidate: Candidate) -> Built | Refusal:
    """Rewrite one candidate and compile it; the compiler's answer where it does not build."""
    made = rewrite(model, candidate, job.wide, job.options.aligned)
    if isinstance(made, Refusal):
        return made
    cubin = job.toolchain.compile(job.unit(made.text), job.arch.name, "cubin")
    return cubin if isinstance(cubin, Refusal) else Built(candidate, made, cubin)


def build_variants(job: Job, model: KernelModel, candidate: Candidate) -> list[Built] | Refusal:
    """The candidate, and with it the one that keeps the original's resident blocks where staging lost some.

    One register too many can cost a block and with it the whole gain, so a cap is tried then. The capped kernel
    comes first unless it spills; timing decides where there is a GPU.
    """
    asked = base_id(job.options.candidate or "")[1]
    if asked:
        made = build_candidate(job, model, capped(candidate, asked))
        return made if isinstance(made, Refusal) else [made]
    plain = build_candidate(job, model, candidate)
    if isinstance(plain, Refusal):
        return plain
    before, after = _resident(job, job.original, None), _resident(job, plain.cubin, candidate)
    if after >= before or launch_bound_span(job.file, job.kernel) is None or job.options.candidate:
        return [plain]
    fewer = build_candidate(job, model, capped(candidate, before))
    if isinstance(fewer, Refusal):
        return [plain]
    spills = fewer.cubin.spill_stores > plain.cubin.spill_stores
    return [plain, fewer] if spills else [fewer, plain]


def loses_residency(job: Job, built: Built) -> bool:
    """Whether a candidate has fewer resident blocks than the original, or spills where that does not."""
    original = job.original
    spilled = 0 if isinstance(original, Refusal) else original.spill_stores
    fewer = _resident(job, built.cubin, built.candidate) < _resident(job, original, None)
    return fewer or built.cubin.spill_stores > spilled


def _resident(job: Job, cubin: Compiled | Refusal, candidate: Candidate | None) -> int:
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
        device.load(job.unit(built.rewrite.text), job.arch.name),
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
    original = job.original
    if isinstance(original, Refusal):
        return Sass("unknown", job.arch.name, reasons=(original.diagnostics[0].message,))
    texts = [disassemble(c.image, c.symbol) for c in (built.cubin, original)]
    for text in texts:
        if isinstance(text, Refusal):
            return Sass("unknown", job.arch.name, reasons=(text.diagnostics[0].message,))
    after, before = (t for t in texts if isinstance(t, str))
    return audit(
        after,
        before,
        job.arch.name,
        (built.cubin.symbol, original.symbol),
        expectation(model, built.candidate, built.rewrite.fallback),
    )


def expectation(model: KernelModel, candidate: Candidate, fallback: bool) -> Expectation:
    """What the emitted loop should look like: its barriers and copies. With a `fallback` the author's loop stands
    beside it."""
    barriers = [p.statement for p in model.tile.phases if p.is_barrier]
    kept = [b for b in barriers if b not in redundant_barriers(model)]
    ours = 2 if candidate.variant == "prefetch" else 1
    return Expectation(
        asynchronous=candidate.variant in ("cp_async", "mixed"),
        barriers=ours + len(kept),
        barriers_original=len(barriers),
        author_barriers=len(kept),
        fallback=fallback,
        registers=candidate.variant != "cp_async",
        stages=candidate.stages if candidate.variant == "cp_async" else None,
    )
