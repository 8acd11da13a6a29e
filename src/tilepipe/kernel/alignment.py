"""Alignments that declarations of shared arrays state."""

from __future__ import annotations

import re

from tilepipe.kernel.file import CudaFile
from tilepipe.kernel.sizes import SIZES
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


def aligned_rows(file: CudaFile, decl: Span) -> bool:
    """Whether all in a row of variables, each declared like this one, are aligned as it states, by numbers alone."""
    node = file.tree.root.named_descendant_for_byte_range(decl.start, decl.end)
    kind = node.child_by_field_name("type") if node is not None else None
    size = SIZES.get((kind.text or b"").decode()) if kind is not None else None
    texts = [file.source.slice(within).strip() for _, within in stated(file.source, decl)]
    if node is None or size is None or not all(t.isdigit() and int(t) for t in texts):
        return False
    for declarator in node.children_by_field_name("declarator"):
        bytes_, current = size, declarator
        if current.type == "init_declarator":
            current = current.child_by_field_name("declarator") or current
        while current.type == "array_declarator":
            extent = (current.child_by_field_name("size") or current).text or b""
            bytes_ *= int(extent) if extent.isdigit() else 0
            current = current.child_by_field_name("declarator") or current
        if current.type != "identifier" or not bytes_ or any(bytes_ % int(t) for t in texts):
            return False
    return True


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
