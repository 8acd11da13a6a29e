"""Toolchains with a cache of their own, so that no test sees what another run left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilepipe.toolchain import Cache, NvccToolchain, NvrtcToolchain

ZOO = Path(__file__).parent.parent / "zoo"


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    return Cache(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def nvrtc(cache: Cache) -> NvrtcToolchain:
    toolchain = NvrtcToolchain(cache)
    missing = toolchain.unavailable()
    assert missing is None, "tilepipe's own dependencies bring NVRTC and its headers"
    return toolchain


@pytest.fixture(scope="session")
def nvcc(cache: Cache) -> NvccToolchain:
    toolchain = NvccToolchain(cache)
    if toolchain.unavailable() is not None:
        pytest.skip("no nvcc on this machine")
    return toolchain
