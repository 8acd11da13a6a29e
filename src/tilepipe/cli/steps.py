"""What the command line asks of `tilepipe.steps`, imported when a command runs and not before."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from tilepipe.diagnostics import Refusal
    from tilepipe.emulating import Emulation
    from tilepipe.options import Options
    from tilepipe.report import RunReport

Progress = Callable[[str], None]  # told what begins, in a few words
Job = Any  # one kernel of one file, opened; only the steps look inside


class Steps(Protocol):
    """The library behind the commands. Nothing here writes a file."""

    def open_job(self, path: str, options: Options) -> Job | Refusal:
        """The one kernel that `options` names; asks for a name where the file has several."""

    def open_jobs(self, path: str, options: Options, *, runs: bool = True) -> tuple[Job, ...] | Refusal:
        """Every kernel of the file, or the one that `options` names; the GPU is not opened unless something `runs`."""

    def check_all(self, jobs: tuple[Job, ...]) -> list[RunReport | Refusal]: ...

    def rewrite(self, job: Job) -> RunReport | Refusal: ...

    def run(self, job: Job, progress: Progress) -> RunReport | Refusal: ...

    def verify(self, job: Job, changed: str, progress: Progress) -> RunReport | Refusal: ...

    def bench(self, job: Job, progress: Progress) -> RunReport | Refusal: ...

    def sass(self, job: Job) -> RunReport | Refusal: ...

    def inspect_kernel(self, job: Job) -> RunReport | Refusal: ...

    def inspect_cubin(self, path: str, options: Options) -> RunReport | Refusal: ...

    def emulate(self, job: Job, blocks: int | None, progress: Progress) -> Emulation | Refusal: ...

    def draft(self, path: str, options: Options) -> str | Refusal:
        """The text of a first problem file for the kernels of the file at `path`."""


def load_steps() -> Steps:
    """The module `tilepipe.steps`."""
    return cast(Steps, import_module("tilepipe.steps"))
