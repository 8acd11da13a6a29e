"""`tilepipe emulate`: what it reports and how it exits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tilepipe.cli.main import main

Capture = pytest.CaptureFixture[str]
POC = Path(__file__).parent.parent / "zoo" / "poc"

# Transposes through shared memory; WIDTH 32 makes the column reads meet in one bank.
TRANSPOSE = """\
extern "C" __global__ void transpose(const float* in, float* out, int n) {
  __shared__ float tile[32][WIDTH];
  const int x = threadIdx.x, y = threadIdx.y;
  tile[y][x] = in[(blockIdx.y * 32 + y) * n + blockIdx.x * 32 + x];
  __syncthreads();
  out[(blockIdx.x * 32 + y) * n + blockIdx.y * 32 + x] = tile[x][y];
}
"""
PROBLEM = """\
schema = 1
[kernels.transpose]
grid = ["n // 32", "n // 32"]
block = ["32", "32"]
args = [{ name = "in", in = ["n", "n"] }, { name = "out", out = ["n", "n"] }, { value = "n" }]
[kernels.transpose.sizes]
one = { n = 32 }
two = { n = 64 }
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: Path, text: str) -> None:
    (folder / "t.cu").write_text(text)
    (folder / "t.toml").write_text(PROBLEM)


def emulated(arguments: str, capsys: Capture) -> tuple[int, dict[str, Any], str]:
    """Exit code, JSON and messages."""
    code = main(["emulate", *arguments.split(), "--json", "-"])
    streams = capsys.readouterr()
    return code, json.loads(streams.out), streams.err


def test_a_clean_kernel_with_bank_conflicts(folder: Path, capsys: Capture) -> None:
    write(folder, TRANSPOSE.replace("WIDTH", "32"))
    code, value, messages = emulated("t.cu", capsys)
    assert (code, value["clean"], value["kernel"]["name"]) == (0, True, "transpose")
    assert list(value["sizes"]) == ["one", "two"]
    run = value["sizes"]["two"]
    assert (run["blocks_run"], run["blocks_total"], run["within_tolerance"]) == (4, 4, None)
    by_line = {a["line"]: a for a in run["shared"]}
    assert (by_line[4]["degree"], by_line[6]["degree"], by_line[6]["worst"]) == (1.0, 32.0, 32)
    assert {a["array"]: a["sectors"] for a in run["global"]} == {"in": 4.0, "out": 4.0}
    work = run["work"]
    assert (work["load_bytes"], work["tiles"], work["load_bytes_per_tile"]) == (4 * 4096, 4, 4096)
    assert (work["flops"], work["flops_per_tile"], work["flops_per_byte"]) == (0, None, None)
    assert "transpose: clean at 2 sizes on the CPU" in messages


def test_padding_takes_the_conflicts_away(folder: Path, capsys: Capture) -> None:
    write(folder, TRANSPOSE.replace("WIDTH", "33"))
    code, value, _ = emulated("t.cu --size one", capsys)
    assert (code, list(value["sizes"])) == (0, ["one"])
    assert {a["degree"] for a in value["sizes"]["one"]["shared"]} == {1.0}


def test_a_race_is_3_with_a_caret_on_the_authors_line(folder: Path, capsys: Capture) -> None:
    write(folder, TRANSPOSE.replace("WIDTH", "33").replace("  __syncthreads();\n", ""))
    code, value, messages = emulated("t.cu", capsys)
    assert (code, value["clean"]) == (3, False)
    kinds = {f["kind"] for run in value["sizes"].values() for f in run["findings"]}
    assert "write-read race" in kinds
    assert "t.cu:5:3: TP305 error: thread" in messages
    assert "5 |   out[(blockIdx.x * 32 + y)" in messages
    assert "write-read race; the other access is on line 4" in messages
    assert "(size one and 1 more" in messages


def test_blocks_that_race_are_3(folder: Path, capsys: Capture) -> None:
    write(folder, TRANSPOSE.replace("WIDTH", "33").replace("out[(blockIdx.x * 32 + y)", "out[y"))
    code, value, messages = emulated("t.cu", capsys)
    assert (code, value["sizes"]["one"]["findings"]) == (3, [])
    (found,) = value["sizes"]["two"]["findings"]
    assert (found["kind"], found["where"], found["lines"]) == ("race between blocks", "out[0]", [6, 6])
    assert "the other block's access is on line 6" in messages


def test_a_block_with_too_few_steps_counts_as_endless(folder: Path, capsys: Capture) -> None:
    write(folder, TRANSPOSE.replace("WIDTH", "33"))
    code, value, messages = emulated("t.cu --size one --max-steps 2000", capsys)
    assert code == 3 and "TP305" in messages
    (found,) = value["sizes"]["one"]["findings"]
    assert found["kind"] == "non-terminating" and "--max-steps" in found["message"]


