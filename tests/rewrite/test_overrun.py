"""Loaders that run past the last tile: what is allowed is emitted, compiled and executed; all else is refused."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tilepipe import steps
from tilepipe.builds import build_candidate, verify_candidate
from tilepipe.diagnostics import Refusal
from tilepipe.job import Job
from tilepipe.kernel.affine import ONE, Form, Monomial
from tilepipe.kernel.tileend import past_end
from tilepipe.options import Options
from tilepipe.plan.candidates import overrunning
from tilepipe.plan.types import Candidate
from tilepipe.problem import ArraySpec

FULL = pytest.mark.full
WIDE = Candidate("cp_async-3-ring-16", "cp_async", 3, "ring", copy_bytes=16)
KERNEL = """
{head}
__global__ void __launch_bounds__(64)
f(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K)
{{
    __shared__ float As[16 * 16];
    __shared__ float Bs[16 * 16];
    const int tid = threadIdx.x;
    float acc[4] = {{}};
    {loop} {{
        for (int i = tid; i < 256; i += 64) {{
            const int row = blockIdx.y * 16 + i / 16, k = k0 + i % 16;
            As[i] = {a};
        }}
        for (int i = tid; i < 256; i += 64) {{
            const int k = k0 + i / 16, col = blockIdx.x * 16 + i % 16;
            Bs[i] = {b};
        }}
        __syncthreads();
        for (int k = 0; k < 16; ++k)
            for (int r = 0; r < 4; ++r)
                acc[r] += As[(tid / 16 * 4 + r) * 16 + k] * Bs[k * 16 + tid % 16];
        __syncthreads();
    }}
    for (int r = 0; r < 4; ++r) {{
        const int row = blockIdx.y * 16 + tid / 16 * 4 + r, col = blockIdx.x * 16 + tid % 16;
        if (row < M && col < N)
            C[row * N + col] = acc[r];
    }}
}}
"""
PROBLEM = """schema = 1
[kernels.f]
grid = ["(N + 15) // 16", "(M + 15) // 16"]
block = ["64"]
args = [
  { name = "A", in = ["M", "K"] }, { name = "B", in = ["K", "N"] }, { name = "C", out = ["M", "N"] },
  { value = "M" }, { value = "N" }, { value = "K" },
]
[kernels.f.sizes]
small = { M = 32, N = 16, K = 64 }
none = { M = 16, N = 16, K = 0 }
one = { M = 16, N = 16, K = 16 }
two = { M = 16, N = 32, K = 32 }
three = { M = 16, N = 16, K = 48 }
ragged = { M = 20, N = 36, K = 68 }
odd = { M = 19, N = 21, K = 37 }
"""
LOOP = "for (int k0 = 0; k0 < K; k0 += 16)"
A = "(row < M && k < K) ? A[row * K + k] : 0.f"
B = "(k < K && col < N) ? B[k * N + col] : 0.f"

# The loop, how A and B are loaded, and what stands before the kernel.
ALLOWED = {
    "guards": (LOOP, A, B, ""),
    "turned": (LOOP, "(M > row && K > k) ? A[row * K + k] : 0.f", B, ""),
    "step": ("for (int k0 = 0; k0 < K; k0 += STEP)", A, B, "constexpr int STEP = 8 + 8;"),
    "start": ("for (int k0 = blockIdx.x * 16; k0 < K; k0 += 16)", A, B, ""),
}
REFUSED = {
    "no guard at the end": (LOOP, "(row < M) ? A[row * K + k] : 0.f", B, ""),
    "guard of the tile's start, one behind": (LOOP, "(row < M && k - 1 < K) ? A[row * K + k] : 0.f", B, ""),
    "guard that the first element past the end meets": (LOOP, "(row < M && k <= K) ? A[row * K + k] : 0.f", B, ""),
    "an end that changes": ("if (K > 32) K = 32; " + LOOP, A, B, ""),
    "a variable for another end": ("const int E = M; " + LOOP, "(row < M && k < E) ? A[row * K + k] : 0.f", B, ""),
    "a step that is not known": ("for (int k0 = 0; k0 < K; k0 += M)", A, B, ""),
    "another step that is not known": ("for (int k0 = 0; k0 < K; k0 += 16, k0 += 4 * M)", A, B, ""),
    "a step that falls": ("for (int k0 = 0; k0 < K; k0 += -16)", A, B, ""),
    "a condition on another variable": ("int j = 0; for (int k0 = 0; j < K; k0 += 16, j += 4)", A, B, ""),
    "another end": (LOOP, "(row < M && k < M) ? A[row * K + k] : 0.f", B, ""),
    "an end of another type": ("for (int k0 = 0; k0 < (unsigned)K; k0 += 16)", A, B, ""),
    "a counter of another type": ("for (unsigned k0 = 0; k0 < K; k0 += 16)", A, B, ""),
    "an end that is computed": ("for (int k0 = 0; k0 < K - 1; k0 += 16)", A, B, ""),
    "counting down": ("for (int k0 = (K - 1) / 16 * 16; k0 >= 0; k0 -= 16)", A, B, ""),
    "a fill that is no zero": (LOOP, "(row < M && k < K) ? A[row * K + k] : 1.f", B, ""),
    "a fill behind the other": (LOOP, "(row < M || k < K) ? A[row * K + k] : 0.f", B, ""),
}  # fmt: skip


# One element for each thread: the copies are dealt anew.
DEALT = """
__global__ void __launch_bounds__(256)
f(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K)
{{
    __shared__ float As[16][16];
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    const int row = blockIdx.y * 16 + ty;
    float acc = 0.f;
    for (int k0 = 0; k0 < K; k0 += 16) {{
        const int k = k0 + tx;
        As[ty][tx] = (row < M && {guard}) ? A[row * K + k] : 0.f;
        __syncthreads();
        for (int j = 0; j < 16; ++j)
            acc = acc * 0.5f + As[ty][j] * As[j][tx];
        __syncthreads();
    }}
    if (row < M && blockIdx.x == 0)
        C[row * N + tx] = acc;
}}
"""


def opened(folder: Path, form: tuple[str, str, str, str]) -> Job:
    loop, a, b, head = form
    path = folder / "f.cu"
    path.write_text(KERNEL.format(loop=loop, a=a, b=b, head=head), encoding="utf-8")
    path.with_suffix(".toml").write_text(PROBLEM, encoding="utf-8")
    job = steps.open_job(str(path), Options(device="cpu"))
    assert isinstance(job, Job), job
    return job


def at_offset(job: Job, offset: int) -> Job:
    assert job.problem is not None
    args = tuple(replace(a, offset=offset) if isinstance(a, ArraySpec) else a for a in job.problem.args)
    return replace(job, problem=replace(job.problem, args=args))


def overrun_of(wide: Candidate = WIDE) -> Candidate:
    found = overrunning(wide)
    assert found is not None
    return found


@pytest.mark.parametrize("name", ALLOWED)
@pytest.mark.parametrize("stages", [pytest.param(2, marks=FULL), 3, pytest.param(6, marks=FULL)])
def test_the_result_is_the_same_whatever_the_number_of_tiles(name: str, stages: int, tmp_path: Path) -> None:
    wide = replace(WIDE, id=f"cp_async-{stages}-ring-16", stages=stages)
    job = opened(tmp_path, ALLOWED[name])
    model = job.model
    assert not isinstance(model, Refusal), model
    made = build_candidate(job, model, overrun_of(wide))
    assert not isinstance(made, Refusal), made
    assert "if (k0_next < K)" not in made.rewrite.text and "K >= 0" in made.rewrite.text
    for shifted in (job, at_offset(job, 1)):
        assert shifted.problem is not None
        answer = verify_candidate(shifted, shifted.device, made, dict(shifted.problem.sizes))
        assert not isinstance(answer, Refusal), answer
        assert [one.status for one in answer] == ["passed", "passed"], answer


@pytest.mark.parametrize(("guard", "allowed"), [
    ("k < K", True), ("k + 4 < K", True), ("k < max(K, 32)", False), ("k <= K", False), ("k0 - 16 < K", False),
])  # fmt: skip
def test_copies_that_are_dealt_anew(guard: str, allowed: bool, tmp_path: Path) -> None:
    path = tmp_path / "f.cu"
    path.write_text(DEALT.format(guard=guard), encoding="utf-8")
    path.with_suffix(".toml").write_text(PROBLEM.replace('"64"', '"256"'), encoding="utf-8")
    job = steps.open_job(str(path), Options(device="cpu"))
    assert isinstance(job, Job) and not isinstance(job.model, Refusal) and job.problem is not None, job
    assert not isinstance(build_candidate(job, job.model, WIDE), Refusal)
    made = build_candidate(job, job.model, overrun_of())
    assert isinstance(made, Refusal) != allowed, made
    if not isinstance(made, Refusal):
        ahead = {"k < K": "K <= 2147483584", "k + 4 < K": "K <= 2147483580"}
        assert ahead[guard] in made.rewrite.text and "if (k0_next < K)" not in made.rewrite.text
        answer = verify_candidate(job, job.device, made, dict(job.problem.sizes))
        assert not isinstance(answer, Refusal) and [one.status for one in answer] == ["passed", "passed"], (
            answer
        )


@pytest.mark.parametrize("name", REFUSED)
def test_a_loader_that_would_read_past_the_end_is_refused(name: str, tmp_path: Path) -> None:
    job = opened(tmp_path, REFUSED[name])
    model = job.model
    if isinstance(model, Refusal):
        return
    made = build_candidate(job, model, overrun_of())
    assert isinstance(made, Refusal), made.rewrite.text
    assert made.diagnostics[0].code == "TP150"


@pytest.mark.parametrize(("start", "asked"), [("M", "(M) <= 2147483584"), ("-16", "")])
def test_a_loop_may_start_beyond_its_end(start: str, asked: str, tmp_path: Path) -> None:
    """Next to the greatest `int` the loader's own counter would turn negative, and its guards hold again."""
    job = opened(tmp_path, (f"for (int k0 = {start}; k0 < K; k0 += 16)", "(k < K) ? A[k] : 0.f", B, ""))
    model = job.model
    assert not isinstance(model, Refusal) and job.problem is not None, model
    made = build_candidate(job, model, overrun_of())
    assert not isinstance(made, Refusal), made
    assert (asked in made.rewrite.text) and (") <= 21" in made.rewrite.text) == bool(asked)
    if asked:
        small = (replace(a, shape=("64", "64")) if isinstance(a, ArraySpec) else a for a in job.problem.args)
        job = replace(job, problem=replace(job.problem, grid=("1", "1"), args=tuple(small)))
        sizes = {f"from{m}": {"M": m, "N": 16, "K": 48} for m in (32, 64, 2**31 - 16)}
        answer = verify_candidate(job, job.device, made, sizes)
        assert not isinstance(answer, Refusal), answer
        assert [one.status for one in answer] == ["passed", "passed"], answer


