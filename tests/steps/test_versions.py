"""`verify`: what cannot be compared is an error, and what is wrong is told with the changed file's name and line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tilepipe.diagnostics import Diagnostic, Refusal
from tilepipe.opening import open_job
from tilepipe.options import Options
from tilepipe.report import RunReport, exit_code, to_json, words
from tilepipe.steps import verify

KERNEL = """\
__global__ void scaled(const float* x, float* y, float alpha, int n) {
  __shared__ float tile[64];
  float sum = 0.0f;
  for (int k = 0; k < n; k += 64) {
    tile[threadIdx.x] = x[k + threadIdx.x];
    __syncthreads();
    for (int i = 0; i < 64; ++i) sum += tile[i];
    __syncthreads();
  }
  y[threadIdx.x] = alpha * sum;
}
"""
PROBLEM = """\
schema = 1
[kernels.scaled]
grid  = ["1"]
block = ["64"]
args = [
  { name = "x", in  = ["n"] },
  { name = "y", out = ["64"] },
  { value = "0.75" },
  { value = "n" },
]
[kernels.scaled.sizes]
small = { n = 192 }
more  = { n = 256 }
"""
DYNAMIC = KERNEL.replace("__shared__ float tile[64];", "extern __shared__ float tile[];")
PARAMETERS = "const float* x, float* y, float alpha, int n"
Versions = Callable[..., RunReport | Refusal]


@pytest.fixture
def versions(tmp_path: Path) -> Versions:
    """Holds one text against another; `changed_problem` is the text of a problem file."""

    def run(
        original: str, changed: str, problem: str = PROBLEM, changed_problem: str | None = None
    ) -> RunReport | Refusal:
        (tmp_path / "k.toml").write_text(problem)
        (tmp_path / "k.cu").write_text(original)
        (tmp_path / "own").mkdir()
        (tmp_path / "own" / "two.h").write_text("#define TWO 2\n")
        (tmp_path / "own" / "fast.cu").write_text(changed)
        own = tmp_path / "own" / "fast.toml"
        own.write_text(changed_problem or "")
        options = Options(device="cpu", changed_problem=str(own) if changed_problem else None)
        job = open_job(str(tmp_path / "k.cu"), options)
        assert not isinstance(job, Refusal), job
        return verify(job, str(tmp_path / "own" / "fast.cu"), lambda _: None)

    return run


def told(found: RunReport | Refusal) -> tuple[list[Diagnostic], int]:
    if isinstance(found, Refusal):
        return list(found.diagnostics), found.exit_code
    return list(found.diagnostics), exit_code(found)


def is_at(diagnostic: Diagnostic, text: str) -> bool:
    place = diagnostic.place
    return place is not None and place.file.endswith("own/fast.cu") and text in place.text


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        (PARAMETERS + ", int extra", "has 5 parameters, and 4"),
        ("const float* x, float* y, float alpha", "has 3 parameters, and 4"),
        (PARAMETERS.replace("float alpha", "int alpha"), "parameter 3 of `scaled` is `int`, and `float`"),
        (PARAMETERS.replace("int n", "long n"), "parameter 4 of `scaled` is `long`, and `int`"),
        (PARAMETERS.replace("float* y", "float y0"), "parameter 2 of `scaled` is `float`, and `float *`"),
    ],
)
def test_a_kernel_that_takes_other_arguments_is_an_error(
    parameters: str, words: str, versions: Versions
) -> None:
    body = "{ }\n" if "y0" in parameters or "int n" not in parameters else KERNEL.partition(")")[2]
    (diagnostic,), exits = told(versions(KERNEL, f"__global__ void scaled({parameters}) {body}"))
    assert (diagnostic.code, diagnostic.severity, exits) == ("TP162", "error", 2)
    assert words in diagnostic.message and is_at(diagnostic, "scaled(")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (PARAMETERS, "const float* __restrict__ x, float* y, const float alpha, unsigned n"),
        ("const float* x, float* y", "const float4* v, float* y"),
        ("k += 64", "k += TWO * 32"),
    ],
)
def test_the_same_kernel_in_other_words_passes(old: str, new: str, versions: Versions) -> None:
    changed = KERNEL.replace(old, new).replace("int k = 0; k < n", "int k = 0; k < int(n)")
    if "float4" in new:
        changed = changed.replace(
            "  float sum", "  const float* x = reinterpret_cast<const float*>(v);\n  float sum"
        )
    found, exits = told(versions(KERNEL, '#include "two.h"\n' + changed))
    assert (found, exits) == ([], 0)


def test_other_results_are_told_with_the_changed_kernels_place(versions: Versions) -> None:
    report = versions(KERNEL, "\n\n" + KERNEL.replace("alpha * sum", "sum"))
    (diagnostic,), exits = told(report)
    assert (diagnostic.code, exits) == ("TP437", 3)
    assert is_at(diagnostic, "scaled(") and diagnostic.place is not None and diagnostic.place.line == 3
    assert "size small: `y` differs" in diagnostic.message
    assert isinstance(report, RunReport)
    assert to_json(report)["diagnostics"][0]["code"] == "TP437"
    correctness = next(iter(words.evidence_lines(report))).text
    assert correctness.startswith("DIFFERS from the original at small, more; ")
    assert correctness.count("`y` differs") == 1


def test_findings_are_told_at_their_lines_of_the_changed_file(versions: Versions) -> None:
    racy = KERNEL.replace("    for (int i", "    tile[0] = 1.0f; tile[0] = 0.0f;\n    for (int i")
    report = versions(KERNEL, racy)
    found, exits = told(report)
    assert exits == 3 and {d.code for d in found} == {"TP437"}
    assert any(is_at(d, "tile[0] = 1.0f") and "race" in d.label for d in found)
    assert isinstance(report, RunReport)
    races = list(words.evidence_lines(report))[1]
    assert "own/fast.cu:7: write-write race: thread " in races.text


def test_a_kernel_that_no_device_can_launch_fails(versions: Versions) -> None:
    many = PROBLEM.replace('block = ["64"]', 'block = ["64"]\nshared = "1000000"')
    (diagnostic,), exits = told(versions(KERNEL, KERNEL, changed_problem=many))
    assert (diagnostic.code, exits) == ("TP437", 3)
    assert "does not run: TP302" in diagnostic.message and "deterministic" not in diagnostic.message


def test_what_cannot_be_run_here_is_neither_right_nor_wrong(versions: Versions) -> None:
    counter = '  asm volatile("mov.u32 %0, %%pm0;" : "=r"(n));\n'
    unknown = KERNEL.replace("  float sum", f"{counter}  float sum")
    report = versions(KERNEL, unknown)
    (diagnostic,), exits = told(report)
    assert (diagnostic.code, diagnostic.severity, exits) == ("TP438", "warning", 0)
    assert "TP300" in diagnostic.message and is_at(diagnostic, "scaled(")
    assert isinstance(report, RunReport) and exit_code(report, ("correctness",)) == 4


HOST = "void run(const float* x, float* y, int n) {{ scaled<<<1, 64, {}>>>(x, y, 0.75f, n); }}\n"


@pytest.mark.parametrize(
    ("host", "words"),
    [
        (HOST.format("256 + 512"), "line 12 of {file} asks for `256 + 512`: copy {problem}"),
        ("", "; if it needs more, copy {problem}"),
    ],
)
def test_too_little_shared_memory_names_the_option(host: str, words: str, versions: Versions) -> None:
    given = PROBLEM.replace('block = ["64"]', 'block = ["64"]\nshared = "256"')
    wide = DYNAMIC.replace("tile[threadIdx.x]", "tile[threadIdx.x + 128]").replace("tile[i]", "tile[i + 128]")
    found, exits = told(versions(DYNAMIC + HOST.format("256"), wide + host, given))
    assert exits == 3 and found[0].code == "TP437"
    assert "--changed-problem" in found[0].help
    assert ('write `shared = "256 + 512"` into the copy' in found[0].help) == bool(host)
    before, _, after = words.partition("{file}" if host else "{problem}")
    assert before in found[0].help and after.partition("{problem}")[0] in found[0].help


def test_with_its_own_problem_file_it_passes(versions: Versions) -> None:
    given = PROBLEM.replace('block = ["64"]', 'block = ["64"]\nshared = "256"')
    wide = DYNAMIC.replace("tile[threadIdx.x]", "tile[threadIdx.x + 128]").replace("tile[i]", "tile[i + 128]")
    own = given.replace('"256"', '"768"')
    assert told(versions(DYNAMIC, wide, given, own)) == ([], 0)


def test_where_no_shared_memory_is_lacking_the_option_is_not_named(versions: Versions) -> None:
    given = PROBLEM.replace('block = ["64"]', 'block = ["64"]\nshared = "256"')
    found, exits = told(versions(DYNAMIC, DYNAMIC.replace("alpha * sum", "sum"), given))
    assert exits == 3 and "--changed-problem" not in "".join(d.help for d in found)
