"""Facts per GPU architecture: what an SM holds, and how fast one representative card is.

Sources. Per-SM limits: "Technical specifications per compute capability" (CUDA programming guide, appendix
*Compute Capabilities*), which agrees with `cuda/__device/arch_traits.h` of CCCL 13.3. Allocation
granularities: `cuda_occupancy.h` of CUDA 13.5. Card numbers: the vendor's data sheets. Rates: "Throughput
of native arithmetic instructions" in the same guide, and data-sheet peaks ÷ (SMs x clock) for matrix units;
exceptions carry a note.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from tilepipe.diagnostics import Refusal, error

KIB = 1024
WARP = 32
MAX_THREADS_PER_BLOCK = 1024
SCHEDULERS = 4  # sub-partitions of an SM, each issues one instruction of one warp per cycle

# Latency of a load that misses L2: pointer chasing on A100, H100 and RTX 4090 gives 466 to 542 (Luo et al.,
# "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture via Microbenchmarking", 2024).
LOAD_LATENCY_CYCLES = 480

MathUnit = Literal["fp32", "fp64", "fp16", "int32", "dp4a", "mma_fp16", "mma_tf32", "mma_int8", "mma_fp64"]


@dataclass(frozen=True)
class Card:
    """One representative product. `fma_per_clock` counts multiply-adds per SM and clock (two FLOPs each); a
    unit that is absent does not exist there. `bandwidth` in bytes per second, `clock` in hertz, `l2_bytes`
    in bytes."""

    name: str
    sms: int
    clock: float
    bandwidth: float
    l2_bytes: int
    fma_per_clock: Mapping[MathUnit, int]


@dataclass(frozen=True)
class Arch:
    """What one SM of an architecture holds. Bytes, 32-bit registers, threads, blocks.

    `shared_per_block_optin` is what a kernel may use after raising its dynamic-shared-memory attribute;
    `shared_reserved` is what the driver takes from the SM for every resident block.
    """

    name: str
    shared_per_sm: int
    threads_per_sm: int
    blocks_per_sm: int
    card: Card
    shared_reserved: int = KIB
    shared_granularity: int = 128
    shared_per_block: int = 48 * KIB
    registers_per_sm: int = 64 * KIB
    registers_per_block: int = 64 * KIB
    registers_per_thread: int = 255
    register_granularity: int = 256  # registers are allocated to a warp in units of this many
    warp_granularity: int = SCHEDULERS  # each has its own quarter of the registers

    @property
    def shared_per_block_optin(self) -> int:
        return self.shared_per_sm - self.shared_reserved

    @property
    def warps_per_sm(self) -> int:
        return self.threads_per_sm // WARP

    @property
    def has_async_copy(self) -> bool:
        """Whether `cp.async` exists in hardware (sm_80 and later)."""
        return int(self.name.removeprefix("sm_")) >= 80


def _rates(
    fp32: int, fp64: int, fp16: int, mma_fp16: int, mma_int8: int, *, mma_fp64: int = 0
) -> Mapping[MathUnit, int]:
    rates: dict[MathUnit, int] = {
        "fp32": fp32,
        "fp64": fp64,
        "fp16": fp16,
        "int32": 64,
        "dp4a": 256,  # 64 instructions of four multiply-adds each
        "mma_fp16": mma_fp16,
        "mma_int8": mma_int8,
    }
    if mma_fp64:
        rates["mma_fp64"] = mma_fp64
    return MappingProxyType(rates)


def _with_tf32(rates: Mapping[MathUnit, int]) -> Mapping[MathUnit, int]:
    """TF32 runs at half the fp16 rate wherever it exists (sm_80 and later)."""
    return MappingProxyType({**rates, "mma_tf32": rates["mma_fp16"] // 2})


MIB = KIB * KIB

_T4 = Card("T4", 40, 1.59e9, 320e9, 4 * MIB, _rates(64, 2, 128, 512, 1024))
_A100 = Card(
    "A100 SXM 80 GB", 108, 1.41e9, 2039e9, 40 * MIB, _with_tf32(_rates(64, 32, 256, 1024, 2048, mma_fp64=64))
)
_A10 = Card("A10", 72, 1.695e9, 600e9, 6 * MIB, _with_tf32(_rates(128, 2, 128, 512, 1024)))
_ORIN = Card(
    "Jetson AGX Orin 64 GB", 16, 1.3e9, 204.8e9, 4 * MIB, _with_tf32(_rates(128, 2, 256, 1024, 2048))
)
_L40S = Card("L40S", 142, 2.52e9, 864e9, 96 * MIB, _with_tf32(_rates(128, 2, 128, 512, 1024)))
# Data-sheet matrix peaks of sm_90 and sm_10x need wgmma and tcgen05. Kernels with a tile loop of their own
# use mma.sync, which reaches 62.9 % of that on sm_90 (Luo et al., "Benchmarking and Dissecting the Nvidia
# Hopper GPU Architecture", 2024): 0.629 x 2048 and 0.629 x 4096. For sm_10x and sm_110 no figure is
# published; Hopper's is taken over.
_HOPPER_MMA_SYNC = _with_tf32(_rates(128, 64, 256, 1288, 2576, mma_fp64=64))
_H200 = Card("H200 SXM", 132, 1.98e9, 4800e9, 50 * MIB, _HOPPER_MMA_SYNC)
_B200 = Card("B200", 148, 1.965e9, 8000e9, 126 * MIB, _HOPPER_MMA_SYNC)
_B300 = Card("B300", 148, 1.965e9, 8000e9, 126 * MIB, _with_tf32(_rates(128, 2, 256, 1288, 2576)))
_THOR = Card("Jetson T5000", 20, 1.575e9, 273e9, 32 * MIB, _with_tf32(_rates(128, 2, 256, 1288, 2576)))
# GeForce parts accumulate fp16 products into fp32 at half rate.
_RTX5090 = Card(
    "GeForce RTX 5090", 170, 2.407e9, 1792e9, 96 * MIB, _with_tf32(_rates(128, 2, 128, 256, 1024))
)
_GB10 = Card("GB10 (DGX Spark)", 48, 2.418e9, 273e9, 24 * MIB, _with_tf32(_rates(128, 2, 128, 512, 1024)))

ARCHS: Mapping[str, Arch] = MappingProxyType(
    {
        arch.name: arch
        for arch in (
            Arch("sm_75", 64 * KIB, 1024, 16, _T4, shared_reserved=0, shared_granularity=256),
            Arch("sm_80", 164 * KIB, 2048, 32, _A100),
            Arch("sm_86", 100 * KIB, 1536, 16, _A10),
            Arch("sm_87", 164 * KIB, 1536, 16, _ORIN),
            Arch("sm_88", 100 * KIB, 1536, 16, _A10),  # no card of its own is published; an SM is as on sm_86
            Arch("sm_89", 100 * KIB, 1536, 24, _L40S),
            Arch("sm_90", 228 * KIB, 2048, 32, _H200),
            Arch("sm_100", 228 * KIB, 2048, 32, _B200),
            Arch("sm_103", 228 * KIB, 2048, 32, _B300),
            Arch("sm_110", 228 * KIB, 1536, 24, _THOR),
            Arch("sm_120", 100 * KIB, 1536, 24, _RTX5090),
            Arch("sm_121", 100 * KIB, 1536, 24, _GB10),
        )
    }
)

_ARCH_NAME = re.compile(r"(?:sm_|compute_)?(\d{2,3})[af]?|(\d{1,2})\.(\d)[af]?")


def normalise_arch(name: str) -> Arch | Refusal:
    """The architecture that `name` means: "sm_90", "90", "9.0", "compute_90", "sm_90a" and "sm_100f" are
    read.

    Suffixes select instruction sets, not another SM, so they are dropped. Unknown names are refused (TP110).
    """
    match = _ARCH_NAME.fullmatch(name.strip().lower())
    digits = "" if match is None else match[1] or match[2] + match[3]
    arch = ARCHS.get(f"sm_{digits}")
    if arch is not None:
        return arch
    advice = f"use one of {', '.join(ARCHS)}"
    oldest = next(iter(ARCHS))
    if digits and int(digits) < int(oldest.removeprefix("sm_")):
        return error(
            "TP110", f"`{name}` is older than {oldest}, the oldest architecture supported", help=advice
        )
    return error("TP110", f"unknown architecture `{name}`", help=advice)
