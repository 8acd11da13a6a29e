"""Remedies for candidates whose overlap the compiler defeats: tried one at a time, kept by the audit, never wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tilepipe.builds import Built, build_candidate, build_variants, verify_candidate
from tilepipe.diagnostics import Refusal
from tilepipe.job import Job
from tilepipe.kernel.model import KernelModel
from tilepipe.launch import CpuDevice
from tilepipe.opening import open_job
from tilepipe.options import Options
from tilepipe.plan.candidates import REMEDIES, base_id, capped, remedied
from tilepipe.plan.types import Candidate
from tilepipe.planning import preconditions_and_variant, ranked_builds
from tilepipe.report import RunReport, to_json

ROOT = Path(__file__).parents[2]
SGEMM = ROOT / "examples" / "sgemm_tiled.cu"
DGEMM = ROOT / "tests" / "zoo" / "dgemm_nt_pad.cu"
STREAM = ROOT / "tests" / "zoo" / "scale_stream.cu"
ATTENTION = ROOT / "tests" / "zoo" / "attn_rowblock.cu"


def opened(path: Path, **more: object) -> tuple[Job, KernelModel]:
    job = open_job(str(path), Options(**{"device": "cpu", "arch": "sm_90", **more}))  # type: ignore[arg-type]
    assert isinstance(job, Job) and isinstance(job.model, KernelModel)
    return job, job.model


def candidate(job: Job, identifier: str) -> Candidate:
    assert not isinstance(job.plan, Refusal)
    return next(c for c in job.plan.candidates if c.id == identifier)


def variants(path: Path, identifier: str) -> list[Built]:
    job, model = opened(path)
    made = build_variants(job, model, candidate(job, identifier))
    assert not isinstance(made, Refusal)
    return made


def test_launch_bounds_keep_loads_above_the_math_where_registers_were_short() -> None:
    mended, plain = variants(SGEMM, "ldg-2-ring")
    assert (mended.candidate.id, plain.candidate.id) == ("ldg-2-ring-b1", "ldg-2-ring")
    assert mended.sass is not None and plain.sass is not None
    assert (mended.sass.status, plain.sass.status, plain.sass.codes) == ("passed", "failed", ("TP420",))
    tried = [(t.candidate, t.status) for t in mended.tried]
    assert tried == [
        ("ldg-2-ring-unroll1", "failed"),
        ("ldg-2-ring-fence", "failed"),
        ("ldg-2-ring-b1", "passed"),
    ]


def test_a_fence_keeps_loads_above_the_math() -> None:
    mended, _ = variants(DGEMM, "ldg-2-ring")
    assert mended.candidate.id == "ldg-2-ring-fence" and mended.sass is not None
    assert mended.sass.status == "passed"


def test_nothing_is_tried_where_the_audit_passes_or_the_candidate_was_named() -> None:
    (only,) = variants(SGEMM, "cp_async-2-ring")
    assert only.sass is not None and (only.sass.status, only.tried) == ("passed", ())
    job, model = opened(SGEMM, candidate="ldg-2-ring")
    made = build_variants(job, model, candidate(job, "ldg-2-ring"))
    assert isinstance(made, list) and [b.candidate.id for b in made] == ["ldg-2-ring"]


@pytest.mark.parametrize("identifier", ["ldg-2-ring", "ldg-2-textbook", "cp_async-2-ring-16"])
def test_nothing_is_tried_where_there_is_too_little_math_to_overlap(identifier: str) -> None:
    (only,) = variants(STREAM, identifier)
    assert only.sass is not None
    assert (only.sass.status, only.sass.codes, only.tried) == ("unknown", ("TP435",), ())


@pytest.mark.parametrize("suffix", ["unroll1", "fence", "b1", "fence-b1"])
def test_a_mended_candidate_can_be_asked_for_by_name(suffix: str) -> None:
    job, model = opened(SGEMM, candidate=f"ldg-2-ring-{suffix}")
    made = build_variants(job, model, candidate(job, "ldg-2-ring"))
    assert isinstance(made, list) and [b.candidate.id for b in made] == [f"ldg-2-ring-{suffix}"]


def test_names_are_taken_apart() -> None:
    assert base_id("ldg-2-ring") == ("ldg-2-ring", "", 0)
    assert base_id("cp_async-3-ring-16-b2") == ("cp_async-3-ring-16", "", 2)
    assert base_id("ldg-2-ring-fence") == ("ldg-2-ring", "fence", 0)
    assert base_id("ldg-2-ring-unroll1-b1") == ("ldg-2-ring", "unroll1", 1)
    assert base_id("-b") == ("-b", "", 0)


def test_what_was_tried_is_told() -> None:
    job, _ = opened(SGEMM, variant="ldg")
    planned = preconditions_and_variant(job)
    assert not isinstance(planned, RunReport)
    built, report = ranked_builds(planned, lambda _: None)
    assert [b.sass.status for b in built if b.sass] == ["passed", "passed", "failed"]
    (note,) = (d for d in report.diagnostics if d.code == "TP158")
    assert "ldg-2-ring: unroll1 does not help, fence does not help, b1 mends it" in note.message
    entries = {c["id"]: c for c in to_json(report)["candidates"]}
    assert [t["status"] for t in entries["ldg-2-ring-b1"]["remedies"]] == ["failed", "failed", "passed"]
    assert "remedies" not in entries["ldg-2-textbook"]


@pytest.mark.parametrize("remedy", REMEDIES)
@pytest.mark.parametrize(
    ("path", "identifier"),
    [
        (SGEMM, "ldg-2-ring"),
        (SGEMM, "ldg-2-textbook"),
        (SGEMM, "prefetch-1-ring"),
        (SGEMM, "cp_async-3-ring"),
        (ATTENTION, "cp_async-2-ring"),
        (ATTENTION, "ldg-2-ring"),
    ],
    ids=str,
)
def test_remedies_leave_every_bit_as_it_was(path: Path, identifier: str, remedy: str) -> None:
    job, model = opened(path, allow_launch_change=True)
    wanted = replace(candidate(job, identifier), status="ok", reason=None)
    built = build_candidate(job, model, remedied(wanted, remedy))  # type: ignore[arg-type]
    assert isinstance(built, Built), built
    assert ("#pragma unroll 1\n" if remedy == "unroll1" else "__syncwarp();") in built.rewrite.text
    assert job.problem is not None
    small = {n: s for n, s in job.problem.sizes.items() if n != "target"}
    found = verify_candidate(job, CpuDevice(job.toolchain), built, small)
    assert not isinstance(found, Refusal)
    assert [part.status for part in found] == ["passed", "passed"], found


def test_a_pragma_of_the_authors_stays(tmp_path: Path) -> None:
    text = SGEMM.read_text(encoding="utf-8")
    at = text.index("    for (int k0")
    path = tmp_path / "own.cu"
    path.write_text(text[:at] + "    #pragma unroll 2\n" + text[at:], encoding="utf-8")
    job, model = opened(path)
    plain = candidate(job, "ldg-2-ring")
    refused = build_candidate(job, model, remedied(plain, "unroll1"))
    assert isinstance(refused, Refusal) and "pragma" in refused.diagnostics[0].message
    assert isinstance(build_candidate(job, model, capped(plain, 1)), Built)
