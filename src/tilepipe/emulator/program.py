"""PTX text to something that runs: parse, translate, compile, launch."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cached_property
from os import cpu_count
from time import perf_counter
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tilepipe.diagnostics import Refusal
from tilepipe.diagnostics.core import error
from tilepipe.emulator import MAX_STEPS, jit, layout
from tilepipe.emulator.arena import Arena, Launch
from tilepipe.emulator.codegen.function import Translation, translate_function
from tilepipe.emulator.findings import (
    AddressBook,
    ArrayPlace,
    EmulatorFinding,
    Shape,
    describe,
    plain_name,
)
from tilepipe.emulator.placement import Prepared, prepare
from tilepipe.emulator.profile import Profile, make_profile
from tilepipe.emulator.ptx.model import Instruction, Unsupported
from tilepipe.emulator.ptx.parser import parse
from tilepipe.emulator.ptx.sharing import Sharing, sharing
from tilepipe.emulator.sharing import NOTE, Watches

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


Mode = Literal["checked", "unchecked", "profiled"]
Shapes = Mapping[str, Shape]


@dataclass(frozen=True)
class Execution:
    """What a run did; arrays were changed in place. `counters`: math, global_load_bytes, async_copy_bytes,
    barriers (all sums over the blocks that ran). `notes` say what was left out."""

    findings: tuple[EmulatorFinding, ...]
    blocks_run: int
    blocks_total: int
    counters: dict[str, int]
    seconds: float
    notes: tuple[str, ...] = ()
    profile: Profile | None = None


@dataclass(frozen=True)
class _Compiled:
    translation: Translation
    engine: Any
    step: int


@dataclass
class Program:
    """A kernel ready to run on the CPU. Machine code is made on the first run of each mode: with checks, without,
    and with both checks and the log of accesses that a profile needs."""

    kernel: Prepared
    has_lines: bool
    _translations: dict[Mode, Translation] = field(default_factory=dict)
    _compiled: dict[tuple[Mode, bool], _Compiled] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @cached_property
    def sharing(self) -> Sharing:
        """What the kernel does to global memory."""
        return sharing(self.kernel.function)

    def has(self, opcode: str) -> bool:
        """Whether the kernel has an instruction of an opcode: "cp" for asynchronous copies, "mbarrier", …"""
        return any(isinstance(i, Instruction) and i.op == opcode for i in self.kernel.function.body)

    def translate(self, mode: Mode) -> Translation:
        """The LLVM IR for runs in a mode; raises `Unsupported`."""
        if mode not in self._translations:
            kernel = self.kernel
            self._translations[mode] = translate_function(
                kernel.function, kernel.addresses, mode != "unchecked", mode == "profiled"
            )
        return self._translations[mode]

    def compile(self, mode: Mode, brief: bool = False) -> None:
        """Makes the machine code for runs in a mode, if it is not there yet; `brief`: without optimising it."""
        with self._lock:
            if (mode, brief) not in self._compiled:
                jit.runtime()
                translation = self.translate(mode)
                engine = jit.compile_module(translation.ir, brief=brief)
                step = int(engine.get_function_address("step"))
                self._compiled[mode, brief] = _Compiled(translation, engine, step)

    def run(
        self,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        dynamic_shared: int,
        arguments: Sequence[Argument],
        *,
        blocks: Sequence[int] | None = None,
        mode: Mode = "checked",
        early: bool = False,
        max_steps: int = MAX_STEPS,
        shapes: Callable[[], Shapes] = dict,
    ) -> Execution | Refusal:
        """Runs the grid, or the linear block numbers in `blocks`.

        `dynamic_shared` is in bytes. `early` makes asynchronous copies land at issue instead of at the wait.
        `max_steps` bounds the backward branches of a block's threads together, a stop at a barrier or a warp
        instruction counting as several. `shapes` is asked for the shapes of
        shared variables, by plain name, when there is a finding to describe. Returns a refusal (TP302) for a
        launch that no device would accept.
        """
        refused = self._refused_launch(block, dynamic_shared, arguments)
        if refused is not None:
            return refused
        staged = [_device_copy(a) if isinstance(a, Buffer) else a for a in arguments]
        packed = self._pack(staged)
        if isinstance(packed, Refusal):
            return packed
        brief = mode == "profiled" and blocks is not None and len(blocks) == 1
        self.compile(mode, brief)
        compiled = self._compiled[mode, brief]
        memories = self._memories(staged)
        watches = Watches() if mode == "unchecked" else Watches.of(self.sharing, memories)
        launch = Launch(
            grid,
            block,
            self.kernel.dynamic_offset + dynamic_shared,
            self.kernel.static_shared + dynamic_shared,
            dynamic_shared,
            self.kernel.local_bytes,
            packed,
            tuple(watches.range_of(m.ctypes.data, m.nbytes) for _, m in memories if m.nbytes),
            self.kernel.shared_gaps,
            mode != "unchecked",
            mode == "profiled",
            early,
            max_steps,
        )
        total = grid[0] * grid[1] * grid[2]
        numbers = range(total) if blocks is None else [n for n in blocks if 0 <= n < total]
        workers = 1 if self._shares_global_cells() else min(cpu_count() or 1, max(len(numbers), 1))
        start = perf_counter()
        arenas, done = _run_blocks(launch, compiled, numbers, workers)
        seconds = perf_counter() - start
        for given, used in zip(arguments, staged, strict=True):
            if isinstance(given, Buffer) and isinstance(used, Buffer):
                given.memory.reshape(-1).view(np.uint8)[:] = used.memory
        raw = [f for a in arenas for f in a.findings[: a.block.finding_count]]
        met = set().union(*(a.shared_arrays() for a in arenas))
        names = self._names(arguments, staged, dynamic_shared, shapes() if raw else {})
        sites = compiled.translation.sites
        findings = describe(raw, sites, self.has_lines, names, grid, self.sharing.leading if raw else {})
        findings += watches.findings(met, sites, self.has_lines, names, grid)
        profile = self._profile(arenas, compiled.translation, names) if launch.profile else None
        counters: dict[str, int] = {}
        for arena in arenas:
            for key, n in arena.counters().items():
                counters[key] = counters.get(key, 0) + n
        notes = (*self.kernel.function.notes, *((NOTE,) if launch.checks and self.sharing.ordered else ()))
        return Execution(tuple(findings), done, total, counters, seconds, notes, profile)

    def _refused_launch(
        self, block: tuple[int, int, int], dynamic_shared: int, arguments: Sequence[Argument]
    ) -> Refusal | None:
        threads, shared = block[0] * block[1] * block[2], self.kernel.static_shared + dynamic_shared
        if not 0 < threads <= layout.MAX_THREADS:
            return error("TP302", f"a block of {threads} threads; 1 to {layout.MAX_THREADS} are possible")
        if shared > MAX_SHARED:
            return error("TP302", f"{shared} bytes of shared memory a block")
        expected = len(self.kernel.function.parameters)
        if len(arguments) != expected:
            return error("TP302", f"{len(arguments)} arguments for {expected} kernel parameters")
        if not all(a.memory.flags.c_contiguous for a in arguments if isinstance(a, Buffer)):
            return error("TP302", "an array argument that is not C-contiguous")
        return None

    def _memories(self, staged: Sequence[Argument]) -> list[tuple[str, npt.NDArray[Any]]]:
        """Everything that global addresses may point to, by parameter or variable name."""
        parameters = zip(self.kernel.function.parameters, staged, strict=True)
        arrays = [(p.name, a.memory) for p, a in parameters if isinstance(a, Buffer)]
        return [*arrays, *self.kernel.host_memory.items()]

    def _names(
        self, given: Sequence[Argument], staged: Sequence[Argument], dynamic: int, shapes: Shapes
    ) -> AddressBook:
        arrays = []
        parameters = self.kernel.function.parameters
        for n, (parameter, array, copy) in enumerate(zip(parameters, given, staged, strict=True)):
            if isinstance(array, Buffer) and isinstance(copy, Buffer):
                start, size = copy.memory.ctypes.data, copy.memory.nbytes
                name, element = array.name or f"argument {n}", array.memory.itemsize
                place = ArrayPlace(name, start, size, start + array.offset, element, parameter.name)
                arrays.append(place)
        for name, memory in self.kernel.host_memory.items():
            at = memory.ctypes.data
            arrays.append(ArrayPlace(plain_name(name), at, memory.nbytes, at, 1, name))
        last = (self.kernel.dynamic_name, self.kernel.dynamic_offset, dynamic)
        texts = tuple((m.ctypes.data, m.tobytes()) for m in self.kernel.host_memory.values())
        return AddressBook((*self.kernel.shared_names, last), tuple(arrays), shapes, texts)

    def _profile(self, arenas: Sequence[Arena], translation: Translation, names: AddressBook) -> Profile:
        counts = [a.counts for a in arenas]
        dropped = sum(a.log.dropped for a in arenas)
        return make_profile(counts, dropped, translation.sites, translation.operations, self.has_lines, names)

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
        program.translate("checked")
    except Unsupported as problem:
        where = f" (PTX line {problem.line})" if problem.line else ""
        return error("TP300", f"the emulator does not execute {problem.what}{where}")
    return program
