"""The compiler that the emulator's kernels come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilepipe.emulator import build_runtime
from tilepipe.toolchain import Cache, NvrtcToolchain


@pytest.fixture(scope="session", autouse=True)
def _fresh_runtime() -> None:
    """Tests run the runtime's sources as they are, not as they were at the last install."""
    sources = [*build_runtime.RUNTIME.glob("*.[ch]"), Path(build_runtime.__file__)]
    built = build_runtime.OUTPUT
    if not built.exists() or built.stat().st_mtime < max(s.stat().st_mtime for s in sources):
        build_runtime.build()


@pytest.fixture(scope="session")
def nvrtc(tmp_path_factory: pytest.TempPathFactory) -> NvrtcToolchain:
    return NvrtcToolchain(Cache(tmp_path_factory.mktemp("cache")))
