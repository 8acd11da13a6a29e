"""Where the CUDA headers are: beside the NVRTC in use, in the pip wheels, or in a toolkit."""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

SHIMS = Path(__file__).parent / "shims"


# Wheels and distributions split the headers; mma.h, for one, needs those of the separate `crt` package.
_NEEDED = ("cuda_runtime.h", "cuda_fp16.h", "mma.h", "crt/mma.h")


@dataclass(frozen=True)
class CudaHeaders:
    """Include directories, in order, and a string that changes whenever their content does."""

    directories: tuple[str, ...]
    version: str


@lru_cache(maxsize=8)
def find_headers(library: str | None) -> CudaHeaders | None:
    """The headers to use with the NVRTC at path `library` (None where unknown); None where there are none."""
    for include in _candidates(library):
        if all((include / header).is_file() for header in _NEEDED):
            cccl = include / "cccl"
            if not cccl.is_dir():
                cccl = _cccl_wheel() or cccl
            directories = [str(directory) for directory in (include, cccl) if directory.is_dir()]
            return CudaHeaders(tuple(directories), _version(include, cccl))
    return None


def _candidates(library: str | None) -> Iterator[Path]:
    """Include directories to try, the likeliest to match the library first."""
    if library is not None:
        for parent in list(Path(library).resolve().parents)[:4]:
            yield parent / "include"
    yield from _from_pathfinder("cudart")
    for variable in ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"):
        if os.environ.get(variable):
            yield Path(os.environ[variable]) / "include"
    compiler = shutil.which("nvcc")
    if compiler:
        yield Path(compiler).resolve().parent.parent / "include"
    yield Path("/usr/local/cuda/include")


def _cccl_wheel() -> Path | None:
    return next(_from_pathfinder("cccl"), None)


def _from_pathfinder(component: str) -> Iterator[Path]:
    """What cuda-pathfinder, which comes with cuda-bindings, knows of a component's headers."""
    pathfinder = importlib.import_module("cuda.pathfinder")
    find = getattr(pathfinder, "find_nvidia_header_directory", None)
    if find is None:  # releases before 1.2
        return
    try:
        found = find(component)
    except (RuntimeError, ValueError):  # unknown to this release of pathfinder
        return
    if found:
        yield Path(found)


def _version(include: Path, cccl: Path) -> str:
    """Toolkit version and a digest of the files that change with every release."""
    sha = hashlib.sha256()
    for path in (
        include / "cuda_runtime_api.h",
        include / "cuda_fp16.hpp",
        cccl / "cuda" / "std" / "__cccl" / "version.h",
    ):
        if path.is_file():
            sha.update(path.read_bytes())
    for shim in sorted(SHIMS.rglob("*")):
        if shim.is_file():
            sha.update(shim.name.encode() + shim.read_bytes())
    match = re.search(
        r"#define\s+CUDART_VERSION\s+(\d+)", (include / "cuda_runtime_api.h").read_text(errors="replace")
    )
    return f"{match.group(1) if match else 'unknown'}-{sha.hexdigest()[:16]}"
