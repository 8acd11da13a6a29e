"""Bank conflicts and coalescing against degrees worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from snippets import Array

from tilepipe.emulator import Buffer, Execution, Program, load_program
from tilepipe.emulator.profile import Profile
from tilepipe.emulator.program import Mode
from tilepipe.toolchain import Compiled, CompileOptions, NvrtcToolchain, Unit


def loaded(nvrtc: NvrtcToolchain, text: str) -> Program:
    unit = Unit(text, "profiled.cu", "k", options=CompileOptions(extra=("-lineinfo",)))
    answer = nvrtc.compile(unit, "sm_80", "ptx")
    assert isinstance(answer, Compiled), answer
    program = load_program(answer.image.decode(), answer.symbol)
    assert isinstance(program, Program), program
    return program


def profile(
    nvrtc: NvrtcToolchain, text: str, block: tuple[int, int], arrays: list[Array], grid: int = 1
) -> Profile:
    """Runs `k` of a text profiled; it must be clean."""
    arguments = [Buffer(a, name=n) for a, n in zip(arrays, ("out", "in"), strict=False)]
    done = loaded(nvrtc, text).run((grid, 1, 1), (*block, 1), 0, arguments, mode="profiled")
    assert isinstance(done, Execution), done
    assert not done.findings
    assert done.profile is not None and done.profile.uncounted == 0
    return done.profile


def line(text: str, mark: str) -> int:
    return 1 + next(i for i, x in enumerate(text.split("\n")) if mark in x)


def wavefronts(nvrtc: NvrtcToolchain, cases: list[tuple[str, str]], threads: int = 32) -> list[list[int]]:
    """Total, worst and least wavefronts of the reads `room[index]` of a type, by one block."""
    four = (
        '{ float4 v; asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), '
        '"=f"(v.w) : "r"((unsigned)__cvta_generic_to_shared((float4*)room + (INDEX)))); sum += v.x; }'
    )
    reads = "\n".join(
        f"  sum += *(volatile {type_}*)&(({type_}*)room)[{index}]; // read {n}."
        if type_ != "float4"
        else f"  {four.replace('INDEX', index)} // read {n}."
        for n, (type_, index) in enumerate(cases)
    )
    text = f"""