def test_an_end_of_another_type_may_leave_that_of_the_counter(tmp_path: Path) -> None:
    job = opened(tmp_path, (LOOP, A, B, ""))
    path = Path(job.path)
    path.write_text(path.read_text().replace("int N, int K)", "int N, long long K)"))
    wider = steps.open_job(str(path), Options(device="cpu"))
    assert isinstance(wider, Job) and not isinstance(wider.model, Refusal)
    made = build_candidate(wider, wider.model, overrun_of())
    assert isinstance(made, Refusal) and "no `int` parameter" in made.diagnostics[0].message


def test_what_has_no_wide_copies_behind_a_condition_does_not_overrun() -> None:
    assert overrunning(Candidate("ldg-2-ring", "ldg", 2, "ring")) is None
    assert overrunning(replace(WIDE, id="cp_async-3-ring", copy_bytes=0)) is None
    assert overrunning(overrun_of()) is None


_ABOVE = st.lists(st.integers(-3, 3), min_size=1, max_size=4)


@settings(deadline=None)  # the first example opens the kernel
@example("<", 1, -1, 0, [-1])
@example("<=", 1, -1, 0, [0, 1])
@example("<", 1, -2, 0, [0])
@example("<", 2, -1, 0, [-3])
@example(">", 1, -1, 0, [0, 3])
@given(
    sign=st.sampled_from(["<", "<=", ">", ">="]),
    counter=st.integers(-1, 2),
    bound=st.integers(-2, 1),
    other=st.integers(0, 1),
    above=_ABOVE,
)
def test_no_comparison_holds_past_the_end_that_is_said_to_fail(
    sign: str, counter: int, bound: int, other: int, above: list[int]
) -> None:
    """Against brute force: `counter * k + other * m + above` on the one side, `-bound * K` on the other."""
    job = _job()
    model = job.model
    assert not isinstance(model, Refusal)

    def number(value: int) -> np.ndarray:
        return np.array([value], np.int64)

    rising: dict[Monomial, np.ndarray] = {
        ("k0",): number(counter),
        ("m",): number(other),
        ONE: np.array(above),
    }
    sides = [Form(rising), Form({("K",): number(-bound)})]
    left, right = sides if sign.startswith("<") else reversed(sides)
    found = past_end(model, sign, left, right)
    holds = [
        _COMPARED[sign[0].replace(">", "<") + sign[1:]](counter * k + other * m + a, -bound * end)
        for end in range(4)
        for k in range(end, end + 5)
        for m in range(-2, 3)
        for a in above
    ]
    if found is not None:
        assert not any(holds)
        assert found == max(above)
    elif (counter, bound, other) == (1, -1, 0):
        assert any(holds)


_COMPARED = {"<": int.__lt__, "<=": int.__le__}


@cache
def _job() -> Job:
    job = steps.open_job(
        str(Path(__file__).parents[2] / "examples" / "igemm_wmma.cu"),
        Options(device="cpu", kernel="igemm_wmma"),
    )
    assert isinstance(job, Job)
    return job
