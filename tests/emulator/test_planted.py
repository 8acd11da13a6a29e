"""Whole pipelined kernels: the right one is clean and exact, and every planted bug is found."""

from __future__ import annotations

import numpy as np
import pytest
from snippets import Array

from tilepipe.emulator import Buffer, Execution, Program, load_program
from tilepipe.toolchain import Compiled, CompileOptions, NvrtcToolchain, Unit

# A ring of STAGES tiles filled by cp.async, one barrier a tile.
RING = """
#define T 16
#define STAGES 3
__device__ __forceinline__ void copy4(float* to, const float* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
               :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}
extern "C" __global__ void ring(const float* A, const float* B, float* C, int K, int N) {
  __shared__ float a[STAGES][T][T], b[STAGES][T][T];
  const int x = threadIdx.x, y = threadIdx.y, tiles = K / T;
  const int row = blockIdx.y * T + y, col = blockIdx.x * T + x;
  auto load = [&](int tile, int stage) {
    copy4(&a[stage][y][x], &A[row * K + tile * T + x]);
    copy4(&b[stage][y][x], &B[(tile * T + y) * N + col]);
  };
  for (int s = 0; s < STAGES - 1; ++s) {
    if (s < tiles) load(s, s);
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  float sum = 0.f;
  for (int t = 0; t < tiles; ++t) {
    asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");
    __syncthreads();
    if (t + STAGES - 1 < tiles) load(t + STAGES - 1, (t + STAGES - 1) % STAGES);
    asm volatile("cp.async.commit_group;" ::: "memory");
    for (int k = 0; k < T; ++k) sum += a[t % STAGES][y][k] * b[t % STAGES][k][x];
  }
  asm volatile("cp.async.wait_group 0;" ::: "memory");
  __syncthreads();
  a[0][y][x] = sum;
  __syncthreads();
  C[row * N + col] = a[0][y][T - 1 - x];
}
"""

# The plain kernel: load, barrier, compute, barrier.
PLAIN = """
#define T 16
extern "C" __global__ void plain(const float* A, const float* B, float* C, int K, int N) {
  __shared__ float a[T][T], b[T][T];
  const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * T + y, col = blockIdx.x * T + x;
  float sum = 0.f;
  for (int t = 0; t < K; t += T) {
    a[y][x] = A[row * K + t + x];
    b[y][x] = B[(t + y) * N + col];
    __syncthreads(); // filled
    for (int k = 0; k < T; ++k) sum += a[y][k] * b[k][x];
    __syncthreads(); // consumed
  }
  C[row * N + col] = sum;
}
"""

WAIT = 'asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");'
DRAIN = 'asm volatile("cp.async.wait_group 0;" ::: "memory");'
GUARD = "if (t + STAGES - 1 < tiles) load(t + STAGES - 1, (t + STAGES - 1) % STAGES);"
COMMIT = 'asm volatile("cp.async.commit_group;" ::: "memory");\n    for (int k'
STALE = {"read of in-flight copy", "write-read race", "uninitialised read"}

# name: (text to replace, replacement, kinds of which at least one must be found)
RING_BUGS = {
    "no barrier": (WAIT + "\n    __syncthreads();", WAIT, STALE | {"overwritten while pending"}),
    "wait off by one": ('"n"(STAGES - 2)', '"n"(STAGES - 1)', {"read of in-flight copy"}),
    "no wait": (WAIT, "", {"read of in-flight copy"}),
    "barrier before wait": (
        WAIT + "\n    __syncthreads();",
        "__syncthreads();\n    " + WAIT,
        {"write-read race"},
    ),
    "refill too early": (
        GUARD,
        "if (t + STAGES < tiles) load(t + STAGES, t % STAGES);",
        {"read of in-flight copy", "overwritten while pending", "uninitialised read"},
    ),
    "ring too small": ("% STAGES][", "% (STAGES - 1)][", STALE),
    "stage one off": ("a[t % STAGES]", "a[(t + 1) % STAGES]", STALE),
    "one tile too many": (
        "if (t + STAGES - 1 < tiles)",
        "if (t + STAGES - 1 <= tiles)",
        {"global out of bounds"},
    ),
    "commit only if issued": (
        GUARD + "\n    " + COMMIT,
        "if (t + STAGES - 1 < tiles) { load(t + STAGES - 1, (t + STAGES - 1) % STAGES);"
        ' asm volatile("cp.async.commit_group;" ::: "memory"); }\n    for (int k',
        {"read of in-flight copy"},
    ),
    "no drain before reuse": (
        DRAIN + "\n  __syncthreads();",
        "",
        {"read-write race"},
    ),
}


def compiled(nvrtc: NvrtcToolchain, text: str, name: str) -> Program:
    answer = nvrtc.compile(Unit(text, "planted.cu", name), "sm_80", "ptx")
    assert isinstance(answer, Compiled), answer
    loaded = load_program(answer.image.decode(), answer.symbol)
    assert isinstance(loaded, Program), loaded
    return loaded


