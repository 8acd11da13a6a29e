"""In which API a ring is written: inline PTX, the primitives of `cuda_pipeline.h`, or `cuda::pipeline`."""

from __future__ import annotations

from tilepipe.kernel import surroundings
from tilepipe.kernel.arriving import gone
from tilepipe.kernel.model import KernelModel
from tilepipe.plan.types import Candidate
from tilepipe.rewrite.rings import STAGES

_PIPE = "tp_pipe"


def uses_object(candidate: Candidate) -> bool:
    """Whether copies, commits and waits go through a pipeline object."""
    return candidate.api.startswith("cuda-pipeline")


def _of_block(candidate: Candidate) -> bool:
    return candidate.api == "cuda-pipeline-block"


def refused(model: KernelModel, candidate: Candidate) -> str:
    """Why a candidate cannot be written with a pipeline object, "" if it can."""
    if not uses_object(candidate):
        return ""
    if candidate.unwritable:
        return candidate.unwritable
    before = [s.effects().flags for s in surroundings.before(model.tile)]
    returns = any("return" in f for f in before) or gone(model) is not None
    if _of_block(candidate) and (surroundings.is_repeated(model.tile) or returns):
        return "a block's pipeline needs all its threads, once: a return stands before the loop, or a loop around it"
    return ""


def setup(candidate: Candidate) -> list[str]:
    """Lines that make the pipeline object."""
    if _of_block(candidate):
        state = f"cuda::pipeline_shared_state<cuda::thread_scope_block, {STAGES}>"
        return [
            f"__shared__ {state} tp_state;",
            f"auto {_PIPE} = cuda::make_pipeline(cooperative_groups::this_thread_block(), &tp_state);",
        ]
    return [f"auto {_PIPE} = cuda::make_pipeline();"] if uses_object(candidate) else []


def acquire(candidate: Candidate) -> list[str]:
    """Before the copies of a tile: its stage is free."""
    return [f"{_PIPE}.producer_acquire();"] if uses_object(candidate) else []


def commit(candidate: Candidate) -> str:
    """Behind the copies of a tile."""
    return f"{_PIPE}.producer_commit();" if uses_object(candidate) else "tp_commit();"


def arrived(candidate: Candidate, comment: str) -> list[str]:
    """The oldest tile in flight has arrived, for every thread of the block."""
    if _of_block(candidate):
        return [f"{_PIPE}.consumer_wait();{comment}"]
    wait = f"tp_wait<{STAGES} - 2>();"
    if uses_object(candidate):
        wait = f"cuda::pipeline_consumer_wait_prior<{STAGES} - 2>({_PIPE});"
    return [wait, f"__syncthreads();{comment}"]


def release(candidate: Candidate) -> list[str]:
    """Behind the last read of a stage."""
    return [f"{_PIPE}.consumer_release();"] if uses_object(candidate) else []


def drain(candidate: Candidate) -> list[str]:
    """Behind the main loop: nothing is in flight."""
    if not _of_block(candidate):
        return [
            f"cuda::pipeline_consumer_wait_prior<0>({_PIPE});" if uses_object(candidate) else "tp_wait<0>();"
        ]
    ahead = 2 if candidate.fragments else 1  # a stage was waited for ahead, with its fragments
    lines = [f"{_PIPE}.consumer_release();"] if candidate.fragments else []
    return [
        *lines,
        f"for (int tp_s = 0; tp_s < {STAGES} - {ahead}; ++tp_s) {{",
        f"    {_PIPE}.consumer_wait();",
        f"    {_PIPE}.consumer_release();",
        "}",
    ]


def copy_argument(candidate: Candidate) -> str:
    """What a copy is handed besides its addresses."""
    return f"{_PIPE}, " if uses_object(candidate) else ""
