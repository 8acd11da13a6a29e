"""Assembles a candidate's source: declarations, loader, prologue, main loop, epilogue."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from tilepipe.diagnostics import Place, Refusal, refusal
from tilepipe.kernel import surroundings
from tilepipe.kernel.launchbounds import launch_bound_span
from tilepipe.kernel.model import KernelModel
from tilepipe.kernel.symbols import Symbol
from tilepipe.kernel.widen import Widened
from tilepipe.plan.types import Candidate
from tilepipe.rewrite.asynchronous import asynchronous
from tilepipe.rewrite.consumer import consumer_edits
from tilepipe.rewrite.counted import CountedLoops
from tilepipe.rewrite.forms import Loader, Shape, body_end, body_start, epilogue, peeled_edits, prologue
from tilepipe.rewrite.helpers import helper_text
from tilepipe.rewrite.launches import edit_launches, find_launches
from tilepipe.rewrite.lines import indent_of, line_start, with_comments, with_pragmas
from tilepipe.rewrite.registers import Staging, stage
from tilepipe.rewrite.rings import STAGES, Ring, ring, single
from tilepipe.rewrite.spread import moved_pointers
from tilepipe.rewrite.state import LoaderState, loader_state
from tilepipe.rewrite.types import Rewrite
from tilepipe.rewrite.wide import NONE, Repartition, as_launched, dispatched, repartition
from tilepipe.source import Edit, Span, apply_edits


@dataclass(frozen=True, eq=False)
class _Pieces:
    state: LoaderState
    loader: Loader
    ring: Ring
    wide: Repartition


def rewrite(
    model: KernelModel, candidate: Candidate, proved: tuple[Widened, ...] = (), aligned: bool = False
) -> Rewrite | Refusal:
    """Apply a candidate: the whole new file text with its edits, or why this candidate cannot be emitted (TP150).

    `proved` are the copies that may be widened; a candidate with `copy_bytes` makes use of them. With `aligned` every
    launch is promised to meet their conditions, as far as it decides them, and they are not asked in the kernel.
    """
    pieces = _pieces(model, candidate, proved)
    if isinstance(pieces, str):
        return refusal("TP150", f"candidate {candidate.id} cannot be emitted: {pieces}", _place(model))
    source = model.file.source
    loop = model.tile.loop
    indent = indent_of(source, loop.span.start)
    promised, asked = as_launched(model, pieces.wide.conditions) if aligned else ((), pieces.wide.conditions)
    # With a dispatch, both arms see the declarations that stood in the loop.
    rings = replace(pieces.ring, declarations=()) if asked else pieces.ring
    shape = Shape(model, candidate, pieces.state, pieces.loader, rings, indent)
    start = line_start(source, with_pragmas(source, loop.span.start))
    end = _line_end(model, loop.span.end)
    inner = [*consumer_edits(model)]
    if shape.peeled:
        inner += peeled_edits(shape, start)
    else:
        inner += [Edit(Span(start, start), prologue(shape)), *body_start(shape), *body_end(shape)]
    inner.append(Edit(Span(end, end), epilogue(shape)))
    edits = [*pieces.ring.edits, *inner]
    if promised:
        note = f"{indent}// Launched so that {', '.join(promised)}.\n"
        inner.insert(0, Edit(Span(start, start), note))
    if asked:
        both = [e for e in pieces.ring.edits if start <= e.span.start < end]
        pipelined = apply_edits(source.slice(Span(start, end)), [_moved(e, -start) for e in (*both, *inner)])
        original = apply_edits(source.slice(Span(start, end)), [_moved(e, -start) for e in both])
        first = pieces.ring.first
        text = dispatched(model, asked, pieces.ring.declarations, first, pipelined, original)
        edits = [*(e for e in pieces.ring.edits if e not in both), Edit(Span(start, end), text)]
    launch = _launch_edits(model, pieces.ring)
    edits += launch[0]
    top, at = _after_header_comment(model), line_start(source, with_comments(source, model.kernel.span.start))
    edits.append(Edit(Span(top, top), helper_text(" ".join(e.text for e in edits), source.text)))
    edits.append(Edit(Span(at, at), _constant(model, pieces.ring)))
    if candidate.min_blocks:
        cap = _cap_edit(model, candidate.min_blocks)
        if cap is None:
            return refusal(
                "TP150",
                f"candidate {candidate.id} needs a __launch_bounds__ with one argument",
                _place(model),
            )
        edits.append(cap)
    text = apply_edits(source.text, edits)
    return Rewrite(
        candidate.id, text, tuple(edits), pieces.ring.stages_factor, pieces.ring.extra_dynamic, launch[1],
        _notes(model, pieces.ring), promised, bool(asked),
    )  # fmt: skip


def _moved(edit: Edit, by: int) -> Edit:
    return Edit(Span(edit.span.start + by, edit.span.end + by), edit.text)


def _cap_edit(model: KernelModel, blocks: int) -> Edit | None:
    """State the minimum of resident blocks beside the kernel's own bound on threads."""
    at = launch_bound_span(model.file, model.kernel)
    return Edit(Span(at.end, at.end), f", {blocks}") if at is not None else None


def _after_header_comment(model: KernelModel) -> int:
    """Where the file's leading comment ends: before any macro that could change what the helpers mean."""
    for node in model.file.tree.root.children:
        if node.type != "comment":
            return line_start(model.file.source, node.start_byte)
    return 0


def _place(model: KernelModel) -> Place:
    at = model.tile.loop.span.start
    return model.file.source.place(Span(at, at + 3))


