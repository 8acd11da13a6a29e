"""The part of a carved pool that the tiles take: bounded from above, or not known."""

from __future__ import annotations

import itertools
import operator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilepipe import steps
from tilepipe.diagnostics import Refusal
from tilepipe.kernel.pool import _combined, tile_part
from tilepipe.options import Options

KERNEL = """\
constexpr int ROW = 40;
__global__ __launch_bounds__(64) void f(const float* __restrict__ a, float* __restrict__ c, int n, int ld)
{
    extern __shared__ char pool[];
    float* left = reinterpret_cast<float*>(pool);
    float* right = reinterpret_cast<float*>(pool + 16 * ROW * sizeof(float));
    float* extra = reinterpret_cast<float*>(pool + 8192);
    const int tid = threadIdx.x;
    float sum = 0.0f;
    // before
    for (int k = 0; k < n; ++k) {
        for (int s = 0; s < 2; ++s) {
            const int e = tid + s * 64;
            *reinterpret_cast<float4*>(left + (e / 8) * ROW + (e % 8) * 4) =
                *reinterpret_cast<const float4*>(a + k * 512 + e * 4);
        }
        for (int i = tid; i < 100; i += 64)
            right[i] = a[k * 100 + i];
        __syncthreads();
        for (int i = 0; i < 32; ++i)
            sum += left[(i & 15) * ROW + (tid & 31)] * right[i];
        __syncthreads();
    }
    extra[tid] = sum;
    __syncthreads();
    c[tid] = extra[63 - tid];
}
"""
# left: 16 rows of 40, right: 100 elements behind it.
WHOLE = -(-(16 * 40 * 4 + 100 * 4) // 128) * 128


def part(text: str, folder: Path) -> int | None:
    source = folder / "f.cu"
    source.write_text(text)
    job = steps.open_job(str(source), Options(device="cpu"))
    assert not isinstance(job, Refusal)
    assert not isinstance(job.model, Refusal), job.model.diagnostics[0].message
    return tile_part(job.model)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", WHOLE),
        ("(e / 8) * ROW", "(e >> 3) * ROW", WHOLE),
        ("const int e = tid", "const int e = (int)threadIdx.x", WHOLE),
        ("right[i] =", "*(right + i) =", WHOLE),
        ("right[i] =", "*(&right[0] + i) =", WHOLE),
        ("i < 100", "i < 130", -(-(16 * 40 * 4 + 130 * 4) // 128) * 128),
        ("    // before\n", "    extra[tid] = 1.0f;\n", None),
        ("    // before\n", "    for (int turn = 0; turn < 2; ++turn)\n", None),
        ("sum += left", "sum += extra[0] + left", None),
        ("__launch_bounds__(64) ", "", None),
        ("right[i] =", "right[i + ld * 0] =", None),
        ("const int e =", "const unsigned char e =", None),
        ("right[i] =", "right[(unsigned)(i - 4) % 100] =", None),
    ],
)
def test_the_part_of_the_tiles(old: str, new: str, expected: int | None, tmp_path: Path) -> None:
    assert old in KERNEL
    assert part(KERNEL.replace(old, new, 1) if old else KERNEL, tmp_path) == expected


SMALL = st.tuples(st.integers(-3, 20), st.integers(0, 9)).map(lambda pair: (pair[0], pair[0] + pair[1]))
OPERATORS = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.floordiv, "%": operator.mod,
    "<<": operator.lshift, ">>": operator.rshift, "&": operator.and_, "|": operator.or_, "^": operator.xor,
}  # fmt: skip


@given(SMALL, SMALL, st.sampled_from(sorted(OPERATORS)))
def test_bounds_hold_for_every_value(a: tuple[int, int], b: tuple[int, int], sign: str) -> None:
    bounds = _combined(sign, a, b)
    if bounds is None:
        return
    for x, y in itertools.product(range(a[0], a[1] + 1), range(b[0], b[1] + 1)):
        assert bounds[0] <= OPERATORS[sign](x, y) <= bounds[1]
