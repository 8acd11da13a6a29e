"""Text surgery by lines: what to delete with a statement, how deep it is indented."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tilepipe.source import SourceFile, Span

_PRAGMA = re.compile(rb"[ \t]*#[ \t]*pragma[^\n]*\n\Z")
_COMMENT = re.compile(rb"[ \t]*//[^\n]*\n\Z")


def indented(indent: str, lines: Iterable[str]) -> str:
    """Lines as text at an indentation; empty ones stay empty."""
    return "".join(f"{indent}{line}\n" if line else "\n" for line in lines)


def indent_of(source: SourceFile, offset: int) -> str:
    """The white space at the start of the line of a byte offset."""
    data = source.data
    start = data.rfind(b"\n", 0, offset) + 1
    end = start
    while end < len(data) and data[end : end + 1] in (b" ", b"\t"):
        end += 1
    return data[start:end].decode()


def line_start(source: SourceFile, offset: int) -> int:
    """The offset at which the line begins."""
    return source.data.rfind(b"\n", 0, offset) + 1


def _previous_line(data: bytes, start: int) -> int:
    return data.rfind(b"\n", 0, start - 1) + 1 if start > 0 else 0


def with_pragmas(source: SourceFile, start: int) -> int:
    """Where the pragma lines directly above a statement begin; `start` itself without any."""
    data = source.data
    at = line_start(source, start)
    if data[at:start].strip():
        return start
    found = start
    while at > 0 and _PRAGMA.match(data[_previous_line(data, at) : at]):
        at = _previous_line(data, at)
        found = at
    return found


def with_comments(source: SourceFile, start: int) -> int:
    """Where the comment lines directly above a statement begin."""
    data = source.data
    at = line_start(source, start)
    if data[at:start].strip():
        return start
    found = start
    while at > 0 and _COMMENT.match(data[_previous_line(data, at) : at]):
        at = _previous_line(data, at)
        found = at
    return found


def whole_lines(source: SourceFile, span: Span) -> Span:
    """The span widened to full lines where nothing else but a comment stands on them."""
    data = source.data
    start = line_start(source, span.start)
    end = data.find(b"\n", span.end)
    end = len(data) if end < 0 else end
    before, after = data[start : span.start].strip(), data[span.end : end].strip()
    if before or (after and not after.startswith(b"//")):
        return span
    return Span(start, min(len(data), end + 1))


def reindent(text: str, indent: str) -> str:
    """The text with its common indentation replaced; preprocessor lines keep their column."""
    lines = text.split("\n")
    bodies = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    common = min((len(line) - len(line.lstrip()) for line in bodies), default=0)
    out = []
    for line in lines:
        if not line.strip():
            out.append("")
        elif line.startswith("#"):
            out.append(line)
        else:
            kept = line[common:] if line[:common].strip() == "" else line.lstrip()
            out.append(indent + kept)
    return "\n".join(out)
