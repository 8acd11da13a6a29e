"""The widths that a plan reports are those that its candidates copy with."""

from pathlib import Path

from tilepipe.options import Options
from tilepipe.report import RunReport
from tilepipe.steps import check, open_job

EXAMPLES = Path(__file__).parents[2] / "examples"


def widths(example: str) -> dict[str, dict[str, int]]:
    job = open_job(str(EXAMPLES / example), Options(device="cpu", arch="sm_80"))
    report = check(job)  # type: ignore[arg-type]
    assert isinstance(report, RunReport)
    return {c.candidate.id: dict(c.copy_bytes) for c in report.candidates}


def test_repartitioned_copies_have_their_own_widths() -> None:
    found = widths("stream_scale.cu")
    assert found["cp_async-3-ring"] == {"tile": 4}
    assert found["cp_async-3-ring-16"] == {"tile": 16}
    assert found["ldg-2-ring"] == {}


def test_buffers_that_only_wide_copies_can_fill() -> None:
    found = widths("igemm_wmma.cu")
    assert found["cp_async-2-ring-16"] == {"smem_a": 16, "smem_b": 16}
    assert found["cp_async-2-ring"] == {}
