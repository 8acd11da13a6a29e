"""PTX text to tokens."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tilepipe.emulator.ptx.model import Unsupported

_TOKEN = re.compile(
    r"""(?P<skip>[ \t\r\n]+|//[^\n]*|/\*.*?\*/)
      | (?P<string>"[^"]*")
      | (?P<float>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|\d+\.\d*(?:[eE][-+]?\d+)?)
      | (?P<int>0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+U?)
      | (?P<word>[%$A-Za-z_][\w$]*(?:(?:\.|::)\w+)*)
      | (?P<dot>\.\w+(?:(?:\.|::)\w+)*)
      | (?P<punct>[-+*!@,;:{}()\[\]<>|=&~])""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Token:
    """`kind` is string, float, int, word, dot or punct; `line` counts from 1."""

    kind: str
    text: str
    line: int


def tokenize(text: str) -> list[Token]:
    """All tokens of `text`; raises `Unsupported` at a character that PTX does not use."""
    tokens: list[Token] = []
    position, line = 0, 1
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise Unsupported(f"character {text[position]!r}", line)
        lexeme = match.group()
        if match.lastgroup != "skip":
            tokens.append(Token(str(match.lastgroup), lexeme, line))
        line += lexeme.count("\n")
        position = match.end()
    tokens.append(Token("end", "", line))
    return tokens
