"""Copies of the forms that people write, dealt to the threads anew: emitted, compiled and executed, aligned or not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.sampling import sampled

from tilepipe import steps
from tilepipe.builds import build_candidate, verify_candidate
from tilepipe.diagnostics import Refusal
from tilepipe.job import Job
from tilepipe.options import Options
from tilepipe.plan.types import Candidate
from tilepipe.problem import ArraySpec

WIDE = Candidate("cp_async-3-ring-16", "cp_async", 3, "ring", copy_bytes=16)

KERNEL = """
{head}
__global__ void f(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N,
                  int K, int lda, int ldb)
{{
    __shared__ float As[16][{pitch}];
    __shared__ float Bs[16][16];
    const int tx = {tx}, ty = {ty};
    const int row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    float acc = 0.f;
    {before}
    for (int k0 = 0; k0 < K; k0 += 16) {{
        {load}
        __syncthreads();
        for (int k = 0; k < 16; ++k)
            acc += As[ty][{read}] * Bs[k][tx];
        __syncthreads();
        {after}
    }}
    if (row < M && col < N)
        C[row * N + col] = acc;
}}
"""
PROBLEM = """schema = 1
[kernels.f]
grid = ["(N + 15) // 16", "(M + 15) // 16"]
block = {block}
args = [
  {{ name = "A", in = ["M", "LDA"], range = [-8, 9] }},
  {{ name = "B", in = ["K", "LDB"], range = [-8, 9] }},
  {{ name = "C", out = ["M", "N"] }},
  {{ value = "M" }}, {{ value = "N" }}, {{ value = "K" }}, {{ value = "LDA" }}, {{ value = "LDB" }},
]
[kernels.f.sizes]
small = {{ M = 32, N = 32, K = 48, LDA = 48, LDB = 32 }}
"""
# Whole tiles; ragged edges that keep whole groups; odd leading dimensions; ragged everywhere.
GUARDED = (
    {"M": 32, "N": 32, "K": 48, "LDA": 48, "LDB": 32},
    {"M": 20, "N": 20, "K": 36, "LDA": 36, "LDB": 20},
    {"M": 32, "N": 32, "K": 32, "LDA": 33, "LDB": 35},
    {"M": 19, "N": 21, "K": 37, "LDA": 37, "LDB": 21},
    {"M": 16, "N": 16, "K": 13, "LDA": 16, "LDB": 16},
    {"M": 5, "N": 3, "K": 1, "LDA": 4, "LDB": 4},
)
WHOLE = (
    {"M": 32, "N": 32, "K": 48, "LDA": 48, "LDB": 32},
    {"M": 16, "N": 32, "K": 16, "LDA": 20, "LDB": 36},
    {"M": 32, "N": 16, "K": 32, "LDA": 33, "LDB": 35},
    {"M": 32, "N": 16, "K": 32, "LDA": 34, "LDB": 16},
)
A_IN, B_IN = "row < M && k0 + tx < K", "k0 + ty < K && col < N"
A_AT, B_AT = "A[row * lda + k0 + tx]", "B[(k0 + ty) * ldb + col]"
TEXTBOOK = f"As[ty][tx] = ({A_IN}) ? {A_AT} : 0.f; Bs[ty][tx] = ({B_IN}) ? {B_AT} : 0.f;"


@dataclass(frozen=True)
class Form:
    """A way of loading the two tiles, and the widths that are proved for A and B (0: narrow)."""

    load: str
    before: str = ""
    after: str = ""
    head: str = ""
    pitch: int = 16
    read: str = "k"
    tx: str = "threadIdx.x"
    ty: str = "threadIdx.y"
    block: str = '["16", "16"]'
    widths: tuple[int, int] = (16, 16)
    sizes: tuple[dict[str, int], ...] = GUARDED
    asynchronous: bool = True  # whether every copy can be asynchronous


FORMS = {
    "one element per thread": Form(TEXTBOOK),
    "padded by four": Form(TEXTBOOK, pitch=20),
    "padded by one": Form(TEXTBOOK, pitch=17, widths=(0, 16)),
    "padded by two": Form(TEXTBOOK, pitch=18, widths=(8, 16)),
    "swizzled": Form(
        TEXTBOOK.replace("As[ty][tx]", "As[ty][tx ^ ((ty & 3) * 4)]"), read="k ^ ((ty & 3) * 4)"
    ),
    "swizzled too finely": Form(
        TEXTBOOK.replace("As[ty][tx]", "As[ty][tx ^ (ty & 3)]"), read="k ^ (ty & 3)", widths=(0, 16)
    ),
    "transposed store": Form(
        TEXTBOOK.replace("As[ty][tx]", "At[tx][ty]"), before="__shared__ float At[16][16];", widths=(0, 16),
        after="",
    ),
    "no guards": Form(f"As[ty][tx] = {A_AT}; Bs[ty][tx] = {B_AT};", sizes=WHOLE),
    "if and else": Form(
        f"if ({A_IN}) As[ty][tx] = {A_AT}; else As[ty][tx] = 0.f;"
        f"if ({B_IN}) {{ Bs[ty][tx] = {B_AT}; }} else {{ Bs[ty][tx] = 0; }}"
    ),
    "one branch for both, zero otherwise": Form(
        f"if (k0 < K && row < M && col < N) {{ As[ty][tx] = {A_AT}; Bs[ty][tx] = {B_AT}; }}"
        "else { Bs[ty][tx] = 0.f; As[ty][tx] = 0.f; }",
        sizes=({"M": 32, "N": 32, "K": 48, "LDA": 48, "LDB": 32}, {"M": 20, "N": 20, "K": 32, "LDA": 32, "LDB": 36},
               {"M": 32, "N": 16, "K": 32, "LDA": 33, "LDB": 35}),
    ),
    "one branch for both, one of them padded": Form(
        f"if (row < M && k0 < K) {{ As[ty][tx] = {A_AT}; Bs[ty][tx] = {B_AT}; }}"
        "else { As[ty][tx] = 0.f; Bs[ty][tx] = 0.f; }",
        pitch=17, widths=(0, 16),
        sizes=({"M": 32, "N": 32, "K": 48, "LDA": 48, "LDB": 32}, {"M": 20, "N": 32, "K": 32, "LDA": 32, "LDB": 36},
               {"M": 32, "N": 16, "K": 32, "LDA": 33, "LDB": 35}),
    ),
    "nested branches, zero otherwise": Form(
        f"if (row < M) {{ if (k0 + tx < K) As[ty][tx] = {A_AT}; else As[ty][tx] = 0.f; }} else As[ty][tx] = 0.f;"
        f"if (k0 + ty >= K) {{ Bs[ty][tx] = 0.f; }} else if (col < N) {{ Bs[ty][tx] = {B_AT}; }}"
        "else { Bs[ty][tx] = 0.f; }"
    ),
    "through a variable": Form(
        f"float a = 0.f, b = 0.f; if ({A_IN}) a = {A_AT}; if ({B_IN}) b = {B_AT}; As[ty][tx] = a; Bs[ty][tx] = b;"
    ),
    "through a variable, with names of another block": Form(
        f"float a = 0.f; if ({A_IN}) {{ const int c = tx; a = A[row * lda + k0 + c]; }}"
        "{ const int c = tx ^ 1; As[ty][c] = a; }" + TEXTBOOK.partition("; ")[2],
        read="k ^ 1", widths=(0, 16), asynchronous=False,
    ),
    "names in the loop": Form(
        f"const int c = k0 + tx; const bool in = row < M && c < K; As[ty][tx] = in ? A[row * lda + c] : 0.f;"
        f"Bs[ty][tx] = ({B_IN}) ? {B_AT} : 0.f;"
    ),
    "macros": Form(
        "As[ty][tx] = IN(row, M, k0 + tx, K) ? A[AT(row, k0 + tx, lda)] : 0.f;"
        "Bs[ty][tx] = IN(k0 + ty, K, col, N) ? B[AT(k0 + ty, col, ldb)] : 0.f;",
        head="#define AT(r, c, ld) ((r) * (ld) + (c))\n#define IN(r, m, c, n) ((r) < (m) && (c) < (n))",
    ),
    "a helper with a row pointer": Form(
        "load(&As[ty][tx], A + (size_t)row * lda, row < M, k0 + tx, K);"
        "load(&Bs[ty][tx], B + (size_t)(k0 + ty) * ldb, k0 + ty < K, col, N);",
        head="__device__ void load(float* to, const float* from, bool in, int c, int n)"
        " { *to = in && c < n ? from[c] : 0.f; }",
    ),
    "a helper for a tile": Form(
        "tile(As, A, blockIdx.y * 16, k0, M, K, lda); tile(Bs, B, k0, blockIdx.x * 16, K, N, ldb);",
        head="""__device__ __forceinline__ void tile(float (*to)[16], const float* __restrict__ from, int row, int col,
                                      int rows, int cols, int ld)
{
    const int r = row + threadIdx.y, c = col + threadIdx.x;
    to[threadIdx.y][threadIdx.x] = (r < rows && c < cols) ? from[r * ld + c] : 0.f;
}""",
    ),
    "a helper with references to coordinates": Form(
        "load(As, A, row, tx, k0 + tx, M, K, lda, row + tx);" + TEXTBOOK.partition("; ")[2],
        head="""__device__ void load(float (&to)[16][16], const float* from, const int& r, const int& x, int c,
                     int rows, int cols, int ld, int sum)
{
    to[threadIdx.y][x] = (r < rows && c < cols) ? from[r * ld + c] : 0.f;
}""",
        widths=(0, 16),
    ),
    "a template helper with references": Form(
        "tile<16>(As, A, blockIdx.y * 16, k0, M, K, lda); tile<16>(Bs, B, k0, blockIdx.x * 16, K, N, ldb);",
        head="""template <int S>
