"""The CPU as a device: kernels run through the emulator, with its memory model and race detector."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from tilepipe import emulator
from tilepipe.diagnostics import Refusal
from tilepipe.emulator.findings import Shape
from tilepipe.launch.shapes import shared_shapes
from tilepipe.launch.types import Finding, LaunchOptions, RunResult
from tilepipe.problem.types import Array, Case, Scalar
from tilepipe.toolchain.types import Toolchain, Unit

_LINE_INFO = "-lineinfo"  # understood by NVRTC and nvcc


class CpuDevice:
    """Runs kernels on this machine's processor, as an sm_80 device would at its least forgiving. A block that has
    taken `max_steps` is taken to run for ever."""

    def __init__(self, toolchain: Toolchain, max_steps: int | None = None) -> None:
        self._toolchain = toolchain
        self._max_steps = max_steps or emulator.MAX_STEPS

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
        program = emulator.load_program(compiled.image.decode(), compiled.symbol)
        if isinstance(program, Refusal):
            return program
        shapes = functools.cache(lambda: shared_shapes(self._toolchain, unit))
        return CpuKernel(program, shapes, self._max_steps)


@dataclass(frozen=True)
class CpuKernel:
    """A kernel ready to run on the CPU. `shapes` asks how its shared variables are declared."""

    program: emulator.Program
    shapes: Callable[[], Mapping[str, Shape]] = dict
    max_steps: int = emulator.MAX_STEPS

    def run(self, case: Case, options: LaunchOptions) -> RunResult | Refusal:
        """Runs the case; its arrays are updated in place."""
        done = self.program.run(
            case.grid,
            case.block,
            case.shared,
            [_argument(a) for a in case.args],
            blocks=options.blocks,
            mode="profiled" if options.profile else "checked" if options.checks else "unchecked",
            early=options.copies == "early",
            max_steps=options.max_steps or self.max_steps,
            shapes=self.shapes,
        )
        if isinstance(done, Refusal):
            return done
        findings = tuple(_finding(f) for f in done.findings)
        counters = dict(done.counters)
        return RunResult(findings, done.notes, done.blocks_run, done.blocks_total, counters, done.profile)


def _argument(argument: Array | Scalar) -> emulator.Argument:
    if isinstance(argument, Scalar):
        return argument.value
    offset = argument.data.ctypes.data - argument.base.ctypes.data
    return emulator.Buffer(argument.base, offset, argument.name)


def _finding(found: emulator.EmulatorFinding) -> Finding:
    times = f" ({found.count} times)" if found.count > 1 else ""
    return Finding(
        found.kind,
        found.message + times,
        found.lines,
        found.where,
        found.threads,
        found.interval,
        found.block,
        found.calls,
    )
