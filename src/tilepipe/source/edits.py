"""Edit lists: replacements by byte span, applied all at once so that no offset goes stale."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tilepipe.source.text import SourceFile, Span


@dataclass(frozen=True)
class Edit:
    """Replace the text under `span` by `text`; an empty span inserts."""

    span: Span
    text: str


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """`text` with every edit made.

    Edits are sorted by position; insertions at one offset keep their order. Raises ValueError when two
    edits overlap, which is a bug of the caller.
    """
    data = text.encode()
    out: list[bytes] = []
    at = 0
    for edit in _in_order(edits):
        if edit.span.start < at:
            raise ValueError(f"edits overlap at byte {edit.span.start}")
        out += [data[at : edit.span.start], edit.text.encode()]
        at = edit.span.end
    return b"".join([*out, data[at:]]).decode()


def edited(
    source: SourceFile, edits: Iterable[Edit], origins: Mapping[Edit, tuple[str, int]] | None = None
) -> SourceFile:
    """The file with every edit made, each line still known by its place in the author's file.

    The lines of an edit count as the one that it begins in, or from the file and line (from 1) on that `origins` says;
    one that it leaves blank belongs to what follows.
    """
    edits, lines, at = _in_order(edits), [source.origin(0)], 0
    for edit in edits:
        lines += _begun(source, at, edit.span.start)
        name, first = (origins or {}).get(edit, ("", 0))
        begun = edit.text.split("\n")[1:]
        lines += [(name, first + n) for n in range(1, len(begun) + 1)] if name else [lines[-1]] * len(begun)
        at = edit.span.end
        if begun and not begun[-1].strip():
            lines[-1] = source.origin(at)
    lines += _begun(source, at, len(source.data))
    return SourceFile(source.name, apply_edits(source.text, edits), tuple(lines))


def _in_order(edits: Iterable[Edit]) -> list[Edit]:
    return sorted(edits, key=lambda e: (e.span.start, e.span.end))


def _begun(source: SourceFile, start: int, end: int) -> list[tuple[str, int]]:
    """The places of the lines that begin in a range of the text."""
    first, count = source.data.count(b"\n", 0, start) + 1, source.data.count(b"\n", start, end)
    if source.lines:
        return list(source.lines[first : first + count])
    return [(source.name, line + 1) for line in range(first, first + count)]
