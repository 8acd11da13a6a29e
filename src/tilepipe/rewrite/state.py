"""The loader's own copy of the loop state, its condition and its step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tilepipe.kernel.flow import Item
from tilepipe.kernel.model import KernelModel
from tilepipe.kernel.symbols import Symbol, declared
from tilepipe.source import Edit, Span, apply_edits
from tilepipe.source.parse import span

NEXT = "_next"  # the loader's copy of a name
AFTER = "_after"  # the copy for the tile after the one that is computed


@dataclass(frozen=True, eq=False)
class LoaderState:
    """How the loader runs ahead.

    `setup` declares its copies, `shadows` bind the author's names to them inside the loader's lambdas, `more`
    is the condition under which another tile exists, "" where the loader runs past the last one,
    `step` the `for` loop's own step on the loader's state,
    `tail` the statements of the body that advance to the next tile after all its loads, `advance` these with the
    declarations that they need. `hoisted` is the
    loop's initialisation where it must run before the loader starts (then the header loses it).
    """

    setup: tuple[str, ...]
    shadows: tuple[str, ...]
    more: str
    step: str
    tail: frozenset[Item]
    advance: frozenset[Item]
    hoisted: str


def loader_state(model: KernelModel) -> LoaderState | str:
    """Describe the loader's state; a reason where it cannot be expressed."""
    loop = model.tile.loop
    if loop.kind == "do":
        return "a do-while loop always runs its first tile, which a guarded prologue does not express"
    if loop.condition is None:
        return "the loop has no condition that tells whether another tile exists"
    # What the header declares is not visible before the loop, changed or not.
    seen = loop.condition_effects.uses | loop.update_effects.uses
    seen = seen.union(*(i.own.uses for i in model.split.loader))
    copied = sorted(model.split.copied | (loop.declares & seen), key=lambda s: s.key)
    setup = [f"{_declared(s, model)} {s.name}{NEXT} = {_initial(model, s)};" for s in copied]
    hoisted = ""
    if loop.init is not None and not loop.declares:
        hoisted = model.file.source.slice(loop.init).rstrip(";") + ";"
    if _hidden(model, copied, (loop.condition, loop.update)):
        return "a macro in the loop header hides the loop's variable"
    more = _renamed(model, loop.condition, copied, NEXT)
    if loop.condition_effects.defs:
        # A condition with a side effect is asked once per tile, and never again after it failed.
        setup += [
            "bool tp_live = true;",
            f"auto tp_more = [&] {{ return tp_live && (tp_live = ({more})); }};",
        ]
        more = "tp_more()"
    step = _renamed(model, loop.update, copied, NEXT) + ";" if loop.update is not None else ""
    shadows = tuple(f"auto& {s.name} = {s.name}{NEXT};" for s in copied if _used_in_body(model, s))
    tail = _tail(model)
    advance = _with_needs(model, tail)
    if isinstance(advance, str):
        return advance
    return LoaderState(tuple(setup), shadows, more, step, tail, advance, hoisted)


def following_state(model: KernelModel, ahead: LoaderState, uses: frozenset[Symbol]) -> LoaderState | str:
    """A second copy of the loop state, for the tile after the one that is computed where the loader is further on.

    `ahead` is the loader's state, `uses` are the names that the statements need which run with this copy.
    """
    loop, flow = model.tile.loop, model.tile.flow
    if loop.condition is None or loop.condition_effects.defs:
        return "the loop condition has side effects, and would be asked twice for a tile"
    header = loop.condition_effects.uses | loop.update_effects.uses | loop.update_effects.defs
    changing = model.split.state | loop.declares
    copied, found = frozenset[Symbol](), (uses | header) & changing
    while copied != found:
        copied = found
        movers = [i for s in copied for i in flow.definers[s]]
        found |= frozenset(s for i in movers for s in i.own.defs | _needs(model, i)) & changing
    inner = next((i for i in movers if i not in ahead.tail), None)
    if inner is not None:
        name = min(s.name for s in inner.own.defs & copied)
        return f"`{name}` is moved on within the load phase and is needed again by the store"
    if any(s.is_array for s in copied):
        return "an array carries values from tile to tile"
    tail = frozenset(movers)
    advance = frozenset(flow.backward(tail, {i: i.own.uses - copied for i in model.split.loader}))
    ordered = sorted(copied, key=lambda s: s.key)
    setup = tuple(f"{_declared(s, model)} {s.name}{AFTER} = {_initial(model, s)};" for s in ordered)
    shadows = tuple(f"auto& {s.name} = {s.name}{AFTER};" for s in ordered)
    step = _renamed(model, loop.update, ordered, AFTER) + ";" if loop.update is not None else ""
    return LoaderState(
        setup, shadows, _renamed(model, loop.condition, ordered, AFTER), step, tail, advance, ""
    )


