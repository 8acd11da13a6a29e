"""A change of a text as rows, for reading it side by side or as one column."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

_CONTEXT = 3  # unchanged lines around a change


@dataclass(frozen=True)
class Line:
    """A line with its number from 1."""

    number: int
    text: str


@dataclass(frozen=True)
class Row:
    """A line of the old text beside the line of the new one that stands for it; None where there is none."""

    old: Line | None
    new: Line | None
    changed: bool


@dataclass(frozen=True)
class Hunk:
    """A change with the lines around it."""

    rows: tuple[Row, ...]

    @property
    def unified(self) -> tuple[tuple[Literal[" ", "-", "+"], Line], ...]:
        """The rows as one column: of each run of changes first what went, then what came."""
        out: list[tuple[Literal[" ", "-", "+"], Line]] = []
        run: list[Row] = []
        for row in (*self.rows, None):
            if row is not None and row.changed:
                run.append(row)
                continue
            out += [("-", r.old) for r in run if r.old]
            out += [("+", r.new) for r in run if r.new]
            run = []
            if row is not None and row.new is not None:
                out.append((" ", row.new))
        return tuple(out)


def hunks(before: str, after: str) -> tuple[Hunk, ...]:
    """The changes that make `after` of `before`; none where they are equal."""
    old, new = before.split("\n"), after.split("\n")
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    groups = matcher.get_grouped_opcodes(_CONTEXT)
    return tuple(Hunk(tuple(row for code in group for row in _rows(old, new, *code))) for group in groups)


def _rows(old: Sequence[str], new: Sequence[str], tag: str, i1: int, i2: int, j1: int, j2: int) -> list[Row]:
    left = [Line(i + 1, old[i]) for i in range(i1, i2)]
    right = [Line(j + 1, new[j]) for j in range(j1, j2)]
    return [Row(a, b, tag != "equal") for a, b in zip_longest(left, right)]
