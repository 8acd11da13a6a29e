"""Dynamic shared memory under several names: all of them are followed to the stage, or the kernel is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.rewrite.harness import candidate, snippet, tile_counts

from tilepipe.diagnostics import Refusal

_BODY = """    float acc = 0.f;
    {declared}
    for (int k = 0; k < n; ++k) {{
        for (int i = threadIdx.x; i < 256; i += 128) t[i] = a[k * 256 + i];
        __syncthreads();
        {compute}
        __syncthreads();
    }}
    c[blockIdx.x * 128 + threadIdx.x] = acc;"""
_SUM = "for (int i = 0; i < 256; i += 3) acc = acc * 0.5f + {}[(i + threadIdx.x) & 255];"
_SCRATCH = "u[128 + threadIdx.x] = acc; __syncthreads(); acc += u[128 + (threadIdx.x ^ 1)];"


@pytest.mark.parametrize(
    ("declared", "read"),
    [
        ("extern __shared__ float p[]; float* t = p;", "p"),
        ("extern __shared__ float p[]; float* t = p;", "t"),
        ("extern __shared__ float p[]; float* t = &p[0];", "(&p[0])"),
        ("extern __shared__ char p[]; float* t = reinterpret_cast<float*>(p);", "reinterpret_cast<float*>(p)"),
        ("extern __shared__ float p[]; float* t = p + 256;", "(256 + p)"),
        ("__shared__ float p[300]; float* t = p + 44;", "(p + 44)"),
        ("extern __shared__ float p[]; float* t = p; const float* u = p;", "u"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("wanted", [candidate("ldg", 2), candidate("cp_async", 3), candidate("prefetch", 1)])
def test_every_name_means_the_stage(declared: str, read: str, wanted, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    kernel = snippet(_BODY.format(declared=declared, compute=_SUM.format(read)), tmp_path)
    made = kernel.emit(wanted)
    assert not isinstance(made, Refusal), made
    assert kernel.difference(made, tile_counts()) == ""


def test_a_piece_that_begins_elsewhere_stays_one_of_its_own(tmp_path: Path) -> None:
    declared = "extern __shared__ float p[]; float* t = p; float* u = p + 256;"
    kernel = snippet(_BODY.format(declared=declared, compute=_SUM.format("t") + _SCRATCH), tmp_path)
    made = kernel.emit(candidate("ldg", 2))
    assert not isinstance(made, Refusal), made
    assert kernel.difference(made, tile_counts()) == ""


_HELPER = "__device__ void add(float& acc{parameter}) {{ {declared}" + _SUM.format("q") + " }}"


@pytest.mark.parametrize(
    ("head", "declared", "compute", "code"),
    [
        ("", "extern __shared__ float t[]; extern __shared__ char q[];", _SUM.format("((float*)q)"), "TP023"),
        (_HELPER.format(parameter="", declared="extern __shared__ float q[];"),
         "extern __shared__ float t[];", "add(acc);", "TP023"),
        ("extern __shared__ float q[];\n" + _HELPER.format(parameter="", declared=""),
         "float* t = q;", "add(acc);", "TP023"),
        ("struct Q { __device__ static float at(int i) { extern __shared__ float q[]; return q[i]; } };",
         "extern __shared__ float t[];", "acc += Q::at(threadIdx.x ^ 1);", "TP023"),
        ("#define DYNAMIC(name) extern __shared__ float name[]\n"
         "__device__ float at(int i) { DYNAMIC(q); return q[i]; }",
         "extern __shared__ float t[];", "acc += at(threadIdx.x ^ 1);", "TP023"),
        ("extern __shared__ float q[];\n#define POOL (q + 1)\n__device__ float at(int i) { return POOL[i]; }",
         "float* t = q;", "acc += at(threadIdx.x ^ 1);", "TP023"),
        ("__device__ float at(int i) { extern __shared__ float q[]; return q[i]; }\n#define AT(i) at(i)",
         "extern __shared__ float t[];", "acc += AT(threadIdx.x ^ 1);", "TP023"),
        ("__device__ float at(const float* q, int i) { return q[i]; }\n"
         "__device__ float elsewhere(int i) { extern __shared__ float q[]; return q[i]; }",
         "extern __shared__ float t[];", "acc += at(t, threadIdx.x ^ 1);", ""),
        ("", "extern __shared__ float p[]; float* t = p; float* u = p;", _SUM.format("t") + _SCRATCH, "TP012"),
        (_HELPER.format(parameter=", const float* q", declared=""), "extern __shared__ float t[];", "add(acc, t);", ""),
        ("extern __shared__ float q[];\n" + _HELPER.format(parameter=", const float* q", declared=""),
         "float* t = q;", "add(acc, q);", ""),
    ],
)  # fmt: skip
def test_other_names_are_refused(head: str, declared: str, compute: str, code: str, tmp_path: Path) -> None:
    kernel = snippet(_BODY.format(declared=declared, compute=compute), tmp_path, head)
    made = kernel.emit(candidate("cp_async", 3))
    if code:
        assert isinstance(made, Refusal)
        assert made.diagnostics[0].code == code, made
    else:
        assert not isinstance(made, Refusal), made
        assert kernel.difference(made, tile_counts()) == ""
