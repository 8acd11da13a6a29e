"""Large texts are lexed in parts, and nothing that is told changes by it."""

from __future__ import annotations

import random

import pytest

from tilepipe.source.lexical import Lexeme, lexemes

_PIECES = (
    *(
        b"\n}\n",
        b"\n}\n",
        b"/*",
        b"*/",
        b'R"(',
        b')"',
        b"//",
        b"\\\n",
        b"\n#define A ",
        b"x",
        b"1.5e+3",
        b" ",
    ),
    *(b'"', b"'", b"{", b"}", b"\n"),
)
_LONG = b" " * 4096  # what is shorter is not lexed in parts


@pytest.mark.parametrize("seed", range(200))
def test_parts_are_lexed_like_the_whole(seed: int) -> None:
    chosen = random.Random(seed)
    text = b"".join(chosen.choice(_PIECES) for _ in range(chosen.randint(1, 60)))
    at_once = [Lexeme(kind, start - 1, end - 1) for kind, start, end in lexemes(b"\n" + text + _LONG, 1)]
    assert list(lexemes(text + _LONG)) == at_once


@pytest.mark.parametrize("around", [b"/*%b*/", b'R"(%b)"', b"#define A \\%b", b"//%b", b"%b"])
def test_a_brace_that_ends_no_part(around: bytes) -> None:
    text = b"int a;\n" + around.replace(b"%b", b"\n}\n") + b" int b;\n}\nint c;\n" + _LONG
    at_once = [Lexeme(kind, start - 1, end - 1) for kind, start, end in lexemes(b"\n" + text, 1)]
    assert list(lexemes(text)) == at_once
