"""Races on a real GPU, by the vendor's racecheck. A tool that crashed or is absent proves nothing:
unknown."""

from __future__ import annotations

import re
from dataclasses import replace

from tilepipe.evidence.types import Races
from tilepipe.launch.sanitizer import SanitizerRun, find_sanitizer, run_racecheck
from tilepipe.launch.types import Finding
from tilepipe.problem import Case
from tilepipe.toolchain.types import Compiled

_SUMMARY = re.compile(r"RACECHECK SUMMARY:\s*(\d+) hazards? displayed \((\d+) errors?, (\d+) warnings?\)")
_REPORT = re.compile(r"^=+ +(?:Error|Warning|ERROR|WARN(?:ING)?): +(.*)$", re.MULTILINE)
_HAZARD = re.compile(
    r"(write-after-write|write-after-read|read-after-write|(?<=\()(?:WAW|WAR|RAW)(?=\)))", re.IGNORECASE
)


def racecheck(original: Compiled, changed: Compiled, original_case: Case, changed_case: Case) -> Races:
    """Run both cubins once under racecheck on this machine's GPU. The original is run only where the changed
    kernel shows something, to tell inherited hazards from new ones."""
    tool = find_sanitizer()
    if tool is None:
        return Races("unknown", "racecheck", reason="compute-sanitizer is not installed")
    races = interpret(run_racecheck(tool, changed, changed_case))
    if races.status != "failed":
        return races
    before = interpret(run_racecheck(tool, original, original_case))
    if before.status == "passed":
        return races
    reason = "the original shows hazards too" if before.findings else f"of the original: {before.reason}"
    return replace(races, status="unknown", original_findings=before.findings, reason=reason)


def interpret(run: SanitizerRun) -> Races:
    """Passed only if the tool ended normally, the launch came to its end, and the tool's own summary counts
    no hazard; failed if it counts any; unknown for everything else."""
    summary = _SUMMARY.search(run.output)
    if summary is not None and any(int(count) for count in summary.groups()):
        findings = tuple(_finding(text) for text in dict.fromkeys(_REPORT.findall(run.output)))
        words = f"{summary[1]} hazards ({summary[2]} errors, {summary[3]} warnings)"
        return Races("failed", "racecheck", findings or (Finding("hazard", words),), reason=words)
    if run.exit_code is None:
        return Races("unknown", "racecheck", reason="compute-sanitizer did not come to an end")
    if run.exit_code != 0 or not run.launched or summary is None:
        last = (run.output.strip().splitlines() or ["no output"])[-1]
        return Races(
            "unknown", "racecheck", reason=f"compute-sanitizer failed (exit {run.exit_code}): {last}"
        )
    return Races("passed", "racecheck")


def _finding(text: str) -> Finding:
    hazard = _HAZARD.search(text)
    return Finding(hazard[1].lower() if hazard else "hazard", text.strip())
