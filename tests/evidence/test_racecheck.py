"""Racecheck: every way in which the tool can end, and the job folder that it is given."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import numpy as np
import pytest

from tilepipe.evidence import racecheck as module
from tilepipe.evidence.racecheck import interpret, racecheck
from tilepipe.launch.once import LAUNCHED, read_job, write_job
from tilepipe.launch.sanitizer import SanitizerRun, run_racecheck
from tilepipe.problem import ArraySpec, Case, KernelProblem, Parameter, ScalarSpec, make_case
from tilepipe.toolchain.types import Compiled

CLEAN = f"{LAUNCHED}\n========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n"
DIRTY = "\n".join(
    [
        LAUNCHED,
        "========= Error: Race reported between Write access at k+0x90 and Read access at k+0xa0 [9 hazards]",
        "=========",
        "========= Warning: (Warp Level Programming) Potential RAW hazard detected at __shared__ 0x10",
        "========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)",
    ]
)
KERNEL = Compiled("cubin", b"cubin", "k", "sm_90", static_shared=128)


def case() -> Case:
    args = (ArraySpec("x", "in", ("N",), offset=1), ArraySpec("y", "inout", ("N",)), ScalarSpec("0.5"))
    parameters = [Parameter("p", "__nv_bfloat16 *", "__nv_bfloat16")] * 2 + [Parameter("a", "float", None)]
    made = make_case(
        KernelProblem("k", None, ("2",), ("32",), "64", args, {"s": {"N": 5}}), "s", parameters, 1
    )
    assert isinstance(made, Case)
    return made


def test_clean_is_passed() -> None:
    races = interpret(SanitizerRun(CLEAN, 0, True))
    assert (races.status, races.method, races.findings) == ("passed", "racecheck", ())


@pytest.mark.parametrize("exit_code", [0, 1, None])
def test_hazards_are_failed_however_the_tool_ends(exit_code: int | None) -> None:
    races = interpret(SanitizerRun(DIRTY, exit_code, True))
    assert races.status == "failed" and "2 hazards" in races.reason
    assert [f.kind for f in races.findings] == ["hazard", "hazard"]
    assert races.findings[0].message.startswith("Race reported between")


@pytest.mark.parametrize(
    "counts", ["1 hazard displayed (1 error, 0 warnings)", "1 hazard displayed (0 errors, 1 warning)"]
)
def test_one_kind_of_hazard_is_enough(counts: str) -> None:
    run = SanitizerRun(f"{LAUNCHED}\n========= RACECHECK SUMMARY: {counts}", 0, True)
    assert interpret(run).status == "failed"


@pytest.mark.parametrize(
    "run",
    [
        SanitizerRun("", 0, False),
        SanitizerRun(CLEAN, 0, False),  # the tool is content with a program that launched nothing
        SanitizerRun(CLEAN, 1, True),
        SanitizerRun(CLEAN, -11, True),
        SanitizerRun(CLEAN, None, True),
        SanitizerRun(f"{LAUNCHED}\n========= Error: Target application crashed\n", 0, True),
        SanitizerRun("TP353 the kernel faulted", 1, False),
    ],
)
def test_everything_else_is_unknown(run: SanitizerRun) -> None:
    races = interpret(run)
    assert races.status == "unknown" and races.reason


def test_an_absent_tool_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_sanitizer", lambda: None)
    assert racecheck(KERNEL, KERNEL, case(), case()).status == "unknown"


@pytest.mark.parametrize(
    ("original", "changed", "status"),
    [(CLEAN, DIRTY, "failed"), (DIRTY, DIRTY, "unknown"), ("", DIRTY, "unknown"), (DIRTY, CLEAN, "passed")],
)
def test_inherited_hazards(monkeypatch: pytest.MonkeyPatch, original: str, changed: str, status: str) -> None:
    first, second = KERNEL, Compiled("cubin", b"new", "k", "sm_90")
    outputs = {first: original, second: changed}
    monkeypatch.setattr(module, "find_sanitizer", lambda: "tool")
    monkeypatch.setattr(
        module,
        "run_racecheck",
        lambda tool, kernel, _: SanitizerRun(outputs[kernel], 0, bool(outputs[kernel])),
    )
    assert racecheck(first, second, case(), case()).status == status


def test_jobs_round_trip(tmp_path: Path) -> None:
    data = case()
    write_job(tmp_path, KERNEL, data)
    compiled, job = read_job(tmp_path)
    assert (compiled.image, compiled.symbol, compiled.static_shared) == (b"cubin", "k", 128)
    assert (job.grid, job.block, job.shared) == (data.grid, data.block, data.shared)
    for old, new in zip(data.arrays, job.arrays, strict=True):
        assert old.base.tobytes() == new.base.tobytes() and old.data.tobytes() == new.data.tobytes()
    assert job.args[2].value.tobytes() == np.float32(0.5).tobytes()  # type: ignore[union-attr]


def script(tmp_path: Path, body: str) -> str:
    tool = tmp_path / "compute-sanitizer"
    tool.write_text(f"#!{sys.executable}\nimport sys, time\n{body}\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    return str(tool)


def test_the_tool_is_run_on_a_job(tmp_path: Path) -> None:
    body = (
        "from pathlib import Path\n"
        "assert sys.argv[1:3] == ['--tool', 'racecheck'] and sys.argv[-2] == 'tilepipe.launch.once'\n"
        "assert (Path(sys.argv[-1]) / 'launch.json').exists()\n"
        f"print({CLEAN!r})"
    )
    run = run_racecheck(script(tmp_path, body), KERNEL, case())
    assert run.exit_code == 0 and run.launched and interpret(run).status == "passed", run


def test_tools_that_hang_or_cannot_start(tmp_path: Path) -> None:
    hung = run_racecheck(script(tmp_path, "time.sleep(60)"), KERNEL, case(), timeout_s=0.5)
    assert hung.exit_code is None and interpret(hung).status == "unknown"
    missing = run_racecheck(str(tmp_path / "absent"), KERNEL, case())
    assert interpret(missing).status == "unknown"
