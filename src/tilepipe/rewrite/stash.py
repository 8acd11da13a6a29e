"""The form with slots: asynchronous copies S − 1 tiles ahead, into tiles where they fit and else into slots of the
same thread, which moves them on into a tile when the one before has been computed. One barrier a tile.

A thread waits for its own copies only before it moves them on; the barrier that publishes the tile makes
both kinds visible to the others.
"""

from __future__ import annotations

from tilepipe.rewrite.forms import after_brace
from tilepipe.rewrite.lines import indented, line_start
from tilepipe.rewrite.rings import STAGES, named
from tilepipe.rewrite.shape import Shape, lambda_text
from tilepipe.rewrite.slots import THREAD, Stashing
from tilepipe.source import Edit, Span

_STEP = "    "
_PREVIOUS = f"tp_stage == 0 ? {STAGES} - 1 : tp_stage - 1"


def stash_edits(s: Shape, stashing: Stashing, start: int) -> list[Edit]:
    """The edits around and in the main loop; `start` is where the loop with its pragma lines begins."""
    source, block = s.model.file.source, s.model.tile.loop.children[0].span
    top, end = after_brace(s, block.start), line_start(source, block.end - 1)
    return [
        Edit(Span(start, start), _prologue(s, stashing)),
        Edit(Span(top, top), indented(s.indent + _STEP, _begin(s)) + "\n"),
        Edit(Span(end, end), "\n" + indented(s.indent + _STEP, _end(s, stashing))),
    ]


def _arguments(stashing: Stashing, stage: str, buffer: str) -> str:
    return f"{stage}, {buffer}" if stashing.doubled else stage


def _prologue(s: Shape, stashing: Stashing) -> str:
    setup = [*s.ring.declarations, *s.ring.setup, *stashing.declarations]
    setup.append(
        f"const unsigned {THREAD} = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);"
    )
    if s.state.hoisted:
        setup.append(s.state.hoisted)
    text = indented(s.indent, [*setup, *s.state.setup, *stashing.state.setup])
    # The copies touch none of two buffers; a helper inlined into the lambda may want the tile's name all the same.
    load = [*(named(b, "tp_stage", "0") for b in s.ring.bind), *s.state.shadows]
    text += lambda_text(s, "tp_load", "int tp_stage", stashing.load, load, s.state.step)
    parameters = "int tp_stage, int tp_buffer" if stashing.doubled else "int tp_stage"
    store = [*(named(b, "tp_stage") for b in s.ring.bind), *stashing.state.shadows]
    text += lambda_text(s, "tp_store", parameters, stashing.store, store, stashing.state.step)
    lines = [
        f"// prologue: tiles 0 .. {STAGES} - 2 in flight; "
        "a group per stage, even an empty one, keeps the wait constant",
        f"for (int tp_s = 0; tp_s < {STAGES} - 1; ++tp_s) {{",
        f"{_STEP}if ({s.state.more})",
        f"{_STEP}{_STEP}tp_load(tp_s);",
        f"{_STEP}tp_commit();",
        "}",
        f"tp_wait<{STAGES} - 2>();",
        f"if ({stashing.state.more})",
        f"{_STEP}tp_store({_arguments(stashing, '0', '0')});",
        "__syncthreads();",
        "// main loop: a thread moves what it stashed of the next tile on when it has computed this one",
        "int tp_stage = 0;",
    ]
    if stashing.doubled:
        lines.append("int tp_buffer = 0;")
    return text + indented(s.indent, lines)


def _begin(s: Shape) -> list[str]:
    lines = [f"if ({s.state.more})", f"{_STEP}tp_load({_PREVIOUS});", "tp_commit();"]
    return [*lines, *(named(b, "tp_stage") for b in s.ring.bind)]


def _end(s: Shape, stashing: Stashing) -> list[str]:
    return [
        f"tp_stage = tp_stage + 1 == {STAGES} ? 0 : tp_stage + 1;",
        *(["tp_buffer ^= 1;"] if stashing.doubled else []),
        f"tp_wait<{STAGES} - 2>();",
        f"if ({stashing.state.more})",
        f"{_STEP}tp_store({_arguments(stashing, 'tp_stage', 'tp_buffer')});",
        "__syncthreads();  // publishes the next tile and frees this one",
    ]


def stash_epilogue(s: Shape) -> str:
    """What follows the main loop, whose last barrier stands at its end: the drain, and the last stage's name."""
    lines = [
        "// epilogue: nothing in flight when shared memory is reused or the kernel returns",
        "tp_wait<0>();",
    ]
    lines += [named(b, _PREVIOUS, "tp_buffer ^ 1") for b in s.ring.rebind]
    return indented(s.indent, lines)
