"""Compilers: source to PTX, cubin and SASS text, resource usage, and answers about constants and types."""

from typing import Literal

from tilepipe.diagnostics import Refusal
from tilepipe.toolchain.cache import Cache
from tilepipe.toolchain.cubin import Cubin, is_binary, read_cubin
from tilepipe.toolchain.disasm import disassemble
from tilepipe.toolchain.nvcc import NvccToolchain, builds_whole_file
from tilepipe.toolchain.nvrtc import NvrtcToolchain
from tilepipe.toolchain.types import Answer, Asked, Compiled, CompileOptions, Question, Toolchain, Unit

__all__ = [
    "Answer",
    "Asked",
    "Cache",
    "CompileOptions",
    "Compiled",
    "Cubin",
    "NvccToolchain",
    "NvrtcToolchain",
    "Question",
    "Toolchain",
    "Unit",
    "builds_whole_file",
    "disassemble",
    "is_binary",
    "read_cubin",
    "select_toolchain",
]


def select_toolchain(name: Literal["nvrtc", "nvcc"], cache: Cache | None = None) -> Toolchain | Refusal:
    """The toolchain of that name; TP202 or TP203 where this machine has not got what it needs."""
    toolchain = NvrtcToolchain(cache) if name == "nvrtc" else NvccToolchain(cache)
    return toolchain.unavailable() or toolchain
