"""The end of the tile loop, and guards that fail past it."""

from __future__ import annotations

import re

import numpy as np

from tilepipe.kernel.affine import ONE, Form
from tilepipe.kernel.mapforms import Forms
from tilepipe.kernel.model import KernelModel
from tilepipe.kernel.scopes import Value
from tilepipe.kernel.symbols import Symbol

_HEADER = re.compile(r"\s*(\w+)\s*<\s*(\w+)\s*")


def header(model: KernelModel) -> tuple[Symbol, Symbol] | None:
    """The counter and the parameter of `for (int counter = …; counter < parameter; …)`, None for another loop."""
    loop = model.tile.loop
    if loop.kind != "for" or loop.condition is None or loop.counter is None or loop.counter_type != "int":
        return None
    found = _HEADER.fullmatch(model.file.source.slice(loop.condition))
    if found is None or found[1] != loop.counter.name or model.file.macros.keys() & set(found.groups()):
        return None
    bound = next((p for p in model.analysed.parameters if p.name == found[2]), None)
    plain = bound is not None and bound.type == "int" and not (bound.pointer or bound.reference or bound.rank)
    return (loop.counter, bound) if bound is not None and plain else None


def past_end(model: KernelModel, sign: str, left: Form, right: Form) -> int | None:
    """How far above the tile loop's counter the greatest element lies of which a comparison asks whether it lies below
    the loop's end; None for a comparison that may hold past the end."""
    ends = header(model)
    if sign in (">", ">="):
        left, right, sign = right, left, sign.replace(">", "<")
    if ends is None or sign not in ("<", "<="):
        return None
    terms = {m: v for m, v in (left - right).terms.items() if np.any(v)}
    none = np.zeros(1, np.int64)
    above = terms.pop(ONE, none)
    # Forms over the elements of several loops name a counter with its place.
    counter = terms.pop((ends[0].name,), none) + terms.pop((f"{ends[0].name}@{ends[0].key[0]}",), none)
    bound = terms.pop((ends[1].name,), none)
    if terms or np.any(counter != 1) or np.any(bound != -1) or np.any(above < (sign == "<=")):
        return None
    return int(above.max())


def first_end(model: KernelModel, forms: Forms, guard: Value) -> int | None:
    """What `past_end` says of the first comparison of a guard that fails past the end, whatever `min`, `max` and `?:`
    choose."""
    for sign, left, right in forms.conjunction(guard):
        lefts, rights = (forms.cases(lambda side=side: forms.form(side)) for side in (left, right))  # type: ignore[misc]
        found = [past_end(model, sign, low, high) for low in lefts for high in rights]
        known = [above for above in found if above is not None]
        if found and len(known) == len(found):
            return max(known)
    return None
