"""Cubins as SASS text, through nvdisasm from its pip package, a toolkit or PATH."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

from tilepipe.diagnostics import Refusal, error
from tilepipe.toolchain.cache import Cache, digest

_TIMEOUT_S = 120


def disassemble(
    cubin: bytes, symbol: str | None = None, line_info: bool = False, cache: Cache | None = None
) -> str | Refusal:
    """The text of `nvdisasm -c -hex`: labels at branch targets, and the 128-bit encoding of each instruction.

    `symbol` is the kernel wanted, None for all functions of the cubin. With `line_info`, a comment such as
    `//## File "a.cu", line 41` stands before the instructions of each source line, inlined callers included.
    Refusals: TP207 no nvdisasm, TP208 it failed, as that of an older toolkit does on newer architectures.
    """
    tool = find_nvdisasm()
    if tool is None:
        return error(
            "TP207",
            "there is no nvdisasm: neither as a pip package nor on PATH",
            help='`pip install "nvidia-cuda-nvdisasm>=13.2,<14"`',
        )
    cache = cache if cache is not None else Cache()
    key = digest("nvdisasm", _version(tool), cubin.hex(), symbol, line_info)
    cached = cache.get(key)
    if cached is not None:
        return cached.decode()
    text = _run(tool, cubin, ["-c", "-hex", *(["-gi"] if line_info else [])])
    if isinstance(text, Refusal):
        return text
    if symbol is not None:
        text = _only(text, symbol)
    cache.put(key, text.encode())
    return text


@lru_cache(maxsize=1)
def find_nvdisasm() -> str | None:
    """The path of nvdisasm: the pip package's, a toolkit's, or that on PATH."""
    try:
        pathfinder = importlib.import_module("cuda.pathfinder")
        found: str | None = pathfinder.find_nvidia_binary_utility("nvdisasm")
    except (ImportError, AttributeError, RuntimeError, ValueError):  # a release that cannot look for it
        found = None
    return found or _in_wheel() or shutil.which("nvdisasm")


def _in_wheel() -> str | None:
    try:
        package = importlib.import_module("nvidia")
    except ImportError:
        return None
    for root in package.__path__:
        for candidate in sorted(Path(root).glob("*/bin/nvdisasm*")):
            if os.access(candidate, os.X_OK):
                return str(candidate)
    return None


@lru_cache(maxsize=4)
def _version(tool: str) -> str:
    done = subprocess.run([tool, "--version"], capture_output=True, text=True, check=False, timeout=60)
    return done.stdout.strip() or f"{os.stat(tool).st_size}"


def _run(tool: str, cubin: bytes, flags: list[str]) -> str | Refusal:
    with tempfile.TemporaryDirectory(prefix="tilepipe-") as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        try:
            done = subprocess.run(
                [tool, *flags, str(path)], capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
            )
        except (OSError, subprocess.TimeoutExpired) as problem:
            return error("TP208", f"nvdisasm failed: {problem}")
    if done.returncode != 0 or not done.stdout:
        reason = done.stderr.strip().splitlines()
        return error("TP208", f"nvdisasm failed: {reason[0] if reason else f'status {done.returncode}'}")
    return done.stdout


def _only(text: str, symbol: str) -> str:
    """The section of one function: from its `.section .text.SYMBOL` line to the next section."""
    kept: list[str] = []
    inside = False
    for line in text.splitlines(keepends=True):
        section = re.match(r"\s*\.section\s+([^,\s]+)", line)
        if section:
            inside = section[1] == f".text.{symbol}"
        if inside:
            kept.append(line)
    return "".join(kept)
