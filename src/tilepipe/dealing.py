"""The kernels of a file dealt over processes: most of what `check` does is Python, which uses one core.

Processes are forked, so that they have the opened file and the loaded compiler as they are; nothing compiles before
that. Not where a GPU was opened here: its driver does not survive a fork. `check` opens none, see `launch/seen.py`.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from typing import TypeVar

from tilepipe.job import Job
from tilepipe.launch import CudaDevice

_Answer = TypeVar("_Answer")
# Of jobs, on so many processors: an answer for each, in their order.
Work = Callable[[Sequence[Job], int], list[_Answer]]

PROCESSORS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
_FEW = 8  # so many kernels are not worth a process
_LEAST = 5  # kernels of a process: each compiles the headers anew


def dealt(work: Work[_Answer], jobs: Sequence[Job]) -> list[_Answer]:
    """What `work` answers for the jobs, in their order, from as many processes as are worth it."""
    processes = min(PROCESSORS, len(jobs) // _LEAST)
    forks = "fork" in multiprocessing.get_all_start_methods() and not isinstance(jobs[0].device, CudaDevice)
    # Which of several kernels of one name the compiler tells of may depend on what it is asked together.
    distinct = len({job.kernel.name for job in jobs}) == len(jobs)
    if len(jobs) <= _FEW or processes < 2 or not forks or not distinct:
        return work(jobs, PROCESSORS)
    shares = [jobs[start::processes] for start in range(processes)]
    answers: list[_Answer | None] = [None] * len(jobs)
    for start, found in enumerate(_in_processes(work, shares)):
        answers[start::processes] = found
    return [one for one in answers if one is not None]


def _in_processes(work: Work[_Answer], shares: Sequence[Sequence[Job]]) -> list[list[_Answer]]:
    """A process for each share; none is left when this ends, however it does."""
    started: list[tuple[ForkProcess, Connection]] = []
    try:
        for share in shares:
            started.append(_start(work, share))
        received: list[list[_Answer] | None] = [
            _received(process, connection) for process, connection in started
        ]
    except BaseException:
        for process, _ in started:
            process.terminate()
        raise
    finally:
        for process, connection in started:
            connection.close()
            process.join()
    # Where one failed its share is done here, so that the error is told as it would have been.
    pairs = zip(shares, received, strict=True)
    return [work(share, PROCESSORS) if found is None else found for share, found in pairs]


def _start(work: Work[_Answer], share: Sequence[Job]) -> tuple[ForkProcess, Connection]:
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_do, args=(work, share, sender), daemon=True)
    # Ctrl-C reaches every process of the terminal: the first one tells of it and ends the others, who say nothing.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    sender.close()
    return process, receiver


def _do(work: Work[_Answer], share: Sequence[Job], sender: Connection) -> None:
    """In the process: send the answers, or None where something is wrong."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    answers: list[_Answer] | None = None
    with suppress(Exception):
        answers = work(share, 1)
    with suppress(OSError):  # nobody reads any more
        sender.send(answers)


def _received(process: ForkProcess, connection: Connection) -> list[_Answer] | None:
    """What a process sent. Raises RuntimeError where it ended without."""
    try:
        found: list[_Answer] | None = connection.recv()
    except EOFError:
        process.join()
        code = process.exitcode or 0
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise RuntimeError(f"a process for some of the kernels ended with {how}") from None
    return found