extern "C" __global__ void k(double* out) {{
  __shared__ __align__(16) float room[2048];
  const int l = threadIdx.x;
  for (int i = l; i < 2048; i += {threads}) room[i] = 0;
  __syncthreads();
  double sum = 0;
{reads}
  out[l] = sum;
}}
"""
    found = profile(nvrtc, text, (threads, 1), [np.zeros(threads)])
    results = []
    for n in range(len(cases)):
        (read,) = (a for a in found.shared if a.line == line(text, f"// read {n}."))
        assert (read.operation, read.array, read.requests) == ("load", "room", -(-threads // 32))
        results.append([read.wavefronts, read.worst, read.least])
    return results


DEGREES = [
    ("float", "l", 1, 1),
    ("float", "7", 1, 1),  # a broadcast
    ("float", "2 * l", 2, 1),
    ("float", "3 * l", 1, 1),
    ("float", "8 * l", 8, 1),
    ("float", "32 * l", 32, 1),
    ("float", "33 * l", 1, 1),
    ("float", "l / 2 * 32", 16, 1),  # pairs of lanes share a word
    ("float", "l < 16 ? l : l + 16", 2, 1),
    ("char", "l", 1, 1),  # four lanes a word
    ("char", "4 * l", 1, 1),
    ("char", "64 * l", 16, 1),
    ("short", "l", 1, 1),
    ("short", "4 * l", 2, 1),
    ("double", "l", 2, 2),
    ("double", "2 * l", 4, 2),
    ("double", "16 * l", 32, 2),
    ("float4", "l", 4, 4),
    ("float4", "2 * l", 8, 4),
    ("float4", "8 * l", 32, 4),
    ("float4", "l / 8", 4, 4),  # one address in each quarter
]


def test_wavefronts_of_a_warp(nvrtc: NvrtcToolchain) -> None:
    found = wavefronts(nvrtc, [(type_, index) for type_, index, _, _ in DEGREES])
    for (type_, index, total, least), got in zip(DEGREES, found, strict=True):
        assert got == [total, total, least], (type_, index)


def test_lanes_that_are_not_there_need_no_wavefronts(nvrtc: NvrtcToolchain) -> None:
    assert wavefronts(nvrtc, [("float4", "l"), ("float", "32 * l")], threads=8) == [[1, 1, 1], [8, 8, 1]]
    assert wavefronts(nvrtc, [("float", "32 * l")], threads=40) == [[32 + 8, 32, 2]]


COLUMN = """
extern "C" __global__ void k(float* out) {
  __shared__ float tile[32][WIDTH];
  tile[threadIdx.y][threadIdx.x] = 1.f; // row
  __syncthreads();
  out[threadIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][threadIdx.y]; // column
}
"""


@pytest.mark.parametrize(("width", "degree"), [("32", 32), ("33", 1), ("34", 2), ("36", 4), ("48", 16)])
def test_a_column_of_a_tile(nvrtc: NvrtcToolchain, width: str, degree: int) -> None:
    found = profile(nvrtc, COLUMN.replace("WIDTH", width), (32, 32), [np.zeros(1024, np.float32)])
    by_line = {a.line: a for a in found.shared}
    row, column = by_line[line(COLUMN, "// row")], by_line[line(COLUMN, "// column")]
    assert (row.operation, row.requests, row.degree) == ("store", 32, 1)
    assert (column.operation, column.requests, column.worst) == ("load", 32, degree)
    assert (column.average, column.degree) == (degree, degree)
    assert found.barriers == {line(COLUMN, "__syncthreads"): 1}


SECTORS = [
    ("float", "l", 4, 128),
    ("float", "l + 1", 5, 128),
    ("float", "5", 1, 128),
    ("float", "2 * l", 8, 128),
    ("float", "8 * l", 32, 128),
    ("float", "31 - l", 4, 128),
    ("float4", "l", 16, 512),
    ("float4", "2 * l", 32, 512),
    ("char", "l", 1, 32),
    ("double", "l", 8, 256),
]


def test_sectors_of_a_warp(nvrtc: NvrtcToolchain) -> None:
    copies = "\n".join(
        f"  (({type_}*)out)[{64 * n} + l] = ((const {type_}*)in)[{index}]; // copy {n}."
        for n, (type_, index, _, _) in enumerate(SECTORS)
    )
    text = f"""
extern "C" __global__ void k(char* out, const char* in) {{
  const int l = threadIdx.x;
{copies}
}}
"""
    found = profile(nvrtc, text, (32, 1), [np.zeros(16384, np.uint8), np.zeros(4096, np.uint8)])
    for n, (type_, index, sectors, bytes_) in enumerate(SECTORS):
        both = {a.operation: a for a in found.global_ if a.line == line(text, f"// copy {n}.")}
        read, write = both["load"], both["store"]
        assert (read.array, read.requests, read.sectors, read.bytes) == ("in", 1, sectors, bytes_), (
            type_,
            index,
        )
        assert (write.array, write.sectors) == ("out", bytes_ // 32)
    assert found.shared == ()


def test_lanes_of_a_loop_are_matched_by_iteration(nvrtc: NvrtcToolchain) -> None:
    """Lane l runs l + 1 times: the n-th iteration is one request of the lanes that get there."""
    text = """
