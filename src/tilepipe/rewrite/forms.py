"""The forms of a pipelined loop: prologue, what begins and ends the main loop's body, epilogue.

Ring with asynchronous copies: one barrier a tile, S − 1 tiles in flight. Register staging (also beside
asynchronous copies, "mixed"): two buffers, one barrier a tile. Prefetch: one buffer, two barriers a tile.
Textbook: two buffers, a main loop of tiles − 1 turns, the last tile peeled.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilepipe.kernel import surroundings
from tilepipe.kernel.effects import Access
from tilepipe.kernel.fragments import FragmentLoop
from tilepipe.kernel.model import KernelModel
from tilepipe.rewrite import api
from tilepipe.rewrite.fragments import (
    bind_lines,
    group,
    is_before_end,
    load_text,
    loop_edits,
    next_group,
    slot_lines,
)
from tilepipe.rewrite.lines import indented as _lines
from tilepipe.rewrite.lines import line_start
from tilepipe.rewrite.project import Projection
from tilepipe.rewrite.rings import STAGES, named
from tilepipe.rewrite.shape import STEP, Shape, bound_name, lambda_text, words_in
from tilepipe.source import Edit, Span

_PREVIOUS = f"tp_stage == 0 ? {STAGES} - 1 : tp_stage - 1"
_ROTATE = f"tp_stage = tp_stage + 1 == {STAGES} ? 0 : tp_stage + 1;"


def prologue(s: Shape) -> str:
    """Everything before the main loop: rings, loader state, the loader's lambdas, the first tiles."""
    out = [*s.ring.declarations, *s.ring.setup, *api.setup(s.candidate)]
    if s.state.hoisted:
        out.append(s.state.hoisted)
    text = _lines(s.indent, [*out, *s.state.setup])
    if s.loader.load is not None:
        text += _lambda(s, "tp_load", s.loader.load, with_stage=True, advance=s.is_ring)
    if s.loader.staging is not None:
        text += _lines(s.indent, [r.declaration for r in s.loader.staging.registers])
        text += _lambda(s, "tp_fetch", s.loader.staging.fetch, with_stage=False, advance=False)
        text += _lambda(s, "tp_store", s.loader.staging.store, with_stage=not s.single, advance=False)
    if not s.is_ring:
        text += _advance(s)
    if s.fragments is not None:
        text += _fragments(s, s.fragments)
    return text + _first_tiles(s)


def _lambda(s: Shape, name: str, body: Projection, with_stage: bool, advance: bool) -> str:
    parameter = "int tp_stage" if with_stage and s.ring.bind else ""
    part = ", int tp_part" if s.loader.spread is not None and name == "tp_load" else ""
    # The fetch touches no stage; a helper inlined into it may still want the tile's name as an argument.
    stage = "tp_stage" if parameter else "0"
    binds = [named(b, stage) for b in s.ring.bind]
    step, end = s.state.step if advance else "", _last_part(s, s.indent + STEP) if part else None
    return lambda_text(s, name, parameter + part, body, [*binds, *s.state.shadows], step, end)


def _last_part(s: Shape, indent: str) -> str:
    """The state's step to the next tile, once the last part of a tile is issued."""
    assert s.loader.spread is not None
    tail = Projection(s.model.file.source, s.model.tile, s.state.advance).text(indent + STEP)
    step = _lines(indent + STEP, [s.state.step]) if s.state.step else ""
    return f"{indent}if (tp_part == {s.loader.spread.parts - 1}) {{\n{tail}{step}{indent}}}\n"


def _fragments(s: Shape, found: FragmentLoop) -> str:
    """The two slots, and the lambda that fills one with the fragments of a group."""
    inside = s.indent + STEP
    counter = found.counted
    body = load_text(s.model, found, inside)
    words = words_in(s, body)
    binds = [named(b, "tp_stage") for b in s.ring.bind if bound_name(b) in words]
    text = _lines(
        s.indent,
        ["// fragments: one slot is multiplied while the other one is filled", *slot_lines(s.model, found)],
    )
    text += (
        f"{s.indent}auto tp_fragments = [&](int tp_stage, int tp_slot, {counter.type} {counter.counter}) {{\n"
    )
    return text + _lines(inside, [*binds, *bind_lines(found, "tp_slot")]) + body + f"{s.indent}}};\n"


