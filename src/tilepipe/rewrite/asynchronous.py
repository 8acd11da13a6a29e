"""The load phase with asynchronous copies in the place of the author's stores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tilepipe.kernel.copies import Copy
from tilepipe.kernel.flow import Item
from tilepipe.kernel.macros import addend
from tilepipe.kernel.model import KernelModel
from tilepipe.kernel.spreader import Spread
from tilepipe.kernel.symbols import Symbol
from tilepipe.kernel.widen import Wide
from tilepipe.rewrite.addresses import address
from tilepipe.rewrite.counted import CountedLoops
from tilepipe.rewrite.lines import indent_of, with_pragmas
from tilepipe.rewrite.project import Projection
from tilepipe.rewrite.spread import first_threads, nothing_else, spread_text
from tilepipe.rewrite.wide import NONE, Repartition
from tilepipe.source import Edit, Span


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
    replaced: dict[int, str] = {}
    share = dict(zip(map(id, copies), shares, strict=False))
    for copy in copies:
        if id(copy) not in wide.spread:
            before_it = replaced.get(id(copy.replaces))
            text = _shared(_call(model, copy, wide.of(copy), pipe), share.get(id(copy)))
            replaced[id(copy.replaces)] = f"{before_it}\n{text}" if before_it else text
    anew = [wide.spread[id(c)] for c in copies if id(c) in wide.spread]
    uses |= {s.copy.use.item: s.redeclared.uses for s in anew}
    blocks, before = _blocks(model, copies, anew, replaced)
    replaced |= blocks
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
    edits = loops.edits(keep)
    edits |= {at: (*before[at], *edits.get(at, ())) for at in before}
    pragmas = loops.pragmas(keep) | frozenset(blocks)
    return Projection(model.file.source, model.tile, keep, replaced, edits, pragmas)


def _shared(call: str, share: str | None) -> str:
    """The call under the condition that its part of the tile is the one issued."""
    if share is None:
        return call
    inner = call.replace("\n", "\n    ")
    return f"if ({share}) {{\n    {inner}\n}}" if call.startswith("if") else f"if ({share})\n    {inner}"


def _blocks(
    model: KernelModel, copies: list[Copy], spreads: list[Spread], narrow: Mapping[int, str]
) -> tuple[dict[int, str], dict[int, tuple[Edit, ...]]]:
    """The blocks that take the place of nests, by id of the statement, and those that stand before a nest which
    other copies keep. `narrow` are the texts of these, by id of the statement that they replace."""
    first = first_threads(spreads)
    blocks: dict[int, str] = {}
    before: dict[int, tuple[Edit, ...]] = {}
    for at, nest in {id(s.nest): s.nest for s in spreads}.items():
        mine = [s for s in spreads if s.nest is nest]
        joined = "\n".join(_block(model, s, first.get(id(s.copy), 0)) for s in mine)
        inside = list(nest.walk())
        moved = {id(s.copy) for s in mine}
        others = [c for c in copies if c.use.item.statement in inside and id(c) not in moved]
        if at in narrow:
            blocks[at] = f"{joined}\n{narrow[at]}"
        elif not others and nothing_else(nest, mine):
            blocks[at] = joined
        else:
            blocks |= {id(s.copy.replaces): "" for s in mine if id(s.copy.replaces) not in narrow}
            indent = indent_of(model.file.source, nest.span.start)
            text = joined.replace("\n", f"\n{indent}").replace(f"\n{indent}#", "\n#")
            # Pragma lines that stay belong to the loop, those of a counted loop go with its header.
            start = nest.span.start
            above = start if at in model.trips else with_pragmas(model.file.source, start)
            text = f"{indent}{text}\n" if above < start else f"{text}\n{indent}"
            before[at] = (Edit(Span(above, above), text),)
    return blocks, before


def _block(model: KernelModel, spread: Spread, first: int) -> str:
    copy = spread.copy

    def call(changed: Callable[[str], str]) -> str:
        guard, fill = (changed(t) if t is not None else None for t in (copy.guard, copy.fill))
        there = replace(
            copy, target=changed(copy.target), source=changed(copy.source), guard=guard, fill=fill
        )
        return _up_to(model, there, spread, changed) if spread.edges else _call(model, there, spread)

    return spread_text(spread, first, call, model.file.macros)


def _up_to(model: KernelModel, copy: Copy, spread: Spread, changed: Callable[[str], str]) -> str:
    """A copy of the first elements of a group, up to where its guard fails."""
    macros = model.file.macros
    holds = " && ".join(
        f"{addend(changed(e.rising), macros)} + tp_v {e.sign} {addend(changed(e.other), macros)}"
        for e in spread.edges
    )
    target, source = _addresses(model, copy)
    size = spread.bytes // spread.elements
    count = "tp_valid" if size == 1 else f"tp_valid * {size}"
    return "\n".join(
        [
            "int tp_valid = 0;",
            "#pragma unroll",
            f"for (int tp_v = 0; tp_v < {spread.elements}; ++tp_v)",
            f"    tp_valid += {holds};" if len(spread.edges) == 1 else f"    tp_valid += ({holds});",
            f"tp_copy_wide_up_to<{spread.bytes}>({target}, {source}, ({copy.guard}) ? {count} : 0);",
        ]
    )


def _call(model: KernelModel, copy: Copy, wide: Wide | Spread | None, pipe: str = "") -> str:
    target, source = _addresses(model, copy)
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
    return f"{function}({pipe}{target}, {source}, {copy.guard});"


def _addresses(model: KernelModel, copy: Copy) -> tuple[str, str]:
    """Where a copy goes, and where it comes from."""
    at = copy.use.item.statement.span.start
    types = (model.answers.get(f"{kind}:{at}") for kind in ("type", "source"))
    target, source = (address(t, type_) for t, type_ in zip((copy.target, copy.source), types, strict=True))
    return target, source
