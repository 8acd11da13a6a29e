"""Questions about several kernels of one file in one text, so that one compilation answers them all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilepipe.toolchain.types import Asked, Question


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
