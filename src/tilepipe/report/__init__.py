"""Results for people (terminal) and programs (JSON)."""

from tilepipe.report.as_json import SCHEMA_VERSION, to_json
from tilepipe.report.checklist import checklist, with_checklist
from tilepipe.report.exit_code import EVIDENCE, exit_code, worst
from tilepipe.report.result import (
    CandidateReport,
    CheckItem,
    Evidence,
    KernelInfo,
    LaunchInfo,
    LoopInfo,
    Outcome,
    RunReport,
    ToolInfo,
    refused_report,
    without_plan,
)

__all__ = [
    "EVIDENCE",
    "SCHEMA_VERSION",
    "CandidateReport",
    "CheckItem",
    "Evidence",
    "KernelInfo",
    "LaunchInfo",
    "LoopInfo",
    "Outcome",
    "RunReport",
    "ToolInfo",
    "checklist",
    "exit_code",
    "refused_report",
    "to_json",
    "with_checklist",
    "without_plan",
    "worst",
]