def multiply(loaded: Program, tiles: int = 7, **options: object) -> tuple[Execution, Array, Array]:
    """Runs 2 x 2 blocks; returns what was found, the result and the right one."""
    rng = np.random.default_rng(tiles)
    depth = 16 * tiles
    a, b = (rng.integers(-4, 5, s).astype(np.float32) for s in ((32, depth), (depth, 32)))
    c = np.full((32, 32), np.nan, np.float32)
    arguments = [Buffer(a), Buffer(b), Buffer(c), np.int32(depth), np.int32(32)]
    done = loaded.run((2, 2, 1), (16, 16, 1), 0, arguments, **options)  # type: ignore[arg-type]
    assert isinstance(done, Execution)
    return done, c, a @ b


def mirrored(want: Array) -> Array:
    """The ring kernel writes each 16-wide tile row backwards, out of reused shared memory."""
    return want.reshape(32, 2, 16)[:, :, ::-1].reshape(32, 32)


@pytest.mark.parametrize("tiles", [1, 2, 3, 7])
def test_right_kernels_are_clean_and_exact(nvrtc: NvrtcToolchain, tiles: int) -> None:
    for early in (False, True):
        done, got, want = multiply(compiled(nvrtc, RING, "ring"), tiles, early=early)
        assert not done.findings
        np.testing.assert_array_equal(got, mirrored(want))
    done, got, want = multiply(compiled(nvrtc, PLAIN, "plain"), tiles)
    assert not done.findings
    np.testing.assert_array_equal(got, want)
    assert done.counters["math"] == 32 * 32 * 16 * tiles
    assert done.counters["barriers"] == 4 * 2 * tiles
    assert done.counters["global_load_bytes"] == 4 * tiles * 2 * 1024


@pytest.mark.parametrize("bug", RING_BUGS)
def test_planted_bug_in_a_ring(nvrtc: NvrtcToolchain, bug: str) -> None:
    old, new, expected = RING_BUGS[bug]
    assert old in RING, bug
    done, _, _ = multiply(compiled(nvrtc, RING.replace(old, new), "ring"))
    assert expected & {f.kind for f in done.findings}, done.findings


@pytest.mark.parametrize(
    ("barrier", "expected"), [("// filled", "write-read race"), ("// consumed", "read-write race")]
)
def test_missing_barrier(nvrtc: NvrtcToolchain, barrier: str, expected: str) -> None:
    done, _, _ = multiply(compiled(nvrtc, PLAIN.replace("__syncthreads(); " + barrier, ""), "plain"))
    assert expected in {f.kind for f in done.findings}


def test_bug_that_numbers_do_not_show(nvrtc: NvrtcToolchain) -> None:
    """Where copies land early the result is right in spite of the bug: only the detector sees it."""
    old, new, _ = RING_BUGS["barrier before wait"]
    done, got, want = multiply(compiled(nvrtc, RING.replace(old, new), "ring"), early=True)
    assert "write-read race" in {f.kind for f in done.findings}
    np.testing.assert_array_equal(got, mirrored(want))


def test_pending_at_exit(nvrtc: NvrtcToolchain) -> None:
    text = RING.replace(DRAIN, "").replace("if (t + STAGES - 1 < tiles) load(t + STAGES - 1", "load(t % 2")
    done, _, _ = multiply(compiled(nvrtc, text, "ring"))
    assert "pending at exit" in {f.kind for f in done.findings}


def test_source_lines_are_named(nvrtc: NvrtcToolchain) -> None:
    text = PLAIN.replace("__syncthreads(); // filled", "")
    unit = Unit(text, "planted.cu", "plain", options=CompileOptions(extra=("-lineinfo",)))
    answer = nvrtc.compile(unit, "sm_80", "ptx")
    assert isinstance(answer, Compiled)
    loaded = load_program(answer.image.decode(), answer.symbol)
    assert isinstance(loaded, Program)
    done, _, _ = multiply(loaded)
    lines = text.split("\n")
    use = 1 + next(i for i, line in enumerate(lines) if "sum +=" in line)
    fill = {1 + i for i, line in enumerate(lines) if "a[y][x] =" in line or "b[y][x] =" in line}
    races = [f for f in done.findings if f.kind == "write-read race"]
    assert {f.lines[0] for f in races} == {use}
    assert {f.lines[1] for f in races} <= fill
    assert {f.where.split(" ")[0] for f in races} <= {"a", "b"}


def test_results_do_not_depend_on_workers_or_checks(nvrtc: NvrtcToolchain) -> None:
    loaded = compiled(nvrtc, RING, "ring")
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((32, 64), np.float32), rng.standard_normal((64, 32), np.float32)
    results = []
    for options in ({}, {"mode": "unchecked"}, {"early": True}):
        c = np.zeros((32, 32), np.float32)
        arguments = [Buffer(a), Buffer(b), Buffer(c), np.int32(64), np.int32(32)]
        loaded.run((2, 2, 1), (16, 16, 1), 0, arguments, **options)  # type: ignore[arg-type]
        results.append(c.tobytes())
    assert len(set(results)) == 1
