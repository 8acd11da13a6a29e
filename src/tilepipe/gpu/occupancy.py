"""Resident blocks per SM, by the vendor's formula, and where shared memory costs a block.

The formula is that of `cuda_occupancy.h` (CUDA 13.5): registers are allocated per warp in units of 256 and
lie in four sub-partitions; shared memory is rounded up per block, with the driver's reserved kilobyte
(sm_80 and later) counted in; the least of four limits wins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tilepipe.gpu.facts import MAX_THREADS_PER_BLOCK, WARP, Arch

Limit = Literal["shared", "registers", "threads", "blocks"]


@dataclass(frozen=True)
class Occupancy:
    """Resident blocks and warps per SM and the resource that binds; 0 blocks: the kernel does not launch."""

    blocks: int
    warps: int
    limit: Limit


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _warps(threads: int) -> int:
    return -(-threads // WARP)


def _by_registers(arch: Arch, warps: int, registers: int) -> int | None:
    """Blocks that the register file holds; None when registers do not limit."""
    per_warp = _round_up(registers * WARP, arch.register_granularity)
    # The launch check assumes that warps fill all sub-partitions evenly, so it rounds them up.
    needed = per_warp * _round_up(warps, arch.warp_granularity)
    if registers > arch.registers_per_thread or needed > arch.registers_per_block:
        return 0
    if per_warp == 0:
        return None
    per_partition = arch.registers_per_sm // arch.warp_granularity
    return per_partition // per_warp * arch.warp_granularity // warps


def _by_shared(arch: Arch, shared_bytes: int) -> int | None:
    """Blocks that shared memory holds; None when it does not limit."""
    if shared_bytes > arch.shared_per_block_optin:
        return 0
    allocated = _round_up(shared_bytes + arch.shared_reserved, arch.shared_granularity)
    return arch.shared_per_sm // allocated if allocated else None


def occupancy(arch: Arch, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """Resident blocks per SM for a kernel with `threads` per block, `registers` per thread and `shared_bytes`
    (static + dynamic) per block, with the opt-in to more than 48 KB made and the largest carve-out chosen.

    Where several resources allow the same number of blocks, the first of shared, registers, threads, blocks
    is named. Precondition: threads > 0, registers >= 0, shared_bytes >= 0.
    """
    if threads <= 0 or registers < 0 or shared_bytes < 0:
        raise ValueError(f"impossible kernel: {threads} threads, {registers} registers, {shared_bytes} bytes")
    warps = _warps(threads)
    by_threads = arch.warps_per_sm // warps if threads <= MAX_THREADS_PER_BLOCK else 0
    limits: dict[Limit, int | None] = {
        "shared": _by_shared(arch, shared_bytes),
        "registers": _by_registers(arch, warps, registers),
        "threads": by_threads,
        "blocks": arch.blocks_per_sm,
    }
    blocks, limit = min(
        ((count, name) for name, count in limits.items() if count is not None), key=lambda pair: pair[0]
    )
    return Occupancy(blocks, blocks * warps, limit)


def shared_cliffs(arch: Arch) -> dict[int, int]:
    """The largest `shared_bytes` per block with which 1, 2, … blocks stay resident, as far as shared memory
    alone decides: `{1: 101376, 2: 50176, …}` on sm_86, up to the SM's limit of blocks."""
    unit = arch.shared_granularity
    return {
        blocks: min(
            arch.shared_per_sm // blocks // unit * unit - arch.shared_reserved, arch.shared_per_block_optin
        )
        for blocks in range(1, arch.blocks_per_sm + 1)
    }


def cliffs(arch: Arch, threads: int, registers: int) -> dict[int, int]:
    """`shared_cliffs` cut off at the number of blocks that threads and registers allow anyway: beyond the
    last entry less shared memory gains nothing. Empty when the kernel does not launch with any amount."""
    most = occupancy(arch, threads, registers, 0).blocks
    return {blocks: size for blocks, size in shared_cliffs(arch).items() if blocks <= most}
