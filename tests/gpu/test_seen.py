"""A GPU that is only planned for is looked at from another process."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest
from fakes import FakeDriver

from tilepipe.launch import seen
from tilepipe.launch.seen import SeenGpu, see_gpu
from tilepipe.toolchain import Unit


def _where_it_was_opened() -> FakeDriver:
    driver = FakeDriver()
    driver.name = str(os.getpid())
    return driver


def _raises() -> FakeDriver:
    raise RuntimeError("no device")


def _dies() -> FakeDriver:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def test_it_is_opened_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen, "has_driver", lambda: True)
    monkeypatch.setattr(seen, "CoreDriver", _where_it_was_opened)
    gpu = see_gpu()
    assert gpu is not None and gpu.name != str(os.getpid())
    assert (gpu.arch, gpu.kind) == (FakeDriver.arch, "cuda")


@pytest.mark.parametrize("driver", [_raises, _dies])
def test_what_cannot_be_opened_is_none(
    driver: Callable[[], FakeDriver], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seen, "has_driver", lambda: True)
    monkeypatch.setattr(seen, "CoreDriver", driver)
    assert see_gpu() is None


def test_without_a_driver_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen, "has_driver", lambda: False)
    monkeypatch.setattr(seen, "CoreDriver", _where_it_was_opened)
    assert see_gpu() is None


def test_nothing_is_loaded_on_it() -> None:
    with pytest.raises(ValueError, match="seen, not opened"):
        SeenGpu("GPU", "sm_90").load(Unit("", "a.cu", "k"), "sm_90")