__device__ void tile(float (&to)[S][S], const float* from, int row, int col, int rows, int cols, int ld)
{
    for (int i = threadIdx.y * S + threadIdx.x; i < S * S; i += S * S) {
        const int r = row + i / S, c = col + i % S;
        to[i / S][i % S] = (r < rows && c < cols) ? from[r * ld + c] : 0.f;
    }
}""",
    ),
    "a lambda": Form(
        "load();",
        before=f"int k0_ = 0; auto load = [&]() {{ {TEXTBOOK.replace('k0', 'k0_')} }};",
        after="k0_ += 16;",
    ),
    "nested loops": Form(
        """for (int r = ty; r < 16; r += blockDim.y)
            for (int c = tx; c < 16; c += blockDim.x) {
                const int gr = blockIdx.y * 16 + r;
                As[r][c] = (gr < M && k0 + c < K) ? A[gr * lda + k0 + c] : 0.f;
            }
        for (int r = ty; r < 16; r += blockDim.y)
            for (int c = tx; c < 16; c += blockDim.x)
                Bs[r][c] = (k0 + r < K && blockIdx.x * 16 + c < N) ? B[(k0 + r) * ldb + blockIdx.x * 16 + c] : 0.f;"""
    ),
    "pragmas above loops": Form(
        """#pragma unroll
        for (int r = ty; r < 16; r += blockDim.y)
            As[r][tx] = (blockIdx.y * 16 + r < M && k0 + tx < K) ? A[(blockIdx.y * 16 + r) * lda + k0 + tx] : 0.f;
        if (K > 0) {
            #pragma unroll 1
            for (int r = ty; r < 16; r += blockDim.y) {
                Bs[r][tx] = (k0 + r < K && col < N) ? B[(k0 + r) * ldb + col] : 0.f;
            }
        }"""
    ),
    "pragmas above a loop of which one tile stays": Form(
        """#pragma unroll
        for (int r = ty; r < 16; r += blockDim.y) {
            As[r][tx] = (blockIdx.y * 16 + r < M && k0 + tx < K) ? A[(blockIdx.y * 16 + r) * lda + k0 + tx] : 0.f;
            Bs[r][tx] = (k0 + r < K && col < N) ? B[(k0 + r) * ldb + col] : 0.f;
        }""",
        pitch=17, widths=(0, 16),
    ),
    "pragmas above a counted loop of which one tile stays": Form(
        """#pragma unroll
        for (int r = 0; r < 1; ++r) {
            As[ty + r][tx] = (row + r < M && k0 + tx < K) ? A[(row + r) * lda + k0 + tx] : 0.f;
            Bs[ty + r][tx] = (k0 + ty + r < K && col < N) ? B[(k0 + ty + r) * ldb + col] : 0.f;
        }""",
        pitch=17, widths=(0, 16),
    ),
    "both tiles in one loop": Form(
        """for (int i = ty * 16 + tx; i < 256; i += blockDim.x * blockDim.y) {
            const int r = i / 16, c = i % 16;
            const int gr = blockIdx.y * 16 + r, gc = blockIdx.x * 16 + c;
            As[r][c] = gr < M && k0 + c < K ? A[gr * lda + k0 + c] : 0.f;
            Bs[r][c] = k0 + r < K && gc < N ? B[(k0 + r) * ldb + gc] : 0.f;
        }"""
    ),
    "both tiles in a loop that one of them could keep": Form(
        """for (int i = ty * 16 + tx; i < 256; i += 256) {
            const int r = i / 16, c = i % 16;
            const int gr = blockIdx.y * 16 + r, gc = blockIdx.x * 16 + c;
            As[r][c] = gr < M && k0 + c < K ? A[gr * lda + k0 + c] : 0.f;
            Bs[r][c] = k0 + r < K && gc < N ? B[(k0 + r) * ldb + gc] : 0.f;
        }""",
        pitch=17, widths=(0, 16),
    ),
    "a line of elements per thread": Form(
        """for (int j = 0; j < 4; ++j) {
            const int r = ty * 4 + tx / 4, c = tx % 4 * 4 + j;
            const int gr = blockIdx.y * 16 + r;
            if (ty < 4) As[r][c] = gr < M && k0 + c < K ? A[gr * lda + k0 + c] : 0.f;
        }"""
        + TEXTBOOK.partition("; ")[2]
    ),
    "a row offset that steps": Form(
        """for (unsigned o = 0; o < 16; o += 16)
            As[ty + o][tx] = (row + o < M && k0 + tx < K) ? A[(row + o) * lda + k0 + tx] : 0.f;"""
        + TEXTBOOK.partition("; ")[2]
    ),
    "pointers that differ between threads": Form(
        f"As[ty][tx] = ({A_IN}) ? *pa : 0.f; Bs[ty][tx] = ({B_IN}) ? pb[0] : 0.f;",
        before="const float* pa = A + row * lda + tx; const float* pb = &B[ty * ldb + col];",
        after="pa += 16; pb += 16 * ldb;",
    ),
    "pointers of the block": Form(
        "As[ty][tx] = (row < M && k0 + tx < K) ? A[ty * lda + tx] : 0.f;"
        "Bs[ty][tx] = (k0 + ty < K && col < N) ? B[ty * ldb + tx] : 0.f;",
        before="A += blockIdx.y * 16 * lda; B += blockIdx.x * 16;",
        after="A += 16; B += 16 * ldb;",
    ),
    "coordinates of a line of threads": Form(
        TEXTBOOK, tx="threadIdx.x % 16", ty="threadIdx.x / 16", block='["256"]'
    ),
    "a line of threads dealt by blockDim": Form(
        """for (int i = threadIdx.x; i < 256; i += blockDim.x) {
            As[i / 16][i % 16] = (blockIdx.y * 16 + i / 16 < M && k0 + i % 16 < K)
                ? A[(blockIdx.y * 16 + i / 16) * lda + k0 + i % 16] : 0.f;
        }"""
        + TEXTBOOK.partition("; ")[2],
        tx="threadIdx.x % 16", ty="threadIdx.x / 16", block='["256"]',
    ),
    "pairs": Form(
        """if (tx < 8) {
            *reinterpret_cast<float2*>(&As[ty][tx * 2]) = *reinterpret_cast<const float2*>(&A[row * lda + k0 + tx * 2]);
            *reinterpret_cast<float2*>(&Bs[ty][tx * 2]) =
                *reinterpret_cast<const float2*>(&B[(k0 + ty) * ldb + blockIdx.x * 16 + tx * 2]);
        }""",
        sizes=(WHOLE[0], {"M": 32, "N": 16, "K": 32, "LDA": 34, "LDB": 18}, WHOLE[1]),
    ),
    "a triangle": Form(
        TEXTBOOK.replace(A_IN, "row < M && k0 + tx < K && k0 + tx <= row").replace(B_IN, f"k0 + ty >= col && {B_IN}"),
    ),
    "a length read from memory": Form(
        f"As[ty][tx] = (row < M && k0 + tx < len) ? {A_AT} : 0.f; Bs[ty][tx] = ({B_IN}) ? {B_AT} : 0.f;",
        before="const int len = K - (B[0] > 0.f ? K / 3 : 0);",
    ),
    "a column in a narrow type": Form(
        "const signed char c = tx * 16; As[ty][(c / 16) & 15] = A[row * lda + k0 + ((c / 16) & 15)];"
        + f"Bs[ty][tx] = {B_AT};",
        widths=(0, 16), sizes=WHOLE,
    ),
    "rows clamped": Form(
        "const float* from = A + (size_t)min(row, M - 1) * lda; As[ty][tx] = k0 + tx < K ? from[k0 + tx] : 0.f;"
        + TEXTBOOK.partition("; ")[2]
    ),
    "a fill that differs between elements": Form(
        f"As[ty][tx] = ({A_IN}) ? {A_AT} : (float)tx; Bs[ty][tx] = ({B_IN}) ? {B_AT} : 0.f;", widths=(0, 16)
    ),
    "a fill of the block": Form(
        f"As[ty][tx] = ({A_IN}) ? {A_AT} : 2.f; Bs[ty][tx] = ({B_IN}) ? {B_AT} : 0.f;"
    ),
}  # fmt: skip


def opened(form: Form, folder: Path) -> Job:
    """The form's kernel as a job of its own."""
    text = KERNEL.format(
        **{k: getattr(form, k) for k in ("head", "pitch", "tx", "ty", "before", "load", "read", "after")}
    )
    if "At[" in form.before:
        text = text.replace("As[ty][k]", "At[k][ty]").replace("__shared__ float As[16][16];", "")
    (folder / "f.cu").write_text(text, encoding="utf-8")
    (folder / "f.toml").write_text(PROBLEM.format(block=form.block), encoding="utf-8")
    job = steps.open_job(str(folder / "f.cu"), Options(device="cpu"))
    assert not isinstance(job, Refusal), job
    return job


