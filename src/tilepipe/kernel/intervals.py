"""Arithmetic on what is known of an integer: bounds, and a number that divides it."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd


@dataclass(frozen=True)
class Range:
    """A value in [low, high], None where unbounded, and a multiple of `step` (0: the value is 0)."""

    low: int | None
    high: int | None
    step: int = 1

    @property
    def value(self) -> int | None:
        """The value where there is only one."""
        return self.low if self.low == self.high else None

    @property
    def natural(self) -> bool:
        """Whether it is known not to be negative."""
        return self.low is not None and self.low >= 0

    def __add__(self, other: Range) -> Range:
        return made(_sum(self.low, other.low), _sum(self.high, other.high), gcd(self.step, other.step))

    def __neg__(self) -> Range:
        low, high = (None if v is None else -v for v in (self.high, self.low))
        return Range(low, high, self.step)

    def __mul__(self, other: Range) -> Range:
        step = self.step * other.step
        if self.natural and other.natural:
            both = self.high is not None and other.high is not None
            most = self.high * other.high if both else None  # type: ignore[operator]
            return made((self.low or 0) * (other.low or 0), most, step)
        for one, factor in ((self, other.value), (other, self.value)):
            if factor is not None and factor >= 0:
                low, high = (None if v is None else v * factor for v in (one.low, one.high))
                return made(low, high, step)
        return Range(None, None, step)


ANY = Range(None, None)


def number(value: int) -> Range:
    """A value that is known."""
    return Range(value, value, abs(value))


def _sum(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def made(low: int | None, high: int | None, step: int) -> Range:
    """The range with its bounds drawn in to multiples of the step."""
    if step > 1:
        low = None if low is None else -(-low // step) * step
        high = None if high is None else high // step * step
    return number(low) if low is not None and low == high else Range(low, high, step)


def _wrapped(a: Range) -> Range:
    """What is left of a value that may have gone beyond 32 bits: of its divisor the power of two."""
    small = a.high is not None and a.high < 1 << 31
    return a if small else Range(a.low, None, a.step & -a.step)


def quotient(a: Range, by: int) -> Range:
    """`a / by`; anything where `a` may be negative."""
    a = _wrapped(a)
    if by <= 0 or not a.natural:
        return ANY
    high = None if a.high is None else a.high // by
    return made((a.low or 0) // by, high, a.step // by if a.step % by == 0 else 1)


def remainder(a: Range, by: int) -> Range:
    """`a % by`; anything where `a` may be negative."""
    a = _wrapped(a)
    if by <= 0 or not a.natural:
        return ANY
    if a.high is not None and a.high < by:
        return a
    step = gcd(a.step, by)
    return Range(0, by - step, step) if step != by else number(0)


def _masked(a: Range, mask: int) -> Range:
    """`a & mask`: bits that are zero in either are zero."""
    if mask < 0:
        return ANY
    high = mask if a.high is None or not a.natural else min(mask, a.high)
    return made(0, high, max(a.step & -a.step, mask & -mask) if mask and a.step else 0)


def joined(a: Range, b: Range) -> Range:
    """Either of two values."""
    low = None if a.low is None or b.low is None else min(a.low, b.low)
    high = None if a.high is None or b.high is None else max(a.high, b.high)
    return Range(low, high, gcd(a.step, b.step))


def _bits(a: Range, b: Range) -> Range:
    """`a | b` and `a ^ b` of what is not negative."""
    if not a.natural or not b.natural:
        return ANY
    step = gcd(a.step & -a.step, b.step & -b.step)
    high = None if a.high is None or b.high is None else (1 << max(a.high, b.high).bit_length()) - 1
    return made(0, high, step)


def operated(sign: str, a: Range, b: Range) -> Range:
    c = b.value
    if sign == "+":
        return a + b
    if sign == "-":
        return a + -b
    if sign == "*":
        return a * b
    if sign in ("|", "^"):
        return _bits(a, b)
    if sign == "&" and c is None:
        a, c = b, a.value
    if c is None:
        return ANY
    if sign == "/":
        return quotient(a, c)
    if sign == "%":
        return remainder(a, c)
    if sign == "&":
        return _masked(a, c)
    if sign in ("<<", ">>") and 0 <= c < 31:
        return a * number(1 << c) if sign == "<<" else quotient(a, 1 << c)
    return ANY
