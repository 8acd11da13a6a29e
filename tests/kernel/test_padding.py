"""Which tiles may have padded rows: what is accepted stays in its row, whatever the threads; what is not says why."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tilepipe import steps
from tilepipe.diagnostics import Refusal
from tilepipe.job import Job
from tilepipe.kernel.padding import BLOCK, FRAGMENT, PAD
from tilepipe.options import Options

KERNEL = """
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;
#define VEC(x) (*reinterpret_cast<float4*>(&(x)))
#define LAST(x) (&(x) + 32)
constexpr int R = 32, W = 64;
struct Corner {{ float* p; }};
__device__ float taken(const float* p, int i) {{ return p[i]; }}
__device__ float first(const float* p) {{ return p[0] + *reinterpret_cast<const float*>(p); }}
__device__ float walked(const float* p) {{ p += 64; return *p; }}
__device__ float whole(float (&t)[R][W]) {{ return t[0][0]; }}
__device__ const float& at(const float* p) {{ return p[0]; }}
__device__ auto place(const float* p) -> decltype(auto) {{ return (p[0]); }}
using Place = const float&;
typedef const float& Spot;
using Number = float;
__device__ Place placed(const float* p) {{ return p[0]; }}
__device__ Spot spotted(const float* p) {{ return p[0]; }}
__device__ Number numbered(const float* p) {{ return p[0]; }}
#define OPEN (tid & 31) + 40
#define OVER(x) (x) + 40
#define INNER OPEN % 64
#define PICK warp ? 70 : 0
__device__ float by_value(float x) {{ return x; }}
__device__ float by_reference(const float& x) {{ return (&x)[64]; }}
__device__ float through(const float* p, int i) {{ return p[OVER(i & 31) % 64]; }}
__global__ void __launch_bounds__(128) f(const float* __restrict__ A, float* __restrict__ C, int n)
{{
    {declaration}
    const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
    float sum = 0.0f;
    {before}
    for (int k = 0; k < n; ++k) {{
        for (int i = tid; i < R * W; i += 128)
            s[i / W][i % W] = A[k * R * W + i];
        __syncthreads();
        {body}
        __syncthreads();
    }}
    C[tid] = sum;
}}
"""
DECLARED = "__shared__ __align__(128) float s[R][W];"
ROWS = "wmma::mem_row_major"
FRAGMENTS = "wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;"


def opened(folder: Path, text: str) -> Job:
    path = folder / "f.cu"
    path.write_text(text)
    job = steps.open_job(str(path), Options(device="cpu", kernel="f"))
    assert not isinstance(job, Refusal), job
    return job


def layout(folder: Path, body: str, declaration: str = DECLARED, before: str = "") -> str:
    """ "padded", or why not."""
    job = opened(folder, KERNEL.format(body=body, declaration=declaration, before=before))
    assert not isinstance(job.model, Refusal), job.model
    assert job.padding is not None
    return job.padding.layout["s"]


@pytest.mark.parametrize(
    "body",
    [
        "sum += s[warp][lane];",
        "sum += s[tid % R][(tid & 15) * 4 + 3];",
        "for (int j = 0; j < W; ++j) sum += s[tid % R][j];",
        "const float4 v = *reinterpret_cast<const float4*>(&s[warp][lane / 2 * 4]); sum += v.x + v.w;",
        "sum += reinterpret_cast<const float2&>(s[lane][warp * 2]).y;",
        "sum += ((const float4*)&s[lane][0])[tid % 16].z;",
        "sum += *(s[lane] + warp);",
        "sum += VEC(s[lane][warp * 4]).y;",
        "sum += by_value(s[lane][0]);",
        "sum += fabsf(warp > 1 ? s[0][0] : s[8][0]);",
        "float v(s[lane][0]), w{s[lane][warp]}, x[] = {s[lane][0], s[0][lane]}; sum += v + w + x[warp & 1];",
        "sum += first(&s[lane][warp]);",
        "const float* p = &s[lane][32]; sum += p[warp] + *p;",
        "const float* p = &s[lane][63] - 32; sum += p[lane % 16] + *(p - 1);",
        "const float4* q = reinterpret_cast<const float4*>(s[lane]); sum += q[warp * 4 + 3].x;",
        "if (tid < 64) sum += s[lane][tid];",
        "sum += numbered(&s[lane][0]);",
        "if (n > 3 && 63 >= threadIdx.x) { const int c = threadIdx.x; sum += s[lane][c]; }",
        f"{FRAGMENTS} wmma::load_matrix_sync(c, &s[warp % 2 * 16][warp / 2 * 16], W, {ROWS}); sum += c.x[0];",
        f"{FRAGMENTS} wmma::load_matrix_sync(c, s[16] + 48, (W), wmma::mem_row_major); sum += c.x[0];",
    ],
)
def test_an_access_that_stays_in_its_row_is_padded(body: str, tmp_path: Path) -> None:
    assert layout(tmp_path, body) == "padded"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("sum += s[warp][tid];", "may cross the end of its row"),
        ("sum += s[0][tid * 4];", "may cross the end of its row"),
        ("if (tid < 65) sum += s[0][tid];", "may cross the end of its row"),
        ("if (n > 3 || tid < 64) sum += s[0][tid];", "may cross the end of its row"),
        ("if (tid < 64) sum += 1.0f; else sum += s[0][tid];", "may cross the end of its row"),
        ("if (tid < 64) { const int tid = n; sum += s[0][tid]; }", ""),
        (
            "const float4* q = reinterpret_cast<const float4*>(s[lane]); sum += q[warp * 4 + 4].x;",
            "cross the end",
        ),
        ("sum += s[lane][k];", "is not bounded"),
        ("sum += s[lane][OPEN % 64];", "may cross the end of its row"),
        ("sum += s[lane][OVER(tid & 31) % 64];", "may cross the end of its row"),
        ("sum += s[lane][INNER];", "may cross the end of its row"),
        ("sum += s[lane][PICK ? 3 : 5];", "may cross the end of its row"),
        ("sum += through(s[lane], tid);", "may cross the end of its row"),
        ("sum += by_reference(warp > 1 ? s[0][0] : s[8][0]);", "is not understood"),
        ("const float* p = &at(&s[0][0]); sum += p[lane];", "is not understood"),
        ("auto at = [&](int i) -> float& { return s[i][0]; }; sum += (&at(0))[tid];", "is not understood"),
        ("const float* p = &place(&s[0][0]); sum += p[lane];", "is not understood"),
        ("const float* p = &placed(&s[0][0]); sum += p[lane];", "is not understood"),
        ("const float* p = &spotted(&s[0][0]); sum += p[lane];", "is not understood"),
        ("Place p = s[0][0]; sum += (&p)[lane];", "is not understood"),
        ("const float* p = &(warp > 1 ? s[0][0] : s[8][0]); sum += p[tid];", "is not understood"),
        ("sum += s[lane + 1][warp - 1];", "is not bounded"),
        ("for (int j = 0; j < n; ++j) sum += s[lane][j];", "is not bounded"),
        ("sum += (&s[0][0])[tid];", "may cross the end of its row"),
        ("sum += *(&s[lane][0] + 64);", "may cross the end of its row"),
        ("sum += *(&s[lane][0] - 1);", "is not bounded"),
        ("sum += VEC(s[lane][warp * 16 + 13]).y;", "may cross the end of its row"),
        ("sum += *LAST(s[lane][warp * 16 + 17]);", "may cross the end of its row"),
        ("sum += taken(s[lane], warp);", "is not bounded"),
        ("sum += walked(&s[lane][0]);", "is not understood"),
        ("sum += whole(s);", "names it without a row"),
        ("sum += by_reference(s[lane][0]);", "is not understood"),
        ("const float& r = s[lane][0]; sum += (&r)[64];", ""),
        ("const float& r{s[lane][0]}; sum += (&r)[64];", "is not understood"),
        ("const float& r(s[lane][0]); sum += (&r)[64];", "is not understood"),
        ("const float* p = s[lane]; p += 64; sum += *p;", "is not understood"),
        ("Corner q = {&s[lane][0]}; sum += q.p[64];", "is not understood"),
        ("sum += sizeof(s);", "names it without a row"),
        ("sum += sizeof(s[0]);", "is not understood"),
        (
            "sum += (reinterpret_cast<unsigned long long>(&s[lane][0]) & 1) ? 1.0f : 0.0f;",
            "is not understood",
        ),
        ("float* p = &s[lane][0]; float** q = &p; sum += (*q)[64];", ""),
        ("sum += [&](const float* p) { return p[64]; }(&s[lane][0]);", ""),
        (
            f"{FRAGMENTS} wmma::load_matrix_sync(c, &s[0][0], W / 2, wmma::mem_row_major); sum += c.x[0];",
            "is not the row's length",
        ),
        (
            f"{FRAGMENTS} wmma::load_matrix_sync(c, &s[0][0], n, wmma::mem_row_major); sum += c.x[0];",
            "is not the row's length",
        ),
        (
            f"{FRAGMENTS} wmma::load_matrix_sync(c, &s[warp][0], W, wmma::mem_row_major); sum += c.x[0];",
            "is not known to be even",
        ),
        (
            f"{FRAGMENTS} wmma::load_matrix_sync(c, &s[0][56], W, wmma::mem_row_major); sum += c.x[0];",
            "may cross the end of its row",
        ),
    ],
)
def test_what_is_not_understood_keeps_its_layout(body: str, why: str, tmp_path: Path) -> None:
    job = opened(tmp_path, KERNEL.format(body=body, declaration=DECLARED, before=""))
    if isinstance(job.model, Refusal):
        assert not why or job.model.diagnostics[0].code == "TP023", job.model  # not pipelined at all
        return
    assert job.padding is not None
    assert job.padding.rows == {}
    assert why in job.padding.kept["s"]


@pytest.mark.parametrize(
    ("declaration", "why"),
    [
        ("__shared__ float s[R][W + 4];", "begin at different banks already"),
        ("__shared__ float s[R][W + 1];", "not made of 16-byte chunks"),
        ("extern __shared__ float raw[]; float (*s)[W] = reinterpret_cast<float (*)[W]>(raw);", ""),
    ],
)
def test_rows_that_need_no_padding_or_cannot_have_it(declaration: str, why: str, tmp_path: Path) -> None:
    job = opened(tmp_path, KERNEL.format(body="sum += s[lane][warp];", declaration=declaration, before=""))
    if why:
        assert job.padding is not None
        assert why in job.padding.kept["s"]
    else:
        assert isinstance(job.model, Refusal) or job.padding is None or not job.padding.rows


FLAT = "__shared__ __align__(128) float s[R * W];"
LED = (
    FRAGMENTS
    + " wmma::load_matrix_sync(c, &s[(warp % 2 * 16) * W + warp / 2 * 16], W, "
    + ROWS
    + "); sum += c.x[0];"
)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (LED, "padded"),
        (LED + " sum += s[tid * 16];", "padded"),  # wherever it is, an element moves with its row
        (LED + " sum += (*reinterpret_cast<const float2*>(s + tid * 2)).x;", "padded"),
        (LED + " sum += VEC(s[tid * 4]).x;", "padded"),
        (LED + " sum += VEC(s[tid * 2]).x;", "may cross the end of its row"),
        (LED + " sum += s[n];", "the index in line"),
        (LED + " sum += taken(s, tid);", "is not bounded"),
        (LED + " sum += taken(&s[warp * W], lane % 2 * 32);", "is not bounded"),
        (LED + " sum += sizeof(s);", "is not understood"),
        (LED + "{" + LED.replace(", W,", ", W / 2,") + "}", "its extents are not known"),
        ("sum += s[warp * W + lane];", "padded"),  # the index tells the row's length
        ("sum += s[(warp * 2 + 1) * W + lane * 2 % 64];", "padded"),
        ("sum += s[warp * 64 + lane % 8 * 8 + lane / 8];", "padded"),  # the largest factor
        ("sum += s[warp * W + lane] + s[warp * 32 + lane];", "its extents are not known"),
        ("sum += s[warp * W + lane] + taken(s, tid);", "is not bounded"),
        ("sum += s[warp * 24 + lane];", "its size is no whole number of rows"),
        ("sum += s[tid];", "nothing tells how long its rows are"),
    ],
)  # fmt: skip
def test_a_tile_with_one_extent(body: str, expected: str, tmp_path: Path) -> None:
    text = KERNEL.format(body=body, declaration=FLAT, before="").replace("s[i / W][i % W]", "s[i]")
    text = text.replace("__device__ float whole(float (&t)[R][W]) { return t[0][0]; }", "")
    job = opened(tmp_path, text)
    assert not isinstance(job.model, Refusal), job.model
    assert job.padding is not None
    assert expected in job.padding.layout["s"]


@pytest.mark.parametrize(
    ("member", "padded"),
    [
        (
            "const float* p; __device__ Reader(const float& x) : p(&x) {} __device__ float far() { return p[64]; }",
            False,
        ),
        ("float v; __device__ Reader(const float& x) : v(x) {} __device__ float far() { return v; }", True),
    ],
)
def test_classes_that_point_at_what_they_are_given(member: str, padded: bool, tmp_path: Path) -> None:
    body = "Reader r = s[lane][0]; sum += r.far();"
    text = KERNEL.format(body=body, declaration=DECLARED, before="")
    job = opened(tmp_path, text.replace("struct Corner", f"struct Reader {{ {member} }};\nstruct Corner"))
    assert not isinstance(job.model, Refusal), job.model
    assert job.padding is not None
    assert bool(job.padding.rows) == padded


def test_a_use_before_or_after_the_loop_counts(tmp_path: Path) -> None:
    text = KERNEL.format(body="sum += s[lane][warp];", declaration=DECLARED, before="")
    job = opened(tmp_path, text.replace("C[tid] = sum;", "C[tid] = sum + (&s[0][0])[tid];"))
    assert isinstance(job.model, Refusal) or (job.padding is not None and not job.padding.rows)


def test_threads_without_a_bound_reach_further(tmp_path: Path) -> None:
    """Without `__launch_bounds__` a block may have 1024 threads, and warp 31 would leave the row."""
    text = KERNEL.format(body="sum += s[lane][warp * 16];", declaration=DECLARED, before="")
    for given, expected in (("__launch_bounds__(128)", True), ("", False)):
        job = opened(tmp_path, text.replace("__launch_bounds__(128)", given))
        assert job.padding is not None
        assert bool(job.padding.rows) == expected


def test_the_layout_may_be_kept(tmp_path: Path) -> None:
    text = KERNEL.format(body="sum += s[lane][warp];", declaration=DECLARED, before="")
    (tmp_path / "f.cu").write_text(text)
    job = steps.open_job(str(tmp_path / "f.cu"), Options(device="cpu", kernel="f", layout="keep"))
    assert not isinstance(job, Refusal)
    assert job.padding is None
    assert job.padded is None


def index(rng: random.Random) -> tuple[str, str]:
    """A row and a column as people write them, some of which leave the row."""
    row = rng.choice(
        ["lane", "warp * 8 + j", "tid % R", "tid / 4", "j", "(tid & 1) * 16 + j", "tid / 16 * 4"]
    )
    step = rng.choice([1, 2, 4, 8, 16])
    column = rng.choice(
        ["warp", "lane", "tid % {m}", "tid & {m}", "j * {s}", "(lane / 8) * {s} + j", "tid % 8 * {s}",
         "tid * {s} % {m}",
         "(tid ^ j) & {m}", "warp * {s} + lane % 4", "lane * {s} / 2"]
    )  # fmt: skip
    return row, column.format(s=step, m=rng.choice([16, 32, 48, 63, 64, 70]))


@pytest.mark.parametrize("seed", range(24))
def test_padded_rows_hold_every_access(seed: int, tmp_path: Path) -> None:
    """Brute force over all threads and turns: no access of an array that is padded leaves its row, the padded map is
    one to one there, and fragments stay aligned."""
    rng = random.Random(seed)
    row, column = index(rng)
    width = rng.choice([1, 1, 2, 4])
    turns = rng.choice([1, 4, 8])
    kind = {1: "s[{r}][{c}]", 2: "reinterpret_cast<float2*>(&s[{r}][{c}])->y", 4: "VEC(s[{r}][{c}]).w"}[width]
    if width == 2:
        kind = "(*reinterpret_cast<float2*>(&s[{r}][{c}])).y"
    body = f"for (int j = 0; j < {turns}; ++j) sum += {kind.format(r=row, c=column)};"
    found = layout(tmp_path, body)
    python = {"row": row.replace("/", "//"), "column": column.replace("/", "//")}
    seen: dict[tuple[int, int], int] = {}
    inside = True
    for tid in range(128):
        for j in range(turns):
            names = {"tid": tid, "lane": tid % 32, "warp": tid // 32, "j": j, "R": 32}
            r, c = (eval(python[k], {}, names) for k in ("row", "column"))
            inside = inside and c >= 0 and c + width <= 64
            seen[(r, c)] = r * (64 * 4 + PAD) + c * 4
            if found == "padded":
                assert 0 <= c <= 64 - width, (row, column, tid, j)
    if found == "padded":
        assert inside
        assert len(set(seen.values())) == len(seen)
    else:
        assert "row" in found or "bounded" in found


def test_enough_of_these_are_padded(tmp_path: Path) -> None:
    """Brute force over what is never accepted would show nothing."""
    bodies = ["sum += s[tid / 4][tid % 16];", "for (int j = 0; j < 4; ++j) sum += s[warp * 8 + j][j * 16];"]
    assert [layout(tmp_path, b) for b in bodies] == ["padded", "padded"]


def test_the_numbers_fit_together() -> None:
    """Two rows' padding is what a fragment's alignment wants; the padding of eight rows keeps every alignment."""
    assert FRAGMENT == 2 * PAD
    assert BLOCK == 8 * PAD
