"""Drafts from the source: launches that are simple are taken over, others are left to fill in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilepipe.diagnostics import Refusal
from tilepipe.drafting import draft
from tilepipe.options import Options
from tilepipe.problem import Problem, parse_problem

KERNEL = """\
#define TILE 16
constexpr int WIDE = TILE * 2;
__global__ void k(const float* x, float* y, int n, int rows) {{
  __shared__ float tile[32];
  y[blockIdx.x] = x[threadIdx.x];
}}
void host(const float* x, float* y, int width, int height, int other, cudaStream_t s) {{
  {launch}
}}
"""
OPEN = (("1",), ("256",))  # what stands where the launch is left to fill in


@pytest.mark.parametrize(
    ("launch", "grid", "block", "shared"),
    [
        ("k<<<4, 32>>>(x, y, width, height);", ("4",), ("32",), "0"),
        ("k<<<width / WIDE, TILE>>>(x, y, width, height);", ("N // 32",), ("16",), "0"),
        (
            "k<<<dim3((width + 31) / 32, height), dim3(WIDE, 4), 2 * TILE * 4, s>>>(x, y, width, height);",
            ("(N + 31) // 32", "ROWS"),
            ("32", "4"),
            "2 * 16 * 4",
        ),
        (
            "dim3 g(width / 32, height % 7); const dim3 b{TILE, 2u}; k<<<g, b, 0>>>(x, y, width, height);",
            ("N // 32", "ROWS % 7"),
            ("16", "2"),
            "0",
        ),
        (
            "dim3 g(width / 32), b(TILE, WIDE); dim3 c(TILE, TILE); k<<<c, b>>>(x, y, width, height);",
            ("16", "16"),
            ("16", "32"),
            "0",
        ),
        ("k<<<other, 32>>>(x, y, width, height);", OPEN[0], ("32",), "0"),
        ("k<<<width / 2, other>>>(x, y, width, height);", ("N // 2",), OPEN[1], "0"),
        ("k<<<4, 32>>>(x, y, 2 * width, height);", ("4",), ("32",), "0"),
        ("k<<<4, 32>>>(x, y, 1, 2); k<<<8, 32>>>(x, y, 1, 2);", *OPEN, "0"),
        ("", *OPEN, "0"),
    ],
)
def test_a_launch(
    launch: str, grid: tuple[str, ...], block: tuple[str, ...], shared: str, tmp_path: Path
) -> None:
    path = tmp_path / "k.cu"
    path.write_text(KERNEL.format(launch=launch))
    text = draft(str(path), Options())
    assert isinstance(text, str), text
    problem = parse_problem(text, "k.toml")
    assert isinstance(problem, Problem)
    kernel = problem.kernels["k"]
    assert (kernel.grid, kernel.block, kernel.shared) == (grid, block, shared)
    marked = {line.split()[0] for line in text.splitlines() if "FILL IN the launch" in line}
    assert marked == ({"grid"} if grid == OPEN[0] else set()) | ({"block"} if block == OPEN[1] else set())


DYNAMIC = "extern __shared__ float more[]; "
OPEN_SHARED = ("0", True)  # left to fill in


@pytest.mark.parametrize(
    ("launch", "shared"),
    [
        ("k<<<1, 32, 64 * sizeof(float)>>>(x, y, width, height);", ("64 * 4", False)),
        (
            "size_t bytes = WIDE * sizeof(double); k<<<1, 32, bytes>>>(x, y, width, height);",
            ("32 * 8", False),
        ),
        (
            "int per = TILE + 1, bytes = per * width; k<<<1, 32, static_cast<int>(bytes) + 4u>>>(x, y, width, height);",
            ("(16 + 1) * N + 4", False),
        ),
        ("int TILE = 4; k<<<1, 32, TILE * 4>>>(x, y, width, height);", ("4 * 4", False)),
        ("int b = 64; b *= 2; k<<<1, 32, b>>>(x, y, width, height);", OPEN_SHARED),
        ("int b = 64; ++b; k<<<1, 32, b>>>(x, y, width, height);", OPEN_SHARED),
        ("int b = 64; grow(&b); k<<<1, 32, b>>>(x, y, width, height);", OPEN_SHARED),
        ("int b = 64; { int b = 32; } k<<<1, 32, b>>>(x, y, width, height);", OPEN_SHARED),
        ("int b = other; k<<<1, 32, b>>>(x, y, width, height);", OPEN_SHARED),
        ("int b = b + 1; k<<<1, 32, b>>>(x, y, width, height);", OPEN_SHARED),
        ("k<<<1, 32>>>(x, y, width, height);", OPEN_SHARED),
        ("", OPEN_SHARED),
    ],
)
def test_dynamic_shared_memory_is_taken_from_the_launch_or_left_to_fill_in(
    launch: str, shared: tuple[str, bool], tmp_path: Path
) -> None:
    path = tmp_path / "k.cu"
    path.write_text(KERNEL.format(launch=launch).replace("  y[blockIdx.x]", f"  {DYNAMIC}y[blockIdx.x]"))
    text = draft(str(path), Options())
    assert isinstance(text, str), text
    problem = parse_problem(text, "k.toml")
    assert isinstance(problem, Problem)
    marked = any(line.startswith("shared") and "FILL IN" in line for line in text.splitlines())
    assert (problem.kernels["k"].shared, marked) == shared


@pytest.mark.parametrize(
    ("outside", "inside", "dynamic"),
    [
        ("extern __shared__ float pool[];", "pool[0] = 1.0f;", True),
        ("extern __shared__ float pool[];", "", False),
        ("__device__ float* pool() { extern __shared__ float p[]; return p; }", "pool()[0] = 1.0f;", True),
        ("", "__shared__ float p[4]; p[0] = 1.0f;", False),
    ],
)
def test_dynamic_shared_memory_is_that_of_the_kernel_and_its_helpers(
    outside: str, inside: str, dynamic: bool, tmp_path: Path
) -> None:
    path = tmp_path / "k.cu"
    path.write_text(f"{outside}\n__global__ void k(float* x) {{ {inside} x[0] = 1.0f; }}\n")
    text = draft(str(path), Options())
    assert isinstance(text, str) and ("shared = " in text) == dynamic


TEMPLATE = """\
template <int T> __global__ void k(const float* x, float* y, int n) {{ y[threadIdx.x] = x[T * n]; }}
constexpr int SIZE = 8;
{host}
"""


@pytest.mark.parametrize(
    ("host", "instance"),
    [
        ("void f(float* x, int n) { k<SIZE><<<1, 32>>>(x, x, n); }", "k<SIZE>"),
        ("void f(float* x, int n) { k<4><<<1, 32>>>(x, x, n); k<4><<<2, 32>>>(x, x, n); }", "k<4>"),
        ("void f(float* x, int n) { k<4><<<1, 32>>>(x, x, n); k<8><<<2, 32>>>(x, x, n); }", None),
        ("void f(float* x, int n) { constexpr int L = 2; k<L><<<1, 32>>>(x, x, n); }", None),
        ("template <int P> void f(float* x, int n) { k<P><<<1, 32>>>(x, x, n); }", None),
        ("", None),
    ],
)
def test_the_instance_of_a_template_is_that_of_the_launches(
    host: str, instance: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "k.cu"
    path.write_text(TEMPLATE.replace("{{", "{").replace("}}", "}").replace("{host}", host))
    text = draft(str(path), Options())
    if instance is None:
        assert isinstance(text, Refusal) and text.diagnostics[0].code == "TP209"
        return
    assert isinstance(text, str), text
    problem = parse_problem(text, "k.toml")
    assert isinstance(problem, Problem) and problem.kernels["k"].instantiate == instance
