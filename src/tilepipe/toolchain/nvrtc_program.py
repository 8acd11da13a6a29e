"""The NVRTC library itself: loading it, and one compilation."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tilepipe.diagnostics import Refusal, error

_INVALID_OPTION = 5  # nvrtcResult.NVRTC_ERROR_INVALID_OPTION
_OWN_CACHE = (12, 9)  # from here on NVRTC keeps cubins where there is a driver, and knows --no-cache
_ERROR_LIMIT = (13, 4)  # from here on it knows --fmax-errors; without, it stops at the hundredth error


@dataclass(frozen=True)
class Library:
    """The loaded NVRTC: its binding module, version, file and the architectures it compiles for."""

    module: Any
    version: tuple[int, int]
    path: str | None
    architectures: tuple[int, ...]

    @property
    def name(self) -> str:
        """Major and minor release in words."""
        return "{}.{}".format(*self.version)

    @property
    def afresh(self) -> tuple[str, ...]:
        """The flags with which it compiles anew: a cubin that it kept would come without ptxas's report."""
        return ("--no-cache",) if self.version >= _OWN_CACHE else ()

    @property
    def all_errors(self) -> tuple[str, ...]:
        """The flags with which it tells of more than a hundred errors, where it can."""
        return ("--fmax-errors=10000",) if self.version >= _ERROR_LIMIT else ()


@dataclass(frozen=True)
class Program:
    """What came out of one compilation.

    `symbols` are the lowered names of the expressions asked for; `bad_option`: NVRTC did not know a flag.
    """

    ok: bool
    log: str
    symbols: tuple[str, ...] = ()
    ptx: bytes = b""
    cubin: bytes = b""
    bad_option: bool = False

    @property
    def symbol(self) -> str:
        return self.symbols[0]


@lru_cache(maxsize=1)
def library() -> Library | Refusal:
    """Load NVRTC through cuda-bindings; TP202 where either is missing."""
    try:
        nvrtc = importlib.import_module("cuda.bindings.nvrtc")
        major, minor = _checked(nvrtc.nvrtcVersion())
        architectures = tuple(int(one) for one in _checked(nvrtc.nvrtcGetSupportedArchs()))
    except (ImportError, RuntimeError, OSError) as problem:
        return error(
            "TP202",
            f"NVRTC cannot be loaded: {problem}",
            help='`pip install "cuda-bindings==13.*" "nvidia-cuda-nvrtc==13.*"`, or use --toolchain nvcc',
        )
    return Library(nvrtc, (int(major), int(minor)), _file_of_library(), architectures)


def run(
    nvrtc: Any,
    name: str,
    text: str,
    headers: dict[str, str],
    flags: list[str],
    *,
    expressions: tuple[str, ...],
) -> Program:
    """Compile `text`, called `name` in messages, with in-memory `headers` by include name.

    `expressions` name the kernels that are wanted, and instantiate those that are template-ids.
    """
    handle = _checked(
        nvrtc.nvrtcCreateProgram(
            text.encode(),
            name.encode(),
            len(headers),
            [body.encode() for body in headers.values()],
            [header.encode() for header in headers],
        )
    )
    try:
        for expression in expressions:
            _checked(nvrtc.nvrtcAddNameExpression(handle, expression.encode()))
        (result,) = nvrtc.nvrtcCompileProgram(handle, len(flags), [flag.encode() for flag in flags])
        log = _log(nvrtc, handle)
        if int(result) != 0:
            return Program(False, log or str(result), bad_option=int(result) == _INVALID_OPTION)
        symbols = (_checked(nvrtc.nvrtcGetLoweredName(handle, one.encode())).decode() for one in expressions)
        return Program(
            True,
            log,
            tuple(symbols),
            _fetch(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, handle).rstrip(b"\0"),
            _fetch(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, handle),
        )
    finally:
        nvrtc.nvrtcDestroyProgram(handle)


def _checked(result: tuple[Any, ...]) -> Any:
    """The values of a binding call; RuntimeError where its status is not success."""
    status, *values = result
    if int(status) != 0:
        raise RuntimeError(str(status))
    return values[0] if len(values) == 1 else tuple(values)


def _fetch(size: Any, get: Any, handle: Any) -> bytes:
    count = _checked(size(handle))
    buffer = bytes(count)
    if count:
        _checked(get(handle, buffer))
    return buffer


def _log(nvrtc: Any, handle: Any) -> str:
    """The messages of the front end and of ptxas, between which NVRTC leaves zero bytes."""
    log = _fetch(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, handle)
    return log.replace(b"\0", b"").strip().decode(errors="replace")


def _file_of_library() -> str | None:
    try:
        pathfinder = importlib.import_module("cuda.pathfinder")
        path: str | None = pathfinder.load_nvidia_dynamic_lib("nvrtc").abs_path
        return path
    except (ImportError, RuntimeError, OSError):  # loaded in another way: the headers are found elsewhere
        return None
