"""Device functions that the compiler does not inline."""

from __future__ import annotations

import numpy as np
import pytest

from tilepipe.diagnostics import Refusal
from tilepipe.emulator import Buffer, Execution, Program, load_program
from tilepipe.toolchain import Compiled, NvrtcToolchain, Unit

SOURCE = """
struct Pair { float a; int b; double c; };
__device__ __noinline__ float early(float x, int n) {
  float s = 0;
  for (int i = 0; i < n; i++) { if (i == 7) return s * 2; s += x * i; }
  return s;
}
__device__ __noinline__ Pair rotate(Pair p, signed char c, float4 v) {
  __shared__ int s[32];
  s[threadIdx.x] = p.b;
  __syncthreads();
  Pair q;
  q.a = early(p.a, p.b) + v.y;
  q.b = s[(threadIdx.x + 1) % 32] + c;
  q.c = p.c + v.w;
  return q;
}
extern "C" __global__ void k(float* o, int* n, double* d, Pair p) {
  const int t = threadIdx.x;
  Pair q = p;
  q.b += t;
  q = rotate(q, -3, make_float4(1, 2, 3, 4));
  o[t] = q.a; n[t] = q.b; d[t] = q.c;
  int room[16];
  for (int i = 0; i < 16; i++) room[i] = i * t;
  n[t] += room[(t * 7) & 15];
}
"""


def compiled(nvrtc: NvrtcToolchain, text: str) -> Compiled:
    answer = nvrtc.compile(Unit(text, "calls.cu", "k"), "sm_80", "ptx")
    assert isinstance(answer, Compiled), answer
    return answer


def test_calls_with_structs_barriers_and_early_returns(nvrtc: NvrtcToolchain) -> None:
    answer = compiled(nvrtc, SOURCE)
    assert b"call" in answer.image
    loaded = load_program(answer.image.decode(), answer.symbol)
    assert isinstance(loaded, Program), loaded
    o, n, d = np.zeros(32, np.float32), np.zeros(32, np.int32), np.zeros(32)
    pair = np.zeros((), np.dtype([("a", "f4"), ("b", "i4"), ("c", "f8")], align=True))
    pair["a"], pair["b"], pair["c"] = 1.5, 3, 9
    done = loaded.run((1, 1, 1), (32, 1, 1), 0, [Buffer(o), Buffer(n), Buffer(d), pair[()]])
    assert isinstance(done, Execution)
    assert not done.findings
    for t in range(32):
        count = 3 + t
        want = 1.5 * sum(range(min(count, 7))) * (2 if count > 7 else 1) + 2
        assert (o[t], n[t], d[t]) == (want, 3 + (t + 1) % 32 - 3 + ((t * 7) & 15) * t, 13)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("*p = (int)(size_t)malloc(8);", "malloc"),
        ("*p = deep(*p);", "recursion"),
        ("int (*f)(int) = *p ? one : two; *p = f(3);", ".callprototype"),
    ],
)
def test_refused_calls(nvrtc: NvrtcToolchain, body: str, says: str) -> None:
    text = f"""
#include <cstdio>
__device__ __noinline__ int one(int x) {{ return x + clock(); }}
__device__ __noinline__ int two(int x) {{ return x - clock(); }}
__device__ __noinline__ int deep(int n) {{ return n <= 1 ? 1 : deep(n - 1) * deep(n - 2) + n; }}
extern "C" __global__ void k(int* p) {{ {body} }}
"""
    answer = compiled(nvrtc, text)
    refused = load_program(answer.image.decode(), answer.symbol)
    assert isinstance(refused, Refusal)
    (diagnostic,) = refused.diagnostics
    assert diagnostic.code == "TP300"
    assert says in diagnostic.message


def test_failed_assertion_is_a_trap(nvrtc: NvrtcToolchain) -> None:
    body = "assert(p[threadIdx.x] != 5); p[threadIdx.x] = 1;"
    text = f'#include <cassert>\nextern "C" __global__ void k(int* p) {{ {body} }}'
    answer = compiled(nvrtc, text)
    loaded = load_program(answer.image.decode(), answer.symbol)
    assert isinstance(loaded, Program), loaded
    for value, kinds in ((4, []), (5, ["trap"])):
        data = np.array([1, 2, value, 3], np.int32)
        done = loaded.run((1, 1, 1), (4, 1, 1), 0, [Buffer(data)])
        assert isinstance(done, Execution)
        assert [f.kind for f in done.findings] == kinds
