"""What findings say: elements by their indices, assertions by their text; and what is left out is noted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from snippets import Array

from tilepipe.diagnostics import Refusal
from tilepipe.emulator.findings import AddressBook, ArrayPlace, Shape, plain_name, subscripts
from tilepipe.launch import CpuDevice, LaunchOptions, RunResult
from tilepipe.launch.shapes import shared_shapes
from tilepipe.launch.types import Finding
from tilepipe.problem import Array as ProblemArray
from tilepipe.problem import Case
from tilepipe.toolchain import NvrtcToolchain, Unit


def launched(
    nvrtc: NvrtcToolchain,
    text: str,
    shared: int = 0,
    instantiate: str | None = None,
    names: tuple[str, ...] = ("out",),
) -> RunResult:
    """One block of 32 threads of `k(float* out)`, or with an array of 64 for each of `names`."""
    loaded = CpuDevice(nvrtc).load(Unit(text, "words.cu", "k", instantiate), "sm_80")
    assert not isinstance(loaded, Refusal), loaded
    data: list[Array] = [np.zeros(64, np.float32) for _ in names]
    arrays = tuple(ProblemArray(name, "out", one, one) for name, one in zip(names, data, strict=True))
    case = Case("one", {}, (1, 1, 1), (32, 1, 1), shared, arrays, None, None)
    done = loaded.run(case, LaunchOptions())
    assert isinstance(done, RunResult), done
    return done


@pytest.mark.parametrize(
    ("declaration", "write", "where"),
    [
        ("volatile __shared__ float As[2][64];", "As[1][37] = t;", "As[1][37]"),
        ("enum { S = 3 }; volatile __shared__ __align__(16) float pad[5], As_ring[S][4][8];", "As_ring[2][3][5] = t;",
         "As_ring[2][3][5]"),
        ("__shared__ alignas(16) volatile short s[70];", "s[69] = t;", "s[69]"),
        ("volatile __shared__ int one;", "one = t;", "one"),
        ("extern __shared__ double room[];", "room[9] = t;", "room[9]"),
        ("__shared__ volatile float4 v[2][8];", "v[1][2].z = t;", "v[1][2] + 8 bytes"),
        ("/* __shared__ int x[3]; */ __shared__ volatile float x[1 << 5];", "x[30] = t;", "x[30]"),
    ],
)  # fmt: skip
def test_an_element_is_named_by_its_indices(
    nvrtc: NvrtcToolchain, declaration: str, write: str, where: str
) -> None:
    text = f"""extern "C" __global__ void k(float* out) {{
  {declaration}
  const int t = threadIdx.x;
  {write}
  out[t] = 1;
}}"""
    (found,) = launched(nvrtc, text, shared=256 if "extern __" in declaration else 0).findings
    assert (found.kind, found.where) == ("write-write race", where)
    assert where in found.message


def test_shapes_of_a_template_and_of_a_name_declared_twice(nvrtc: NvrtcToolchain) -> None:
    text = """
template <int N> __global__ void k(float* out) {
  __shared__ volatile float tile[N][N + 1];
  { __shared__ int twice[4]; twice[threadIdx.x & 3] = 0; }
  { __shared__ int twice[2]; twice[threadIdx.x & 1] = 0; }
  tile[1][2] = threadIdx.x;
  out[threadIdx.x] = tile[1][2];
}
template __global__ void k<8>(float*);
"""
    shapes = shared_shapes(nvrtc, Unit(text, "words.cu", "k", "k<8>"))
    assert shapes == {"tile": Shape((0, 9), 4)}
    places = {f.where for f in launched(nvrtc, text, instantiate="k<8>").findings}
    assert "tile[1][2]" in places


def test_without_an_answer_the_offset_is_named(nvrtc: NvrtcToolchain) -> None:
    """A declaration behind a macro is not seen: the variable and the bytes are."""
    text = """
#define ROOM(type, name, size) __shared__ volatile type name[size]
extern "C" __global__ void k(float* out) {
  ROOM(float, hidden, 8);
  hidden[3] = threadIdx.x;
  out[threadIdx.x] = 1;
}
"""
    (found,) = launched(nvrtc, text).findings
    assert found.where == "hidden + 12 bytes"


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.sampled_from([1, 2, 4, 16]), st.data())
def test_subscripts_are_those_of_a_row_major_array(
    dimensions: list[int], element: int, data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, int(np.prod(dimensions)) - 1))
    rest = data.draw(st.integers(0, element - 1))
    want = "".join(f"[{i}]" for i in np.unravel_index(index, dimensions))
    got = subscripts(Shape((0, *dimensions[1:]), element), index * element + rest)
    assert got == want + (f" + {rest} bytes" if rest else "")


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_ZZ11sgemm_naiveE2As", "As"),
        ("_ZZ4gemmILi128ELi8EEvPKfE7As_ring", "As_ring"),
        ("_ZZ3E4ExE4E5E6", "E5E6"),
        ("_ZN2ns4roomE", "_ZN2ns4roomE"),
        ("smem", "smem"),
    ],
)
def test_plain_names(symbol: str, name: str) -> None:
    assert plain_name(symbol) == name


def test_printf_is_left_out_with_one_note(nvrtc: NvrtcToolchain) -> None:
    text = """
