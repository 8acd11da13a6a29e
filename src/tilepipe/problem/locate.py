"""Where a key of a TOML file stands, for the caret under it.

`tomllib` gives no positions, so the text is scanned again for the tables and keys of the problem format: a
best effort, for messages only. Where a key is not found the place is its table's header, else line 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tilepipe.diagnostics import Place

_HEADER = re.compile(r"^\s*\[+\s*([^\]]*?)\s*\]+")
_STRING_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*')


def _blank(text: str) -> str:
    """`text` with strings and comments blanked, every position kept."""
    return _STRING_OR_COMMENT.sub(lambda match: " " * len(match[0]), text)


def place_at(file: str, text: str, offset: int, width: int = 1) -> Place:
    """The place of `width` characters at `offset` of `text`, cut at the end of the line."""
    start = text.rfind("\n", 0, offset) + 1
    end = text.find("\n", offset)
    line = text[start : len(text) if end < 0 else end]
    column = offset - start + 1
    return Place(
        file, text.count("\n", 0, offset) + 1, column, max(1, min(width, len(line) - column + 1)), line
    )


def _tables(text: str) -> Iterator[tuple[str, int, int, int]]:
    """Every table: its dotted name without quotes, and the offsets of header, body and end."""
    found: list[tuple[str, int, int]] = []
    offset = 0
    for line in text.splitlines(keepends=True):
        header = _HEADER.match(line)
        if header and not line.lstrip().startswith("#"):
            name = re.sub(r"[\"'\s]", "", header[1])
            found.append((name, offset + header.start(1) - 1, offset + len(line)))
        offset += len(line)
    for i, (name, header_at, body) in enumerate(found):
        yield name, header_at, body, found[i + 1][1] if i + 1 < len(found) else len(text)


def table_of(text: str, table: str) -> Iterator[tuple[int, int]]:
    """The offsets of `[table]`, with its header, and of its sub-tables; empty where it is written otherwise."""
    for name, header_at, _, end in _tables(text):
        if name == table or name.startswith(f"{table}."):
            yield header_at, end


def _key(name: str) -> re.Pattern[str]:
    return re.compile(rf"^[ \t]*\"?({re.escape(name)})\"?[ \t]*=", re.MULTILINE)


def _item(blanked: str, start: int, end: int, index: int) -> tuple[int, int] | None:
    """The offsets of the `index`-th inline table of the array that begins after `start`."""
    depth, count, opened = 0, -1, 0
    for at in range(start, end):
        char = blanked[at]
        if char == "{":
            depth += 1
            if depth == 1:
                count, opened = count + 1, at
        elif char == "}":
            depth -= 1
            if depth == 0 and count == index:
                return opened, at + 1
        elif char == "]" and depth == 0:
            return None
    return None


def place_of(file: str, text: str, table: str, key: str | None = None, item: int | None = None) -> Place:
    """The place of `key` in `[table]`, or of inline table number `item` of the array under `key`."""
    for name, header_at, body, end in _tables(text):
        if name != table:
            continue
        header = place_at(file, text, header_at, len(name) + 2)
        if key is None:
            return header
        match = _key(key).search(text, body, end)
        if match is None:
            return header
        span = None if item is None else _item(_blank(text), match.end(), end, item)
        start, stop = span or match.span(1)
        return place_at(file, text, start, stop - start)
    if not table and key is not None:
        match = _key(key).search(text)
        if match is not None:
            return place_at(file, text, match.start(1), len(key))
    parent, _, last = table.rpartition(".")
    if parent:  # `sizes = { … }` inside the kernel's own table
        return place_of(file, text, parent, last if key is None else key)
    return place_at(file, text, 0, len(text.split("\n", 1)[0]))