def _advance(s: Shape) -> str:
    """The lambda that moves the loader's state to the next tile."""
    inside = s.indent + STEP
    tail = Projection(s.model.file.source, s.model.tile, s.state.advance)
    body = tail.text(inside) + (_lines(inside, [s.state.step]) if s.state.step else "")
    if not body:
        return ""
    words = words_in(s, tail.text(inside))
    shadows = _lines(inside, [b for b in s.state.shadows if bound_name(b) in words])
    return f"{s.indent}auto tp_advance = [&] {{\n{shadows}{body}{s.indent}}};\n"


def _has_advance(s: Shape) -> bool:
    return bool(s.state.tail or s.state.step)


def _issue(s: Shape, stage: str) -> list[str]:
    """Calls that start the load of a tile."""
    calls = []
    if s.loader.load is not None:
        calls.append(f"tp_load({stage});")
    if s.loader.staging is not None:
        calls.append("tp_fetch();")
    return calls


def _finish(s: Shape, stage: str) -> list[str]:
    """Calls that put a fetched tile into its stage and move on."""
    calls = []
    if s.loader.staging is not None:
        calls.append("tp_store();" if s.single else f"tp_store({stage});")
    if _has_advance(s):
        calls.append("tp_advance();")
    return calls


def _first_tiles(s: Shape) -> str:
    if s.is_ring:
        return _lines(s.indent, _first_of_ring(s))
    some = [f"const bool tp_some = {s.state.more};"] if s.fragments is not None else []
    lines = ["// prologue: tile 0", *some, f"if ({'tp_some' if some else s.state.more}) {{"]
    lines += [STEP + call for call in (*_issue(s, "0"), *_finish(s, "0"))]
    lines.append("}")
    if s.loader.load is not None:
        lines += ["tp_commit();", "tp_wait<0>();"]
    if not s.single:
        lines += ["__syncthreads();"]
    if some:
        lines += ["if (tp_some)", f"{STEP}tp_fragments(0, 0, 0);"]
    if s.peeled:
        return _lines(s.indent, lines)
    lines.append("// main loop: each turn but the last loads the next tile while it computes")
    if not s.single:
        lines.append("int tp_stage = 0;")
    return _lines(s.indent, lines + s.rolled)


def _first_of_ring(s: Shape) -> list[str]:
    load = ["tp_load(tp_s);"]
    if s.loader.spread is not None:
        load = [
            "#pragma unroll",
            f"for (int tp_part = 0; tp_part < {s.loader.spread.parts}; ++tp_part)",
            f"{STEP}tp_load(tp_s, tp_part);",
        ]
    deep = s.fragments is not None and not s.overruns
    load += ["++tp_depth;"] if deep else []
    why = "a group per stage, even an empty one, keeps the wait constant"
    if s.overruns:
        why = "past the last tile the guards fail, and copies fill with zero"
    lines = [
        f"// prologue: tiles 0 .. {STAGES} - 2 in flight; {why}",
        *(["int tp_depth = 0;  // stages that get a tile"] if deep else []),
        f"for (int tp_s = 0; tp_s < {STAGES} - 1; ++tp_s) {{",
        *(STEP + line for line in api.acquire(s.candidate)),
        *(STEP + line for line in _if_more(s, *load)),
        STEP + api.commit(s.candidate),
        "}",
    ]
    if s.fragments is not None:
        lines += _if_more(s, "++tp_depth;") if deep else []
        lines += api.arrived(s.candidate, "")
        first = "tp_fragments(0, 0, 0);"
        lines += ["if (tp_depth != 0)", STEP + first] if deep else [first]
    if s.loader.spread is not None:
        lines += _if_more(s, f"tp_load({STAGES} - 1, 0);")
    return [*lines, "// main loop", "int tp_stage = 0;", *s.rolled]


def _if_more(s: Shape, *lines: str) -> list[str]:
    """Lines under the condition that another tile exists, where the loader does not run past the last one."""
    if not s.state.more:
        return list(lines)
    braces = len(lines) > 1
    opening = f"if ({s.state.more}){' {' if braces else ''}"
    return [opening, *(STEP + line for line in lines), *(["}"] if braces else [])]


