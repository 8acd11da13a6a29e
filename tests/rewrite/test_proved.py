"""What the proofs of wide copies take for integers, and for comparisons of integers: executed, whole tiles and not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilepipe import steps
from tilepipe.builds import build_candidate, verify_candidate
from tilepipe.diagnostics import Refusal
from tilepipe.job import Job
from tilepipe.options import Options
from tilepipe.plan.types import Candidate

WIDE = Candidate("cp_async-3-ring-16", "cp_async", 3, "ring", copy_bytes=16)
STRIDED = "for (int i = threadIdx.x; i < 512; i += 128)"
ROWS = "for (int r = 0; r < 4; ++r)"
KERNEL = """{head}
__global__ void __launch_bounds__(128)
f(const float* __restrict__ a, float* __restrict__ c, int n, int o, unsigned m)
{{
    __shared__ __align__(16) float s[512];
    float acc = 0.f;
    {before}
    {loop} {{
        {load}
        __syncthreads();
        for (int i = 0; i < 512; i += 3)
            acc = acc * 0.5f + s[(i + threadIdx.x) & 511];
        __syncthreads();
    }}
    c[blockIdx.x * 128 + threadIdx.x] = acc + {result};
}}
"""
PROBLEM = """schema = 1
[kernels.f]
grid = ["2"]
block = ["128"]
args = [
  { name = "a", in = ["8192"] },
  { name = "c", out = ["2", "128"] },
  { value = "N" }, { value = "O - 16" }, { value = "N + 512" },
]
[kernels.f.sizes]
none = { N = 0, O = 16 }
whole = { N = 1024, O = 16 }
groups = { N = 516, O = 12 }
ragged = { N = 637, O = 17 }
below = { N = 635, O = 15 }
few = { N = 3, O = 13 }
"""
TILES = "for (int k0 = 0; k0 < n; k0 += 512)"


def opened(
    folder: Path, load: str, before: str = "", loop: str = TILES, head: str = "", result: str = "0"
) -> Job:
    (folder / "f.cu").write_text(KERNEL.format(head=head, before=before, loop=loop, load=load, result=result))
    (folder / "f.toml").write_text(PROBLEM)
    job = steps.open_job(str(folder / "f.cu"), Options(device="cpu"))
    assert not isinstance(job, Refusal) and not isinstance(job.model, Refusal), job
    return job


def check(job: Job) -> None:
    """The wide candidate does at all sizes what the author's kernel does."""
    assert not isinstance(job.model, Refusal) and job.problem is not None
    built = build_candidate(job, job.model, WIDE)
    assert not isinstance(built, Refusal), built
    answer = verify_candidate(job, job.device, built, job.problem.sizes)
    assert not isinstance(answer, Refusal), answer
    assert [evidence.status for evidence in answer] == ["passed", "passed"], answer


def strided(source: str, guard: str = "") -> str:
    value = f"{guard} ? {source} : 0.f" if guard else source
    return f"{STRIDED} s[i] = {value};"


def rows(source: str, guard: str = "") -> str:
    """The same copy, an element of each row per thread."""
    return strided(source, guard).replace(STRIDED, f"{ROWS} {{ const int i = r * 128 + threadIdx.x;") + " }"


