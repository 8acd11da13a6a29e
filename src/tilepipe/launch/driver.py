"""The few driver calls that a launch needs, over cuda.core and cuda.bindings, behind one small protocol.

cuda.core loads and launches; copies between host arrays and the device go through the driver API, since
cuda.core 1.x copies between its own buffers only. Everything is ordered on one stream. Driver failures are
raised as `DriverError`, which `launch/gpu.py` turns into refusals.
"""

from __future__ import annotations

import ctypes
import importlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Dim3 = tuple[int, int, int]

_STATUS = re.compile(r"CUDA_ERROR_[A-Z0-9_]+")


class DriverError(Exception):
    """A failed driver call: `status` is the driver's name for it, e.g. "CUDA_ERROR_ILLEGAL_ADDRESS"."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status


class Driver(Protocol):
    """What `launch/gpu.py` asks of a GPU. Addresses are device addresses; every call may raise
    `DriverError`."""

    name: str
    arch: str
    l2_bytes: int
    shared_per_block_optin: int

    def load(self, cubin: bytes, symbol: str) -> Any: ...

    def allow_dynamic_shared(self, kernel: Any, size: int) -> None: ...

    def allocate(self, size: int) -> int: ...

    def free(self, address: int) -> None: ...

    def upload(self, address: int, array: npt.NDArray[Any]) -> None: ...

    def download(self, array: npt.NDArray[Any], address: int) -> None: ...

    def copy(self, target: int, source: int, size: int) -> None: ...

    def fill(self, address: int, byte: int, size: int) -> None: ...

    def prepare(
        self, kernel: Any, grid: Dim3, block: Dim3, shared: int, args: Sequence[np.generic]
    ) -> Callable[[], None]:
        """A launch made ready, so that enqueueing it takes little time."""

    def event(self) -> Any: ...

    def record(self, event: Any) -> None: ...

    def elapsed_ms(self, start: Any, end: Any) -> float: ...

    def wait(self, timeout_s: float) -> bool: ...


@contextmanager
def _translated() -> Iterator[None]:
    """Driver failures of cuda.core (whose exception type is not public) as `DriverError`; bugs pass
    through."""
    try:
        yield
    except Exception as failure:
        status = _STATUS.search(str(failure))
        if status is None:
            raise
        raise DriverError(status[0], str(failure)) from failure


def has_driver() -> bool:
    """Whether there is a CUDA driver, found out without cuda.core, which takes a while to import."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


class CoreDriver:
    """`Driver` on device 0 through cuda.core >= 1.0. Raises whatever cuda.core raises where there is no
    GPU."""

    def __init__(self) -> None:
        # Imported late, and untyped, since without a driver the import itself may fail.
        core: Any = importlib.import_module("cuda.core")
        api: Any = importlib.import_module("cuda.bindings.driver")
        self._core, self._api = core, api
        self._device = core.Device(0)
        self._device.set_current()
        self._stream = self._device.create_stream()
        self._buffers: dict[int, Any] = {}
        properties = self._device.properties
        version = int(self._call(api.cuDriverGetVersion))
        self.name = f"{self._device.name}, driver CUDA {version // 1000}.{version % 1000 // 10}"
        self.arch = f"sm_{self._device.arch}"
        self.l2_bytes = int(properties.l2_cache_size)
        self.shared_per_block_optin = int(properties.max_shared_memory_per_block_optin)

    def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        """A call of the driver API: (status, results…) → the result."""
        status, *results = function(*args)
        if int(status) != 0:
            name = getattr(status, "name", str(status))
            raise DriverError(name, f"{function.__name__}: {name}")
        return results[0] if results else None

    def load(self, cubin: bytes, symbol: str) -> Any:
        with _translated():
            return self._core.ObjectCode.from_cubin(cubin).get_kernel(symbol)

    def allow_dynamic_shared(self, kernel: Any, size: int) -> None:
        attribute = self._api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        device = self._call(self._api.cuDeviceGet, self._device.device_id)
        self._call(self._api.cuKernelSetAttribute, attribute, size, kernel.handle, device)

    def allocate(self, size: int) -> int:
        with _translated():
            buffer = self._device.allocate(max(size, 1), stream=self._stream)
        address = int(buffer.handle)
        self._buffers[address] = buffer
        return address

    def free(self, address: int) -> None:
        with _translated():
            self._buffers.pop(address).close(self._stream)

    def upload(self, address: int, array: npt.NDArray[Any]) -> None:
        if array.nbytes:
            self._call(
                self._api.cuMemcpyHtoDAsync, address, array.ctypes.data, array.nbytes, self._stream.handle
            )

    def download(self, array: npt.NDArray[Any], address: int) -> None:
        if array.nbytes:
            self._call(
                self._api.cuMemcpyDtoHAsync, array.ctypes.data, address, array.nbytes, self._stream.handle
            )

    def copy(self, target: int, source: int, size: int) -> None:
        if size:
            self._call(self._api.cuMemcpyDtoDAsync, target, source, size, self._stream.handle)

    def fill(self, address: int, byte: int, size: int) -> None:
        if size:
            self._call(self._api.cuMemsetD8Async, address, byte, size, self._stream.handle)

    def prepare(
        self, kernel: Any, grid: Dim3, block: Dim3, shared: int, args: Sequence[np.generic]
    ) -> Callable[[], None]:
        config = self._core.LaunchConfig(grid=grid, block=block, shmem_size=shared)

        def launch() -> None:
            with _translated():
                self._core.launch(self._stream, config, kernel, *args)

        return launch

    def event(self) -> _Event:
        return _Event(self._api, self._call(self._api.cuEventCreate, 0))

    def record(self, event: _Event) -> None:
        self._call(self._api.cuEventRecord, event.handle, self._stream.handle)

    def elapsed_ms(self, start: _Event, end: _Event) -> float:
        return float(self._call(self._api.cuEventElapsedTime, start.handle, end.handle))

    def wait(self, timeout_s: float) -> bool:
        """Wait until the stream is idle; False when it is not after `timeout_s`. Polls, since a hung kernel
        cannot be interrupted and a blocking wait would never come back."""
        event = self.event()
        self.record(event)
        deadline = time.monotonic() + timeout_s
        pause = 20e-6
        while not self._is_done(event):
            if time.monotonic() > deadline:
                return False
            time.sleep(pause)
            pause = min(pause * 1.5, 5e-3)
        return True

    def _is_done(self, event: _Event) -> bool:
        try:
            self._call(self._api.cuEventQuery, event.handle)
        except DriverError as answer:
            if answer.status != "CUDA_ERROR_NOT_READY":
                raise
            return False
        return True


class _Event:
    """A driver event with timing, destroyed with this object. Events of cuda.core name their options
    differently from version to version."""

    def __init__(self, api: Any, handle: Any) -> None:
        self._api, self.handle = api, handle

    def __del__(self) -> None:
        self._api.cuEventDestroy(self.handle)
