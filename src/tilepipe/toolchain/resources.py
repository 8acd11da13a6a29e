"""What a compiled kernel takes, from the report that ptxas gives with `-v`."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FUNCTION = re.compile(r"^(?=[ \t]*(?:\.\w+[ \t]+)*\.(?:entry|func)\b)", re.MULTILINE)  # of PTX
_CALL = re.compile(r"^\s*(?:\{\s*)?(?:@!?%\w+\s+)?call\b", re.MULTILINE)
_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_PROPERTIES = re.compile(
    r"Function properties for (\S+)\s*\n"
    r"[^\n]*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
)
_REGISTERS = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+)(?:\+\d+)? bytes smem")


@dataclass(frozen=True)
class Resources:
    """Per thread: registers, bytes of local memory and of spills; per block: static shared bytes."""

    registers: int = 0
    static_shared: int = 0
    local_bytes: int = 0
    spill_stores: int = 0
    spill_loads: int = 0


def parse_resources(log: str, symbol: str) -> Resources | None:
    """The resources of one kernel from a ptxas log; None where the log does not speak of it.

    The log gives a block per entry function; local memory is the stack frame, of which spills are a part.
    """
    entries = list(_ENTRY.finditer(log))
    for index, entry in enumerate(entries):
        if entry[1] != symbol:
            continue
        block = log[entry.end() : entries[index + 1].start() if index + 1 < len(entries) else len(log)]
        properties = next((match for match in _PROPERTIES.finditer(block) if match[1] == symbol), None)
        registers, shared = _REGISTERS.search(block), _SHARED.search(block)
        if properties is None or registers is None:
            return None
        frame, stores, loads = (int(properties[group]) for group in (2, 3, 4))
        return Resources(int(registers[1]), int(shared[1]) if shared else 0, frame, stores, loads)
    return None


def calls_nothing(ptx: str, symbol: str) -> bool:
    """Whether all that a kernel calls was inlined into it, so that no other kernel of the program has a part in it."""
    named = re.compile(rf"\.entry\s+{re.escape(symbol)}\b")
    bodies = [function for function in _FUNCTION.split(ptx) if named.search(function)]
    return len(bodies) == 1 and _CALL.search(bodies[0]) is None
