"""The shared memory that the plan expects of a candidate is what its build takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilepipe import steps
from tilepipe.builds import build_candidate
from tilepipe.diagnostics import Refusal
from tilepipe.options import Options

ZOO = Path(__file__).parents[1] / "zoo"
POOL_BYTES = 64 * 68 * 4  # what the problem file of hgemm_wmma_bias asks for


@pytest.mark.parametrize(
    ("kernel", "variant", "dynamic"),
    [
        ("w8a16_groups", "stash", 0),
        ("sgemm_outer84", "stash", 0),
        ("hgemm_wmma_bias", "cp_async", POOL_BYTES),
    ],
)
def test_planned_bytes_are_built(kernel: str, variant: str, dynamic: int) -> None:
    job = steps.open_job(str(ZOO / f"{kernel}.cu"), Options(device="cpu", allow_launch_change=True))
    assert not isinstance(job, Refusal)
    assert not isinstance(job.model, Refusal) and not isinstance(job.plan, Refusal)
    wanted = [c for c in job.plan.candidates if c.variant == variant and c.status == "ok"]
    assert len(wanted) >= 3
    for candidate in wanted:
        built = build_candidate(job, job.model, candidate)
        assert not isinstance(built, Refusal)
        taken = built.cubin.static_shared + dynamic + built.rewrite.extra_dynamic_shared
        assert taken == candidate.shared_bytes
        assert built.rewrite.stages_factor == 1
