"""Which types keep an index as it is: integers of 32 bits or more, as the compiler names them.

A proof takes arithmetic for that of the integers. Floating point divides otherwise, narrow types cut values off, and a
class does as it likes, whatever the name under which the text has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tree_sitter import Node

from tilepipe.kernel.symbols import Symbol

SIGNED = frozenset(("int", "long", "long long"))
INTEGERS = SIGNED | {"unsigned int", "unsigned long", "unsigned long long"}
_KEYWORDS = frozenset(("int", "unsigned", "signed", "long"))
_CAST = re.compile(r"^static_cast\s*<(.*)>$", re.DOTALL)
_ALIAS = re.compile(
    r"^(std::)?(size_t|ptrdiff_t|u?int(32|64)_t|uint)$"
)  # in `T(x)`, other names are functions


@dataclass(frozen=True)
class Types:
    """What the compiler said of the types that a copy's expressions name. `at` is where the copy stands, `calls` the
    number of helper calls around it."""

    answers: Mapping[str, int | str | None]
    at: int = 0
    calls: int = 0

    def named(self, text: str, depth: int = 0) -> str:
        """The compiler's name of a type as it is spelled within so many calls, "" where it is not known."""
        plain = _plain(text)
        if (built_in := _built_in(plain)) or depth not in (0, self.calls):
            return built_in
        return str(self.answers.get(f"spelled:{self.at if depth else ''}:{plain}") or "")

    def of(self, found: Symbol) -> str:
        """The compiler's name of a variable's type, "" where it is not known."""
        if found.pointer or found.is_array:
            return ""
        if _plain(found.type) == "auto":
            return str(self.answers.get(f"auto:{found.key[0]}") or "") if not found.key[1] else ""
        return self.named(found.type, len(found.key[1]))

    def keeps(self, found: Symbol) -> bool:
        """Whether a variable holds integers of 32 bits or more. One whose type its value decides is as wide as that."""
        return _plain(found.type) == "auto" or self.of(found) in INTEGERS


def spelled_types(root: Node | None, symbols: Iterable[Symbol]) -> list[str]:
    """The types of variables and casts that must be asked for, as they are spelled."""
    found = {_plain(s.type) for s in symbols if s.type and not s.pointer and not s.is_array}
    found |= {_plain(text) for text in _casts(root)} if root is not None else set()
    return sorted(
        t for t in found if t and t != "auto" and not _built_in(t) and "*" not in t and "&" not in t
    )


def asked_type(text: str) -> str:
    """An expression of the type that is spelled so."""
    return f"*static_cast<{text}*>(nullptr)"


def cast_to(function: str) -> str:
    """The type in `static_cast<T>`, or the text itself: in `T(x)` it is the type."""
    found = _CAST.match(function.strip())
    return found[1] if found is not None else function


def _casts(root: Node) -> Iterator[str]:
    stack = [root]
    while stack:
        node = stack.pop()
        kind = node.child_by_field_name("type") if node.type == "cast_expression" else None
        called = node.child_by_field_name("function") if node.type == "call_expression" else None
        if kind is not None and kind.text:
            yield kind.text.decode()
        text = called.text.decode() if called is not None and called.text else ""
        if _CAST.match(text) or _ALIAS.match(text):
            yield cast_to(text)
        stack.extend(node.named_children)


def _plain(text: str) -> str:
    return " ".join(word for word in text.split() if word not in ("const", "volatile"))


def _built_in(text: str) -> str:
    """The compiler's name of a type that is spelled in keywords alone, "" for another."""
    words = text.split()
    if not words or not set(words) <= _KEYWORDS:
        return ""
    size = " ".join(["long"] * words.count("long")) or "int"
    return f"unsigned {size}" if "unsigned" in words else size
