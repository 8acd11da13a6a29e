"""The memory of one worker: a block's shared memory, shadow state, threads and tables."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilepipe.emulator import layout
from tilepipe.emulator.codegen.function import Translation
from tilepipe.emulator.profile import NOWHERE

_ALIGN = 64
_PAD = 64  # unchecked accesses of up to 16 bytes may start at the last byte


@dataclass(frozen=True)
class Launch:
    """Everything about a launch that is the same for all workers. Sizes in bytes: `shared_bytes` with the gaps
    between variables, `total_bytes` without."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    total_bytes: int
    dynamic_bytes: int
    local_bytes: int
    parameters: bytes
    ranges: tuple[layout.Range, ...]
    gaps: tuple[tuple[int, int], ...]
    checks: bool
    profile: bool
    early: bool
    max_steps: int

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]


class Arena:
    """Owns the buffers behind one `layout.Block`, aligned for whole-vector access."""

    def __init__(self, launch: Launch, translation: Translation, step: int) -> None:
        self.buffers: list[npt.NDArray[np.uint8]] = []
        self.block = block = layout.Block()
        n, shared = launch.threads, max(launch.shared_bytes, 16)
        shadow = shared if launch.checks else 16
        block.shared = self.allocate(shared)
        block.writes, block.reads = self.allocate(4 * shadow), self.allocate(4 * shadow)
        block.latest = self.allocate(4 * shadow)
        block.write_sites, block.read_sites = self.allocate(2 * shadow), self.allocate(2 * shadow)
        block.order = self.allocate(2 * n * n if launch.checks else 16)
        block.barrier_clock = self.allocate(2 * layout.BARRIERS * layout.MAX_THREADS)
        block.mbarriers = self.allocate(ctypes.sizeof(layout.Mbarrier) * layout.MBARRIERS)
        block.hints = self.allocate(len(translation.sites))
        self.parameters = self.allocate(len(launch.parameters))
        ctypes.memmove(self.parameters, launch.parameters, len(launch.parameters))
        block.parameters = self.parameters
        ranges = (*launch.ranges, layout.Range(self.parameters, max(len(launch.parameters), 1)))
        block.ranges = self.table(ranges)
        block.range_count = len(ranges)
        block.gaps, block.gap_count = self.table([layout.Gap(*g) for g in launch.gaps]), len(launch.gaps)
        self.counts = (layout.SiteCounts * len(translation.sites if launch.profile else ()))()
        self.log = layout.Log()
        if launch.profile:
            self.start_profile(len(translation.sites))
        block.splits, block.collectives = self.table(translation.splits), self.table(translation.collectives)
        self.findings = (layout.RawFinding * layout.MAX_FINDINGS)()
        block.findings = ctypes.addressof(self.findings)
        block.step = step
        block.max_steps, block.local_bytes = launch.max_steps, launch.local_bytes
        block.shared_bytes, block.total_bytes = shared, launch.total_bytes
        block.dynamic_bytes = launch.dynamic_bytes
        block.thread_count, block.checks, block.early = n, int(launch.checks), int(launch.early)
        block.block_dim[:], block.grid_dim[:] = launch.block, launch.grid
        self.threads = self.make_threads(n, translation.save_bytes, launch.local_bytes)
        block.threads = ctypes.addressof(self.threads)

    def make_threads(self, n: int, save_bytes: int, local_bytes: int) -> ctypes.Array[layout.Thread]:
        threads = (layout.Thread * n)()
        stride = -(-save_bytes // _ALIGN) * _ALIGN
        registers, local = self.allocate(stride * n), self.allocate(local_bytes * n)
        address = ctypes.addressof(self.block)
        for i, thread in enumerate(threads):
            thread.block = address
            thread.registers = registers + i * stride
            thread.local = local + i * local_bytes
        return threads

    def start_profile(self, sites: int) -> None:
        for counts in self.counts:
            counts.shared_low = counts.global_low = NOWHERE
        for name in ("keys", "most", "now", "lane", "first"):
            setattr(self.log, name, self.allocate(4 * 2 * sites))  # a key is a site and a space
        self.block.profile, self.block.log = ctypes.addressof(self.counts), ctypes.addressof(self.log)

    def allocate(self, size: int) -> int:
        """Address of `size` zeroed bytes, aligned to a cache line and padded."""
        buffer = np.zeros(size + _ALIGN + _PAD, np.uint8)
        self.buffers.append(buffer)
        return -(-buffer.ctypes.data // _ALIGN) * _ALIGN

    def table(self, records: Sequence[ctypes.Structure]) -> int:
        data = b"".join(bytes(r) for r in records)
        address = self.allocate(max(len(data), 8))
        ctypes.memmove(address, data, len(data))
        return address

    def shared_arrays(self) -> set[int]:
        """Base addresses of the global arrays in which this worker saw blocks meet."""
        ranges = (layout.Range * self.block.range_count).from_address(self.block.ranges)
        return {int(r.base) for r in ranges if r.shared}

    def counters(self) -> dict[str, int]:
        return {
            "math": sum(t.math for t in self.threads),
            "global_load_bytes": sum(t.loaded for t in self.threads),
            "async_copy_bytes": int(self.block.async_bytes),
            "barriers": int(self.block.barriers),
        }
