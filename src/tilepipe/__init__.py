"""tilepipe: software-pipeline the tile loop of a CUDA kernel, and prove what was done.

`tilepipe.steps` has the commands as functions; `pipeline_source` serves CUDA source held in a Python string.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilepipe.diagnostics import Refusal

if TYPE_CHECKING:
    from tilepipe.rewrite import Rewrite

__version__ = "0.1.0"
__all__ = ["Refusal", "__version__", "pipeline_source"]


def pipeline_source(
    source: str, kernel: str, arch: str = "sm_80", candidate: str | None = None
) -> Rewrite | Refusal:
    """`tilepipe.steps.pipeline_source`, imported when it is called: the name alone costs nothing."""
    from tilepipe import steps  # noqa: PLC0415

    return steps.pipeline_source(source, kernel, arch, candidate)
