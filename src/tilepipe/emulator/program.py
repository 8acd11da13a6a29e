"""PTX text to something that runs: parse, translate, compile, launch."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from os import cpu_count
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from tilepipe.diagnostics import Refusal
from tilepipe.diagnostics.core import error
from tilepipe.emulator import jit, layout
from tilepipe.emulator.arena import Arena, Launch
from tilepipe.emulator.codegen.function import Translation, translate_function
from tilepipe.emulator.findings import AddressBook, EmulatorFinding, describe
from tilepipe.emulator.placement import Prepared, prepare
from tilepipe.emulator.ptx.model import Instruction, Unsupported
from tilepipe.emulator.ptx.parser import parse

_CHUNK_SECONDS = 0.1  # how long a worker runs between looks at Ctrl-C
MAX_SHARED = 227 * 1024  # bytes a block may have on the largest devices we model (sm_90)
ALLOCATION_ALIGNMENT = 256  # bytes, of device allocations (CUDA programming guide, device memory accesses)


@dataclass(frozen=True)
class Buffer:
    """A pointer argument: `offset` bytes into the C-contiguous `memory`, all of which may be accessed."""

    memory: npt.NDArray[Any]
    offset: int = 0
    name: str = ""


Argument = Buffer | np.generic


@dataclass(frozen=True)
class Execution:
    """What a run did; arrays were changed in place. `counters`: math, global_load_bytes, async_copy_bytes,
    barriers (all sums over the blocks that ran)."""

    findings: tuple[EmulatorFinding, ...]
    blocks_run: int
    blocks_total: int
    counters: dict[str, int]
    seconds: float


@dataclass(frozen=True)
class _Compiled:
    translation: Translation
    engine: Any
    step: int


@dataclass
class Program:
    """A kernel ready to run on the CPU. Machine code is made on the first run, apart for checks on and off."""

    kernel: Prepared
    has_lines: bool
    _translations: dict[bool, Translation] = field(default_factory=dict)
    _compiled: dict[bool, _Compiled] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def translate(self, checks: bool) -> Translation:
        """The LLVM IR for runs with or without checks; raises `Unsupported`."""
        if checks not in self._translations:
            self._translations[checks] = translate_function(
                self.kernel.function, self.kernel.addresses, checks
            )
        return self._translations[checks]

    def compile(self, checks: bool) -> None:
        """Makes the machine code for runs with or without checks, if it is not there yet."""
        with self._lock:
            if checks not in self._compiled:
                jit.runtime()
                translation = self.translate(checks)
                engine = jit.compile_module(translation.ir)
                step = int(engine.get_function_address("step"))
                self._compiled[checks] = _Compiled(translation, engine, step)

    def run(
        self,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        dynamic_shared: int,
        arguments: Sequence[Argument],
        *,
        blocks: Sequence[int] | None = None,
        checks: bool = True,
        early: bool = False,
        max_steps: int = 200_000_000,
    ) -> Execution | Refusal:
        """Runs the grid, or the linear block numbers in `blocks`.

        `dynamic_shared` is in bytes. `early` makes asynchronous copies land at issue instead of at the wait.
        `max_steps` bounds a thread's backward branches between two barriers. Returns a refusal (TP302) for a
        launch that no device would accept.
        """
        threads = block[0] * block[1] * block[2]
        total = grid[0] * grid[1] * grid[2]
        if not 0 < threads <= layout.MAX_THREADS:
            return error("TP302", f"a block of {threads} threads; 1 to {layout.MAX_THREADS} are possible")
        if self.kernel.static_shared + dynamic_shared > MAX_SHARED:
            return error(
                "TP302", f"{self.kernel.static_shared + dynamic_shared} bytes of shared memory a block"
            )
        if len(arguments) != len(self.kernel.function.parameters):
            expected = len(self.kernel.function.parameters)
            return error("TP302", f"{len(arguments)} arguments for {expected} kernel parameters")
        if not all(a.memory.flags.c_contiguous for a in arguments if isinstance(a, Buffer)):
            return error("TP302", "an array argument that is not C-contiguous")
        staged = [_device_copy(a) if isinstance(a, Buffer) else a for a in arguments]
        packed = self._pack(staged)
        if isinstance(packed, Refusal):
            return packed
        self.compile(checks)
        compiled = self._compiled[checks]
        buffers = [a for a in staged if isinstance(a, Buffer)]
        memories = [*(b.memory for b in buffers), *self.kernel.host_memory]
        ranges = tuple((m.ctypes.data, m.nbytes) for m in memories if m.nbytes)
        size = self.kernel.static_shared + dynamic_shared
        launch = Launch(
            grid,
            block,
            size,
            dynamic_shared,
            self.kernel.local_bytes,
            packed,
            ranges,
            checks,
            early,
            max_steps,
        )
        numbers = range(total) if blocks is None else [n for n in blocks if 0 <= n < total]
        workers = 1 if self._shares_global_cells() else min(cpu_count() or 1, max(len(numbers), 1))
        start = perf_counter()
        arenas, done = _run_blocks(launch, compiled, numbers, workers)
        seconds = perf_counter() - start
        for given, used in zip(arguments, staged, strict=True):
            if isinstance(given, Buffer) and isinstance(used, Buffer):
                given.memory.reshape(-1).view(np.uint8)[:] = used.memory
        names = AddressBook(
            (*self.kernel.shared_names, ("dynamic shared memory", self.kernel.static_shared, dynamic_shared)),
            tuple(
                (b.name or f"argument {n}", b.memory.ctypes.data, b.memory.nbytes)
                for n, b in enumerate(buffers)
            ),
        )
        raw = [f for a in arenas for f in a.findings[: a.block.finding_count]]
        findings = describe(raw, compiled.translation.sites, self.has_lines, names, grid)
        counters: dict[str, int] = {}
        for arena in arenas:
            for key, n in arena.counters().items():
                counters[key] = counters.get(key, 0) + n
        return Execution(tuple(findings), done, total, counters, seconds)

    def _pack(self, arguments: Sequence[Argument]) -> bytes | Refusal:
        packed = bytearray(self.kernel.parameter_bytes)
        for parameter, argument in zip(self.kernel.function.parameters, arguments, strict=True):
            if isinstance(argument, Buffer):
                data = struct.pack("<Q", argument.memory.ctypes.data + argument.offset)
            else:
                data = argument.tobytes()
            if len(data) != parameter.size:
                what = f"parameter {parameter.name} takes {parameter.size} bytes, not {len(data)}"
                return error("TP302", what)
            at = self.kernel.addresses.parameters[parameter.name]
            packed[at : at + len(data)] = data
        return bytes(packed)

    def _shares_global_cells(self) -> bool:
        """Kernels with global atomics run on one worker, so that their results do not depend on timing."""
        return any(
            isinstance(i, Instruction) and i.op in ("atom", "red") and not any("shared" in m for m in i.mods)
            for i in self.kernel.function.body
        )


def _device_copy(buffer: Buffer) -> Buffer:
    """A copy aligned as device allocations are, so that alignment findings mean what they mean there."""
    source = buffer.memory.reshape(-1).view(np.uint8)
    room = np.empty(source.size + ALLOCATION_ALIGNMENT, np.uint8)
    at = -room.ctypes.data % ALLOCATION_ALIGNMENT
    memory = room[at : at + source.size]
    memory[:] = source
    return Buffer(memory, buffer.offset, buffer.name)


def _run_blocks(
    launch: Launch, compiled: _Compiled, numbers: Sequence[int], workers: int
) -> tuple[list[Arena], int]:
    """Runs blocks on `workers` threads in chunks; stops all of them on an interrupt."""
    runtime = jit.runtime()
    arenas = [Arena(launch, compiled.translation, compiled.step) for _ in range(workers)]
    done = 0
    lock = threading.Lock()
    pending = iter(numbers)

    def take(count: int) -> list[int]:
        with lock:
            return [n for _, n in zip(range(count), pending, strict=False)]

    def stop() -> None:
        for arena in arenas:
            arena.block.stop = 1

    def work(arena: Arena) -> None:
        nonlocal done
        size = 1
        while chunk := take(size):
            start = perf_counter()
            array = (ctypes.c_uint64 * len(chunk))(*chunk)
            finished = runtime.run(ctypes.byref(arena.block), array, len(chunk))
            with lock:
                done += finished
            if arena.block.stop:  # an endless loop: the other workers need not find it again
                stop()
                return
            elapsed = perf_counter() - start
            size = max(1, min(int(size * _CHUNK_SECONDS / max(elapsed, 1e-6)), 4 * size))

    try:
        with ThreadPoolExecutor(workers) as pool:
            futures = [pool.submit(work, arena) for arena in arenas]
            try:
                while wait(futures, timeout=_CHUNK_SECONDS, return_when=FIRST_EXCEPTION).not_done:
                    pass
            except BaseException:
                stop()
                raise
            for future in futures:
                future.result()
    finally:
        for arena in arenas:
            runtime.release(ctypes.byref(arena.block))
    return arenas, done


def load_program(ptx: str, symbol: str) -> Program | Refusal:
    """Parses and translates the kernel `symbol` of a PTX text.

    Returns a refusal TP300 for PTX that the emulator does not execute (with the line and the instruction),
    TP301 where the host processor lacks what exact arithmetic needs, and TP303 where the runtime is not built.
    """
    if not jit.is_built():
        help_text = "run `python -m tilepipe.emulator.build_runtime` (needs ziglang), or install a wheel"
        return error("TP303", "the emulator's runtime is not built", help=help_text)
    missing = jit.missing_features()
    if missing:
        return error("TP301", f"the emulator needs a processor with {missing}")
    try:
        module = parse(ptx)
        program = Program(prepare(module, symbol), module.has_lines)
        program.translate(checks=True)
    except Unsupported as problem:
        where = f" (PTX line {problem.line})" if problem.line else ""
        return error("TP300", f"the emulator does not execute {problem.what}{where}")
    return program