extern "C" __global__ void k(int* out, const int* in) {
  int sum = 0;
  #pragma unroll 1
  for (int i = 0; i <= threadIdx.x; ++i) sum += in[32 * i + threadIdx.x]; // read
  out[threadIdx.x] = sum;
}
"""
    found = profile(nvrtc, text, (32, 1), [np.zeros(32, np.int32), np.zeros(1024, np.int32)])
    (read,) = (a for a in found.global_ if a.array == "in")
    assert read.requests == 32
    assert read.sectors == sum(-(-32 // 8) - i // 8 for i in range(32))
    assert read.bytes == 4 * sum(range(1, 33))


def test_asynchronous_copies_count_at_both_ends(nvrtc: NvrtcToolchain) -> None:
    text = """
#include <cuda_pipeline.h>
extern "C" __global__ void k(float4* out, const float4* in) {
  __shared__ float4 room[64];
  __pipeline_memcpy_async(&room[2 * threadIdx.x], &in[threadIdx.x], 16); // copy
  __pipeline_commit();
  __pipeline_wait_prior(0);
  out[threadIdx.x] = room[2 * threadIdx.x];
}
"""
    found = profile(nvrtc, text, (32, 1), [np.zeros(128, np.float32), np.zeros(128, np.float32)])
    copies = [a for a in found.shared if a.operation == "copy"]
    assert [(a.wavefronts, a.least, a.array) for a in copies] == [(8, 4, "room")]
    (source,) = (a for a in found.global_ if a.array == "in")
    assert (source.operation, source.sectors, source.bytes) == ("copy", 16, 512)


LDMATRIX = """
extern "C" __global__ void k(unsigned* out) {
  __shared__ __align__(16) unsigned short room[16 * WIDTH];
  for (int i = threadIdx.x; i < 16 * WIDTH; i += 32) room[i] = i;
  __syncwarp();
  unsigned at = __cvta_generic_to_shared(&room[threadIdx.x % 16 * WIDTH + threadIdx.x / 16 * 8]), r[4];
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
  out[threadIdx.x] = r[0] + r[1] + r[2] + r[3];
}
"""


@pytest.mark.parametrize(("width", "total"), [(16, 8), (24, 4), (32, 16), (64, 32), (72, 4)])
def test_ldmatrix(nvrtc: NvrtcToolchain, width: int, total: int) -> None:
    """Eight rows of 16 bytes a wavefront: rows of 128 bytes meet in the same banks."""
    found = profile(nvrtc, LDMATRIX.replace("WIDTH", str(width)), (32, 1), [np.zeros(32, np.uint32)])
    (read,) = (a for a in found.shared if a.operation == "ldmatrix")
    assert (read.wavefronts, read.least) == (total, 4)


def test_wmma_loads_are_counted_as_rows_of_16_bytes(nvrtc: NvrtcToolchain) -> None:
    text = """
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void k(half* out) {
  __shared__ __align__(32) half room[16 * 64];
  for (int i = threadIdx.x; i < 16 * 64; i += 32) room[i] = __float2half(1.f);
  __syncwarp();
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
  wmma::load_matrix_sync(a, room, 64);
  out[threadIdx.x] = a.x[0];
}
"""
    found = profile(nvrtc, text, (32, 1), [np.zeros(32, np.float16)])
    (read,) = (a for a in found.shared if a.operation == "wmma load")
    assert (read.requests, read.wavefronts, read.least) == (1, 32, 4)


def test_a_profile_sums_over_blocks_and_changes_no_result(nvrtc: NvrtcToolchain) -> None:
    program = loaded(nvrtc, COLUMN.replace("float* out", "float* out, int unused").replace("WIDTH", "32"))
    outputs = []
    modes: tuple[Mode, ...] = ("checked", "profiled", "unchecked")
    for mode in modes:
        out = np.zeros(1024, np.float32)
        done = program.run((1, 1, 1), (32, 32, 1), 0, [Buffer(out), np.int32(0)], mode=mode)
        assert isinstance(done, Execution)
        assert (done.profile is not None) == (mode == "profiled")
        outputs.append(out.tobytes())
    assert len(set(outputs)) == 1
    text = """
