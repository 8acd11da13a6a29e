"""A linear axis."""

from __future__ import annotations

import math
from dataclasses import dataclass

_STEPS = (1, 2, 5, 10)  # a tick interval is one of these times a power of ten


@dataclass(frozen=True)
class Tick:
    """A mark on an axis: its place in pixels and its text."""

    at: float
    text: str


@dataclass(frozen=True)
class Scale:
    """Maps [0, `most`] to [`start`, `end`] pixels; `end` may lie before `start`. `most` > 0."""

    most: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """The place of a value, to a tenth of a pixel."""
        return round(self.start + (self.end - self.start) * value / self.most, 1)

    def clipped(self, value: float) -> float:
        """The place of the value that is nearest in the domain."""
        return self.at(min(max(value, 0.0), self.most))

    def ticks(self, count: int, unit: float = 1, suffix: str = "", whole: bool = False) -> tuple[Tick, ...]:
        """About `count` round values, at most twice as many, in multiples of `unit`; only whole ones where
        asked for."""
        step = _round_step(self.most / unit / count)
        step = max(1.0, step) if whole else step
        last = math.floor(self.most / unit / step + 1e-9)
        return tuple(Tick(self.at(k * step * unit), f"{k * step:g}{suffix}") for k in range(last + 1))


def _round_step(rough: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten that is at least `rough` > 0."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(step * power for step in _STEPS if step * power >= rough * (1 - 1e-9))
