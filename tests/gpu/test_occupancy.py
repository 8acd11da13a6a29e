"""Occupancy against the vendor's own calculator, against a brute force, and as algebra."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilepipe.diagnostics import Refusal
from tilepipe.gpu import ARCHS, WARP, Arch, cliffs, normalise_arch, occupancy, shared_cliffs

archs = st.sampled_from(list(ARCHS.values()))
threads = st.integers(1, 1024)
registers = st.integers(0, 255)
shared = st.integers(0, 240 * 1024)

Vendor = Callable[[Arch, int, int, int], int]


@pytest.fixture(scope="session")
def vendor(tmp_path_factory: pytest.TempPathFactory) -> Vendor:
    """`cuda_occupancy.h` compiled with the C compiler of the ziglang wheel."""
    pytest.importorskip("ziglang", reason="no C compiler: the ziglang wheel is not installed")
    nvidia = pytest.importorskip("nvidia", reason="the CUDA runtime wheel is not installed")
    headers = [found for root in nvidia.__path__ for found in Path(root).glob("*/include/cuda_occupancy.h")]
    if not headers:
        pytest.skip("cuda_occupancy.h is not among the installed wheels")
    library = tmp_path_factory.mktemp("vendor") / "vendor_occupancy.so"
    source = Path(__file__).with_name("vendor_occupancy.c")
    command = [sys.executable, "-m", "ziglang", "cc", "-shared", "-fPIC", "-O1", "-fno-sanitize=all"]
    subprocess.run([*command, f"-I{headers[0].parent}", str(source), "-o", str(library)], check=True)
    function = ctypes.CDLL(str(library)).vendor_blocks

    def blocks(arch: Arch, n_threads: int, n_registers: int, n_bytes: int) -> int:
        number = arch.name.removeprefix("sm_")
        limits = (ctypes.c_int * 7)(
            arch.shared_per_sm,
            arch.shared_per_block,
            arch.shared_per_block_optin,
            arch.shared_reserved,
            arch.threads_per_sm,
            arch.registers_per_sm,
            arch.registers_per_block,
        )
        return int(function(int(number[:-1]), int(number[-1]), limits, n_threads, n_registers, n_bytes))

    return blocks


@pytest.mark.parametrize("arch", ARCHS.values(), ids=ARCHS)
def test_agrees_with_the_vendors_calculator(vendor: Vendor, arch: Arch) -> None:
    edges = {edge + d for edge in shared_cliffs(arch).values() for d in (-1, 0, 1) if edge + d >= 0}
    sizes = sorted(edges | set(range(0, 232 * 1024, 7919)))
    wrong = [
        (t, r, s, expected, got)
        for t in (1, 31, 32, 33, 64, 96, 128, 160, 192, 256, 288, 384, 512, 544, 768, 992, 1024)
        for r in (1, 8, 16, 24, 32, 33, 40, 56, 63, 64, 65, 72, 80, 96, 104, 128, 129, 168, 200, 255)
        for s in sizes
        if (expected := vendor(arch, t, r, s)) != (got := occupancy(arch, t, r, s).blocks)
    ]
    assert not wrong, wrong[:10]


@settings(max_examples=500, deadline=None)
@given(archs, threads, registers.filter(bool), shared)
def test_agrees_with_the_vendor_anywhere(vendor: Vendor, arch: Arch, t: int, r: int, s: int) -> None:
    assert occupancy(arch, t, r, s).blocks == vendor(arch, t, r, s)


def _fits(arch: Arch, blocks: int, t: int, r: int, s: int) -> bool:
    """Whether `blocks` blocks can be placed: warps are dealt to the sub-partitions one at a time."""
    warps = -(-t // WARP)
    if s > arch.shared_per_block_optin or t > 1024 or r > arch.registers_per_thread:
        return False
    unit = arch.shared_granularity
    shared_block = (s + arch.shared_reserved + unit - 1) // unit * unit
    unit = arch.register_granularity
    register_warp = (r * WARP + unit - 1) // unit * unit
    if register_warp * (-(-warps // 4) * 4) > arch.registers_per_block:
        return False
    free = [arch.registers_per_sm // 4] * 4
    for warp in range(blocks * warps):
        free[warp % 4] -= register_warp
    return (
        blocks <= arch.blocks_per_sm
        and blocks * warps <= arch.warps_per_sm
        and blocks * shared_block <= arch.shared_per_sm
        and min(free) >= 0
    )


@settings(max_examples=300, deadline=None)
@given(archs, threads, registers, shared)
def test_is_the_largest_number_of_blocks_that_fits(arch: Arch, t: int, r: int, s: int) -> None:
    brute = max((b for b in range(1, 34) if _fits(arch, b, t, r, s)), default=0)
    result = occupancy(arch, t, r, s)
    assert result.blocks == brute
    assert result.warps == brute * -(-t // WARP)


@settings(max_examples=200, deadline=None)
@given(archs, threads, registers, shared, st.integers(0, 4096))
def test_more_of_anything_never_gains_a_block(arch: Arch, t: int, r: int, s: int, more: int) -> None:
    base = occupancy(arch, t, r, s).blocks
    assert occupancy(arch, t, r, s + more).blocks <= base
    assert occupancy(arch, t, min(r + more % 9, 300), s).blocks <= base
    assert occupancy(arch, min(t + more % 64, 1024), r, s).blocks <= base


@settings(max_examples=200, deadline=None)
@given(archs, threads, registers.filter(bool), shared)
def test_the_named_limit_binds(arch: Arch, t: int, r: int, s: int) -> None:
    result = occupancy(arch, t, r, s)
    relaxed = {
        "shared": lambda: occupancy(arch, t, r, 0).blocks,
        "registers": lambda: occupancy(arch, t, 0, s).blocks,
        "threads": lambda: occupancy(arch, 1, r, s).blocks,
        "blocks": lambda: arch.blocks_per_sm,
    }
    assert relaxed[result.limit]() >= result.blocks
    if result.limit == "blocks":
        assert result.blocks == arch.blocks_per_sm


@settings(max_examples=100, deadline=None)
@given(archs, threads, registers)
def test_cliffs_are_exact(arch: Arch, t: int, r: int) -> None:
    for blocks, size in cliffs(arch, t, r).items():
        assert occupancy(arch, t, r, size).blocks >= blocks
        assert occupancy(arch, t, r, size + 1).blocks < blocks


def test_two_blocks_need_49_kilobytes_on_a_100_kilobyte_sm() -> None:
    for name in ("sm_86", "sm_89", "sm_120"):
        assert shared_cliffs(ARCHS[name])[2] == 49 * 1024
        assert occupancy(ARCHS[name], 128, 32, 49 * 1024).blocks == 2
        assert occupancy(ARCHS[name], 128, 32, 49 * 1024 + 1).blocks == 1


def test_measured_kernels_on_sm_90() -> None:
    """Registers, shared kilobytes and resident blocks as measured on an H200 with 128 or 256 threads."""
    sm_90 = ARCHS["sm_90"]
    assert occupancy(sm_90, 128, 48, 6 * 1024).blocks == 10
    assert occupancy(sm_90, 256, 79, 6 * 1024).blocks == 3
    assert occupancy(sm_90, 256, 127, 8 * 1024).blocks == 2
    assert occupancy(sm_90, 256, 129, 53 * 1024).blocks == 1
    assert occupancy(sm_90, 256, 129, 53 * 1024).limit == "registers"


def test_impossible_kernels_are_bugs() -> None:
    with pytest.raises(ValueError):
        occupancy(ARCHS["sm_90"], 0, 32, 0)
    assert occupancy(ARCHS["sm_90"], 1025, 32, 0).blocks == 0
    assert occupancy(ARCHS["sm_90"], 128, 256, 0) == occupancy(ARCHS["sm_90"], 128, 300, 0)


@pytest.mark.parametrize("text", ["sm_90", "90", "9.0", "SM_90", "sm_90a", "compute_90", " sm_90 "])
def test_spellings_of_an_architecture(text: str) -> None:
    assert normalise_arch(text) == ARCHS["sm_90"]


@pytest.mark.parametrize("text", ["10.3", "sm_103f", "103"])
def test_three_digit_architectures(text: str) -> None:
    assert normalise_arch(text) == ARCHS["sm_103"]


@pytest.mark.parametrize("text", ["", "sm_", "sm_95", "hopper", "sm_9000", "sm_90b", "-90"])
def test_unknown_architectures_are_refused(text: str) -> None:
    answer = normalise_arch(text)
    assert isinstance(answer, Refusal)
    assert answer.diagnostics[0].code == "TP110" and "sm_86" in answer.diagnostics[0].help
    assert answer.exit_code == 2
    assert "unknown" in answer.diagnostics[0].message


@pytest.mark.parametrize("text", ["sm_70", "70", "7.2", "compute_61"])
def test_old_architectures_are_unsupported(text: str) -> None:
    answer = normalise_arch(text)
    assert isinstance(answer, Refusal)
    message = answer.diagnostics[0].message
    assert "older than sm_75" in message and "unknown" not in message
