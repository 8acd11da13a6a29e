"""Correctness and races of a changed kernel: bitwise against the original, then against the reference.

Pipelining reorders loads, never arithmetic, so both kernels must leave the same bytes everywhere: NaN
payloads, memory that nobody wrote, and inputs included. Numbers alone do not prove a pipeline right (four
of five planted bugs give right numbers at some size), so on the CPU both kernels run under the emulator's
memory model, the changed one with asynchronous copies landing as late and as early as the model allows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tilepipe.diagnostics import Refusal
from tilepipe.evidence.compare import (
    changed_inputs,
    close_to,
    errors_against,
    first_difference,
    max_difference,
    wrote_something,
)
from tilepipe.evidence.promises import broken_promise
from tilepipe.evidence.sampling import FULL_RUN_FLOPS, sample_blocks, with_measured_work
from tilepipe.evidence.types import Correctness, Races, SizeResult
from tilepipe.launch.types import Device, Finding, LaunchOptions, Loaded, RunResult
from tilepipe.problem import Case, KernelProblem, Parameter, Sizes, evaluate_reference, fresh_copy, make_case

# Refusals that are the kernel's own doing: rejected launch, too much shared memory, fault, no end.
_KERNEL_FAULTS = {"TP302", "TP351", "TP352", "TP353", "TP356"}
_MAX_FINDINGS = 2  # of the original's, in a message
_UNDEFINED = "the original has races or faults of its own: there is no defined result to preserve"


@dataclass(frozen=True)
class LaunchChange:
    """How a launch of the changed kernel differs: dynamic shared bytes times `stages_factor` plus
    `extra_dynamic_shared`, or another `problem` altogether (other tile sizes, say) on the same data. `promised` are
    conditions that each of its launches meets."""

    stages_factor: int = 1
    extra_dynamic_shared: int = 0
    problem: KernelProblem | None = None
    promised: tuple[str, ...] = ()


def changed_launch(
    change: LaunchChange, case: Case, parameters: Sequence[Parameter], seed: int
) -> Case | Refusal:
    """The launch of the changed kernel on the very arrays of `case`, which was made with `parameters` and
    `seed`."""
    other = case
    if change.problem is not None:
        made = make_case(change.problem, case.sizes, parameters, seed)
        if isinstance(made, Refusal):
            return made
        other = replace(made, size=case.size, args=case.args)
    # Stages of dynamic shared memory are 16-byte aligned, as the emitted launches make them.
    stage = other.shared if change.stages_factor == 1 else -(-other.shared // 16) * 16
    return replace(other, shared=stage * change.stages_factor + change.extra_dynamic_shared)


@dataclass(frozen=True)
class Subject:
    """A kernel and its changed form, loaded on one device, with the problem that both must solve. `path` is
    the problem file, which anchors references."""

    device: Device
    original: Loaded
    changed: Loaded
    problem: KernelProblem
    parameters: tuple[Parameter, ...]
    path: str = ""
    change: LaunchChange = LaunchChange()


@dataclass(frozen=True)
class _Ran:
    """A launch that came to its end: the arrays as it left them."""

    case: Case
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class _Stopped:
    """A launch that was refused; `kernels_fault` where the kernel and not the device is to blame."""

    reason: str
    kernels_fault: bool


@dataclass(frozen=True)
class _Trial:
    """All runs at one size, before judgement. `changed` is the first run of the changed kernel that differs from the
    original, or the last one; `unsteady` says that the original differs from itself."""

    case: Case  # as before every launch
    original: Case
    changed: Case | _Stopped
    difference: str | None = None
    unsteady: bool = False
    sampled: tuple[int, int] | None = None
    findings: tuple[Finding, ...] = ()
    original_findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class _Outcome:
    """One size: the comparison, whether it passed (None: undecided) and why not, and what the emulator
    found."""

    result: SizeResult
    passed: bool | None
    reason: str = ""
    findings: tuple[Finding, ...] = ()
    original_findings: tuple[Finding, ...] = ()
    changed_ran: bool = True
    original_fault: str = ""  # what the original does wrong, as far as its findings do not say it
    changed_inputs: tuple[str, ...] = ()
    breaks_promise: bool = False

    @property
    def is_originals_fault(self) -> bool:
        return bool(self.original_fault or self.original_findings)

    @property
    def does_not_count(self) -> bool:
        """Whether a size that nobody asked for says nothing of the changed kernel."""
        return self.is_originals_fault or self.breaks_promise


def check_correctness(
    subject: Subject,
    sizes: Mapping[str, Sizes],
    seed: int = 0,
    budget_flops: int = FULL_RUN_FLOPS,
    optional: Collection[str] = (),
) -> tuple[Correctness, Races] | Refusal:
    """Run original and changed kernel on identical data at every size set and compare.

    On a GPU the original runs twice, to learn whether it agrees with itself; on the CPU grids with more
    work than `budget_flops` are sampled by blocks. A size in `optional` counts only where the original and its
    reference take it: nobody said that they do. A `Refusal` means that the problem file is at fault (no case,
    no reference value); kernels that fail to run are evidence.
    """
    outcomes: dict[str, _Outcome] = {}
    for name, values in sizes.items():
        outcome = _check_size(subject, name, values, seed, budget_flops)
        if name in optional and (isinstance(outcome, Refusal) or outcome.does_not_count):
            continue
        if isinstance(outcome, Refusal):
            return outcome
        outcomes[name] = outcome
        if not outcome.changed_ran:
            break  # what does not run here (a lost GPU, an unknown instruction) does not run at other sizes
    return _correctness(subject.device, outcomes), _races(subject.device, outcomes)


def _check_size(subject: Subject, name: str, values: Sizes, seed: int, budget: int) -> _Outcome | Refusal:
    case = make_case(subject.problem, values, subject.parameters, seed)
    if isinstance(case, Refusal):
        return case
    case = replace(case, size=name)
    changed_case = changed_launch(subject.change, case, subject.parameters, seed)
    if isinstance(changed_case, Refusal):
        return changed_case
    broken = broken_promise(subject.change.promised, changed_case, subject.parameters)
    if broken is not None:
        note = f"the launch breaks what --assume align=16 promises: {broken}"
        return _Outcome(SizeResult(None, note=note), False, note, breaks_promise=True)
    on_cpu = subject.device.kind == "cpu"
    blocks = sample_blocks(with_measured_work(case, subject.original), seed, budget) if on_cpu else None
    if blocks is not None and changed_case.grid != case.grid:
        note = "too large to emulate in full, and another grid than the original's"
        return _Outcome(SizeResult(None, note=note), None, note)
    trial = _try(subject, case, changed_case, blocks)
    if isinstance(trial, _Stopped):
        note = f"the original does not run: {trial.reason}"
        passed, fault = (False, f"it does not run: {trial.reason}") if trial.kernels_fault else (None, "")
        return _Outcome(SizeResult(None, note=note), passed, note, changed_ran=False, original_fault=fault)
    outcome = _judge(subject, trial)
    if isinstance(outcome, Refusal):
        return outcome
    return replace(
        outcome,
        findings=trial.findings,
        original_findings=trial.original_findings,
        changed_inputs=changed_inputs(case, trial.original),
    )


def _run(kernel: Loaded, case: Case, options: LaunchOptions) -> _Ran | _Stopped:
    """Launch on a copy of the data of `case`, which stays as it is."""
    copy = fresh_copy(case)
    answer: RunResult | Refusal = kernel.run(copy, options)
    if isinstance(answer, Refusal):
        first = answer.diagnostics[0]
        return _Stopped(f"{first.code} {first.message}", first.code in _KERNEL_FAULTS)
    return _Ran(copy, answer.findings)


def _try(
    subject: Subject, case: Case, changed_case: Case, blocks: tuple[int, ...] | None
) -> _Trial | _Stopped:
    """Run the original (on a GPU twice), then the changed kernel (on the CPU with copies landing late and,
    where the whole grid runs, early) and compare every result with the original's. `_Stopped`: the
    original's."""
    on_gpu = subject.device.kind == "cuda"
    first = _run(subject.original, case, LaunchOptions(blocks=blocks))
    if isinstance(first, _Stopped):
        return first
    trial = _Trial(
        case,
        first.case,
        first.case,
        sampled=None if blocks is None else (len(blocks), case.grid[0] * case.grid[1] * case.grid[2]),
        original_findings=first.findings,
    )
    if on_gpu:
        again = _run(subject.original, case, LaunchOptions())
        if isinstance(again, _Stopped):
            return again
        trial = replace(trial, unsteady=first_difference(first.case, again.case) is not None)
    modes: tuple[Literal["late", "early"], ...] = (
        ("late",) if on_gpu or blocks is not None else ("late", "early")
    )
    for mode in modes:
        ran = _run(subject.changed, changed_case, LaunchOptions(blocks=blocks, copies=mode))
        if isinstance(ran, _Stopped):
            return replace(trial, changed=ran)
        trial = replace(
            trial,
            changed=trial.changed if trial.difference else ran.case,
            difference=trial.difference or first_difference(first.case, ran.case),
            findings=trial.findings + ran.findings,
        )
    return trial


