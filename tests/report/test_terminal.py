import io
import math
from dataclasses import replace

import pytest
from rich.console import Console
from tests.report.samples import PIPELINED, RACY

from tilepipe.evidence.types import Benchmark, Correctness, Sass, SizeResult
from tilepipe.plan.types import Candidate
from tilepipe.report import CandidateReport, Evidence, LaunchInfo, RunReport, with_checklist, words
from tilepipe.report.terminal import render_terminal

ESCAPE = "\x1b["


def rendered(report: RunReport, terminal: bool = False, width: int = 120) -> str:
    stream = io.StringIO()
    render_terminal(report, Console(file=stream, width=width, force_terminal=terminal, highlight=False))
    return stream.getvalue()


def test_the_verdict_comes_first() -> None:
    assert rendered(PIPELINED).startswith(
        "igemm.cu:17: igemm: pipelined as cp_async-3-ring: 1.72× the original, measured\n"
        "sm_90 · nvrtc 13.5 · NVIDIA H200, driver 580.159\n"
    )


@pytest.mark.parametrize(
    "words",
    [
        "tile loop at line 33, 2 phases, staged smem_a, smem_b, invariant bias, scratch scores",
        "64.0 FLOP per byte, high; a tile takes 310 cycles to load, 120 to compute",
        "does not launch: shared",
        "cp_async-3-ring  chosen  16 B",
        "cp_async-2-textbook, cp_async-4-textbook  dominated",
        "bitwise equal at small, short1, short2, target (16 of 4096 blocks); error at most 0.25 (cpu)",
        "no findings by emulator",
        "sm_90: 16 math from load to wait (412 cycles; 0 in the original), 0 barriers between, math per",
        "94,786",
        "limit        passed  93% reached: 1.1 ms to load, 1.35 to compute, 1.45 both; copies and layout",
        "LDGSTS.E.128 [R3], [R4.64]            copy 1",
        "… 3 more lines: tilepipe sass, --html",
        "✓ passed  no spills from staging",
    ],
)
def test_what_it_rests_on(words: str) -> None:
    assert words in rendered(with_checklist(PIPELINED))


def test_nan_is_said() -> None:
    sizes = {
        "small": SizeResult(True, 0.25, 0.25, True),
        "ragged": SizeResult(False, math.inf, 0.25, False, None, "`y` differs", math.inf),
    }
    report = replace(PIPELINED, evidence=Evidence(Correctness("failed", sizes, "cpu")))
    told = " ".join(rendered(report).split())
    assert "out of tolerance at ragged" in told
    assert "differs by without" not in told and "differs without bound: NaN or infinite values" in told
    assert "error without bound: NaN or infinite values" in told


def test_what_only_the_original_tells_is_said() -> None:
    sizes = {
        "small": SizeResult(True, 0.25, 0.25, True),
        "target": SizeResult(False, sampled=(5, 9), max_difference=2.0),
    }
    report = replace(PIPELINED, evidence=Evidence(Correctness("failed", sizes, "cpu")))
    told = " ".join(rendered(report).split())
    assert "differs by at most 2; error at most 0.25 where a reference was computed (cpu)" in told


def test_it_fits_one_screen_of_a_large_terminal() -> None:
    assert len(rendered(with_checklist(PIPELINED)).splitlines()) <= 50


def test_no_line_ends_in_blanks() -> None:
    text = rendered(with_checklist(PIPELINED), width=60)
    assert [line for line in text.splitlines() if line != line.rstrip()] == []


def test_the_audit_alone_shows_its_whole_excerpt() -> None:
    alone = replace(PIPELINED, evidence=Evidence(sass=PIPELINED.evidence.sass))
    assert "math, 8 since the first" in rendered(alone)
    assert "math, 8 since the first" not in rendered(PIPELINED)


def test_stages_that_cost_the_same_share_a_row() -> None:
    assert " 1–2    8192–12288          9        36  registers" in rendered(PIPELINED)


def without(report: RunReport, count: int) -> RunReport:
    """`report` with `count` candidates rejected for as many reasons."""
    rejected = tuple(
        CandidateReport(Candidate(f"cp_async-{n}-ring", "cp_async", n, "ring", "rejected", f"reason {n}"))
        for n in range(count)
    )
    return replace(report, candidates=(*report.candidates[:1], *rejected))


def test_few_reasons_are_shown_where_there_is_something_to_choose() -> None:
    text = rendered(without(PIPELINED, 9))
    assert "reason 2\n" in text and "reason 3\n" not in text
    assert "6 more" in text


