"""Kernels on a CUDA GPU: load a cubin, launch a case, time contenders side by side.

Only cubins are loaded, never PTX: PTX of a newer toolkit than the driver is rejected, while cubins load
within a major version. A fault (an illegal address, say) leaves the process's CUDA context unusable; the
device then answers everything with the same refusal instead of failing in new ways.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tilepipe.diagnostics import Refusal, error
from tilepipe.launch.driver import CoreDriver, Driver, DriverError, has_driver
from tilepipe.launch.types import LaunchOptions, RunResult
from tilepipe.problem.types import Array, Case
from tilepipe.toolchain.types import Compiled, Toolchain, Unit

DEFAULT_SHARED = 48 * 1024  # bytes per block without raising the kernel's attribute
TIMEOUT_S = 60.0
_UNUSABLE = "CUDA is unusable in this process from here on"

_REJECTED = {
    "CUDA_ERROR_INVALID_VALUE",
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
    "CUDA_ERROR_INVALID_CONFIGURATION",
    "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE",
}
_FAULTS = {
    "CUDA_ERROR_ILLEGAL_ADDRESS": "a load or store outside every allocation",
    "CUDA_ERROR_MISALIGNED_ADDRESS": "an access at an address that is not a multiple of its width",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": "an illegal instruction or a trap",
    "CUDA_ERROR_INVALID_ADDRESS_SPACE": "an access through a pointer of another address space",
    "CUDA_ERROR_INVALID_PC": "a jump out of the program",
    "CUDA_ERROR_HARDWARE_STACK_ERROR": "a stack overflow or corruption",
    "CUDA_ERROR_ASSERT": "a failed assert",
    "CUDA_ERROR_LAUNCH_FAILED": "an exception on the device",
    "CUDA_ERROR_LAUNCH_TIMEOUT": "a run longer than the display driver allows",
}


def find_gpu(toolchain: Toolchain) -> CudaDevice | None:
    """The first CUDA GPU, compiling with `toolchain`; None where there is no GPU, driver or cuda.core."""
    if not has_driver():
        return None
    try:
        return CudaDevice(CoreDriver(), toolchain)
    except Exception:  # a missing driver shows as ImportError, RuntimeError or CUDAError, by version
        return None


class CudaDevice:
    """A GPU as a `launch.Device`. Without a toolchain it takes compiled kernels only."""

    kind: Literal["cuda"] = "cuda"

    def __init__(self, driver: Driver, toolchain: Toolchain | None) -> None:
        self._driver, self._toolchain = driver, toolchain
        self._lost: Refusal | None = None

    @property
    def name(self) -> str:
        return self._driver.name

    @property
    def arch(self) -> str:
        return self._driver.arch

    def load(self, unit: Unit, arch: str) -> CudaKernel | Refusal:
        """Compile `unit` to a cubin for `arch` and load it. TP354: the GPU cannot run it."""
        if self._toolchain is None:
            raise ValueError("this device was made without a toolchain")
        compiled = self._toolchain.compile(unit, arch, "cubin")
        return compiled if isinstance(compiled, Refusal) else self.load_compiled(compiled)

    def load_compiled(self, compiled: Compiled) -> CudaKernel | Refusal:
        """`load` for a cubin already at hand."""
        if compiled.kind != "cubin":
            raise ValueError("only cubins are loaded")
        if self._lost is not None:
            return self._lost
        try:
            return CudaKernel(self, compiled, self._driver.load(compiled.image, compiled.symbol))
        except DriverError as failure:
            return error(
                "TP354",
                f"{self.name} cannot load `{compiled.symbol}` built for {compiled.arch} ({failure.status})",
                help=f"build for --arch {self.arch}, or update the driver to the toolkit's major version",
            )

    def refuse(self, failure: DriverError, doing: str) -> Refusal:
        """What a failed driver call means to the user; a fault also ends the use of this device."""
        if failure.status == "CUDA_ERROR_OUT_OF_MEMORY":
            return error("TP355", f"{self.name} is out of memory {doing}", help="choose a smaller size set")
        if failure.status in _REJECTED:
            return error(
                "TP351",
                f"{self.name} rejected the launch {doing} ({failure.status})",
                help="check grid, block and shared; registers x threads of a block is 65,536 at most",
            )
        meaning = _FAULTS.get(failure.status, "a failure of the driver or the device")
        self._lost = error(
            "TP353",
            f"{self.name} stopped {doing}: {meaning} ({failure.status})",
            help=f"{_UNUSABLE}; `tilepipe emulate` names the access and its line",
        )
        return self._lost

    def wait(self, doing: str) -> Refusal | None:
        """Wait for everything launched so far; a kernel that does not end makes the device unusable."""
        if self._driver.wait(TIMEOUT_S):
            return None
        self._lost = error(
            "TP356",
            f"{self.name}: no end after {TIMEOUT_S:.0f} s {doing}",
            help=f"{_UNUSABLE}; look for a barrier that not every thread reaches",
        )
        return self._lost

    @contextmanager
    def memory(self, case: Case) -> Iterator[_Memory]:
        """Device copies of the arrays of `case`, freed at the end (not on a lost device: its memory is
        gone)."""
        memory = _Memory(self._driver)
        try:
            for array in case.arrays:
                memory.add(array)
            yield memory
        finally:
            if self._lost is None:
                memory.free()

    def time_interleaved(
        self,
        contenders: Mapping[str, Contender],
        case: Case,
        rounds: int,
        *,
        warmup: int = 3,
        flush_l2: bool = True,
        seed: int = 0,
    ) -> dict[str, tuple[float, ...]] | Refusal:
        """Milliseconds of `rounds` launches of every contender on the arrays of `case`.

        Each round runs every contender once, in a new random order, so drifting clocks and neighbours hit
        all alike. Before each launch, outside the timed span, `inout` arrays are restored and, with
        `flush_l2`, a buffer of twice the L2 is written: a warm L2 overstates gains. The arrays of `case` on
        the host are not changed.
        """
        if self._lost is not None:
            return self._lost
        for contender in contenders.values():
            refused = contender.kernel.allow_shared(contender.case.shared)
            if refused is not None:
                return refused
        try:
            with self.memory(case) as memory:
                memory.keep_inout()
                if flush_l2:
                    memory.add_flush(2 * self._driver.l2_bytes)
                launches = {name: one.kernel.prepare(one.case, memory) for name, one in contenders.items()}
                order = list(launches)
                for name in order * warmup:
                    self._timed(launches[name], memory)
                refused = self.wait("while warming up")
                samples: dict[str, list[float]] = {name: [] for name in order}
                shuffled = random.Random(seed)
                for _ in range(rounds):
                    if refused is not None:
                        return refused
                    shuffled.shuffle(order)
                    spans = {name: self._timed(launches[name], memory) for name in order}
                    refused = self.wait("while timing")
                    if refused is None:
                        for name, (start, end) in spans.items():
                            samples[name].append(self._driver.elapsed_ms(start, end))
                return refused or {name: tuple(values) for name, values in samples.items()}
        except DriverError as failure:
            return self.refuse(failure, "while timing")

    def _timed(self, launch: Callable[[], None], memory: _Memory) -> tuple[Any, Any]:
        """Enqueue one timed launch. Everything that takes the processor long is done before, so that the
        launch is queued while the GPU still restores and flushes, and the span holds no waiting for it."""
        start, end = self._driver.event(), self._driver.event()
        memory.restore()
        self._driver.record(start)
        launch()
        self._driver.record(end)
        return start, end


@dataclass(frozen=True)
class CudaKernel:
    """A kernel loaded on `device` (a `launch.Loaded`)."""

    device: CudaDevice
    compiled: Compiled
    handle: Any

    def allow_shared(self, dynamic: int) -> Refusal | None:
        """Raise the kernel's dynamic-shared-memory attribute if a block needs more than 48 KB (TP352)."""
        driver = self.device._driver
        total = self.compiled.static_shared + dynamic
        if total > driver.shared_per_block_optin:
            return error(
                "TP352",
                f"`{self.compiled.symbol}` needs {total} bytes of shared memory per block; "
                f"{self.device.name} has {driver.shared_per_block_optin}",
                help="use fewer stages or a smaller tile",
            )
        if dynamic and total > DEFAULT_SHARED:
            try:
                driver.allow_dynamic_shared(self.handle, dynamic)
            except DriverError as failure:
                return self.device.refuse(failure, f"setting `{self.compiled.symbol}` up")
        return None

    def prepare(self, case: Case, memory: _Memory) -> Callable[[], None]:
        """A launch of `case`, whose arrays lie in `memory`, ready to be enqueued."""
        args = [
            np.uint64(memory.address(arg)) if isinstance(arg, Array) else _raw(arg.value) for arg in case.args
        ]
        return self.device._driver.prepare(self.handle, case.grid, case.block, case.shared, args)

    def run(self, case: Case, options: LaunchOptions) -> RunResult | Refusal:
        """Launch `case` once and copy every array back, its whole allocation included.

        A GPU runs all blocks and checks nothing, so of `options` nothing applies.
        """
        device = self.device
        if device._lost is not None:
            return device._lost
        refused = self.allow_shared(case.shared)
        if refused is not None:
            return refused
        doing = f"running `{self.compiled.symbol}` at size `{case.size}`"
        try:
            with device.memory(case) as memory:
                self.prepare(case, memory)()
                refused = device.wait(doing)
                if refused is not None:
                    return refused
                memory.download()
                refused = device.wait(doing)
        except DriverError as failure:
            return device.refuse(failure, doing)
        blocks = case.grid[0] * case.grid[1] * case.grid[2]
        return refused or RunResult(blocks_run=blocks, blocks_total=blocks)


