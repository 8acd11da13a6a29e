"""The CPU device: PTX to LLVM IR to the host, under the worst behaviour that the memory model allows."""

from tilepipe.emulator.findings import EmulatorFinding
from tilepipe.emulator.program import MAX_STEPS, Argument, Buffer, Execution, Program, load_program

__all__ = ["MAX_STEPS", "Argument", "Buffer", "EmulatorFinding", "Execution", "Program", "load_program"]