def shifted(job: Job, offset: int) -> Job:
    """The job with every input handed over as a view that starts `offset` elements into its allocation."""
    assert job.problem is not None
    args = tuple(
        replace(a, offset=offset) if isinstance(a, ArraySpec) and a.role == "in" else a
        for a in job.problem.args
    )
    return replace(job, problem=replace(job.problem, args=args))


@pytest.mark.parametrize("name", sampled(sorted(FORMS)))
def test_a_form_is_widened_and_exact(name: str, tmp_path: Path) -> None:
    form = FORMS[name]
    job = opened(form, tmp_path)
    model = job.model
    assert not isinstance(model, Refusal), model
    widths = {"A": 0, "B": 0}
    for wide in job.wide:
        widths[wide.copy.use.buffer.name[0]] = wide.bytes
    assert (widths["A"], widths["B"]) == form.widths
    if form.asynchronous:
        built = build_candidate(job, model, WIDE)
    else:
        assert isinstance(build_candidate(job, model, WIDE), Refusal)
        built = build_candidate(job, model, Candidate("ldg-2-ring", "ldg", 2, "ring"))
    assert not isinstance(built, Refusal), built
    sizes = {f"s{i}": s for i, s in enumerate(form.sizes)}
    for offset in (0, 1) if name != "pairs" else (0, 2):
        moved = shifted(job, offset)
        answer = verify_candidate(moved, moved.device, built, sizes)
        assert not isinstance(answer, Refusal), answer
        correctness, races = answer
        assert correctness.status == "passed", (correctness.reason, built.rewrite.text)
        assert races.status == "passed", (races.reason, built.rewrite.text)
        assert correctness.sizes.keys() == sizes.keys()
        assert all(s.bitwise for s in correctness.sizes.values())


