"""Facts per architecture and the occupancy of a kernel on it."""

from tilepipe.gpu.facts import (
    ARCHS,
    LOAD_LATENCY_CYCLES,
    MAX_THREADS_PER_BLOCK,
    SCHEDULERS,
    WARP,
    Arch,
    Card,
    MathUnit,
    normalise_arch,
)
from tilepipe.gpu.occupancy import Occupancy, cliffs, occupancy, shared_cliffs

__all__ = [
    "ARCHS",
    "LOAD_LATENCY_CYCLES",
    "MAX_THREADS_PER_BLOCK",
    "SCHEDULERS",
    "WARP",
    "Arch",
    "Card",
    "MathUnit",
    "Occupancy",
    "cliffs",
    "normalise_arch",
    "occupancy",
    "shared_cliffs",
]
