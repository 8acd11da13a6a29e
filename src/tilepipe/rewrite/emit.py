"""Assembles a candidate's source: declarations, loader, prologue, main loop, epilogue."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tilepipe.diagnostics import Place, Refusal, refusal
from tilepipe.kernel import surroundings
from tilepipe.kernel.flow import Item
from tilepipe.kernel.fragments import FragmentLoop
from tilepipe.kernel.fromheader import without_copies
from tilepipe.kernel.model import KernelModel
from tilepipe.kernel.overrun import overrun
from tilepipe.kernel.slots import stash
from tilepipe.kernel.spliced import spliced_words
from tilepipe.kernel.symbols import Symbol
from tilepipe.kernel.vectorstores import vector_stores
from tilepipe.kernel.widen import Widened
from tilepipe.plan.types import Candidate
from tilepipe.rewrite.ablations import (
    Ablation,
    ablated_candidate,
    ablated_edits,
    ablated_ring,
    ablated_state,
    left_out,
)
from tilepipe.rewrite.api import copy_argument
from tilepipe.rewrite.api import refused as api_refused
from tilepipe.rewrite.asynchronous import asynchronous
from tilepipe.rewrite.cap import cap_edit
from tilepipe.rewrite.consumer import consumer_edits
from tilepipe.rewrite.counted import CountedLoops
from tilepipe.rewrite.forms import body_end, body_start, epilogue, peeled_edits, prologue
from tilepipe.rewrite.guard import Instances, guard_edit
from tilepipe.rewrite.helpers import helper_text
from tilepipe.rewrite.issue import Spread, spread
from tilepipe.rewrite.launches import edit_launches, find_launches, mentions_beside_launches
from tilepipe.rewrite.lines import indent_of, line_start, with_comments, with_pragmas
from tilepipe.rewrite.registers import Staging, stage
from tilepipe.rewrite.rings import STAGES, Ring, ring, single
from tilepipe.rewrite.shape import Loader, Shape
from tilepipe.rewrite.slots import Stashing, stashing
from tilepipe.rewrite.spread import moved_pointers
from tilepipe.rewrite.stash import stash_edits, stash_epilogue
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
    past_end: tuple[str, ...] = ()  # the conditions under which the loader may run past the last tile
    fragments: FragmentLoop | None = None
    stashing: Stashing | None = None


def rewrite(
    model: KernelModel,
    candidate: Candidate,
    proved: tuple[Widened, ...] = (),
    aligned: bool = False,
    ablation: Ablation | None = None,
    instances: Instances = (),
) -> Rewrite | Refusal:
    """Apply a candidate: the whole new file text with its edits, or why this candidate cannot be emitted (TP150).

    `proved` are the copies that may be widened; a candidate with `copy_bytes` makes use of them. With `aligned` every
    launch is promised to meet their conditions, as far as it decides them, and they are not asked in the kernel.
    `ablation`: with a part of the work taken out, to be timed and not used. `instances` are those of a template that
    the text is for, by the conditions that hold in each alone: no other compiles.
    """
    chosen = candidate if ablation is None else ablated_candidate(candidate, ablation)
    pieces = chosen if isinstance(chosen, str) else _pieces(model, chosen, proved)
    if isinstance(pieces, str) or isinstance(chosen, str):
        return refusal("TP150", f"candidate {candidate.id} cannot be emitted: {pieces}", _place(model))
    candidate = chosen
    pieces = replace(
        pieces,
        state=ablated_state(pieces.state, ablation),
        ring=ablated_ring(model, pieces.ring, ablation),
    )
    source = model.file.source
    loop = model.tile.loop
    indent = indent_of(source, loop.span.start)
    promised, asked = as_launched(model, pieces.wide.conditions) if aligned else ((), pieces.wide.conditions)
    asked = (*asked, *pieces.past_end)
    # With a dispatch, both arms see the declarations that stood in the loop.
    rings = replace(pieces.ring, declarations=()) if asked else pieces.ring
    shape = Shape(model, candidate, pieces.state, pieces.loader, rings, indent, pieces.fragments)
    start = line_start(source, with_pragmas(source, loop.span.start))
    end = _line_end(model, loop.span.end)
    inner = _inner(shape, pieces, Span(start, end), ablation)
    if promised:
        note = f"{indent}// Launched so that {', '.join(promised)}.\n"
        inner.insert(0, Edit(Span(start, start), note))
    guard = guard_edit(model, instances)
    edits = [guard, *pieces.ring.edits, *inner]
    if asked:
        both = [e for e in pieces.ring.edits if start <= e.span.start < end]
        pipelined = apply_edits(source.slice(Span(start, end)), [_moved(e, -start) for e in (*both, *inner)])
        original = apply_edits(source.slice(Span(start, end)), [_moved(e, -start) for e in both])
        first = pieces.ring.first
        text = dispatched(model, asked, pieces.ring.declarations, first, pipelined, original)
        edits = [guard, *(e for e in pieces.ring.edits if e not in both), Edit(Span(start, end), text)]
    launch = _launch_edits(model, pieces.ring)
    edits += launch[0]
    top, at = _after_header_comment(model), line_start(source, with_comments(source, model.kernel.span.start))
    emitted = " ".join(e.text for e in edits)
    edits.append(Edit(Span(top, top), helper_text(emitted, source.text, candidate.api)))
    edits.append(Edit(Span(at, at), _constant(model, pieces.ring)))
    if candidate.min_blocks:
        cap = cap_edit(model.file, model.kernel, candidate.min_blocks, candidate.threads)
        if cap is None:
            return refusal(
                "TP150",
                f"candidate {candidate.id} needs a __launch_bounds__ with one argument, or a block size that is known",
                _place(model),
            )
        edits.append(cap)
    text = without_copies(model.file, apply_edits(source.text, edits))
    return Rewrite(
        candidate.id, text, tuple(edits), pieces.ring.stages_factor, pieces.ring.extra_dynamic, launch[1],
        _notes(model, candidate, pieces.ring, launch[1]), promised, bool(asked),
    )  # fmt: skip


def _inner(s: Shape, pieces: _Pieces, at: Span, ablation: Ablation | None) -> list[Edit]:
    """The edits from the loop's first line to its last, prologue and epilogue included."""
    elsewhere = _elsewhere(s.model, pieces.fragments) | left_out(s.model, ablation)
    inner = [*consumer_edits(s.model, elsewhere)]
    if pieces.stashing is not None:
        return [
            *inner,
            *stash_edits(s, pieces.stashing, at.start),
            Edit(Span(at.end, at.end), stash_epilogue(s)),
        ]
    if s.peeled:
        inner += peeled_edits(s, at.start)
    else:
        first = Edit(Span(at.start, at.start), prologue(s))
        inner += [first, *body_start(s), *body_end(s)]
    inner.append(Edit(Span(at.end, at.end), epilogue(s)))
    return ablated_edits(inner, ablation)