#include <cstdio>
extern "C" __global__ void k(float* out) {
  printf("thread %d of %s\\n", threadIdx.x, "words");
  if (threadIdx.x == 3) out[40] = printf("three");
  out[threadIdx.x] = 1;
}
"""
    done = launched(nvrtc, text)
    assert done.findings == ()
    assert done.notes == ("printf prints nothing here and returns 0",)


def test_an_assertion_that_fails_is_a_trap_with_its_text(nvrtc: NvrtcToolchain) -> None:
    text = """#include <cassert>
extern "C" __global__ void k(float* out) {
  out[threadIdx.x] = 1;
  assert(threadIdx.x < 7 && "seven");
}
"""
    (found,) = launched(nvrtc, text).findings
    assert (found.kind, found.lines, found.threads, found.where) == ("trap", (4,), (7,), "")
    assert 'fails the assertion `threadIdx.x < 7 && "seven"`' in found.message


def test_a_plain_trap_names_its_own_line(nvrtc: NvrtcToolchain) -> None:
    text = """extern "C" __global__ void k(float* out) {
  __syncthreads();
  out[threadIdx.x] = 1;
  if (threadIdx.x == 5)
    __trap();
}
"""
    (found,) = launched(nvrtc, text).findings
    assert (found.kind, found.lines, found.message) == ("trap", (5,), "thread 5 executes a trap")


def test_an_address_outside_an_array_is_told_in_elements(nvrtc: NvrtcToolchain) -> None:
    text = 'extern "C" __global__ void k(float* out) { out[threadIdx.x + 60] = 1; }'
    (found,) = launched(nvrtc, text).findings
    assert (found.kind, found.where) == ("global out of bounds", "out[64] (of 64 elements)")


def test_all_that_tell_of_a_race_name_the_call() -> None:
    plain = Finding("write-read race", "thread 1 reads", (7, 2))
    assert (plain.called, plain.in_lines) == (("", ""), " (lines 7, 2)")
    within = Finding("write-read race", "thread 1 reads", (7, 2), calls=(0, 6))
    assert (within.called, within.in_lines) == (
        ("", ", called on line 6"),
        " (line 7, and line 2, called on line 6)",
    )
    assert Finding("trap", "thread 1 executes a trap").in_lines == ""


def test_a_line_in_a_helper_comes_with_the_line_of_its_call(nvrtc: NvrtcToolchain) -> None:
    text = """__device__ __forceinline__ void put(volatile float* at, float x) {
  *at = x;
}
extern "C" __global__ void k(float* out) {
  __shared__ float room[32];
  put(&room[threadIdx.x], 1);
  put(&out[threadIdx.x], room[threadIdx.x ^ 1]);
}
"""
    found = {f.kind: f for f in launched(nvrtc, text).findings}
    assert (found["write-read race"].lines, found["write-read race"].calls) == ((7, 2), (0, 6))


def test_an_address_is_of_the_array_that_holds_it_not_of_its_neighbour() -> None:
    """Arrays lie next to each other in memory, and an overrun is named by the nearest."""
    first, second = ArrayPlace("A", 4096, 256, 4096, 4), ArrayPlace("B", 4352, 256, 4352, 4)
    book = AddressBook((), (first, second))
    assert book.global_name(4352) == "B[0]"
    assert book.global_name(4348) == "A[63]"
    assert book.global_name(4608) == "B[64] (of 64 elements) or A[128] (of 64 elements)"
    assert AddressBook((), (second,)).global_name(4348) == "B[-1] (of 64 elements)"


def test_an_overrun_is_named_by_the_pointer_that_leads_there() -> None:
    first = ArrayPlace("A", 4096, 256, 4096, 4, "k_param_0")
    second = ArrayPlace("B", 4352, 256, 4352, 4, "k_param_1")
    book = AddressBook((), (first, second))
    assert book.global_name(4608, {"k_param_0", "k_param_7"}) == "A[128] (of 64 elements)"
    assert book.global_name(1 << 20, {"k_param_0"}) == "A[261120] (of 64 elements)"
    assert book.global_name(4352, {"k_param_0"}) == "B[0]"
    assert book.global_name(1 << 20, {"k_param_0", "k_param_1"}) == "global address 0x100000"


@pytest.mark.parametrize("given", ["first", "second"])
def test_the_array_whose_end_is_passed_is_named(given: str, nvrtc: NvrtcToolchain) -> None:
    text = f"""extern "C" __global__ void k(float* first, float* second) {{
  for (int i = threadIdx.x; i < 90; i += 32) {given}[i] = first[i & 63] + second[i & 63];
}}
"""
    (found,) = launched(nvrtc, text, names=("first", "second")).findings
    assert (found.kind, found.where) == ("global out of bounds", f"{given}[64] (of 64 elements)")
