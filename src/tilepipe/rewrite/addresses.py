"""The addresses of elements, as text."""

from __future__ import annotations

import re

# Types whose `&` is the language's own: any other may be a class with an `operator&` that means something else.
_PLAIN = re.compile(
    r"(?:(?:un)?signed )?(?:char|short|int|long|long long)|bool|float|double|u?(?:char|short|int|long|longlong)[1-4]|"
    r"(?:float|double)[1-4]|(?:__)?half2?|__nv_bfloat16(?:2)?"
)


def address(lvalue: str, type_: object) -> str:
    """The text of an lvalue's address: `*p` gives `p`, `a[i]` gives `&a[i]`. `type_` is the lvalue's as the compiler
    spells it, if it is known."""
    text = lvalue.strip()
    if text.startswith("*"):
        return text[1:].strip()
    return f"&{text}" if _PLAIN.fullmatch(str(type_)) else f"__builtin_addressof({text})"