def _needs(model: KernelModel, item: Item) -> frozenset[Symbol]:
    """The names that a statement that moves the state on needs, by itself or through local values."""
    flow = model.tile.flow
    uses = {i: i.own.uses - model.split.state for i in model.split.loader}
    return frozenset(s for i in flow.backward([item], uses) for s in i.own.uses)


def _declared(symbol: Symbol, model: KernelModel) -> str:
    """The type of the loader's copy: the author's where the header declares the variable with an initial value of
    perhaps another type, `auto` where it is copied or is a pointer."""
    own = symbol in model.tile.loop.declares and not symbol.pointer
    return symbol.type if own else "auto"


def _with_needs(model: KernelModel, tail: frozenset[Item]) -> frozenset[Item] | str:
    """The tail with the local declarations that it uses; a reason where their values change before it runs."""
    flow = model.tile.flow
    uses = {i: i.own.uses - model.split.state for i in model.split.loader}
    needed = frozenset(flow.backward(tail, uses))
    stores = {s.item for s in model.tile.stores}
    inner = [i for i in model.split.loader if i.own.defs & model.split.state and i not in tail]
    if needed - tail and (inner or needed & stores):
        return "what moves on to the next tile depends on a value that the load phase changes"
    return needed


def _initial(model: KernelModel, symbol: Symbol) -> str:
    loop = model.tile.loop
    if symbol not in loop.declares or loop.init is None:
        return symbol.name
    node = model.file.tree.root.named_descendant_for_byte_range(loop.init.start, loop.init.end)
    while node is not None and node.type != "declaration":
        node = node.parent
    if node is None:
        return symbol.name
    values = {s.name: v for s, v in declared(node, "", (), "local")}
    value = values.get(symbol.name)
    text = model.file.source.slice(span(value)) if value is not None else "0"
    return text


def _renamed(model: KernelModel, at: Span, copied: Iterable[Symbol], suffix: str) -> str:
    """A piece of the loop header with the names of a copy of the state, those of the author with a suffix."""
    names = {s.name for s in copied}
    root = model.file.tree.root.named_descendant_for_byte_range(at.start, at.end)
    edits = []
    stack = [root] if root is not None else []
    while stack:
        node = stack.pop()
        inside = at.start <= node.start_byte and node.end_byte <= at.end
        if node.type == "identifier" and inside and model.file.source.slice(span(node)) in names:
            moved = Span(node.start_byte - at.start, node.end_byte - at.start)
            edits.append(Edit(moved, model.file.source.slice(span(node)) + suffix))
        stack.extend(node.named_children)
    return apply_edits(model.file.source.slice(at), edits)


def _hidden(model: KernelModel, copied: list[Symbol], parts: tuple[Span | None, ...]) -> bool:
    names = {s.name for s in copied}
    for at in parts:
        text = model.file.source.slice(at) if at is not None else ""
        for name, macro in model.file.macros.items():
            body = set(macro.body.replace("(", " ").replace(")", " ").split())
            if name in text and names & body:
                return True
    return False


def _used_in_body(model: KernelModel, symbol: Symbol) -> bool:
    return any(symbol in i.own.uses | i.own.defs for i in model.split.loader)


def _tail(model: KernelModel) -> frozenset[Item]:
    """Top-level statements that advance the loader's state after the last load and store of the tile."""
    stores = [s.item for s in model.tile.stores if s.buffer in model.tile.staged and s.kind != "compute"]
    last = max(_top(i) for i in stores)
    return frozenset(
        i for i in model.split.loader if i.own.defs & model.split.state and not i.parents and i.order > last
    )


def _top(item: Item) -> int:
    return item.order
