"""The load phase with asynchronous copies in the place of the author's stores."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tilepipe.kernel.copies import Copy
from tilepipe.kernel.flow import Item
from tilepipe.kernel.model import KernelModel
from tilepipe.kernel.symbols import Symbol
from tilepipe.kernel.widen import Wide
from tilepipe.rewrite.counted import CountedLoops
from tilepipe.rewrite.project import Projection
from tilepipe.rewrite.wide import NONE, Repartition

_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, eq=False)
class Issue:
    """Copies into slots in the place of a whole statement: their text, and the names that they need."""

    text: str
    uses: frozenset[Symbol]


def asynchronous(
    model: KernelModel,
    buffers: frozenset[Symbol],
    without: frozenset[Item],
    loops: CountedLoops,
    wide: Repartition = NONE,
    shares: tuple[str, ...] = (),
    pipe: str = "",
    issues: Mapping[Item, Issue] | None = None,
) -> Projection:
    """The loader for `buffers`: copies issued, everything they need kept, values in between gone.

    `without` are statements left out (what advances to the next tile, where that is done elsewhere); `shares` has
    a condition for each copy under which it is issued, where they are spread; `pipe` is each copy's first argument.
    `issues` are copies into slots, by the statement whose place they take.
    """
    flow = model.tile.flow
    copies = [c for c in model.copies if isinstance(c, Copy) and c.use.buffer in buffers]
    uses = {c.use.item: c.uses for c in copies}
    replaced = {id(c.replaces): _call(model, c, wide.of(c), pipe) for c in copies}
    for copy, share in zip(copies, shares, strict=False):
        call = _deeper(replaced[id(copy.replaces)])
        replaced[id(copy.replaces)] = (
            f"if ({share}) {{\n    {call}\n}}" if call.startswith("if") else f"if ({share})\n    {call}"
        )
    for item, issue in (issues or {}).items():
        uses[item] = issue.uses
        replaced[id(item.statement)] = issue.text
    merged = {id(s) for c in copies if c.replaces is not c.use.item.statement for s in c.replaces.walk()}
    merged -= {id(c.replaces) for c in copies}
    fills = [
        s.item
        for s in model.tile.stores
        if s.buffer in buffers
        and s.kind != "compute"
        and s.item not in uses
        and id(s.item.statement) not in merged
    ]
    advancing = [i for i in model.split.loader if i.own.defs & model.split.state]
    kept = flow.backward([*uses, *fills, *advancing], uses, without)
    foreign = {s.item for s in model.tile.stores if s.buffer not in buffers}
    keep = frozenset(kept - foreign)
    return Projection(model.file.source, model.tile, keep, replaced, loops.edits(keep), loops.pragmas(keep))


def _deeper(text: str) -> str:
    return text.replace("\n", "\n    ")


def _call(model: KernelModel, copy: Copy, wide: Wide | None, pipe: str) -> str:
    target, source = address(copy.target), address(copy.source)
    function = f"tp_copy_wide<{wide.bytes}>" if wide is not None else "tp_copy"
    if copy.guard is None:
        return f"{function}({pipe}{target}, {source});"
    if copy.fill is not None:
        store = f"{copy.target} = {copy.fill};"
        if wide is not None:
            store = (
                f"for (int tp_v = 0; tp_v < {wide.elements}; ++tp_v)\n        ({target})[tp_v] = {copy.fill};"
            )
        return f"if ({copy.guard})\n    {function}({pipe}{target}, {source});\nelse\n    {store}"
    function = function.replace("<", "_or_zero<") if wide is not None else "tp_copy_or_zero"
    return f"{function}({pipe}{target}, {source}, {copy.guard}, {_valid(model, copy, source)});"


def _valid(model: KernelModel, copy: Copy, source: str) -> str:
    """An address of the source array that is valid whatever the guard says."""
    if copy.root is not None and not copy.use.item.statement.context and not copy.source_at.statement.context:
        return copy.root.name
    pointers = {s.name for s in copy.uses if s.pointer}
    return next((word for word in _WORD.findall(source) if word in pointers), source)


def address(lvalue: str) -> str:
    """The text of an lvalue's address: `*p` gives `p`, `a[i]` gives `&a[i]`."""
    text = lvalue.strip()
    return text[1:].strip() if text.startswith("*") else f"&{text}"
