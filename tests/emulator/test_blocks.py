"""Races on global memory between the blocks of a launch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from snippets import Array

from tilepipe.emulator import Buffer, EmulatorFinding, Execution, Program, load_program
from tilepipe.emulator.program import Mode
from tilepipe.toolchain import Compiled, CompileOptions, NvrtcToolchain, Unit

KIND = "race between blocks"


def run(
    nvrtc: NvrtcToolchain,
    text: str,
    arrays: dict[str, Array],
    blocks: int = 4,
    order: tuple[int, ...] | None = None,
    mode: Mode = "checked",
) -> Execution:
    """Runs `k` of a text with 32 threads a block."""
    unit = Unit(text, "blocks.cu", "k", options=CompileOptions(extra=("-lineinfo",)))
    answer = nvrtc.compile(unit, "sm_80", "ptx")
    assert isinstance(answer, Compiled), answer
    program = load_program(answer.image.decode(), answer.symbol)
    assert isinstance(program, Program), program
    arguments = [Buffer(a, name=name) for name, a in arrays.items()]
    done = program.run((blocks, 1, 1), (32, 1, 1), 0, arguments, blocks=order, mode=mode)
    assert isinstance(done, Execution), done
    return done


def body(nvrtc: NvrtcToolchain, statements: str, **options: Any) -> tuple[EmulatorFinding, ...]:
    text = f"""extern "C" __global__ void k(int* a, int* b) {{
  const int t = threadIdx.x, n = blockIdx.x, i = n * 32 + t;
{statements}
}}"""
    return run(nvrtc, text, {"a": np.zeros(256, np.int32), "b": np.zeros(256, np.int32)}, **options).findings


def test_two_blocks_write_one_element(nvrtc: NvrtcToolchain) -> None:
    (found,) = body(nvrtc, "  a[i] = 1;\n  if (t == 0 && (n == 1 || n == 3))\n    b[12] = n;")
    assert (found.kind, found.where, found.lines) == (KIND, "b[12]", (5, 5))
    assert (found.block, found.count, found.threads) == ((1, 0, 0), 1, ())
    assert "block (1, 0, 0) writes b[12], which block (3, 0, 0) writes too" in found.message


def test_a_block_reads_what_another_writes(nvrtc: NvrtcToolchain) -> None:
    """Whichever runs first: the writer is named before the reader."""
    (after,) = body(nvrtc, "  if (n == 0) a[40] = 1;\n  if (n == 1)\n    b[i] = a[40];")
    (before,) = body(nvrtc, "  if (n == 1) a[40] = 1;\n  if (n == 0)\n    b[i] = a[40];")
    assert (after.kind, after.where, after.lines, after.block) == (KIND, "a[40]", (3, 5), (0, 0, 0))
    assert (before.kind, before.where, before.lines, before.block) == (KIND, "a[40]", (3, 5), (1, 0, 0))


@pytest.mark.parametrize(
    "statements",
    [
        "a[i] = b[7];",
        "a[i] = 1; a[i] += a[n * 32 + 31 - t];",
        "atomicAdd(&a[3], t);",
        "atomicAdd(&a[3], t); b[i] = *(volatile int*)&a[3];",
        "((volatile int*)a)[3] = n;",
        "((char*)a)[n] = 1; ((char*)b)[t * 4 + n] = 1;",  # neighbours in one word
        "a[n < 2 ? i : i + 64] = 1;",
        "if (n == 2) a[9] = b[9] = t;",
    ],
)
def test_blocks_that_do_not_meet(nvrtc: NvrtcToolchain, statements: str) -> None:
    assert not body(nvrtc, statements)


@pytest.mark.parametrize(
    ("statements", "where"),
    [
        ("atomicAdd(&a[3], t); if (n == 1) a[3] = 5;", "a[3]"),
        ("((char*)a)[n / 2] = 1;", "a[0]"),
        ("((short*)a)[n / 2 * 2 + 3] = 1;", "a[1] + 2 bytes"),
        ("int* p = n & 1 ? a : b; p[5] = n;", "a[5]"),
        ("*(int2*)&a[n * 2 & 2] = make_int2(n, n);", "a[0]"),
        ("a[i] = 1; if (t == 31 && i < 127) b[t] = a[i + 1];", "a[32]"),
        ("atomicExch(&a[3], n); __threadfence_block(); b[0] = a[3] + n;", "b[0]"),
    ],
)
def test_blocks_that_meet(nvrtc: NvrtcToolchain, statements: str, where: str) -> None:
    found = body(nvrtc, statements)
    assert {f.kind for f in found} == {KIND}
    assert where in {f.where for f in found}


def test_what_is_found_does_not_depend_on_the_order_of_the_blocks(nvrtc: NvrtcToolchain) -> None:
    statements = "a[(i * 7) % 60] = n; b[t] += a[t];"
    orders = (None, (0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1), None)
    results = [body(nvrtc, statements, order=order) for order in orders]
    assert len(results[0]) >= 2
    assert all(sorted(r, key=repr) == sorted(results[0], key=repr) for r in results)


def test_without_checks_blocks_are_not_watched(nvrtc: NvrtcToolchain) -> None:
    assert not body(nvrtc, "a[0] = n;", mode="unchecked")
    assert body(nvrtc, "a[0] = n;", mode="profiled")


LAST_BLOCK = """
__device__ int ticket;
extern "C" __global__ void k(int* parts, int* sum) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = blockIdx.x;
    __threadfence();
    last = atomicAdd(&ticket, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0)
    for (int i = 0; i < gridDim.x; ++i) *sum += parts[i];
}
"""


def test_blocks_that_the_kernel_orders_are_left_alone_and_it_is_said(nvrtc: NvrtcToolchain) -> None:
    """The last block adds up what the others wrote: fences and a ticket order them."""
    arrays = {"parts": np.zeros(4, np.int32), "sum": np.zeros(1, np.int32)}
    done = run(nvrtc, LAST_BLOCK, arrays)
    assert not done.findings
    assert any("races between blocks were not looked for" in note for note in done.notes)
    assert arrays["sum"][0] == 6


def test_module_variables_are_watched(nvrtc: NvrtcToolchain) -> None:
    text = """
__device__ int total;
extern "C" __global__ void k(int* a) { total = blockIdx.x; a[blockIdx.x] = 1; }
"""
    (found,) = run(nvrtc, text, {"a": np.zeros(4, np.int32)}).findings
    assert found.where.startswith("total[")


def test_a_pointer_from_memory_may_lead_anywhere(nvrtc: NvrtcToolchain) -> None:
    """The array written is not a parameter that the store's address comes from."""
    text = """
struct Node { int* to; };
extern "C" __global__ void k(int* a, Node* nodes) {
  if (threadIdx.x == 0 && blockIdx.x == 0) nodes[0].to = a;
  if (threadIdx.x == 0 && blockIdx.x == 0) *nodes[0].to = 1;
  if (threadIdx.x == 0 && blockIdx.x == 1) a[0] = 2;
}
"""
    arrays: dict[str, Array] = {"a": np.zeros(4, np.int32), "nodes": np.zeros(4, np.int64)}
    found = run(nvrtc, text, arrays, blocks=2).findings
    assert [f.where for f in found] == ["a[0]"]