def _elsewhere(model: KernelModel, fragments: FragmentLoop | None) -> frozenset[Item]:
    """What the loop over groups loses to the lambda that loads fragments."""
    gone = fragments.gone if fragments is not None else ()
    return frozenset(model.tile.flow.of[id(s)] for top in gone for s in top.walk())


def _has_pragma(model: KernelModel) -> bool:
    """Whether pragma lines stand before the tile loop."""
    source, at = model.file.source, model.tile.loop.span.start
    return line_start(source, with_pragmas(source, at)) < line_start(source, at)


def _moved(edit: Edit, by: int) -> Edit:
    return Edit(Span(edit.span.start + by, edit.span.end + by), edit.text)


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
    if model.one_buffer is not None and candidate.variant != "prefetch":
        return f"{model.one_buffer.diagnostics[0].message}: only one buffer keeps the result"
    if candidate.remedy == "unroll1" and _has_pragma(model):
        return "the tile loop has a pragma of its own"
    state = loader_state(model)
    if isinstance(state, str):
        return state
    unwritten = api_refused(model, candidate)
    if unwritten:
        return unwritten
    wide = repartition(model, proved, candidate.copy_bytes) if candidate.copy_bytes else NONE
    if isinstance(wide, str):
        return wide
    counted = CountedLoops(model, wide)
    staged = frozenset(b.piece for b in model.buffers)
    widened = frozenset(b.piece for b in model.buffers if wide.covers(model, b.piece))
    direct = widened | frozenset(b.piece for b in model.buffers if b.copy_bytes is not None)
    through: frozenset[Symbol] = frozenset()
    if candidate.variant == "stash":
        if candidate.fragments:
            return "slots and fragments in two slots are not combined"
        return _stashed(model, candidate, state, counted, wide)
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
    vectors = vector_stores(model, through)
    if candidate.variant == "prefetch":
        rings: Ring | str = single(model, frozenset(v.array for v in vectors))
    else:
        arrays = frozenset(
            (*(b.array for b in model.buffers if b.piece in widened), *(v.array for v in vectors))
        )
        rings = ring(model, candidate.stages, candidate.dynamic, arrays)
    if isinstance(rings, str):
        return rings
    inner = [i for i in model.split.loader if i.own.defs & model.split.state and i not in state.tail]
    if direct and through and inner:
        return "pointers are moved on within the load phase, which two loaders cannot share"
    load = None
    fragments = model.fragments if candidate.fragments else None
    if isinstance(fragments, str):
        return fragments
    if fragments is not None and candidate.variant == "cp_async" and model.tile.loop.condition_effects.defs:
        return "the loop's condition has a side effect, and fragments ask it once more than there are tiles"
    dealt: Spread | None = None
    if candidate.spread and fragments is not None:
        shares = spread(model, counted, wide, fragments.groups)
        if isinstance(shares, str) or inner:
            return shares if isinstance(shares, str) else "pointers are moved on within the load phase"
        dealt = shares
    if direct:
        leave = state.tail if through or dealt or candidate.form == "textbook" else frozenset()
        load = asynchronous(
            model, direct, leave, counted, wide, dealt.shares if dealt else (), copy_argument(candidate)
        )
    staging: Staging | None = None
    if through:
        staged_through = stage(model, through, state.tail, counted, vectors)
        if isinstance(staged_through, str):
            return staged_through
        staging = staged_through
    slots = [f"{s.name}_slots" for s in fragments.names] if fragments is not None else []
    taken = _names_taken(model, rings, slots)
    if taken is not None:
        return taken
    refused = _textbook_refused(model) if candidate.form == "textbook" else None
    if refused is not None:
        return refused
    if wide and (rings.rebind or candidate.form == "textbook"):
        return "wide copies need a ring whose tiles are not read after the loop"
    started = replace(state, setup=(*moved_pointers(tuple(wide.spread.values())), *state.setup))
    if candidate.remedy != "overrun":
        return _Pieces(started, Loader(load, staging, dealt), rings, wide, (), fragments)
    past_end = overrun(model, (*wide.wide.values(), *wide.spread.values()), candidate.stages)
    if isinstance(past_end, str):
        return past_end
    return _Pieces(replace(started, more=""), Loader(load, staging, dealt), rings, wide, past_end, fragments)