extern "C" __global__ void k(float* out) {
  __shared__ float room[32];
  room[threadIdx.x] = 1.f;
  __syncthreads();
  out[blockIdx.x * 32 + threadIdx.x] = room[31 - threadIdx.x];
}
"""
    found = profile(nvrtc, text, (32, 1), [np.zeros(32 * 50, np.float32)], grid=50)
    assert {a.requests for a in found.shared} == {50}
    assert sum(found.barriers.values()) == 50


RANDOM = """
template <class T> __device__ __forceinline__ float all(T x) { return x; }
__device__ __forceinline__ float all(float2 x) { return x.x + x.y; }
__device__ __forceinline__ float all(float4 x) { return x.x + x.y + x.z + x.w; }
extern "C" __global__ void k(float* out, const unsigned char* in, const int* index) {
  extern __shared__ __align__(16) unsigned char room[];
  for (int i = threadIdx.x; i < 4096; i += 32) room[i] = 0;
  __syncthreads();
  float sum = 0;
  #pragma unroll 1
  for (int n = 0; n < 40; ++n) {
    const int at = index[n * 32 + threadIdx.x];
    if (at < 0) continue;
    sum += all(((TYPE*)room)[at]); // shared
    sum += all(((const TYPE*)in)[at]); // global
  }
  out[threadIdx.x] = sum;
}
"""


def expected(index: Array, size: int) -> tuple[int, int, int, int]:
    """Requests, wavefronts, least wavefronts and sectors of rows of 32 element numbers (negative: no access)."""
    requests = wavefronts = least = sectors = 0
    together = min(32, 128 // size)  # lanes that are served at once
    for row in index.reshape(-1, 32):
        requests += bool((row >= 0).any())
        sectors += len({int(at) * size // 32 for at in row if at >= 0})
        for start in range(0, 32, together):
            lanes = [int(at) * size for at in row[start : start + together] if at >= 0]
            words = {(byte + i) // 4 for byte in lanes for i in range(size)}
            wavefronts += max((sum(w % 32 == bank for w in words) for bank in range(32)), default=0)
            least += bool(lanes)
    return requests, wavefronts, least, sectors


@pytest.mark.parametrize(
    ("type_", "size"), [("char", 1), ("short", 2), ("float", 4), ("float2", 8), ("float4", 16)]
)
def test_random_accesses_against_brute_force(nvrtc: NvrtcToolchain, type_: str, size: int) -> None:
    rng = np.random.default_rng(size)
    spans = np.repeat(rng.choice([4, 40, 4096 // size], 40), 32)
    index = (rng.integers(0, 1 << 30, 40 * 32) % spans).astype(np.int32)
    index[rng.random(index.size) < 0.2] = -1
    index[:32] = -1  # a request of nobody
    text = RANDOM.replace("TYPE", type_)
    arguments = [
        Buffer(np.zeros(32, np.float32), name="out"),
        Buffer(np.zeros(4096, np.uint8), name="in"),
        Buffer(index, name="index"),
    ]
    done = loaded(nvrtc, text).run((1, 1, 1), (32, 1, 1), 4096, arguments, mode="profiled")
    assert isinstance(done, Execution) and done.profile is not None and not done.findings
    # Lanes that skip an iteration are compared without their gaps: the n-th access of each makes a request.
    packed = np.full((40, 32), -1, np.int32)
    for lane in range(32):
        taken = index.reshape(40, 32)[:, lane]
        taken = taken[taken >= 0]
        packed[: len(taken), lane] = taken
    requests, wavefronts, least, sectors = expected(packed, size)
    (shared,) = (a for a in done.profile.shared if a.line == line(text, "// shared"))
    (global_,) = (a for a in done.profile.global_ if a.line == line(text, "// global"))
    assert (shared.requests, shared.wavefronts, shared.least) == (requests, wavefronts, least)
    assert (global_.requests, global_.sectors, global_.bytes) == (
        requests,
        sectors,
        size * int((packed >= 0).sum()),
    )
