"""How a kernel's shared variables are declared, so that an address can be named by its indices."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from tilepipe.diagnostics import Refusal
from tilepipe.emulator.findings import Shape
from tilepipe.source.lexical import closing, lexemes
from tilepipe.toolchain.types import Answer, Question, Toolchain, Unit


@dataclass(frozen=True)
class Declared:
    """A `__shared__` declarator: its name, how many pairs of brackets it has, and the byte behind its semicolon."""

    name: str
    rank: int
    end: int


def shared_shapes(toolchain: Toolchain, unit: Unit) -> dict[str, Shape]:
    """The shapes of the variables that the unit's kernel declares, or the file does, asked of the compiler.

    Names that are declared twice are left out, and all of them where the compiler does not answer.
    """
    declared = _of_kernel(unit)
    questions = tuple(
        Question(f"{d.name} {level}", "value", f"sizeof({d.name}{'[0]' * level})", d.end)
        for d in declared
        for level in range(1 if d.rank else 0, d.rank + 1)
    )
    answers = toolchain.answer(unit, questions) if questions else {}
    if isinstance(answers, Refusal):
        return {}
    shapes = {d.name: _shape(d, answers) for d in declared}
    return {name: shape for name, shape in shapes.items() if shape is not None}


def _shape(declared: Declared, answers: Mapping[str, Answer]) -> Shape | None:
    """The outermost dimension is not needed to count elements, and unknown for dynamic shared memory."""
    sizes = [answers.get(f"{declared.name} {level}") for level in range(declared.rank + 1)]
    if not declared.rank:
        return Shape((), sizes[0]) if isinstance(sizes[0], int) else None
    known = [s for s in sizes[1:] if isinstance(s, int) and s > 0]
    if len(known) < declared.rank:
        return None
    inner = tuple(outer // inner for outer, inner in pairwise(known))
    return Shape((0, *inner), known[-1])


def _of_kernel(unit: Unit) -> list[Declared]:
    data = unit.text.encode()
    found = list(_declarations(data, *_body(data, unit.kernel))) or list(_declarations(data, 0, len(data)))
    names = [d.name for d in found]
    return [d for d in found if names.count(d.name) == 1]


def _body(data: bytes, kernel: str) -> tuple[int, int]:
    """The byte range of the kernel's body, the whole text where it is not found."""
    for match in re.finditer(rb"\b" + re.escape(kernel.encode()) + rb"\s*\(", data):
        behind = closing(data, match.end() - 1)
        if behind is None:
            continue
        start = behind + len(data[behind:]) - len(data[behind:].lstrip())
        end = closing(data, start) if data[start : start + 1] == b"{" else None
        if end is not None:
            return start, end
    return 0, len(data)


def _declarations(data: bytes, start: int, end: int) -> Iterator[Declared]:
    pending: list[tuple[str, int]] = []
    inside, name, rank, skip = False, "", 0, start
    for lexeme in lexemes(data, start):
        if lexeme.start >= end:
            return
        text = data[lexeme.start : lexeme.end]
        if lexeme.start < skip or lexeme.kind == "comment":
            continue
        if text == b"__shared__":
            inside, name, rank, pending = True, "", 0, []
        elif inside and text in (b"[", b"("):
            skip = closing(data, lexeme.start) or end
            rank += text == b"["
        elif inside and text in (b",", b";"):
            if name:
                pending.append((name, rank))
            name, rank = "", 0
            if text == b";":
                yield from (Declared(n, r, lexeme.end) for n, r in pending)
                inside = False
        elif inside and lexeme.kind == "word":
            name = text.decode()