def _stashed(
    model: KernelModel, candidate: Candidate, state: LoaderState, counted: CountedLoops, wide: Repartition
) -> _Pieces | str:
    """The pieces of the form with slots."""
    if wide.spread:
        return "copies dealt to the threads anew do not go beside slots"
    widths = {b.piece: 16 if wide.covers(model, b.piece) else b.copy_bytes for b in model.buffers}
    chosen = stash(model, widths)
    if isinstance(chosen, str):
        return chosen
    vectors = vector_stores(model, chosen.through)
    found = stashing(model, chosen, candidate.stages, state, counted, wide, vectors)
    if isinstance(found, str):
        return found
    aligned = frozenset(b.array for b in model.buffers if wide.covers(model, b.piece))
    aligned |= {v.array for v in vectors}
    rings = ring(model, candidate.stages, candidate.dynamic, aligned, found.doubled)
    if isinstance(rings, str):
        return rings
    taken = _names_taken(model, rings, [line.partition(" = ")[0].split()[-1] for line in found.state.setup])
    if taken is not None:
        return taken
    in_loop = any(b.array.decl.start > model.tile.loop.span.start for b in model.buffers)
    if wide.wide and (rings.rebind or in_loop):
        return "wide copies need a ring whose tiles are declared before the loop and not read after it"
    return _Pieces(state, Loader(found.load, None), rings, wide, stashing=found)


def _names_taken(model: KernelModel, rings: Ring, more: Iterable[str] = ()) -> str | None:
    """Why the names that a pipeline introduces cannot be: the kernel has them already."""
    words = (
        set(re.findall(r"[A-Za-z_]\w*", model.file.source.slice(model.kernel.span)))
        | model.file.macros.keys()
        | spliced_words(model.file, model.split)
    )
    new = {f"{s.name}_next" for s in model.split.copied} | set(more)
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
    if rings.extra_dynamic and model.dynamic:
        return (
            "// A launch of the pipelined kernel must ask for this much more dynamic shared memory, in bytes.\n"
            f"constexpr int {name}more_bytes = {rings.extra_dynamic};\n\n"
        )
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
    scope = model.kernel.scope
    name = "".join(f"::{part}" for part in (*scope, model.kernel.name)) if scope else model.kernel.name
    if rings.extra_dynamic and model.dynamic:
        return edit_launches(model.file, model.kernel, f"({{old}}) + {name}_more_bytes")
    if rings.extra_dynamic:
        return edit_launches(model.file, model.kernel, f"{name}_shared_bytes")
    return edit_launches(model.file, model.kernel, f"{name}_stages * (({{old}} + 15) / 16 * 16)")


def _notes(model: KernelModel, candidate: Candidate, rings: Ring, edited: tuple[int, ...]) -> tuple[str, ...]:
    notes = []
    if candidate.threads:
        bound = f"`__launch_bounds__({candidate.threads}, {candidate.min_blocks})` was added"
        notes.append(f"{bound}: a launch with more than {candidate.threads} threads per block fails")
    if rings.stages_factor > 1 or rings.extra_dynamic:
        more = " more" if model.dynamic else ""
        wanted = f"{rings.extra_dynamic} bytes{more} of dynamic shared memory"
        if rings.stages_factor > 1:
            wanted = f"{rings.stages_factor} times the dynamic shared memory"
        lines = ", ".join(map(str, edited))
        done = (
            f"line{'s' if len(edited) > 1 else ''} {lines} edited: launches ask for {wanted}, as others must"
        )
        notes.append(done if edited else f"launches must ask for {wanted}")
        named = ", ".join(map(str, mentions_beside_launches(model.file, model.kernel)))
        if named:
            notes.append(f"a launch by what names the kernel in line {named} must be edited by hand")
    if surroundings.is_repeated(model.tile):
        notes.append("the pipeline is drained and refilled in each iteration of the outer loop")
    return tuple(notes)
