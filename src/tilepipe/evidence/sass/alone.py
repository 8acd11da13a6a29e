"""The audit of a kernel as it is: nobody says how its pipeline was meant, and there is no original beside it."""

from __future__ import annotations

from dataclasses import replace

from tilepipe.evidence.sass.audit import local_accesses, loop_evidence, traps, undecided
from tilepipe.evidence.sass.cfg import Graph, Loop, build_graph
from tilepipe.evidence.sass.decode import Function, decode
from tilepipe.evidence.sass.judge import (
    AMBIGUOUS,
    BARRIER_BETWEEN,
    SPILLS,
    TRAP,
    Expectation,
    Finding,
    main_loop,
    status_of,
    too_little_to_tell,
)
from tilepipe.evidence.sass.measure import LoopFacts, main_loops, measure
from tilepipe.evidence.types import Sass
from tilepipe.gpu import MAX_THREADS_PER_BLOCK

_OUR_BARRIERS = (
    2  # a tile of the plainest loop passes: what is beyond may be the author's own, inside compute
)

_Judged = tuple[Expectation, LoopFacts | None, list[Finding]]


def audit_alone(text: str, arch: str, symbol: str, threads: int = MAX_THREADS_PER_BLOCK) -> Sass:
    """Audits one kernel of a listing (`nvdisasm -c -hex`) that is launched with `threads` a block, at most.

    How many barriers a tile passes is not known, so the loop is judged for every number that its barriers, loads
    and groups of copies allow; the verdict is unknown where the answers differ.
    """
    function = decode(text, symbol).get(symbol)
    if function is None or not function.instructions:
        return undecided(arch, f"the listing holds no encoded instructions of `{symbol}`")
    graph = build_graph(function)
    judged = [_judged(graph, barriers, threads) for barriers in _barriers_a_tile(graph)]
    expectation, facts, findings = judged[0]
    if len({status_of(found) for _, _, found in judged}) > 1:
        numbers = " or ".join(str(e.barriers) for e, _, _ in judged)
        message = f"the verdict depends on how many block barriers a tile passes: {numbers}"
        findings = [Finding(AMBIGUOUS, "unknown", message)]
    elif not any(found for _, _, found in judged):
        findings = _too_little_to_tell(judged)
    findings = findings + _text_findings(function, graph, facts)
    return replace(loop_evidence(arch, facts, findings, expectation), spills=local_accesses(function))


def _barriers_a_tile(graph: Graph) -> list[int]:
    """The numbers of barriers that a tile may pass, as far as the main loops agree with them."""
    loops = [] if graph.irreducible else main_loops(graph)
    most = max((measure(graph, loop, 1).barriers for loop in loops), default=1)
    possible = [n for n in range(1, most + 1) if any(measure(graph, loop, n).tiles for loop in loops)]
    return possible or [1]


def _too_little_to_tell(judged: list[_Judged]) -> list[Finding]:
    """The finding with the most math a tile, if there is one for every number of barriers."""
    found = [too_little_to_tell(facts, expected) for expected, facts, _ in judged if facts is not None]
    return found[-1] if all(found) else []


def _judged(graph: Graph, barriers: int, threads: int) -> _Judged:
    copies = not graph.irreducible and any(_copies(graph, loop) for loop in main_loops(graph))
    expectation = Expectation(asynchronous=copies, barriers=barriers, threads=threads)
    facts, findings = main_loop(graph, expectation)
    if barriers > _OUR_BARRIERS:
        findings = [_perhaps_the_authors(finding) for finding in findings]
    return expectation, facts, findings


def _copies(graph: Graph, loop: Loop) -> bool:
    return any(i.opcode == "LDGSTS" for block in loop.blocks for i in graph.code(block))


def _perhaps_the_authors(finding: Finding) -> Finding:
    if finding.code != BARRIER_BETWEEN:
        return finding
    return replace(finding, status="unknown", message=f"{finding.message}, perhaps the author's own")


def _text_findings(function: Function, graph: Graph, facts: LoopFacts | None) -> list[Finding]:
    """Spills within the main loop, and traps, which may be assertions."""
    found = []
    if facts is not None:
        inside = tuple(i for block in sorted(facts.loop.blocks) for i in graph.code(block))
        if spills := local_accesses(replace(function, instructions=inside)):
            message = f"{spills} accesses to local memory (STL, LDL) in the main loop: spilled registers"
            found.append(Finding(SPILLS, "failed", message))
    if traps(function):
        message = "a trap (BPT.TRAP): an assertion, or an operation that the compiler gave up on"
        found.append(Finding(TRAP, "unknown", message))
    return found
