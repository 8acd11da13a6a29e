"""Where kernels run: a CUDA GPU through cuda-core, or this machine's processor through the emulator."""

from tilepipe.launch.cpu import CpuDevice
from tilepipe.launch.gpu import Contender, CudaDevice, find_gpu
from tilepipe.launch.seen import see_gpu
from tilepipe.launch.types import Device, Finding, LaunchOptions, Loaded, RunResult

__all__ = [
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
