"""Guards in unsigned arithmetic over the elements of a copy map: their parts that move within groups."""

from __future__ import annotations

import numpy as np

from tilepipe.kernel.affine import Form
from tilepipe.kernel.mapforms import Forms
from tilepipe.kernel.resolve import NotProvedError
from tilepipe.kernel.scopes import Value
from tilepipe.kernel.wraps import WRAPS, Reading, rises


def rising(forms: Forms, left: Value, right: Value) -> list[Form]:
    """The parts of a comparison in unsigned arithmetic that rise within groups, so that they could pass zero there.
    NotProvedError where one falls."""
    reading = Reading[Value](
        node=lambda at: at.node,
        beside=lambda at, node: Value(node, at.scope, at.item),
        cast=lambda at, text: forms.types.named(text, len(at.scope.calls)),
        variable=forms.type_of,
        defined=forms.followed,
    )
    parts = reading.unsigned_parts([left, right])
    found = [form for p in parts for form in forms.cases(lambda p=p: forms.form(p))]  # type: ignore[misc]
    return [f for f in found if rises(f.of_groups(forms.grid.width, forms.grid.count))]


def positive(form: Form) -> list[str]:
    """The symbols that must be zero or above for a form to be; NotProvedError where that is not enough."""
    if any(np.any(vector < 0) for vector in form.terms.values()):
        raise NotProvedError(WRAPS)
    names = {n for m, vector in form.terms.items() if np.any(vector > 0) for n in m}
    return sorted(n for n in names if not n.startswith(("blockIdx.", "gridDim.")))
