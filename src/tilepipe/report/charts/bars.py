"""The candidates' speed-ups as bars: measured with their spread where there is a benchmark, else predicted."""

from __future__ import annotations

from dataclasses import dataclass

from tilepipe.evidence.types import Benchmark, Timing
from tilepipe.report.charts.scale import Scale, Tick
from tilepipe.report.result import RunReport

WIDTH = 720
_LEFT, _RIGHT = 190, 610
_TOP, _ROW, _THICK = 12, 28, 16
_AXIS = 40  # pixels below the last bar


@dataclass(frozen=True)
class Bar:
    """A candidate's bar from the left edge to `end`. `whisker` is (low, high) of the measured spread; `mark`
    the predicted speed-up of one that was measured."""

    name: str
    y: float
    end: float
    value: str
    chosen: bool
    whisker: tuple[float, float] | None = None
    mark: float | None = None


@dataclass(frozen=True)
class BarChart:
    """`one` is the place of 1×, the original; `original` the whisker of its own spread where it was timed."""

    measured: bool
    bars: tuple[Bar, ...]
    one: float
    original: tuple[float, float] | None
    ticks: tuple[Tick, ...]
    height: float
    width: int = WIDTH
    left: int = _LEFT
    right: int = _RIGHT
    top: int = _TOP
    thick: int = _THICK

    @property
    def bottom(self) -> float:
        """Where the axis lies."""
        return self.height - _AXIS


def bar_chart(report: RunReport) -> BarChart | None:
    """The measured speed-ups, else the predicted ones, best first; None where neither is known."""
    benchmark = report.evidence.benchmark
    if benchmark is not None and benchmark.original is not None and benchmark.candidates:
        return _measured(report, benchmark, benchmark.original)
    predicted = [
        (c.candidate.id, c.candidate.predicted_speedup)
        for c in report.candidates
        if c.candidate.status == "ok" and c.candidate.predicted_speedup
    ]
    return _predicted(report, sorted(predicted, key=lambda pair: -pair[1])) if predicted else None


def _measured(report: RunReport, benchmark: Benchmark, original: Timing) -> BarChart:
    ranges = {name: _speedups(original, timing) for name, timing in benchmark.candidates.items()}
    own = _speedups(original, original)
    marks = {c.candidate.id: c.candidate.predicted_speedup for c in report.candidates}
    highest = max(high for _, _, high in (*ranges.values(), own))
    x = Scale(max(1.1, highest, *(m for n in ranges if (m := marks.get(n)))) * 1.05, _LEFT, _RIGHT)
    bars = []
    for row, (name, (low, middle, high)) in enumerate(sorted(ranges.items(), key=lambda r: -r[1][1])):
        mark = marks.get(name)
        bars.append(
            Bar(
                name,
                _TOP + row * _ROW,
                x.at(middle),
                f"{middle:.2f}×",
                name == report.chosen,
                (x.at(low), x.at(high)),
                x.at(mark) if mark else None,
            )
        )
    return _chart(True, bars, x, (x.at(own[0]), x.at(own[2])))


def _speedups(original: Timing, timing: Timing) -> tuple[float, float, float]:
    """Low, middle and high speed-up: the median, half the interquartile range to either side."""
    middle = original.median_ms / timing.median_ms
    return middle / (1 + timing.spread / 2), middle, middle / max(1 - timing.spread / 2, 0.1)


def _predicted(report: RunReport, speedups: list[tuple[str, float]]) -> BarChart:
    x = Scale(max(1.1, *(value for _, value in speedups)) * 1.05, _LEFT, _RIGHT)
    bars = [
        Bar(name, _TOP + row * _ROW, x.at(value), f"{value:.2f}×", name == report.chosen)
        for row, (name, value) in enumerate(speedups)
    ]
    return _chart(False, bars, x, None)


def _chart(measured: bool, bars: list[Bar], x: Scale, original: tuple[float, float] | None) -> BarChart:
    height = _TOP + len(bars) * _ROW + _AXIS
    return BarChart(measured, tuple(bars), x.at(1), original, x.ticks(5, suffix="×"), height)
