"""Guards that end within a group: its first elements are loaded, and zero stands for the rest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilepipe.kernel.affine import ONE
from tilepipe.kernel.mapforms import Forms
from tilepipe.kernel.resolve import NotProvedError
from tilepipe.kernel.scopes import Value

_CHANGES = "the guard may change within a group"


@dataclass(frozen=True)
class Edge:
    """`rising` + (position in the group) `sign` `other`, with sign < or <=."""

    rising: str
    sign: str
    other: str


def edge(forms: Forms, sign: str, left: Value, right: Value) -> Edge:
    """A comparison that holds for the first elements of each group: one side rises by one per element, the other stays.

    NotProvedError where it is another one.
    """
    if sign in (">", ">="):
        left, right, sign = right, left, sign.replace(">", "<")
    if sign not in ("<", "<="):
        raise NotProvedError(_CHANGES)
    for other in forms.cases(lambda: forms.form(right)):
        if not forms.grid.uniform(other):
            raise NotProvedError(_CHANGES)
    for rising in forms.cases(lambda: forms.form(left)):
        tables = rising.of_groups(forms.grid.width, forms.grid.count)
        steps = {m: t - t[:, :1] for m, t in tables.items()}
        by_one = ONE in steps and np.all(steps[ONE] == np.arange(forms.grid.width))
        # Differences of unsigned numbers could wrap from one element to the next.
        rises = by_one and all(m == ONE or not np.any(s) for m, s in steps.items())
        if not rises or any(np.any(t < 0) for t in tables.values()):
            raise NotProvedError(_CHANGES)
    return Edge(forms.scopes.text(left.node), sign, forms.scopes.text(right.node))
