"""Evidence as values: passed, failed or unknown, with its data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tilepipe.launch.types import Finding

Status = Literal["passed", "failed", "unknown"]


@dataclass(frozen=True)
class SizeResult:
    """Comparison at one size set. `bitwise` is None where the original differs from itself between two runs;
    `sampled` is (blocks run, blocks of the grid) where a sample stood for the grid. Errors are maxima over all
    outputs against the reference, None without one; `max_difference` is the largest difference of an output from the
    original's, where it differs. What only one has as NaN counts as infinite."""

    bitwise: bool | None
    max_abs_error: float | None = None
    original_abs_error: float | None = None
    within_tolerance: bool | None = None
    sampled: tuple[int, int] | None = None
    note: str = ""
    max_difference: float | None = None


@dataclass(frozen=True)
class Correctness:
    """`original_fault` says what the original kernel itself does wrong with the problem given, empty where
    nothing; `changed_inputs` names the arrays declared `in` that the original wrote to."""

    status: Status
    sizes: Mapping[str, SizeResult] = field(default_factory=dict)
    device: str = ""
    reason: str = ""
    original_fault: str = ""
    changed_inputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Races:
    """`file` is the one whose lines `findings` name, or the candidate; empty where that is the file that came out."""

    status: Status
    method: str = "emulator"
    findings: tuple[Finding, ...] = ()
    original_findings: tuple[Finding, ...] = ()
    reason: str = ""
    file: str = ""


@dataclass(frozen=True)
class BankUse:
    """The reads or writes of one shared array: wavefronts that they took over the least possible (1: no conflicts), in
    the original and in the candidate, each None where that has no such access. `lines` are the original's."""

    array: str
    access: Literal["read", "write"]
    lines: tuple[int, ...]
    original: float | None
    candidate: float | None


@dataclass(frozen=True)
class Banks:
    """Bank conflicts of one block at one size set, counted by the emulator."""

    size: str
    uses: tuple[BankUse, ...]


EventKind = Literal["load", "store", "wait", "barrier", "math"]


@dataclass(frozen=True)
class TimelineEvent:
    """`cycle` is the first issue cycle and `cycles` the length. A load is in flight from its issue to the wait
    for it; the others last as long as they are issued."""

    kind: EventKind
    cycle: int
    cycles: int
    label: str


@dataclass(frozen=True)
class Timeline:
    """A window of `cycles` issue cycles (stall counts summed, no time for memory) of a main loop in its steady
    state. Events may begin before it or end after it. `tiles` in it, None where that is unknown and the
    window is one iteration; `exact` is False where an inner loop of unknown length is drawn once."""

    cycles: int
    tiles: int | None
    events: tuple[TimelineEvent, ...]
    exact: bool = True


@dataclass(frozen=True)
class Sass:
    """The audit of one kernel on one architecture against its original (`*_original`).

    `codes` go with `reasons`. `window` is the least math between a load's issue and the wait for it,
    `window_cycles` the issue cycles there (stall counts summed), both over whole iterations where the wait
    comes iterations later. `stalls` are the least and the most stall cycles that the main loop's loads and math
    carry, by opcode; `wait_depths` the groups that each of its waits leaves pending, in order. Registers are per
    thread, None where nobody said.
    """

    status: Status
    arch: str = ""
    reasons: tuple[str, ...] = ()
    math_per_tile: float | None = None
    math_per_tile_original: float | None = None
    loads: int = 0
    copy_bytes: tuple[int, ...] = ()
    window: int | None = None
    barriers_between: int = 0
    spills: int = 0
    spills_original: int = 0
    excerpt: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    window_cycles: int | None = None
    window_original: int | None = None
    timeline: Timeline | None = None
    timeline_original: Timeline | None = None
    stalls: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    wait_depths: tuple[int, ...] = ()
    registers: int | None = None
    registers_original: int | None = None

    @property
    def is_read(self) -> bool:
        """Whether the machine code was understood, so that its numbers hold: the verdict is there, or is open only
        because a tile has too little math (TP435) or the SM too few warps (TP436)."""
        return self.status != "unknown" or set(self.codes) in ({"TP435"}, {"TP436"})


@dataclass(frozen=True)
class Trial:
    """A candidate built as a remedy for one whose audit had failed, and what the audit said of it."""

    candidate: str
    status: Status
    codes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Timing:
    """Medians over interleaved runs in milliseconds; `spread` is the interquartile range ÷ the median."""

    median_ms: float
    spread: float
    speedup: float | None = None
    rate: float | None = None
    samples_ms: tuple[float, ...] = ()


@dataclass(frozen=True)
class Limit:
    """What a candidate's time is made of: medians in ms, all of one run. `loads_ms` and `compute_ms` are the candidate
    without its math and without its loads; `control_ms` is the candidate's copies and layout without overlap. Each
    is None where it could not be had (`reason`)."""

    candidate: str = ""
    original_ms: float | None = None
    candidate_ms: float | None = None
    control_ms: float | None = None
    loads_ms: float | None = None
    compute_ms: float | None = None
    reason: str = ""

    @property
    def limit_ms(self) -> float | None:
        """No overlap of the two can take less than the longer one."""
        parts = (self.loads_ms, self.compute_ms)
        return None if parts[0] is None or parts[1] is None else max(parts[0], parts[1])

    @property
    def efficiency(self) -> float | None:
        """The limit over the time achieved; above 1 where the parts take longer alone than together."""
        limit = self.limit_ms
        return limit / self.candidate_ms if limit is not None and self.candidate_ms else None

    @property
    def copies_speedup(self) -> float | None:
        """The gain of copies and layout without overlap."""
        return self.original_ms / self.control_ms if self.original_ms and self.control_ms else None

    @property
    def overlap_speedup(self) -> float | None:
        """The gain of overlap over the same copies without it; over the original where that loads the same way."""
        without = self.control_ms or self.original_ms
        return without / self.candidate_ms if without and self.candidate_ms else None


@dataclass(frozen=True)
class Benchmark:
    """`candidates` by candidate id; `unit` is GFLOP/s, GB/s or ms. `controls` are un-pipelined versions that show
    what something else is worth by itself, a cap on registers say; they are not to be chosen."""

    status: Status
    size: str = ""
    unit: str = "ms"
    original: Timing | None = None
    candidates: Mapping[str, Timing] = field(default_factory=dict)
    device: str = ""
    reason: str = ""
    controls: Mapping[str, Timing] = field(default_factory=dict)
