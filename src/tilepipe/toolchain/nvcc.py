"""The toolchain of those who have a toolkit and a host compiler: nvcc, on whole files."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from tilepipe.diagnostics import Refusal, error
from tilepipe.source import SourceFile
from tilepipe.toolchain.base import PROBE_ARCH, CachingToolchain
from tilepipe.toolchain.cache import Cache, digest
from tilepipe.toolchain.device_source import kernel_name
from tilepipe.toolchain.headers import SHIMS
from tilepipe.toolchain.includes import Files, gather
from tilepipe.toolchain.messages import compile_refusal, parse_errors
from tilepipe.toolchain.options import architecture
from tilepipe.toolchain.probes import Failed, TextEdit
from tilepipe.toolchain.resources import Resources, parse_resources
from tilepipe.toolchain.types import Compiled, CompileOptions, Unit

_ENTRY = re.compile(r"\.entry\s+([\w$]+)")
_SYMBOL = re.compile(r"\btilepipe_symbol\s*=\s*(?:generic\()?([\w$]+)")
_NO_HOST_COMPILER = "Failed to preprocess host compiler properties"
_TIMEOUT_S = 600


@dataclass(frozen=True)
class _Compiler:
    path: str
    version: str
    architectures: tuple[int, ...]


class NvccToolchain(CachingToolchain):
    """Compiles files as they are, all kernels and host code included, through the machine's nvcc."""

    @property
    def name(self) -> str:
        found = _find()
        return f"nvcc {found.version}" if found is not None else "nvcc"

    def unavailable(self) -> Refusal | None:
        if _find() is None:
            return error("TP203", "there is no nvcc on PATH, nor in CUDA_HOME", help="use --toolchain nvrtc")
        return None

    def _identity(self) -> list[str]:
        found = _find()
        assert found is not None
        return ["nvcc", found.path, found.version]

    def _architectures(self) -> tuple[int, ...]:
        found = _find()
        return found.architectures if found is not None else ()

    def _kernel_name(self, unit: Unit, files: Files) -> str:
        return kernel_name(unit, [files.main, *files.headers])

    def _compile(
        self, unit: Unit, files: Files, number: str, kind: Literal["ptx", "cubin"]
    ) -> Compiled | Refusal:
        # The host's reference makes nvcc emit a template's instance, or a `static` kernel never launched.
        reference = f"\nstatic auto tilepipe_reference = &{self._kernel_name(unit, files)};\n"
        symbol = self._symbol(unit, files)
        if isinstance(symbol, Refusal):
            return symbol
        target = ["-ptx", f"-arch=compute_{number}"]
        if kind == "cubin":
            target = ["-cubin", f"-arch=sm_{number}", "-Xptxas", "-v"]
        made = _run(unit, unit.text + reference, [*target, "-lineinfo"])
        if isinstance(made, Failed):
            return made.refusal
        image, log = made
        resources = (parse_resources(log, symbol) if kind == "cubin" else None) or Resources()
        return Compiled(kind, image, symbol, f"sm_{number}", log, **vars(resources))

    def _probe(self, unit: Unit, files: Files, edit: TextEdit) -> str | Failed:
        reference = f"\nstatic auto tilepipe_reference = &{self._kernel_name(unit, files)};\n"
        flags = ["-ptx", f"-arch={PROBE_ARCH}", "-include", str(SHIMS / "tilepipe_probe.h")]
        made = _run(unit, edit(unit.text) + reference, flags)
        return made if isinstance(made, Failed) else made[0].decode()

    def _symbol(self, unit: Unit, files: Files) -> str | Refusal:
        """The kernel's lowered name, as a device variable's initial value in PTX."""
        name = self._kernel_name(unit, files)
        text = (
            f'{unit.text}\n#line 1 "tilepipe_symbol"\n'
            f"__device__ const void* tilepipe_symbol = (const void*)&{name};\n"
            f"static auto tilepipe_reference = &{name};\n"
        )
        made = _run(unit, text, ["-ptx", f"-arch={PROBE_ARCH}"])
        if isinstance(made, Failed):
            naming = [one for one in parse_errors(made.log) if one.file == "tilepipe_symbol"]
            if naming and len(naming) == len(parse_errors(made.log)):
                return error(
                    "TP205",
                    f"{unit.path} has no kernel `{name}`: {naming[0].message}",
                    help=f'a template needs instantiate = "{unit.kernel}<...>" in the problem file',
                )
            return made.refusal
        ptx = made[0].decode()
        symbol = _SYMBOL.search(ptx)
        if symbol is None or symbol[1] not in _ENTRY.findall(ptx):
            return error("TP205", f"`{unit.kernel}` in {unit.path} is not a `__global__` function")
        return symbol[1]


