"""A GPU as another process saw it, for what plans and runs nothing.

The kernels of a large file are dealt over forked processes, which a driver that was opened here would not survive.
"""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Literal

from tilepipe.diagnostics import Refusal
from tilepipe.launch.driver import CoreDriver, has_driver
from tilepipe.toolchain.types import Unit


@dataclass(frozen=True)
class SeenGpu:
    """The name and architecture of a GPU."""

    name: str
    arch: str
    kind: Literal["cuda"] = "cuda"

    def load(self, unit: Unit, arch: str) -> Refusal:
        """Raises ValueError: this is for plans."""
        raise ValueError(f"{unit.kernel} cannot be loaded for {arch}: {self.name} was seen, not opened")


def see_gpu() -> SeenGpu | None:
    """The first CUDA GPU; None where there is no GPU, driver or cuda.core."""
    if not has_driver():
        return None
    try:
        with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as process:
            return process.submit(_seen).result()
    except Exception:  # as various as where the driver is opened here, or that process died
        return None


def _seen() -> SeenGpu:
    driver = CoreDriver()
    return SeenGpu(driver.name, driver.arch)
