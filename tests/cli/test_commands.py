import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.cli.conftest import CHANGED, ORIGINAL, FakeSteps
from tests.report.samples import PIPELINED, RACY

from tilepipe import __version__
from tilepipe.cli import options as opt
from tilepipe.cli.commands import ALL_EVIDENCE
from tilepipe.cli.main import main
from tilepipe.diagnostics import error, refusal
from tilepipe.evidence.types import Benchmark
from tilepipe.plan.types import Form, Variant
from tilepipe.report import EVIDENCE, Evidence, RunReport, refused_report

Capture = pytest.CaptureFixture[str]
REFUSED = refusal("TP012", "tile `As` is read before it is overwritten")
KEPT = replace(PIPELINED, outcome="original_kept", chosen=None, source=None)


def test_version(capsys: Capture) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"tilepipe {__version__}\n"


@pytest.mark.parametrize("arguments", [["--help"], ["run", "-h"], ["check", "--help"], ["explain"], ["gpus"]])
def test_help_and_tables(arguments: list[str], capsys: Capture) -> None:
    assert main(arguments) == 0
    assert capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["no-such-command"],
        ["run"],
        ["run", "igemm.cu", "other.cu"],
        ["run", "igemm.cu", "--variant", "fast"],
        ["run", "igemm.cu", "--form", "spiral"],
        ["run", "igemm.cu", "--layout", "swizzle"],
        ["run", "igemm.cu", "--stages", "0"],
        ["run", "igemm.cu", "--seed", "-1"],
        ["run", "igemm.cu", "--device", "tpu"],
        ["run", "igemm.cu", "--toolchain", "gcc"],
        ["run", "igemm.cu", "--require", "correctness,luck"],
        ["verify", "igemm.cu", "igemm.cu", "--require", "sass"],
        ["sass", "igemm.cu", "--require", "correctness"],
        ["bench", "igemm.cu", "--require", "races"],
        ["init", "igemm.cu", "-p", "igemm.toml"],
        ["run", "igemm.cu", "--candidate", "x", "--stages", "3"],
        ["run", "igemm.cu", "-o", "igemm.cu"],
        ["run", "igemm.cu", "-o", "./igemm.cu"],
        ["run", "igemm.cu", "-o", "a.cu", "--in-place"],
        ["run", "igemm.cu", "--or-original"],
        ["run", "igemm.cu", "--json", "-", "-o", "-"],
        ["run", "igemm.cu", "--json", "-", "--diff"],
        ["run", "igemm.cu", "--json", "igemm.toml"],
        ["verify", "igemm.cu"],
        ["explain", "TP000"],
        ["run", "igemm.cu", "--assume", "align=12"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_2_with_a_message_and_changes_nothing(
    arguments: list[str], steps: FakeSteps, kernel: Path, capsys: Capture
) -> None:
    assert main(arguments) == 2
    streams = capsys.readouterr()
    assert (streams.out, bool(streams.err)) == ("", True)
    assert steps.calls == []
    assert [path.name for path in kernel.parent.iterdir()] == ["igemm.cu"]
    assert kernel.read_text(encoding="utf-8") == ORIGINAL


def test_options_reach_the_steps(steps: FakeSteps, kernel: Path) -> None:
    arguments = (
        "run igemm.cu -k igemm -p other.toml --device cpu --arch sm_86 --toolchain nvcc -Iinc -I inc2 -DX=1 "
        "-D Y -std=c++20 --variant cp_async --stages 3 --form ring --layout keep --fragments on --api primitives "
        "--plan plan.json --size small --seed 7 --max-steps 9 --no-reference --allow-launch-change "
        "--assume no-alias=A,B --assume no-alias=C --assume align=16 "
        "-- -use_fast_math --json -o"
    )
    assert main(arguments.split()) == 0
    options = steps.options
    assert options is not None
    assert (options.kernel, options.problem, options.device, options.arch) == (
        "igemm",
        "other.toml",
        "cpu",
        "sm_86",
    )
    assert (options.toolchain, options.variant, options.stages, options.form) == (
        "nvcc",
        "cp_async",
        3,
        "ring",
    )
    assert (options.fragments, options.api, options.max_steps) == ("on", "primitives", 9)
    assert (options.layout, options.plan, options.sizes) == ("keep", "plan.json", ("small",))
    assert options.seed == 7
    assert (options.use_reference, options.allow_launch_change) == (False, True)
    assert options.no_alias == {"A", "B", "C"}
    assert options.aligned
    assert options.compile.include_dirs == ("inc", "inc2")
    assert options.compile.defines == ("X=1", "Y")
    assert options.compile.std == "c++20"
    assert options.compile.extra == ("-use_fast_math", "--json", "-o")


def test_run_writes_nowhere_unless_told(steps: FakeSteps, kernel: Path, capsys: Capture) -> None:
    assert main(["run", "igemm.cu"]) == 0
    streams = capsys.readouterr()
    assert "pipelined as cp_async-3-ring" in streams.out
    assert CHANGED not in streams.out
    assert "tilepipe: 1 of 7" in streams.err
    assert [path.name for path in kernel.parent.iterdir()] == ["igemm.cu"]


def test_rewrite_prints_the_source_and_nothing_else_on_stdout(
    steps: FakeSteps, kernel: Path, capsys: Capture
) -> None:
    assert main(["rewrite", "igemm.cu"]) == 0
    streams = capsys.readouterr()
    assert streams.out == CHANGED
    assert "pipelined" in streams.err


@pytest.mark.parametrize("command", ["run", "rewrite"])
def test_output_file(command: str, steps: FakeSteps, kernel: Path, capsys: Capture) -> None:
    assert main([command, "igemm.cu", "-o", "out.cu", "--json", "out.json"]) == 0
    assert Path("out.cu").read_text(encoding="utf-8") == CHANGED
    value = json.loads(Path("out.json").read_text(encoding="utf-8"))
    assert value["output"] == "out.cu"
    assert "source" not in value
    assert CHANGED not in capsys.readouterr().out


def test_diff(steps: FakeSteps, kernel: Path, capsys: Capture) -> None:
    assert main(["rewrite", "igemm.cu", "--diff"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("--- a/igemm.cu\n+++ b/igemm.cu\n")
    assert f"-{ORIGINAL}+{CHANGED}" in out
    assert kernel.read_text(encoding="utf-8") == ORIGINAL


def test_in_place_keeps_line_endings_mark_and_a_backup(steps: FakeSteps, kernel: Path) -> None:
    before = b"\xef\xbb\xbf" + ORIGINAL.replace("\n", "\r\n").encode()
    kernel.write_bytes(before)
    assert main(["run", "igemm.cu", "--in-place"]) == 0
    assert kernel.read_bytes() == b"\xef\xbb\xbf" + CHANGED.replace("\n", "\r\n").encode()
    assert Path("igemm.cu.bak").read_bytes() == before


@pytest.mark.parametrize("spelling", [["--json", "-"], ["--json"], ["--json", "--seed", "1"]], ids=" ".join)
def test_json_on_stdout_is_only_json(
    spelling: list[str], steps: FakeSteps, kernel: Path, capsys: Capture
) -> None:
    assert main(["run", "igemm.cu", *spelling]) == 0
    value = json.loads(capsys.readouterr().out)
    assert (value["outcome"], value["source"], value["output"]) == ("pipelined", CHANGED, None)


def test_a_cuda_file_behind_json_is_the_input(steps: FakeSteps, kernel: Path, capsys: Capture) -> None:
    assert main(["run", "--json", "igemm.cu"]) == 0
    assert json.loads(capsys.readouterr().out)["outcome"] == "pipelined"
    assert kernel.read_text(encoding="utf-8") == ORIGINAL


@pytest.mark.parametrize(
    ("result", "code"),
    [(REFUSED, 1), (KEPT, 1), (error("TP200", "does not compile"), 2), (replace(RACY, source=CHANGED), 3)],
    ids=["refused", "kept", "error", "racy"],
)
def test_nothing_is_written_that_did_not_earn_it(
    result: Any, code: int, steps: FakeSteps, kernel: Path, capsys: Capture
) -> None:
    steps.result = result
    assert main(["run", "igemm.cu", "-o", "out.cu", "--json", "out.json"]) == code
    assert not Path("out.cu").exists()
    assert "schema_version" in json.loads(Path("out.json").read_text(encoding="utf-8"))
    assert CHANGED not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("result", "code"), [(REFUSED, 0), (KEPT, 0), (RACY, 3)], ids=["refused", "kept", "racy"]
)
@pytest.mark.parametrize("target", ["out.cu", "-"])
def test_or_original_leaves_the_original(
    result: Any, code: int, target: str, steps: FakeSteps, kernel: Path, capsys: Capture
) -> None:
    steps.result = result
    assert main(["run", "igemm.cu", "-o", target, "--or-original"]) == code
    left = capsys.readouterr().out if target == "-" else Path(target).read_text(encoding="utf-8")
    assert left == ORIGINAL


@pytest.mark.parametrize("target", ["out.cu", "-"])
def test_or_original_leaves_nothing_that_may_not_compile(
    target: str, steps: FakeSteps, kernel: Path, capsys: Capture
) -> None:
    steps.result = error("TP200", "does not compile")
    assert main(["run", "igemm.cu", "-o", target, "--or-original"]) == 2
    assert capsys.readouterr().out == "" or target != "-"
    assert not Path("out.cu").exists()


@pytest.mark.parametrize("option", ["-o", "--json", "--html", "--trace"])
@pytest.mark.parametrize("target", ["no/such/file", "folder", "igemm.cu/file"])
def test_an_unwritable_target_is_found_before_the_work(
    option: str, target: str, steps: FakeSteps, kernel: Path, capsys: Capture
) -> None:
    Path("folder").mkdir()
    assert main(["run", "igemm.cu", option, target]) == 2
    assert steps.calls == []
    assert capsys.readouterr().err.count("TP142 error") == 1


def test_a_device_can_be_written(steps: FakeSteps, kernel: Path) -> None:
    assert main(["run", "igemm.cu", "-o", "/dev/null"]) == 0


def test_a_bench_without_a_gpu_is_4(steps: FakeSteps, kernel: Path, capsys: Capture) -> None:
    unknown = Evidence(benchmark=Benchmark("unknown", reason="no GPU on this machine"))
    steps.result = replace(PIPELINED, outcome=None, chosen=None, evidence=unknown)
    assert main(["bench", "igemm.cu"]) == 4
    out = capsys.readouterr().out
    assert "igemm: not timed" in out and "budget" not in out
    assert main(["bench", "igemm.cu", "--require", "benchmark"]) == 4


@pytest.mark.parametrize(
    ("command", "plan"), [("run", True), ("check", True), ("rewrite", False), ("sass", False)]
)
def test_the_plan_is_shown_where_it_is_made(
    command: str, plan: bool, steps: FakeSteps, kernel: Path, capsys: Capture
) -> None:
    assert main([command, "igemm.cu"]) == 0
    streams = capsys.readouterr()
    assert ("\nbudget\n" in streams.out + streams.err) == plan
    assert "cp_async-3-ring" in streams.out + streams.err


def test_choices_that_the_help_lists_are_those_there_are() -> None:
    assert opt.VARIANTS.split("|") == list(get_args(Variant))
    assert opt.FORMS.split("|") == list(get_args(Form))
    assert ALL_EVIDENCE == EVIDENCE


def test_or_original_also_when_the_kernel_cannot_be_opened(steps: FakeSteps, kernel: Path) -> None:
    steps.jobs = REFUSED
    assert main(["run", "igemm.cu", "-o", "out.cu", "--or-original"]) == 0
    assert Path("out.cu").read_text(encoding="utf-8") == ORIGINAL


def test_or_original_takes_host_code_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("host.cu").write_bytes(b"int main() { return 0; }\r\n")
    assert main(["run", "host.cu", "-o", "plain.cu"]) == 2
    assert not Path("plain.cu").exists()
    assert main(["run", "host.cu", "-o", "out.cu", "--or-original"]) == 0
    assert Path("out.cu").read_bytes() == Path("host.cu").read_bytes()
    assert "TP144" in capsys.readouterr().err
    Path("kernel.cu").write_text("__global__ void k() {}")
    assert main(["run", "kernel.cu", "-o", "no.cu", "--or-original", "-k", "other"]) == 2
    assert not Path("no.cu").exists()


def test_required_evidence_that_is_missing_is_4(steps: FakeSteps, kernel: Path) -> None:
    unknown = replace(PIPELINED.evidence, benchmark=None)
    steps.result = replace(PIPELINED, evidence=unknown, source=CHANGED)
    assert main(["run", "igemm.cu", "-o", "a.cu", "--require", "correctness, races"]) == 0
    assert main(["run", "igemm.cu", "-o", "b.cu", "--require", "benchmark"]) == 4
    assert (Path("a.cu").exists(), Path("b.cu").exists()) == (True, False)


def test_an_unwritable_output_is_2_and_in_the_json(steps: FakeSteps, kernel: Path, capsys: Capture) -> None:
    assert main(["run", "igemm.cu", "-o", "no/such/out.cu", "--json", "-"]) == 2
    streams = capsys.readouterr()
    assert "TP142 error" in streams.err
    assert [d["code"] for d in json.loads(streams.out)["diagnostics"]][-1] == "TP142"


def test_an_unwritable_json_is_2(steps: FakeSteps, kernel: Path, capsys: Capture) -> None:
    assert main(["check", "igemm.cu", "--json", "no/such/out.json"]) == 2
    assert "TP142 error" in capsys.readouterr().err


def test_check_covers_every_kernel(steps: FakeSteps, kernel: Path, capsys: Capture) -> None:
    steps.jobs = ("one", "two")
    results = iter([RunReport(), refused_report(REFUSED)])
    steps.result = lambda: next(results)
    assert main(["check", "igemm.cu", "--json"]) == 1
    value = json.loads(capsys.readouterr().out)
    assert [v.get("outcome") for v in value] == [None, "refused"]
    assert steps.calls == [("open", "igemm.cu"), ("check", "one"), ("check", "two")]


def test_check_of_one_kernel_is_an_object(steps: FakeSteps, kernel: Path, capsys: Capture) -> None:
    assert main(["check", "igemm.cu", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kernel"]["name"] == "igemm"


@pytest.mark.parametrize(
    ("arguments", "call"),
    [
        (["verify", "igemm.cu", "new.cu", "--changed-problem", "new.toml"], ("verify", "job", "new.cu")),
        (["bench", "igemm.cu"], ("bench", "job")),
        (["sass", "igemm.cu"], ("sass", "job")),
        (["sass", "igemm.cu", "--as-is"], ("inspect_kernel", "job")),
        (["sass", "igemm.cubin", "-k", "igemm"], ("inspect_cubin", "igemm.cubin", "igemm")),
    ],
    ids=["verify", "bench", "sass", "sass as it is", "sass of a cubin"],
)
def test_examinations(arguments: list[str], call: tuple[str, ...], steps: FakeSteps, kernel: Path) -> None:
    steps.result = replace(PIPELINED, outcome=None, source=None)
    assert main(arguments) == 0
    assert steps.calls[-1] == call
    steps.result = RACY
    assert main(arguments) == 3


def test_a_refusal_is_shown_on_stderr(steps: FakeSteps, kernel: Path, capsys: Capture) -> None:
    steps.jobs = REFUSED
    assert main(["check", "igemm.cu"]) == 1
    streams = capsys.readouterr()
    assert "TP012 refused: tile `As` is read" in streams.err
    assert "TP012" not in streams.out


def raising(failure: BaseException) -> Callable[[], Any]:
    def fail() -> Any:
        raise failure

    return fail


def test_a_bug_is_a_coded_message(
    steps: FakeSteps, kernel: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps.result = raising(ZeroDivisionError("of all things"))
    assert main(["run", "igemm.cu"]) == 2
    message = capsys.readouterr().err
    assert "TP199 error: internal error: ZeroDivisionError: of all things" in message
    assert "TILEPIPE_DEBUG=1" in message
    assert "Traceback" not in message
    monkeypatch.setenv("TILEPIPE_DEBUG", "1")
    assert main(["run", "igemm.cu"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_source_that_nests_too_deeply_is_told(steps: FakeSteps, kernel: Path, capsys: Capture) -> None:
    steps.result = raising(RecursionError("maximum recursion depth exceeded"))
    assert main(["run", "igemm.cu"]) == 2
    assert "TP161 error: the source is nested too deeply" in capsys.readouterr().err


@pytest.mark.parametrize("macro", ["", "=1", "3", "A B", "-x"])
def test_a_macro_needs_a_name(macro: str, kernel: Path, capsys: Capture) -> None:
    assert main(["check", "igemm.cu", "-D", macro]) == 2
    assert f"`{macro}` is no NAME or NAME=VALUE" in capsys.readouterr().err


def test_an_interruption_is_130_and_leaves_nothing(steps: FakeSteps, kernel: Path, capsys: Capture) -> None:
    steps.result = raising(KeyboardInterrupt())
    assert main(["run", "igemm.cu", "-o", "out.cu"]) == 130
    assert [path.name for path in kernel.parent.iterdir()] == ["igemm.cu"]


def test_init_writes_beside_and_overwrites_nothing(steps: FakeSteps, kernel: Path, capsys: Capture) -> None:
    assert main(["init", "igemm.cu"]) == 0
    assert Path("igemm.toml").read_text(encoding="utf-8") == "schema = 1\n"
    Path("igemm.toml").write_text("mine", encoding="utf-8")
    assert main(["init", "igemm.cu"]) == 2
    assert Path("igemm.toml").read_text(encoding="utf-8") == "mine"
    capsys.readouterr()
    assert main(["init", "igemm.cu", "-o", "-"]) == 0
    assert capsys.readouterr().out == "schema = 1\n"


def test_gpus_shows_the_cliffs(capsys: Capture) -> None:
    assert main(["gpus"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines and not any(line.endswith(" ") for line in lines)
    line = next(line for line in lines if line.startswith("sm_86"))
    assert line.split()[:7] == ["sm_86", "102400", "1536", "16", "yes", "101376", "50176"]


def test_explain(capsys: Capture) -> None:
    assert main(["explain", "TP142"]) == 0
    assert capsys.readouterr().out.startswith("# TP142: ")
    assert main(["explain"]) == 0
    assert "TP142  an output cannot be written" in capsys.readouterr().out


@pytest.mark.parametrize("read", ["igemm.toml", "tiles.cuh"])
def test_an_output_does_not_destroy_what_is_read(
    read: str, steps: FakeSteps, kernel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """TP140 for a problem file and for a header that FILE includes."""
    kernel.write_text('#include "tiles.cuh"\n' + ORIGINAL, encoding="utf-8")
    target = kernel.parent / read
    target.write_text("kept", encoding="utf-8")
    assert main(["rewrite", "igemm.cu", "-o", read]) == 2
    assert "TP140" in capsys.readouterr().err
    assert (target.read_text(encoding="utf-8"), steps.calls) == ("kept", [])
