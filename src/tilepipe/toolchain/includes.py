"""The files of a unit: the author's text, the local headers it reaches, and stand-ins for host headers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tilepipe.source import Edit, SourceFile, Span, apply_edits
from tilepipe.source.lexical import directives
from tilepipe.toolchain.types import Unit

_INCLUDE = re.compile(rb'[ \t]*#[ \t]*include[ \t]*(?:"(?P<quoted>[^"\n]+)"|<(?P<angled>[^>\n]+)>)')

# Headers that only host code needs: empty for a device compiler, unless the user's own folders have one.
_STANDARD = (
    "vector string iostream fstream sstream iomanip istream ostream iosfwd streambuf chrono "
    "thread mutex atomic shared_mutex random map unordered_map set unordered_set list "
    "forward_list deque queue stack memory stdexcept exception iterator regex future "
    "condition_variable filesystem cstdio cstdlib cstring ctime cctype cwchar clocale csignal "
    "cerrno cstdarg cinttypes string_view initializer_list typeinfo new locale any bitset "
    "valarray system_error numbers ranges charconv format source_location "
)
_SYSTEM = (
    "stdio.h stdlib.h string.h time.h ctype.h errno.h unistd.h getopt.h signal.h inttypes.h "
    "stdarg.h stdbool.h memory.h malloc.h fcntl.h pthread.h omp.h mpi.h windows.h sys/time.h "
    "sys/types.h sys/stat.h sys/resource.h sys/mman.h sys/timeb.h strings.h sys/utsname.h sys/syscall.h "
)
_CUDA_HOST = (
    "cublas_v2.h cublas.h cublasLt.h cublasXt.h cusparse.h cusolverDn.h cusolver_common.h "
    "curand.h cufft.h cudnn.h nvml.h nvToolsExt.h nvtx3/nvToolsExt.h nvtx3/nvtx3.hpp "
    "cuda_profiler_api.h cuda_gl_interop.h cudaGL.h cuda_egl_interop.h cupti.h nvrtc.h "
    "helper_cuda.h helper_functions.h helper_image.h helper_string.h helper_timer.h "
    "helper_cuda_drvapi.h exception.h "
)
_HOST_ONLY = frozenset((_STANDARD + _SYSTEM + _CUDA_HOST).split())
_HOST_ONLY_FOLDERS = re.compile(
    r"(?:torch|ATen|c10|pybind11|cub/device|benchmark|gtest|gflags|glog|Eigen|boost|GL|EGL)/"
    r"|thrust/(?!complex|tuple|pair|swap|random|functional)"  # Thrust's algorithms and containers
)


@dataclass(frozen=True)
class Files:
    """A unit's own files, and the names of host headers to be empty for a device compiler.

    `main` is called by the unit's path, each header by its absolute path, so that it is one file however it
    is reached.
    """

    main: SourceFile
    headers: tuple[SourceFile, ...]
    stand_ins: tuple[str, ...]


def gather(unit: Unit) -> Files:
    """Read the local headers that the unit reaches through `#include`, whatever the conditionals around it.

    Headers that cannot be found are left to the compiler, which knows whether the line is reached at all.
    """
    user = [Path(directory) for directory in unit.options.include_dirs]
    main = SourceFile(unit.path, unit.text)
    headers: dict[Path, SourceFile] = {}
    spelled: set[str] = set()
    pending: list[tuple[SourceFile, Path]] = [(main, Path(unit.path).parent)]
    while pending:
        source, folder = pending.pop()
        for name, quoted, _ in include_directives(source.data):
            found = _find(name, ([folder] if quoted else []) + user)
            if found is None:
                spelled.add(name)
            elif found not in headers:
                text = found.read_text(errors="replace")
                headers[found] = SourceFile(str(found), text)
                pending.append((headers[found], found.parent))
    in_user = {name for name in _HOST_ONLY if _find(name, user) is not None} if user else set()
    host = (_HOST_ONLY | {name for name in spelled if _HOST_ONLY_FOLDERS.match(name)}) - in_user
    return Files(main, tuple(headers[path] for path in sorted(headers)), tuple(sorted(host)))


def with_absolute_includes(source: SourceFile, include_dirs: tuple[str, ...]) -> str:
    """The text with every `#include` of a local header naming it by absolute path, as `Files` calls it."""
    user = [Path(directory) for directory in include_dirs]
    edits = []
    for name, quoted, where in include_directives(source.data):
        found = _find(name, ([Path(source.name).parent] if quoted else []) + user)
        if found is not None:
            edits.append(Edit(where, f'"{found}"'))
    return apply_edits(source.text, edits)


def include_directives(data: bytes) -> Iterator[tuple[str, bool, Span]]:
    """Each `#include` of a file: the name, whether it is quoted, and the span with its delimiters."""
    # Nothing behind the last line that says so needs to be read.
    last = data.find(b"\n", data.rfind(b"include")) if b"include" in data else 0
    for start, end in directives(data[:last] if last >= 0 else data):
        match = _INCLUDE.match(data, start, end)
        if match:
            group = "quoted" if match["quoted"] is not None else "angled"
            name = Span(match.start(group) - 1, match.end(group) + 1)
            yield match[group].decode(errors="replace"), group == "quoted", name


def _find(name: str, folders: list[Path]) -> Path | None:
    for folder in folders:
        candidate = folder / name
        if candidate.is_file():
            return candidate.resolve()
    return None
