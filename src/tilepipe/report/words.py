"""What a report says, in sentences that the terminal and the page share."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tilepipe.evidence.types import (
    Benchmark,
    Correctness,
    EventKind,
    Limit,
    Races,
    Sass,
    SizeResult,
    Status,
    Timing,
    Trial,
)
from tilepipe.launch import Finding
from tilepipe.plan.candidates import base_id
from tilepipe.plan.types import Ratio
from tilepipe.report.result import CandidateReport, RunReport

MAX_FINDINGS = 4
MARKS: dict[Status, str] = {"passed": "✓", "failed": "✗", "unknown": "?"}


@dataclass(frozen=True)
class EvidenceLine:
    """One kind of evidence: its name, its status, and what it rests on."""

    name: str
    status: Status
    text: str


def place(report: RunReport) -> str:
    """`igemm.cu:17`, empty where no kernel is known."""
    kernel = report.kernel
    if kernel is None:
        return ""
    return f"{kernel.file}:{kernel.line}" if kernel.line else kernel.file


def kernel_name(report: RunReport) -> str:
    """The kernel, as instantiated."""
    return (report.kernel.instantiation or report.kernel.name) if report.kernel else ""


def verdict(report: RunReport) -> tuple[str, str]:
    """The headline in a word or two, and what qualifies it."""
    match report.outcome:
        case "pipelined":
            return "NOT VERIFIED: pipelined" if is_unverified(
                report
            ) else "pipelined", f"as {report.chosen}: {gain(report)}"
        case "original_kept":
            return "original kept", "no candidate was measured faster"
        case "refused" | "failed" as outcome:
            return outcome, ""
        case None:
            return _what_is_known(report), ""


def is_unverified(report: RunReport) -> bool:
    """Whether a source came out whose results nobody compared with the original's."""
    correctness = report.evidence.correctness
    return report.outcome == "pipelined" and (correctness is None or correctness.status != "passed")


def gain(report: RunReport) -> str:
    """The speed-up of the chosen candidate, and whether it was measured."""
    timing = chosen_timing(report)
    if timing and timing.speedup:
        return f"{timing.speedup:.2f}× the original, measured"
    chosen = report.candidate(report.chosen or "")
    predicted = chosen.candidate.predicted_speedup if chosen else None
    return f"{predicted:.2f}× predicted, not measured" if predicted else "gain not measured"


def _what_is_known(report: RunReport) -> str:
    """The headline of commands that emit nothing: `check`, `verify`, `bench`, `sass`."""
    parts = (report.evidence.correctness, report.evidence.races, report.evidence.sass)
    statuses = [part.status for part in parts if part]
    if "failed" in statuses:
        return "not the same kernel" if parts[0] and parts[0].status == "failed" else "evidence failed"
    if parts[2] is None and statuses == ["passed", "passed"]:
        return "the same results, no races"
    if statuses:
        return "evidence passed" if "unknown" not in statuses else "evidence incomplete"
    if report.evidence.benchmark is not None:
        return "not timed"
    usable = [c for c in report.candidates if c.candidate.status == "ok"]
    if report.source is not None:
        return "the original, unchanged"
    if report.candidates:
        return f"{len(usable)} of {len(report.candidates)} candidates can be built"
    return "done"


def about(report: RunReport) -> str:
    """Architecture, compiler and device."""
    return " · ".join(word for word in (report.arch, report.tool.toolchain, report.tool.device) if word)


def loop_line(report: RunReport) -> str:
    """The tile loop and its shared arrays, empty where none is known."""
    loop = report.loop
    if loop is None:
        return ""
    roles = (("staged", loop.staged), ("invariant", loop.invariant), ("scratch", loop.scratch))
    arrays = "".join(f", {role} {', '.join(names)}" for role, names in roles if names)
    padded = [name for name, how in loop.layout.items() if how == "padded"]
    rows = f"; rows of {', '.join(padded)} can be padded" if padded else ""
    return f"tile loop at line {loop.line}, {loop.phases} phases{arrays}{rows}"


def ratio_line(ratio: Ratio | None) -> str:
    """Compute against load, empty where nothing is known of it."""
    if ratio is None:
        return ""
    known = ratio.flops_per_byte
    formula = f"{known:.1f} FLOP per byte, {ratio.cls}" if known else "ratio unknown"
    if ratio.load_cycles is None or ratio.compute_cycles is None:
        return formula
    cycles = f"{ratio.load_cycles:.0f} cycles to load, {ratio.compute_cycles:.0f} to compute"
    return f"{formula}; a tile takes {cycles}"


