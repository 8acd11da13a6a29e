"""Diagnostics as text: the line of the user's file with a caret, then the help.

gemm.cu:41:9: TP012 refused: tile `As` is read before it is overwritten
   |
41 |     acc += As[ty][k] * Bs[k][tx];
   |            ^^ read here; overwritten at line 47
   = help: copy the tile at the top of the loop body, then compute · tilepipe explain TP012
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tilepipe.diagnostics.core import Diagnostic, Place, Severity

if TYPE_CHECKING:
    from rich.text import Text

TAB = 4
MAX_COLUMNS = 160  # of source shown; longer lines are cut around the caret

_WORD: dict[Severity, str] = {"refusal": "refused", "error": "error", "warning": "warning", "note": "note"}
_STYLE: dict[Severity, str] = {
    "refusal": "bold red",
    "error": "bold red",
    "warning": "bold yellow",
    "note": "bold cyan",
}

Piece = tuple[str, str]  # text and its rich style, "" for none


def plain(diagnostic: Diagnostic) -> str:
    """`diagnostic` as plain lines, without a newline at the end."""
    return "".join(text for text, _ in _pieces(diagnostic))


def styled(diagnostic: Diagnostic) -> Text:
    """`diagnostic` as rich text: what `plain` gives, coloured. Nothing in it is read as markup."""
    from rich.text import Text  # noqa: PLC0415 - rich is not needed for plain output

    return Text.assemble(*_pieces(diagnostic), no_wrap=True, overflow="ignore", end="")


def plain_all(diagnostics: Iterable[Diagnostic]) -> str:
    """Several diagnostics, an empty line between them."""
    return "\n\n".join(plain(d) for d in diagnostics)


def _pieces(diagnostic: Diagnostic) -> list[Piece]:
    style = _STYLE[diagnostic.severity]
    place = diagnostic.place
    where = f"{place.file}:{place.line}:{place.column}: " if place else ""
    pieces: list[Piece] = [
        (where, "bold"),
        (f"{diagnostic.code} {_WORD[diagnostic.severity]}", style),
        (f": {diagnostic.message}", ""),
    ]
    indent = " " * (len(str(place.line)) if place else 0)
    if place:
        source, caret = _excerpt(place)
        label = f" {diagnostic.label}" if diagnostic.label else ""
        pieces += [
            (f"\n{indent} |\n{place.line} | ", "blue"),
            (source, ""),
            (f"\n{indent} | ", "blue"),
            (caret + label, style),
        ]
    explain = f"tilepipe explain {diagnostic.code}"
    help_text = f"{diagnostic.help} · {explain}" if diagnostic.help else explain
    pieces += [(f"\n{indent} = ", "blue"), ("help", "bold"), (f": {help_text}", "")]
    return pieces


def _excerpt(place: Place) -> tuple[str, str]:
    """The source line and the caret line below it, aligned in terminal columns and cut to MAX_COLUMNS."""
    start = min(place.column - 1, len(place.text))
    before, marked = _printable(place.text[:start]), place.text[start : start + place.width]
    after = _printable(place.text[start + place.width :], _columns(before) + _columns(marked))
    marked = _printable(marked, _columns(before))
    if _columns(before) > MAX_COLUMNS // 2:
        before = "… " + before[-MAX_COLUMNS // 2 :].lstrip()
    room = MAX_COLUMNS - _columns(before)
    caret = " " * _columns(before) + "^" * max(1, min(_columns(marked), room))
    line = before + marked + after
    return (line if len(line) <= MAX_COLUMNS else line[: MAX_COLUMNS - 2] + " …"), caret


def _printable(text: str, column: int = 0) -> str:
    """`text`, which begins at `column`, with tabs expanded and control characters made harmless."""
    expanded = (" " * column + text).expandtabs(TAB)[column:]
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in expanded.rstrip("\r\n"))


def _columns(text: str) -> int:
    """How many terminal columns `text` takes."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )
