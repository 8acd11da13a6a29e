"""The GPU of this machine, or the reason why a test that needs one is skipped."""

from __future__ import annotations

from typing import Any

import pytest

from tilepipe.diagnostics import Refusal, error
from tilepipe.launch.gpu import CudaDevice, find_gpu
from tilepipe.toolchain.types import Answer, Compiled, Question, Unit


class CoreToolchain:
    """Plain CUDA C++ to a cubin by cuda.core, independent of the project's own toolchain."""

    name = "cuda.core"

    def compile(self, unit: Unit, arch: str, kind: Any) -> Compiled | Refusal:
        from cuda import core  # noqa: PLC0415

        try:
            program = core.Program(unit.text, "c++", core.ProgramOptions(arch=arch))
            image = bytes(program.compile("cubin").code)
        except Exception as failure:
            return error("TP200", str(failure))
        return Compiled("cubin", image, unit.kernel, arch)

    def answer(self, unit: Unit, questions: tuple[Question, ...]) -> dict[str, Answer] | Refusal:
        raise NotImplementedError


@pytest.fixture(scope="session")
def gpu() -> CudaDevice:
    device = find_gpu(CoreToolchain())
    if device is None:
        pytest.skip("no CUDA GPU on this machine")
    return device
