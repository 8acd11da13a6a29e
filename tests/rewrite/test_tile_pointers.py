"""Forms that public kernels have, executed: tiles behind pointers, and pointers made in the load phase."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilepipe import steps
from tilepipe.builds import build_candidate, verify_candidate
from tilepipe.diagnostics import Refusal
from tilepipe.options import Options
from tilepipe.plan.types import Candidate

POOL = """\
__global__ __launch_bounds__(64) void pool(const float* __restrict__ a, float* __restrict__ c, int n)
{
    extern __shared__ char pool_bytes[];
    float* left = (float*)(pool_bytes);
    float* right = (float*)(pool_bytes + 512);
    float sum = 0.0f;
    for (int k = 0; k < n; k += 128) {
        for (int i = threadIdx.x; i < 128; i += 64) {
            left[i] = (k + i < n) ? a[k + i] : 0.0f;
            right[i] = (k + i < n) ? a[n + k + i] : 0.0f;
        }
        __syncthreads();
        for (int i = 0; i < 128; ++i)
            sum += left[i] * right[i ^ threadIdx.x];
        __syncthreads();
    }
    { float* out = left + threadIdx.x; *out = sum; }
    __syncthreads();
    c[threadIdx.x] = left[63 - threadIdx.x];
}
"""
POINTERS = """\
__global__ void pool(const float* __restrict__ a, float* __restrict__ c, int n)
{
    __shared__ __align__(16) float left[128];
    float sum = 0.0f;
    for (int k = 0; k < n; k += 128) {
        if (threadIdx.x < 32) {
            float4* const to_s = reinterpret_cast<float4*>(&left[threadIdx.x * 4]);
            const float4* const to = reinterpret_cast<const float4*>(&a[k + threadIdx.x * 4]);
            *to_s = *to;
        }
        __syncthreads();
        for (int i = 0; i < 128; ++i)
            sum += left[i ^ threadIdx.x];
        __syncthreads();
    }
    c[threadIdx.x] = sum;
}
"""
BESIDE = """\
__global__ __launch_bounds__(64) void pool(const float* __restrict__ a, float* __restrict__ c, int n)
{
    __shared__ float left[128];
    __shared__ float turned[4][64];
    float sum = 0.0f;
    for (int k = 0; k < n; k += 128) {
        for (int i = threadIdx.x; i < 128; i += 64)
            left[i] = a[k + i];
        const float4 v = *reinterpret_cast<const float4*>(a + k + (threadIdx.x & 31) * 4);
        turned[0][threadIdx.x] = v.x * 2.0f;
        turned[1][threadIdx.x] = v.y;
        turned[2][threadIdx.x] = v.z;
        turned[3][threadIdx.x] = v.w;
        __syncthreads();
        for (int i = 0; i < 128; ++i)
            sum += left[i ^ threadIdx.x] * turned[i & 3][i >> 1];
        __syncthreads();
    }
    c[threadIdx.x] = sum;
}
"""
BESIDE_IN_POOL = BESIDE.replace(
    "    __shared__ float left[128];\n    __shared__ float turned[4][64];\n",
    "    extern __shared__ __align__(16) float pool_floats[];\n    float* left = pool_floats;\n"
    "    float* turned = pool_floats + 128;\n",
)
for row in "0123":
    BESIDE_IN_POOL = BESIDE_IN_POOL.replace(
        f"turned[{row}][threadIdx.x]", f"turned[{row} * 64 + threadIdx.x]"
    )
BESIDE_IN_POOL = BESIDE_IN_POOL.replace("turned[i & 3][i >> 1]", "turned[(i & 3) * 64 + (i >> 1)]")
PROBLEM = """\
schema = 1
[kernels.pool]
grid = ["1"]
block = ["64"]
shared = "1536"
args = [{ name = "a", in = ["2 * n"] }, { name = "c", out = ["64"] }, { value = "n" }]
[kernels.pool.sizes]
small = { n = 384 }
one = { n = 128 }
"""
CANDIDATES = {
    "ldg": Candidate("ldg-2-ring", "ldg", 2, "ring"),
    "stash": Candidate("stash-3-ring-16", "stash", 3, "ring", copy_bytes=16),
    "pool": Candidate("stash-4-ring", "stash", 4, "ring"),
    "wide": Candidate("cp_async-3-ring-16", "cp_async", 3, "ring", copy_bytes=16),
}


@pytest.mark.parametrize(
    ("text", "candidate"),
    [(POOL, "ldg"), (POOL, "wide"), (POINTERS, "ldg"), (BESIDE, "stash"), (BESIDE_IN_POOL, "pool")],
)
def test_exact_and_free_of_races(text: str, candidate: str, tmp_path: Path) -> None:
    source = tmp_path / "pool.cu"
    source.write_text(text)
    source.with_suffix(".toml").write_text(PROBLEM)
    job = steps.open_job(str(source), Options(device="cpu"))
    assert not isinstance(job, Refusal)
    model = job.model
    assert not isinstance(model, Refusal)
    built = build_candidate(job, model, CANDIDATES[candidate])
    assert not isinstance(built, Refusal)
    if candidate == "pool":
        assert built.rewrite.extra_dynamic_shared == 3 * 1536
    elif candidate != "ldg":
        assert "tp_wide" in built.rewrite.text
    sizes = (
        {"small": {"n": 384}, "one": {"n": 128}, "ragged": {"n": 130}}
        if text is POOL
        else {"small": {"n": 384}}
    )
    correctness, races = verify_candidate(job, job.device, built, sizes)
    assert (correctness.status, races.status) == ("passed", "passed"), (correctness, races)


# What stands after the loop: another tile was written, but this one still holds the last tile of the loop; or it was
# written under a condition, or later only.
STALE = {
    "another": "    right[threadIdx.x] = sum;\n    __syncthreads();\n    c[threadIdx.x] = right[0] + left[0];\n",
    "a condition": "    if (sum > 9) left[threadIdx.x] = sum;\n    __syncthreads();\n    c[threadIdx.x] = left[9];\n",
    "later": "    c[threadIdx.x] = left[0];\n    __syncthreads();\n    left[threadIdx.x] = sum;\n",
}


@pytest.mark.parametrize("after", STALE)
def test_a_tile_in_dynamic_memory_that_is_read_after_the_loop_is_refused(after: str, tmp_path: Path) -> None:
    source = tmp_path / "pool.cu"
    source.write_text(POOL[: POOL.index("    { float* out")] + STALE[after] + "}\n")
    source.with_suffix(".toml").write_text(PROBLEM)
    job = steps.open_job(str(source), Options(device="cpu"))
    assert not isinstance(job, Refusal) and not isinstance(job.model, Refusal)
    built = build_candidate(job, job.model, CANDIDATES["ldg"])
    assert isinstance(built, Refusal)
    assert "the last tile is read after the loop" in built.diagnostics[0].message


def test_a_tile_that_is_used_after_the_block_of_its_loop_is_refused_for_that(tmp_path: Path) -> None:
    """In dynamic memory the order of time counts, not that of blocks; a static tile has no name there."""
    head, rest = POOL.split("    for (", 1)
    loop = "    {\n    for (" + rest[: rest.index("    { float* out")] + "        sum += left[3];\n    }\n"
    source = tmp_path / "pool.cu"
    source.write_text(
        head + loop + "    left[threadIdx.x] = sum;\n    c[threadIdx.x] = left[threadIdx.x];\n}\n"
    )
    source.with_suffix(".toml").write_text(PROBLEM)
    job = steps.open_job(str(source), Options(device="cpu"))
    assert not isinstance(job, Refusal) and not isinstance(job.model, Refusal), job.model
    built = build_candidate(job, job.model, CANDIDATES["ldg"])
    assert isinstance(built, Refusal)
    assert "the last tile is read after the loop" in built.diagnostics[0].message
