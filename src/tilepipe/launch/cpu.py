"""The CPU as a device: kernels run through the emulator, with its memory model and race detector."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from tilepipe.diagnostics import Refusal
from tilepipe.emulator import Argument, Buffer, EmulatorFinding, Program, load_program
from tilepipe.launch.types import Finding, LaunchOptions, RunResult
from tilepipe.problem.types import Array, Case, Scalar
from tilepipe.toolchain.types import Toolchain, Unit

_LINE_INFO = "-lineinfo"  # understood by NVRTC and nvcc


class CpuDevice:
    """Runs kernels on this machine's processor, as an sm_80 device would at its least forgiving."""

    def __init__(self, toolchain: Toolchain) -> None:
        self._toolchain = toolchain

    @property
    def kind(self) -> Literal["cpu", "cuda"]:
        return "cpu"

    @property
    def name(self) -> str:
        return "cpu"

    @property
    def arch(self) -> str:
        return "sm_80"

    def load(self, unit: Unit, arch: str) -> CpuKernel | Refusal:
        """Compiles the unit to PTX and translates it; refuses with the compiler's answer or TP300."""
        options = replace(unit.options, extra=(*unit.options.extra, _LINE_INFO))
        compiled = self._toolchain.compile(replace(unit, options=options), arch, "ptx")
        if isinstance(compiled, Refusal):
            return compiled
        program = load_program(compiled.image.decode(), compiled.symbol)
        return program if isinstance(program, Refusal) else CpuKernel(program)


@dataclass(frozen=True)
class CpuKernel:
    """A kernel ready to run on the CPU."""

    program: Program

    def run(self, case: Case, options: LaunchOptions) -> RunResult | Refusal:
        """Runs the case; its arrays are updated in place."""
        done = self.program.run(
            case.grid,
            case.block,
            case.shared,
            [_argument(a) for a in case.args],
            blocks=options.blocks,
            checks=options.checks,
            early=options.copies == "early",
            max_steps=options.max_steps,
        )
        if isinstance(done, Refusal):
            return done
        findings = tuple(_finding(f) for f in done.findings)
        return RunResult(findings, (), done.blocks_run, done.blocks_total, dict(done.counters))


def _argument(argument: Array | Scalar) -> Argument:
    if isinstance(argument, Scalar):
        return argument.value
    offset = argument.data.ctypes.data - argument.base.ctypes.data
    return Buffer(argument.base, offset, argument.name)


def _finding(found: EmulatorFinding) -> Finding:
    times = f" ({found.count} times)" if found.count > 1 else ""
    return Finding(
        found.kind,
        found.message + times,
        found.lines,
        found.where,
        found.threads,
        found.interval,
        found.block,
    )
