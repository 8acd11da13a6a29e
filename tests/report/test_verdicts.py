"""Exit codes and the checklist: what follows from which evidence."""

from dataclasses import replace

import pytest
from tests.report.samples import PIPELINED, RACY, RING

from tilepipe.diagnostics import error, refusal
from tilepipe.evidence.types import Benchmark, Correctness, Races, Sass, SizeResult, Timing
from tilepipe.plan.types import BudgetRow
from tilepipe.report import (
    EVIDENCE,
    CandidateReport,
    Evidence,
    RunReport,
    checklist,
    exit_code,
    refused_report,
    with_checklist,
    worst,
)


def with_evidence(**parts: object) -> RunReport:
    return replace(PIPELINED, evidence=replace(PIPELINED.evidence, **parts))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("report", "required", "code"),
    [
        (PIPELINED, EVIDENCE, 0),
        (RunReport(), (), 0),
        (refused_report(refusal("TP012", "no")), (), 1),
        (refused_report(refusal("TP012", "no")), EVIDENCE, 1),
        (replace(PIPELINED, outcome="original_kept"), (), 1),
        (refused_report(error("TP200", "no")), (), 2),
        (refused_report(error("TP200", "no"), RACY), (), 2),
        (RACY, (), 3),
        (with_evidence(correctness=Correctness("failed")), (), 3),
        (with_evidence(races=Races("failed")), (), 3),
        (with_evidence(sass=Sass("failed")), (), 0),
        (with_evidence(sass=Sass("failed")), ("sass",), 3),
        (with_evidence(benchmark=Benchmark("unknown")), (), 0),
        (with_evidence(benchmark=Benchmark("unknown")), ("benchmark",), 4),
        (with_evidence(benchmark=None), ("correctness", "benchmark"), 4),
        (with_evidence(sass=Sass("failed"), benchmark=None), ("sass", "benchmark"), 3),
    ],
)
def test_exit_codes(report: RunReport, required: tuple[str, ...], code: int) -> None:
    assert exit_code(report, required) == code


@pytest.mark.parametrize(
    ("codes", "code"), [((), 0), ((0, 1), 1), ((1, 4), 4), ((4, 3), 3), ((3, 2, 0), 2), ((0, 0), 0)]
)
def test_the_worst_kernel_decides(codes: tuple[int, ...], code: int) -> None:
    assert worst(codes) == code


def statuses(report: RunReport) -> list[str]:
    return [item.status for item in checklist(report)]


LONE, STAGES, FIRST, LAST, CORRECT, OVERLAP, FASTER, SPILLS = range(8)


def test_all_of_the_checklist_passes_with_full_evidence() -> None:
    assert statuses(PIPELINED) == ["passed"] * 8


def test_all_of_it_is_unknown_without_evidence() -> None:
    assert statuses(replace(PIPELINED, evidence=Evidence(), budget=())) == ["unknown"] * 8


def test_there_is_none_without_a_choice() -> None:
    assert with_checklist(replace(PIPELINED, chosen=None)).checklist == ()
    assert len(with_checklist(PIPELINED).checklist) == 8


@pytest.mark.parametrize(
    ("before", "after", "status"),
    [(9, 8, "passed"), (2, 2, "passed"), (2, 1, "failed"), (1, 1, "passed"), (4, 0, "failed")],
)
def test_a_lone_block_where_there_were_several_fails_and_a_cliff_alone_does_not(
    before: int, after: int, status: str
) -> None:
    budget = (BudgetRow(1, 1, before, before, "shared"), BudgetRow(3, 3, after, after, "shared"))
    assert statuses(replace(PIPELINED, budget=budget))[LONE] == status


def test_races_decide_whether_stages_alternate() -> None:
    assert statuses(with_evidence(races=Races("failed")))[STAGES] == "failed"
    assert statuses(with_evidence(races=Races("unknown", reason="crashed")))[STAGES] == "unknown"


def sizes(**results: bool | None) -> RunReport:
    return with_evidence(correctness=Correctness("failed", {k: SizeResult(v) for k, v in results.items()}))


def test_a_wrong_first_or_last_tile_shows_at_its_size() -> None:
    first = statuses(sizes(short1=False, short2=True, small=True))
    assert (first[FIRST], first[LAST]) == ("failed", "passed")
    last = statuses(sizes(short1=True, short2=False))
    assert (last[FIRST], last[LAST]) == ("passed", "failed")
    assert statuses(sizes(target=True))[FIRST] == "unknown"
    assert statuses(sizes(small=None))[LAST] == "unknown"
    assert statuses(sizes(small=True, tiles2=False))[LAST] == "failed"
    assert statuses(sizes(small=True, target=False))[LAST] == "failed"


def test_correct_at_both_sizes_or_not_known() -> None:
    report = with_evidence(correctness=Correctness("passed", {"small": SizeResult(True)}))
    assert statuses(report)[CORRECT] == "unknown"
    assert "target" in checklist(report)[CORRECT].detail


def test_slower_is_a_failure_of_its_item() -> None:
    slower = Benchmark("passed", candidates={RING: Timing(2.0, 0.0, 0.9)})
    assert statuses(with_evidence(benchmark=slower))[FASTER] == "failed"
    assert statuses(with_evidence(benchmark=Benchmark("unknown", reason="no GPU")))[FASTER] == "unknown"


def test_only_spills_that_staging_added_count() -> None:
    assert statuses(with_evidence(sass=Sass("passed", spills=8, spills_original=8)))[SPILLS] == "passed"
    assert statuses(with_evidence(sass=Sass("passed", spills=8, spills_original=0)))[SPILLS] == "failed"


def test_spills_are_known_where_only_the_math_is_too_little_to_tell_overlap() -> None:
    thin = Sass("unknown", reasons=("3 math instructions a tile",), codes=("TP435",), window=3)
    assert [statuses(with_evidence(sass=thin))[k] for k in (OVERLAP, SPILLS)] == ["unknown", "passed"]
    assert checklist(with_evidence(sass=thin))[OVERLAP].detail == "3 math instructions a tile"
    unread = Sass("unknown", reasons=("two loops",), codes=("TP431",))
    assert statuses(with_evidence(sass=unread))[SPILLS] == "unknown"
    assert exit_code(with_evidence(sass=thin)) == 0 and exit_code(with_evidence(sass=thin), ("sass",)) == 4


def test_candidates_are_found_by_id() -> None:
    assert isinstance(PIPELINED.candidate(RING), CandidateReport)
    assert PIPELINED.candidate("none") is None
