"""Dynamic shared memory behind a class: what only hands it out is pipelined and executed; anything else is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilepipe import steps
from tilepipe.builds import build_candidate, verify_candidate
from tilepipe.diagnostics import Refusal
from tilepipe.job import Job
from tilepipe.options import Options
from tilepipe.plan.types import Candidate

CLASS = """template <class T> struct Memory {
    __device__ inline operator T*()
    {
        extern __shared__ int memory[];
        return (T*)memory;
    }
    __device__ inline operator const T*() const
    {
        extern __shared__ int memory[];
        return (T*)memory;
    }
};
"""
PLAIN = """struct Memory {
    __device__ operator float*()
    {
        extern __shared__ __align__(16) float memory[];
        return reinterpret_cast<float*>(memory);
    }
};
"""
OTHER = "    __device__ inline operator const T*() const"
SPECIAL = """template <> struct Memory<float> {
    __device__ operator float*() { extern __shared__ float m[]; return m + 8; }
};
"""
# The class, the pointer's value, and text before it.
TAKEN = {
    "a template": (CLASS, "Memory<float>()", ""),
    "a plain class": (PLAIN, "Memory()", ""),
    "after other text": (CLASS, "Memory<float>()", "float unused = 0.0f; sum += unused;"),
}
REFUSED = {
    "an offset": (
        CLASS.replace("(T*)memory;\n    }\n};", "(T*)memory + 8;\n    }\n};"),
        "Memory<float>()",
        "",
    ),
    "two arrays": (CLASS.replace("memory", "other", 2), "Memory<float>()", ""),
    "a constructor": (CLASS.replace(OTHER, "    __device__ Memory() {}\n" + OTHER), "Memory<float>()", ""),
    "a count": (CLASS.replace(OTHER, "    int count = 0;\n" + OTHER), "Memory<float>()", ""),
    "a specialisation": (CLASS + SPECIAL, "Memory<float>()", ""),
    "a second parameter": (CLASS.replace("<class T>", "<class T, int N>"), "Memory<float, 3>()", ""),
    "a name of the kernel": (CLASS, "Memory<float>()", "int memory = 3; sum += memory;"),
}
KERNEL = """{head}
__global__ void __launch_bounds__(128) f(const float* __restrict__ a, float* __restrict__ c, int n)
{{
    float sum = 0.0f;
    {before}
    float* s = {value};
    for (int k = 0; k < n; ++k) {{
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; i += 3)
            sum = sum * 0.5f + s[(i + threadIdx.x) & 127];
        __syncthreads();
    }}
    c[threadIdx.x] = sum;
}}
"""
PROBLEM = """schema = 1
[kernels.f]
grid = ["1"]
block = ["128"]
shared = "1024"
args = [{ name = "a", in = ["8192"] }, { name = "c", out = ["128"] }, { value = "N" }]
[kernels.f.sizes]
small = { N = 5 }
zero = { N = 0 }
one = { N = 1 }
"""


def opened(folder: Path, case: tuple[str, str, str]) -> Job:
    head, value, before = case
    (folder / "f.cu").write_text(KERNEL.format(head=head, value=value, before=before), encoding="utf-8")
    (folder / "f.toml").write_text(PROBLEM, encoding="utf-8")
    job = steps.open_job(str(folder / "f.cu"), Options(device="cpu", allow_launch_change=True))
    assert isinstance(job, Job), job
    return job


@pytest.mark.parametrize("name", TAKEN)
def test_a_tile_behind_a_class_is_pipelined(name: str, tmp_path: Path) -> None:
    job = opened(tmp_path, TAKEN[name])
    model = job.model
    assert not isinstance(model, Refusal), model
    made = build_candidate(job, model, Candidate("cp_async-3-ring", "cp_async", 3, "ring"))
    assert not isinstance(made, Refusal), made
    assert made.rewrite.needs_launch_change
    assert job.problem is not None
    answer = verify_candidate(job, job.device, made, dict(job.problem.sizes))
    assert not isinstance(answer, Refusal), answer
    assert [one.status for one in answer] == ["passed", "passed"], answer


@pytest.mark.parametrize("name", REFUSED)
def test_a_class_that_does_more_is_refused(name: str, tmp_path: Path) -> None:
    job = opened(tmp_path, REFUSED[name])
    assert job.fault is None, job.fault
    assert isinstance(job.model, Refusal)
