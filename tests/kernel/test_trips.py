"""Trip counts of copy loops and the intervals of their starts, against brute force over all threads."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tilepipe.kernel.file import CudaFile
from tilepipe.kernel.model import Study, study
from tilepipe.kernel.trips import trips
from tilepipe.source import SourceFile

THREADS = 96


def counted(start: str, sign: str, bound: str, step: str):  # type: ignore[no-untyped-def]
    text = f"""\
__global__ void __launch_bounds__({THREADS}) f(const float* __restrict__ a, float* __restrict__ c, int n)
{{
    __shared__ float s[4096];
    const int half = threadIdx.x / 2;
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {{
        for (int i = {start}; i {sign} {bound}; i += {step})
            s[i] = a[k * 4096 + i];
        __syncthreads();
        sum += s[threadIdx.x];
        __syncthreads();
    }}
    c[threadIdx.x] = sum;
}}
"""
    text = text.replace("int i = BRACED", "unsigned i{0U}")
    file = CudaFile(SourceFile("f.cu", text))
    found = study(file, file.kernels[0])
    assert isinstance(found, Study), found
    (loop,) = found.loops.values()
    return loop


STARTS = {
    "0": lambda t: 0,
    "5": lambda t: 5,
    "threadIdx.x": lambda t: t,
    "threadIdx.x * 4": lambda t: 4 * t,
    "threadIdx.y * blockDim.x + threadIdx.x": lambda t: t,  # blocks are one row here
    "threadIdx.x / 8": lambda t: t // 8,
    "threadIdx.x % 32": lambda t: t % 32,
    "threadIdx.x - 8": lambda t: t - 8,
    "half": lambda t: t // 2,
    "half + 3": lambda t: t // 2 + 3,
    "(half << 2) & 12": lambda t: (t // 2 << 2) & 12,
    "threadIdx.x >> 5": lambda t: t >> 5,
}


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(STARTS)),
    st.sampled_from(["<", "<="]),
    st.integers(0, 700),
    st.integers(1, 200),
)
def test_the_count_is_that_of_the_thread_that_turns_most(
    start: str, sign: str, bound: int, step: int
) -> None:
    loop = counted(start, sign, str(bound), str(step))
    starts = [STARTS[start](t) for t in range(THREADS)]
    assert loop.low is not None and loop.low <= min(starts)
    assert loop.high is None or loop.high >= max(starts)
    known = trips(loop, bound, step)
    assert known is not None
    end = bound + (sign == "<=")
    turns = [len(range(first, end, step)) for first in starts]
    assert known.count >= max(turns)
    if loop.low == min(starts):
        assert known.count == max(turns)
    if known.exact:
        assert set(turns) == {known.count}
    if known.simple:
        assert (min(starts), max(starts), step) == (0, 0, 1)


def test_what_is_not_known_is_not_counted() -> None:
    assert trips(counted("n", "<", "64", "32"), 64, 32) is None
    assert trips(counted("n - threadIdx.x", "<", "64", "32"), 64, 32) is None
    assert trips(counted("0", "<", "64", "1"), None, 1) is None
    assert trips(counted("0", "<", "64", "1"), 64, 0) is None


def test_values_in_braces_are_values() -> None:
    loop = counted("BRACED", "<", "40", "16")
    assert (loop.start, loop.low, loop.high) == ("0U", 0, 0)
