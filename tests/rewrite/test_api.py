"""Rings written in each API: bitwise equal, and refused where the API has no way to say them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from tests.rewrite.harness import EXAMPLES, ZOO, parse_candidate, zoo_kernel

from tilepipe.builds import Built, build_candidate, in_ptx
from tilepipe.diagnostics import Refusal
from tilepipe.opening import open_job
from tilepipe.options import Options
from tilepipe.plan.types import Api, Candidate
from tilepipe.rewrite import Rewrite, rewrite

APIS: tuple[Api, ...] = get_args(Api)
SMALL = ("dgemm_nt_pad", "cp_async-3-ring")  # guarded copies: zeros where the API cannot fill
KERNELS = (
    (ZOO, *SMALL),
    (EXAMPLES, "hgemm_mma", "cp_async-3-ring-frags"),
    (EXAMPLES, "hgemm_wmma", "cp_async-2-ring"),
    (ZOO, "gather_rows_gemm", "cp_async-4-ring"),
    (ZOO, "linear_bf16_mma", "cp_async-3-ring"),
)
SAYS: dict[Api, str] = {
    "ptx": "cp.async.commit_group",
    "primitives": "__pipeline_commit()",
    "cuda-pipeline": "cuda::pipeline_consumer_wait_prior<TP_STAGES - 2>(tp_pipe)",
    "cuda-pipeline-block": "tp_pipe.consumer_wait()",
}


def in_api(identifier: str, api: Api) -> Candidate:
    found = parse_candidate(identifier)
    return replace(found, id=f"{found.id}-{api}", api=api)


def check(folder: Path, name: str, identifier: str, api: Api) -> None:
    kernel = zoo_kernel(folder / f"{name}.cu")
    emitted = kernel.emit(in_api(identifier, api))
    assert isinstance(emitted, Rewrite), emitted
    assert SAYS[api] in emitted.text
    assert (api == "ptx") == ("cp.async" in emitted.text)
    sizes = {n: s for n, s in kernel.problem.sizes.items() if n != "target"}
    assert kernel.difference(emitted, sizes) == ""


@pytest.mark.parametrize("api", APIS)
def test_a_ring_is_exact_in_every_api(api: Api) -> None:
    check(ZOO, *SMALL, api)


@pytest.mark.full
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("kernel", KERNELS, ids=[k[1] for k in KERNELS])
def test_every_ring_is_exact_in_every_api(kernel: tuple[Path, str, str], api: Api) -> None:
    check(*kernel, api)


@pytest.mark.parametrize(
    ("name", "identifier", "api"),
    [
        ("w8a16_groups", "mixed-2-ring", "cuda-pipeline"),
        ("dgemm_nt_pad", "cp_async-2-textbook", "cuda-pipeline-block"),
        ("batch_loop_gemm", "cp_async-3-ring", "cuda-pipeline-block"),  # a loop around the tile loop
    ],
)
def test_what_a_pipeline_object_cannot_say_is_refused(name: str, identifier: str, api: Api) -> None:
    answer = zoo_kernel(ZOO / f"{name}.cu").emit(in_api(identifier, api))
    assert isinstance(answer, Refusal)
    assert answer.diagnostics[0].code == "TP150"


def test_the_control_of_a_ring_in_another_api_is_the_ring_in_ptx() -> None:
    job = open_job(str(ZOO / f"{SMALL[0]}.cu"), Options(device="cpu", api="primitives"))
    assert not isinstance(job, Refusal)
    model, plan = job.model, job.plan
    assert not isinstance(model, Refusal) and not isinstance(plan, Refusal)
    chosen = next(c for c in plan.candidates if c.id == f"{SMALL[1]}-primitives")
    built = build_candidate(job, model, chosen)
    assert isinstance(built, Built), built
    plain = in_ptx(job, built)
    assert plain is not None
    assert plain.candidate.id == SMALL[1]
    assert plain.rewrite.text == rewrite(model, parse_candidate(SMALL[1]), job.wide).text  # type: ignore[union-attr]
    assert in_ptx(job, plain) is None