def _line_end(model: KernelModel, offset: int) -> int:
    data = model.file.source.data
    end = data.find(b"\n", offset)
    return len(data) if end < 0 else end + 1


def _pieces(model: KernelModel, candidate: Candidate, proved: tuple[Widened, ...]) -> _Pieces | str:
    state = loader_state(model)
    if isinstance(state, str):
        return state
    wide = repartition(model, proved, candidate.copy_bytes) if candidate.copy_bytes else NONE
    if isinstance(wide, str):
        return wide
    counted = CountedLoops(model, wide)
    staged = frozenset(b.piece for b in model.buffers)
    widened = frozenset(b.piece for b in model.buffers if wide.covers(model, b.piece))
    direct = widened | frozenset(b.piece for b in model.buffers if b.copy_bytes is not None)
    through: frozenset[Symbol] = frozenset()
    if candidate.variant == "cp_async":
        if direct != staged:
            b = next(b for b in model.buffers if b.piece not in direct)
            return f"`{b.name}` cannot be copied asynchronously: {b.reason}"
    elif candidate.variant == "mixed":
        through = staged - direct
        if not direct or not through:
            return "all buffers go the same way"
    else:
        direct, through = frozenset(), staged
    if candidate.variant == "prefetch":
        rings: Ring | str = single(model)
    else:
        arrays = frozenset(b.array for b in model.buffers if b.piece in widened)
        rings = ring(model, candidate.stages, candidate.dynamic, arrays)
    if isinstance(rings, str):
        return rings
    inner = [i for i in model.split.loader if i.own.defs & model.split.state and i not in state.tail]
    if direct and through and inner:
        return "pointers are moved on within the load phase, which two loaders cannot share"
    load = None
    if direct:
        leave = state.tail if through or candidate.form == "textbook" else frozenset()
        load = asynchronous(model, direct, leave, counted, wide)
    staging: Staging | None = None
    if through:
        staged_through = stage(model, through, state.tail, counted)
        if isinstance(staged_through, str):
            return staged_through
        staging = staged_through
    taken = _names_taken(model, rings)
    if taken is not None:
        return taken
    refused = _textbook_refused(model) if candidate.form == "textbook" else None
    if refused is not None:
        return refused
    if wide and (rings.rebind or candidate.form == "textbook"):
        return "wide copies need a ring whose tiles are not read after the loop"
    started = replace(state, setup=(*moved_pointers(tuple(wide.spread.values())), *state.setup))
    return _Pieces(started, Loader(load, staging), rings, wide)


def _names_taken(model: KernelModel, rings: Ring) -> str | None:
    """Why the names that a pipeline introduces cannot be: the kernel has them already."""
    words = (
        set(re.findall(r"[A-Za-z_]\w*", model.file.source.slice(model.kernel.span)))
        | model.file.macros.keys()
    )
    new = {f"{s.name}_next" for s in model.split.copied}
    new |= set(re.findall(r"\b\w+_ring\b", " ".join([*rings.declarations, *rings.setup, *rings.bind])))
    taken = sorted((new & words) | {w for w in words if w.startswith("tp_") or w == STAGES})
    return f"the kernel has a name `{taken[0]}` of its own" if taken else None


def _textbook_refused(model: KernelModel) -> str | None:
    """Why the last tile cannot be peeled: the loop's variable then lives on after the loop."""
    if model.tile.loop.condition_effects.defs:
        return "the textbook form needs a loop condition without side effects"
    names = {s.name for s in model.tile.loop.declares}
    for statement in surroundings.after(model.tile):
        words = set(re.findall(r"[A-Za-z_]\w*", model.file.source.slice(statement.span)))
        if names & words:
            return f"`{next(iter(names & words))}` names something else after the loop"
    return None


def _constant(model: KernelModel, rings: Ring) -> str:
    if rings.stages_factor == 1 and not rings.extra_dynamic:
        return ""
    name = f"{model.kernel.name}_"
    if rings.extra_dynamic:
        return (
            "// Dynamic shared memory that a launch of the pipelined kernel must ask for, in bytes.\n"
            f"constexpr int {name}shared_bytes = {rings.extra_dynamic};\n\n"
        )
    return (
        "// A launch of the pipelined kernel must ask for this many times the dynamic shared memory of before,\n"
        "// each stage rounded up to 16 bytes.\n"
        f"constexpr int {name}stages = {rings.stages_factor};\n\n"
    )


def _launch_edits(model: KernelModel, rings: Ring) -> tuple[tuple[Edit, ...], tuple[int, ...]]:
    if rings.stages_factor == 1 and not rings.extra_dynamic:
        return (), ()
    if not find_launches(model.file, model.kernel):
        return (), ()
    if rings.extra_dynamic:
        return edit_launches(model.file, model.kernel, f"{model.kernel.name}_shared_bytes")
    return edit_launches(model.file, model.kernel, f"{model.kernel.name}_stages * (({{old}} + 15) / 16 * 16)")


def _notes(model: KernelModel, rings: Ring) -> tuple[str, ...]:
    notes = []
    if rings.stages_factor > 1:
        notes.append(f"launches must ask for {rings.stages_factor} times the dynamic shared memory")
    if rings.extra_dynamic:
        notes.append(f"launches must ask for {rings.extra_dynamic} bytes of dynamic shared memory")
    if surroundings.is_repeated(model.tile):
        notes.append("the pipeline is drained and refilled in each iteration of the outer loop")
    return tuple(notes)
