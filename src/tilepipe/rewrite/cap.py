"""A minimum of resident blocks stated in `__launch_bounds__`: a cap on registers, and a word to the compiler that it
need not save them for blocks of 1024 threads."""

from __future__ import annotations

import re

from tilepipe.kernel.file import CudaFile, KernelText
from tilepipe.kernel.launchbounds import launch_bound_span
from tilepipe.source import Edit, Span

_GLOBAL = re.compile(rb"\b__global__\b")


def cap_edit(file: CudaFile, kernel: KernelText, blocks: int, threads: int) -> Edit | None:
    """State `blocks` resident blocks: beside the kernel's own bound on threads, else together with `threads`, the most
    that a launch may have then. None where there is no place for it, or where a minimum is stated already."""
    if launch_bound_span(file, kernel, alone=False) is not None:
        at = launch_bound_span(file, kernel)
        return Edit(Span(at.end, at.end), f", {blocks}") if at is not None else None
    found = _GLOBAL.search(file.source.data, kernel.span.start, kernel.body.start)
    if found is None or not threads:
        return None
    return Edit(Span(found.end(), found.end()), f" __launch_bounds__({threads}, {blocks})")