@dataclass(frozen=True)
class Contender:
    """One kernel in a timing and its launch: a case on the same arrays as every other contender's, perhaps
    with another grid or amount of dynamic shared memory."""

    kernel: CudaKernel
    case: Case


class _Memory:
    """Device allocations of the arrays of one case."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._arrays: dict[int, tuple[Array, int]] = {}
        self._pristine: list[
            tuple[int, int, int]
        ] = []  # (working copy, saved contents, bytes) of inout arrays
        self._flush: tuple[int, int] | None = None
        self._allocated: list[int] = []

    def _allocate(self, size: int) -> int:
        address = self._driver.allocate(size)
        self._allocated.append(address)
        return address

    def add(self, array: Array) -> None:
        address = self._allocate(array.base.nbytes)
        self._driver.upload(address, array.base)
        self._arrays[id(array)] = (array, address)

    def keep_inout(self) -> None:
        """Save what `inout` arrays hold now, for `restore`."""
        for array, address in self._arrays.values():
            if array.role == "inout":
                saved = self._allocate(array.base.nbytes)
                self._driver.copy(saved, address, array.base.nbytes)
                self._pristine.append((address, saved, array.base.nbytes))

    def add_flush(self, size: int) -> None:
        """Make `restore` write `size` bytes as well, which evicts the L2."""
        self._flush = (self._allocate(size), size)

    def address(self, array: Array) -> int:
        """The device address of the view that the kernel is given."""
        return self._arrays[id(array)][1] + (array.data.ctypes.data - array.base.ctypes.data)

    def restore(self) -> None:
        for address, saved, size in self._pristine:
            self._driver.copy(address, saved, size)
        if self._flush is not None:
            self._driver.fill(self._flush[0], 0, self._flush[1])

    def download(self) -> None:
        for array, address in self._arrays.values():
            self._driver.download(array.base, address)

    def free(self) -> None:
        for address in self._allocated:
            with suppress(DriverError):  # after a fault there is nothing left to free
                self._driver.free(address)


def _raw(value: np.generic) -> np.generic:
    """The scalar as the unsigned integer of its bits where its type is one that cuda.core may not know."""
    if value.dtype.itemsize > 2:
        return value
    bits: np.generic = np.frombuffer(value.tobytes(), f"u{value.dtype.itemsize}")[0]
    return bits