def body_start(s: Shape) -> list[Edit]:
    """What the main loop's body begins with: the wait, the barrier, the load of a later tile."""
    block = s.model.tile.loop.children[0]
    at = after_brace(s, block.span.start)
    inside = s.indent + STEP
    if s.is_ring:
        lines = api.arrived(s.candidate, "  // publishes this stage and frees the one consumed last")
        if s.fragments is not None:
            lines = []
        if s.loader.spread is None:
            lines += api.acquire(s.candidate)
            lines += [*_if_more(s, f"tp_load({_PREVIOUS});"), api.commit(s.candidate)]
    else:
        lines = ["__syncthreads();  // publishes the tile"] if s.single else []
        lines += [f"const bool tp_next = {s.state.more};"]
        calls = _issue(s, "tp_stage ^ 1")
        lines += ["if (tp_next) {", *(STEP + c for c in calls), "}"]
        if s.loader.load is not None:
            lines.append("tp_commit();")
    lines += s.fence
    # Where fragments are loaded by a function of their own, only that one names the stage.
    binds = [b for b in s.ring.bind if s.fragments is None or not b.startswith("auto")]
    lines += [named(b, "tp_stage") for b in binds]
    return [Edit(Span(at, at), _lines(inside, lines) + "\n")] if lines else []


def body_end(s: Shape) -> list[Edit]:
    """What the main loop's body ends with: the store of a fetched tile, the barrier, the next stage."""
    if s.fragments is not None:
        return loop_edits(s.model, s.fragments, _group_lines(s, s.fragments))
    end = s.model.tile.loop.children[0].span.end - 1
    at = line_start(s.model.file.source, end)
    inside = s.indent + STEP
    lines = [*api.release(s.candidate), _ROTATE] if s.is_ring else _turn(s)
    return [Edit(Span(at, at), "\n" + _lines(inside, lines))]


def _turn(s: Shape) -> list[str]:
    """From one tile to the next where a fetched tile waits in registers."""
    lines = ["__syncthreads();  // the tile is consumed"] if s.single else []
    calls = _finish(s, "tp_stage ^ 1")
    lines += ["if (tp_next) {", *(STEP + c for c in calls), "}"] if calls else []
    if s.loader.load is not None:
        lines.append("tp_wait<0>();")
    if not s.single:
        other = "tp_next" if s.fragments is not None else "1"
        lines += ["__syncthreads();  // publishes the next tile and frees this one", f"tp_stage ^= {other};"]
    return lines


def _group_lines(s: Shape, found: FragmentLoop) -> list[str]:
    """What a group begins with: the fragments of the next one, those of the next tile behind its barrier."""
    following = next_group(s.model, found)
    number = group(s.model, found)
    inner = [f"tp_fragments(tp_stage, ({number} + 1) % 2, {following});"]
    turn = _turn(s)
    if s.is_ring:
        turn = [
            *api.release(s.candidate),
            *api.arrived(s.candidate, "  // publishes the next stage and frees this one"),
            _ROTATE if s.overruns else _ROTATE.replace(STAGES, "tp_depth"),
        ]
    turn.append("tp_fragments(tp_stage, 0, 0);")
    if s.loader.spread is not None:
        some = f"{number} + 1 < {s.loader.spread.parts} && " if s.loader.spread.parts < found.groups else ""
        inner += [f"if ({some}{s.state.more})", f"{STEP}tp_load({_PREVIOUS}, {number} + 1);"]
        last = [f"if (!({is_before_end(found, next_group(s.model, found, 2))}))", f"{STEP}tp_commit();"]
        inner += ["tp_commit();"] if found.groups == 2 else last
        turn += _if_more(s, f"tp_load({_PREVIOUS}, 0);")
    return [
        f"if ({is_before_end(found, following)}) {{",
        *(STEP + line for line in inner),
        "} else {  // the first group of the next tile",
        *(STEP + line for line in turn),
        "}",
        *bind_lines(found, f"{number} % 2"),
    ]