def test_an_address_that_is_named_where_nothing_is_read_is_aligned_too(tmp_path: Path) -> None:
    """The pointer that is read through may be aligned where the array that it points into is not."""
    load = (
        "As[ty][tx] = (row < M && k0 + tx < K) ? p[row * lda + k0 + tx] : 0.f;" + TEXTBOOK.partition("; ")[2]
    )
    job = opened(Form(load, before="const float* p = A + 1;"), tmp_path)
    assert job.problem is not None and not isinstance(job.model, Refusal)
    args = tuple(
        replace(a, offset=3) if isinstance(a, ArraySpec) and a.name == "A" else a for a in job.problem.args
    )
    moved = replace(job, problem=replace(job.problem, args=args))
    built = build_candidate(moved, job.model, WIDE)
    assert not isinstance(built, Refusal), built
    size = {"M": 20, "N": 20, "K": 36, "LDA": 40, "LDB": 20}
    answer = verify_candidate(moved, moved.device, built, {"s": size})
    assert not isinstance(answer, Refusal), answer
    assert [evidence.status for evidence in answer] == ["passed", "passed"], answer


_B = TEXTBOOK.partition("; ")[2]
_OFF = "const int off = blockIdx.y * 16, at = (off + ty) * lda + tx;"
_HELPER = (
    "__device__ void load(float* to, const float* from, int i)"
    " {{ const int {} = threadIdx.y & 1; to[0] = from[i + {} / 2]; }}"
)


