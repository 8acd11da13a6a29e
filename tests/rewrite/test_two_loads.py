"""Wide copies of a helper that is called twice: the parameters of one call do not hide those of the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilepipe import steps
from tilepipe.builds import build_candidate, verify_candidate
from tilepipe.diagnostics import Refusal
from tilepipe.job import Job
from tilepipe.options import Options
from tilepipe.plan.types import Candidate

KERNEL = """
__device__ void load(float (&dst)[16][16], const float* __restrict__ src, int ld, int row, int {col}, int rows,
                     int cols)
{{
    int r = row + threadIdx.y, c = {col} + threadIdx.x;
    dst[threadIdx.y][threadIdx.x] = (r < rows && c < cols) ? src[r * ld + c] : 0.0f;
}}
__global__ void __launch_bounds__(256)
f(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K)
{{
    __shared__ float s[16][16];
    __shared__ float u[16][16];
    float sum = 0.0f;
    for (int t = 0; t < (K + 15) / 16; t++) {{
        load(s, A, K, blockIdx.y * 16, t * 16, M, K);
        load(u, B, N, t * 16, blockIdx.x * 16, K, N);
        __syncthreads();
        for (int k = 0; k < 16; k++)
            sum += s[threadIdx.y][k] * u[k][threadIdx.x];
        __syncthreads();
    }}
    const int r = blockIdx.y * 16 + threadIdx.y, c = blockIdx.x * 16 + threadIdx.x;
    if (r < M && c < N)
        C[r * N + c] = sum;
}}
"""
PROBLEM = """schema = 1
[kernels.f]
grid = ["(N + 15) // 16", "(M + 15) // 16"]
block = ["16", "16"]
args = [{ name = "A", in = ["M", "K"] }, { name = "B", in = ["K", "N"] }, { name = "C", out = ["M", "N"] },
        { value = "M" }, { value = "N" }, { value = "K" }]
[kernels.f.sizes]
small = { M = 32, N = 16, K = 64 }
none = { M = 16, N = 16, K = 0 }
one = { M = 16, N = 32, K = 16 }
ragged = { M = 20, N = 36, K = 44 }
odd = { M = 19, N = 21, K = 37 }
"""


@pytest.mark.parametrize("col", ["col", "t", "K", "row_of"])
def test_both_tiles_have_wide_copies(col: str, tmp_path: Path) -> None:
    path = tmp_path / "f.cu"
    path.write_text(KERNEL.format(col=col), encoding="utf-8")
    path.with_suffix(".toml").write_text(PROBLEM, encoding="utf-8")
    job = steps.open_job(str(path), Options(device="cpu"))
    assert isinstance(job, Job), job
    model = job.model
    assert not isinstance(model, Refusal), model
    assert len(job.wide) == 2, job.narrow
    made = build_candidate(job, model, Candidate("cp_async-3-ring-16", "cp_async", 3, "ring", copy_bytes=16))
    assert not isinstance(made, Refusal), made
    assert job.problem is not None
    answer = verify_candidate(job, job.device, made, dict(job.problem.sizes))
    assert not isinstance(answer, Refusal), answer
    assert [one.status for one in answer] == ["passed", "passed"], answer
