"""Addresses that get out of sight are refused (TP023), and what is followed is not."""

from __future__ import annotations

import pytest

from tilepipe.diagnostics import Refusal
from tilepipe.kernel.file import CudaFile
from tilepipe.kernel.model import study
from tilepipe.source import SourceFile

KERNEL = """
struct Ref {{ int& n; }};
struct Ptr {{ int* q; }};
__device__ float peek(unsigned at) {{ float v; asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(at)); return v; }}
__global__ void kk(const float* __restrict__ a, float* __restrict__ c, int n, int m)
{{
    __shared__ float s[64];
    const int t = threadIdx.x;
    float acc = 0;
    {before}
    for (int k = 0; k < n; k += 64) {{
        s[t] = k + t < {limit} ? a[k + t] : 0.f;
        __syncthreads();
        for (int j = 0; j < 64; ++j) acc += {read} * (j + t);
        {after}
        __syncthreads();
    }}
    c[t] = acc;
}}
"""


def studied(before: str = "", after: str = "", read: str = "s[j]", limit: str = "n") -> Refusal | None:
    text = KERNEL.format(before=before, after=after, read=read, limit=limit)
    file = CudaFile(SourceFile("k.cu", text))
    found = study(file, file.kernels[0])
    return found if isinstance(found, Refusal) else None


@pytest.mark.parametrize(
    "how",
    [
        {"before": "int* np = &n;", "after": "if (k == 64) *np -= 64;"},
        {"before": "const int* np = &n;", "after": "if (k == 64) n -= 64;", "limit": "*np"},
        {"before": "Ref r{n};", "after": "if (k == 64) r.n -= 64;"},
        {"before": "Ptr r{&n};", "after": "if (k == 64) *r.q -= 64;"},
        {"before": "int* r[1] = {&n};", "after": "if (k == 64) *r[0] -= 64;"},
        {"before": "int less = n - 64;", "after": "if (k == 64) memcpy(&n, &less, 4);"},
        {"before": "auto less = [](int* x) { *x -= 64; };", "after": "if (k == 64) less(&n);"},
        {"before": "size_t r = (size_t)s;", "read": "(*(const float*)(r + 4 * j))"},
        {"before": "long long r = reinterpret_cast<long long>(&s[0]);", "read": "((float*)r)[j]"},
        {"before": "unsigned r = (unsigned)__cvta_generic_to_shared(s) >> 2;", "read": "peek(r * 4 + j * 4)"},
        {"before": "const float* r = s; const float** rr = &r;", "read": "(*rr)[j]"},
        {"before": "__shared__ const float* r; if (t == 0) r = s; __syncthreads();", "read": "r[j]"},
        {"before": "float* r[2] = {(float*)a, c};", "after": "r[0][k + 64 + t] = acc;"},
    ],
)
def test_a_hidden_address_is_refused(how: dict[str, str]) -> None:
    refused = studied(**how)
    assert refused is not None
    assert refused.diagnostics[0].code in {"TP023", "TP021"}
    assert refused.diagnostics[0].place is not None


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"before": "const float* r = s;", "read": "r[j]"},
        {"before": "unsigned r = (unsigned)__cvta_generic_to_shared(s);", "read": "peek(r + 4 * j)"},
        {"after": "float x = acc; int bits = *reinterpret_cast<int*>(&x); acc += bits & 1;"},
        {"before": "float parts[2]; float* r = &parts[0]; r[0] = 1.f;", "after": "acc += parts[0];"},
        {"before": "int whole = (int)(n / 64);", "after": "acc += whole;"},
    ],
)
def test_an_address_that_is_followed_is_not_refused(how: dict[str, str]) -> None:
    assert studied(**how) is None
