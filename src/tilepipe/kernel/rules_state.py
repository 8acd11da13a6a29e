"""Rules of state: the loader runs ahead with its own copy of what load and compute share (TP021)."""

from __future__ import annotations

import re

from tilepipe.diagnostics import Refusal, refusal
from tilepipe.kernel.flow import Item
from tilepipe.kernel.loop_facts import LoopFacts
from tilepipe.kernel.statements import Statement, acts
from tilepipe.kernel.symbols import Symbol
from tilepipe.kernel.tileloop import StoreUse, header_effects
from tilepipe.source import Span

_MACRO_DEPTH = 4  # macros within macros
_WORD = re.compile(r"[A-Za-z_]\w*")


def state_can_be_copied(q: LoopFacts) -> Refusal | None:
    """TP021: a variable that loader and consumer both use gets a copy; arrays do not."""
    for symbol in q.split.copied:
        if symbol.is_array:
            return refusal(
                "TP021",
                f"the array `{symbol.name}` is changed by the load phase and used by the compute phase too",
                q.source.place(Span(symbol.key[0], symbol.key[0] + len(symbol.name))),
                "shared by load and compute",
                "use an array of its own in the load phase",
            )
        writers = [i for i in q.tile.flow.items if symbol in i.own.defs]
        outside = [i for i in writers if i not in q.split.loader]
        if outside:
            return refusal(
                "TP021",
                f"`{symbol.name}` steers the load and is changed by the compute phase",
                q.source.place(outside[0].statement.span),
                "changed here",
                "use separate variables for load and compute",
            )
    header = header_effects(q.tile.loop)
    if header.global_reads() or header.shared_reads():
        return refusal(
            "TP021",
            "the loop's condition reads memory, which the loader cannot evaluate ahead",
            q.source.place(q.tile.loop.condition or q.tile.loop.span),
            "reads memory",
            "read the bound into a variable before the loop",
        )
    return None


def parts_can_be_split(q: LoopFacts) -> Refusal | None:
    """TP021: no statement does the work of load and compute at once."""
    for store in q.tile.stores:
        if store.buffer not in q.tile.staged or store.kind == "compute":
            continue
        foreign = _header_function(q, store)
        if foreign:
            return refusal(
                "TP021",
                f"`{store.buffer.name}` is filled by `{foreign}`, whose text cannot take the place of the call: it "
                "shares its name with another function, or stands in a header where its names may mean something else",
                q.source.place(store.item.statement.span),
                "fills the tile",
                "move the function into the file, under a name of its own",
            )
        hidden = store.item.changed & q.split.copied
        if hidden:
            name = next(iter(sorted(s.name for s in hidden)))
            return refusal(
                "TP021",
                f"the statement that stores into `{store.buffer.name}` changes `{name}` too, which is needed elsewhere",
                q.source.place(store.item.statement.span),
                f"`{name}` changes here",
                "change it in a statement of its own",
            )
        call = next((p for p in store.item.parents if p.kind == "call"), None)
        kept = (
            [s for s in call.walk() if acts(s) and q.tile.flow.of[id(s)] not in q.split.moved] if call else []
        )
        if call is not None and kept:
            return refusal(
                "TP021",
                f"`{_callee(call)}` loads the tile and does other work too, so its call cannot be split",
                q.source.place(call.span),
                f"the other work: line {q.line(kept[0].span)}",
                "make two functions of it",
            )
    return None


def calls_can_be_inlined(q: LoopFacts) -> Refusal | None:
    """TP021: the loader has a helper's text in place of its call, so the call must say the template arguments that
    the text names, in names that mean the same there."""
    for item in sorted(q.split.loader, key=lambda i: i.order):
        call = item.statement.call
        if call is None:
            continue
        words = {w for at in (call.parameters, call.body) for w in _WORD.findall(q.source.slice(at))}
        deduced = next((name for name in call.deduced if name in words), None)
        names = {declared.split()[-1]: argument for declared, argument in call.template}
        renamed = {name for name, argument in names.items() if name != argument}
        given = (*names.values(), q.source.slice(call.arguments))
        crossed = next((a for a in given if set(_WORD.findall(a)) & renamed), None)
        if deduced is not None:
            what = f"whose template argument `{deduced}` is deduced"
            remedy = f"say the argument in the call: `{call.name}<…>(…)`"
        elif crossed is not None:
            what = f"and in `{crossed}` names another thing than its template parameter of that name"
            remedy = "give the template parameters names of their own"
        else:
            continue
        return refusal(
            "TP021",
            f"the load phase calls `{call.name}`, {what}",
            q.source.place(item.statement.span),
            "the loader needs its text in place of the call",
            remedy,
        )
    return None


def _header_function(q: LoopFacts, store: StoreUse) -> str:
    """The function known by its effects alone that makes a store, "" where the file's own text or a macro does."""
    if store.store is None or not store.store.in_macro:
        return ""
    called = _WORD.search(q.source.slice(store.store.span))
    return called.group() if called is not None and called.group() not in q.macros else ""


def _callee(call: Statement) -> str:
    return (call.call.name if call.call is not None else "") or "the lambda"


def state_is_named(q: LoopFacts) -> Refusal | None:
    """TP021: where the loader works on a copy, it must reach the variable by its name.

    Through a pointer, a reference or a lambda made before the loop it would reach the original instead.
    """
    loop = q.tile.loop
    parts = [(loop.condition, loop.condition_effects), (loop.update, loop.update_effects)]
    for at, effects in parts:
        words = set(_WORD.findall(q.source.slice(at))) if at is not None else set()
        for symbol in sorted((effects.uses | effects.defs) & q.split.copied, key=lambda s: s.key):
            if symbol.name not in words:
                return _hidden(q, symbol, at or loop.span)
    for item in sorted(q.split.loader, key=lambda i: i.order):
        touched = (item.own.uses | item.own.defs) & q.split.copied
        words = _words(q, item)
        for symbol in sorted(touched, key=lambda s: s.key):
            if symbol.name not in words:
                return _hidden(q, symbol, item.statement.span)
    return None


def _hidden(q: LoopFacts, symbol: Symbol, at: Span) -> Refusal:
    return refusal(
        "TP021",
        f"`{symbol.name}` is shared by load and compute, and is reached without its name here",
        q.source.place(at),
        "through a pointer, a reference or a lambda",
        f"write `{symbol.name}` itself",
    )


def _words(q: LoopFacts, item: Item) -> set[str]:
    """The names that a statement's text mentions: what macros expand to, and the calls that lead to it, included."""
    outermost = next((p for p in item.parents if p.kind == "call"), item.statement)
    texts = [q.source.slice(outermost.span)]
    texts += [q.source.slice(s.call.body) for s in outermost.walk() if s.call is not None]
    words = {w for text in texts for w in _WORD.findall(text)}
    for _ in range(_MACRO_DEPTH):
        words |= {w for name in words & q.macros.keys() for w in _WORD.findall(q.macros[name].body)}
    return words
