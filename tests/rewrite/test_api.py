"""Rings written in each API: bitwise equal, and refused where the API has no way to say them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from tests.rewrite.harness import EXAMPLES, ZOO, parse_candidate, zoo_kernel

from tilepipe.diagnostics import Refusal
from tilepipe.plan.types import Api, Candidate
from tilepipe.rewrite import Rewrite

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