INTEGERS = {
    "an alias of int": {"load": f"{STRIDED} {{ const whole q = i; s[i] = a[k0 + q / 2 * 2 + i % 2]; }}",
                        "head": "using whole = int;"},
    "a cast to an alias of int": {"load": strided("a[k0 + (whole)i / 2 * 2 + i % 2]"), "head": "typedef int whole;"},
    "a state that is auto": {"load": strided("a[q * 4 + i]") + " q += 2;", "before": "auto q = 1;"},
    "a state of 64 bits": {"load": strided("a[q * 4 + i]") + " q += 2;", "before": "size_t q = 0;"},
    "a cast of a state": {"load": rows("a[(size_t)(q * 4) + i]") + " q += 2;", "before": "int q = 0;"},
    "a number of the block": {"load": rows("a[q * 4 + i]"), "before": "const unsigned q = m / 8;"},
    "a turn of the copy's loop": {
        "load": f"{ROWS} {{ const int q = r * 128; s[q + threadIdx.x] = a[q + threadIdx.x]; }}"},
    "what the loop counts beside the copy": {
        "load": f"{STRIDED} {{ s[i] = a[k0 + i]; q += 1; }}", "before": "int q = 0;", "result": "q"},
}  # fmt: skip
OTHERS = {
    "a state of float": ({"load": strided("a[(int)(q * 4) + i]") + " q += 1.25f;", "before": "float q = 0;"}, "`q`"),
    "a state of float, dealt anew": (
        {"load": rows("a[(int)(q * 4) + i]") + " q += 1.25f;", "before": "float q = 0;"}, "`q` is no integer"),
    "a state that is auto and float": (
        {"load": strided("a[(int)(q * 4) + i]") + " q += 1.25f;", "before": "auto q = 0.f;"}, "`q` is no integer"),
    "a loop of float": (
        {"load": strided("a[(int)(k * 100) + i]"), "loop": "for (float k = 0; k < n * 0.01f; k += 0.51f)"},
        "`k` is no integer"),
    "a loop of auto": (
        {"load": strided("a[(int)(k * 100) + i]"), "loop": "for (auto k = 0.f; k < n * 0.01f; k += 0.51f)"},
        "`k` is no integer"),
    "an alias of float": ({"load": f"{STRIDED} {{ const real q = i; s[i] = a[k0 + (int)(q / 2 * 2) + i % 2]; }}",
                           "head": "using real = float;"}, "`q` is no integer"),
    "a cast to an alias of float": (
        {"load": strided("a[k0 + (int)((real)i / 2 * 2) + i % 2]"), "head": "using real = float;"},
        "converts an index"),
    "a cast to an alias in the kernel": (
        {"load": strided("a[k0 + (int)((real)i / 2 * 2) + i % 2]"), "before": "typedef double real;"},
        "converts an index"),
    "an alias of short": ({"load": f"{STRIDED} {{ const few q = i * 128; s[i] = a[(q + 65536) / 128 % 8 * 0 + i]; }}",
                           "head": "using few = short;"}, "`q` is no integer"),
    "a number of the block that is float": (
        {"load": rows("a[(int)(q * 4) + i]"), "before": "const float q = m * 0.3f;"}, "`q` is no integer"),
    "a class that counts otherwise": (
        {"load": rows("a[4 * q + i]"), "before": "N q{(int)m};",
         "head": "struct N { int v; }; __device__ int operator*(int a, N b) { return a * b.v + 1; }"}, "`q`"),
    "a value of each turn": (
        {"load": "for (int v = 0; v < 4; ++v) { const int q = __float2int_rn(v * 1.3f); "
         "s[threadIdx.x * 4 + v] = a[4 * q + threadIdx.x * 4 + v]; }"}, "`q` changes from turn to turn"),
    "a state that moves in the copy's loop": (
        {"load": f"{STRIDED} {{ const int p = 4 * q; s[i] = a[p + i]; q += 1; }}", "before": "int q = 0;"}, "`q`"),
}  # fmt: skip
# guards whose form both proofs take
GUARDS = {
    "signed": "n - k0 - i > 0",
    "signed, of a signed state": "i < n - k0",
    "an unsigned limit": "k0 + i < m - 512",
    "an unsigned difference beside the element": "i < m - 512 - k0",
    "the thread in the sum": "k0 + i + 0u < (unsigned)n",
}
WRAPPING = {
    "a suffix": "n - k0 - i > 0u",
    "a variable": "m - 512 - k0 - i > 0",
    "the other way round": "0u < n - k0 - i",
    "a cast": "(unsigned)(n - k0 - i) > 0",
    "a wider cast": "(long long)(m - 512 - k0 - i) > 0",
    "a size": "(size_t)n - k0 - i > 0",
    "on both sides": "m - k0 - i > 512u - i",
    "a negative number of threads": "n - k0 - i - 1 < (unsigned)n",
}


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_by_any_name_are_followed(name: str, tmp_path: Path) -> None:
    job = opened(tmp_path, **INTEGERS[name])
    assert [w.bytes for w in job.wide] == [16], job.narrow
    check(job)


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_integer_is_not(name: str, tmp_path: Path) -> None:
    parts, words = OTHERS[name]
    job = opened(tmp_path, **parts)
    assert job.wide == () and words in job.narrow[0].reason, job.narrow


@pytest.mark.parametrize("form", [strided, rows])
@pytest.mark.parametrize("name", GUARDS)
def test_guards_that_do_not_wrap_within_a_group_stay_wide(name: str, form: object, tmp_path: Path) -> None:
    job = opened(tmp_path, form("a[k0 + i]", GUARDS[name]))  # type: ignore[operator]
    assert [w.bytes for w in job.wide] == [16], job.narrow
    check(job)


@pytest.mark.parametrize("form", [strided, rows])
@pytest.mark.parametrize("name", WRAPPING)
def test_guards_that_may_wrap_within_a_group_are_left(name: str, form: object, tmp_path: Path) -> None:
    job = opened(tmp_path, form("a[k0 + i]", WRAPPING[name]))  # type: ignore[operator]
    assert job.wide == () and "wraps below zero" in job.narrow[0].reason, job.narrow


def test_a_variable_of_the_guard_may_wrap(tmp_path: Path) -> None:
    job = opened(tmp_path, strided("a[k0 + i]", "len - k0 - i > 0"), "const unsigned len = n;")
    assert job.wide == () and "wraps below zero" in job.narrow[0].reason
    job = opened(tmp_path, strided("a[k0 + i]", "left - i > 0"), "size_t left = n;")
    assert job.wide == ()


@pytest.mark.parametrize("limit", ["n", "m"])
@pytest.mark.parametrize(("more", "asked"), [("", "o % 4 == 0"), (" + 1", "o >= 0")])
def test_an_unsigned_sum_passes_zero_between_groups_or_not_at_all(
    more: str, asked: str, limit: str, tmp_path: Path
) -> None:
    """The author's loop is taken where it could: with `o` below zero, or no multiple of a group."""
    job = opened(tmp_path, rows("a[k0 + i]", f"k0 + o + r * 128 + threadIdx.x{more} < {limit}"))
    assert [w.bytes for w in job.wide] == [16], job.narrow
    assert asked in job.wide[0].conditions
    check(job)
