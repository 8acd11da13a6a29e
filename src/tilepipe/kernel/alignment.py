"""Alignments that declarations of shared arrays state."""

from __future__ import annotations

import re

from tilepipe.source import SourceFile, Span
from tilepipe.source.lexical import blank, closing, lexemes

_STATED = re.compile(rb"\b(?:__align__|alignas|aligned|__aligned__)\s*\(")
_NESTED = re.compile(rb"\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}")


def stated(source: SourceFile, decl: Span) -> list[tuple[Span, Span]]:
    """The alignments of a declaration, those that stand before it too: each whole, and what is in its brackets."""
    data = _code(source, decl.end)
    start = max(data.rfind(c, 0, decl.start) for c in (b";", b"{", b"}")) + 1
    found = []
    for match in _STATED.finditer(data, start, decl.end):
        end = closing(data, match.end() - 1) or decl.end
        found.append((Span(match.start(), end), Span(match.end(), end - 1)))
    return found


def may_be_raised(source: SourceFile, decl: Span) -> bool:
    """Whether all names of a declaration have the same alignment: one of several of its own is not told apart."""
    first = source.data.find(b"[", decl.start, decl.end)
    own = any(whole.start > first for whole, _ in stated(source, decl))
    return not (own and b"," in _outermost(source.data[decl.start : decl.end]))


def _code(source: SourceFile, end: int) -> bytes:
    """The text up to `end` with its comments blanked."""
    data = bytearray(source.data[:end])
    for lexeme in lexemes(bytes(data)):
        if lexeme.kind == "comment":
            data[lexeme.start : lexeme.end] = blank(bytes(data[lexeme.start : lexeme.end]))
    return bytes(data)


def _outermost(text: bytes) -> bytes:
    """The text without what stands in brackets."""
    shorter = _NESTED.sub(b"", text)
    return text if shorter == text else _outermost(shorter)
