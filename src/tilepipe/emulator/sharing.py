"""Races between blocks on global memory: the records of a launch (`runtime/sharing.h`), and what they show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tilepipe.emulator import layout
from tilepipe.emulator.findings import AddressBook, EmulatorFinding, block_index, calls_of, line_of
from tilepipe.emulator.ptx.model import Place
from tilepipe.emulator.ptx.sharing import Sharing

KIND = "race between blocks"
NOTE = "the kernel orders its blocks with fences and atomics: races between blocks were not looked for"
_TOUCH, _WRITE = 0, 1
_SITE_BITS = 16
_SITE_MASK = (1 << _SITE_BITS) - 1


@dataclass(frozen=True)
class Watch:
    """The records of one array: `high` and `low` have a row for touches and one for plain writes, a column for
    every unit of 1 << `shift` bytes. The memory is not there until blocks access the array."""

    base: int
    size: int
    shift: int
    high: npt.NDArray[np.uint64]
    low: npt.NDArray[np.uint64]

    @staticmethod
    def over(memory: npt.NDArray[Any], unit: int) -> Watch:
        shift = unit.bit_length() - 1
        shape = (2, (memory.nbytes >> shift) + 1)
        return Watch(
            memory.ctypes.data, memory.nbytes, shift, np.zeros(shape, np.uint64), np.zeros(shape, np.uint64)
        )

    @property
    def range(self) -> layout.Range:
        rows = [r.ctypes.data for r in (*self.high, *self.low)]
        return layout.Range(self.base, self.size, tuple(rows[:2]), tuple(rows[2:]), self.shift, 0)


@dataclass
class Watches:
    """What is watched in one launch: the arrays that the kernel may write."""

    watches: dict[int, Watch] = field(default_factory=dict)  # by base address

    @staticmethod
    def of(what: Sharing, memories: Sequence[tuple[str, npt.NDArray[Any]]]) -> Watches:
        """`memories` are the arrays with the names of the parameters or variables that lead to them."""
        if what.ordered:
            return Watches()
        wanted = [m for name, m in memories if m.nbytes and (what.written is None or name in what.written)]
        return Watches({m.ctypes.data: Watch.over(m, what.unit) for m in wanted})

    def range_of(self, base: int, size: int) -> layout.Range:
        watch = self.watches.get(base)
        return watch.range if watch is not None else layout.Range(base, size)

    def findings(
        self,
        shared: set[int],
        sites: tuple[Place, ...],
        has_lines: bool,
        names: AddressBook,
        grid: tuple[int, int, int],
    ) -> list[EmulatorFinding]:
        """One finding for each array and pair of lines, at its first element; `shared` has the base addresses
        of the arrays in which blocks met."""
        found: list[EmulatorFinding] = []
        for base in sorted(shared & self.watches.keys()):
            found += _races(self.watches[base], sites, has_lines, names, grid)
        return found


def _races(
    watch: Watch, sites: tuple[Place, ...], has_lines: bool, names: AddressBook, grid: tuple[int, int, int]
) -> list[EmulatorFinding]:
    units = np.flatnonzero(watch.high[_WRITE])
    most_write, least_write = watch.high[_WRITE][units], ~watch.low[_WRITE][units]
    most_touch, least_touch = watch.high[_TOUCH][units], ~watch.low[_TOUCH][units]
    touched = watch.high[_TOUCH][units] != 0
    # Against the write of the lowest block stands another block's write, or else another block's touch.
    writer = least_write >> _SITE_BITS
    both_write = most_write >> _SITE_BITS != writer
    high_touch = touched & (most_touch >> _SITE_BITS != writer)
    low_touch = touched & (least_touch >> _SITE_BITS != writer)
    other = np.where(both_write, most_write, np.where(low_touch, least_touch, most_touch))
    races = np.flatnonzero(both_write | high_touch | low_touch)
    first: dict[tuple[int, int, bool], tuple[int, int]] = {}
    for race in races.tolist():
        at_lines = [line_of(sites[int(r) & _SITE_MASK], has_lines) for r in (least_write[race], other[race])]
        key = (at_lines[0], at_lines[1], bool(both_write[race]))
        at, count = first.get(key, (race, 0))
        first[key] = (at, count + 1)
    found: list[EmulatorFinding] = []
    for (line, other_line, writes), (n, count) in first.items():
        a, b = (block_index(int(r) >> _SITE_BITS, grid) for r in (least_write[n], other[n]))
        where = names.global_name(watch.base + (int(units[n]) << watch.shift))
        verb = "writes" if writes else "accesses"
        message = (
            f"block {a} writes {where}, which block {b} {verb} too: nothing orders the blocks of a launch"
        )
        lines = tuple(x for x in (line, other_line) if x)
        calls = calls_of((sites[int(r) & _SITE_MASK] for r in (least_write[n], other[n])), has_lines)
        found.append(EmulatorFinding(KIND, message, lines, where, (), 0, a, count, calls))
    return found
