"""Copies are dealt to the threads anew only where all threads of a block come to the loop."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.rewrite.harness import snippet
from tests.sampling import sampled

from tilepipe.diagnostics import Refusal
from tilepipe.kernel.repartition import repartitioned
from tilepipe.kernel.widen import Widened

BODY = """    __shared__ float s[128];
    float sum = 0.0f;
    const int i = blockIdx.x * 128 + threadIdx.x;
    {}
    for (int k = 0; k < n; ++k) {{
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        sum += s[threadIdx.x];
        __syncthreads();
    }}
    c[i] = sum;"""
# Case -> what stands before the loop, whether all threads come to it.
CASES = {
    "nothing": ("", True),
    "some return": ("if (i >= n * 100) return;", False),
    "some return, by a name": ("const bool out = i >= n; if (out) { c[0] = sum; return; }", False),
    "some return in a loop that runs once": ("do { if (i >= n) return; } while (0);", False),
    "some exit": ('if (i >= n) asm volatile("exit;");', False),
    "some return by a macro": ("LEAVE(i >= n)", False),
    "whole blocks return": ("if (blockIdx.x * 128 >= n * 100) return;", True),
    "whole blocks return, by a name": (
        "const int first = blockIdx.x * 128; if (first >= n) { return; }",
        True,
    ),
    "a helper returns": ("sum = at(i);", True),
    "a helper returns a branch's value": ("set(sum, i);", True),
    "a lambda returns": ("auto f = [](int j) { if (j > 3) return 1.0f; return 2.0f; }; sum = f(i);", True),
}
HEAD = """#define LEAVE(what) if (what) return;
__device__ float at(int i) { return i > 3 ? 1.0f : 2.0f; }
__device__ void set(float& x, int i) { if (i < 3) return; x = 3.0f; }"""


@pytest.mark.parametrize("case", sampled(CASES))
def test_elements_are_dealt_anew_where_all_threads_come(case: str, tmp_path: Path) -> None:
    before, come = CASES[case]
    model = snippet(BODY.format(before), tmp_path, HEAD).model
    assert not isinstance(model, Refusal), model
    found = repartitioned(model, model.answers, (128, 1, 1))
    assert any(isinstance(w, Widened) for w in found) == come, found