def _judge(subject: Subject, trial: _Trial) -> _Outcome | Refusal:
    """The outcome of one size by the rules of this module's heading."""
    if isinstance(trial.changed, _Stopped):
        note = f"the changed kernel does not run: {trial.changed.reason}"
        passed = False if trial.changed.kernels_fault else None
        return _Outcome(SizeResult(None, sampled=trial.sampled, note=note), passed, note, changed_ran=False)
    result = SizeResult(
        bitwise=None if trial.unsteady else trial.difference is None,
        sampled=trial.sampled,
        note=trial.difference or "",
        max_difference=max_difference(trial.changed, trial.original) if trial.difference else None,
    )
    judged = _against_reference(subject, trial, trial.changed, result)
    if isinstance(judged, Refusal):
        return judged
    result, original_misses = judged
    misses = result.within_tolerance is False
    if misses and original_misses:
        error = result.original_abs_error or 0.0
        reason = f"the original itself misses the reference (largest error {error:.3g})"
        fault = f"it misses the reference (largest error {error:.3g})"
        reason = _UNDEFINED if trial.original_findings else reason
        return _Outcome(result, False, reason, original_fault=fault)
    if trial.unsteady:
        note = "the original differs from itself between two runs: compared within tolerance"
        close = close_to(trial.changed, trial.original, subject.problem.rtol, subject.problem.atol)
        reason = "" if close and not misses else "outside the tolerance"
        return _Outcome(replace(result, note=note), close and not misses, reason)
    if trial.difference is not None and trial.original_findings:
        # Only a reference can still tell right from wrong.
        return _Outcome(result, result.within_tolerance, "" if result.within_tolerance else _UNDEFINED)
    if trial.difference is not None:
        return _Outcome(result, False, trial.difference)
    if result.within_tolerance is None and not wrote_something(trial.case, trial.original):
        return _Outcome(replace(result, note="no output was written"), None, "no output was written")
    return _Outcome(result, True)


