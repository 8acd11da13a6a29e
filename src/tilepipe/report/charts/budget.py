"""What stages cost: resident blocks over shared memory per block, with the cliffs where a block is lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilepipe.gpu import ARCHS, shared_cliffs
from tilepipe.plan.types import BudgetRow
from tilepipe.report.charts.scale import Scale, Tick

WIDTH, HEIGHT = 720, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 708, 24, 232
_KIB = 1024
_LABEL_ROOM = 54  # pixels that the label of a cliff needs


@dataclass(frozen=True)
class Point:
    """A number of stages at (x, y). `role`: chosen | loses | dead (does not launch) | empty for the others."""

    x: float
    y: float
    stages: int
    role: str
    text: str


@dataclass(frozen=True)
class Cliff:
    """Where one byte more loses a block: the place, and the resident blocks up to there."""

    x: float
    blocks: int
    text: str
    labelled: bool


@dataclass(frozen=True)
class BudgetChart:
    """`steps` is the line of resident blocks as an SVG polyline, empty for an unknown architecture."""

    points: tuple[Point, ...]
    steps: str
    cliffs: tuple[Cliff, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = _LEFT
    right: int = _RIGHT
    top: int = _TOP
    bottom: int = _BOTTOM


def budget_chart(budget: Sequence[BudgetRow], arch: str, chosen_stages: int | None) -> BudgetChart | None:
    """The chart of a budget, None without one. `chosen_stages` is the row to be marked."""
    if not budget:
        return None
    limits = _limits(budget, arch)
    x = Scale(_most(max(row.shared_bytes for row in budget), limits), _LEFT, _RIGHT)
    y = Scale(max(row.blocks_per_sm for row in budget) * 1.15 or 1, _BOTTOM, _TOP)
    before = budget[0].blocks_per_sm
    points = tuple(
        Point(
            x.at(row.shared_bytes),
            y.at(row.blocks_per_sm),
            row.stages,
            _role(row, before, chosen_stages),
            f"{_stages(row.stages)}: {row.shared_bytes} bytes, {row.blocks_per_sm} blocks per SM ({row.limit})",
        )
        for row in budget
    )
    return BudgetChart(
        points, _steps(limits, x, y), _cliffs(limits, x), x.ticks(7, _KIB, " KiB"), y.ticks(5, whole=True)
    )


def _stages(count: int) -> str:
    return "original" if count == 1 else f"{count} stages"


def _role(row: BudgetRow, before: int, chosen: int | None) -> str:
    if row.blocks_per_sm == 0:
        return "dead"
    if row.stages == chosen:
        return "chosen"
    return "loses" if row.blocks_per_sm < before else ""


def _limits(budget: Sequence[BudgetRow], arch: str) -> dict[int, int]:
    """Resident blocks → the most bytes per block that allow them, up to what other resources allow anyway."""
    known = ARCHS.get(arch)
    if known is None:
        return {}
    others = [row.blocks_per_sm for row in budget if row.limit != "shared" and row.blocks_per_sm]
    most = max(others or [row.blocks_per_sm for row in budget])
    return {blocks: size for blocks, size in shared_cliffs(known).items() if blocks <= most}


def _most(used: int, limits: dict[int, int]) -> float:
    """The end of the axis: behind the next cliff, unless that is far away."""
    ahead = min((size for size in limits.values() if used <= size <= 2 * used), default=used)
    return ahead * 1.08 or 1


def _steps(limits: dict[int, int], x: Scale, y: Scale) -> str:
    """From the most blocks at no shared memory down to none, a cliff at a time."""
    places: list[tuple[float, float]] = []
    start = 0.0
    for blocks, size in sorted(limits.items(), reverse=True):
        if size <= start:
            continue
        places += [(x.clipped(start), y.at(blocks)), (x.clipped(size), y.at(blocks))]
        start = size
        if size >= x.most:
            break
    else:
        places += [(x.clipped(start), y.at(0)), (x.at(x.most), y.at(0))] if limits else []
    return " ".join(f"{across:g},{down:g}" for across, down in places)


def _cliffs(limits: dict[int, int], x: Scale) -> tuple[Cliff, ...]:
    """Those in the picture; labels that would touch the one before are left out."""
    found: list[Cliff] = []
    last = float(_LEFT)
    for blocks, size in sorted(limits.items(), key=lambda item: item[1]):
        if size < x.most:
            place = x.at(size)
            labelled = place - last >= _LABEL_ROOM
            last = place if labelled else last
            found.append(Cliff(place, blocks, f"{size} B", labelled))
    return tuple(found)
