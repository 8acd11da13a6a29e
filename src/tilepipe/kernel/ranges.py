"""Where an integer expression lies, as forms: from `lo` to `hi`, both included, for all threads and inner loops.

What every thread of a block agrees on (a size, a block's number, the tile's counter) stays a symbol, so that it
cancels in a difference; what differs between threads or turns of an inner loop becomes a distance between the bounds.
Integer arithmetic is taken not to wrap.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilepipe.kernel.affine import ONE, Form, number

# Never negative; the extents are at least 1.
_EXTENTS = tuple(f"{name}.{axis}" for name in ("blockDim", "gridDim") for axis in "xyz")
_NATURAL = frozenset((*_EXTENTS, *(f"blockIdx.{axis}" for axis in "xyz")))


@dataclass(frozen=True, eq=False)
class Range:
    """Bounds of a value; None where there is no bound."""

    lo: Form | None
    hi: Form | None

    def __add__(self, other: Range) -> Range:
        return Range(_plus(self.lo, other.lo), _plus(self.hi, other.hi))

    def __neg__(self) -> Range:
        return Range(_times(self.hi, -1), _times(self.lo, -1))

    @property
    def point(self) -> Form | None:
        """The value where both bounds are the same."""
        if self.lo is None or self.hi is None:
            return None
        return self.lo if not coefficients(self.hi - self.lo) else None


def exactly(form: Form) -> Range:
    return Range(form, form)


def _plus(a: Form | None, b: Form | None) -> Form | None:
    return a + b if a is not None and b is not None else None


def _times(a: Form | None, factor: int) -> Form | None:
    return a * number(factor) if a is not None else None


def coefficients(form: Form) -> dict[tuple[str, ...], int]:
    """The coefficients of a form over no elements, those that are 0 left out."""
    return {m: int(v[0]) for m, v in form.terms.items() if int(v[0])}


def never_negative(form: Form, threads: int | None = None) -> bool:
    """Whether a form is at least 0 in every launch; `threads` bounds the threads of a block along x."""
    least = 0
    for monomial, factor in coefficients(form).items():
        if monomial == ONE:
            least += factor
        elif factor > 0 and set(monomial) <= _NATURAL:
            least += factor if set(monomial) <= set(_EXTENTS) else 0
        elif factor < 0 and monomial == ("blockDim.x",) and threads is not None:
            least += factor * threads
        else:
            return False
    return least >= 0


def product(a: Range, b: Range) -> Range | None:
    """a · b where one of them has one value, and that a known sign unless the other has one value too."""
    x, y = a.point, b.point
    if x is not None and y is not None:
        return exactly(x * y)
    if x is None and y is None:
        return None
    factor, other = (x, b) if x is not None else (y, a)
    assert factor is not None
    if never_negative(factor):
        return Range(_scaled(other.lo, factor), _scaled(other.hi, factor))
    if never_negative(number(-1) * factor):
        return Range(_scaled(other.hi, factor), _scaled(other.lo, factor))
    return None


def _scaled(bound: Form | None, factor: Form) -> Form | None:
    return bound * factor if bound is not None else None


def constant(form: Form | None) -> int | None:
    """The value of a bound that no launch decides."""
    if form is None or set(coefficients(form)) - {ONE}:
        return None
    return coefficients(form).get(ONE, 0)


def quotient(sign: str, a: Range, divisor: int) -> Range | None:
    """`a / c`, `a % c`, `a >> c`, `a << c` and `a & c` for a of 0 and above and a constant c."""
    if a.lo is None or not never_negative(a.lo) or divisor < 0 or (sign in ("/", "%") and divisor == 0):
        return None
    if sign == "<<":
        return product(a, exactly(number(1 << divisor))) if divisor < 31 else None
    low, high = constant(a.lo) or 0, constant(a.hi)
    if sign in ("/", ">>"):
        step = divisor if sign == "/" else 1 << min(divisor, 62)
        return Range(number(low // step), number(high // step) if high is not None else None)
    most = divisor - 1 if sign == "%" else divisor
    return Range(number(0), number(most if high is None else min(high, most)))
