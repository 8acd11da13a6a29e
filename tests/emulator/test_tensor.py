"""mma, wmma, ldmatrix and movmatrix against NumPy's matrix product, through the layouts of the PTX manual."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from snippets import HEADER, Array, launch, program

DTYPES: dict[str, npt.DTypeLike] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "f32": np.float32,
    "f64": np.float64,
    "s8": np.int8,
    "u8": np.uint8,
    "s32": np.int32,
}


def random_matrix(seed: int, shape: tuple[int, int], t: str) -> Array:
    """Small integers in every type: products and sums are exact, so any summation order gives the same."""
    rng = np.random.default_rng(seed)
    kind: np.dtype[np.generic] = np.dtype(DTYPES[t])
    if kind.kind in "iu" and kind.itemsize == 1:
        info = np.iinfo(kind)
        return rng.integers(info.min, info.max, shape, kind, endpoint=True)
    return rng.integers(-8, 9, shape).astype(kind)


def kernel(body: str, registers: str) -> str:
    """A kernel of one warp: %pa … %pd are the addresses of its four arrays, %lane the lane."""
    return f"""{HEADER}
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3)
{{
.reg .b64 %pa, %pb, %pc, %pd, %at;
.reg .b32 %lane, %stride;
{registers}
ld.param.u64 %pa, [p0]; ld.param.u64 %pb, [p1]; ld.param.u64 %pc, [p2]; ld.param.u64 %pd, [p3];
mov.u32 %lane, %laneid;
{body}
ret;
}}
"""


def sizes(shape: str) -> tuple[int, int, int]:
    """M, N and K of a shape such as m16n8k16."""
    m, n, k = re.split("[mnk]", shape)[1:]
    return int(m), int(n), int(k)


def multiply(op: str, na: int, nb: int, nc: int) -> str:
    """The instruction `op` with its accumulators in place."""
    return f"{op} {names('c', nc)}, {names('a', na)}, {names('b', nb)}, {names('c', nc)};"


def names(stem: str, count: int) -> str:
    return "{" + ", ".join(f"%{stem}{i}" for i in range(count)) + "}"


def fragments(stem: str, pointer: str, count: int, bits: int, store: bool = False) -> str:
    """Loads or stores lane-major fragments: lane l's registers are contiguous."""
    lines = [f"mad.wide.u32 %at, %lane, {count * bits // 8}, %{pointer};"]
    for i in range(count):
        where = f"[%at+{i * bits // 8}]"
        lines.append(
            f"st.global.b{bits} {where}, %{stem}{i};" if store else f"ld.global.b{bits} %{stem}{i}, {where};"
        )
    return "\n".join(lines)


MMA = [
    ("m16n8k16", "f32", "f16", "f32"),
    ("m16n8k8", "f32", "f16", "f32"),
    ("m16n8k16", "f16", "f16", "f16"),
    ("m16n8k16", "f32", "bf16", "f32"),
    ("m16n8k8", "f32", "bf16", "f32"),
    ("m16n8k8", "f32", "tf32", "f32"),
    ("m16n8k4", "f32", "tf32", "f32"),
    ("m8n8k4", "f64", "f64", "f64"),
    ("m8n8k16", "s32", "s8", "s32"),
    ("m16n8k16", "s32", "s8", "s32"),
    ("m16n8k32", "s32", "s8", "s32"),
    ("m16n8k32", "s32", "u8", "s32"),
]


