"""Nothing is found in what tilepipe emits, nor in the kernels that it starts from."""

import os
from pathlib import Path

import pytest

from tilepipe.builds import build_candidate
from tilepipe.diagnostics import Refusal
from tilepipe.lint import LintOptions, Report, lint
from tilepipe.opening import open_jobs
from tilepipe.options import Options
from tilepipe.plan.types import Candidate
from tilepipe.rewrite.emit import rewrite
from tilepipe.source import SourceFile
from tilepipe.steps import open_job

ROOT = Path(__file__).parents[2]
KERNELS = sorted([*(ROOT / "tests" / "zoo").glob("*.cu"), *(ROOT / "examples").glob("*.cu")])
FEW = (
    "axpy_async_ring",
    "attn_causal_split",
    "sgemm_copyloop",
    "hgemm_wmma_bias",
    "sgemm_tiled",
    "w8a16_groups",
)
CANDIDATES = (
    Candidate("cp_async-3-ring", "cp_async", 3, "ring"),
    Candidate("cp_async-2-textbook", "cp_async", 2, "textbook"),
    Candidate("ldg-2-ring", "ldg", 2, "ring"),
    Candidate("ldg-2-textbook", "ldg", 2, "textbook"),
    Candidate("mixed-2-ring", "mixed", 2, "ring"),
    Candidate("stash-3-ring", "stash", 3, "ring"),
    Candidate("prefetch-1-ring", "prefetch", 1, "ring"),
)


@pytest.mark.parametrize("path", KERNELS, ids=lambda p: p.stem)
def test_nothing_is_found_in_a_kernel_to_start_from(path: Path) -> None:
    report = lint(SourceFile(str(path), path.read_text(encoding="utf-8")))
    assert [f.diagnostic for f in report.findings] == []


def emitted(path: Path, options: Options) -> list[tuple[str, str]]:
    """Kernel and candidate, and the emitted text, of everything that can be emitted of a file."""
    jobs = open_jobs(str(path), options)
    assert not isinstance(jobs, Refusal)
    texts = []
    for job in jobs:
        model = job.model
        if isinstance(model, Refusal):
            continue
        for candidate in CANDIDATES:
            done = rewrite(model, candidate)
            if not isinstance(done, Refusal):
                texts.append((f"{job.kernel.name} {candidate.id}", done.text))
    return texts


def check(path: Path) -> None:
    """TP515 and TP516 are for the plan, which these candidates bypass: the budget is not linted here."""
    for name, text in emitted(path, Options(device="cpu")):
        findings = lint(SourceFile(f"{name}.cu", text), LintOptions()).findings
        assert [f.diagnostic for f in findings if f.diagnostic.code not in ("TP515", "TP516")] == [], name


@pytest.mark.parametrize("path", [p for p in KERNELS if p.stem in FEW], ids=lambda p: p.stem)
def test_nothing_is_found_in_what_is_emitted(path: Path) -> None:
    check(path)


@pytest.mark.full
@pytest.mark.parametrize("path", [p for p in KERNELS if p.stem not in FEW], ids=lambda p: p.stem)
def test_nothing_is_found_in_anything_emitted(path: Path) -> None:
    check(path)


def _wide() -> str:
    """A pipeline with wide copies, and the author's loop beside it."""
    job = open_job(str(ROOT / "examples" / "igemm_wmma.cu"), Options(device="cpu"))
    assert not isinstance(job, Refusal) and not isinstance(job.model, Refusal)
    done = build_candidate(
        job, job.model, Candidate("cp_async-3-ring-16", "cp_async", 3, "ring", copy_bytes=16)
    )
    assert not isinstance(done, Refusal)
    return done.rewrite.text


def test_a_pipeline_is_followed_beside_what_stands_in_for_it() -> None:
    text = _wide()
    assert "if (tp_wide) {" in text and "} else {" in text
    assert lint(SourceFile("wide.cu", text)) == Report((), (), ())
    without = text.replace("__syncthreads();  // publishes", "// publishes")
    assert without != text
    found = {f.diagnostic.code for f in lint(SourceFile("wide.cu", without)).findings}
    assert {"TP504", "TP506"} <= found


def test_some_kernels_are_emitted() -> None:
    assert os.path.exists(KERNELS[0])
    assert len(emitted(ROOT / "examples" / "sgemm_tiled.cu", Options(device="cpu"))) >= 4
