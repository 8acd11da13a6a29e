"""What a kernel does to its pipeline, in program order, whichever interface spells it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tilepipe.lint.values import NO_TAGS, Array, Num, Pointer, Tags
from tilepipe.source import Span

EventKind = Literal["copy", "store", "read", "commit", "wait", "barrier", "exit"]


class NotUnderstoodError(Exception):
    """The machine cannot follow this kernel; the message says why. No findings come of it, only a note."""


@dataclass(frozen=True)
class Site:
    """Where an event stands: the statement or call in the author's text, and the interface that spells it.

    `in_macro` is set where the text at `span` is a macro's use; `file` is None for the linted file itself and
    a header's name otherwise.
    """

    span: Span
    api: str = ""
    in_macro: bool = False
    file: str | None = None


@dataclass(frozen=True)
class Region:
    """Bytes `lo` to `hi` (inclusive) of an array; `lead` is the range of the first index where there is one."""

    array: Array
    lo: float
    hi: float
    lead: tuple[float, float] | None = None
    form: str | None = None  # where each thread has its own place: the place as a function of the thread

    def overlaps(self, other: Region) -> bool:
        """Whether the two are surely the same stage: more than the edge of a range must be common."""
        if self.array is not other.array:
            return False
        if self.lead is not None and other.lead is not None:
            return self.lead[0] <= other.lead[1] and other.lead[0] <= self.lead[1]
        widths = [r.hi - r.lo + 1 for r in (self, other)]
        if float("inf") in widths or float("-inf") in (self.lo, other.lo):
            return self.lo == other.lo and self.lo != float("-inf")
        common = min(self.hi, other.hi) - max(self.lo, other.lo) + 1
        return common * 2 >= min(widths) and common > 0

    @property
    def located(self) -> bool:
        """Whether it is known which stage this is."""
        if self.lead is not None:
            return self.lead[0] == self.lead[1] or len(self.array.dims) < 3
        return self.lo != float("-inf")

    @property
    def stage(self) -> int | None:
        """The stage index where the first index has one value."""
        if self.lead is not None and self.lead[0] == self.lead[1]:
            return int(self.lead[0])
        return None


@dataclass(frozen=True)
class Turn:
    """One turn of a loop that is walked turn by turn."""

    loop: Span
    number: int


@dataclass(frozen=True)
class Event:
    """One step. `count` is a wait's number; `bytes` a copy's size (0 unknown); `guard` what guards of the event
    depend on; `maybe` whether a guard could not be decided; `sized` whether a copy has a run-time source size."""

    kind: EventKind
    site: Site
    turns: tuple[Turn, ...]
    region: Region | None = None
    count: int = 0
    bytes: int = 0
    source: Pointer | None = None
    guard: Tags = NO_TAGS
    edge: Tags = NO_TAGS  # the same of those guards alone that differ between threads and are undecided
    guards: tuple[Span, ...] = ()
    maybe: bool = False
    sized: bool = False
    conditional: bool = False  # stands in a branch, decided or not
    zero: bool = False  # a store of a literal zero
    source_tags: Tags = NO_TAGS
    modifier: str = ""  # of inline PTX: ca or cg
    index: str = ""  # the text of the source expression
    work: int = 0  # loops and foreign calls that the walk had seen by then


@dataclass(frozen=True)
class LoopInfo:
    """A loop that was walked turn by turn: what its condition depends on, how often it turned at most, and how
    far its counter was from the bound before the first two turns."""

    span: Span
    tags: Tags
    turns: int
    gaps: tuple[int, ...] = ()


@dataclass
class Trace:
    """The events of one walk. `opaque` names the arrays handed to code that could not be followed."""

    events: list[Event] = field(default_factory=list)
    loops: dict[Span, LoopInfo] = field(default_factory=dict)
    arrays: list[Array] = field(default_factory=list)
    opaque: set[str] = field(default_factory=set)
    forced: bool = False  # a loop of unknown length was walked a chosen number of times
    warp_synchronous: bool = False
    stopped: bool = False
    notes: list[str] = field(default_factory=list)
    lead_ranges: dict[str, Num] = field(default_factory=dict)
