"""The exit code that a result earns."""

from __future__ import annotations

from collections.abc import Iterable

from tilepipe.report.result import RunReport

PASSED = 0
KEPT = 1  # refused, or nothing gained and the original kept
ERROR = 2  # usage, compile or internal error
FAILED = 3  # verification or races failed, or a required audit
UNAVAILABLE = 4  # evidence that was asked for could not be had

EVIDENCE = ("correctness", "races", "sass", "benchmark")


def exit_code(report: RunReport, required: Iterable[str] = ()) -> int:
    """0 when nothing speaks against `report` and all `required` evidence (names of EVIDENCE) passed.

    Wrong results and races count always; a failed audit or benchmark only where it is required, since an
    exact and faster kernel is one all the same. Unknown evidence counts only where it is required.
    """
    status = {
        name: part.status if (part := getattr(report.evidence, name)) else "unknown" for name in EVIDENCE
    }
    if any(d.severity == "error" for d in report.diagnostics):
        return ERROR
    if "failed" in (status["correctness"], status["races"]) or report.outcome == "failed":
        return FAILED
    if report.outcome in ("refused", "original_kept"):
        return KEPT
    needed = [status[name] for name in required]
    if "failed" in needed:
        return FAILED
    return UNAVAILABLE if "unknown" in needed else PASSED


def worst(codes: Iterable[int]) -> int:
    """The code for several kernels: an error before a failure, before missing evidence, before a refusal."""
    return max(codes, key=(PASSED, KEPT, UNAVAILABLE, FAILED, ERROR).index, default=PASSED)