def coordinates(lane: int, which: str, m: int, k: int, per: int) -> list[tuple[int, int]]:
    """Row and column of each element of a lane's fragment, in register order, as the manual tabulates them."""
    g, t = divmod(lane, 4)
    if which == "a":
        tall = m == 16
        count = m * k // 32
        return [
            (
                g + (8 if tall and (e // per) % 2 else 0),
                t * per + e % per + 4 * per * (e // per // (2 if tall else 1)),
            )
            for e in range(count)
        ]
    if which == "b":
        return [(t * per + e % per + 4 * per * (e // per), g) for e in range(8 * k // 32)]
    return [(g + 8 * (e // 2), 2 * t + e % 2) for e in range(m * 8 // 32)]


def to_fragments(matrix: Array, which: str, m: int, k: int, per: int) -> Array:
    return np.array([[matrix[rc] for rc in coordinates(lane, which, m, k, per)] for lane in range(32)])


@pytest.mark.parametrize(("shape", "d", "ab", "c"), MMA)
def test_mma(shape: str, d: str, ab: str, c: str) -> None:
    m, _, k = sizes(shape)
    a, b, acc = random_matrix(1, (m, k), ab), random_matrix(2, (k, 8), ab), random_matrix(3, (m, 8), c)
    bits = 64 if ab == "f64" else 32
    per = bits // 8 // np.dtype(DTYPES[ab]).itemsize
    per_c = bits // 8 // np.dtype(DTYPES[c]).itemsize
    na, nb, nc = m * k // 32 // per, 8 * k // 32 // per, m * 8 // 32 // per_c
    kind = "f64" if ab == "f64" else "b32"
    registers = f".reg .{kind} %a<{na}>, %b<{nb}>, %c<{nc}>;"
    body = "\n".join(
        (
            fragments("a", "pa", na, bits),
            fragments("b", "pb", nb, bits),
            fragments("c", "pc", nc, bits),
            f"mma.sync.aligned.{shape}.row.col.{d}.{ab}.{ab}.{c} "
            f"{names('c', nc)}, {names('a', na)}, {names('b', nb)}, {names('c', nc)};",
            fragments("c", "pd", nc, bits, store=True),
        )
    )
    got = np.zeros((32, nc * per_c), DTYPES[d])
    inputs = [to_fragments(x, w, m, k, per) for x, w in ((a, "a"), (b, "b"), (acc, "c"))]
    done = launch(program(kernel(body, registers)), [*inputs, got], 32)
    want = a.astype(np.float64) @ b.astype(np.float64) + acc.astype(np.float64)
    np.testing.assert_array_equal(got.astype(np.float64), to_fragments(want, "c", m, k, per))
    assert not done.findings
    assert done.counters["math"] == m * 8 * k


def test_mixed_signs_and_saturation() -> None:
    a = np.full((16, 32), 255, np.uint8)
    b = np.full((32, 8), -128, np.int8)
    acc = np.full((16, 8), -(2**31) + 5, np.int32)
    for suffix, want in (("", 2**31 + 5 - 255 * 128 * 32), (".satfinite", -(2**31))):
        registers = ".reg .b32 %a<4>, %b<2>, %c<4>;"
        body = "\n".join(
            (
                fragments("a", "pa", 4, 32),
                fragments("b", "pb", 2, 32),
                fragments("c", "pc", 4, 32),
                f"mma.sync.aligned.m16n8k32.row.col{suffix}.s32.u8.s8.s32 "
                f"{names('c', 4)}, {names('a', 4)}, {names('b', 2)}, {names('c', 4)};",
                fragments("c", "pd", 4, 32, store=True),
            )
        )
        got = np.zeros((32, 4), np.int32)
        launch(program(kernel(body, registers)), [a, b, acc, got], 32)
        assert set(got.ravel().tolist()) == {want}


def test_tf32_inputs_are_truncated() -> None:
    """The low 13 bits of an operand do not count."""
    a = np.random.default_rng(4).standard_normal((16, 8)).astype(np.float32)
    b = np.eye(8, dtype=np.float32)
    got = np.zeros((32, 4), np.float32)
    body = "\n".join(
        (
            fragments("a", "pa", 4, 32),
            fragments("b", "pb", 2, 32),
            fragments("c", "pc", 4, 32),
            multiply("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 4, 2, 4),
            fragments("c", "pd", 4, 32, store=True),
        )
    )
    inputs = [to_fragments(x, w, 16, 8, 1) for x, w in ((a, "a"), (b, "b"))]
    launch(program(kernel(body, ".reg .b32 %a<4>, %b<2>, %c<4>;")), [*inputs, np.zeros_like(got), got], 32)
    want = (a.view(np.uint32) & 0xFFFFE000).view(np.float32)
    np.testing.assert_array_equal(got, to_fragments(want, "c", 16, 8, 1))
    assert (want != a).any()


WMMA = [
    ("m16n16k16", "f16", "f32", 8, 8, 8),
    ("m32n8k16", "f16", "f32", 8, 8, 8),
    ("m8n32k16", "f16", "f32", 8, 8, 8),
    ("m16n16k16", "f16", "f16", 8, 8, 4),
    ("m16n16k16", "bf16", "f32", 4, 4, 8),
    ("m32n8k16", "bf16", "f32", 8, 2, 8),
    ("m16n16k8", "tf32", "f32", 4, 4, 8),
    ("m8n8k4", "f64", "f64", 1, 1, 2),
    ("m16n16k16", "s8", "s32", 2, 2, 8),
    ("m32n8k16", "s8", "s32", 4, 1, 8),
    ("m8n32k16", "u8", "s32", 1, 4, 8),
]


@pytest.mark.parametrize(
    ("la", "lb", "lc"),
    [("row", "row", "row"), ("row", "col", "col"), ("col", "row", "row"), ("col", "col", "col")],
)
@pytest.mark.parametrize(("shape", "ab", "c", "na", "nb", "nc"), WMMA)
def test_wmma(shape: str, ab: str, c: str, na: int, nb: int, nc: int, la: str, lb: str, lc: str) -> None:
    rows, columns, depth = sizes(shape)
    a, b, acc = (
        random_matrix(1, (rows, depth), ab),
        random_matrix(2, (depth, columns), ab),
        random_matrix(3, (rows, columns), c),
    )

    def stored(matrix: Array, layout: str) -> Array:
        """In storage order, rows padded to the 16 bytes that strides must be multiples of."""
        ordered = matrix if layout == "row" else matrix.T
        padding = -ordered.shape[1] % max(1, 16 // matrix.itemsize)
        return np.ascontiguousarray(np.pad(ordered, ((0, 0), (0, padding))))

    def stride(matrix: Array, layout: str) -> int:
        return int(stored(matrix, layout).shape[1])

    kinds = {"f64": "f64", "tf32": "b32"}
    kind = kinds.get(ab, "b32")
    registers = f".reg .{kind} %a<{na}>, %b<{nb}>; .reg .{'f64' if c == 'f64' else 'b32'} %c<{nc}>;"
    math = f"{c}.{c}" if ab == "f16" else f"{c}.{ab}.{ab}.{c}"
    load = "wmma.load.{0}.sync.aligned.{1}." + shape + ".global.{2} {3}, [%p{0}], {4};"
    body = "\n".join(
        (
            load.format("a", la, ab, names("a", na), stride(a, la)),
            load.format("b", lb, ab, names("b", nb), stride(b, lb)),
            load.format("c", lc, c, names("c", nc), stride(acc, lc)),
            multiply(f"wmma.mma.sync.aligned.{la}.{lb}.{shape}.{math}", na, nb, nc),
            f"wmma.store.d.sync.aligned.{lc}.{shape}.global.{c} [%pd], {names('c', nc)}, {stride(acc, lc)};",
        )
    )
    got = np.zeros(stored(acc, lc).shape, acc.dtype)
    done = launch(program(kernel(body, registers)), [stored(a, la), stored(b, lb), stored(acc, lc), got], 32)
    want = a.astype(np.float64) @ b.astype(np.float64) + acc.astype(np.float64)
    unpadded = got[:rows, :columns] if lc == "row" else got.T[:rows, :columns]
    np.testing.assert_array_equal(unpadded.astype(np.float64), want)
    assert not done.findings
    assert done.counters["math"] == rows * columns * depth


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("trans", ["", ".trans"])
def test_ldmatrix(count: int, trans: str) -> None:
    """Lane 8m + r holds the address of row r of matrix m; lane 4g + t gets columns 2t, 2t + 1 of row g."""
    data = np.arange(count * 64, dtype=np.uint16).reshape(count, 8, 8)
    registers = f".reg .b32 %a<{count}>, %s, %w, %base; .reg .pred %p;"
    registers += f".shared .align 16 .b8 tile[{count * 128}];"
    body = f"""
mov.u32 %base, tile;
mov.u32 %w, %lane;
COPY:
setp.ge.u32 %p, %w, {count * 32};
@%p bra READY;
mul.wide.u32 %at, %w, 4; add.s64 %at, %at, %pa;
ld.global.b32 %s, [%at];
mad.lo.u32 %stride, %w, 4, %base;
st.shared.b32 [%stride], %s;
add.u32 %w, %w, 32;
bra COPY;
READY:
bar.warp.sync -1;
mad.lo.u32 %base, %lane, 16, %base;
ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {names("a", count)}, [%base];
{fragments("a", "pd", count, 32, store=True)}
"""
    got = np.zeros((32, count, 2), np.uint16)
    unused = np.zeros(1, np.uint16)
    done = launch(program(kernel(body, registers)), [data, unused, unused, got], 32)
    matrices = data.transpose(0, 2, 1) if trans else data
    for lane in range(32):
        g, t = divmod(lane, 4)
        np.testing.assert_array_equal(got[lane], matrices[:, g, 2 * t : 2 * t + 2])
    if count == 4:  # with fewer matrices the other lanes' addresses are not used, nor in the array
        assert not done.findings


def test_movmatrix() -> None:
    data = np.arange(64, dtype=np.uint16).reshape(8, 8)
    body = f"""
{fragments("a", "pa", 1, 32)}
movmatrix.sync.aligned.m8n8.trans.b16 %a0, %a0;
{fragments("a", "pd", 1, 32, store=True)}
"""
    got = np.zeros((8, 8), np.uint16)
    unused = np.zeros(1, np.uint16)
    launch(program(kernel(body, ".reg .b32 %a<1>;")), [data, unused, unused, got], 32)
    np.testing.assert_array_equal(got, data.T)


def test_sum_is_sequential_and_fused() -> None:
    """The documented order: k ascending, one fused multiply-add a step, in f32."""
    rng = np.random.default_rng(7)
    a = rng.standard_normal((16, 16)).astype(np.float16)
    b = rng.standard_normal((16, 8)).astype(np.float16)
    acc = rng.standard_normal((16, 8)).astype(np.float32)
    registers = ".reg .b32 %a<4>, %b<2>, %c<4>;"
    body = "\n".join(
        (
            fragments("a", "pa", 4, 32),
            fragments("b", "pb", 2, 32),
            fragments("c", "pc", 4, 32),
            multiply("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 4, 2, 4),
            fragments("c", "pd", 4, 32, store=True),
        )
    )
    got = np.zeros((32, 4), np.float32)
    inputs = [to_fragments(x, w, 16, 16, 2) for x, w in ((a, "a"), (b, "b"), (acc, "c"))]
    launch(program(kernel(body, registers)), [*inputs, got], 32)
    want = acc.copy()
    for k in range(16):  # products of halves are exact in double, so this rounds once a step
        want = (a[:, k, None].astype(np.float64) * b[None, k].astype(np.float64) + want).astype(np.float32)
    np.testing.assert_array_equal(got, to_fragments(want, "c", 16, 16, 2))
