"""One launch interface over two devices: a GPU, or the CPU through the emulator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from tilepipe.diagnostics import Refusal
from tilepipe.emulator.profile import Profile
from tilepipe.problem.types import Case
from tilepipe.toolchain.types import Unit

OUT_OF_SHARED = "shared out of bounds"  # the kind of a finding: past static and dynamic shared memory


@dataclass(frozen=True)
class Finding:
    """Something the emulator caught: a race, a pending copy, an access out of bounds, a divergent barrier.

    `kind` is a short stable word ("write-read race", "read of in-flight copy", "pending at exit", …);
    `where` names the address as well as it is known (`As[1][37]`), `lines` the source lines of both sides, and
    `calls` the lines of the calls where those stand in inlined functions (0 where not).
    """

    kind: str
    message: str
    lines: tuple[int, ...] = ()
    where: str = ""
    threads: tuple[int, ...] = ()
    interval: int = 0
    block: tuple[int, int, int] = (0, 0, 0)
    calls: tuple[int, ...] = ()

    @property
    def called(self) -> tuple[str, ...]:
        """For each of `lines` ", called on line 40" where it stands in an inlined function, else ""."""
        return tuple(
            f", called on line {call}" if call else ""
            for _, call in zip(self.lines, (*self.calls, 0, 0), strict=False)
        )

    @property
    def in_lines(self) -> str:
        """The lines in parentheses, with a blank before; "" where none is known."""
        if not self.lines:
            return ""
        if not any(self.called):
            return f" (line{'s' if len(self.lines) > 1 else ''} {', '.join(map(str, self.lines))})"
        said = (f"line {line}{called}" for line, called in zip(self.lines, self.called, strict=True))
        return f" ({', and '.join(said)})"


@dataclass(frozen=True)
class RunResult:
    """What a launch did. Output arrays of the case are updated in place.

    `blocks_run` < `blocks_total` where a sample of blocks stands for the grid. `counters` (emulator only)
    holds totals such as "math", "global_load_bytes". `profile` is there where one was asked for.
    """

    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    blocks_run: int = 0
    blocks_total: int = 0
    counters: dict[str, Any] = field(default_factory=dict)
    profile: Profile | None = None


@dataclass(frozen=True)
class LaunchOptions:
    """`blocks`: linear block numbers to run, None for all. `copies`: when asynchronous copies land, as late or
    as early as the memory model allows. `checks`: race and bounds detection (emulator). `profile`: count bank
    conflicts and coalescing as well (emulator, with checks). `max_steps` bounds what a block does (emulator); None
    for the device's own bound."""

    blocks: tuple[int, ...] | None = None
    copies: Literal["late", "early"] = "late"
    checks: bool = True
    max_steps: int | None = None
    profile: bool = False


class Loaded(Protocol):
    """A kernel made ready for one device."""

    def run(self, case: Case, options: LaunchOptions) -> RunResult | Refusal: ...


class Device(Protocol):
    """Where kernels run. `kind` is "cpu" or "cuda"; `arch` the architecture to compile for by default."""

    @property
    def kind(self) -> Literal["cpu", "cuda"]: ...

    @property
    def name(self) -> str: ...

    @property
    def arch(self) -> str: ...

    def load(self, unit: Unit, arch: str) -> Loaded | Refusal: ...
