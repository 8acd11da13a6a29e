"""The steps on real kernels without a GPU: jobs opened, plans made, sources rewritten, errors as values."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from tilepipe.diagnostics import Refusal
from tilepipe.job import Job
from tilepipe.opening import open_job, open_jobs
from tilepipe.options import Options
from tilepipe.planning import Planned, preconditions_and_variant
from tilepipe.report import RunReport
from tilepipe.rewrite import Rewrite
from tilepipe.steps import check, pipeline_source, rewrite

ROOT = Path(__file__).parents[2]
SGEMM = ROOT / "examples" / "sgemm_tiled.cu"
BLEND = ROOT / "tests" / "zoo" / "blend_pair.cu"
CPU = Options(device="cpu", toolchain="nvrtc")


def code(answer: object) -> str:
    assert isinstance(answer, Refusal), answer
    return answer.diagnostics[0].code


def options(**changes: object) -> Options:
    return Options(**{"device": "cpu", "toolchain": "nvrtc", **changes})  # type: ignore[arg-type]


def job(path: Path = SGEMM, **changes: object) -> Job:
    opened = open_job(str(path), options(**changes))
    assert isinstance(opened, Job), opened
    return opened


def test_what_cannot_be_opened_is_a_value(tmp_path: Path) -> None:
    host = tmp_path / "host.cu"
    host.write_text("int main() { return 0; }\n")
    binary = tmp_path / "binary.cu"
    binary.write_bytes(b"\xff\xfe\x00")
    assert code(open_jobs(str(tmp_path / "none.cu"), CPU)) == "TP147"
    assert code(open_jobs(str(binary), CPU)) == "TP147"
    assert code(open_jobs(str(host), CPU)) == "TP144"
    assert code(open_jobs(str(SGEMM), options(kernel="other"))) == "TP145"
    assert code(open_job(str(BLEND), CPU)) == "TP146"
    assert code(open_job(str(SGEMM), options(kernel="sgemm_tiled", sizes=("huge",)))) == "TP148"


def test_a_byte_order_mark_and_other_line_ends_are_read(tmp_path: Path) -> None:
    path = tmp_path / "sgemm_tiled.cu"
    path.write_bytes(b"\xef\xbb\xbf" + SGEMM.read_bytes().replace(b"\n", b"\r\n"))
    assert job(path).file.source.text == SGEMM.read_text()


def test_every_candidate_has_a_status_and_a_reason() -> None:
    planned = preconditions_and_variant(job())
    assert isinstance(planned, Planned)
    candidates = planned.plan.candidates
    assert len({c.id for c in candidates}) == len(candidates)
    assert all(bool(c.reason) == (c.status != "ok") for c in candidates)
    assert set(planned.plan.order) == {c.id for c in candidates if c.status == "ok"}
    predicted = [c.predicted_speedup or 0.0 for c in planned.viable()]
    assert predicted == sorted(predicted, reverse=True)
    rows = planned.plan.budget
    assert [r.stages for r in rows] == list(range(1, len(rows) + 1))
    assert all(a.blocks_per_sm >= b.blocks_per_sm for a, b in pairwise(rows))


@pytest.mark.parametrize("wish", [{"variant": "prefetch"}, {"stages": 3}, {"candidate": "ldg-2-ring"}])
def test_wishes_narrow_the_choice(wish: dict[str, object]) -> None:
    planned = preconditions_and_variant(job(**wish))
    assert isinstance(planned, Planned)
    (name, value) = next(iter(wish.items()))
    key = {"candidate": "id"}.get(name, name)
    assert planned.viable()
    assert all(getattr(c, key) == value for c in planned.viable())


def test_old_architectures_have_no_asynchronous_copies() -> None:
    planned = preconditions_and_variant(job(arch="sm_75"))
    assert isinstance(planned, Planned)
    assert {c.variant for c in planned.viable()} <= {"ldg", "prefetch"}
    report = check(job(arch="sm_75", variant="cp_async"))
    assert isinstance(report, RunReport)
    assert [d.code for d in report.diagnostics] == ["TP151"]


def test_a_plan_is_replayed(tmp_path: Path) -> None:
    plan = tmp_path / "run.json"
    plan.write_text(json.dumps({"kernel": {"name": "sgemm_tiled"}, "chosen": "prefetch-1-ring"}))
    report = rewrite(job(plan=str(plan)))
    assert isinstance(report, RunReport)
    assert report.chosen == "prefetch-1-ring"
    plan.write_text("{}")
    refused = check(job(plan=str(plan)))
    assert isinstance(refused, RunReport)
    assert refused.diagnostics[0].code == "TP143"


def test_source_in_python_is_pipelined() -> None:
    made = pipeline_source(SGEMM.read_text(), "sgemm_tiled", candidate="ldg-2-ring")
    assert isinstance(made, Rewrite)
    assert made.candidate.startswith("ldg-2-ring")
    assert "tp_fetch" in made.text
    assert code(pipeline_source(SGEMM.read_text(), "other")) == "TP145"
    assert code(pipeline_source(made.text, "sgemm_tiled")) == "TP002"
