"""What `__launch_bounds__` of a kernel says."""

from __future__ import annotations

import re

from tilepipe.kernel.file import CudaFile, KernelText
from tilepipe.kernel.meaning import meanings
from tilepipe.source import Span

_BOUNDS = re.compile(rb"__launch_bounds__\s*\(((?:[^,()]|\([^()]*\))+)(,?)")


def launch_bound_span(file: CudaFile, kernel: KernelText, alone: bool = True) -> Span | None:
    """Where the kernel states its maximum block size; with `alone`, only if that is the one argument."""
    found = _BOUNDS.search(file.source.data, kernel.span.start, kernel.body.start)
    if found is None or (alone and found.group(2)):
        return None
    return Span(found.start(1), found.end(1))


def launch_bound_text(file: CudaFile, kernel: KernelText) -> str | None:
    """The text of the kernel's maximum block size, None without `__launch_bounds__`."""
    at = launch_bound_span(file, kernel, alone=False)
    return file.source.slice(at).strip() if at is not None else None


def launch_bound(file: CudaFile, kernel: KernelText) -> int | None:
    """The maximum block size where it is a literal, or a macro that is one; None otherwise."""
    text = launch_bound_text(file, kernel)
    macro = file.macros.get(text) if text else None
    sure = macro is not None and text is not None and meanings(file).sure(text, kernel.span.start)
    value = text if macro is None else macro.body if sure else None
    return int(value) if value is not None and value.isdigit() else None
