import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.conftest import CHANGED, ORIGINAL, FakeSteps
from tests.report.samples import PIPELINED

from tilepipe.cli.main import main
from tilepipe.cli.reproduce import origin
from tilepipe.diagnostics import refusal
from tilepipe.options import Options
from tilepipe.report import RunReport
from tilepipe.toolchain.types import CompileOptions

Capture = pytest.CaptureFixture[str]
REFUSED = refusal("TP012", "tile `As` is read before it is overwritten")


def test_run_writes_the_page_and_the_trace(steps: FakeSteps, kernel: Path, capsys: Capture) -> None:
    assert main(["run", "igemm.cu", "--html", "out.html", "--trace", "loop.json"]) == 0
    page = Path("out.html").read_text(encoding="utf-8")
    assert "/* a ring */" in page and ORIGINAL.split("{")[0].strip() in page
    assert {e["ph"] for e in json.loads(Path("loop.json").read_text())["traceEvents"]} == {"M", "X"}
    shown = capsys.readouterr()
    assert "cp_async-3-ring" in shown.out
    assert "tilepipe: wrote out.html\n" in shown.err and "tilepipe: wrote loop.json\n" in shown.err


def test_the_page_shows_the_file_as_it_was(steps: FakeSteps, kernel: Path) -> None:
    assert main(["run", "igemm.cu", "--in-place", "--html", "out.html"]) == 0
    assert kernel.read_text(encoding="utf-8") == CHANGED
    assert '<td class="sign">−</td><td>__global__ void igemm() { }</td>' in Path("out.html").read_text()


def test_check_writes_one_page_for_all_kernels(steps: FakeSteps, kernel: Path) -> None:
    steps.jobs = ("first", "second")
    assert main(["check", "igemm.cu", "--html", "out.html"]) == 0
    assert Path("out.html").read_text().count("<article") == 2


def test_a_refusal_has_a_page_and_no_trace(steps: FakeSteps, kernel: Path, capsys: Capture) -> None:
    steps.result = REFUSED
    assert main(["run", "igemm.cu", "--html", "out.html", "--trace", "loop.json"]) == 1
    assert "TP012" in Path("out.html").read_text()
    assert not Path("loop.json").exists()
    assert (
        "TP120 warning: `loop.json` is not written: the machine code was not audited"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["--html", "-"],
        ["--trace", "-"],
        ["--html", "igemm.cu"],
        ["--trace", "igemm.toml"],
        ["--html", "out", "--trace", "out"],
        ["--html", "out", "--json", "./out"],
        ["--html", "out.x", "-o", "out.x"],
    ],
    ids=" ".join,
)
def test_targets_that_would_destroy_something(
    arguments: list[str], steps: FakeSteps, kernel: Path, capsys: Capture
) -> None:
    assert main(["run", "igemm.cu", *arguments]) == 2
    assert "TP140" in capsys.readouterr().err
    assert kernel.read_text(encoding="utf-8") == ORIGINAL
    assert sorted(p.name for p in kernel.parent.iterdir()) == ["igemm.cu"]


@pytest.mark.parametrize("flag", ["--html", "--trace"])
def test_a_target_that_cannot_be_written_is_an_error(
    flag: str, steps: FakeSteps, kernel: Path, capsys: Capture
) -> None:
    assert main(["run", "igemm.cu", flag, "no/such/folder/x"]) == 2
    assert "TP142" in capsys.readouterr().err


# -- the commands that the page shows ----------------------------------------------------------------------------------

EVERYTHING = Options(
    kernel=None,
    problem="my problem.toml",
    arch="sm_90",
    compile=CompileOptions(("inc",), ("N=4",), "c++20", ("--use_fast_math",)),
    variant="cp_async",
    stages=3,
    form="ring",
    layout="keep",
    sizes=("small", "target"),
    seed=5,
    use_reference=False,
    allow_launch_change=True,
    no_alias=frozenset({"A", "B"}),
)


def test_the_commands_ask_for_the_same_again(steps: FakeSteps, kernel: Path) -> None:
    """Each command, run as it is shown, gives the steps what the first run gave them."""
    made = origin("run", "igemm.cu", EVERYTHING, PIPELINED, ORIGINAL)
    again, source, audit = (shlex.split(command.line) for command in made.commands)
    assert made.seed == 5
    main(again[1:])
    assert steps.options == replace(EVERYTHING, kernel="igemm", device="cuda")
    pinned = replace(
        EVERYTHING, kernel="igemm", variant=None, stages=None, form=None, layout="auto",
        candidate="cp_async-3-ring",
        sizes=(), seed=0,
    )  # fmt: skip
    for words in (source, audit):
        main(words[1:])
        assert steps.options == pinned
    assert [words[1] for words in (again, source, audit)] == ["run", "rewrite", "sass"]


def test_a_refused_run_can_be_repeated_too(steps: FakeSteps, kernel: Path) -> None:
    (command,) = origin("run", "igemm.cu", Options(), RunReport(), ORIGINAL).commands
    assert command.line == "tilepipe run igemm.cu --device auto --seed 0"
    (command,) = origin("check", "igemm.cu", Options(), RunReport(), None).commands
    assert command.line == "tilepipe check igemm.cu"
