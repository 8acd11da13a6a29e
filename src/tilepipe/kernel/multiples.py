"""What run-time terms are multiples of, and that they are not negative: known, followed to loop variables, or asked for
at run time."""

from __future__ import annotations

from math import gcd

import numpy as np

from tilepipe.kernel.affine import Form, Monomial
from tilepipe.kernel.flow import Item
from tilepipe.kernel.mapforms import Forms
from tilepipe.kernel.model import KernelModel
from tilepipe.kernel.resolve import DEPTH, NotProvedError, Resolver
from tilepipe.kernel.rising import positive
from tilepipe.kernel.scopes import Scope, Value
from tilepipe.kernel.symbols import Symbol


class Multiples:
    """Questions about one copy, which `item` makes; `needs` gathers the conditions that are to be asked at run time."""

    def __init__(self, model: KernelModel, names: Resolver, item: Item) -> None:
        self.model = model
        self.names = names
        self.item = item
        self.needs: dict[str, None] = {}  # an ordered set

    def multiple(self, monomial: Monomial, factor: int, width: int, forms: Forms, what: str) -> None:
        """`factor` times the monomial is a multiple of `width`: by itself, or because one of its symbols is one."""
        missing = width // gcd(width, factor)
        if missing == 1:
            return
        for name in monomial:
            state = forms.states.get(name)
            carried = state is not None and state in self.model.split.carried and state.key[1] == ()
            if state is not None and carried and self._state_multiple(state, missing, forms):
                return
        for name in monomial:
            written = forms.asked.get(name)
            fixed = any(p.name == name and forms.fixed(p) for p in self.model.analysed.parameters)
            if fixed or written is not None:
                self.needs[f"{written or name} % {missing} == 0"] = None
                return
        raise NotProvedError(f"{what} is not known to be a multiple of {width} bytes")

    def steps(self, state: Symbol, forms: Forms) -> list[Form]:
        """What is added to a variable per tile, the same for all threads."""
        added = self.names.added(state)
        if not added:
            raise NotProvedError(f"the steps of `{state.name}` are not understood")
        found = []
        for node, uses in added:
            value = Value(node, Scope(uses, ()), self.item)
            for form in forms.cases(lambda value=value: forms.form(value)):  # type: ignore[misc]
                if any(np.any(v != v.flat[0]) for v in form.terms.values()):
                    raise NotProvedError(f"`{state.name}` moves on differently in each thread")
                found.append(form)
        return found

    def _state_multiple(self, state: Symbol, width: int, forms: Forms) -> bool:
        """Whether a loop variable is a multiple of `width` in every iteration: its start and all its steps are."""
        start = self.names.start(state)
        if start is None:
            return False
        value = Value(start[0], Scope(start[1], ()), self.item)
        try:
            starts = forms.cases(lambda: forms.form(value))
            for form in (*starts, *self.steps(state, forms)):
                for monomial, vector in form.terms.items():
                    factor = int(np.gcd.reduce(np.append(vector, 0)))
                    self.multiple(monomial, factor, width, forms, "a step")
        except NotProvedError:
            return False
        return True

    def natural(self, form: Form, forms: Forms, depth: int = 0) -> None:
        """A form is zero or above, if what is asked for is."""
        for name in positive(form):
            state = forms.states.get(name)
            if state is None:
                self.needs[f"{forms.asked.get(name, name)} >= 0"] = None
                continue
            start = self.names.start(state) if state in self.model.split.carried else None
            if start is None or depth > DEPTH:
                raise NotProvedError(f"`{state.name}` may be below zero")
            value = Value(start[0], Scope(start[1], ()), self.item)
            starts = forms.cases(lambda value=value: forms.form(value))  # type: ignore[misc]
            for part in (*starts, *self.steps(state, forms)):
                self.natural(part, forms, depth + 1)
