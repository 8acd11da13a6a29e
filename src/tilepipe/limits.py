"""How near a candidate comes to the overlap limit: its loads alone, its math alone, and both without overlap, timed.

The ablations (`rewrite/ablations.py`) are built as candidates are, run once by the emulator to see that they touch no
memory that is not theirs, and timed with the original and the candidate in one run. They are never handed out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilepipe.builds import Built, resident_blocks
from tilepipe.diagnostics import Refusal
from tilepipe.evidence.benchmark import benchmark
from tilepipe.evidence.correctness import changed_launch
from tilepipe.evidence.types import Limit
from tilepipe.gpu import occupancy
from tilepipe.job import Job
from tilepipe.launch import Contender, CpuDevice, CudaDevice, LaunchOptions
from tilepipe.planning import Progress
from tilepipe.problem import Case, Parameter, Sizes, make_case
from tilepipe.rewrite import Rewrite, rewrite
from tilepipe.rewrite.ablations import ABLATIONS, Ablation

NO_GPU = "a candidate's loads and math are timed apart on a GPU only"
_STORES = (
    "the loop stores to global memory, and loads and stores share its bandwidth: the limit is out of reach"
)
_RACE = "race"  # an ablation computes nothing that a race could spoil
_STEP = 1024  # bytes of shared memory by which residency is brought down


def overlap_limit(job: Job, device: CudaDevice, built: Built, progress: Progress) -> Limit:
    """Time a candidate's parts at the target size."""
    problem = job.problem
    parameters = job.toolchain.parameter_types(job.unit())
    if problem is None or isinstance(parameters, Refusal):
        return Limit(built.candidate.id, reason=job.no_problem)
    progress(f"timing the parts of {built.candidate.id}")
    size = "target" if "target" in problem.sizes else next(iter(problem.sizes))
    case = make_case(problem, size, parameters, job.options.seed)
    original = device.load(job.unit(), job.arch.name)
    for answer in (case, original):
        if isinstance(answer, Refusal):
            return Limit(built.candidate.id, reason=answer.diagnostics[0].message)
    made: dict[str, Built] = {"candidate": built}
    missing: list[str] = []
    for ablation in ABLATIONS:
        part = build_ablation(job, built, ablation)
        why = part if isinstance(part, str) else _harm(job, part, parameters)
        if isinstance(part, str) or why:
            missing.append(f"{ablation}: {why}")
        else:
            made[ablation] = part
    contenders: dict[str, Contender] = {}
    for name, one in made.items():
        kernel = device.load_compiled(one.cubin)
        launch = changed_launch(one.change, case, parameters, job.options.seed)  # type: ignore[arg-type]
        if not isinstance(kernel, Refusal) and not isinstance(launch, Refusal):
            contenders[name] = Contender(kernel, _as_resident(job, built, one, launch, name))
    timed = benchmark(device, Contender(original, case), contenders, case)  # type: ignore[arg-type]
    if timed.original is None:
        return Limit(built.candidate.id, reason=timed.reason)
    if not isinstance(job.model, Refusal) and job.model.tile.loop.effects().global_writes():
        missing.append(_STORES)
    times = {name: timing.median_ms for name, timing in timed.candidates.items()}
    return Limit(
        built.candidate.id,
        timed.original.median_ms,
        times.get("candidate"),
        times.get("control"),
        times.get("loads"),
        times.get("compute"),
        "; ".join(missing),
    )


def build_ablation(job: Job, built: Built, ablation: Ablation) -> Built | str:
    """An ablation of a candidate, or why there is none."""
    candidate = built.candidate
    where = job.padded if candidate.padding else job
    if where is None or isinstance(where.model, Refusal):
        return "the kernel has no model"
    made = rewrite(where.model, candidate, where.wide, job.options.aligned, ablation)
    if isinstance(made, Refusal) and ablation == "control" and candidate.padding:
        made = Rewrite(candidate.id, where.file.source.text, ())  # what padding alone brings
    if isinstance(made, Refusal):
        return made.diagnostics[0].message.partition("cannot be emitted: ")[2]
    cubin = job.toolchain.compile(job.unit(made.text), job.arch.name, "cubin")
    if isinstance(cubin, Refusal):
        return cubin.diagnostics[0].message
    return Built(candidate, made, cubin)


def _harm(job: Job, part: Built, parameters: tuple[Parameter, ...]) -> str:
    """What an ablation does wrong at the smallest size by the emulator, "" for nothing but races."""
    assert job.problem is not None
    loaded = CpuDevice(job.toolchain).load(job.unit(part.rewrite.text), job.arch.name)
    case = make_case(job.problem, _smallest(job.problem.sizes), parameters, job.options.seed)
    for answer in (loaded, case):
        if isinstance(answer, Refusal):
            return answer.diagnostics[0].message
    launch = changed_launch(part.change, case, parameters, job.options.seed)  # type: ignore[arg-type]
    done = launch if isinstance(launch, Refusal) else loaded.run(launch, LaunchOptions())  # type: ignore[union-attr]
    if isinstance(done, Refusal):
        return done.diagnostics[0].message
    return next((f.message for f in done.findings if _RACE not in f.kind), "")


def _smallest(sizes: Mapping[str, Sizes]) -> str:
    return "small" if "small" in sizes else min(sizes, key=lambda name: sum(sizes[name].values()))


def _as_resident(job: Job, built: Built, part: Built, launch: Case, name: str) -> Case:
    """The launch with as much more shared memory as leaves no more blocks resident than the candidate has: with
    fewer registers, loads alone would have more of them in flight than the candidate ever can."""
    if name not in ("loads", "compute") or part.rewrite.stages_factor != 1:
        return launch
    most = resident_blocks(job, built.cubin, built.candidate)
    shared, static = launch.shared, part.cubin.static_shared
    limit = job.arch.shared_per_block_optin
    while (
        shared + static + _STEP <= limit
        and occupancy(job.arch, job.threads, part.cubin.registers, shared + static).blocks > most
    ):
        shared += _STEP
    return replace(launch, shared=shared)
