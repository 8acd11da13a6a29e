"""Edit lists: replacements by byte span, applied all at once so that no offset goes stale."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tilepipe.source.text import Span


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
    for edit in sorted(edits, key=lambda e: (e.span.start, e.span.end)):
        if edit.span.start < at:
            raise ValueError(f"edits overlap at byte {edit.span.start}")
        out += [data[at : edit.span.start], edit.text.encode()]
        at = edit.span.end
    return b"".join([*out, data[at:]]).decode()
