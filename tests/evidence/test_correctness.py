"""Correctness and races over kernels that are Python functions: what passes, fails, stays unknown."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pytest

from tilepipe.diagnostics import Refusal, error
from tilepipe.evidence.correctness import LaunchChange, Subject, check_correctness
from tilepipe.evidence.types import Correctness, Races
from tilepipe.launch.types import Finding, LaunchOptions, RunResult
from tilepipe.problem import ArraySpec, Case, KernelProblem, Parameter

PARAMETERS = (Parameter("x", "const float *", "float"), Parameter("y", "float *", "float"))
PROBLEM = KernelProblem(
    "double_it",
    None,
    ("N", "2"),
    ("32",),
    "64",
    (ArraySpec("x", "in", ("N", "4"), offset=1), ArraySpec("y", "out", ("N", "4"), offset=2)),
    {"small": {"N": 6}, "ragged": {"N": 5}},
    flops="N*10",
    reference="x * 2",
    rtol=1e-6,
)

Body = Callable[[Case, LaunchOptions], None]


@dataclass
class FakeKernel:
    body: Body
    findings: tuple[Finding, ...] = ()
    early_findings: tuple[Finding, ...] = ()
    refuse: str | None = None
    runs: list[tuple[Case, LaunchOptions]] = field(default_factory=list)

    def run(self, case: Case, options: LaunchOptions) -> RunResult | Refusal:
        self.runs.append((case, options))
        if self.refuse is not None:
            return error(self.refuse, "refused")
        self.body(case, options)
        return RunResult(self.early_findings if options.copies == "early" else self.findings)


@dataclass(frozen=True)
class FakeDevice:
    kind: Literal["cpu", "cuda"] = "cpu"
    name: str = "fake"
    arch: str = "sm_90"

    def load(self, unit: Any, arch: str) -> Any:
        raise NotImplementedError


def double(case: Case, options: LaunchOptions) -> None:
    """Block (bx, by) of grid (N, 2) doubles half by of row bx."""
    x, y = (a.data for a in case.arrays)
    n = case.grid[0]
    for block in options.blocks if options.blocks is not None else range(2 * n):
        row, half = block % n, slice(block // n * 2, block // n * 2 + 2)
        y[row, half] = x[row, half] * np.float32(2)


def patched(patch: Callable[[Case], None]) -> Body:
    def body(case: Case, options: LaunchOptions) -> None:
        double(case, options)
        patch(case)

    return body


def check(
    changed: Body | FakeKernel, original: Body | FakeKernel = double, kind: Any = "cpu", **more: Any
) -> tuple[Correctness, Races]:
    kernels = [k if isinstance(k, FakeKernel) else FakeKernel(k) for k in (original, changed)]
    problem = more.pop("problem", PROBLEM)
    change = more.pop("change", LaunchChange())
    subject = Subject(FakeDevice(kind), *kernels, problem, PARAMETERS, change=change)
    answer = check_correctness(subject, more.pop("sizes", problem.sizes), **more)
    assert not isinstance(answer, Refusal), answer
    return answer


def finding(kind: str, *lines: int) -> Finding:
    return Finding(kind, f"{kind} at {lines}", lines)


def test_equal_kernels_pass() -> None:
    correctness, races = check(double)
    assert correctness.status == "passed" and races.status == "passed"
    assert set(correctness.sizes) == {"small", "ragged"}
    small = correctness.sizes["small"]
    assert small.bitwise is True and small.max_abs_error == 0.0 and small.within_tolerance is True
    assert small.sampled is None and correctness.device == "fake"


def last_bit(case: Case) -> None:
    case.arrays[1].data.view(np.uint32)[3, 1] ^= 1


def input_write(case: Case) -> None:
    case.arrays[0].data[0, 0] = 0


def outside_write(case: Case) -> None:
    case.arrays[1].base[0] = 0


def missing_write(case: Case) -> None:
    case.arrays[1].data.view(np.uint32)[2, 2] = 0x7FC0A5A5


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        (last_bit, "`y` differs in 1 of"),
        (input_write, "`x` differs"),
        (outside_write, "`y` was written outside its view"),
        (missing_write, "first at y[2][2]"),
    ],
)
@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_any_differing_byte_fails(patch: Callable[[Case], None], words: str, kind: str) -> None:
    correctness, _ = check(patched(patch), kind=kind)
    assert correctness.status == "failed" and words in correctness.reason and "small" in correctness.reason
    assert correctness.sizes["small"].bitwise is False and words in correctness.sizes["small"].note


def test_nan_payloads_count() -> None:
    def payload(bits: int) -> Body:
        return patched(lambda case: case.arrays[1].data.view(np.uint32).__setitem__((0, 0), bits))

    problem = replace(PROBLEM, reference=None)
    assert check(payload(0x7FC00001), payload(0x7FC00001), problem=problem)[0].status == "passed"
    assert check(payload(0x7FC00002), payload(0x7FC00001), problem=problem)[0].status == "failed"


def test_a_difference_with_early_copies_only_is_found() -> None:
    def body(case: Case, options: LaunchOptions) -> None:
        double(case, options)
        if options.copies == "early":
            last_bit(case)

    assert check(body)[0].status == "failed"


def test_the_run_that_differs_is_the_one_that_is_measured() -> None:
    """A wait that is missing shows with late copies alone: the run after it must not hide its NaN."""

    def body(case: Case, options: LaunchOptions) -> None:
        double(case, options)
        if options.copies == "late":
            case.arrays[1].data[:] = np.nan

    correctness, _ = check(body)
    small = correctness.sizes["small"]
    assert (small.within_tolerance, small.max_abs_error, small.max_difference) == (False, np.inf, np.inf)


def test_runs_get_the_same_data_and_poisoned_outputs() -> None:
    original, changed = FakeKernel(double), FakeKernel(double)
    check(changed, original)
    assert [o.copies for _, o in changed.runs] == ["late", "early"] * 2
    assert len(original.runs) == 2 and all(o.checks for _, o in changed.runs)
    first, second = (case.arrays[0].base.tobytes() for case, _ in (original.runs[0], changed.runs[0]))
    assert first == second and original.runs[0][0].size == "small"


def test_the_launch_change_applies_to_the_changed_kernel_only() -> None:
    original, changed = FakeKernel(double), FakeKernel(double)
    check(changed, original, change=LaunchChange(3, 16))
    assert {c.shared for c, _ in original.runs} == {64} and {c.shared for c, _ in changed.runs} == {208}
    ragged = FakeKernel(double)  # stages begin at multiples of 16 bytes
    check(ragged, problem=replace(PROBLEM, shared="68"), change=LaunchChange(3, 16))
    assert {c.shared for c, _ in ragged.runs} == {256}
    other = FakeKernel(double)
    check(other, change=LaunchChange(problem=replace(PROBLEM, block=("64",), shared="8")))
    assert {(c.block, c.shared) for c, _ in other.runs} == {((64, 1, 1), 8)}


def test_a_gpu_runs_the_original_twice_and_checks_no_races() -> None:
    original, changed = FakeKernel(double), FakeKernel(double)
    correctness, races = check(changed, original, kind="cuda")
    assert correctness.status == "passed" and races.status == "unknown" and "emulator" in races.reason
    assert len(original.runs) == 4 and len(changed.runs) == 2


def noisy(scale: float) -> Body:
    rng = np.random.default_rng(1)

    def body(case: Case, options: LaunchOptions) -> None:
        double(case, options)
        case.arrays[1].data[...] *= 1 + scale * rng.random(case.arrays[1].data.shape, np.float32)

    return body


def scale(case: Case, factor: float) -> None:
    case.arrays[1].data[...] *= np.float32(factor)


def test_an_unsteady_original_is_compared_within_tolerance() -> None:
    problem = replace(PROBLEM, reference=None, rtol=0.0)
    good, _ = check(noisy(1e-5), noisy(1e-5), kind="cuda", problem=problem)
    assert good.status == "passed" and good.sizes["small"].bitwise is None
    assert "differs from itself" in good.sizes["small"].note
    bad, _ = check(noisy(0.5), noisy(1e-5), kind="cuda", problem=problem)
    assert bad.status == "failed" and "outside the tolerance" in bad.reason
    # near the original, and yet too far from the reference
    judged = replace(PROBLEM, rtol=1e-2)
    for factor, status in ((1.001, "passed"), (1.012, "failed"), (1.03, "failed")):
        drifting = itertools.cycle((1.004, 1.008))
        original = patched(lambda case, d=drifting: scale(case, next(d)))  # type: ignore[misc]
        made, _ = check(patched(lambda case, f=factor: scale(case, f)), original, kind="cuda", problem=judged)  # type: ignore[misc]
        assert made.status == status and made.sizes["small"].bitwise is None, factor


def test_races_of_the_changed_kernel_fail_though_the_numbers_agree() -> None:
    race = finding("write-read race", 7, 9)
    correctness, races = check(FakeKernel(double, (race, race)))
    assert correctness.status == "passed"
    assert races.status == "failed" and races.findings == (race,) and races.method == "emulator"
    late = check(FakeKernel(double, (), (finding("pending at exit"),)))[1]
    assert late.status == "failed"


def test_a_racy_original_leaves_nothing_to_preserve() -> None:
    race = finding("write-read race", 7, 9)
    original = FakeKernel(double, (race,))
    correctness, races = check(FakeKernel(double, (race,)), original)
    assert correctness.status == "passed" and races.status == "unknown" and races.original_findings == (race,)
    clean = check(double, FakeKernel(double, (race,)))[1]
    assert clean.status == "passed" and clean.original_findings == (race,)
    # only the reference can tell which of two different results is right
    wrong = FakeKernel(patched(last_bit), (race,))
    judged, _ = check(double, wrong)
    assert judged.status == "passed" and judged.sizes["small"].bitwise is False
    # without one nothing is known to be right, be the two equal or not
    alone = replace(PROBLEM, reference=None)
    for candidate in (double, FakeKernel(patched(last_bit), (race,))):
        failed, _ = check(candidate, wrong, problem=alone)
        assert failed.status == "failed" and "races" in failed.reason and failed.original_fault
    assert check(double, double, problem=alone)[0].status == "passed"
    large = replace(PROBLEM, sizes={"small": {"N": 6}, "target": {"N": 1000}}, flops="1000*N")
    assert check(double, original, problem=large, budget_flops=10_000)[0].status == "passed"
    new = check(FakeKernel(double, (finding("out of bounds"),)), FakeKernel(double, (race,)))[1]
    assert new.status == "failed"


def test_the_reference_judges_both() -> None:
    off = replace(PROBLEM, reference="x * 2 + 0.5", atol=0.1)
    correctness, _ = check(double, problem=off)
    assert correctness.status == "failed" and "the original itself" in correctness.reason
    small = correctness.sizes["small"]
    assert small.bitwise is True and small.max_abs_error == small.original_abs_error == pytest.approx(0.5)


def test_a_failing_reference_is_the_problems_fault() -> None:
    subject = Subject(
        FakeDevice(), FakeKernel(double), FakeKernel(double), replace(PROBLEM, reference="x @ x"), PARAMETERS
    )
    answer = check_correctness(subject, PROBLEM.sizes)
    assert isinstance(answer, Refusal) and answer.diagnostics[0].code == "TP118"
    answer = check_correctness(replace(subject, parameters=PARAMETERS[:1]), PROBLEM.sizes)
    assert isinstance(answer, Refusal) and answer.diagnostics[0].code == "TP114"


def test_large_grids_are_sampled_and_compared_where_written() -> None:
    big = replace(PROBLEM, sizes={"target": {"N": 1000}}, flops="1000*N", reference="1 // 0")
    changed = FakeKernel(double)
    correctness, races = check(changed, problem=big, budget_flops=10_000)
    target = correctness.sizes["target"]
    assert correctness.status == "passed" and target.sampled == (20, 2000) and target.bitwise is True
    blocks = changed.runs[0][1].blocks
    assert blocks is not None and {0, 999, 1000, 1999} <= set(blocks) and len(set(blocks)) == 20
    assert races.status == "passed" and len(changed.runs) == 1
    row = blocks[7] % 1000
    wrong = patched(lambda case: case.arrays[1].data.__setitem__((row, 1), 9))
    differs = check(wrong, problem=big, budget_flops=10_000)[0]
    assert differs.status == "failed"
    assert differs.sizes["target"].max_abs_error is None and differs.sizes["target"].max_difference > 0
    regridded = LaunchChange(problem=replace(big, grid=("2", "N")))
    assert check(double, problem=big, change=regridded, budget_flops=10_000)[0].status == "unknown"

    def whole(case: Case, options: LaunchOptions) -> None:
        np.multiply(case.arrays[0].data, np.float32(2), out=case.arrays[1].data)

    small = LaunchChange(problem=replace(PROBLEM, grid=("1",)))
    assert check(whole, change=small)[0].status == "passed"


@pytest.mark.parametrize(("code", "status"), [("TP353", "failed"), ("TP352", "failed"), ("TP301", "unknown")])
def test_a_changed_kernel_that_does_not_run(code: str, status: str) -> None:
    changed = FakeKernel(double, refuse=code)
    correctness, races = check(changed)
    assert correctness.status == status and code in correctness.reason
    assert races.status == "unknown" and len(changed.runs) == 1  # not tried again at the next size


def test_races_are_unknown_where_one_size_did_not_run() -> None:
    class Late(FakeKernel):
        def run(self, case: Case, options: LaunchOptions) -> RunResult | Refusal:
            self.refuse = "TP353" if case.size == "ragged" else None
            return super().run(case, options)

    correctness, races = check(Late(double))
    assert (correctness.status, races.status) == ("failed", "unknown")
    assert correctness.sizes["small"].bitwise and "every size" in races.reason


def test_an_original_that_faults_is_at_fault_itself() -> None:
    correctness, races = check(double, FakeKernel(double, refuse="TP353"))
    assert (correctness.status, races.status) == ("failed", "unknown")
    assert "at size small: it does not run: TP353" in correctness.original_fault


def test_an_original_that_the_device_cannot_run_is_unknown() -> None:
    correctness, races = check(double, FakeKernel(double, refuse="TP300"))
    assert (correctness.status, races.status, correctness.original_fault) == ("unknown", "unknown", "")
    assert "original" in correctness.reason


def test_an_original_that_misses_the_reference_is_at_fault_itself() -> None:
    half = patched(lambda case: np.divide(case.arrays[1].data, 2, out=case.arrays[1].data))
    correctness, _ = check(half, half)
    assert correctness.status == "failed"
    assert "misses the reference" in correctness.original_fault
    assert not check(half, double)[0].original_fault
    mended, _ = check(double, half)
    assert mended.status == "failed" and "differs" in mended.reason and not mended.original_fault


def test_sizes_that_nobody_declared_count_only_where_the_original_takes_them() -> None:
    def fussy(case: Case, options: LaunchOptions) -> None:
        double(case, options)
        if case.size == "tiles0":
            case.arrays[1].data.fill(0)

    sizes = {"small": {"N": 6}, "tiles0": {"N": 3}, "tiles1": {"N": 4}}
    subject = Subject(FakeDevice(), FakeKernel(fussy), FakeKernel(fussy), PROBLEM, PARAMETERS)
    found = check_correctness(subject, sizes, optional=["tiles0", "tiles1"])
    assert not isinstance(found, Refusal)
    assert (found[0].status, list(found[0].sizes)) == ("passed", ["small", "tiles1"])
    declared = check_correctness(subject, sizes)
    assert not isinstance(declared, Refusal)
    assert declared[0].status == "failed" and "at size tiles0" in declared[0].original_fault
    racy = replace(subject, original=FakeKernel(double, (finding("race", 7),)))
    sound = check_correctness(racy, {"small": {"N": 6}, "none": {}}, optional=["small", "none"])
    assert not isinstance(sound, Refusal) and sound[0].reason == "no size was run"
    wrong = replace(subject, changed=FakeKernel(patched(lambda case: case.arrays[1].data.fill(3))))
    failed = check_correctness(wrong, {"tiles1": {"N": 4}}, optional=["tiles1"])
    assert not isinstance(failed, Refusal) and failed[0].status == "failed"


@pytest.mark.parametrize(("promised", "kept"), [("tp_aligned(x, 4)", True), ("tp_aligned(x, 16)", False)])
def test_a_launch_that_breaks_a_promise_is_not_run(promised: str, kept: bool) -> None:
    """`x` begins 4 bytes into its allocation."""
    changed, change = FakeKernel(double), LaunchChange(promised=(promised,))
    correctness, _ = check(changed, change=change)
    assert (correctness.status == "passed", bool(changed.runs)) == (kept, kept)
    assert kept or f"promises: {promised}" in correctness.reason
    assert not correctness.original_fault
    alone, _ = check(double, change=change, optional=["small", "ragged"])
    assert alone.status == ("passed" if kept else "unknown")


def test_findings_of_the_original_are_named_with_their_lines() -> None:
    racy = FakeKernel(double, (Finding("write-read race", "a race on `As`", (7, 9)),))
    correctness, _ = check(double, racy)
    assert correctness.status == "passed"
    assert "a race on `As` (lines 7, 9)" in correctness.original_fault


def test_an_input_that_the_original_writes_to_is_named() -> None:
    scribble = patched(lambda case: case.arrays[0].data.fill(1))
    assert check(scribble, scribble)[0].changed_inputs == ("x",)
    assert check(double)[0].changed_inputs == ()


def test_kernels_that_write_nothing_prove_nothing() -> None:
    correctness, _ = check(lambda *_: None, lambda *_: None, problem=replace(PROBLEM, reference=None))
    assert correctness.status == "unknown" and "no output" in correctness.reason


def test_empty_outputs_are_equal() -> None:
    empty = replace(PROBLEM, grid=("1",), sizes={"short0": {"N": 0}})
    assert check(lambda *_: None, lambda *_: None, problem=empty)[0].status == "passed"


def test_no_sizes() -> None:
    correctness, races = check(double, sizes={})
    assert correctness.status == "unknown" and races.status == "unknown"
