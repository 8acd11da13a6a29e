"""A flat view of CUDA text: comments, literals, words, numbers, directives and marks, by byte offset.

This is what is needed where a tree is too much: to look at code and never at comments or strings, and to find
the end of a bracketed group. It works before preprocessing, so both arms of an `#if` are in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, NamedTuple, cast

LexemeKind = Literal["comment", "literal", "number", "word", "directive", "mark"]

_COMMENT = rb"//(?:[^\n\\]|\\\r?\n|\\(?!\r?\n))*|/\*[\s\S]*?(?:\*/|\Z)"
_RAW = rb'(?:u8|[uUL])?R"(?P<delimiter>[^()\\\s"]{0,16})\([\s\S]*?(?:\)(?P=delimiter)"|\Z)'
_STRING = rb'(?:u8|[uUL])?"(?:[^"\\\n]|\\[\s\S])*"?'
_CHARACTER = rb"(?:u8|[uUL])?'(?:[^'\\\n]|\\[\s\S])*'?"
# A directive runs to the end of its logical line; a block comment inside may carry it over further lines.
_DIRECTIVE = rb"^[ \t]*\#(?:" + _COMMENT + rb'|"(?:[^"\\\n]|\\.)*"|\\\r?\n|[^\n])*'

_LEXEME = re.compile(
    rb"(?P<comment>" + _COMMENT + rb")"
    rb"|(?P<directive>" + _DIRECTIVE + rb")"
    rb"|(?P<literal>" + rb"|".join((_RAW, _STRING, _CHARACTER)) + rb")"
    rb"|(?P<number>\.?\d(?:'?[\w.]|(?<=[eEpP])[+-])*)"
    rb"|(?P<word>[A-Za-z_$][\w$]*)"
    rb"|(?P<mark>[^\s])",
    re.MULTILINE,
)

_PART_END = b"\n}\n"
_FILE_BYTES = 2048  # what is shorter is a piece of a file, seldom looked at twice
_PAIRS = {b"(": b")", b"[": b"]", b"{": b"}"}


class Lexeme(NamedTuple):
    """One lexeme: its kind and half-open byte range. A mark is a single byte of punctuation.

    A tuple, since a file has tens of thousands, and they are made three times as fast as a frozen dataclass.
    """

    kind: LexemeKind
    start: int
    end: int


_made = tuple.__new__  # what `Lexeme(…)` calls


def lexemes(data: bytes, start: int = 0) -> Iterator[Lexeme]:
    """The lexemes of `data` from byte `start` on, in order; white space lies between them."""
    return iter(_whole(data)) if start == 0 and len(data) >= _FILE_BYTES else _found(data, start)


@lru_cache(maxsize=64)  # a file and its headers are looked at many times for each kernel
def _whole(data: bytes) -> tuple[Lexeme, ...]:
    """Put together from parts that end with a brace at the start of a line: the texts that are made of one file differ
    in few of these."""
    listed: list[Lexeme] = []
    start = end = 0
    while start < len(data):
        end = data.find(_PART_END, end) + len(_PART_END)
        part = data[start:] if end < len(_PART_END) else data[start:end]
        found = _part(part)
        if len(part) < len(data) - start and (
            not found or found[-1] != ("mark", len(part) - 2, len(part) - 1)
        ):
            continue  # that brace stands in a comment or the like: the part goes on to the next one
        listed += [_made(Lexeme, (kind, start + first, start + last)) for kind, first, last in found]
        start += len(part)
    return tuple(listed)


@lru_cache(maxsize=4096)
def _part(data: bytes) -> tuple[Lexeme, ...]:
    return tuple(_found(data, 0))


def _found(data: bytes, start: int) -> Iterator[Lexeme]:
    for match in _LEXEME.finditer(data, start):
        # The group that closes last is the outer one, never the delimiter of a raw string.
        yield _made(Lexeme, (cast(LexemeKind, match.lastgroup), *match.span()))


@lru_cache(maxsize=64)
def directives(data: bytes) -> tuple[tuple[int, int], ...]:
    """The half-open byte range of each preprocessor directive, in order."""
    if b"#" not in data:
        return ()
    return tuple((one.start, one.end) for one in lexemes(data) if one.kind == "directive")


def words_of(data: bytes) -> set[bytes]:
    """The distinct words outside of comments, literals and directives."""
    return {m.group() for m in _LEXEME.finditer(data) if m.lastgroup == "word"}


def closing(data: bytes, start: int) -> int | None:
    """The offset just past the bracket that closes the one at byte `start`; None where it is never closed.

    Comments, literals and directives in between do not count. Raises ValueError when no bracket stands there.
    """
    opening = data[start : start + 1]
    if opening not in _PAIRS:
        raise ValueError(f"no bracket at byte {start}")
    expected: list[bytes] = []
    for lexeme in lexemes(data, start):
        if lexeme.kind != "mark":
            continue
        mark = data[lexeme.start : lexeme.end]
        if mark in _PAIRS:
            expected.append(_PAIRS[mark])
        elif mark in _PAIRS.values():
            if mark != expected.pop():
                return None
            if not expected:
                return lexeme.end
    return None


def blank(text: bytes) -> bytes:
    """Spaces for every byte but line ends: the same length, the same lines."""
    return re.sub(rb"[^\r\n]", b" ", text)