@pytest.mark.parametrize(
    ("head", "before", "load", "width"),
    [
        (
            "",
            "const int at = row * lda + tx;",
            "{ const int x = 3; As[ty][threadIdx.x] = A[at + k0 + x / 4]; }",
            16,
        ),
        (
            "",
            "const int at = row * lda + tx;",
            "{ const int tx = 3; As[ty][threadIdx.x] = A[at + k0 + tx / 4]; }",
            0,
        ),
        ("", _OFF, "{ const int x = 7; As[ty][tx] = A[at + k0]; acc += x; }", 16),
        ("", _OFF, "{ const int off = 7; As[ty][tx] = A[at + k0]; acc += off; }", 0),
        ("", "const float* pa = A + row * lda + tx;", "As[ty][tx] = *pa; pa += 16;", 16),
        ("", "const float* pa = A + row * lda + tx + 4; pa -= 4;", "As[ty][tx] = *pa; pa += 16;", 0),
        (
            "",
            "int off = 0; const int at = row * lda + tx + off; off = 4;",
            "As[ty][tx] = A[at + k0]; acc += off;",
            0,
        ),
        (
            "",
            "int off = 4; const float* p = A + row * lda + tx + off - 4; off = 0;",
            "As[ty][tx] = p[k0];",
            0,
        ),
        ("", "int at = row * lda + tx + 4; if (ty < 99) at -= 4;", "As[ty][tx] = A[at + k0];", 0),
        (_HELPER.format("d", "d"), "", "const int c = tx; load(&As[ty][tx], A + row * lda + k0, c);", 16),
        (_HELPER.format("c", "c"), "", "const int c = tx; load(&As[ty][tx], A + row * lda + k0, c);", 0),
    ],
)
def test_names_that_mean_something_else_where_the_copy_stands(
    head: str, before: str, load: str, width: int, tmp_path: Path
) -> None:
    job = opened(Form(load + _B, before, head=head), tmp_path)
    assert not isinstance(job.model, Refusal), job.model
    assert {w.copy.use.buffer.name: w.bytes for w in job.wide}.get("As", 0) == width
    built = build_candidate(job, job.model, WIDE)
    assert not isinstance(built, Refusal), built
    answer = verify_candidate(job, job.device, built, {"s": WHOLE[0]})
    assert not isinstance(answer, Refusal) and [one.status for one in answer] == ["passed", "passed"], answer


