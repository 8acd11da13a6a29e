"""Whether all threads of a block come to the tile loop.

A barrier waits for the threads that are still there, so that a kernel may let others go: `if (column >= n) return;`
above the loop. Each thread that stays loads its own elements; dealt to the threads anew, some would be left to those
that are gone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tilepipe.kernel import surroundings
from tilepipe.kernel.flow import Flow, is_divergent
from tilepipe.kernel.macros import written
from tilepipe.kernel.model import KernelModel
from tilepipe.kernel.statements import Statement

_LEAVES = re.compile(r"\breturn\b|\bexit\b")


def gone(model: KernelModel) -> int | None:
    """The line where some threads of a block may leave the kernel before the tile loop, or its next run; None where
    all of them come."""
    tile = model.tile
    divergent = Flow([model.analysed.body]).divergent()
    source = model.file.source
    ahead = surroundings.before(tile)
    if surroundings.is_repeated(tile):
        ahead += surroundings.after(tile)
    splits = any(is_divergent(p, divergent) for p in tile.path)
    for top in ahead:
        for statement, parents in _own(top, ()):
            if not _LEAVES.search(written(source.slice(statement.span), model.file.macros)):
                continue
            plain = "return" in statement.own.flags or "asm" in statement.own.flags
            if not plain or splits or any(is_divergent(p, divergent) for p in parents):
                return source.line_of(statement.span.start)
    return None


def _own(
    statement: Statement, parents: tuple[Statement, ...]
) -> Iterator[tuple[Statement, tuple[Statement, ...]]]:
    """The statements of the kernel itself that hold no others, without those of helpers and lambdas, with the branches
    and loops around."""
    if statement.kind in ("block", "if", "for", "while", "do"):
        for child in statement.children:
            yield from _own(child, (*parents, statement))
    elif statement.kind not in ("declaration", "call"):
        yield statement, parents
