"""mbarrier objects: phases, what they order, and cuda::pipeline, which is built on them."""

from __future__ import annotations

import numpy as np
import pytest
from snippets import HEADER, launch, program

from tilepipe.emulator import Buffer, Execution, Program, load_program
from tilepipe.toolchain import Compiled, NvrtcToolchain, Unit

PIPELINE = """
#include <cuda/pipeline>
#include <cooperative_groups.h>
#define T 16
#define STAGES 2
extern "C" __global__ void piped(const float* A, const float* B, float* C, int K, int N, int missing) {
  __shared__ float a[STAGES][T][T], b[STAGES][T][T];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, STAGES> state;
  auto pipe = cuda::make_pipeline(cooperative_groups::this_thread_block(), &state);
  const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * T + y, col = blockIdx.x * T + x;
  float sum = 0.f;
  for (int tile = 0, next = 0; tile < K / T; ++tile) {
    for (; next < K / T && next < tile + STAGES; ++next) {
      if (missing != 2) pipe.producer_acquire();
      cuda::memcpy_async(&a[next % STAGES][y][x], &A[row * K + next * T + x], cuda::aligned_size_t<4>(4), pipe);
      cuda::memcpy_async(&b[next % STAGES][y][x], &B[(next * T + y) * N + col], cuda::aligned_size_t<4>(4), pipe);
      if (missing != 4) pipe.producer_commit();
    }
    if (missing != 1) pipe.consumer_wait();
    for (int k = 0; k < T; ++k) sum += a[tile % STAGES][y][k] * b[tile % STAGES][k][x];
    if (missing != 3) pipe.consumer_release();
  }
  C[row * N + col] = sum;
}
"""


@pytest.fixture(scope="module")
def pipeline(nvrtc: NvrtcToolchain) -> Program:
    """One kernel for the right pipeline and, by its last argument, four broken ones: the header takes seconds."""
    answer = nvrtc.compile(Unit(PIPELINE, "piped.cu", "piped"), "sm_80", "ptx")
    assert isinstance(answer, Compiled), answer
    loaded = load_program(answer.image.decode(), answer.symbol)
    assert isinstance(loaded, Program), loaded
    return loaded


def piped(loaded: Program, missing: int, early: bool = False) -> tuple[set[str], bool]:
    """Kinds of findings, and whether the product is right."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, s).astype(np.float32) for s in ((32, 80), (80, 32)))
    c = np.full((32, 32), np.nan, np.float32)
    arguments = [Buffer(a), Buffer(b), Buffer(c), np.int32(80), np.int32(32), np.int32(missing)]
    done = loaded.run((2, 2, 1), (16, 16, 1), 0, arguments, early=early)
    assert isinstance(done, Execution)
    return {f.kind for f in done.findings}, bool(np.array_equal(c, a @ b))


@pytest.mark.parametrize("early", [False, True])
def test_right_pipeline(pipeline: Program, early: bool) -> None:
    assert piped(pipeline, 0, early) == (set(), True)


@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        (1, "read of in-flight copy"),
        (2, "read-write race"),
        (3, "deadlock"),
        (4, "deadlock"),
    ],
)
def test_broken_pipeline(pipeline: Program, missing: int, expected: str) -> None:
    findings, _ = piped(pipeline, missing)
    assert expected in findings


def kinds(body: str, block: int = 64) -> list[str]:
    text = f"""{HEADER}
.visible .entry k()
{{
.reg .b64 %token, %other; .reg .b32 %t, %x, %mine, %next; .reg .pred %p, %done;
.shared .align 8 .b8 bar[8]; .shared .align 16 .b8 tile[512];
mov.u32 %t, %tid.x;
mov.u32 %mine, tile; mad.lo.u32 %mine, %t, 4, %mine;
add.u32 %x, %t, 1; rem.u32 %x, %x, {block}; mov.u32 %next, tile; mad.lo.u32 %next, %x, 4, %next;
setp.eq.u32 %p, %t, 0;
{body}
ret;
}}
"""
    return sorted({f.kind for f in launch(program(text), [], block).findings})


INIT = "@%p mbarrier.init.shared.b64 [bar], 64;\nbar.sync 0;\n"
WRITE, READ = "st.shared.u32 [%mine], %t;\n", "ld.shared.u32 %x, [%next];\n"
ARRIVE = "mbarrier.arrive.shared.b64 %token, [bar];\n"
WAIT = "{0}:\nmbarrier.test_wait.shared.b64 %done, [bar], %token;\n@!%done bra {0};\n"


def test_arrival_and_wait_order() -> None:
    assert kinds(INIT + WRITE + ARRIVE + WAIT.format("A") + READ) == []
    assert "write-read race" in kinds(INIT + WRITE + ARRIVE + READ + WAIT.format("A"))
    assert "write-read race" in kinds(INIT + ARRIVE + WAIT.format("A") + WRITE + READ)


def test_phases_follow_each_other() -> None:
    twice = INIT + WRITE + ARRIVE + WAIT.format("A") + READ + ARRIVE + WAIT.format("B") + WRITE
    assert kinds(twice) == []
    by_parity = (
        INIT
        + WRITE
        + ARRIVE
        + "A:\nmbarrier.test_wait.parity.shared.b64 %done, [bar], 0;\n@!%done bra A;\n"
        + READ
    )
    assert kinds(by_parity) == []


def test_too_few_arrivals() -> None:
    assert kinds(INIT.replace("64;\nbar", "65;\nbar") + ARRIVE + WAIT.format("A")) == ["deadlock"]


def test_too_many_arrivals() -> None:
    assert "bad operand" in kinds(
        INIT.replace("64;\nbar", "16;\nbar") + "mbarrier.arrive.shared.b64 %token, [bar], 17;"
    )


def test_use_before_initialisation_is_published() -> None:
    assert "write-write race" in kinds("@%p mbarrier.init.shared.b64 [bar], 64;\n" + ARRIVE)