def test_a_run_that_was_stopped_is_held_against_no_reference(capsys: Capture) -> None:
    file = POC / "naive_sgemm.cu"
    code, value, messages = emulated(f"{file} --size small --max-steps 20", capsys)
    assert (code, value["sizes"]["small"]["within_tolerance"]) == (3, None)
    assert "TP305" in messages and "TP306" not in messages and "not compared: it was stopped" in messages


def test_constants_are_no_global_memory_and_zero(folder: Path, capsys: Capture) -> None:
    source = TRANSPOSE.replace("WIDTH", "33").replace("= tile", "= unset * given[1] * tile")
    write(folder, "__constant__ float unset, other, given[2] = {1, 2};\n" + source)
    code, value, messages = emulated("t.cu --size one", capsys)
    assert (code, value["kernel"]["line"]) == (0, 2)
    assert {a["array"] for a in value["sizes"]["one"]["global"]} == {"in", "out"}
    assert [m for m in messages.splitlines() if "TP126 note" in m] == [
        "t.cu:1:1: TP126 note: `unset` holds zeros in every run here: only host code fills it"
    ]


def test_a_wrong_result_is_3(folder: Path, capsys: Capture) -> None:
    source = (POC / "naive_sgemm.cu").read_text()
    (folder / "s.cu").write_text(source.replace("acc += As", "acc -= As"))
    code, value, messages = emulated(f"s.cu -p {POC / 'naive_sgemm.toml'} --size short1", capsys)
    assert (code, value["sizes"]["short1"]["within_tolerance"]) == (3, False)
    assert "TP306 error: size short1: the result is outside the tolerance" in messages


def test_work_per_tile_is_measured(capsys: Capture) -> None:
    """16 x 16 x 16 tiles: two of 1 KB are loaded, 16^3 multiply-adds done; ragged edges load less."""
    code, value, _ = emulated(f"{POC / 'naive_sgemm.cu'} --size small --size ragged --size short0", capsys)
    assert code == 0
    small, ragged = value["sizes"]["small"], value["sizes"]["ragged"]
    assert small["work"] == {
        "load_bytes": 20 * 2048,
        "flops": 20 * 8192,
        "flops_per_byte": 4.0,
        "tiles": 20,
        "load_bytes_per_tile": 2048,
        "flops_per_tile": 8192,
    }
    assert (small["within_tolerance"], ragged["within_tolerance"]) == (True, True)
    assert ragged["work"]["load_bytes_per_tile"] < 2048
    assert value["sizes"]["short0"]["work"]["tiles"] is None


def test_blocks_are_sampled(capsys: Capture) -> None:
    file = POC / "naive_sgemm.cu"
    for wanted, ran in (("3", 3), ("1", 1), ("all", 6), ("100", 6)):
        _, value, _ = emulated(f"{file} --size ragged --blocks {wanted}", capsys)
        run = value["sizes"]["ragged"]
        assert (run["blocks_run"], run["blocks_total"]) == (ran, 6), wanted
        assert (run["within_tolerance"] is None) == (ran < 6)


def test_both_ways_of_landing_for_kernels_with_asynchronous_copies(capsys: Capture) -> None:
    code, value, _ = emulated(f"{POC.parent / 'axpy_async_ring.cu'} --size short2", capsys)
    assert (code, value["copies"]) == (0, ["late", "early"])
    work = value["sizes"]["short2"]["work"]
    assert (work["load_bytes"], work["flops"]) == (4 * 8192, 4 * 2048)


@pytest.mark.full
def test_a_pipeline_on_mbarriers_has_work_but_no_tiles(capsys: Capture) -> None:
    """Its state in shared memory, read through generic addresses, is no load from global memory, and the
    tables that the compiler makes are none from an array."""
    code, value, _ = emulated(f"{POC / 'cuda_pipeline.cu'} -k sgemm_cudapipe --size short2", capsys)
    work = value["sizes"]["short2"]["work"]
    assert (code, work["flops_per_byte"], work["tiles"]) == (0, 4.0, None)


def test_the_tables(capsys: Capture) -> None:
    assert main(["emulate", str(POC / "naive_sgemm.cu"), "--size", "small"]) == 0
    out = capsys.readouterr().out
    assert "4 of 4  within" in out
    assert "shared memory (size small)" in out and "global memory (size small)" in out
    row = next(line.split() for line in out.splitlines() if line.split()[:3] == ["13", "load", "As"])
    assert row[3:] == ["2560", "1.0", "1", "1.0", "1.0"]


@pytest.mark.parametrize("wrong", ["0", "-3", "some", "1.5"])
def test_wrong_numbers_of_blocks(wrong: str, folder: Path, capsys: Capture) -> None:
    write(folder, TRANSPOSE)
    assert main(["emulate", "t.cu", f"--blocks={wrong}"]) == 2
    assert "--blocks" in capsys.readouterr().err


def test_without_a_problem_file(folder: Path, capsys: Capture) -> None:
    (folder / "t.cu").write_text(TRANSPOSE.replace("WIDTH", "32"))
    code, value, messages = emulated("t.cu", capsys)
    assert (code, value["diagnostics"][0]["code"]) == (2, "TP304")
    assert "TP304" in messages
