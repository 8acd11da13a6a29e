"""What a tile filled in part may be read for: nothing that an earlier tile left (TP022)."""

from __future__ import annotations

import pytest

from tilepipe.diagnostics import Refusal
from tilepipe.kernel.file import CudaFile
from tilepipe.kernel.model import study
from tilepipe.source import SourceFile


def code(fill: str, read: str) -> str:
    """The code of the refusal, "" for none, of a loop over tiles of `count` rows of four elements each."""
    text = f"""\
__global__ void f(const float* __restrict__ a, float* __restrict__ c, int n)
{{
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; k += 32) {{
        const int count = min(32, n - k);
        {fill}
        __syncthreads();
        {read}
        __syncthreads();
    }}
    c[threadIdx.x] = sum;
}}
"""
    file = CudaFile(SourceFile("f.cu", text))
    answer = study(file, file.kernels[0])
    refused = answer if isinstance(answer, Refusal) else answer.one_buffer
    return refused.diagnostics[0].code if refused is not None else ""


ALL = "for (int i = 0; i < 128; ++i) sum += s[i];"
ROWS = "for (int j = 0; j < count; ++j) sum += s[4 * j] + s[4 * j + 3];"
PART = "for (int e = threadIdx.x; e < count * 4; e += 128) s[e] = a[k * 4 + e];"


@pytest.mark.parametrize(
    ("fill", "read", "expected"),
    [
        (PART, ROWS, ""),
        (PART, ALL, "TP022"),
        (PART, ROWS.replace("j < count", "j <= count"), "TP022"),
        (PART, ROWS.replace("j < count", "j < n"), "TP022"),
        (PART, ROWS.replace("+ 3", "+ 4"), "TP022"),
        (PART, ROWS.replace("4 * j]", "5 * j]"), "TP022"),
        (PART, ROWS.replace("s[4 * j]", "s[4 * (j + 1)]"), "TP022"),
        (PART, f"{ROWS} sum += s[0];", "TP022"),
        ("if (threadIdx.x < count) s[threadIdx.x] = a[k + threadIdx.x];", ROWS, "TP022"),
        (
            "if (threadIdx.x < count) s[threadIdx.x] = a[k + threadIdx.x];",
            "for (int j = 0; j < count; ++j) sum += s[j];",
            "",
        ),
        ("s[threadIdx.x] = threadIdx.x < count ? a[k + threadIdx.x] : 0.0f;", ALL, ""),
        ("if (threadIdx.x < 100) s[threadIdx.x] = a[k + threadIdx.x];", ALL, ""),
        (
            "for (int e = threadIdx.x; e < 128; e += 128) { if (e >= count) break; s[e] = a[k + e]; }",
            ALL,
            "TP022",
        ),
        (
            "bool in = false; if (count > 3) in = true; if (in) s[threadIdx.x] = a[k + threadIdx.x];",
            ALL,
            "TP022",
        ),
    ],
)
def test_reads_stay_within_what_the_tile_filled(fill: str, read: str, expected: str) -> None:
    assert code(fill, read) == expected
