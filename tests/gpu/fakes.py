"""A driver without a GPU: memory is host bytes at made-up addresses, kernels are Python functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tilepipe.diagnostics import Refusal
from tilepipe.launch.driver import DriverError
from tilepipe.toolchain.types import Answer, Compiled, Question, Unit

Kernel = Callable[..., float]  # (driver, *args) -> milliseconds that the launch takes


class FakeDriver:
    name = "Fake GPU, driver CUDA 13.0"
    arch = "sm_90"
    l2_bytes = 1000
    shared_per_block_optin = 227 * 1024

    def __init__(self, **kernels: Kernel) -> None:
        self.kernels = kernels
        self.blocks: dict[int, bytearray] = {}
        self.log: list[tuple[Any, ...]] = []
        self.clock = 0.0
        self.fail: dict[str, str] = {}  # method -> status that it raises
        self.hangs = False
        self._next = 0x10000

    def _step(self, *entry: Any) -> None:
        self.log.append(entry)
        if entry[0] in self.fail:
            raise DriverError(self.fail[entry[0]], "fake")

    def _find(self, address: int) -> tuple[bytearray, int]:
        for base, block in self.blocks.items():
            if base <= address < base + max(1, len(block)):
                return block, address - base
        raise DriverError("CUDA_ERROR_ILLEGAL_ADDRESS", hex(address))

    def view(self, address: int, count: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        block, at = self._find(int(address))
        return np.frombuffer(block, dtype, count, at)

    def load(self, cubin: bytes, symbol: str) -> str:
        self._step("load", symbol)
        return symbol

    def allow_dynamic_shared(self, kernel: str, size: int) -> None:
        self._step("allow", kernel, size)

    def allocate(self, size: int) -> int:
        self._step("allocate", size)
        address, self._next = self._next, self._next + (size + 511) // 256 * 256
        self.blocks[address] = bytearray(size)
        return address

    def free(self, address: int) -> None:
        self._step("free")
        del self.blocks[address]

    def upload(self, address: int, array: npt.NDArray[Any]) -> None:
        self.blocks[address][:] = array.tobytes()

    def download(self, array: npt.NDArray[Any], address: int) -> None:
        array.view(np.uint8)[...] = np.frombuffer(self.blocks[address], np.uint8)

    def copy(self, target: int, source: int, size: int) -> None:
        self.blocks[target][:] = self.blocks[source]

    def fill(self, address: int, byte: int, size: int) -> None:
        self._step("fill", size)

    def prepare(
        self, kernel: str, grid: Any, block: Any, shared: int, args: Sequence[np.generic]
    ) -> Callable[[], None]:
        def launch() -> None:
            self._step("launch", kernel, shared)
            self.clock += self.kernels[kernel](self, *args)

        return launch

    def event(self) -> list[float]:
        return []

    def record(self, event: list[float]) -> None:
        self.log.append(("record",))
        event[:] = [self.clock]

    def elapsed_ms(self, start: list[float], end: list[float]) -> float:
        return end[0] - start[0]

    def wait(self, timeout_s: float) -> bool:
        self._step("wait")
        return not self.hangs


class FakeToolchain:
    name = "fake 1.0"

    def __init__(self, static_shared: int = 0) -> None:
        self.static_shared = static_shared

    def compile(self, unit: Unit, arch: str, kind: Any) -> Compiled | Refusal:
        return Compiled(kind, b"", unit.kernel, arch, static_shared=self.static_shared)

    def answer(self, unit: Unit, questions: tuple[Question, ...]) -> dict[str, Answer] | Refusal:
        raise NotImplementedError
