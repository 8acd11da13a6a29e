"""The result as JSON values, as `docs/result.schema.json` describes them.

A part that is None or empty is absent. Names that are published stay; fields may be added.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tilepipe.diagnostics import Diagnostic
from tilepipe.evidence.types import (
    Banks,
    Benchmark,
    Correctness,
    Limit,
    Races,
    Sass,
    SizeResult,
    Timing,
    Trial,
)
from tilepipe.launch.types import Finding
from tilepipe.plan.types import BudgetRow, Ratio
from tilepipe.report.result import (
    CandidateReport,
    CheckItem,
    Evidence,
    KernelInfo,
    LaunchInfo,
    LoopInfo,
    RunReport,
)

SCHEMA_VERSION = 1


def to_json(report: RunReport) -> dict[str, Any]:
    """`report` as plain JSON values. Numbers that JSON lacks (NaN, infinity) become null."""
    out: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "tool": {
            "name": "tilepipe",
            "version": report.tool.version,
            "toolchain": report.tool.toolchain,
            "device": report.tool.device,
        },
        "diagnostics": [_diagnostic(d) for d in report.diagnostics],
    }
    parts: dict[str, Any] = {
        "kernel": _kernel(report.kernel) if report.kernel else None,
        "arch": report.arch or None,
        "outcome": report.outcome,
        "loop": _loop(report.loop) if report.loop else None,
        "budget": [_budget_row(row) for row in report.budget] or None,
        "ratio": _ratio(report.ratio) if report.ratio else None,
        "candidates": [_candidate(c) for c in report.candidates] or None,
        "chosen": report.chosen,
        "launch": _launch(report.launch) if report.launch else None,
        "evidence": _evidence(report.evidence) or None,
        "checklist": [_check_item(c) for c in report.checklist] or None,
    }
    out |= {key: value for key, value in parts.items() if value is not None}
    if report.source is not None:
        out["output"] = report.output
        if report.output is None:
            out["source"] = report.source
    return out


def _finite(value: float | None) -> float | None:
    return value if value is None or math.isfinite(value) else None


def _known(pairs: Mapping[str, Any]) -> dict[str, Any]:
    """`pairs` without those that say nothing."""
    return {key: value for key, value in pairs.items() if value not in (None, "", (), [])}


def _diagnostic(d: Diagnostic) -> dict[str, Any]:
    place = {"file": d.place.file, "line": d.place.line, "column": d.place.column} if d.place else {}
    return {
        "code": d.code,
        "severity": d.severity,
        **place,
        "message": d.message,
        **_known({"label": d.label, "help": d.help}),
    }


def _kernel(kernel: KernelInfo) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "file": kernel.file,
        "line": kernel.line,
        "instantiation": kernel.instantiation,
    }


def _loop(loop: LoopInfo) -> dict[str, Any]:
    return {
        "line": loop.line,
        "phases": loop.phases,
        "staged": list(loop.staged),
        "invariant": list(loop.invariant),
        "scratch": list(loop.scratch),
        **({"layout": dict(loop.layout)} if loop.layout else {}),
    }


def _budget_row(row: BudgetRow) -> dict[str, Any]:
    return {
        "stages": row.stages,
        "shared_bytes": row.shared_bytes,
        "blocks_per_sm": row.blocks_per_sm,
        "warps_per_sm": row.warps_per_sm,
        "limit": row.limit,
    }


def _ratio(ratio: Ratio) -> dict[str, Any]:
    return {
        "flops_per_byte": ratio.flops_per_byte,
        "class": ratio.cls,
        "load_cycles": ratio.load_cycles,
        "compute_cycles": ratio.compute_cycles,
        **({"reasons": list(ratio.reasons)} if ratio.reasons else {}),
    }


def _candidate(c: CandidateReport) -> dict[str, Any]:
    plan = c.candidate
    return {
        "id": plan.id,
        "variant": plan.variant,
        "stages": plan.stages,
        "form": plan.form,
        "fragments": plan.fragments,
        "spread": plan.spread,
        "api": plan.api,
        "copy_bytes": dict(c.copy_bytes),
        "status": plan.status,
        "reason": plan.reason,
        "predicted_speedup": plan.predicted_speedup,
        "registers": c.registers,
        "shared_bytes": plan.shared_bytes,
        "spills": c.spills,
        **_known({"remedies": [_trial(t) for t in c.tried]}),
        **({"row_padding_bytes": plan.padding} if plan.padding else {}),
    }


def _trial(t: Trial) -> dict[str, Any]:
    return {"candidate": t.candidate, "status": t.status, "codes": list(t.codes)}


def _launch(launch: LaunchInfo) -> dict[str, Any]:
    return {
        "dynamic_shared_bytes": dict(launch.dynamic_shared_bytes),
        "needs_opt_in": launch.needs_opt_in,
        "edited_launches": list(launch.edited_launches),
    }


def _evidence(evidence: Evidence) -> dict[str, Any]:
    return {
        key: value
        for key, value in {
            "correctness": _correctness(evidence.correctness) if evidence.correctness else None,
            "races": _races(evidence.races) if evidence.races else None,
            "sass": _sass(evidence.sass) if evidence.sass else None,
            "benchmark": _benchmark(evidence.benchmark) if evidence.benchmark else None,
            "limit": _limit(evidence.limit) if evidence.limit else None,
            "bank_conflicts": _banks(evidence.banks) if evidence.banks else None,
        }.items()
        if value is not None
    }


def _correctness(c: Correctness) -> dict[str, Any]:
    return {
        "status": c.status,
        "sizes": {name: _size(result) for name, result in c.sizes.items()},
        **_known({"device": c.device, "reason": c.reason}),
    }


def _size(result: SizeResult) -> dict[str, Any]:
    return {
        "bitwise": result.bitwise,
        **_known(
            {
                "max_abs_error": _finite(result.max_abs_error),
                "original_abs_error": _finite(result.original_abs_error),
                "within_tolerance": result.within_tolerance,
                "max_difference": _finite(result.max_difference),
                "sampled": list(result.sampled) if result.sampled else None,
                "note": result.note,
            }
        ),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "message": finding.message,
        "lines": list(finding.lines),
        **({"calls": list(finding.calls)} if any(finding.calls) else {}),
        "where": finding.where,
        "threads": list(finding.threads),
        "interval": finding.interval,
        "block": list(finding.block),
    }


def _races(races: Races) -> dict[str, Any]:
    return {
        "status": races.status,
        "method": races.method,
        "findings": [_finding(f) for f in races.findings],
        **(
            {"original_findings": [_finding(f) for f in races.original_findings]}
            if races.original_findings
            else {}
        ),
        **_known({"reason": races.reason}),
    }


def _sass(sass: Sass) -> dict[str, Any]:
    return {
        "status": sass.status,
        "arch": sass.arch,
        "math_per_tile": sass.math_per_tile,
        "math_per_tile_original": sass.math_per_tile_original,
        "loads": sass.loads,
        "copy_bytes": list(sass.copy_bytes),
        "window": sass.window,
        "window_original": sass.window_original,
        "window_cycles": sass.window_cycles,
        "barriers_between": sass.barriers_between,
        "spills": sass.spills,
        "spills_original": sass.spills_original,
        "stalls": {opcode: list(cycles) for opcode, cycles in sass.stalls.items()},
        "wait_depths": list(sass.wait_depths),
        "registers": sass.registers,
        "registers_original": sass.registers_original,
        "reasons": list(sass.reasons),
        "excerpt": list(sass.excerpt),
    }


def _benchmark(benchmark: Benchmark) -> dict[str, Any]:
    return {
        "status": benchmark.status,
        "size": benchmark.size,
        "unit": benchmark.unit,
        "original": _timing(benchmark.original) if benchmark.original else None,
        "candidates": {name: _timing(timing) for name, timing in benchmark.candidates.items()},
        **(
            {"controls": {n: _timing(t) for n, t in benchmark.controls.items()}} if benchmark.controls else {}
        ),
        **_known({"device": benchmark.device, "reason": benchmark.reason}),
    }


def _limit(limit: Limit) -> dict[str, Any]:
    numbers = {
        "original_ms": limit.original_ms,
        "candidate_ms": limit.candidate_ms,
        "control_ms": limit.control_ms,
        "loads_ms": limit.loads_ms,
        "compute_ms": limit.compute_ms,
        "limit_ms": limit.limit_ms,
        "efficiency": limit.efficiency,
        "copies_speedup": limit.copies_speedup,
        "overlap_speedup": limit.overlap_speedup,
    }
    return _known({"candidate": limit.candidate, **numbers, "reason": limit.reason})


def _banks(banks: Banks) -> dict[str, Any]:
    uses = [
        {
            "array": u.array,
            "access": u.access,
            "lines": list(u.lines),
            "original": u.original,
            "candidate": u.candidate,
        }
        for u in banks.uses
    ]
    return {"size": banks.size, "uses": uses}


def _timing(timing: Timing) -> dict[str, Any]:
    return {
        "median_ms": timing.median_ms,
        "spread": timing.spread,
        **_known({"speedup": timing.speedup, "rate": timing.rate}),
        **({"samples_ms": list(timing.samples_ms)} if timing.samples_ms else {}),
    }


def _check_item(item: CheckItem) -> dict[str, Any]:
    return {"item": item.item, "status": item.status, **_known({"detail": item.detail})}