def test_all_reasons_are_shown_where_nothing_is_left() -> None:
    report = without(PIPELINED, 9)
    text = rendered(replace(report, candidates=report.candidates[1:]))
    assert all(f"reason {n}\n" in text for n in range(9))


def test_candidates_that_the_model_passed_over_are_not_built() -> None:
    passed = tuple(
        CandidateReport(Candidate(f"cp_async-{n}-ring", "cp_async", n, "ring", predicted_speedup=0.9))
        for n in (4, 6, 7)
    )
    text = rendered(replace(PIPELINED, candidates=(*PIPELINED.candidates[:1], *passed)))
    assert "cp_async-4-ring, cp_async-6-ring and 1 more  not among the best predicted" in text
    assert "cp_async-4-ring  ok" not in text
    assert "cp_async-4-ring  ok" in rendered(replace(PIPELINED, candidates=passed))


def test_reasons_that_differ_in_the_stages_are_one() -> None:
    rejected = tuple(
        CandidateReport(Candidate(f"c-{n}", "ldg", n, "ring", "rejected", f"ask with --stages {n}"))
        for n in (5, 7)
    )
    text = rendered(replace(PIPELINED, candidates=(*PIPELINED.candidates[:1], *rejected)))
    assert "c-5, c-7  ask with --stages N" in text


def test_plain_text_unless_on_a_terminal() -> None:
    assert ESCAPE not in rendered(with_checklist(PIPELINED))
    assert ESCAPE in rendered(with_checklist(PIPELINED), terminal=True)


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert ESCAPE + "3" not in rendered(with_checklist(PIPELINED), terminal=True)


def test_a_predicted_gain_is_called_predicted() -> None:
    unknown = replace(PIPELINED.evidence, benchmark=Benchmark("unknown", reason="no GPU here"))
    text = rendered(replace(PIPELINED, evidence=unknown))
    assert "pipelined as cp_async-3-ring: 1.70× predicted, not measured" in text
    assert "no GPU here" in text


def test_what_differs_comes_first() -> None:
    sizes = {"small": SizeResult(True), "short1": SizeResult(False, 0.5, None, False)}
    text = rendered(replace(PIPELINED, evidence=Evidence(Correctness("failed", sizes))))
    assert (
        "DIFFERS from the original at short1; out of tolerance at short1; bitwise equal at small; error"
        in text
    )


def test_races_name_both_sides() -> None:
    assert "write-read race As[1][37] (lines 40, 44): no barrier" in rendered(RACY)


def test_the_launch_that_is_needed() -> None:
    report = replace(PIPELINED, launch=LaunchInfo({"small": 65536}, needs_opt_in=True))
    assert "cudaFuncAttributeMaxDynamicSharedMemorySize to 65536" in rendered(report)


@pytest.mark.parametrize("report", [RunReport(), RACY, PIPELINED], ids=["empty", "racy", "pipelined"])
@pytest.mark.parametrize("width", [20, 80, 200])
def test_any_report_renders_at_any_width(report: RunReport, width: int) -> None:
    assert rendered(report, width=width).strip()


def test_the_machine_code_in_numbers() -> None:
    sass = Sass(
        "passed",
        "sm_90",
        window=32,
        registers=126,
        registers_original=124,
        stalls={"LDGSTS": (1, 4), "HMMA": (2, 2)},
        wait_depths=(1, 1),
    )
    (line,) = words.evidence_lines(RunReport(evidence=Evidence(sass=sass)))
    assert "no spills, registers 124 → 126" in line.text
    assert line.text.splitlines()[1] == "stall cycles: HMMA 2, LDGSTS 1–4; waits leave 1 groups in flight"
    (alone,) = words.evidence_lines(RunReport(evidence=Evidence(sass=Sass("passed", "sm_90", registers=40))))
    assert "registers 40" in alone.text and "→" not in alone.text


def test_the_numbers_of_a_loop_with_too_little_math_are_told_with_the_reason() -> None:
    thin = Sass("unknown", "sm_90", reasons=("3 math instructions a tile",), codes=("TP435",), window=3)
    (line,) = words.evidence_lines(RunReport(evidence=Evidence(sass=thin)))
    assert line.status == "unknown" and line.text.startswith("sm_90: 3 math from load to wait")
    assert line.text.endswith("3 math instructions a tile")
