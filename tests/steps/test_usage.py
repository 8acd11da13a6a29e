"""Usage that names what is not there, files that no compiler takes, and one stage: the original."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilepipe.diagnostics import Diagnostic, Refusal
from tilepipe.job import Job
from tilepipe.opening import open_job, open_jobs
from tilepipe.options import Options
from tilepipe.report import RunReport, exit_code, words
from tilepipe.steps import check, check_all, rewrite, run
from tilepipe.toolchain.types import CompileOptions
from tilepipe.wishes import others_listed

SGEMM = Path(__file__).parents[2] / "examples" / "sgemm_tiled.cu"


def checked(path: Path, **changes: object) -> tuple[Diagnostic, int]:
    """The first diagnostic of `check`, and the exit code."""
    job = open_job(str(path), Options(**{"device": "cpu", **changes}))  # type: ignore[arg-type]
    report = check(job) if isinstance(job, Job) else job
    if isinstance(report, Refusal):
        return report.diagnostics[0], report.exit_code
    return report.diagnostics[0], exit_code(report)


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"candidate": "nonsense"}, "`nonsense`"),
        ({"candidate": "cp_async-99-ring"}, "`cp_async-99-ring`"),
        ({"stages": 99}, "--stages 99"),
        ({"variant": "ldg", "stages": 5}, "--variant ldg --stages 5"),
    ],
)
def test_an_unknown_candidate_is_a_usage_error_with_the_list(wish: dict[str, object], words: str) -> None:
    said, code = checked(SGEMM, **wish)
    assert (said.code, code) == ("TP124", 2)
    assert words in said.message
    assert "ldg-2-ring" in said.help and "cp_async-2…8-ring," in said.help
    assert len(said.help) < 700


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("cp_async-3-rng", "is `cp_async-3-ring` or `cp_async-4-ring` meant? the candidates are: "),
        ("cp_async-9-ring", "is `cp_async-4-ring` or `cp_async-3-ring` or `cp_async-2-ring` meant? "),
        ("nonsense", "the candidates are: "),
        (None, "the candidates are: "),
    ],
)
def test_candidates_that_are_spelled_nearly_so_come_first(wanted: str | None, said: str) -> None:
    ids = [
        "ldg-2-ring",
        *(f"cp_async-{n}-ring" for n in (2, 3, 4)),
        "stash-2-ring",
        "stash-5-ring",
        "ldg-2-textbook",
    ]
    listed = others_listed(ids, wanted)
    assert listed.startswith(said[:30]), listed
    assert listed.endswith(
        "the candidates are: ldg-2-ring, cp_async-2…4-ring, stash-2/5-ring, ldg-2-textbook"
    )


def test_a_candidate_that_is_there_but_rejected_has_its_own_reason() -> None:
    said, code = checked(SGEMM, candidate="mixed-2-ring")
    assert (said.code, code) == ("TP151", 1)
    assert "mixed-2-ring: every buffer can be copied asynchronously" in said.message
    assert "cp_async" not in said.message.replace("asynchronously", "")
    assert "can be built: --candidate ldg-2-ring and " in said.help


def test_no_other_candidate_is_offered_where_none_can_be_built(tmp_path: Path) -> None:
    """How often the copy loop turns is not known, so that nothing can wait in registers, and sm_75 has no other way."""
    source = tmp_path / "k.cu"
    source.write_text(
        "__global__ __launch_bounds__(64) void f(const float* __restrict__ a, float* c, int n, int step) {\n"
        "    __shared__ float s[256];\n    float sum = 0;\n    for (int k = 0; k < n; ++k) {\n"
        "        for (int i = threadIdx.x; i < 256; i += step)\n"
        "            s[i] = a[k * 256 + i];\n        __syncthreads();\n"
        "        sum += s[63 - threadIdx.x];\n        __syncthreads();\n    }\n    c[threadIdx.x] = sum;\n}\n"
    )
    said, code = checked(source, variant="ldg", arch="sm_75")
    assert (said.code, code) == ("TP151", 1)
    assert "the loop around the load at line 6" in said.message
    assert "--candidate" not in said.help
    said, _ = checked(source, variant="ldg", arch="sm_80")
    assert "can be built: --candidate cp_async-2-ring and" in said.help


def test_too_many_stages_are_told_how_many_there_may_be() -> None:
    said, _ = checked(SGEMM, stages=99)
    assert said.help.startswith("--stages is 2 to 8")


@pytest.mark.parametrize("dialect", ["c++11", "c++14", "c++99", "gnu"])
def test_a_dialect_that_does_not_compile_is_a_usage_error(dialect: str) -> None:
    said, code = checked(SGEMM, compile=CompileOptions(std=dialect))
    assert (said.code, code) == ("TP125", 2)


@pytest.mark.parametrize(
    ("old", "new"),
    [("];", "]"), ("{", "{ {"), ("int K", "itn K")],
    ids=["semicolon", "brace", "type"],
)
def test_a_source_that_does_not_compile_is_the_compilers_error(old: str, new: str, tmp_path: Path) -> None:
    path = tmp_path / "a.cu"
    path.write_text(SGEMM.read_text().replace(old, new, 1))
    said, code = checked(path)
    assert (said.code, code) == ("TP200", 2)


def test_what_is_no_text_is_named_by_line_and_byte(tmp_path: Path) -> None:
    path = tmp_path / "a.cu"
    path.write_bytes(b"// first\n// K\xe4se\n")
    said, code = checked(path)
    assert (said.code, code) == ("TP147", 2)
    assert "byte 0xE4 in line 2" in said.message and "iconv" in said.help
    path.write_bytes(b"// first\n\n// a\0b\n")
    said, code = checked(path)
    assert (said.code, code) == ("TP147", 2)
    assert "NUL byte in line 3" in said.message


@pytest.mark.parametrize("emulated", [False, True])
def test_one_stage_is_the_original(emulated: bool) -> None:
    job = open_job(str(SGEMM), Options(device="cpu", stages=1))
    assert isinstance(job, Job)
    report = run(job, lambda _: None) if emulated else rewrite(job)
    assert isinstance(report, RunReport)
    assert (report.source, exit_code(report)) == (SGEMM.read_text(), 0)
    assert words.verdict(report) == ("the original, unchanged", "")


def test_one_stage_of_a_named_variant_is_that_variant() -> None:
    job = open_job(str(SGEMM), Options(device="cpu", stages=1, variant="prefetch"))
    assert isinstance(job, Job)
    report = rewrite(job)
    assert isinstance(report, RunReport) and report.chosen == "prefetch-1-ring"


TILE = """
{template}__global__ void k(const float* __restrict__ a, float* __restrict__ c, int n)
{{
    __shared__ float s[{extent}];
    float sum = 0.0f;
    for (int i = 0; i < n; ++i) {{
        s[threadIdx.x] = a[i * 32 + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < 32; ++j) sum += s[j];
        __syncthreads();
    }}
    c[threadIdx.x] = sum;
}}
"""


@pytest.mark.parametrize("toolchain", ["nvrtc", "nvcc"])
def test_kernels_of_one_name_in_several_namespaces_are_told_apart(toolchain: str, tmp_path: Path) -> None:
    """Each takes its own shared memory, asked alone and together."""
    plain = [TILE.format(template="", extent=32 * (i + 1)) for i in range(3)]
    generic = TILE.format(template="template <int N> ", extent="N")
    text = f"namespace a {{{plain[0]}}}\nnamespace b::c {{{plain[1]}}}\n{plain[2]}\nnamespace d {{{generic}\n"
    text += "void host(float* a) { k<128><<<1, 32>>>(a, a, 1); } }"
    path = tmp_path / "named.cu"
    path.write_text(text, encoding="utf-8")
    jobs = open_jobs(str(path), Options(device="cpu", toolchain=toolchain))
    if isinstance(jobs, Refusal):
        pytest.skip(jobs.diagnostics[0].message)
    for job, extent in zip(jobs, (32, 64, 96, 128), strict=True):
        assert not isinstance(job.usage, Refusal), job.usage
        assert not isinstance(job.model, Refusal), job.model
        assert job.usage.static_shared == job.model.buffers[0].bytes == extent * 4
    assert [r.budget[0].shared_bytes for r in check_all(jobs) if isinstance(r, RunReport)] == [
        128,
        256,
        384,
        512,
    ]
