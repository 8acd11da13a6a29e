"""Several kernels of one file in one text, with the questions about them, so that one compilation does for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilepipe.toolchain.types import Asked, Question, Unit


@dataclass(frozen=True)
class Together:
    """A unit of several kernels, in the order in which they were given, and the questions about all of them."""

    unit: Unit
    questions: tuple[Question, ...]


def together(base: str, asked: Sequence[Asked]) -> Together | None:
    """The kernels of the file `base` in one unit; None for fewer than two, or where `merged` gives none."""
    put = merged(base, asked)
    if put is None or len(asked) < 2:
        return None
    text, questions = put
    first, *others = (one.unit for one in asked)
    unit = replace(first, text=text, beside=tuple((u.kernel, u.instantiate) for u in others))
    return Together(unit, questions)


def merged(base: str, asked: Sequence[Asked]) -> tuple[str, tuple[Question, ...]] | None:
    """The file's text with every unit's edits, and the questions at their places there, with keys numbered by unit.

    None where a unit differs from the file, or asks something, outside of its own kernel.
    """
    data, out, at = base.encode(), b"", 0
    questions: list[Question] = []
    for number, one in sorted(enumerate(asked), key=lambda pair: pair[1].kernel.start):
        text, start = one.unit.text.encode(), one.kernel.start
        end = one.kernel.end + len(text) - len(data)  # of the kernel in its unit
        same = text[:start] == data[:start] and text[end:] == data[one.kernel.end :]
        if start < at or not same or not all(start <= q.offset <= end for q in one.questions):
            return None
        out += data[at:start]
        moved = len(out) - start
        questions += [replace(q, key=f"{number}:{q.key}", offset=q.offset + moved) for q in one.questions]
        out += text[start:end]
        at = one.kernel.end
    return (out + data[at:]).decode(), tuple(questions)