def test_a_tile_that_stays_narrow_is_told_why(tmp_path: Path) -> None:
    report = steps.check(opened(FORMS["padded by one"], tmp_path))
    assert not isinstance(report, Refusal)
    (note,) = (d for d in report.diagnostics if d.code == "TP159")
    assert "`As`" in note.message and "multiple of 16 bytes" in note.message


ALIGNED = Options(device="cpu", aligned=True)


@pytest.mark.parametrize("name", ["one element per thread", "pointers of the block"])
def test_with_promised_alignment_there_is_no_dispatch(name: str, tmp_path: Path) -> None:
    job = replace(opened(FORMS[name], tmp_path), options=ALIGNED)
    model = job.model
    assert not isinstance(model, Refusal), model
    built = build_candidate(job, model, WIDE)
    assert not isinstance(built, Refusal), built
    asks = "tp_wide = " in built.rewrite.text
    # What the kernel computes a pointer from before the loop, no launch decides.
    assert asks == (name == "pointers of the block")
    assert "lda % 4 == 0" in built.rewrite.promised
    for offset, sizes, holds in ((0, 0, True), (0, 2, False), (0, 3, False), (1, 0, asks)):
        moved = shifted(job, offset)
        assert moved.problem is not None
        moved = replace(moved, problem=replace(moved.problem, sizes={"s": GUARDED[sizes]}))
        answer = verify_candidate(moved, moved.device, built, {"s": GUARDED[sizes]})
        assert not isinstance(answer, Refusal), answer
        assert answer[0].status == ("passed" if holds else "failed")
        assert ("promises" in answer[0].reason) == (not holds)
