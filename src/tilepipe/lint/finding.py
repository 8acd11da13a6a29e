"""A finding: a diagnostic with, where there is one, the edit that lifts it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tilepipe.diagnostics import Diagnostic
from tilepipe.source import Edit, Span

Safety = Literal["safe", "unsafe"]


@dataclass(frozen=True)
class Fix:
    """Edits that lift a finding. A safe one keeps every value that a right kernel computes."""

    edits: tuple[Edit, ...]
    safety: Safety = "safe"


@dataclass(frozen=True)
class Found:
    """What a rule found, by place in the author's text. `array` is the buffer concerned; `counts` the numbers
    of tiles at which it shows."""

    code: str
    span: Span
    message: str
    label: str
    help: str
    severity: Literal["error", "warning"] = "error"
    array: str = ""
    file: str | None = None
    fix: Fix | None = None


@dataclass(frozen=True)
class Finding:
    """A finding to show: `kernel` it is in, `fix` to apply."""

    kernel: str
    diagnostic: Diagnostic
    fix: Fix | None = None
