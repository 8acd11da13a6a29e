"""Control flow, loops, trip counts, traces and waits, on generated and hand-written code."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sass_listings import assemble, forms, shapes

from tilepipe.evidence.sass.cfg import Graph, Loop, build_graph
from tilepipe.evidence.sass.decode import Function, decode
from tilepipe.evidence.sass.measure import main_loops, measure
from tilepipe.evidence.sass.scoreboard import wait_for
from tilepipe.evidence.sass.trace import trace_through
from tilepipe.evidence.sass.trips import trip_count

# ---- graphs ----

# Each block: nothing, a conditional or an unconditional branch to any block, or an exit.
BLOCKS = st.lists(
    st.tuples(st.sampled_from(["fall", "if", "goto", "exit"]), st.integers(0, 7)), min_size=1, max_size=8
)


def program(blocks: list[tuple[str, int]]) -> Function:
    lines = []
    for number, (kind, target) in enumerate(blocks):
        to = f"`(.L_{target % len(blocks)})"
        lines += [f".L_{number}:", "NOP"]
        lines += {"fall": [], "if": [f"@P0 BRA {to}"], "goto": [f"BRA {to}"], "exit": ["EXIT"]}[kind]
    return assemble(*lines, "EXIT")


def reachable(graph: Graph, without: int | None = None) -> set[int]:
    seen: set[int] = set()
    work = [0] if without != 0 else []
    while work:
        block = work.pop()
        if block not in seen:
            seen.add(block)
            work += [s for s in graph.blocks[block].successors if s != without]
    return seen


@given(BLOCKS)
@settings(max_examples=300, deadline=None)
def test_dominators_are_those_of_the_definition(blocks: list[tuple[str, int]]) -> None:
    """a dominates b if b cannot be reached without a."""
    graph = build_graph(program(blocks))
    alive = reachable(graph)
    for above in alive:
        cut = alive - reachable(graph, without=above)
        assert {below for below in alive if graph.dominates(above, below)} == cut


@given(BLOCKS)
@settings(max_examples=300, deadline=None)
def test_loops_are_cycles_through_their_header(blocks: list[tuple[str, int]]) -> None:
    graph = build_graph(program(blocks))
    alive = reachable(graph)
    for header, loop in graph.loops.items():
        for block in loop.blocks & alive:
            assert graph.dominates(header, block)
        assert all(header in graph.blocks[latch].successors for latch in loop.latches)
        if loop.parent is not None:
            assert loop.blocks < graph.loops[loop.parent].blocks
    if not graph.irreducible:  # then every cycle is one of the loops: without the back edges none is left
        back = {(latch, header) for header, loop in graph.loops.items() for latch in loop.latches}
        left = {b: {s for s in graph.blocks[b].successors if (b, s) not in back} & alive for b in alive}
        while left:
            sinks = [b for b, successors in left.items() if not successors & left.keys()]
            assert sinks
            for sink in sinks:
                del left[sink]


def test_an_empty_function_has_an_empty_graph() -> None:
    graph = build_graph(Function("empty", ()))
    assert (graph.blocks, graph.loops, graph.irreducible) == ((), {}, False)


def test_a_loop_with_two_entries_is_irreducible() -> None:
    graph = build_graph(program([("if", 2), ("fall", 0), ("if", 1), ("exit", 0)]))
    assert graph.irreducible


def test_a_call_is_a_jump_unless_its_return_address_is_set() -> None:
    jump = build_graph(assemble(".L_0:", "NOP", "@P0 CALL.REL.NOINC `(.L_1)", "BRA `(.L_0)", ".L_1:", "EXIT"))
    assert len(jump.loops) == 1
    assert [len(block.successors) for block in jump.blocks] == [2, 1, 0]
    call = build_graph(
        assemble(
            ".L_0:",
            "MOV R20, 0x20",
            "CALL.REL.NOINC `(.L_1)",
            "@P0 BRA `(.L_0)",
            "EXIT",
            ".L_1:",
            "RET.REL.NODEC R20 `(.L_0)",
        )
    )
    (loop,) = call.loops.values()
    assert [i.opcode for i in call.code(loop.header)] == ["MOV", "CALL", "BRA"]
    away = build_graph(assemble(".L_0:", "CALL.ABS.NOINC R2", "@P0 BRA `(.L_0)", "EXIT"))
    assert len(away.loops) == 1


# ---- trip counts ----


def only_loop(graph: Graph) -> Loop:
    (loop,) = graph.loops.values()
    return loop


@given(
    start=st.integers(-40, 40),
    step=st.integers(-9, 9).filter(bool),
    bound=st.integers(-100, 100),
    relation=st.sampled_from(["LT", "LE", "GT", "GE", "NE", "EQ"]),
    tested_first=st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_trip_counts_are_those_of_the_loop(
    start: int, step: int, bound: int, relation: str, tested_first: bool
) -> None:
    update = f"IADD3 R2, R2, {step:#x}, RZ"
    test = f"ISETP.{relation}.AND P0, PT, R2, {bound:#x}, PT"
    body = [test, update] if tested_first else [update, test]
    function = assemble(f"MOV R2, {start:#x}", ".L_0:", *body, "@P0 BRA `(.L_0)", "EXIT")

    def holds(value: int) -> bool:
        return {
            "LT": value < bound, "LE": value <= bound, "GT": value > bound,
            "GE": value >= bound, "NE": value != bound, "EQ": value == bound,
        }[relation]  # fmt: skip

    value, trips, expected = start, 0, None
    while trips < 1000:
        trips += 1
        before, value = value, value + step
        if not holds(before if tested_first else value):
            expected = trips
            break
    graph = build_graph(function)
    assert trip_count(graph, only_loop(graph)) == expected


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (["IMAD.MOV.U32 R2, RZ, RZ, 0x4"], 12),
        (["CS2R R2, SRZ"], 16),
        (["HFMA2.MMA R2, -RZ, RZ, 0, 5.9604644775390625e-08"], 15),  # the integer 1
        (["MOV R5, 0x8", "BRA `(.L_9)", ".L_9:", "MOV R2, R5"], 8),
        (["S2R R2, SR_TID.X"], None),
        (["@P1 MOV R2, 0x0"], None),
        (["MOV R2, 0x0", "@P1 BRA `(.L_8)", "MOV R2, 0x3", ".L_8:", "NOP"], None),
    ],
)
def test_the_value_on_entry_is_followed_to_its_constant(entry: list[str], expected: int | None) -> None:
    loop = [".L_0:", "IADD3 R2, R2, 0x1, RZ", "ISETP.NE.AND P0, PT, R2, 0x10, PT", "@P0 BRA `(.L_0)"]
    graph = build_graph(assemble(*entry, *loop, "EXIT"))
    assert trip_count(graph, only_loop(graph)) == expected


def test_uniform_counters_through_a_predicate_copy() -> None:
    graph = build_graph(
        assemble(
            "UMOV UR4, URZ",
            ".L_0:",
            "UIADD3 UR4, UPT, UPT, UR4, 0x8, URZ",
            "UISETP.NE.AND UP0, UPT, UR4, 0x40, UPT",
            "PLOP3.LUT P0, PT, PT, PT, UP0, 0x80, 0x0",
            "@P0 BRA `(.L_0)",
            "EXIT",
        )
    )
    assert trip_count(graph, only_loop(graph)) == 8


def test_a_second_exit_leaves_the_trips_open() -> None:
    graph = build_graph(
        assemble(
            "MOV R2, 0x0",
            ".L_0:",
            "@P3 BRA `(.L_1)",
            "IADD3 R2, R2, 0x1, RZ",
            "ISETP.NE.AND P0, PT, R2, 0x10, PT",
            "@P0 BRA `(.L_0)",
            ".L_1:",
            "EXIT",
        )
    )
    assert trip_count(graph, only_loop(graph)) is None


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_120"])
def test_trips_of_compiled_inner_loops(arch: str) -> None:
    rolled = build_graph(decode(forms(arch), "ring3_rolled")["ring3_rolled"])
    (main,) = main_loops(rolled)
    assert [trip_count(rolled, inner) for inner in rolled.children(main)] == [4]
    bytewise = build_graph(decode(shapes(arch), "bytes_staged")["bytes_staged"])
    (main,) = main_loops(bytewise)
    (inner,) = bytewise.children(main)
    trips = trip_count(bytewise, inner)
    assert trips is not None and 64 % trips == 0


# ---- traces and waits ----


def test_a_trace_takes_guards_and_passes_loops_that_are_left_at_their_top() -> None:
    function = assemble(
        ".L_0:",
        "ISETP.NE.AND P1, PT, R9, 0x0, PT",
        "@P1 BRA `(.L_1)",
        "MOV R4, 0x1",  # guarded
        ".L_1:",
        "ISETP.NE.AND P2, PT, R8, 0x0, PT",  # the header of an inner loop, which exits here
        "@P2 BRA `(.L_2)",
        "MOV R5, 0x2",
        "BRA `(.L_1)",
        ".L_2:",
        "@P0 BRA `(.L_0)",
        "EXIT",
    )
    graph = build_graph(function)
    outer = graph.loops[0]
    (inner,) = graph.children(outer)
    trace = trace_through(graph, outer, {inner.header: 5})
    places = {step.instruction.text: k for k, step in enumerate(trace.steps)}
    assert trace.weight(places["MOV R4, 0x1"]) == 1
    assert trace.weight(places["MOV R5, 0x2"]) == 5
    assert trace.is_certain(places.values())
    unknown = trace_through(graph, outer, {inner.header: None}, assumed=7)
    assert unknown.weight(places["MOV R5, 0x2"]) == 7
    assert not unknown.is_certain(places.values())


def looped(*body: str) -> tuple[Graph, Loop]:
    graph = build_graph(assemble(".L_0:", *body, "@P0 BRA `(.L_0)", "EXIT"))
    return graph, only_loop(graph)


def wait_of(issue: str, *body: str) -> tuple[str, int] | None:
    """Text of the step that waits for the step `issue`, and the iteration after it."""
    graph, loop = looped(*body)
    trace = trace_through(graph, loop, {})
    start = next(k for k, step in enumerate(trace.steps) if step.instruction.text == issue)
    wait = wait_for(trace, start)
    return None if wait is None else (trace.steps[wait.step].instruction.text, wait.round)


@given(pending=st.integers(0, 7), commits=st.integers(1, 3), wait_first=st.booleans())
@settings(deadline=None)
def test_a_group_is_complete_when_no_more_than_the_pending_ones_are_newer(
    pending: int, commits: int, wait_first: bool
) -> None:
    copy, wait = "LDGSTS.E [R2], [R4.64]", f"DEPBAR.LE SB0, {pending:#x}"
    filled = [copy, *["LDGDEPBAR"] * commits]
    found = wait_of(copy, *([wait, *filled] if wait_first else [*filled, wait]))
    after, newer = int(wait_first), commits - 1  # at the first wait after the copy's own commit
    while newer < pending:
        after, newer = after + 1, newer + commits
    assert found == (wait, after)


def test_a_copy_without_a_wait_or_without_a_commit() -> None:
    copy = "LDGSTS.E [R2], [R4.64]"
    assert wait_of(copy, copy, "LDGDEPBAR", "FFMA R1, R1, R1, R1") is None
    assert wait_of(copy, copy, "DEPBAR.LE SB0, 0x0") is None


def test_a_load_waits_by_its_scoreboard_or_by_that_of_a_later_one() -> None:
    first, second = "LDG.E R4, [R2.64]", "LDG.E R5, [R2.64+0x4]"
    use = "STS [R8], R4"
    assert wait_of(first, f"{first} | w2", "FADD R1, R1, R1 | b3", f"{use} | b2") == (use, 0)
    assert wait_of(first, first, f"{second} | w1", f"{use} | b1") == (use, 0)
    assert wait_of(first, first, "LDS R6, [R8] | w1", f"{use} | b1") is None  # loads of another kind
    assert wait_of(first, f"{use} | b2", f"{first} | w2") == (use, 1)
    depth = "DEPBAR.LE SB0, 0x1"  # without groups of copies it counts the loads of the scoreboard
    assert wait_of(first, f"{first} | w0", f"{second} | w0", depth) == (depth, 0)
    assert wait_of(second, f"{first} | w0", f"{second} | w0", depth) == (depth, 1)


RING = """
DEPBAR.LE SB0, 0x0
BAR.SYNC.DEFER_BLOCKING 0x0
LDGSTS.E.BYPASS.128 [R2], [R4.64]
LDGDEPBAR
LDS R6, [R7] | w1
FFMA R8, R6, R6, R8 | b1
FFMA R9, R6, R6, R9
@!PT LDS RZ, [RZ]
""".strip().splitlines()


def test_the_numbers_of_a_small_ring() -> None:
    graph, loop = looped(*RING)
    (main,) = main_loops(graph)
    assert main == loop
    facts = measure(graph, loop, barriers_per_tile=1)
    assert (facts.tiles, facts.math, facts.math_per_tile, facts.barriers) == (1, 2, 2, 1)
    (load,) = facts.loads
    assert (load.asynchronous, load.bytes, load.iterations) == (True, 16, 1)
    assert (load.window, load.barriers_crossed, load.barriers_before_work) == (2, 0, 0)
    assert load.reads_before_barrier == 0
    assert load.cycles == 6  # LDGDEPBAR, LDS, two FFMA, the padding and the branch, one cycle each


def test_an_unrolled_ring_counts_its_tiles_by_barriers() -> None:
    graph, loop = looped(*RING, *RING, *RING)
    facts = measure(graph, loop, barriers_per_tile=1)
    assert (facts.tiles, facts.math_per_tile) == (3, 2)
    assert [load.window for load in facts.loads] == [2, 2, 2]
    assert measure(graph, loop, barriers_per_tile=2).tiles is None


def test_barriers_that_the_loads_contradict_do_not_count_tiles() -> None:
    barrier = "BAR.SYNC.DEFER_BLOCKING 0x0"
    graph, loop = looped(*RING, barrier, barrier)  # two more, unrolled from the author's compute
    assert measure(graph, loop, barriers_per_tile=1).tiles is None
    assert measure(graph, loop, barriers_per_tile=3).tiles == 1


@pytest.mark.parametrize("missing", ["BAR", "LDGSTS", "LDS R6"])
def test_a_loop_without_barrier_traffic_or_shared_reads_is_no_main_loop(missing: str) -> None:
    graph, _ = looped(*(line for line in RING if missing not in line))
    assert main_loops(graph) == []
