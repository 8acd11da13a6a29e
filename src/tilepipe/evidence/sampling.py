"""Which blocks of a large grid stand for all of it on the CPU."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from tilepipe.diagnostics import Refusal
from tilepipe.launch.types import LaunchOptions, Loaded
from tilepipe.problem import Case, fresh_copy

# Work per run, in FLOPs, that the emulator finishes in seconds; grids that need more are sampled.
FULL_RUN_FLOPS = 200_000_000
_FLOPS_PER_BYTE = 8  # assumed where a problem says nothing about its work: a few operations per element moved
_LEAST_BLOCKS = 2


def estimated_flops(case: Case) -> int:
    """The work of the whole grid: as the problem says, else by its traffic or the size of its arrays."""
    if case.flops is not None:
        return max(case.flops, _FLOPS_PER_BYTE * (case.bytes or 0))
    traffic = case.bytes if case.bytes is not None else sum(a.data.nbytes for a in case.arrays)
    return _FLOPS_PER_BYTE * traffic


def with_measured_work(case: Case, original: Loaded) -> Case:
    """The case with its work in FLOPs, where the problem says nothing of it: what the emulator counts in the first and
    the last block stands for all. Arrays do not tell how often a kernel goes through them, and a problem file with too
    small ones must not make a run endless."""
    total = case.grid[0] * case.grid[1] * case.grid[2]
    if case.flops is not None or total <= _LEAST_BLOCKS:
        return case
    done = original.run(fresh_copy(case), LaunchOptions(blocks=(0, total - 1)))
    if isinstance(done, Refusal) or not done.blocks_run:
        return case
    loaded = int(done.counters.get("global_load_bytes", 0))
    work = 2 * int(done.counters.get("math", 0)) + _FLOPS_PER_BYTE * loaded
    return replace(case, flops=max(estimated_flops(case), work * total // done.blocks_run))


def sample_blocks(case: Case, seed: int, budget: int = FULL_RUN_FLOPS) -> tuple[int, ...] | None:
    """Linear numbers (x fastest) of the blocks to run, sorted; None: all of them.

    The corners of the grid come first, then blocks of its faces and of its inside in turn, at random: ragged
    edges and the plain middle are different code paths.
    """
    total = case.grid[0] * case.grid[1] * case.grid[2]
    work = estimated_flops(case)
    if work <= budget or total <= _LEAST_BLOCKS:
        return None
    count = max(_LEAST_BLOCKS, total * budget // work)
    if count >= total:
        return None
    chance = random.Random(seed)
    chosen = dict.fromkeys(_corners(case.grid)[:count])
    if 2 * count > total:  # drawing one by one would mostly repeat itself
        rest = [block for block in range(total) if block not in chosen]
        chosen.update(dict.fromkeys(chance.sample(rest, count - len(chosen))))
    draws = _mixed(case.grid, chance)
    while len(chosen) < count:
        chosen[next(draws)] = None
    return tuple(sorted(chosen))


def _linear(grid: tuple[int, int, int], x: int, y: int, z: int) -> int:
    return x + grid[0] * (y + grid[1] * z)


def _corners(grid: tuple[int, int, int]) -> list[int]:
    """The first and the last block, then the other corners."""
    ends = [sorted({0, n - 1}) for n in grid]
    corners = [_linear(grid, x, y, z) for z in ends[2] for y in ends[1] for x in ends[0]]
    return [corners[0], corners[-1], *corners[1:-1]]


def _mixed(grid: tuple[int, int, int], chance: random.Random) -> Iterator[int]:
    """Blocks at random without end, alternately from a face of the grid and from anywhere."""
    axes = [i for i, n in enumerate(grid) if n > 1] or [0]
    while True:
        face = [chance.randrange(n) for n in grid]
        axis = chance.choice(axes)
        face[axis] = chance.choice((0, grid[axis] - 1))
        yield _linear(grid, *face)
        yield _linear(grid, *(chance.randrange(n) for n in grid))
