"""Types that the text asks of a variable: a pipeline gives the author's names to references, whose `decltype` is one.

    decltype(k) j = k; j += 3;      with `auto& k = k_next` in the loader, j is k_next itself

Every other use of a name means the same through a reference. An expression in `decltype` has the same type, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tilepipe.diagnostics import Refusal, refusal
from tilepipe.kernel.file import Analysed, CudaFile
from tilepipe.kernel.flow import Item
from tilepipe.kernel.loader import Split
from tilepipe.kernel.macros import written
from tilepipe.kernel.meaning import meanings
from tilepipe.kernel.tileloop import TileLoop
from tilepipe.source import Span

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\\\r?\n", re.S)
_WORD = re.compile(r"[A-Za-z_]\w*")
_ASKS = re.compile(r"\b(?:__)?(?:decltype|typeof)(?:__)?\b")
_OF = re.compile(r"\b(?:__)?(?:decltype|typeof)(?:__)?\s*\(\s*(\w+)\s*\)")


def asked_name(file: CudaFile, text: str, names: set[str]) -> str | None:
    """The one of the names whose type a text asks for, its macros included; None where it asks for none."""
    plain = _COMMENT.sub(" ", text)
    if not names & set(_WORD.findall(plain)) or not _mentions_type(file, plain):
        return None
    opened = written(plain, file.macros)
    asked = set(_OF.findall(opened))
    glued = any("#" in file.macros[w].body for w in set(_WORD.findall(opened)) & file.macros.keys())
    if "auto" in asked or glued:  # which name it is that counts is not followed
        asked |= set(_WORD.findall(opened))
    return min(asked & names, default=None)


def _mentions_type(file: CudaFile, text: str) -> bool:
    return any(_ASKS.fullmatch(w) for w in meanings(file).with_macros(_WORD.findall(text)))


def asked_types(file: CudaFile, analysed: Analysed, tile: TileLoop, parts: Split) -> Refusal | None:
    """TP021: the type of a variable of the load phase, or of a tile, that is a reference in the pipelined kernel."""
    state = {s.name for s in parts.state | parts.copied | tile.loop.declares}
    tiles = {s.name for s in tile.staged}
    found = [(at, state, "which the loader has a reference to") for at in _loaded(tile, parts)]
    whole = [(s.span, tiles, "which is one of several stages") for s in analysed.body.children]
    for at, names, why in (*found, *whole):
        name = asked_name(file, file.source.slice(at), names)
        if name is not None:
            return refusal(
                "TP021",
                f"the type of `{name}` is asked for, {why}",
                file.source.place(at),
                "its type would be a reference",
                f"write the type itself instead of `decltype({name})`",
            )
    return None


def _loaded(tile: TileLoop, parts: Split) -> Iterator[Span]:
    """The loader's own text: its statements, headers without what they hold, and the types that the loop names."""
    for item in tile.flow.items:
        statement = item.statement
        named = statement.kind == "leaf" and item not in parts.loader and not _does(item)
        if (item not in parts.loader and not named) or _in_helper(item):
            continue
        inner = [
            c.span.start
            for c in statement.children
            if c.kind != "call" and c.span.start > statement.span.start
        ]
        own = statement.kind not in ("call", "leaf", "declaration") and inner
        yield Span(statement.span.start, min(inner)) if own else statement.span


def _does(item: Item) -> bool:
    own = item.own
    return bool(own.uses or own.defs or own.reads or own.writes or own.flags or own.opaque)


def _in_helper(item: Item) -> bool:
    """Whether a statement stands in a function of the file, where the kernel's names are not seen."""
    return any(p.call is not None and not p.call.is_lambda for p in item.parents)
