"""The page behind a code: what `tilepipe explain TPnnn` prints."""

from __future__ import annotations

import re
from pathlib import Path

from tilepipe.diagnostics.core import Refusal, error

_PACKAGED = Path(__file__).parent / "pages"  # where a wheel holds docs/refusals
_CHECKOUT = Path(__file__).parents[3] / "docs" / "refusals"  # where an editable install finds them


def explain(code: str) -> str | Refusal:
    """The page of `code` ("TP012", "tp12" and "12" are read) as Markdown. Unknown ones: TP141."""
    match = re.fullmatch(r"(?:TP)?0*(\d{1,3})", code.strip(), re.IGNORECASE)
    page = _pages() / f"TP{int(match[1]):03}.md" if match else None
    if page is None or not page.is_file():
        return error(
            "TP141",
            f"there is no code `{code}`",
            help="codes look like TP012 and stand at the start of a message; "
            "`tilepipe explain` without one lists them all",
        )
    return page.read_text(encoding="utf-8")


def titles() -> dict[str, str]:
    """Every code with the title of its page, in order."""
    lines = (page.read_text(encoding="utf-8").split("\n", 1)[0] for page in sorted(_pages().glob("TP*.md")))
    return {code: title for code, _, title in (line.removeprefix("# ").partition(": ") for line in lines)}


def _pages() -> Path:
    return _PACKAGED if _PACKAGED.is_dir() else _CHECKOUT
