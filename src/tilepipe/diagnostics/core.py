"""The one diagnostic type. Failures are values: a stage returns its result or a `Refusal`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["refusal", "error", "warning", "note"]


@dataclass(frozen=True)
class Place:
    """A span on one line of a user's file.

    `line` and `column` count from 1; `width` is the number of characters under the caret; `text` is the
    whole source line, kept so that a renderer needs no file access.
    """

    file: str
    line: int
    column: int
    width: int
    text: str


@dataclass(frozen=True)
class Diagnostic:
    """One coded message. `label` stands beside the caret; `help` is the edit or action that lifts it."""

    code: str
    severity: Severity
    message: str
    place: Place | None = None
    label: str = ""
    help: str = ""


@dataclass(frozen=True)
class Refusal:
    """A stage's answer when it has no result: why not, as one or more diagnostics."""

    diagnostics: tuple[Diagnostic, ...]

    @property
    def exit_code(self) -> int:
        """1 when the input was understood and refused, 2 when it could not be processed at all."""
        return 2 if any(d.severity == "error" for d in self.diagnostics) else 1


def refusal(code: str, message: str, place: Place | None = None, label: str = "", help: str = "") -> Refusal:
    """A refusal with one diagnostic: the input is understood, and pipelining it would be wrong."""
    return Refusal((Diagnostic(code, "refusal", message, place, label, help),))


def error(code: str, message: str, place: Place | None = None, label: str = "", help: str = "") -> Refusal:
    """A refusal with one error: usage, compile or environment."""
    return Refusal((Diagnostic(code, "error", message, place, label, help),))
