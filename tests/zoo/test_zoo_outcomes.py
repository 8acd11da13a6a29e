"""A sample of the zoo end to end: each kernel gets the outcome that is right for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts.zoo import ZOO, examine, expectation

from tilepipe.job import Job
from tilepipe.opening import open_jobs
from tilepipe.options import Options

# A kernel in a file, and candidates that must be among the exact ones; none for a kernel to be refused.
SAMPLE = (
    ("attn_rowblock.cu", "attn_rowblock", ("cp_async-2-ring",)),
    ("blend_pair.cu", "blend_plain", ()),
    ("gemm_no_tail_sync.cu", "gemm_no_tail_sync", ()),
    ("hgemm_wmma_bias.cu", "hgemm_wmma_bias", ("cp_async-3-ring",)),
    ("igemm_bytes.cu", "igemm_bytes", ("ldg-2-ring",)),
    ("nearest_point.cu", "nearest_point", ("cp_async-3-ring",)),
    ("sgemm_traits.cu", "sgemm_traits", ("ldg-2-textbook",)),
    ("softmax_pool.cu", "softmax_pool", ("mixed-2-ring", "prefetch-1-ring")),
    ("poc/naive_sgemm.cu", "sgemm_naive", ("cp_async-2-ring",)),
)
QUICK = ("ragged", "short0", "short2")  # size sets of a few tiles at most


def opened(file: str, kernel: str) -> Job:
    jobs = open_jobs(str(ZOO / file), Options(device="cpu", kernel=kernel, allow_launch_change=True))
    assert isinstance(jobs, tuple), jobs
    return jobs[0]


def test_every_case_says_what_is_expected() -> None:
    for path in sorted([*ZOO.glob("*.cu"), *ZOO.glob("poc/*.cu")]):
        jobs = open_jobs(str(path), Options(device="cpu"))
        assert isinstance(jobs, tuple), jobs
        for job in jobs:
            assert expectation(job)["outcome"] in ("pipeline", "refuse", "either"), Path(job.path).name
            assert expectation(job)["why"]


@pytest.mark.parametrize(("file", "kernel", "candidates"), SAMPLE, ids=[s[1] for s in SAMPLE])
def test_outcome(file: str, kernel: str, candidates: tuple[str, ...]) -> None:
    job = opened(file, kernel)
    row = examine(job, QUICK, candidates)
    assert row.verdict == "met", row
    assert {t.id for t in row.trials} >= set(candidates)
    if job.problem is not None and expectation(job).get("deterministic", True):
        assert row.original == "clean"
    else:
        assert row.original.startswith("racy")
    if row.trials:
        expected, found = row.staged
        assert set(expected) == set(found)
        assert row.single[0] == row.single[1]


def every_kernel() -> list[tuple[str, str]]:
    opened = [
        open_jobs(str(p), Options(device="cpu")) for p in sorted([*ZOO.glob("*.cu"), *ZOO.glob("poc/*.cu")])
    ]
    jobs = [job for found in opened if isinstance(found, tuple) for job in found if job.problem is not None]
    return [(Path(job.path).relative_to(ZOO).as_posix(), job.kernel.name) for job in jobs]


@pytest.mark.full
@pytest.mark.parametrize(("file", "kernel"), every_kernel())
def test_every_kernel_in_every_form(file: str, kernel: str) -> None:
    row = examine(opened(file, kernel))
    assert row.verdict == "met", row
