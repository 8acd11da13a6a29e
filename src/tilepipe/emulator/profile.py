"""What a profiled run counted: bank conflicts, coalescing and barriers, by source line."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

from tilepipe.emulator import layout
from tilepipe.emulator.findings import AddressBook, line_of
from tilepipe.emulator.ptx.model import Place

_NAMES = {"ld": "load", "ldu": "load", "st": "store", "cp": "copy", "atom": "atomic", "red": "atomic"}
NOWHERE = (1 << 64) - 1


@dataclass(frozen=True)
class SharedAccess:
    """Accesses of shared memory on one source line. A warp's request takes `wavefronts`, at least `least` (one for
    up to 4 bytes a lane, two for 8, four for 16; fewer where lanes are idle) and once took `worst`."""

    line: int
    operation: str
    array: str
    requests: int
    wavefronts: int
    least: int
    worst: int

    @property
    def average(self) -> float:
        """Wavefronts per request."""
        return self.wavefronts / self.requests

    @property
    def degree(self) -> float:
        """Wavefronts over those needed without bank conflicts: 1.0 is free of them."""
        return self.wavefronts / self.least


@dataclass(frozen=True)
class GlobalAccess:
    """Accesses of global memory on one source line: warp requests, 32-byte sectors touched, bytes asked for.
    `operation` is load, store, atomic, copy (asynchronous), wmma load or wmma store."""

    line: int
    operation: str
    array: str
    requests: int
    sectors: int
    bytes: int

    @property
    def average(self) -> float:
        """Sectors per request."""
        return self.sectors / self.requests

    @property
    def efficiency(self) -> float:
        """Bytes asked for over bytes in the sectors touched; above 1 where lanes read the same bytes."""
        return self.bytes / (32 * self.sectors)


@dataclass(frozen=True)
class Profile:
    """`barriers` counts completed barriers by source line, over all blocks; `uncounted` accesses came after the
    first 131072 of a thread between two stops."""

    shared: tuple[SharedAccess, ...]
    global_: tuple[GlobalAccess, ...]
    barriers: dict[int, int]
    uncounted: int


def make_profile(
    counts: Sequence[ctypes.Array[layout.SiteCounts]],
    uncounted: int,
    sites: tuple[Place, ...],
    operations: tuple[str, ...],
    has_lines: bool,
    names: AddressBook,
) -> Profile:
    """Sums the workers' counts (`counts[worker][site]`) by line, operation and array."""
    shared: dict[tuple[int, str, str], list[int]] = {}
    global_: dict[tuple[int, str, str], list[int]] = {}
    barriers: dict[int, int] = {}
    for site, place in enumerate(sites):
        line = line_of(place, has_lines)
        of_site = [worker[site] for worker in counts]
        operation = _NAMES.get(operations[site], operations[site])
        if sum(c.shared_requests for c in of_site):
            array = names.shared_variable(min(c.shared_low for c in of_site))
            row = shared.setdefault((line, operation, array), [0, 0, 0, 0])
            for c in of_site:
                row[0] += c.shared_requests
                row[1] += c.wavefronts
                row[2] += c.least_wavefronts
                row[3] = max(row[3], c.worst_wavefronts)
        if sum(c.global_requests for c in of_site):
            array = names.array(min(c.global_low for c in of_site))
            row = global_.setdefault((line, operation, array), [0, 0, 0])
            for c in of_site:
                row[0] += c.global_requests
                row[1] += c.sectors
                row[2] += c.global_bytes
        completed = sum(c.barriers for c in of_site)
        if completed:
            barriers[line] = barriers.get(line, 0) + completed
    return Profile(
        tuple(SharedAccess(*key, *row) for key, row in sorted(shared.items())),
        tuple(GlobalAccess(*key, *row) for key, row in sorted(global_.items())),
        dict(sorted(barriers.items())),
        uncounted,
    )
