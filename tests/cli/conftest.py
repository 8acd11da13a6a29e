"""A stand-in for `tilepipe.steps`, so that these tests see the command line and nothing behind it."""

import sys
import types
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.report.samples import PIPELINED

from tilepipe.diagnostics import Refusal
from tilepipe.options import Options
from tilepipe.report import RunReport

ORIGINAL = "__global__ void igemm() { }\n"
CHANGED = "__global__ void igemm() { /* a ring */ }\n"


class FakeSteps(types.ModuleType):
    """Answers every step with `result`, and remembers what was asked."""

    def __init__(self) -> None:
        super().__init__("tilepipe.steps")
        self.result: RunReport | Refusal | Callable[[], Any] = replace(PIPELINED, source=CHANGED)
        self.jobs: tuple[Any, ...] | Refusal = ("job",)
        self.options: Options | None = None
        self.calls: list[tuple[Any, ...]] = []

    def open_jobs(self, path: str, options: Options, *, runs: bool = True) -> tuple[Any, ...] | Refusal:
        del runs
        self.options = options
        self.calls.append(("open", path))
        return self.jobs

    def open_job(self, path: str, options: Options) -> Any:
        jobs = self.open_jobs(path, options)
        return jobs if isinstance(jobs, Refusal) else jobs[0]

    def _step(self, *call: Any) -> Any:
        self.calls.append(call)
        return self.result() if callable(self.result) else self.result

    def check_all(self, jobs: Any) -> Any:
        return [self._step("check", job) for job in jobs]

    def rewrite(self, job: Any) -> Any:
        return self._step("rewrite", job)

    def run(self, job: Any, progress: Callable[[str], None]) -> Any:
        progress("1 of 7: preconditions")
        return self._step("run", job)

    def verify(self, job: Any, changed: str, progress: Callable[[str], None]) -> Any:
        return self._step("verify", job, changed)

    def bench(self, job: Any, progress: Callable[[str], None]) -> Any:
        return self._step("bench", job)

    def sass(self, job: Any) -> Any:
        return self._step("sass", job)

    def inspect_kernel(self, job: Any) -> Any:
        return self._step("inspect_kernel", job)

    def inspect_cubin(self, path: str, options: Options) -> Any:
        return self._step("inspect_cubin", path, options.kernel)

    def draft(self, path: str, options: Options) -> str:
        return "schema = 1\n"


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> FakeSteps:
    fake = FakeSteps()
    monkeypatch.setitem(sys.modules, "tilepipe.steps", fake)
    return fake


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A CUDA file in the working folder."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "igemm.cu"
    path.write_text(ORIGINAL, encoding="utf-8")
    return path
