"""Which tile is where over time: the stages of shared memory, and registers where tiles pass through them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tilepipe.plan.types import Candidate

State = Literal["loading", "computed", "empty"]

_LEFT, _TOP, _CELL, _ROW = 92, 40, 66, 32
_AHEAD = 3  # steps shown beyond one turn of the ring


@dataclass(frozen=True)
class Cell:
    """What a row holds during a step: a tile being loaded, the one that is computed, or nothing."""

    x: float
    y: float
    state: State
    tile: int | None


@dataclass(frozen=True)
class RingChart:
    """Columns are steps (the prologue, then one per tile); rows are registers (if used) and stages."""

    cells: tuple[Cell, ...]
    columns: tuple[tuple[float, str], ...]
    rows: tuple[tuple[float, str], ...]
    width: float
    height: float
    summary: str
    cell_width: int = _CELL
    cell_height: int = _ROW


def ring_chart(candidate: Candidate) -> RingChart:
    """Where the tiles are under a candidate, by its plan: the same for every kernel."""
    stages, registers = candidate.stages, candidate.variant not in ("cp_async", "stash")
    ring = candidate.variant in ("cp_async", "mixed", "stash")
    steps = stages + _AHEAD
    first_row = 1 if registers else 0
    cells: list[Cell] = []
    for step in range(-1, steps):
        x = _LEFT + (step + 1) * _CELL
        held = _stages_at(step, stages, ring)
        if registers:
            cells.append(Cell(x, _TOP, "loading", step + 1))
        cells += [
            Cell(x, _TOP + (row + first_row) * _ROW, *held.get(row, ("empty", None))) for row in range(stages)
        ]
    columns = [(_LEFT, "prologue"), *((_LEFT + (s + 1) * _CELL, f"step {s}") for s in range(steps))]
    names = [*(["registers"] if registers else []), *(f"stage {s}" for s in range(stages))]
    return RingChart(
        tuple(cells),
        tuple(columns),
        tuple((_TOP + row * _ROW, name) for row, name in enumerate(names)),
        _LEFT + (steps + 1) * _CELL + 8,
        _TOP + len(names) * _ROW + 8,
        _summary(candidate),
    )


def _stages_at(step: int, stages: int, ring: bool) -> dict[int, tuple[State, int | None]]:
    """What stages hold during a step; step -1 is the prologue. A ring's copies for the next tiles are under
    way; without one the next tile arrives from registers when the step ends."""
    held: dict[int, tuple[State, int | None]] = {}
    if ring:
        for tile in range(step + 1, step + stages):
            held[tile % stages] = ("loading", tile)
    if step >= 0:
        held[step % stages] = ("computed", step)
    return held


def _summary(candidate: Candidate) -> str:
    stages = candidate.stages
    place = f"stage t mod {stages}" if stages > 1 else "the one stage"
    match candidate.variant:
        case "cp_async":
            if stages == 2:
                return (
                    f"While tile t is computed from {place}, tile t + 1 is being copied into the other stage."
                )
            ahead = f"tiles t + 1 to t + {stages - 1} are being copied into the other stages"
            return f"While tile t is computed from {place}, {ahead}."
        case "mixed":
            return (
                f"While tile t is computed from {place}, tile t + 1 is on its way: copied into the other stage "
                "where its buffer allows that, loaded into registers where not."
            )
        case "stash":
            return (
                f"While tile t is computed from {place}, later tiles are being copied: into their stage where the "
                "buffer allows that, else into a slot of each thread, from which the thread moves tile t + 1 on when "
                "the math is done."
            )
        case "ldg" | "prefetch":
            after = "the other stage" if stages > 1 else "the same stage, between two barriers"
            return (
                f"While tile t is computed from {place}, tile t + 1 is being loaded into registers; it is "
                f"stored to {after} when the math is done."
            )
