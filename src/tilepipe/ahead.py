"""What the compiler is asked about the kernels of a file, asked for all of them at once.

Most of a compilation's time goes into what every one does anew. So the kernels are put into one program: a few of these
for what the originals take, compiled beside the analysis, and one for each round of questions. Nothing is decided here:
the answers lie in the toolchain's cache, where the steps find them; what did not work out together they ask again.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace

from tilepipe.diagnostics import Refusal
from tilepipe.job import Job
from tilepipe.toolchain import Answer, Asked


def ask_ahead(jobs: Sequence[Job], processors: int) -> None:
    """Ask what `check` will ask about the kernels of one file; `processors` compile at a time."""
    with ThreadPoolExecutor(processors) as pool:
        _compile(pool, processors, jobs[0], [job.compiled for job in jobs])
        _answer(jobs[0], [job.asked for job in jobs])
        _answer_padding(jobs)
        padded = [(job, other) for job in jobs if job.tries_padding and (other := job.padded) is not None]
        _compile(pool, processors, jobs[0], [_within(job, other.compiled) for job, other in padded])
        _answer(jobs[0], [_within(job, other.asked) for job, other in padded])


def _compile(pool: Executor, programs: int, first: Job, kernels: Sequence[Asked | None]) -> None:
    """Compile the kernels in so many programs."""
    listed = [one for one in kernels if one is not None]
    for part in (listed[start::programs] for start in range(programs)):
        pool.submit(_compile_part, first, part)


def _compile_part(first: Job, part: Sequence[Asked]) -> None:
    first.toolchain.usage_together(first.file.source.text, part, first.arch.name)
    for one in part:
        first.toolchain.usage(one.unit, first.arch.name)


def _answer(first: Job, asked: Sequence[Asked | None]) -> None:
    first.toolchain.answer_together(first.file.source.text, [one for one in asked if one is not None])


def _answer_padding(jobs: Sequence[Job]) -> None:
    """Rounds of questions about padded rows: which are asked next depends on the answers to the last."""
    answers: dict[Job, dict[str, Answer]] = {job: {} for job in jobs}
    while asked := {
        job: one for job, known in answers.items() if (one := job.padding_asked(known)) is not None
    }:
        _answer(jobs[0], list(asked.values()))
        told = {job: job.toolchain.answer(one.unit, one.questions) for job, one in asked.items()}
        answers = {job: answers[job] | new for job, new in told.items() if not isinstance(new, Refusal)}


def _within(job: Job, changed: Asked | None) -> Asked | None:
    """What is asked about a job's kernel with other text in its place."""
    return None if changed is None else replace(changed, kernel=job.kernel.span)
