"""Results as the steps would return them, shared by the tests of report/ and cli/."""

from dataclasses import replace

from tilepipe.diagnostics import Diagnostic, Place
from tilepipe.evidence.types import (
    Banks,
    BankUse,
    Benchmark,
    Correctness,
    Limit,
    Races,
    Sass,
    SizeResult,
    Timeline,
    TimelineEvent,
    Timing,
)
from tilepipe.launch.types import Finding
from tilepipe.plan.types import BudgetRow, Candidate, Ratio
from tilepipe.report import CandidateReport, Evidence, KernelInfo, LaunchInfo, LoopInfo, RunReport, ToolInfo

RING = "cp_async-3-ring"

EXCERPT = (
    "0100  B------ R- W- Y S04  DEPBAR.LE SB0, 0x1                    waits for 1",
    "0110  B------ R- W- Y S06  BAR.SYNC.DEFER_BLOCKING 0x0           block barrier",
    "0120  B------ R- W- - S01  LDGSTS.E.128 [R3], [R4.64]            copy 1",
    "0130  B------ R- W- - S02  IMMA.16816.S8.S8 R4, R8, R12, R4      first math",
    "    …",
    "01a0  B------ R- W- - S02  IMMA.16816.S8.S8 R4, R8, R12, R4      math, 8 since the first",
)
EVENTS = (
    TimelineEvent("load", -380, 390, "1 × LDGSTS.128"),
    TimelineEvent("load", -180, 390, "1 × LDGSTS.128"),
    TimelineEvent("wait", 6, 4, "DEPBAR.LE SB0, 0x1"),
    TimelineEvent("barrier", 12, 6, "BAR.SYNC.DEFER_BLOCKING 0x0"),
    TimelineEvent("load", 20, 390, "1 × LDGSTS.128"),
    TimelineEvent("math", 40, 150, "8 × IMMA"),
    TimelineEvent("wait", 206, 4, "DEPBAR.LE SB0, 0x1"),
    TimelineEvent("barrier", 212, 6, "BAR.SYNC.DEFER_BLOCKING 0x0"),
    TimelineEvent("load", 220, 390, "1 × LDGSTS.128"),
    TimelineEvent("math", 240, 150, "8 × IMMA"),
)
EVENTS_ORIGINAL = (
    TimelineEvent("load", 0, 20, "1 × LDG.128"),
    TimelineEvent("store", 20, 8, "2 × STS"),
    TimelineEvent("barrier", 30, 6, "BAR.SYNC.DEFER_BLOCKING 0x0"),
    TimelineEvent("math", 60, 150, "8 × IMMA"),
)

PIPELINED = RunReport(
    tool=ToolInfo("nvrtc 13.5", "NVIDIA H200, driver 580.159"),
    kernel=KernelInfo("igemm", "igemm.cu", 17),
    arch="sm_90",
    outcome="pipelined",
    diagnostics=(
        Diagnostic(
            "TP140", "warning", "slow", Place("igemm.cu", 3, 5, 2, "    As[0] = 1;"), "here", "be quick"
        ),
    ),
    loop=LoopInfo(33, 2, ("smem_a", "smem_b"), ("bias",), ("scores",)),
    budget=(
        BudgetRow(1, 8192, 9, 36, "registers"),
        BudgetRow(2, 12288, 9, 36, "registers"),
        BudgetRow(3, 16384, 8, 32, "shared"),
        BudgetRow(64, 266240, 0, 0, "shared"),
    ),
    ratio=Ratio(64.0, "high", 310.4, 120.0),
    candidates=(
        CandidateReport(
            Candidate(RING, "cp_async", 3, "ring", "ok", None, 1.7, 16384),
            {"smem_a": 16, "smem_b": 16},
            67,
            0,
        ),
        CandidateReport(Candidate("ldg-2-ring", "ldg", 2, "ring", "ok", None, 1.1, 12288), {}, 80, 0),
        CandidateReport(Candidate("cp_async-2-textbook", "cp_async", 2, "textbook", "rejected", "dominated")),
        CandidateReport(Candidate("cp_async-4-textbook", "cp_async", 4, "textbook", "rejected", "dominated")),
    ),
    chosen=RING,
    launch=LaunchInfo({"small": 0, "target": 0}),
    evidence=Evidence(
        Correctness(
            "passed",
            {
                "small": SizeResult(True, 0.0, 0.0, True),
                "short1": SizeResult(True),
                "short2": SizeResult(True),
                "target": SizeResult(True, 0.25, 0.25, True, sampled=(16, 4096)),
            },
            "cpu",
        ),
        Races("passed"),
        Sass(
            "passed",
            "sm_90",
            math_per_tile=8.0,
            math_per_tile_original=8.0,
            loads=4,
            copy_bytes=(16,),
            window=16,
            window_cycles=412,
            window_original=0,
            excerpt=EXCERPT,
            timeline=Timeline(400, 2, EVENTS),
            timeline_original=Timeline(440, 2, EVENTS_ORIGINAL),
        ),
        Benchmark(
            "passed",
            "target",
            "GFLOP/s",
            Timing(2.5, 0.01, None, 54976.0, (2.5, 2.51)),
            {RING: Timing(1.45, 0.012, 1.72, 94786.0), "ldg-2-ring": Timing(2.2, 0.02, 1.14, 62472.0)},
            "NVIDIA H200",
        ),
        Limit(RING, 2.5, 1.45, 1.69, 1.1, 1.35),
        Banks(
            "small", (BankUse("smem_a", "read", (52,), 1.0, 1.0), BankUse("edge", "write", (9,), 1.0, None))
        ),
    ),
    source="__global__ void igemm() {}\n",
)

RACY = replace(
    PIPELINED,
    outcome="failed",
    evidence=Evidence(
        Correctness("passed", {"small": SizeResult(True)}),
        Races("failed", findings=(Finding("write-read race", "no barrier", (40, 44), "As[1][37]", (3, 64)),)),
    ),
    source=None,
)
