"""Index expressions over a copy's elements: exact at compile time, symbolic in what only the launch knows.

A `Form` is Σ (product of run-time symbols) × (integer for every element of the copy). Sums and products of forms
are forms; `/`, `%`, shifts and bit operations are taken only where the operands hold no symbol, and then exactly,
element by element. Everything else is not a form, and nothing is claimed about it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tree_sitter import Node

Vector = npt.NDArray[np.int64]
Monomial = tuple[str, ...]  # sorted names of run-time symbols; () for the constant part
ONE: Monomial = ()


@dataclass(frozen=True, eq=False)
class Form:
    """`terms` maps each monomial to its coefficient for every element (a vector, or one number for all)."""

    terms: Mapping[Monomial, Vector]

    @property
    def constant(self) -> Vector | None:
        """The value where no run-time symbol occurs, else None."""
        if any(m != ONE for m in self.terms):
            return None
        return self.terms.get(ONE, np.zeros(1, np.int64))

    def __add__(self, other: Form) -> Form:
        terms = dict(self.terms)
        for monomial, vector in other.terms.items():
            terms[monomial] = terms[monomial] + vector if monomial in terms else vector
        return Form(terms)

    def __mul__(self, other: Form) -> Form:
        terms: dict[Monomial, Vector] = {}
        for a, x in self.terms.items():
            for b, y in other.terms.items():
                monomial = tuple(sorted(a + b))
                terms[monomial] = terms.get(monomial, np.zeros(1, np.int64)) + x * y
        return Form(terms)

    def __sub__(self, other: Form) -> Form:
        return self + number(-1) * other

    def of_groups(self, width: int, count: int) -> Mapping[Monomial, Vector]:
        """Coefficients as a (groups, width) table: element g * width + v of the copy at [g, v]."""
        return {m: np.broadcast_to(v, (count,)).reshape(-1, width) for m, v in self.terms.items()}


def number(value: int) -> Form:
    """A constant form."""
    return Form({ONE: np.array([value], np.int64)})


def symbol(name: str) -> Form:
    """A form that is one run-time symbol."""
    return Form({(name,): np.array([1], np.int64)})


def elements(count: int) -> Form:
    """The form 0, 1, …, count − 1: the number of each element."""
    return Form({ONE: np.arange(count, dtype=np.int64)})


Lookup = Callable[[str, Node], Form | None]
Keeps = Callable[[str], bool]


def evaluate(node: Node, text: Callable[[Node], str], lookup: Lookup, keeps: Keeps) -> Form | None:
    """The form of an integer expression, None where it is not one. `lookup` gives the form of a name; `keeps` says
    whether a cast to a type keeps every index.

    Division and remainder truncate towards zero in C++; operands below zero are not taken.
    """
    kind = node.type
    if kind in ("parenthesized_expression", "condition_clause") and node.named_children:
        return evaluate(node.named_children[0], text, lookup, keeps)
    if kind == "cast_expression":
        value, kept = node.child_by_field_name("value"), node.child_by_field_name("type")
        if value is None or kept is None or not keeps(text(kept)):
            return None
        return evaluate(value, text, lookup, keeps)
    if kind == "number_literal":
        try:
            return number(int(text(node).rstrip("uUlL"), 0))
        except ValueError:
            return None
    if kind in ("identifier", "field_expression", "qualified_identifier"):
        return lookup(text(node), node)
    if kind == "binary_expression":
        return _binary(node, text, lookup, keeps)
    return None


def _binary(node: Node, text: Callable[[Node], str], lookup: Lookup, keeps: Keeps) -> Form | None:
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    operator = node.child_by_field_name("operator")
    if left is None or right is None or operator is None:
        return None
    a, b = evaluate(left, text, lookup, keeps), evaluate(right, text, lookup, keeps)
    if a is None or b is None:
        return None
    sign = text(operator)
    if sign == "+":
        return a + b
    if sign == "-":
        return a - b
    if sign == "*":
        return a * b
    return exact(sign, a.constant, b.constant)


def exact(sign: str, a: Vector | None, b: Vector | None) -> Form | None:
    """Operators that are taken element by element, on values of zero and above."""
    if a is None or b is None or (a < 0).any() or (b < 0).any():
        return None
    if sign in ("/", "%"):
        if (b == 0).any():
            return None
        return Form({ONE: a // b if sign == "/" else a % b})
    if sign in ("<<", ">>") and (b < 31).all():
        return Form({ONE: a << b if sign == "<<" else a >> b})
    if sign in ("&", "|", "^"):
        return Form({ONE: a & b if sign == "&" else a | b if sign == "|" else a ^ b})
    return None