def peeled_edits(s: Shape, start: int) -> list[Edit]:
    """The textbook form: the body becomes a lambda, a loop of tiles − 1 turns calls it, and then the last tile.

    `start` is the offset at which the loop with its pragma lines begins.
    """
    model, loop = s.model, s.model.tile.loop
    text = model.file.source.slice
    block = loop.children[0].span
    head = [text(loop.init).rstrip(";") + ";"] if loop.init is not None and loop.declares else []
    inside = s.indent + STEP
    binds = [named(b, "tp_stage") for b in s.ring.bind]
    opening = (
        prologue(s)
        + _lines(s.indent, [*head, "auto tp_compute = [&](int tp_stage) {"])
        + _lines(inside, binds)
    )
    update = text(loop.update) if loop.update is not None else ""
    header = f"for (; {s.state.more}; {update})" if loop.kind == "for" else f"while ({s.state.more})"
    lines = [
        "};",
        "// main loop: tiles - 1 turns, each loads the next tile while it computes",
        "int tp_stage = 0;",
    ]
    lines += [*s.rolled, header + " {"]
    turn = _issue(s, "tp_stage ^ 1")
    if s.loader.load is not None:
        turn.append("tp_commit();")
    turn += [*s.fence, "tp_compute(tp_stage);", *_finish(s, "tp_stage ^ 1")]
    if s.loader.load is not None:
        turn.append("tp_wait<0>();")
    turn += ["__syncthreads();  // publishes the next tile and frees this one", "tp_stage ^= 1;"]
    condition = text(loop.condition) if loop.condition is not None else ""
    last = [f"if ({condition})", f"{STEP}tp_compute(tp_stage);"]
    if loop.update_effects.defs - loop.declares:  # what the header moves lives on after the loop
        last = [f"if ({condition}) {{", f"{STEP}tp_compute(tp_stage);", f"{STEP}{update};", "}"]
    lines += [*(STEP + t for t in turn), "}", "// epilogue: the last tile", *last]
    closing = _lines(s.indent, lines)
    brace = line_start(model.file.source, block.end - 1)
    return [
        Edit(Span(start, after_brace(s, block.start)), opening),
        Edit(Span(brace, after_brace(s, block.end - 1)), closing),
    ]


def epilogue(s: Shape) -> str:
    """What follows the main loop: the drain, a barrier where shared memory is used again, the last stage's name."""
    lines = []
    if s.is_ring:
        lines = [
            "// epilogue: nothing in flight when shared memory is reused or the kernel returns",
            *api.drain(s.candidate),
        ]
    if _needs_barrier(s.model) and (s.is_ring or s.peeled or s.fragments is not None):
        lines.append("__syncthreads();")
    last = _PREVIOUS if s.is_ring else "tp_stage" if s.peeled or s.fragments is not None else "tp_stage ^ 1"
    if (
        s.is_ring and s.fragments is not None and not s.overruns
    ):  # the stages turn through those that get a tile
        last = f"tp_stage == 0 ? (tp_depth + {STAGES} - 1) % {STAGES} : tp_stage - 1"
    lines += [named(b, last) for b in s.ring.rebind]
    return _lines(s.indent, lines)


def _needs_barrier(model: KernelModel) -> bool:
    """Whether threads may see each other's memory after the loop: the author's last barrier may be gone."""
    after = surroundings.after_effects(model.tile)
    if surroundings.is_repeated(model.tile) or after.shared_reads() or after.shared_writes():
        return True
    writes = model.tile.loop.effects().global_writes()
    # What the loader read is complete at the last tile's own barrier.
    reads = [a for i in model.tile.flow.items if i not in model.split.loader for a in i.own.global_reads()]
    return _may_meet(writes, (*after.global_reads(), *after.global_writes())) or _may_meet(
        reads, after.global_writes()
    )


def _may_meet(some: Sequence[Access], others: Sequence[Access]) -> bool:
    """Whether one of `some` and one of `others` may touch the same memory."""
    for a in some:
        for b in others:
            if a.base is None or b.base is None or a.base == b.base:
                return True
            # A pointer that a kernel is given may point into a variable of the file.
            both_arrays = all(s.kind == "file" and s.is_array and not s.pointer for s in (a.base, b.base))
            if not (a.base.restrict or b.base.restrict or both_arrays):
                return True
    return False


def after_brace(s: Shape, brace: int) -> int:
    """The start of the line after the loop's opening brace (comments on that line stay)."""
    source = s.model.file.source
    end = source.data.find(b"\n", brace)
    return end + 1
