"""The CPU device: PTX to LLVM IR to the host, under the worst behaviour that the memory model allows.

What runs kernels is imported where it is first asked for: LLVM takes a while to load, and most commands run nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tilepipe.emulator.findings import EmulatorFinding

if TYPE_CHECKING:
    from tilepipe.emulator.program import Argument, Buffer, Execution, Program, load_program

__all__ = ["MAX_STEPS", "Argument", "Buffer", "EmulatorFinding", "Execution", "Program", "load_program"]

MAX_STEPS = 200_000_000  # of a block, some seconds; the longest one of our kernels takes 9 million


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("tilepipe.emulator.program"), name)
