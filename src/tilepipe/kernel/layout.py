"""Layout of a tile loop: braces and line ends where the rewriter puts its text.

The rewriter works by lines: before the loop, after its opening brace, before its closing brace, and after it. A loop
that is written otherwise (no braces, several statements on a line) gets the missing braces and line ends first.
"""

from __future__ import annotations

import re

from tilepipe.kernel.tileloop import TileLoop
from tilepipe.source import Edit, SourceFile, Span

_PRAGMAS = re.compile(rb"(?:^[ \t]*#[ \t]*pragma[^\n]*\n)+[ \t]*\Z", re.MULTILINE)


def missing_layout(source: SourceFile, tile: TileLoop) -> tuple[Edit, ...]:
    """The insertions that give the loop a block of its own around it and inside of it, on lines of their own."""
    data, loop = source.data, tile.loop
    indent = indent_of(data, loop.span.start)
    edits = [*_around(data, tile, indent)]
    body = loop.children[0]
    if body.kind != "block":
        edits.append(_insert(body.span.start, f"{{\n{indent}    "))
        edits.append(_insert(body.span.end, f"\n{indent}}}"))
        return tuple(edits)
    if not _ends_line(data, body.span.start + 1):
        edits.append(_insert(body.span.start + 1, f"\n{indent}    "))
    if not _starts_line(data, body.span.end - 1):
        edits.append(_insert(body.span.end - 1, f"\n{indent}"))
    return tuple(edits)


def _around(data: bytes, tile: TileLoop, indent: str) -> list[Edit]:
    """Braces where the loop is the body of a branch or of another loop; line ends before and after it."""
    start, end = tile.loop.span.start, tile.loop.span.end
    if tile.path[-1].kind != "block":
        before = start_with_pragmas(data, start)
        opening = f"{indent}{{\n" if before < start else f"{{\n{indent}"
        return [_insert(before, opening), _insert(end, f"\n{indent}}}\n{indent}")]
    edits = [] if _starts_line(data, start) else [_insert(start, f"\n{indent}")]
    return edits if _ends_line(data, end) else [*edits, _insert(end, f"\n{indent}")]


def start_with_pragmas(data: bytes, start: int) -> int:
    """Where a statement begins, with the pragma lines directly above it."""
    pragmas = _PRAGMAS.search(data, 0, start)
    return pragmas.start() if pragmas is not None else start


def _insert(offset: int, text: str) -> Edit:
    return Edit(Span(offset, offset), text)


def indent_of(data: bytes, offset: int) -> str:
    """The white space before the line of an offset."""
    line = data[data.rfind(b"\n", 0, offset) + 1 : offset]
    return line[: len(line) - len(line.lstrip())].decode()


def _starts_line(data: bytes, offset: int) -> bool:
    return not data[data.rfind(b"\n", 0, offset) + 1 : offset].strip()


def _ends_line(data: bytes, offset: int) -> bool:
    """Whether nothing but a comment follows on the line."""
    end = data.find(b"\n", offset)
    rest = data[offset : len(data) if end < 0 else end].strip()
    return not rest or rest.startswith(b"//") or (rest.startswith(b"/*") and rest.endswith(b"*/"))