def builds_whole_file(
    text: str, path: str, options: CompileOptions, arch: str, cache: Cache | None = None
) -> bool | None:
    """Whether the file compiles with its host code; None where no nvcc or no host compiler is at hand.

    `path` names the file: quoted includes are searched in its folder. `arch` is the GPU ("sm_80").
    """
    found = _find()
    number = architecture(arch)
    if found is None or number is None:
        return None
    unit = Unit(text, path, "", None, options)
    files = gather(unit)
    cache = cache if cache is not None else Cache()
    headers = [[header.name, header.text] for header in files.headers]
    flags = [options.include_dirs, options.defines, options.std, options.extra]
    key = digest("builds", found.path, found.version, number, os.path.abspath(path), text, headers, flags)
    cached = cache.get(key)
    if cached is not None:
        return cached == b"yes"
    made = _run(unit, text, ["-c", f"-arch=sm_{number}"])
    if isinstance(made, Failed) and _lacks_host_compiler(made.log):
        return None
    cache.put(key, b"no" if isinstance(made, Failed) else b"yes")
    return not isinstance(made, Failed)


@lru_cache(maxsize=1)
def _find() -> _Compiler | None:
    """The nvcc on PATH, else that of CUDA_HOME or CUDA_PATH."""
    homes = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    places = [os.environ.get("PATH", ""), *(str(Path(home) / "bin") for home in homes)]
    path = shutil.which("nvcc", path=os.pathsep.join(places))
    if path is None:
        return None
    try:
        version = _output([path, "--version"])
        listed = _output([path, "--list-gpu-arch"])
    except (OSError, subprocess.SubprocessError):
        return None
    release = re.search(r"V(\d+(?:\.\d+)+)", version)
    return _Compiler(
        path,
        release[1] if release else "unknown",
        tuple(int(one) for one in re.findall(r"compute_(\d+)\b", listed)),
    )


def _output(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def _run(unit: Unit, text: str, flags: list[str]) -> tuple[bytes, str] | Failed:
    """Compile `text` in place of the unit's file: the output and the log."""
    found = _find()
    assert found is not None
    options = unit.options
    with tempfile.TemporaryDirectory(prefix="tilepipe-") as folder:
        name = unit.path.replace("\\", "\\\\").replace('"', '\\"')
        source, output = Path(folder) / "unit.cu", Path(folder) / "output"
        # `#line` lets messages and line tables speak of the author's file.
        source.write_text(f'#line 1 "{name}"\n{text}')
        command = [
            *(found.path, f"-std={options.std}"),
            *(f"-I{directory}" for directory in (os.path.dirname(unit.path) or ".", *options.include_dirs)),
            *(f"-D{define}" for define in options.defines),
            *(*flags, *options.extra, "-o", str(output), str(source)),
        ]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", check=False, timeout=_TIMEOUT_S
            )
        except subprocess.TimeoutExpired:
            return Failed("", error("TP200", f"nvcc did not finish within {_TIMEOUT_S} s"))
        log = (done.stdout + done.stderr).strip()
        if done.returncode == 0:
            return output.read_bytes(), log
    if _lacks_host_compiler(log):
        return Failed(
            log,
            error("TP203", "nvcc found no host compiler", help="install one, or use --toolchain nvrtc"),
        )
    sources = [SourceFile(unit.path, unit.text), *gather(unit).headers]
    return Failed(log, compile_refusal(log, sources, "nvcc"))


def _lacks_host_compiler(log: str) -> bool:
    return _NO_HOST_COMPILER in log or "host compiler is not found" in log
