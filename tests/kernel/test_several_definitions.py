"""A macro with several definitions is taken only where each is a plain value or a type (TP020)."""

from __future__ import annotations

import pytest

from tilepipe.diagnostics import Refusal
from tilepipe.kernel.file import CudaFile
from tilepipe.kernel.model import study
from tilepipe.source import SourceFile

KERNEL = """
{first}
__global__ void kk(const float* __restrict__ a, float* __restrict__ c, int n)
{{
    __shared__ float s[64];
    float sum = 0;
    for (int k = 0; k < n; ++k) {{
        s[threadIdx.x] = AT(a, k);
        __syncthreads();
        for (int j = 0; j < 64; ++j) sum += s[j];
        __syncthreads();
    }}
    c[threadIdx.x] = sum;
}}
{last}
"""
PLAIN = "#define AT(p, k) p[(k) * 64 + threadIdx.x]"


def studied(first: str, last: str = "") -> object:
    file = CudaFile(SourceFile("k.cu", KERNEL.format(first=first, last=last)))
    return study(file, file.kernels[0])


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("#define AT(p, k) (c[k] = p[(k) * 64 + threadIdx.x])", "#undef AT\n" + PLAIN),
        (f"#ifdef LOUD\n#define AT(p, k) (c[k] = p[(k) * 64])\n#else\n{PLAIN}\n#endif", ""),
    ],
)
def test_definitions_that_act_differently_are_refused(first: str, last: str) -> None:
    found = studied(first, last)
    assert isinstance(found, Refusal)
    assert found.diagnostics[0].code == "TP020"


@pytest.mark.parametrize(
    "first",
    [
        PLAIN,
        f"{PLAIN}\n#ifdef BIG\n#define DEPTH 32\n#else\n#define DEPTH 8 * 2\n#endif\nconstexpr int depth = DEPTH;",
        f"{PLAIN}\n#define NOISE(x) x++\n#undef NOISE\n#define NOISE(x) x--",
    ],
)
def test_values_and_unused_macros_may_have_several(first: str) -> None:
    assert not isinstance(studied(first), Refusal)
