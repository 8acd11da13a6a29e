"""A source file as text with spans that can be shown to its author."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tilepipe.diagnostics import Place


@dataclass(frozen=True)
class Span:
    """Half-open range of byte offsets into the UTF-8 text."""

    start: int
    end: int


@dataclass(frozen=True)
class SourceFile:
    """The text of one file and the name to call it by in messages."""

    name: str
    text: str

    @cached_property
    def data(self) -> bytes:
        return self.text.encode()

    def slice(self, span: Span) -> str:
        """The text under `span`."""
        return self.data[span.start : span.end].decode()

    def line_of(self, offset: int) -> int:
        """The line (from 1) of a byte offset."""
        return self.data.count(b"\n", 0, offset) + 1

    def place(self, span: Span) -> Place:
        """Where `span` begins, cut to its first line."""
        data = self.data
        line_start = data.rfind(b"\n", 0, span.start) + 1
        line_end = data.find(b"\n", span.start)
        line_end = len(data) if line_end < 0 else line_end
        text = data[line_start:line_end].decode()
        column = len(data[line_start : span.start].decode()) + 1
        width = max(1, len(data[span.start : min(span.end, line_end)].decode()))
        return Place(self.name, self.line_of(span.start), column, width, text)