def _against_reference(
    subject: Subject, trial: _Trial, changed: Case, result: SizeResult
) -> tuple[SizeResult, bool] | Refusal:
    """`result` with the errors against the reference, and whether the original is outside the tolerance.

    A reference computes the whole grid; where a sample stands for the grid, the original stands for it.
    """
    problem = subject.problem
    expected = None if trial.sampled else evaluate_reference(problem, subject.path, trial.case)
    if expected is None:
        return result, False
    if isinstance(expected, Refusal):
        return expected
    ours = errors_against(changed, expected, problem.rtol, problem.atol)
    theirs = errors_against(trial.original, expected, problem.rtol, problem.atol)
    result = replace(
        result, max_abs_error=ours.max_abs, original_abs_error=theirs.max_abs, within_tolerance=ours.within
    )
    return result, not theirs.within


def _distinct(findings: list[Finding]) -> tuple[Finding, ...]:
    """One finding for each kind and pair of source lines: a race in a loop shows thousands of times."""
    return tuple({(f.kind, f.lines): f for f in reversed(findings)}.values())[::-1]


def _correctness(device: Device, outcomes: Mapping[str, _Outcome]) -> Correctness:
    results = {name: outcome.result for name, outcome in outcomes.items()}
    inputs = tuple(dict.fromkeys(name for o in outcomes.values() for name in o.changed_inputs))
    judged = Correctness("passed", results, device.name, "", _original_fault(outcomes), inputs)
    reasons: dict[bool | None, str] = {}  # of the first size with each verdict
    for name, outcome in outcomes.items():
        reasons.setdefault(outcome.passed, f"size {name}: {outcome.reason}")
    if False in reasons:
        return replace(judged, status="failed", reason=reasons[False])
    unsound = {name: o for name, o in outcomes.items() if o.original_findings}
    # Equal to what has no defined result is not right; that a reference is met is, whatever the original does.
    if unsound and not any(o.result.within_tolerance for o in unsound.values()):
        return replace(judged, status="failed", reason=f"size {next(iter(unsound))}: {_UNDEFINED}")
    if None in reasons:
        return replace(judged, status="unknown", reason=reasons[None])
    return judged if outcomes else replace(judged, status="unknown", reason="no size was run")


def _original_fault(outcomes: Mapping[str, _Outcome]) -> str:
    """What the original does wrong by itself, at the first size where it does; empty where nothing."""
    for name, outcome in outcomes.items():
        shown = _distinct(list(outcome.original_findings))[:_MAX_FINDINGS]
        findings = "; ".join(f"{f.message}{f.in_lines}" for f in shown)
        if fault := findings or outcome.original_fault:
            return f"at size {name}: {fault}"
    return ""


def _races(device: Device, outcomes: Mapping[str, _Outcome]) -> Races:
    """Passed: the changed kernel ran clean everywhere. Unknown: on a GPU, where nothing is checked; where
    it did not run; or where it only shows what the original shows too."""
    if device.kind == "cuda":
        return Races("unknown", reason="a GPU run checks no races; run the emulator")
    findings = _distinct([f for o in outcomes.values() for f in o.findings])
    original = _distinct([f for o in outcomes.values() for f in o.original_findings])
    known = {f.kind for f in original}
    if any(f.kind not in known for f in findings):
        return Races("failed", findings=findings, original_findings=original, reason=findings[0].message)
    if findings:
        reason = "the original shows the same kinds of findings"
        return Races("unknown", findings=findings, original_findings=original, reason=reason)
    if not outcomes or not all(o.changed_ran for o in outcomes.values()):
        return Races(
            "unknown", original_findings=original, reason="the changed kernel did not run at every size"
        )
    return Races("passed", original_findings=original)
