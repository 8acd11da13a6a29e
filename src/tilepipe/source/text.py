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
    """The text of one file and the name to call it by in messages.

    `lines` says of each line of a text that was changed where its author finds it: file and line (from 1). It is empty
    where the text is as it was read.
    """

    name: str
    text: str
    lines: tuple[tuple[str, int], ...] = ()

    @cached_property
    def data(self) -> bytes:
        return self.text.encode()

    def slice(self, span: Span) -> str:
        """The text under `span`."""
        return self.data[span.start : span.end].decode()

    def line_of(self, offset: int) -> int:
        """The line (from 1) of a byte offset, in the file as its author has it."""
        return self.origin(offset)[1]

    def origin(self, offset: int) -> tuple[str, int]:
        """File and line (from 1) of a byte offset."""
        line = self.data.count(b"\n", 0, offset)
        return self.lines[line] if self.lines else (self.name, line + 1)

    def place(self, span: Span) -> Place:
        """Where `span` begins, cut to its first line."""
        data = self.data
        line_start = data.rfind(b"\n", 0, span.start) + 1
        line_end = data.find(b"\n", span.start)
        line_end = len(data) if line_end < 0 else line_end
        text = data[line_start:line_end].decode()
        column = len(data[line_start : span.start].decode()) + 1
        width = max(1, len(data[span.start : min(span.end, line_end)].decode()))
        return Place(*self.origin(span.start), column, width, text)
