"""Which cases of a long table run in CI."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def sampled(cases: Iterable[Any], every: int = 2) -> list[Any]:
    """The cases of a table for `parametrize`: the first of each `every` as they are, the rest in the full tier."""
    found = []
    for number, case in enumerate(cases):
        values = case if isinstance(case, tuple) else (case,)
        found.append(pytest.param(*values, marks=[pytest.mark.full] if number % every else []))
    return found
