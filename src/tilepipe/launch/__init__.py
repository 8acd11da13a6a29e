"""Where kernels run: a CUDA GPU through cuda-core, or this machine's processor through the emulator."""

from tilepipe.launch.cpu import CpuDevice
from tilepipe.launch.gpu import Contender, CudaDevice, find_gpu
from tilepipe.launch.seen import see_gpu
from tilepipe.launch.types import OUT_OF_SHARED, Device, Finding, LaunchOptions, Loaded, RunResult

__all__ = [
    "OUT_OF_SHARED",
    "Contender",
    "CpuDevice",
    "CudaDevice",
    "Device",
    "Finding",
    "LaunchOptions",
    "Loaded",
    "RunResult",
    "find_gpu",
    "see_gpu",
]
