"""What stages cost and what overlap can bring: shared memory and residency, the compute/load ratio, a time
model.

The ratio is the practitioners' number and is reported because people know it; it misjudges its own success
story (an int8 GEMM that scores 64 and gains a third), so the decision rests on time: how long an SM takes
to load a tile, how long to compute on it, and how many tiles are in flight to hide the latency in between.

Constants and their sources:

- classes of the ratio, 5 and 20 FLOP/byte, and eight warps to keep an SM busy: the classic procedure;
- latency of a load: `gpu/facts.py`;
- L2 bandwidth, 47 bytes per clock and SM: A100's 5120 bytes per clock over 108 SMs (A100 white paper).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tilepipe.gpu import LOAD_LATENCY_CYCLES, WARP, Arch, MathUnit, occupancy
from tilepipe.plan.types import BudgetRow, Ratio

RatioClass = Literal["low", "middle", "high", "unknown"]

LOW_RATIO = 5.0
HIGH_RATIO = 20.0
BUSY_WARPS = 8
L2_BYTES_PER_CLOCK = 47


@dataclass(frozen=True)
class TileWork:
    """What one block does for one tile: `bytes` loaded from global memory, `fma` multiply-adds on `unit`.

    `reuse` is how many blocks load each byte while it stays in L2 (1: every load goes to DRAM): the traffic
    of all tiles over the least traffic that the problem file states.
    """

    bytes: int
    fma: int
    unit: MathUnit
    reuse: float = 1.0


def budget(
    arch: Arch,
    threads: int,
    registers: int,
    *,
    static_shared: int,
    staged_bytes: int,
    dynamic_shared: int = 0,
    max_stages: int,
) -> tuple[BudgetRow, ...]:
    """Residency with 1 … `max_stages` stages. `static_shared` and `dynamic_shared` are bytes per block of
    the original and contain the staged buffers once (`staged_bytes`); each further stage adds them again. A
    row with 0 blocks does not launch."""
    if not 0 <= staged_bytes <= static_shared + dynamic_shared:
        raise ValueError(f"{staged_bytes} staged of {static_shared} + {dynamic_shared} shared bytes")
    rows = []
    for stages in range(1, max_stages + 1):
        shared = static_shared + dynamic_shared + (stages - 1) * staged_bytes
        fit = occupancy(arch, threads, registers, shared)
        rows.append(BudgetRow(stages, shared, fit.blocks, fit.warps, fit.limit))
    return tuple(rows)


def staging_registers(staged_bytes: int, threads: int) -> int:
    """Registers per thread that hold one tile on its way through registers (LDG staging), rounded up."""
    return -(-staged_bytes // (4 * threads))


def tile_ratio(bm: int, bn: int, bk: int, element_bytes: int) -> float:
    """`2·BM·BN·BK / ((BM·BK + BK·BN)·sizeof(T))`, FLOP per byte loaded, of a GEMM-like tile."""
    return 2 * bm * bn * bk / ((bm * bk + bk * bn) * element_bytes)


def ratio_class(flops_per_byte: float | None) -> RatioClass:
    """low: below 5, middle: 5 to 20, high: above 20."""
    if flops_per_byte is None:
        return "unknown"
    return "low" if flops_per_byte < LOW_RATIO else "middle" if flops_per_byte <= HIGH_RATIO else "high"


def load_cycles(arch: Arch, work: TileWork) -> float:
    """Cycles in which an SM's share of the bandwidth moves one tile: from L2, or from DRAM for the part
    that no other block has brought there, whichever takes longer."""
    card = arch.card
    dram_per_clock = card.bandwidth / (card.sms * card.clock)
    return max(work.bytes / L2_BYTES_PER_CLOCK, work.bytes / max(work.reuse, 1.0) / dram_per_clock)


def compute_cycles(arch: Arch, work: TileWork) -> float | None:
    """Cycles in which an SM does the math of one tile at its peak rate; None: the architecture has no such
    unit."""
    rate = arch.card.fma_per_clock.get(work.unit)
    return None if rate is None else work.fma / rate


def tiles_per_cycle(arch: Arch, work: TileWork, threads: int, blocks: int, stages: int) -> float | None:
    """Tiles that an SM with `blocks` resident blocks and `stages` tiles in flight per block finishes per
    cycle.

    Four bounds, the least of which holds: bandwidth; math throughput; tiles in flight over the time a tile
    takes from request to result (Little's law); and, per block, its own compute time, since its tiles are
    computed one after the other. A block with fewer than eight warps cannot use the whole SM by itself.
    """
    load, compute = load_cycles(arch, work), compute_cycles(arch, work)
    if compute is None or blocks == 0:
        return None
    alone = compute * max(1.0, BUSY_WARPS * WARP / threads)
    whole = LOAD_LATENCY_CYCLES + load + alone
    bounds = [blocks * stages / whole]
    bounds += [1 / cycles for cycles in (load, compute, alone / blocks) if cycles > 0]
    return min(bounds)


def predicted_speedup(
    arch: Arch, work: TileWork, threads: int, original: BudgetRow, candidate: BudgetRow
) -> float | None:
    """The time of the original over that of a candidate by the time model, lost resident blocks included;
    None where either does not launch or the math has no known rate. 1.0 means that nothing is to be
    gained."""
    before = tiles_per_cycle(arch, work, threads, original.blocks_per_sm, original.stages)
    after = tiles_per_cycle(arch, work, threads, candidate.blocks_per_sm, candidate.stages)
    return None if before is None or after is None else after / before


def stages_to_hide_latency(arch: Arch, work: TileWork, threads: int, rows: Sequence[BudgetRow]) -> int | None:
    """The fewest stages among `rows` with which the model reaches its best rate, within 1 %; None:
    unknown."""
    rates = {
        row.stages: rate
        for row in rows
        if (rate := tiles_per_cycle(arch, work, threads, row.blocks_per_sm, row.stages)) is not None
    }
    return min((s for s, rate in rates.items() if rate >= 0.99 * max(rates.values())), default=None)


def compute_load_ratio(arch: Arch, work: TileWork | None, original: BudgetRow) -> Ratio:
    """Ratio, class and cycles of a tile, with the reasons in words; `work` None where the tile is not
    known."""
    if work is None or work.bytes <= 0:
        return Ratio(None, "unknown", None, None, ("the math or the bytes of a tile are not known",))
    value = 2 * work.fma / work.bytes
    load, compute = load_cycles(arch, work), compute_cycles(arch, work)
    reasons = []
    if compute is not None:
        longer = "loading" if load > compute else "computing"
        reasons.append(
            f"{longer} a tile takes longer: {load:.0f} cycles to load, {compute:.0f} to compute "
            f"({arch.card.name})"
        )
    if original.warps_per_sm < BUSY_WARPS:
        reasons.append(f"only {original.warps_per_sm} warps are resident: other blocks hide little latency")
    if ratio_class(value) == "high" and original.warps_per_sm >= BUSY_WARPS:
        reasons.append(
            f"{value:.0f} FLOP per byte and {original.warps_per_sm} resident warps: "
            "the classic rule expects no gain"
        )
    return Ratio(value, ratio_class(value), load, compute, tuple(reasons))
