"""The runtime's structures (`runtime/types.h`) as ctypes, and the numbers both sides share."""

from __future__ import annotations

import ctypes
from ctypes import c_uint8, c_uint16, c_uint32, c_uint64, c_void_p

MAX_THREADS = 1024
MAX_FINDINGS = 64
MAX_OPERANDS = 40
BARRIERS = 16
MBARRIERS = 64
NOBODY = 0xFFFFFFFF
SHARED_WINDOW = 1 << 60
LOCAL_WINDOW = 2 << 60

AT_BARRIER, AT_COLLECTIVE, AT_YIELD = 1, 2, 3
EXITED, STEP_LIMIT, TRAPPED = 0, 0xFFFFFFFF, 0xFFFFFFFE


class Gap(ctypes.Structure):
    """Shared bytes that no variable owns."""

    _fields_ = tuple((n, c_uint32) for n in ("offset", "bytes"))


class Range(ctypes.Structure):
    """One allocation of global memory; `high` and `low` are the records of accesses by several blocks, one of
    each for every unit of 1 << `unit` bytes, null where it is not watched."""

    _fields_ = (
        *((n, c_uint64) for n in ("base", "size")),
        *((n, c_void_p * 2) for n in ("high", "low")),
        *((n, c_uint32) for n in ("unit", "shared")),
    )


class RawFinding(ctypes.Structure):
    """A finding as the runtime records it; `findings.py` gives it words."""

    _fields_ = (
        *((name, c_uint32) for name in ("kind", "thread", "other", "site", "other_site", "interval")),
        *((name, c_uint64) for name in ("address", "block", "count")),
    )


class Operand(ctypes.Structure):
    """A saved register (byte offset) or an immediate."""

    _fields_ = (("immediate", c_uint32), ("slot", c_uint32), ("value", c_uint64))


class Collective(ctypes.Structure):
    """One warp collective or barrier instruction."""

    _fields_ = (
        ("op", c_uint32),
        ("site", c_uint32),
        ("count", c_uint32),
        ("p", c_uint32 * 8),
        ("pad", c_uint32),
        ("mask", Operand),
        ("operands", Operand * MAX_OPERANDS),
    )


class Split(ctypes.Structure):
    """A point where a thread stops: `count` collectives from `first`."""

    _fields_ = tuple((name, c_uint32) for name in ("kind", "site", "first", "count", "whole", "pad"))


class Mbarrier(ctypes.Structure):
    """The vector clocks of one mbarrier object."""

    _fields_ = (("address", c_uint32), ("now", c_uint16 * MAX_THREADS), ("done", c_uint16 * MAX_THREADS))


class SiteCounts(ctypes.Structure):
    """What a profile counts at one instruction."""

    _fields_ = tuple(
        (name, c_uint64)
        for name in (
            *("shared_requests", "wavefronts", "least_wavefronts", "worst_wavefronts", "shared_low"),
            *("global_requests", "sectors", "global_bytes", "global_low"),
            "barriers",
        )
    )


class Log(ctypes.Structure):
    """The accesses of one warp that are not counted yet."""

    _fields_ = (
        *((n, c_void_p) for n in ("entries", "rows", "keys", "most", "now", "lane", "first")),
        *((n, c_uint32) for n in ("count", "capacity", "row_capacity", "of_lane")),
        ("dropped", c_uint64),
    )


class Thread(ctypes.Structure):
    """One CUDA thread."""

    _fields_ = (
        *((name, c_void_p) for name in ("block", "registers", "local")),
        *((name, c_uint64) for name in ("math", "loaded")),
        *((name, c_uint32) for name in ("tid", "x", "y", "z", "lane", "warp", "sub", "resume", "status")),
        *((name, c_uint32) for name in ("key", "warp_key", "many_key", "base")),
        ("copies", c_void_p),
        *((name, c_uint32) for name in ("head", "tail", "capacity", "committed")),
    )


class Block(ctypes.Structure):
    """One worker's block: its memory, shadow state and tables."""

    _fields_ = (
        *((n, c_void_p) for n in ("shared", "parameters", "hints", "writes", "reads", "latest")),
        *((n, c_void_p) for n in ("write_sites", "read_sites", "order", "barrier_clock", "mbarriers")),
        *(
            (n, c_void_p)
            for n in (
                "threads",
                "ranges",
                "gaps",
                "findings",
                "splits",
                "collectives",
                "step",
                "profile",
                "log",
            )
        ),
        *((n, c_uint64) for n in ("max_steps", "steps_left", "number", "async_bytes", "barriers", "ticks")),
        ("local_bytes", c_uint64),
        *(
            (n, c_uint32)
            for n in (
                "shared_bytes",
                "total_bytes",
                "dynamic_bytes",
                "thread_count",
                "range_count",
                "gap_count",
            )
        ),
        *(
            (n, c_uint32)
            for n in (
                "checks",
                "early",
                "base",
                "interval",
                "partial",
                "finding_count",
                "fatal",
                "stop",
                "moved",
                "spot",
            )
        ),
        *((n, c_uint32 * 3) for n in ("block_dim", "grid_dim", "block_id")),
        ("live", c_uint32),
        ("arrived", c_uint32 * BARRIERS),
        ("arrived_count", c_uint32 * BARRIERS),
        ("sink", c_uint8 * 64),
    )


# In the order in which the runtime's `tp_sizeof` numbers them.
STRUCTURES: tuple[type[ctypes.Structure], ...] = (
    Block,
    Thread,
    Collective,
    Split,
    RawFinding,
    Range,
    Mbarrier,
    SiteCounts,
    Log,
    Gap,
)


def offset(structure: type[ctypes.Structure], field: str) -> int:
    """Byte offset of a field."""
    return int(getattr(structure, field).offset)
