"""Copies re-partitioned to move several elements at a time, behind one dispatch per block."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from tilepipe.kernel.copies import Copy
from tilepipe.kernel.macros import addend
from tilepipe.kernel.model import KernelModel
from tilepipe.kernel.spreader import Spread
from tilepipe.kernel.symbols import Symbol
from tilepipe.kernel.widen import Wide, Widened
from tilepipe.rewrite.lines import indent_of, line_start, reindent
from tilepipe.source import Edit, Span


@dataclass(frozen=True, eq=False)
class Repartition:
    """The copies that a candidate widens, by the copy, and the conditions that the block must meet for it."""

    wide: dict[int, Wide]  # by id of the copy
    spread: dict[int, Spread] = field(default_factory=dict)  # those dealt to the threads anew

    def __bool__(self) -> bool:
        return bool(self.wide or self.spread)

    @property
    def conditions(self) -> tuple[str, ...]:
        proved: tuple[Widened, ...] = (*self.wide.values(), *self.spread.values())
        return tuple(dict.fromkeys(c for w in proved for c in w.conditions))

    def of(self, copy: Copy) -> Wide | None:
        """How the copy is widened, None where it stays."""
        return self.wide.get(id(copy))

    def loops(self) -> dict[int, Wide]:
        """The copy loops whose headers change, by id of the statement."""
        return {id(w.loop): w for w in self.wide.values()}

    def covers(self, model: KernelModel, piece: Symbol) -> bool:
        """Whether every copy into the buffer is widened."""
        copies = [c for c in model.copies if c.use.buffer == piece]
        return bool(copies) and all(id(c) in self.wide or id(c) in self.spread for c in copies)


NONE = Repartition({})


def repartition(model: KernelModel, proved: Iterable[Widened], most: int) -> Repartition | str:
    """Widen every copy loop in which all copies may be widened alike, up to `most` bytes; a reason for none.

    All copies of one loop share its index, so they are widened together or not at all.
    """
    usable = [w for w in proved if w.bytes <= most]
    by_copy = {id(w.copy): w for w in usable if isinstance(w, Wide)}
    spread = {id(w.copy): w for w in usable if isinstance(w, Spread)}
    chosen: dict[int, Wide] = {}
    for wide in by_copy.values():
        together = [by_copy.get(id(c)) for c in model.copies if wide.loop in c.use.item.parents]
        same = all(w is not None and (w.index, w.elements) == (wide.index, wide.elements) for w in together)
        merged = {id(s) for w in together if w is not None for s in w.copy.replaces.walk()}
        # Whatever else the loop does would run as often as there are groups, not elements.
        others = [s for s in wide.loop.children[0].walk() if s.kind not in ("block", "declaration")]
        if same and all(id(s) in merged for s in others):
            chosen[id(wide.copy)] = wide
    if not chosen and not spread:
        return "no copy can be proved wider than it is"
    return Repartition(chosen, spread)


def loop_edits(model: KernelModel, wide: Wide) -> tuple[Edit, ...]:
    """The copy loop's header with as many iterations as groups, and its index at the first element of a group."""
    source = model.file.source
    trips = model.trips[id(wide.loop)]
    indent = indent_of(source, wide.loop.span.start)
    groups = wide.count // wide.elements
    turns = -(-groups // wide.threads)
    own_line = (
        f"\n{indent}"
        if source.data[line_start(source, wide.loop.span.start) : wide.loop.span.start].strip()
        else ""
    )
    check = f"if ({wide.index.name} >= {wide.count}) break;" if turns * wide.threads != groups else ""
    c = trips.loop
    body = wide.loop.children[0].span
    if wide.declared is not None:
        header = f"{own_line}#pragma unroll\n{indent}for (int {c.counter} = 0; {c.counter} < {turns}; ++{c.counter})"
        after = _statement_end(source.data, wide.declared.end)
        edits = [
            Edit(c.header, header),
            Edit(wide.declared, f"({source.slice(wide.declared)}) * {wide.elements}"),
        ]
        if check:
            edits.append(Edit(Span(after, after), f"\n{indent}    {check}"))
        return tuple(edits)
    number = f"tp_{c.counter}"
    start = f"{addend(c.start, model.file.macros)} + " if c.start.strip() != "0" else ""
    lines = [f"const {c.type} {c.counter} = ({start}{number} * {wide.threads}) * {wide.elements};", check]
    inside = "".join(f"\n{indent}    {line}" for line in lines if line)
    header = (
        f"{own_line}#pragma unroll\n{indent}for (int {number} = 0; {number} < {turns}; ++{number}) {{{inside}"
    )
    if source.data[body.start : body.start + 1] == b"{":
        return (Edit(Span(c.header.start, body.start + 1), header),)
    return (Edit(c.header, header), Edit(Span(body.end, body.end), f"\n{indent}}}"))


def _statement_end(data: bytes, offset: int) -> int:
    return data.index(b";", offset) + 1


def as_launched(model: KernelModel, conditions: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The conditions that a launch decides by its arguments and its blocks, and the others."""
    loop = model.tile.loop.span.start
    body = [s for s in model.analysed.body.walk() if s is not model.analysed.body]
    changed = {v for s in body for v in s.own.defs if s.span.start < loop}
    hidden = {v.name for s in body for v in s.declares}
    own = {p.name for p in model.analysed.parameters if p not in changed} - hidden
    words = own | {"blockDim", "x", "y", "z", "tp_aligned"}
    decided = tuple(c for c in conditions if set(re.findall(r"[A-Za-z_]\w*", c)) <= words)
    return decided, tuple(c for c in conditions if c not in decided)


def dispatched(
    model: KernelModel,
    conditions: Iterable[str],
    declarations: Iterable[str],
    binds: Iterable[str],
    pipelined: str,
    original: str,
) -> str:
    """The pipelined loop behind the conditions of its wide copies, the author's loop as the other arm.

    `declarations` are those of both arms, `binds` name stage 0 for the author's loop; both texts keep the loop's own
    indentation on entry.
    """
    indent = indent_of(model.file.source, model.tile.loop.span.start)
    inside = indent + "    "
    joined = f"\n{indent}                     && ".join(conditions)
    lines = [
        *(indent + line for line in declarations),
        f"{indent}// Wide copies need whole groups of elements at aligned addresses; the author's loop does the rest.",
        f"{indent}const bool tp_wide = {joined};",
        f"{indent}if (tp_wide) {{",
        reindent(pipelined, inside).rstrip("\n"),
        f"{indent}}} else {{",
        *(inside + bind for bind in binds),
        reindent(original, inside).rstrip("\n"),
        f"{indent}}}",
    ]
    return "\n".join(lines) + "\n"
