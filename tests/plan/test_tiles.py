"""Tile counts read from the loop's header, against the loop itself in Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilepipe.job import Job
from tilepipe.opening import open_job
from tilepipe.options import Options
from tilepipe.plan.types import Plan

LOOP = """\
{before}
__global__ void k(const float* x, float* y, int n, int m) {{
  __shared__ float tile[32];
  float sum = 0.0f;
  {local}
  for ({header}) {{
    tile[threadIdx.x] = x[{at} + threadIdx.x];
    __syncthreads();
    for (int i = 0; i < 32; ++i) sum += tile[i];
    __syncthreads();
  }}
  y[threadIdx.x] = sum;
}}
"""
PROBLEM = """\
schema = 1
[kernels.k]
grid  = ["1"]
block = ["32"]
flops = "64*N"
args = [{ name = "x", in = ["N + 32"] }, { name = "y", out = ["32"] }, { value = "N" }, { value = "4" }]
[kernels.k.sizes]
small = { N = 96 }
target = { N = 330 }
"""


def opened(folder: Path, header: str, at: str = "a", before: str = "", local: str = "") -> Job:
    (folder / "k.cu").write_text(LOOP.format(header=header, at=at, before=before, local=local))
    (folder / "k.toml").write_text(PROBLEM)
    job = open_job(str(folder / "k.cu"), Options(device="cpu"))
    assert isinstance(job, Job), job
    return job


@pytest.mark.parametrize(
    ("header", "before", "local", "count", "tile"),
    [
        ("int a = 0; a < n; a += 32", "", "", 11, ("n", 32)),
        ("int a = 0; a < n; a += T", "#define T 32", "", 11, ("n", 32)),
        ("int a = 0; a < n; a = a + T", "constexpr int T = 4 * 8;", "", 11, ("n", 32)),
        ("int a = 0; a < n / 32; ++a", "", "", 10, ("n", 32)),
        ("int a = 0; a < n / T; a++", "constexpr int T = 32u;", "", 10, ("n", 32)),
        ("int a = 0; a < (n + 31) / 32; ++a", "", "", 11, ("n", 32)),
        ("int a = 0; a < tiles; ++a", "", "const int tiles = (n + 31) / 32;", 11, ("n", 32)),
        ("int a = 0; a < n * m; a += 40", "", "", 33, None),
        ("int a = 0; a < m; ++a", "", "", 4, ("m", 1)),
        ("int a = 32; a < n; a += 32", "", "", None, None),
        ("int a = blockIdx.x; a < n; a += 32", "", "", None, None),
        ("int a = 0; a < n; a += blockDim.x", "", "", None, None),
    ],
)
def test_the_number_of_tiles(
    header: str, before: str, local: str, count: int | None, tile: tuple[str, int] | None, tmp_path: Path
) -> None:
    job = opened(tmp_path, header, before=before, local=local)
    assert job.tile_count == count
    counter = job.tile_counter
    assert (counter.tile(job.tile_constants) if counter else None) == tile


def test_what_the_problem_says_comes_first(tmp_path: Path) -> None:
    job = opened(tmp_path, "int a = 0; a < n; a += 32")
    path = tmp_path / "k.toml"
    path.write_text(PROBLEM.replace("args =", "tile = { N = 33 }\nargs ="))
    other = open_job(job.path, Options(device="cpu"))
    assert isinstance(other, Job)
    assert other.tile_count == 10


def test_a_prediction_without_tile_in_the_problem(tmp_path: Path) -> None:
    plan = opened(tmp_path, "int a = 0; a < n; a += 32").plan
    assert isinstance(plan, Plan) and plan.ratio.flops_per_byte is not None
