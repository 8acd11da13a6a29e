"""What is wrong in a problem file is an error with its place, before anything is built; a fault of the original is
told as such, once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.sampling import sampled

from tilepipe import pipeline_source, proving
from tilepipe.builds import build_candidate
from tilepipe.diagnostics import Diagnostic, Refusal
from tilepipe.evidence.types import Correctness, Races
from tilepipe.job import Job
from tilepipe.opening import open_job, open_jobs
from tilepipe.options import Options
from tilepipe.planning import Planned, preconditions_and_variant
from tilepipe.report import RunReport, exit_code
from tilepipe.rewrite import Rewrite
from tilepipe.steps import bench, check, draft, emulate, rewrite, run, sass, verify

KERNEL = """\
__global__ void axpy_tiles(const float* x, float* y, int n) {
  __shared__ float tile[64];
  float sum = 0.0f;
  for (int k = 0; k < n; k += 64) {
    tile[threadIdx.x] = x[k + threadIdx.x];
    __syncthreads();
    for (int i = 0; i < 64; ++i) sum += tile[i];
    __syncthreads();
  }
  y[threadIdx.x] = sum;
}
"""
PROBLEM = """\
schema = 1
[kernels.axpy_tiles]
grid  = ["1"]
block = ["64"]
args = [
  { name = "x", in  = ["n"], range = [-4, 4] },
  { name = "y", out = ["64"] },
  { value = "n" },
]
reference = "np.full(64, x.sum())"
[kernels.axpy_tiles.sizes]
small = { n = 192 }
"""


@pytest.fixture
def files(tmp_path: Path) -> Callable[[str], Path]:
    def write(problem: str, kernel: str = KERNEL) -> Path:
        (tmp_path / "k.toml").write_text(problem)
        path = tmp_path / "k.cu"
        path.write_text(kernel)
        return path

    return write


def opened(path: Path, **changes: object) -> Job | Refusal:
    return open_job(str(path), Options(device="cpu", **changes))  # type: ignore[arg-type]


def errors(path: Path, step: str) -> tuple[tuple[Diagnostic, ...], int, list[str]]:
    """The diagnostics of a step, its exit code, and what was begun."""
    begun: list[str] = []
    job = opened(path)
    if isinstance(job, Refusal):
        return job.diagnostics, job.exit_code, begun
    steps = {
        "run": lambda: run(job, begun.append),
        "check": lambda: check(job),
        "rewrite": lambda: rewrite(job),
        "sass": lambda: sass(job),
        "bench": lambda: bench(job, begun.append),
        "verify": lambda: verify(job, str(path), begun.append),
        "emulate": lambda: emulate(job, None, begun.append),
    }
    done = steps[step]()
    if isinstance(done, Refusal):
        return done.diagnostics, done.exit_code, begun
    assert isinstance(done, RunReport), done
    return done.diagnostics, exit_code(done), begun


BROKEN = {
    "a missing argument": ("  { value = \"n\" },\n", "", "TP114", "args"),
    "a reference that fails": ("x.sum()", "x.total()", "TP118", "reference"),
    "a reference that leaves": ("np.full(64, x.sum())", "exit(0)", "TP118", "reference"),
    "a reference of another shape": ("np.full(64", "np.full(63", "TP118", "reference"),
    "a value that does not fit": ('value = "n"', 'value = "n * 100000000"', "TP119", '{ value'),
    "contents that do not fit": ("range = [-4, 4]", 'max = "0"', "TP117", '{ name = "x"'),
    "a pointer for a scalar": ('{ value = "n" }', '{ name = "z", in = ["n"] }', "TP114", '{ name = "z"'),
    "too many threads": ('block = ["64"]', 'block = ["2048"]', "TP117", "block"),
    "too many threads in two dimensions": ('block = ["64"]', 'block = ["64", "32"]', "TP117", "block"),
    "an unknown kernel": ("[kernels.axpy_tiles", "[kernels.axpy_tile", "TP121", "[kernels.axpy_tile"),
    "a draft": ('block = ["64"]', 'block = ["64"]  # FILL IN the launch', "TP122", "FILL IN"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_problem_is_an_error_with_its_place(name: str, files: Callable[[str], Path]) -> None:
    old, new, code, under = BROKEN[name]
    assert old in PROBLEM
    diagnostics, exits, begun = errors(files(PROBLEM.replace(old, new)), "run")
    assert ([d.code for d in diagnostics], exits) == ([code], 2)
    place = diagnostics[0].place
    assert place is not None and place.file.endswith("k.toml")
    assert place.text[place.column - 1 :].startswith(under)
    assert not [line for line in begun if line.startswith("building")]


@pytest.mark.parametrize("step", ["check", "sass", "bench", "verify", "emulate"])
def test_every_command_says_it(step: str, files: Callable[[str], Path]) -> None:
    diagnostics, exits, _ = errors(files(PROBLEM.replace('  { value = "n" },\n', "")), step)
    assert ([d.code for d in diagnostics], exits) == (["TP114"], 2)


def test_more_threads_than_a_block_has_are_named(files: Callable[[str], Path]) -> None:
    diagnostics, _, _ = errors(files(PROBLEM.replace('["64"]\nargs', '["2048"]\nargs')), "run")
    assert "a block of 2048 threads" in diagnostics[0].message
    assert "1024" in diagnostics[0].help


def test_a_table_left_over_is_no_fault(files: Callable[[str], Path]) -> None:
    other = PROBLEM.replace("schema = 1\n", "").replace("axpy_tiles", "gone")
    assert errors(files(PROBLEM + other), "check")[1] == 0


def test_an_unknown_size_is_said_without_a_kernel_named(files: Callable[[str], Path]) -> None:
    path = files(PROBLEM)
    for kernel in (None, "axpy_tiles"):
        refused = open_jobs(str(path), Options(device="cpu", kernel=kernel, sizes=("small", "huge")))
        assert isinstance(refused, Refusal)
        assert refused.diagnostics[0].code == "TP148"


def test_a_draft_is_written_beside_a_broken_problem(files: Callable[[str], Path]) -> None:
    assert isinstance(draft(str(files("schema = 2\n")), Options()), str)


def test_the_good_one_is_pipelined_and_right(files: Callable[[str], Path]) -> None:
    diagnostics, exits, _ = errors(files(PROBLEM), "run")
    assert exits == 0
    assert not {d.code for d in diagnostics} & {"TP433", "TP434"}


@pytest.mark.parametrize(
    ("step", "old", "new", "words"),
    [
        ("run", 'block = ["64"]', 'block = ["96"]', "at size small: "),
        ("run", "x.sum()", "x.sum() + 1", "misses the reference"),
        ("verify", "x.sum()", "x.sum() + 1", "misses the reference"),
        ("verify", 'in  = ["n"]', 'in  = ["n - 64"]', "at size small: "),
    ],
)
def test_a_fault_of_the_original_is_told_once(
    step: str, old: str, new: str, words: str, files: Callable[[str], Path]
) -> None:
    assert old in PROBLEM
    diagnostics, exits, begun = errors(files(PROBLEM.replace(old, new)), step)
    assert (exits, [d.code for d in diagnostics if d.severity != "note"]) == (3, ["TP433"])
    assert words in diagnostics[-1].message and "`rtol` and `atol`" in diagnostics[-1].help
    assert len([line for line in begun if line.startswith("verifying")]) == 1


DYNAMIC = KERNEL.replace("__shared__ float tile[64];", "extern __shared__ float tile[];") + (
    "void go(const float* x, float* y, int n) {\n"
    "  const size_t bytes = 64 * sizeof(float);\n  axpy_tiles<<<1, 64, bytes>>>(x, y, n);\n}\n"
)
UNCHECKED = PROBLEM.replace('reference = "np.full(64, x.sum())"\n', "")


@pytest.mark.parametrize("step", sampled(["run", "verify", "emulate"], 3))
@pytest.mark.parametrize(
    ("shared", "words", "under"),
    sampled(
        [
            ("", "`shared` is missing or 0, and line 14 of", "[kernels.axpy_tiles]"),
            ('shared = "0"\n', "`shared` is missing or 0, and line 14 of", "shared"),
            ('shared = "128"\n', "`shared` may be too little, 128 bytes at least, and line 14 of", "shared"),
        ]
    ),
)
@pytest.mark.parametrize("problem", [PROBLEM, UNCHECKED], ids=["reference", "no reference"])
def test_too_little_shared_memory_is_told_where_it_is_given(
    step: str, shared: str, words: str, under: str, problem: str, files: Callable[[str], Path]
) -> None:
    path = files(problem.replace("args = [", f"{shared}args = ["), DYNAMIC)  # type: ignore[call-arg]
    diagnostics, exits, _ = (emulated if step == "emulate" else errors)(path, step)
    assert exits == 3
    (note,) = [d for d in diagnostics if d.severity == "note" and "`shared`" in d.message]
    assert note.code == ("TP305" if step == "emulate" else "TP433") and words in note.message
    assert note.help == 'write `shared = "64 * 4"`'
    assert note.place is not None and note.place.file.endswith("k.toml")
    assert note.place.text[note.place.column - 1 :].startswith(under)


def emulated(path: Path, step: str) -> tuple[tuple[Diagnostic, ...], int, list[str]]:
    job = opened(path)
    assert isinstance(job, Job)
    done = emulate(job, None, lambda _: None)
    assert not isinstance(done, Refusal), step
    return done.diagnostics, 0 if done.is_clean else 3, []


def test_enough_shared_memory_is_pipelined_without_a_word_of_it(files: Callable[[str], Path]) -> None:
    path = files(UNCHECKED.replace("args = [", 'shared = "256"\nargs = ['), DYNAMIC)  # type: ignore[call-arg]
    diagnostics, exits, _ = errors(path, "run")
    assert exits == 0 and not [d for d in diagnostics if "`shared`" in d.message]


def test_races_of_the_original_fail_unless_a_reference_is_met(files: Callable[[str], Path]) -> None:
    racy = KERNEL.replace("  y[threadIdx.x] = sum;", "  tile[0] = 0.0f;\n  y[threadIdx.x] = sum;")
    diagnostics, exits, _ = errors(files(UNCHECKED, racy), "run")  # type: ignore[call-arg]
    assert (exits, [d.code for d in diagnostics if d.severity == "refusal"]) == (3, ["TP433"])
    diagnostics, exits, _ = errors(files(PROBLEM, racy), "run")  # type: ignore[call-arg]
    assert (exits, [d.code for d in diagnostics if d.severity == "warning"]) == (0, ["TP433"])


def test_an_input_that_is_written_to_is_a_warning(files: Callable[[str], Path]) -> None:
    kernel = KERNEL.replace("const float* x, float* y", "float* x, float* y").replace(
        "  y[threadIdx.x] = sum;\n", "  y[threadIdx.x] = sum;\n  x[threadIdx.x] = sum;\n"
    )
    diagnostics, exits, _ = errors(files(PROBLEM, kernel), "verify")  # type: ignore[call-arg]
    assert exits == 0
    assert [d.code for d in diagnostics] == ["TP434"]
    assert "`x`" in diagnostics[0].message


def test_source_with_crlf_keeps_it() -> None:
    made = pipeline_source(KERNEL.replace("\n", "\r\n"), "axpy_tiles", candidate="ldg-2-ring")
    plain = pipeline_source(KERNEL, "axpy_tiles", candidate="ldg-2-ring")
    assert isinstance(made, Rewrite) and isinstance(plain, Rewrite)
    assert made.text == plain.text.replace("\n", "\r\n")
    mixed = pipeline_source(KERNEL.replace("\n", "\r\n", 1), "axpy_tiles", candidate="ldg-2-ring")
    assert isinstance(mixed, Rewrite) and mixed.text == plain.text


def test_on_a_gpu_a_fault_of_the_original_stops_at_the_first_candidate(
    files: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = opened(files(PROBLEM))
    assert isinstance(job, Job)
    planned = preconditions_and_variant(job)
    assert isinstance(planned, Planned)
    built = [build_candidate(job, planned.model, c) for c in planned.viable()[:2]]
    tried: list[object] = []

    def verify_candidate(job: Job, device: object, one: object, sizes: object) -> tuple[Correctness, Races]:
        tried.append(one)
        return Correctness("failed", original_fault="at size small: it faults"), Races("unknown")

    monkeypatch.setattr(proving, "restructure", lambda planned, candidates, progress: (built, planned.report))
    monkeypatch.setattr(proving, "verify_candidate", verify_candidate)
    report = proving.prove_on_gpu(planned, None, lambda _: None)  # type: ignore[arg-type]
    assert tried == built[:1]
    assert (report.outcome, [d.code for d in report.diagnostics if d.severity != "note"]) == (
        "failed",
        ["TP433"],
    )
    place = report.diagnostics[-1].place
    assert place is not None and place.text[place.column - 1 :].startswith("axpy_tiles(")