def launch_line(report: RunReport) -> str:
    """What the launch has to do, empty where nothing."""
    if report.launch is None or not report.launch.needs_opt_in:
        return ""
    most = max(report.launch.dynamic_shared_bytes.values(), default=0)  # 0: no problem file says what it was
    if edited := report.launch.edited_launches:
        up_to = f": up to {most} bytes of dynamic shared memory" if most else ""
        return f"launch: line{'s' if len(edited) > 1 else ''} {', '.join(map(str, edited))} edited{up_to}"
    attribute = "set cudaFuncAttributeMaxDynamicSharedMemorySize to "
    return f"launch: {attribute}{most or 'what it needs'} and pass it as the third launch argument"


# -- candidates ------------------------------------------------------------------------------------------------------


def copies(widths: Mapping[str, int]) -> str:
    """Bytes per copy: one number where all staged buffers share it."""
    if len(set(widths.values())) == 1:
        return f"{next(iter(widths.values()))} B"
    return ", ".join(f"{name} {width} B" for name, width in widths.items())


def times(value: float | None) -> str:
    """A speed-up."""
    return "" if value is None else f"{value:.2f}×"


def reasons(report: RunReport) -> dict[str, list[str]]:
    """Why candidates are not to be had → their ids, failures first. Reasons that differ in nothing but the
    candidate's own number of stages are one."""
    grouped: dict[str, list[str]] = {}
    for c in sorted(report.candidates, key=lambda c: c.candidate.status == "rejected"):
        plan = c.candidate
        if is_passed_over(report, c):
            grouped.setdefault("not among the best predicted; ask for one with --candidate", []).append(
                plan.id
            )
        elif plan.status != "ok":
            reason = plan.reason or plan.status
            grouped.setdefault(reason.replace(f"--stages {plan.stages}", "--stages N"), []).append(plan.id)
    return grouped


def is_passed_over(report: RunReport, c: CandidateReport) -> bool:
    """Whether a candidate that may be built was not, though others were: the model had preferred those."""
    built = any(other.registers is not None for other in report.candidates)
    return built and c.registers is None and c.candidate.status == "ok"


def tried(trials: Sequence[Trial]) -> str:
    """What became of the remedies for a candidate whose overlap the compiler defeats: `fence mends it`."""
    names = [base_id(t.candidate)[0] for t in trials]
    return ", ".join(
        f"{t.candidate.removeprefix(f'{plain}-')} {'mends it' if t.status == 'passed' else 'does not help'}"
        for t, plain in zip(trials, names, strict=True)
    )


def fastest_first(benchmark: Benchmark) -> list[tuple[str, Timing]]:
    """The candidates by their median."""
    return sorted(benchmark.candidates.items(), key=lambda item: item[1].median_ms)


def chosen_timing(report: RunReport) -> Timing | None:
    """The measurement of the chosen candidate, if there is one."""
    benchmark = report.evidence.benchmark
    return benchmark.candidates.get(report.chosen or "") if benchmark else None


# -- evidence --------------------------------------------------------------------------------------------------------


def evidence_lines(report: RunReport) -> Iterator[EvidenceLine]:
    """Every kind of evidence that was looked at."""
    evidence = report.evidence
    if evidence.correctness:
        yield EvidenceLine("correctness", evidence.correctness.status, _correctness(evidence.correctness))
    if evidence.races:
        yield EvidenceLine("races", evidence.races.status, _races(evidence.races))
    if evidence.sass:
        yield EvidenceLine("SASS", evidence.sass.status, _sass(evidence.sass))
    if evidence.benchmark:
        words = evidence.benchmark.reason or evidence.benchmark.device
        yield EvidenceLine("benchmark", evidence.benchmark.status, words)
    if evidence.limit:
        yield EvidenceLine("limit", *_limit(evidence.limit))


def _limit(limit: Limit) -> tuple[Status, str]:
    """How near the limit, and what of the gain is due to copies and what to overlap."""
    if limit.efficiency is None:
        return "unknown", limit.reason or "not timed"
    alone = (
        f"{limit.loads_ms:.4g} ms to load, {limit.compute_ms:.4g} to compute, {limit.candidate_ms:.4g} both"
    )
    parts = [f"{limit.efficiency:.0%} reached: {alone}"]
    if limit.copies_speedup is not None:
        parts.append(f"copies and layout without overlap {limit.copies_speedup:.2f}×")
    if limit.overlap_speedup is not None:
        parts.append(f"overlap {limit.overlap_speedup:.2f}×")
    parts += [limit.reason] if limit.reason else []
    return "passed", "; ".join(parts)


