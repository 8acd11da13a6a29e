"""Values of the abstract machine: integer ranges, and pointers into named arrays.

One walk stands for all threads of a block and all turns of the loops that hold no synchronisation, so a
value is a range. What it depends on travels with it: `thread` (coordinates of the thread), `tile` (a counter
that moves from tile to tile), `data` (memory), or the name of a kernel parameter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tilepipe.source import Span

Bound = int | float  # an int, or plus or minus infinity
Tags = frozenset[str]
NO_TAGS: Tags = frozenset()
THREAD, TILE, DATA = "thread", "tile", "data"


@dataclass(frozen=True)
class Num:
    """All integers from `lo` to `hi`. `form` spells a value that is a function of the thread alone."""

    lo: Bound
    hi: Bound
    tags: Tags = NO_TAGS
    form: str | None = None

    @property
    def known(self) -> int | None:
        """The value where there is only one."""
        return int(self.lo) if self.lo == self.hi and math.isfinite(self.lo) else None

    @property
    def truth(self) -> bool | None:
        """Whether the value counts as true; None where it may be either."""
        if self.lo > 0 or self.hi < 0:
            return True
        return False if self.lo == 0 == self.hi else None


def const(value: int, tags: Tags = NO_TAGS) -> Num:
    """One known integer."""
    return Num(value, value, tags, str(value))


def unknown(tags: Tags = NO_TAGS) -> Num:
    """Any integer."""
    return Num(-math.inf, math.inf, tags)


ANY = unknown()


@dataclass(frozen=True, eq=False)
class Array:
    """An array by declaration. `dims` has None for an extent that is not known; `elem` is in bytes, 0 unknown."""

    name: str
    space: Literal["shared", "global", "local"]
    elem: int = 0
    dims: tuple[int | None, ...] = ()
    declared: Span = field(default_factory=lambda: Span(0, 0))
    dynamic: bool = False

    @property
    def bytes(self) -> int | None:
        """The size of the whole array, None where it is not known."""
        if not self.elem or self.dynamic or None in self.dims:
            return None
        return self.elem * math.prod(d for d in self.dims if d is not None)


@dataclass(frozen=True)
class Pointer:
    """An address in an array: `offset` bytes from its start; `dims` are the extents still to be subscripted.

    `lead` is the index into the first of two or more dimensions: in a staged buffer, the stage.
    """

    array: Array
    offset: Num = field(default_factory=lambda: const(0))
    elem: int = 0
    dims: tuple[int | None, ...] = ()
    lead: Num | None = None
    inner: Num | None = None  # the offset without the lead's part; None where that is not kept apart


@dataclass(eq=False)
class Cell:
    """A variable: its value, the bytes and name of its type, and how it was spelled where it was declared."""

    value: Any
    size: int = 0
    type: str = ""
    origin: str = ""


@dataclass(frozen=True)
class Object:
    """A value that is neither number nor pointer: a pipeline or a thread group."""

    kind: Literal["pipeline", "group", "barrier"]
    scope: str = ""


def hull(a: Any, b: Any) -> Any:
    """The least value that covers both."""
    if a is b or a == b:
        return a
    if isinstance(a, Num) and isinstance(b, Num):
        return Num(min(a.lo, b.lo), max(a.hi, b.hi), a.tags | b.tags)
    if isinstance(a, Pointer) and isinstance(b, Pointer) and a.array is b.array:
        lead = None if a.lead is None or b.lead is None else hull(a.lead, b.lead)
        return replace(a, offset=hull(a.offset, b.offset), lead=lead)
    tags = a.tags if isinstance(a, Num) else b.tags if isinstance(b, Num) else NO_TAGS
    return unknown(tags)


def _corners(f: Callable[[Any, Any], Any], a: Num, b: Num) -> tuple[Bound, Bound]:
    values = [f(x, y) for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
    if any(isinstance(v, float) and math.isnan(v) for v in values):
        return -math.inf, math.inf
    return min(values), max(values)


def _product(x: Bound, y: Bound) -> Bound:
    return 0 if x == 0 or y == 0 else x * y


def _divide(a: Num, b: Num) -> tuple[Bound, Bound]:
    d = b.known
    if not d:
        return (0, a.hi) if a.lo >= 0 and b.lo > 0 else (-math.inf, math.inf)

    def quotient(x: Bound) -> Bound:
        if not math.isfinite(x):
            return x if d > 0 else -x
        return abs(int(x)) // abs(d) * (1 if (x >= 0) == (d > 0) else -1)

    ends = quotient(a.lo), quotient(a.hi)
    return min(ends), max(ends)


def _modulo(a: Num, b: Num) -> tuple[Bound, Bound]:
    d = b.known
    if not d or d < 0:
        return (0, min(a.hi, b.hi - 1)) if a.lo >= 0 and b.lo > 0 else (-math.inf, math.inf)
    if a.known is not None:
        r = abs(a.known) % d
        return (r, r) if a.known >= 0 else (-r, -r)
    if a.lo >= 0:
        if math.isfinite(a.hi) and a.lo // d == a.hi // d:
            return a.lo % d, a.hi % d
        return 0, min(a.hi, d - 1)
    return 1 - d, d - 1


def _bits(a: Num, b: Num, operator: str) -> tuple[Bound, Bound]:
    if a.known is not None and b.known is not None:
        x, y = a.known, b.known
        value = x & y if operator == "&" else x | y if operator == "|" else x ^ y
        return value, value
    if a.lo < 0 or b.lo < 0:
        mask = next((k for k in (a.known, b.known) if k is not None and k >= 0), None)
        return (0, mask) if operator == "&" and mask is not None else (-math.inf, math.inf)
    if operator == "&":
        return 0, min(a.hi, b.hi)
    top = max(a.hi, b.hi)
    if not math.isfinite(top):
        return 0, math.inf
    return 0, (1 << int(top).bit_length()) - 1


def _shift(a: Num, b: Num, left: bool) -> tuple[Bound, Bound]:
    n = b.known
    if n is None or not 0 <= n < 64:
        return (0 if a.lo >= 0 else -math.inf), (a.hi if a.lo >= 0 and not left else math.inf)
    if left:
        return _product(a.lo, 1 << n), _product(a.hi, 1 << n)
    return tuple(x if not math.isfinite(x) else int(x) >> n for x in (a.lo, a.hi))  # type: ignore[return-value]


def _compare(a: Num, b: Num, operator: str) -> tuple[Bound, Bound]:
    if operator in (">", ">="):
        return _compare(b, a, "<" if operator == ">" else "<=")
    if operator == "<":
        return (1, 1) if a.hi < b.lo else (0, 0) if a.lo >= b.hi else (0, 1)
    if operator == "<=":
        return (1, 1) if a.hi <= b.lo else (0, 0) if a.lo > b.hi else (0, 1)
    same = a.known is not None and a.known == b.known
    apart = a.hi < b.lo or b.hi < a.lo
    equal = (1, 1) if same else (0, 0) if apart else (0, 1)
    return equal if operator == "==" else (1 - equal[1], 1 - equal[0])


def arithmetic(operator: str, a: Num, b: Num) -> Num:
    """`a operator b` for the binary operators of C on integers; an unknown operator gives any value."""
    if operator == "+":
        ends: tuple[Bound, Bound] = (a.lo + b.lo, a.hi + b.hi)
    elif operator == "-":
        ends = (a.lo - b.hi, a.hi - b.lo)
    elif operator == "*":
        ends = _corners(_product, a, b)
    elif operator == "/":
        ends = _divide(a, b)
    elif operator == "%":
        ends = _modulo(a, b)
    elif operator in ("&", "|", "^"):
        ends = _bits(a, b, operator)
    elif operator in ("<<", ">>"):
        ends = _shift(a, b, operator == "<<")
    elif operator in ("<", "<=", ">", ">=", "==", "!="):
        ends = _compare(a, b, operator)
    elif operator == "&&":
        ends = (int(a.truth is True and b.truth is True), int(a.truth is not False and b.truth is not False))
    elif operator == "||":
        ends = (int(a.truth is True or b.truth is True), int(a.truth is not False or b.truth is not False))
    else:
        ends = (-math.inf, math.inf)
    if any(isinstance(e, float) and math.isnan(e) for e in ends):
        ends = (-math.inf, math.inf)
    return Num(*ends, a.tags | b.tags, _form(operator, a, b, ends))


def _form(operator: str, a: Num, b: Num, ends: tuple[Bound, Bound]) -> str | None:
    if ends[0] == ends[1] and math.isfinite(ends[0]):
        return str(int(ends[0]))
    if a.form is None or b.form is None:
        return None
    if operator == "+" and a.form == "0":
        return b.form
    if operator in "+-" and b.form == "0":
        return a.form
    return f"({a.form}{operator}{b.form})"
