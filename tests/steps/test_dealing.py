"""The kernels of a file with many are dealt over processes, and nothing that is told changes by it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tilepipe import dealing
from tilepipe.cli.streams import json_text
from tilepipe.dealing import dealt
from tilepipe.launch import CudaDevice
from tilepipe.opening import open_jobs
from tilepipe.options import Options
from tilepipe.report import RunReport, to_json
from tilepipe.steps import check_all

sys.path.insert(0, str(Path(__file__).parents[1] / "gpu"))
from fakes import FakeDriver

ZOO = Path(__file__).parents[1] / "zoo"
# Plain, with rows that may be padded, without a tile loop, refused.
NAMES = ("fir_halo", "sgemm_fat25k", "conv_igemm", "row_sum_tree", "graph_walk")


def _jobs(count: int = 11, device: Any = None, names: int = 11) -> Any:
    kernels = [SimpleNamespace(name=f"k{n % names}") for n in range(count)]
    return [SimpleNamespace(number=n, device=device, kernel=kernel) for n, kernel in enumerate(kernels)]


JOBS = _jobs()


@pytest.fixture(autouse=True)
def processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dealing, "PROCESSORS", 2)


def _large(folder: Path) -> Path:
    path = folder / "large.cu"
    parts = [
        f"namespace n{turn}_{name} {{\n{(ZOO / f'{name}.cu').read_text().replace(name, f'{name}_{turn}')}\n}}"
        for turn in range(2)
        for name in NAMES
    ]
    path.write_text("\n".join(parts))
    return path


def _who(jobs: Sequence[Any], processors: int) -> list[tuple[int, int, int]]:
    return [(job.number, os.getpid(), processors) for job in jobs]


def test_answers_come_in_order_from_several_processes() -> None:
    answers = dealt(_who, JOBS)
    assert [number for number, _, _ in answers] == list(range(11))
    assert len({pid for _, pid, _ in answers} - {os.getpid()}) == 2
    assert {processors for _, _, processors in answers} == {1}


@pytest.mark.parametrize("jobs", [_jobs(8), _jobs(device=CudaDevice(FakeDriver(), None)), _jobs(names=10)])
def test_few_kernels_a_gpu_and_kernels_of_one_name_stay_in_one_process(jobs: Any) -> None:
    assert {(pid, processors) for _, pid, processors in dealt(_who, jobs)} == {(os.getpid(), 2)}


def test_an_exception_is_the_one_of_one_process() -> None:
    def fails(jobs: Sequence[Any], processors: int) -> list[int]:
        del processors
        raise KeyError(jobs[0].number)

    with pytest.raises(KeyError, match="0") as caught:
        dealt(fails, JOBS)
    assert caught.traceback[-1].name == "fails"


def test_a_process_that_dies_is_told() -> None:
    def dies(jobs: Sequence[Any], processors: int) -> list[int]:
        if jobs[0].number == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return [processors for _ in jobs]

    with pytest.raises(RuntimeError, match="ended with signal 9"):
        dealt(dies, JOBS)


def test_an_interrupt_ends_the_processes(tmp_path: Path) -> None:
    def sleeps(jobs: Sequence[Any], processors: int) -> list[int]:
        (tmp_path / str(os.getpid())).touch()
        time.sleep(30)
        return [processors for _ in jobs]

    timer = threading.Timer(1.0, signal.pthread_kill, (threading.get_ident(), signal.SIGINT))
    timer.start()
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        dealt(sleeps, JOBS)
    assert time.monotonic() - begun < 20
    for one in tmp_path.iterdir():
        with pytest.raises(ProcessLookupError):
            os.kill(int(one.name), 0)


def test_reports_over_processes_are_those_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _large(tmp_path)
    told = []
    for processors in (1, 2):
        monkeypatch.setattr(dealing, "PROCESSORS", processors)
        monkeypatch.setenv("TILEPIPE_CACHE_DIR", str(tmp_path / f"cache{processors}"))
        jobs = open_jobs(str(path), Options(device="cpu"))
        assert isinstance(jobs, tuple) and len({job.kernel.name for job in jobs}) == 10
        reports = check_all(jobs)
        told.append([json_text(to_json(one)) for one in reports if isinstance(one, RunReport)])
    assert len(told[0]) == 10 and told[0] == told[1]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor: one process")
def test_ctrl_c_shows_one_line_and_no_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tilepipe", "check", str(_large(tmp_path))]
    environment = {**os.environ, "TILEPIPE_CACHE_DIR": str(tmp_path / "cache"), "CUDA_VISIBLE_DEVICES": ""}
    running = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
    while running.poll() is None and len(children.read_text().split()) < 2:
        time.sleep(0.01)
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does: to all of them
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out, err) == (130, "", "tilepipe: interrupted\n")