def _correctness(c: Correctness) -> str:
    """Sizes with one answer together, what went wrong first."""
    words = {
        False: "DIFFERS from the original at",
        True: "bitwise equal at",
        None: "not compared bit for bit at",
    }
    out_of_tolerance = "out of tolerance at"
    answers: dict[str, list[str]] = {words[False]: [], out_of_tolerance: [], words[True]: [], words[None]: []}
    told = {f"size {name}: {result.note}" for name, result in c.sizes.items()} & {c.reason}
    for name, result in c.sizes.items():
        # The reason tells of the first size where the two differ; what they differ in at others is left to the JSON.
        shown = replace(result, note="") if told else result
        answers[words[result.bitwise]].append(name + _remark(shown))
        if result.within_tolerance is False:
            answers[out_of_tolerance].append(name)
    parts = [f"{answer} {', '.join(names)}" for answer, names in answers.items() if names]
    apart = [r.max_difference for r in c.sizes.values() if r.max_difference is not None]
    parts += [f"differs {_largest(apart, 'by ')}"] if apart else []
    errors = [r.max_abs_error for r in c.sizes.values() if r.max_abs_error is not None]
    where = " where a reference was computed" if apart and len(errors) < len(c.sizes) else ""
    parts += [f"error {_largest(errors)}{where}"] if errors else []
    said = "; ".join(parts) + (f" ({c.device})" if c.device else "")
    return "\n".join(paragraph for paragraph in (said.strip(), c.reason) if paragraph)


def _largest(values: Sequence[float], by: str = "") -> str:
    """The largest of several errors."""
    largest = max(values)
    return f"{by}at most {largest:.2g}" if math.isfinite(largest) else "without bound: NaN or infinite values"


def _remark(result: SizeResult) -> str:
    remarks = [f"{result.sampled[0]} of {result.sampled[1]} blocks"] if result.sampled else []
    remarks += [result.note] if result.note else []
    return f" ({', '.join(remarks)})" if remarks else ""


def _races(races: Races) -> str:
    if not races.findings:
        return races.reason or f"no findings by {races.method}"
    shown = [_finding(f, races.file) for f in races.findings[:MAX_FINDINGS]]
    more = len(races.findings) - len(shown)
    return "\n".join(shown + ([f"and {more} more"] if more else []))


def _finding(f: Finding, file: str) -> str:
    """A finding on one line, with the file where that is not the one that came out."""
    if file and f.lines:
        return f"{file}:{f.lines[0]}: {f.kind}: {f.message}"
    return f"{f.kind} {f.where}{f.in_lines}: {f.message}"


def _sass(sass: Sass) -> str:
    if not sass.is_read:
        return "; ".join(sass.reasons)
    math = ""
    if sass.math_per_tile is not None and sass.math_per_tile_original is not None:
        math = f", math per tile {sass.math_per_tile_original:g} → {sass.math_per_tile:g}"
    facts = f"{sass.arch}: {window_line(sass)}, {sass.barriers_between} barriers between{math}"
    return "\n".join([f"{facts}, {spills_line(sass)}{_registers(sass)}", *_issue_lines(sass), *sass.reasons])


def _registers(sass: Sass) -> str:
    if sass.registers is None:
        return ""
    before = f"{sass.registers_original} → " if sass.registers_original is not None else ""
    return f", registers {before}{sass.registers}"


def _issue_lines(sass: Sass) -> list[str]:
    """Stall cycles by opcode, and what the waits leave in flight."""
    stalls = [
        f"{opcode} {least}" if least == most else f"{opcode} {least}–{most}"
        for opcode, (least, most) in sorted(sass.stalls.items())
    ]
    depths = ", ".join(str(depth) for depth in dict.fromkeys(sass.wait_depths))
    waits = f"; waits leave {depths} groups in flight" if depths else ""
    return [f"stall cycles: {', '.join(stalls)}{waits}"] if stalls else []


def window_line(sass: Sass) -> str:
    """What stands between a load and its wait."""
    if sass.window is None:
        return "no overlap window"
    more = [f"{sass.window_cycles} cycles"] if sass.window_cycles is not None else []
    more += [f"{sass.window_original} in the original"] if sass.window_original is not None else []
    return f"{sass.window} math from load to wait" + (f" ({'; '.join(more)})" if more else "")


def excerpt_kind(line: str) -> EventKind | None:
    """What a line of the SASS excerpt shows, by the note at its end; None for dots and other lines."""
    note = line.rsplit("  ", 1)[-1]
    starts: tuple[tuple[EventKind, tuple[str, ...]], ...] = (
        ("load", ("load", "copy", "closes")),
        ("wait", ("waits",)),
        ("barrier", ("block barrier",)),
        ("math", ("first math", "math")),
    )
    return next((kind for kind, words in starts if note.startswith(words)), None)


def spills_line(sass: Sass) -> str:
    """Accesses to local memory."""
    return f"{sass.spills} spilling instructions" if sass.spills else "no spills"
