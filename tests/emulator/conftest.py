"""The compiler that the emulator's kernels come from."""

from __future__ import annotations

import pytest

from tilepipe.toolchain import Cache, NvrtcToolchain


@pytest.fixture(scope="session")
def nvrtc(tmp_path_factory: pytest.TempPathFactory) -> NvrtcToolchain:
    return NvrtcToolchain(Cache(tmp_path_factory.mktemp("cache")))
