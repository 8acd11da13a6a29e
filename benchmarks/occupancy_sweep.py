"""Our occupancy against the driver's, over block sizes, registers and shared memory, on the GPU at hand.

    python benchmarks/occupancy_sweep.py

Kernels of growing register counts are compiled; for each, block size and shared memory are swept, with every
cliff of shared memory from both sides, and `cuOccupancyMaxActiveBlocksPerMultiprocessor` must agree with
`tilepipe.gpu.occupancy` each time. Exit status 1 if it does not anywhere.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from tilepipe.diagnostics import Refusal
from tilepipe.gpu import Arch, normalise_arch, occupancy, shared_cliffs

LIVE_VALUES = (1, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224)
STATIC_BYTES = (0, 5000, 49152)
THREADS = (1, 32, 33, 64, 96, 128, 160, 192, 256, 288, 384, 512, 544, 640, 768, 992, 1024)

# LIVE values are loaded, mixed so that all are live at once, and stored: about LIVE + 10 registers.
SOURCE = """
extern "C" __global__ void live(float* p)
{
#if STATIC
    __shared__ volatile char tile[STATIC];
    tile[threadIdx.x % STATIC] = 1;
#endif
    float v[LIVE];
    #pragma unroll
    for (int i = 0; i < LIVE; ++i) v[i] = p[i * 1024 + threadIdx.x];
    #pragma unroll
    for (int round = 0; round < 3; ++round)
        #pragma unroll
        for (int i = 0; i < LIVE; ++i) v[i] = v[i] * v[(i + 7) % LIVE] + v[(i + 3) % LIVE];
    #pragma unroll
    for (int i = 0; i < LIVE; ++i) p[i * 1024 + threadIdx.x] = v[i];
}
"""


@dataclass(frozen=True)
class Sweep:
    """`kernels` lists (registers, static bytes) as compiled; `mismatches` what the driver says otherwise:
    (threads, registers, shared bytes, the driver's blocks, ours)."""

    arch: Arch
    checked: int
    kernels: tuple[tuple[int, int], ...]
    mismatches: tuple[tuple[int, int, int, int, int], ...]


def _dynamic_sizes(arch: Arch, static: int) -> list[int]:
    """Dynamic bytes to try beside `static`: a grid, and every cliff from both sides."""
    edges = {edge - static + d for edge in shared_cliffs(arch).values() for d in (-1, 0, 1)}
    most = arch.shared_per_block_optin - static
    return sorted(size for size in edges | set(range(0, most + 1, 9973)) if 0 <= size <= most)


def sweep() -> Sweep:
    """Run the whole sweep on device 0. Raises where there is no GPU."""
    import cuda.core as core  # noqa: PLC0415, PLR0402  imported late: without a driver the import may fail
    from cuda.bindings import driver  # noqa: PLC0415

    device = core.Device(0)
    device.set_current()
    arch = normalise_arch(f"sm_{device.arch}")
    if isinstance(arch, Refusal):
        raise RuntimeError(arch.diagnostics[0].message)
    kernels: list[tuple[int, int]] = []
    mismatches: list[tuple[int, int, int, int, int]] = []
    checked = 0
    for live in LIVE_VALUES:
        for static in STATIC_BYTES:
            options = core.ProgramOptions(
                arch=arch.name, define_macro=[("LIVE", str(live)), ("STATIC", str(static))]
            )
            kernel = core.Program(SOURCE, "c++", options).compile("cubin").get_kernel("live")
            registers, static_bytes = kernel.attributes.num_regs, kernel.attributes.shared_size_bytes
            kernels.append((registers, static_bytes))
            for dynamic in _dynamic_sizes(arch, static_bytes):
                _allow(driver, kernel, device, dynamic)
                for threads in THREADS:
                    expected = kernel.occupancy.max_active_blocks_per_multiprocessor(threads, dynamic)
                    got = occupancy(arch, threads, registers, static_bytes + dynamic).blocks
                    checked += 1
                    if got != expected:
                        mismatches.append((threads, registers, static_bytes + dynamic, expected, got))
    return Sweep(arch, checked, tuple(kernels), tuple(mismatches))


def _allow(driver: Any, kernel: Any, device: Any, dynamic: int) -> None:
    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    status, handle = driver.cuDeviceGet(device.device_id)
    if int(status) == 0:
        (status,) = driver.cuKernelSetAttribute(attribute, dynamic, kernel.handle, handle)
    if int(status) != 0:
        raise RuntimeError(f"cannot allow {dynamic} bytes of dynamic shared memory: {status}")


def main() -> int:
    result = sweep()
    print(f"{result.arch.name}: {result.checked} configurations, {len(result.mismatches)} mismatches")
    print("registers x static bytes of the kernels:", *sorted(set(result.kernels)))
    print(f"{'blocks':>8} {'largest shared bytes per block':>32}")
    for blocks, size in shared_cliffs(result.arch).items():
        print(f"{blocks:>8} {size:>32}")
    for threads, registers, shared, expected, got in result.mismatches[:50]:
        print(f"MISMATCH {threads} threads, {registers} registers, {shared} bytes: {expected}, ours {got}")
    return 1 if result.mismatches else 0


if __name__ == "__main__":
    sys.exit(main())
