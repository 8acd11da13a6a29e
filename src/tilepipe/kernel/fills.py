"""Copies held against what the compiler says of types: those of zeros in their gaps, and of variables in between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from tilepipe.kernel.copies import Copy, NotACopy
from tilepipe.kernel.file import CudaFile


def fill_asks(copy: Copy | NotACopy) -> dict[str, tuple[Literal["type", "blank"], str]]:
    """Kind and expression of the questions about what a copy takes for zero, by key."""
    wanted: dict[str, tuple[Literal["type", "blank"], str]] = {}
    for number, zero in enumerate(copy.zeros if isinstance(copy, Copy) else ()):
        wanted |= zero.asks(_key(copy, number))
    return wanted


def settled(
    file: CudaFile, copies: tuple[Copy | NotACopy, ...], answers: Mapping[str, int | str | None]
) -> tuple[Copy | NotACopy, ...]:
    """The copies as the compiler's answers leave them."""
    return tuple(_settled(file, copy, answers) for copy in copies)


def _settled(
    file: CudaFile, copy: Copy | NotACopy, answers: Mapping[str, int | str | None]
) -> Copy | NotACopy:
    if isinstance(copy, NotACopy):
        return copy
    at = copy.use.item.statement.span.start
    held, loaded = (answers.get(f"{kind}:{at}") for kind in ("held", "loaded"))
    if held != loaded:
        return NotACopy(copy.use, f"the copy converts {loaded} to {held} on its way")
    wrong = [z for n, z in enumerate(copy.zeros) if not z.holds(file, _key(copy, n), answers)]
    if not wrong:
        return copy
    if copy.beyond is not None and not copy.use.item.own.shared_reads():
        return replace(copy, fill=copy.beyond)
    text = wrong[0].text or "{}"
    return NotACopy(copy.use, f"`{text}` is not known to be zero in every bit of a `{wrong[0].target}`")


def _key(copy: Copy | NotACopy, number: int) -> str:
    return f"zero:{copy.use.item.statement.span.start}:{number}"
