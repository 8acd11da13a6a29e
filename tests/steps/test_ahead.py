"""What `check` asks is asked for all kernels of a file at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilepipe.cli.streams import json_text
from tilepipe.job import Job
from tilepipe.opening import open_jobs
from tilepipe.options import Options
from tilepipe.report import RunReport, to_json
from tilepipe.steps import check, check_all
from tilepipe.toolchain import Unit

ZOO = Path(__file__).parents[1] / "zoo"
# Plain, with rows that may be padded, without a tile loop, refused.
NAMES = ("fir_halo", "sgemm_fat25k", "conv_igemm", "row_sum_tree", "graph_walk")


def text(name: str) -> str:
    return (ZOO / f"{name}.cu").read_text()


def opened(folder: Path, monkeypatch: pytest.MonkeyPatch, cache: str) -> tuple[Job, ...]:
    monkeypatch.setenv("TILEPIPE_CACHE_DIR", str(folder / cache))
    path = folder / "several.cu"
    parts = (f"namespace n_{name} {{\n{(ZOO / f'{name}.cu').read_text()}\n}}" for name in NAMES)
    path.write_text("\n".join(parts))
    jobs = open_jobs(str(path), Options(device="cpu"))
    assert isinstance(jobs, tuple) and len(jobs) == len(NAMES)
    return jobs


def told(reports: list[object]) -> list[str]:
    assert all(isinstance(one, RunReport) for one in reports)
    return [json_text(to_json(one)) for one in reports if isinstance(one, RunReport)]


def counting(jobs: tuple[Job, ...], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The kernels of every compilation from now on."""
    kernels: list[int] = []
    toolchain = jobs[0].toolchain
    build = toolchain._build  # type: ignore[attr-defined]

    def counted(unit: Unit, *more: object) -> object:
        kernels.append(1 + len(unit.beside))
        return build(unit, *more)

    monkeypatch.setattr(toolchain, "_build", counted)
    return kernels


def test_few_compilations_do_and_the_reports_are_those_of_each_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = opened(tmp_path, monkeypatch, "alone")
    one_by_one = counting(jobs, monkeypatch)
    alone = [check(job) for job in jobs]
    jobs = opened(tmp_path, monkeypatch, "together")
    few = counting(jobs, monkeypatch)
    assert told(check_all(jobs)) == told(alone)
    assert set(one_by_one) == {1} and max(few) > 1 and 2 * len(few) <= len(one_by_one)
    assert any(
        isinstance(one, RunReport) and one.loop is not None and "padded" in one.loop.layout.values()
        for one in alone
    )
