"""The main loop's body as it is left to the consumer: loads moved out, redundant barriers gone."""

from __future__ import annotations

import re

from tilepipe.kernel.effects import total
from tilepipe.kernel.flow import Item
from tilepipe.kernel.model import KernelModel
from tilepipe.kernel.statements import Statement, acts
from tilepipe.rewrite.lines import line_start, whole_lines, with_comments, with_pragmas
from tilepipe.source import Edit, Span


def consumer_edits(model: KernelModel, elsewhere: frozenset[Item] = frozenset()) -> tuple[Edit, ...]:
    """Edits on the loop body that leave what the consumer runs; `elsewhere` is emitted at another place."""
    edits: list[Edit] = []
    moved = model.split.moved | elsewhere
    barriers = redundant_barriers(model)
    declared_in_loop = {b.array.decl for b in model.buffers}
    for statement in model.tile.body:
        if statement.span in declared_in_loop:
            continue  # the ring's declaration edit takes it away
        if statement in barriers:
            edits.append(Edit(whole_lines(model.file.source, statement.span), ""))
        else:
            _remove(model, statement, None, moved, edits)
    return tuple(_without_blank_doubles(model, edits))


def _gone(model: KernelModel, statement: Statement, moved: frozenset[Item]) -> bool:
    """Whether the loader does all that a statement does; a helper's static_assert is left behind with its call."""
    call = statement.kind == "call"
    parts = [s for s in statement.walk() if (acts(s) if call else s.kind != "block")]
    return bool(parts) and all(model.tile.flow.of[id(s)] in moved for s in parts)


def _remove(
    model: KernelModel,
    statement: Statement,
    parent: Statement | None,
    moved: frozenset[Item],
    edits: list[Edit],
) -> None:
    if _gone(model, statement, moved):
        if parent is not None and parent.kind != "block":
            edits.append(Edit(statement.span, "{}"))
            return
        start = with_pragmas(model.file.source, statement.span.start)
        start = with_comments(model.file.source, start)
        edits.append(Edit(whole_lines(model.file.source, Span(start, statement.span.end)), ""))
        return
    if statement.kind == "call":
        return
    if statement.kind == "leaf" and _asserts_of(model, statement, moved):
        edits.append(Edit(whole_lines(model.file.source, statement.span), ""))
        return
    for child in statement.children:
        _remove(model, child, statement, moved, edits)


def _asserts_of(model: KernelModel, statement: Statement, moved: frozenset[Item]) -> bool:
    """Whether a static_assert names what the loader alone declares: it held when the original was compiled."""
    text = model.file.source.slice(statement.span)
    if not text.startswith("static_assert"):
        return False
    lost = {s.name for i in moved if i.statement.kind == "declaration" for s in i.statement.declares}
    return bool(lost & set(re.findall(r"[A-Za-z_]\w*", text)))


def redundant_barriers(model: KernelModel) -> frozenset[Statement]:
    """The author's barriers at either end of the body with no memory access of the consumer before (or after).

    The pipeline's own barrier stands at that very place. A barrier with a result (a count of votes) stays.
    """
    phases = model.tile.phases
    found: set[Statement] = set()
    for order in (phases, tuple(reversed(phases))):
        for phase in order:
            if phase.is_barrier and not phase.statement.own.defs:
                found.add(phase.statement)
            elif _touches_memory(model, phase.statement):
                break
    return frozenset(found)


def _touches_memory(model: KernelModel, statement: Statement) -> bool:
    kept = [s.own for s in statement.walk() if model.tile.flow.of[id(s)] not in model.split.moved]
    effects = total(kept)
    return bool(effects.reads or effects.writes or effects.flags & {"barrier", "asm"} or effects.opaque)


def _without_blank_doubles(model: KernelModel, edits: list[Edit]) -> list[Edit]:
    """Where lines go, the blank line after them goes too if one stands before."""
    data = model.file.source.data
    out: list[Edit] = []
    ends = {e.span.end for e in edits}
    for edit in edits:
        end = edit.span.end
        starts_line = line_start(model.file.source, edit.span.start) == edit.span.start
        following = data.find(b"\n", end)
        blank = starts_line and not edit.text and following >= 0 and not data[end:following].strip()
        before = data[: edit.span.start].rstrip(b" \t")
        if (
            blank
            and end not in {e.span.start for e in edits}
            and (before.endswith((b"\n\n", b"{\n")) or edit.span.start in ends)
        ):
            end = following + 1
        out.append(Edit(Span(edit.span.start, end), edit.text))
    return out
