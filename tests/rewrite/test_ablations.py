"""A candidate's parts: each does its half of the work and not the other, and none touches what it must not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.sampling import sampled

from tilepipe import steps
from tilepipe.builds import Built, build_candidate, resident_blocks, verify_candidate
from tilepipe.diagnostics import Refusal
from tilepipe.evidence.correctness import changed_launch
from tilepipe.gpu import occupancy
from tilepipe.job import Job
from tilepipe.launch import CpuDevice, LaunchOptions
from tilepipe.limits import _as_resident, _harm, build_ablation
from tilepipe.options import Options
from tilepipe.problem import Case, make_case
from tilepipe.rewrite.ablations import ABLATIONS

ROOT = Path(__file__).parents[2]
CANDIDATES = [
    ("examples/igemm_wmma.cu", "cp_async-3-ring-16"),
    ("examples/hgemm_wmma.cu", "cp_async-2-ring"),
    ("examples/sgemm_tiled.cu", "ldg-2-ring"),
    ("examples/sgemm_tiled.cu", "ldg-2-textbook"),
    ("tests/zoo/attn_rowblock.cu", "cp_async-2-ring"),
    ("tests/zoo/gather_rows_gemm.cu", "cp_async-3-ring"),
    ("tests/zoo/w8a16_groups.cu", "mixed-2-ring"),
    ("tests/zoo/nbody_accel.cu", "cp_async-3-ring"),
    ("tests/rewrite/layout/hgemm_ldsm.cu", "cp_async-3-ring-pad"),
]


def made(path: str, candidate: str) -> tuple[Job, Built]:
    job = steps.open_job(
        str(ROOT / path), Options(device="cpu", allow_launch_change=True, candidate=candidate)
    )
    assert not isinstance(job, Refusal)
    assert not isinstance(job.model, Refusal) and not isinstance(job.plan, Refusal)
    chosen = next(c for c in job.plan.candidates if c.id == candidate)
    built = build_candidate(job, job.model, chosen)
    assert not isinstance(built, Refusal), built
    return job, built


def work(job: Job, built: Built) -> tuple[int, int]:
    """Operations of math, and bytes loaded from global memory by copies and loads, at a size of several tiles."""
    assert job.problem is not None
    parameters = job.toolchain.parameter_types(job.unit())
    kernel = CpuDevice(job.toolchain).load(job.unit(built.rewrite.text), job.arch.name)
    assert not isinstance(parameters, Refusal) and not isinstance(kernel, Refusal)
    case = make_case(job.problem, "small", parameters, 0)
    assert isinstance(case, Case)
    launch = changed_launch(built.change, case, parameters, 0)
    assert isinstance(launch, Case)
    done = kernel.run(launch, LaunchOptions())
    assert not isinstance(done, Refusal)
    loaded = done.counters["global_load_bytes"] + done.counters["async_copy_bytes"]
    return int(done.counters["math"]), int(loaded)


@pytest.mark.parametrize(("path", "candidate"), sampled(CANDIDATES, 4))
def test_each_part_does_its_own_half(path: str, candidate: str) -> None:
    job, built = made(path, candidate)
    parameters = job.toolchain.parameter_types(job.unit())
    assert not isinstance(parameters, Refusal)
    whole = work(job, built)
    for ablation in ("loads", "compute"):
        part = build_ablation(job, built, ablation)  # type: ignore[arg-type]
        assert isinstance(part, Built), part
        assert _harm(job, part, parameters) == ""
        math, loaded = work(job, part)
        if ablation == "loads":
            assert math < 0.2 * whole[0]
            assert loaded >= 0.5 * whole[1]  # what is not staged is loaded no more
        else:
            assert math >= 0.9 * whole[0]
            assert loaded <= whole[1]


def test_with_many_tiles_computing_alone_loads_next_to_nothing() -> None:
    job, built = made("examples/hgemm_wmma.cu", "cp_async-2-ring")
    assert job.problem is not None
    long = replace(job, problem=replace(job.problem, sizes={"small": {"M": 128, "N": 128, "K": 32 * 40}}))
    part = build_ablation(long, built, "compute")
    assert isinstance(part, Built)
    assert work(long, part)[1] < 0.1 * work(long, built)[1]


@pytest.mark.parametrize(
    ("path", "candidate"),
    [c for c in CANDIDATES if c[1].startswith("cp_async")] + [(CANDIDATES[-1][0], "ldg-2-ring-pad")],
)
def test_the_control_is_the_same_kernel(path: str, candidate: str) -> None:
    """The candidate's copies without overlap still compute what the original does, with the original's tiles."""
    job, built = made(path, candidate)
    control = build_ablation(job, built, "control")
    assert isinstance(control, Built), control
    assert job.problem is not None
    sizes = {n: s for n, s in job.problem.sizes.items() if n != "target"}
    correctness, races = verify_candidate(job, job.device, control, sizes)  # type: ignore[misc]
    assert (correctness.status, races.status) == ("passed", "passed"), (correctness, races)
    where = job.padded if built.candidate.padding else job
    assert where is not None and not isinstance(where.original, Refusal)
    # Tiles in dynamic shared memory are one stage as well; static ones have the original's size to the byte.
    if not built.candidate.needs_launch_change:
        assert control.cubin.static_shared == where.original.static_shared


def test_register_staging_has_no_control_of_its_own() -> None:
    job, built = made("examples/sgemm_tiled.cu", "ldg-2-ring")
    assert build_ablation(job, built, "control") == "loads that go through registers are the original's"


def test_parts_keep_the_candidate_s_resident_blocks() -> None:
    """Loads alone need few registers: without more shared memory more blocks would be resident than ever will."""
    job, built = made("examples/sgemm_tiled.cu", "ldg-2-ring")
    part = build_ablation(job, built, "loads")
    assert isinstance(part, Built) and job.problem is not None
    parameters = job.toolchain.parameter_types(job.unit())
    assert not isinstance(parameters, Refusal)
    case = make_case(job.problem, "small", parameters, 0)
    assert isinstance(case, Case)
    static, registers = part.cubin.static_shared, part.cubin.registers
    most = resident_blocks(job, built.cubin, built.candidate)
    assert occupancy(job.arch, job.threads, registers, static).blocks > most
    launch = _as_resident(job, built, part, case, "loads")
    assert occupancy(job.arch, job.threads, registers, static + launch.shared).blocks == most
    assert _as_resident(job, built, part, case, "control") is case


def test_ablations_are_never_candidates() -> None:
    job, _ = made("examples/igemm_wmma.cu", "cp_async-3-ring-16")
    assert not isinstance(job.plan, Refusal)
    assert not [c for c in job.plan.candidates if any(a in c.id for a in ABLATIONS)]
