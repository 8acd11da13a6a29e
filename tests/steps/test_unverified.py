"""Without a problem file nothing is compared: the result says so, and what the choice rests on."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tilepipe import pipeline_source
from tilepipe.job import Job
from tilepipe.opening import open_job
from tilepipe.options import Options
from tilepipe.planning import Planned, preconditions_and_variant, ranked_builds
from tilepipe.report import RunReport, exit_code, words
from tilepipe.report.page import Origin, render_page
from tilepipe.rewrite import Rewrite
from tilepipe.steps import draft, rewrite, run

SGEMM = Path(__file__).parents[2] / "examples" / "sgemm_tiled.cu"
DESCEND = Path(__file__).parents[1] / "zoo" / "sgemm_descend.cu"


def opened(path: Path) -> Job:
    job = open_job(str(path), Options(device="cpu"))
    assert isinstance(job, Job), job
    return job


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    """The example without its problem file."""
    return Path(shutil.copy(SGEMM, tmp_path))


def test_a_run_without_a_problem_file_is_not_verified(alone: Path) -> None:
    report = run(opened(alone), lambda _: None)
    assert isinstance(report, RunReport)
    assert (exit_code(report), exit_code(report, ["correctness"]), report.outcome) == (0, 4, "pipelined")
    assert words.verdict(report)[0] == "NOT VERIFIED: pipelined"
    benchmark = report.evidence.benchmark
    assert benchmark is not None and "chosen without a prediction" in benchmark.reason
    page = render_page([report], [Origin(None)])
    assert '<span class="outcome unverified">NOT VERIFIED: pipelined</span>' in page


def test_a_kernel_without_a_table_is_told_from_no_file_at_all(tmp_path: Path) -> None:
    source = SGEMM.read_text()
    path = tmp_path / "two.cu"
    path.write_text(f"{source}\n__global__ void other(int* p) {{ *p = 1; }}\n")
    (tmp_path / "two.toml").write_text(SGEMM.with_suffix(".toml").read_text())
    job = open_job(str(path), Options(device="cpu", kernel="other"))
    assert isinstance(job, Job)
    assert job.no_problem.endswith("two.toml has no table [kernels.other]")


def test_rewrite_and_pipeline_source_choose_what_run_chooses(alone: Path) -> None:
    planned = preconditions_and_variant(opened(alone))
    assert isinstance(planned, Planned)
    first = ranked_builds(planned, lambda _: None)[0][0]
    report = rewrite(opened(alone))
    made = pipeline_source(alone.read_text(), "sgemm_tiled")
    assert isinstance(report, RunReport) and isinstance(made, Rewrite)
    assert report.source == made.text == first.rewrite.text
    assert words.verdict(report)[0].startswith("NOT VERIFIED")


def test_a_problem_that_tells_no_work_is_noted(alone: Path) -> None:
    full = SGEMM.with_suffix(".toml").read_text()
    problem = alone.with_suffix(".toml")
    problem.write_text("".join(line for line in full.splitlines(True) if not line.startswith("flops")))
    planned = preconditions_and_variant(opened(alone))
    assert isinstance(planned, Planned)
    (note,) = (d for d in planned.report.diagnostics if d.code == "TP123")
    assert note.severity == "note"
    assert "`flops`" in note.help and "in M, N, K" in note.help and "tile =" not in note.help
    problem.write_text("".join(line for line in full.splitlines(True) if not line.startswith("tile")))
    planned = preconditions_and_variant(opened(alone))
    assert isinstance(planned, Planned)
    assert "TP123" not in {d.code for d in planned.report.diagnostics}
    assert planned.viable()[0].predicted_speedup


def test_what_to_say_of_the_work_names_the_sizes_of_the_problem(tmp_path: Path) -> None:
    for suffix in (".cu", ".toml"):
        (tmp_path / "d").with_suffix(suffix).write_text(DESCEND.with_suffix(suffix).read_text())
    problem = tmp_path / "d.toml"
    text = re.sub(r"\bK\b", "LENGTH", problem.read_text())
    problem.write_text("".join(line for line in text.splitlines(True) if not line.startswith("tile")))
    planned = preconditions_and_variant(opened(tmp_path / "d.cu"))
    assert isinstance(planned, Planned)
    (note,) = (d for d in planned.report.diagnostics if d.code == "TP123")
    assert "where SIZE is M or N or LENGTH" in note.help and "flops" not in note.help


def test_a_draft_says_what_a_tile_is(alone: Path) -> None:
    text = draft(str(alone), Options())
    assert isinstance(text, str)
    assert "tile   = { K = 8 }" in text
