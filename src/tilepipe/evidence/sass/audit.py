"""The SASS audit: does the compiled main loop really overlap its loads with the math?"""

from __future__ import annotations

from dataclasses import replace

from tilepipe.diagnostics import Diagnostic
from tilepipe.evidence.sass.cfg import Graph, build_graph
from tilepipe.evidence.sass.decode import Function, decode
from tilepipe.evidence.sass.excerpt import excerpt, stalls, wait_depths
from tilepipe.evidence.sass.judge import (
    MATH_DIFFERS,
    NO_ENCODING,
    SPILLS,
    TRAP,
    Expectation,
    Finding,
    agreed,
    barriers_between,
    judged_loads,
    main_loop,
    status_of,
    too_little_to_tell,
)
from tilepipe.evidence.sass.measure import LoopFacts, main_loops, measure
from tilepipe.evidence.sass.timeline import timeline
from tilepipe.evidence.types import Sass

_LOCAL = frozenset(("STL", "LDL"))


def audit(
    pipelined_sass: str, original_sass: str, arch: str, symbols: tuple[str, str], expectation: Expectation
) -> Sass:
    """Audits a pipelined kernel against its original.

    Both texts come from `nvdisasm -c -hex` for the same `arch`; `symbols` are the (mangled) names of the
    pipelined kernel and of the original. The verdict is unknown, with the reason, where the text does not
    decide; `codes` and `reasons` of the result go together.
    """
    functions = []
    for text, symbol, which in zip(
        (pipelined_sass, original_sass), symbols, ("pipelined", "original"), strict=True
    ):
        function = decode(text, symbol).get(symbol)
        if function is None or not function.instructions:
            return undecided(arch, f"the listing holds no encoded instructions of the {which} `{symbol}`")
        functions.append(function)
    pipelined, original = functions
    graph = build_graph(pipelined)
    facts, findings = main_loop(graph, expectation)
    if facts is not None and not findings:
        findings = too_little_to_tell(facts, expectation)
    before = _original_loops(build_graph(original), expectation)
    math = expectation.math_per_tile or (facts.math_per_tile if facts else None)
    math_before = expectation.math_per_tile_original or agreed(loop.math_per_tile for loop in before)
    findings += _math(math, math_before, expectation)
    findings += _added_code(pipelined, original)
    return replace(
        loop_evidence(arch, facts, findings, expectation),
        math_per_tile=math,
        math_per_tile_original=math_before,
        window_original=min((load.window for loop in before for load in loop.loads), default=None),
        spills=local_accesses(pipelined),
        spills_original=local_accesses(original),
        timeline_original=timeline(max(before, key=lambda loop: loop.tiles or 0)) if before else None,
    )


def loop_evidence(
    arch: str, facts: LoopFacts | None, findings: list[Finding], expectation: Expectation
) -> Sass:
    """What the main loop and the findings about it say, without the original."""
    loads = judged_loads(facts, expectation) if facts else ()
    return Sass(
        status=status_of(findings),
        arch=arch,
        reasons=tuple(finding.message for finding in findings),
        codes=tuple(finding.code for finding in findings),
        math_per_tile=facts.math_per_tile if facts else None,
        loads=len(loads),
        copy_bytes=tuple(sorted({load.bytes for load in loads})),
        window=min((load.window for load in loads), default=None),
        window_cycles=min((load.cycles for load in loads), default=None),
        barriers_between=max((barriers_between(load, expectation) for load in loads), default=0),
        excerpt=excerpt(facts) if facts else (),
        timeline=timeline(facts) if facts else None,
        stalls=stalls(facts) if facts else {},
        wait_depths=wait_depths(facts) if facts else (),
    )


def diagnostics(sass: Sass) -> tuple[Diagnostic, ...]:
    """The audit's findings as warnings: an exact and faster kernel may still fail its audit."""
    return tuple(
        Diagnostic(code, "warning", f"{sass.arch}: {reason}")
        for code, reason in zip(sass.codes, sass.reasons, strict=True)
    )


def undecided(arch: str, reason: str) -> Sass:
    """Unknown, since the listing cannot be read."""
    return Sass(status="unknown", arch=arch, reasons=(reason,), codes=(NO_ENCODING,))


def _original_loops(graph: Graph, expected: Expectation) -> list[LoopFacts]:
    if graph.irreducible:
        return []
    return [measure(graph, loop, expected.barriers_original) for loop in main_loops(graph)]


def _math(math: float | None, before: float | None, expected: Expectation) -> list[Finding]:
    if math is None or before is None or math == before:
        return []
    measured = expected.math_per_tile is not None and expected.math_per_tile_original is not None
    how = "executed" if measured else "in the text, by barriers and trip counts,"
    message = f"{math:g} math instructions a tile {how} against {before:g} of the original"
    return [Finding(MATH_DIFFERS, "failed", message)]


def _added_code(pipelined: Function, original: Function) -> list[Finding]:
    found = []
    spills = local_accesses(pipelined) - local_accesses(original)
    if spills > 0:
        message = f"{spills} accesses to local memory (STL, LDL) more than the original: spilled registers"
        found.append(Finding(SPILLS, "failed", message))
    if traps(pipelined) > traps(original):
        message = "a trap (BPT.TRAP) that the original does not have: the compiler gave up on an operation"
        found.append(Finding(TRAP, "failed", message))
    return found


def local_accesses(function: Function) -> int:
    """Accesses to local memory in the text: spilled registers, or arrays that are indexed."""
    return sum(i.opcode in _LOCAL and not i.never_runs for i in function.instructions)


def traps(function: Function) -> int:
    """Traps in the text: assertions, or operations that the compiler gave up on."""
    return sum(i.opcode == "BPT" and "TRAP" in i.modifiers for i in function.instructions)
