"""`tilepipe lint` from the command line: exit codes, JSON, fixes with a backup, the emulator's findings."""

import json
import shutil
from pathlib import Path

import pytest

from tilepipe.cli.main import main

ROOT = Path(__file__).parents[2]
CASES = Path(__file__).parent / "cases"


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """A ring whose wait leaves one group too many in flight."""
    path = tmp_path / "ring.cu"
    shutil.copy(CASES / "TP502" / "bad_ring.cu", path)
    return path


def test_findings_are_exit_code_3_with_a_caret_on_stderr(
    broken: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lint", str(broken)]) == 3
    shown = capsys.readouterr()
    assert "TP502 error" in shown.err and "^^^" in shown.err and "help:" in shown.err
    assert shown.out == ""


def test_a_clean_file_is_exit_code_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", str(CASES / "TP502" / "good_ring.cu")]) == 0
    assert capsys.readouterr().err.endswith(": no findings\n")


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("__global__", "__device__ int undefined() { return not_there; }\n__global__", "TP200"),
        ("__global__", '#include "not_there.h"\n__global__', "TP201"),
    ],
)
def test_that_nothing_is_found_in_what_does_not_compile_is_no_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, code: str
) -> None:
    path = tmp_path / "k.cu"
    path.write_text((CASES / "TP502" / "good_ring.cu").read_text().replace(old, new, 1))
    assert main(["lint", str(path), "--json"]) == 2
    shown = capsys.readouterr()
    assert code in shown.err and "no findings" not in shown.err and "does not compile" in shown.err
    assert [e["code"] for e in json.loads(shown.out)["compile_errors"]] == [code]


def test_a_second_kernel_that_does_not_compile_is_seen_unless_another_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "k.cu"
    good = (CASES / "TP502" / "good_ring.cu").read_text()
    path.write_text(good + "__global__ void other(int* p) { *p = not_there; }\n")
    assert main(["lint", str(path)]) == 2
    assert "not_there" in capsys.readouterr().err
    assert main(["lint", str(path), "-k", "rowsum"]) == 0


def test_json_names_code_place_and_fix(broken: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", str(broken), "--json"]) == 3
    finding = json.loads(capsys.readouterr().out)["findings"][0]
    text = broken.read_text().splitlines()[finding["line"] - 1]
    assert finding["code"] == "TP502" and finding["kernel"] == "rowsum"
    assert "__pipeline_wait_prior" in text
    assert finding["fix"]["safety"] == "safe" and finding["fix"]["edits"]


def test_fix_writes_the_file_and_keeps_the_old_text(broken: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = broken.read_text()
    assert main(["lint", str(broken), "--fix"]) == 0
    assert "STAGES - 2" in broken.read_text()
    assert (broken.parent / "ring.cu.bak").read_text() == before
    assert main(["lint", str(broken)]) == 0


def test_kernels_can_be_chosen_and_must_exist(broken: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", str(broken), "-k", "rowsum"]) == 3
    assert main(["lint", str(broken), "-k", "other"]) == 2
    assert "TP145" in capsys.readouterr().err


def test_a_kernel_that_is_not_followed_is_named_on_request_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "k.cu"
    text = (CASES / "TP502" / "good_ring.cu").read_text()
    declared = "__device__ int unknown_count();\n__global__"
    text = text.replace("__global__", declared, 1)
    path.write_text(text.replace("wait_prior(STAGES - 2)", "wait_prior(unknown_count())"))
    assert main(["lint", str(path)]) == 0
    messages = capsys.readouterr().err
    assert "TP540" not in messages and "no findings; 1 kernel could not be followed (--verbose" in messages
    assert main(["lint", str(path), "--verbose"]) == 0
    assert "TP540" in capsys.readouterr().err


def test_with_a_problem_file_the_emulator_looks_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    zoo = ROOT / "tests" / "zoo"
    source, problem = zoo / "axpy_async_ring.cu", zoo / "axpy_async_ring.toml"
    assert main(["lint", str(source), "-p", str(problem)]) == 0
    path = tmp_path / "k.cu"
    # Every thread reads what it copied itself or what its neighbours did: only the memory model tells.
    path.write_text(
        source.read_text().replace("__pipeline_wait_prior(RING - 2);", "__pipeline_wait_prior(RING);")
    )
    assert main(["lint", str(path), "-p", str(problem)]) == 3
    assert "TP530" in capsys.readouterr().err


_HELPED = """\
__device__ __forceinline__ void put(volatile float* at, float x)
{
    *at = x;
}
extern "C" __global__ void k(const float* x, float* out)
{
    __shared__ float room[32];
    put(&room[threadIdx.x], x[threadIdx.x]);
    put(&out[threadIdx.x], room[threadIdx.x ^ 1]);
}
"""
_HELPED_PROBLEM = """\
schema = 1
[kernels.k]
grid = ["1"]
block = ["32"]
args = [{ name = "x", in = ["32"] }, { name = "out", out = ["32"] }]
[kernels.k.sizes]
small = { n = 1 }
"""


def test_a_race_in_a_helper_names_the_call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, other = tmp_path / "k.cu", tmp_path / "other.cu"
    for path in (source, other):
        path.write_text(_HELPED)
    source.with_suffix(".toml").write_text(_HELPED_PROBLEM)
    told = {}
    for words in (
        ["lint", str(source), "-p", str(source.with_suffix(".toml"))],
        ["verify", str(source), str(other)],
        ["emulate", str(source)],
    ):
        assert main(words) == 3
        shown = capsys.readouterr()
        told[words[0]] = " ".join((shown.out + shown.err).split())
    assert "the other side is line 3, called on line 8" in told["lint"]
    assert "(line 3, called on line 8, and line 9)" in told["verify"]
    assert "is on line 3, called on line 8" in told["emulate"]


def test_kernels_without_a_pipeline_are_no_findings_but_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A barrier is missing: nothing here has looked for it."""
    path = tmp_path / "k.cu"
    path.write_text((ROOT / "examples" / "igemm_wmma.cu").read_text().replace("__syncthreads();", "", 1))
    assert main(["lint", str(path)]) == 0
    assert "no findings; 1 kernel has no pipeline to look at: their barriers" in capsys.readouterr().err
    assert main(["lint", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["without_pipeline"] == ["igemm_wmma"]
