"""The driver layer against recorded stand-ins for the driver API, whose names are checked for real."""

from __future__ import annotations

import inspect
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tilepipe.launch import driver as layer
from tilepipe.launch.driver import CoreDriver, DriverError


class FakeApi:
    """Driver calls by name: logs them and answers (status, result)."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.answers: dict[str, list[tuple[Any, ...]]] = {}

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)

        def call(*args: Any) -> tuple[Any, ...]:
            self.calls.append((name, *args))
            queue = self.answers.get(name)
            return queue.pop(0) if queue else (0, 7)

        call.__name__ = name
        return call


class Status(int):
    def __new__(cls, value: int, name: str) -> Status:
        made = super().__new__(cls, value)
        made.name = name
        return made


@pytest.fixture
def fake() -> CoreDriver:
    made = CoreDriver.__new__(CoreDriver)
    made._api = FakeApi()
    made._stream = SimpleNamespace(handle="stream")
    made._buffers = {}
    return made


def test_every_name_that_the_layer_uses_exists() -> None:
    bindings = pytest.importorskip("cuda.bindings.driver", reason="cuda.bindings is not installed")
    core = pytest.importorskip("cuda.core", reason="cuda.core is not installed")
    source = inspect.getsource(layer)
    names = set(re.findall(r"_api\.(\w+)", source)) | set(re.findall(r"\bapi\.(\w+)", source))
    assert len(names) >= 10
    assert [n for n in names if not hasattr(bindings, n)] == []
    assert [n for n in re.findall(r"_core\.(\w+)", source) if not hasattr(core, n)] == []


def test_waiting_polls_until_the_event_is_done(fake: CoreDriver) -> None:
    not_ready = (Status(600, "CUDA_ERROR_NOT_READY"),)
    fake._api.answers["cuEventQuery"] = [not_ready, not_ready, (0,)]
    assert fake.wait(10) is True
    assert [c[0] for c in fake._api.calls][:2] == ["cuEventCreate", "cuEventRecord"]
    assert sum(c[0] == "cuEventQuery" for c in fake._api.calls) == 3
    assert fake._api.calls[-1][0] == "cuEventDestroy"


def test_waiting_gives_up(fake: CoreDriver) -> None:
    fake._api.answers["cuEventQuery"] = [(Status(600, "CUDA_ERROR_NOT_READY"),)] * 10_000
    assert fake.wait(0.01) is False


def test_faults_surface_while_waiting(fake: CoreDriver) -> None:
    fake._api.answers["cuEventQuery"] = [(Status(700, "CUDA_ERROR_ILLEGAL_ADDRESS"),)]
    with pytest.raises(DriverError, match="cuEventQuery") as caught:
        fake.wait(1)
    assert caught.value.status == "CUDA_ERROR_ILLEGAL_ADDRESS"


def test_copies_are_ordered_on_the_stream_and_empty_ones_skipped(fake: CoreDriver) -> None:
    data = np.arange(6, dtype=np.float32)
    fake.upload(0x1000, data)
    fake.download(data, 0x1000)
    fake.upload(0x1000, data[:0])
    fake.fill(0x1000, 0, 0)
    fake.copy(0x2000, 0x1000, 24)
    assert fake._api.calls == [
        ("cuMemcpyHtoDAsync", 0x1000, data.ctypes.data, 24, "stream"),
        ("cuMemcpyDtoHAsync", data.ctypes.data, 0x1000, 24, "stream"),
        ("cuMemcpyDtoDAsync", 0x2000, 0x1000, 24, "stream"),
    ]


def test_failures_of_cuda_core_are_translated_and_bugs_are_not() -> None:
    with pytest.raises(DriverError) as caught, layer._translated():
        raise RuntimeError("CUDA_ERROR_OUT_OF_MEMORY: the API call failed")
    assert caught.value.status == "CUDA_ERROR_OUT_OF_MEMORY"
    with pytest.raises(TypeError), layer._translated():
        raise TypeError("the argument is of unsupported type")
