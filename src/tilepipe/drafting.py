"""A first problem file, from what the source shows: parameters, the tile loop's header, and a simple launch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilepipe.diagnostics import Refusal
from tilepipe.hostlaunch import host_launch
from tilepipe.job import Job
from tilepipe.kernel.poolnames import has_dynamic_shared
from tilepipe.opening import open_jobs
from tilepipe.options import Options
from tilepipe.problem import KernelDraft, draft_problem, size_names


def draft(path: str, options: Options) -> str | Refusal:
    """A first problem file for every kernel of a file. A problem file that is there is not looked at."""
    jobs = open_jobs(path, replace(options, device="cpu"), with_problem=False)
    if isinstance(jobs, Refusal):
        return jobs
    drafts = []
    for job in jobs:
        if job.kernel.template and job.instance is None:
            return job.which_instance
        parameters = job.toolchain.parameter_types(job.unit())
        if isinstance(parameters, Refusal):
            return parameters
        names = size_names(parameters)
        found = host_launch(job, names)
        drafts.append(
            KernelDraft(
                job.kernel.name,
                parameters,
                found.grid,
                found.block,
                found.shared,
                tile=_tile(job, names),
                instantiate=job.instance,
                dynamic=has_dynamic_shared(job.file, job.kernel),
            )
        )
    return draft_problem(drafts)


def _tile(job: Job, names: Mapping[str, str]) -> dict[str, int] | None:
    """The size that drives the tile loop and what one tile takes of it."""
    counter = job.tile_counter
    tile = counter.tile(job.tile_constants) if counter is not None else None
    return {names[tile[0]]: tile[1]} if tile is not None and tile[0] in names else None
