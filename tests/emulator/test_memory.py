"""State spaces, vector accesses, atomics, bounds and alignment."""

from __future__ import annotations

import numpy as np
import pytest
from snippets import HEADER, launch, program, words

from tilepipe.emulator import Buffer, Execution


def kernel(body: str, registers: str = "", module: str = "") -> str:
    """%in and %out are the two arrays, %t the thread."""
    return f"""{HEADER}
{module}
.visible .entry k(.param .u64 p, .param .u64 q)
{{
.reg .b64 %in, %out, %a, %b;
.reg .b32 %t, %x, %y, %z, %w, %s;
.reg .pred %p;
{registers}
ld.param.u64 %in, [p]; ld.param.u64 %out, [q];
mov.u32 %t, %tid.x;
{body}
ret;
}}
"""


@pytest.mark.parametrize("vector", ["", ".v2", ".v4"])
@pytest.mark.parametrize("space", ["shared", "local"])
def test_round_trip_through_a_space(space: str, vector: str) -> None:
    count = int(vector[2:] or 1)
    parts = ["%x", "%y", "%z", "%w"][:count]
    group = parts[0] if count == 1 else "{" + ", ".join(parts) + "}"
    size = 4 * count
    declared = f".{space} .align 16 .b8 room[{size * 32 if space == 'shared' else 64}];"
    place = f"mad.lo.u32 %s, %t, {size}, %s;" if space == "shared" else "add.u32 %s, %s, 16;"
    address = "%s" if space == "shared" else "%b"
    body = f"""
mad.wide.u32 %a, %t, {size}, %in;
ld.global{vector}.b32 {group}, [%a];
mov.u32 %s, room;
{place}
cvt.u64.u32 %b, %s;
st.{space}{vector}.b32 [{address}], {group};
mov.u32 %x, 0;
ld.{space}{vector}.b32 {group}, [{address}];
mad.wide.u32 %a, %t, {size}, %out;
st.global{vector}.b32 [%a], {group};
"""
    data = words(1, 32 * count, np.uint32)
    got = np.zeros_like(data)
    done = launch(program(kernel(body, declared)), [data, got], 32)
    np.testing.assert_array_equal(got, data)
    assert not done.findings


def test_generic_addresses() -> None:
    """The same ld and st reach shared, local and global memory through cvta."""
    declared = ".shared .align 4 .b8 sh[128]; .local .align 4 .b8 lo[8]; .reg .b64 %g; .reg .pred %q;"
    body = """
mul.wide.u32 %a, %t, 4;
add.s64 %b, %in, %a;
ld.u32 %x, [%b];
mov.u64 %g, sh;
cvta.shared.u64 %g, %g;
add.s64 %g, %g, %a;
isspacep.shared %p, %g;
st.u32 [%g], %x;
ld.u32 %y, [%g];
mov.u64 %g, lo;
cvta.local.u64 %g, %g;
isspacep.local %q, %g;
st.u32 [%g+4], %y;
ld.u32 %z, [%g+4];
@!%p mov.u32 %z, 0;
@!%q mov.u32 %z, 0;
add.s64 %b, %out, %a;
st.u32 [%b], %z;
"""
    data = words(2, 32, np.uint32)
    got = np.zeros_like(data)
    done = launch(program(kernel(body, declared)), [data, got], 32)
    np.testing.assert_array_equal(got, data)
    assert not done.findings


def test_constant_and_global_variables() -> None:
    module = (
        ".const .align 4 .u32 table[4] = {7, 0x10, 3000000000, 1};\n.global .align 4 .f32 scale = 0f3F000000;"
    )
    body = """
and.b32 %x, %t, 3;
mul.wide.u32 %a, %x, 4;
mov.u64 %b, table;
add.s64 %b, %b, %a;
ld.const.u32 %y, [%b];
ld.global.b32 %z, [scale];
xor.b32 %y, %y, %z;
mad.wide.u32 %a, %t, 4, %out;
st.global.u32 [%a], %y;
"""
    got = np.zeros(8, np.uint32)
    done = launch(program(kernel(body, "", module)), [got.copy(), got], 8)
    want = [v ^ 0x3F000000 for v in (7, 16, 3000000000, 1)] * 2
    assert got.tolist() == want
    assert not done.findings


ATOMICS = {
    "add.u32": (3, lambda v: int(np.sum(v, dtype=np.uint32)) + 3),
    "min.u32": (2**31, lambda v: min(2**31, int(v.min()))),
    "max.u32": (2**31, lambda v: max(2**31, int(v.max()))),
    "and.b32": (0xFFFFFFFF, lambda v: int(np.bitwise_and.reduce(v))),
    "or.b32": (0, lambda v: int(np.bitwise_or.reduce(v))),
    "xor.b32": (0, lambda v: int(np.bitwise_xor.reduce(v))),
}


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("op", ATOMICS)
def test_reductions(op: str, space: str) -> None:
    start, expected = ATOMICS[op]
    data = words(3, 64, np.uint32)
    got = np.full(1, start, np.uint32)
    body = f"mad.wide.u32 %a, %t, 4, %in; ld.global.u32 %x, [%a]; red.global.{op} [%out], %x;"
    if space == "shared":
        body = f"""
mad.wide.u32 %a, %t, 4, %in; ld.global.u32 %x, [%a];
setp.eq.u32 %p, %t, 0;
ld.global.u32 %y, [%out];
@%p st.shared.u32 [cell], %y;
bar.sync 0;
atom.shared.{op} %z, [cell], %x;
bar.sync 0;
@%p ld.shared.u32 %y, [cell];
@%p st.global.u32 [%out], %y;
"""
    done = launch(program(kernel(body, ".shared .align 4 .b8 cell[4];")), [data, got], 64)
    assert int(got[0]) == expected(data) & 0xFFFFFFFF
    assert not done.findings


def test_compare_and_swap_hands_out_tickets() -> None:
    """A lock-free counter: every thread gets its own ticket."""
    body = """
RETRY:
ld.volatile.global.u32 %x, [%in];
add.u32 %y, %x, 1;
atom.global.cas.b32 %z, [%in], %x, %y;
setp.ne.u32 %p, %z, %x;
@%p bra RETRY;
mad.wide.u32 %a, %z, 4, %out;
st.global.u32 [%a], %t;
"""
    counter, got = np.zeros(1, np.uint32), np.full(48, 99, np.uint32)
    launch(program(kernel(body)), [counter, got], 48)
    assert sorted(got.tolist()) == list(range(48))
    assert counter[0] == 48


def test_float_atomics_of_many_blocks_are_deterministic() -> None:
    body = "mov.u32 %x, %ctaid.x; mad.wide.u32 %a, %x, 4, %in; ld.global.u32 %y, [%a]; red.global.add.f32 [%out], %y;"
    loaded = program(kernel(body))
    data = np.random.default_rng(5).standard_normal(500).astype(np.float32)
    sums = []
    for _ in range(3):
        total = np.zeros(1, np.float32)
        done = loaded.run((500, 1, 1), (1, 1, 1), 0, [Buffer(data), Buffer(total)])
        assert isinstance(done, Execution)
        sums.append(float(total[0]))
    want = np.float32(0)
    for value in data:
        want += value
    assert sums == [float(want)] * 3


@pytest.mark.parametrize("checks", [True, False])
@pytest.mark.parametrize(
    ("offset", "inside"), [(-4, False), (0, True), (124, True), (126, False), (128, False)]
)
def test_global_bounds(offset: int, inside: bool, checks: bool) -> None:
    """Accesses a byte past either end are found, with and without the race checks, and harm nothing."""
    data = np.zeros(64, np.uint16)
    body = f"setp.eq.u32 %p, %t, 3; @%p ld.global.u32 %x, [%in{offset:+d}];"
    if offset == 126:
        body = body.replace("ld.global.u32 %x", "ld.global.v2.u16 {%h, %h2}")
    registers = ".reg .b16 %h, %h2;"
    done = launch(
        program(kernel(body, registers)),
        [data, np.zeros(1, np.uint32)],
        8,
        mode="checked" if checks else "unchecked",
    )
    if inside:
        assert not done.findings
    else:
        (found,) = done.findings
        assert found.kind in ("global out of bounds", "misaligned access")
        assert found.threads == (3,)


def test_access_across_the_end() -> None:
    """Aligned, and half inside."""
    done = launch(program(kernel("ld.global.u32 %x, [%in+4];")), [np.zeros(3, np.uint16), np.zeros(1)], 1)
    assert [f.kind for f in done.findings] == ["global out of bounds"]


def test_offset_pointer_keeps_its_whole_allocation() -> None:
    """An unaligned view: what lies before the pointer is legal memory, what lies before the allocation is not."""
    base = np.arange(10, dtype=np.uint32)
    for back, findings in ((4, 0), (8, 1)):
        loaded = program(kernel(f"ld.global.u32 %x, [%in-{back}]; st.global.u32 [%out], %x;"))
        got = np.zeros(1, np.uint32)
        done = loaded.run((1, 1, 1), (1, 1, 1), 0, [Buffer(base, 4), Buffer(got)])
        assert isinstance(done, Execution)
        assert len(done.findings) == findings
        if not findings:
            assert got[0] == 0


def test_shared_bounds_and_alignment() -> None:
    declared = ".shared .align 16 .b8 room[64];"
    for offset, kind in (
        (58, "misaligned access"),
        (64, "shared out of bounds"),
        (-4, "shared out of bounds"),
    ):
        body = f"mov.u32 %s, room; st.shared.u32 [%s{offset:+d}], %t;"
        done = launch(program(kernel(body, declared)), [np.zeros(1)] * 2, 1)
        assert [f.kind for f in done.findings] == [kind]
        unchecked = launch(program(kernel(body, declared)), [np.zeros(1)] * 2, 1, mode="unchecked")
        assert unchecked.blocks_run == 1


def test_misaligned_vector_load() -> None:
    done = launch(
        program(kernel("ld.global.v4.b32 {%x, %y, %z, %w}, [%in+4];")), [np.zeros(64), np.zeros(1)], 1
    )
    assert [f.kind for f in done.findings] == ["misaligned access"]


def test_local_bounds() -> None:
    body = "mov.u32 %s, room; mad.lo.u32 %s, %t, 8, %s; cvt.u64.u32 %b, %s; st.local.u32 [%b], %t;"
    done = launch(program(kernel(body, ".local .align 4 .b8 room[16];")), [np.zeros(1)] * 2, 3)
    (found,) = done.findings
    assert (found.kind, found.threads) == ("local out of bounds", (2,))


def test_dynamic_shared_memory() -> None:
    module = ".extern .shared .align 16 .b8 dyn[];"
    body = """
mov.u32 %s, dyn; mad.lo.u32 %s, %t, 4, %s;
st.shared.u32 [%s], %t;
bar.sync 0;
mov.u32 %x, %dynamic_smem_size;
mad.wide.u32 %a, %t, 4, %out; st.global.u32 [%a], %x;
"""
    got = np.zeros(16, np.uint32)
    loaded = program(kernel(body, ".shared .align 4 .b8 fixed[20];", module))
    assert not launch(loaded, [got.copy(), got], 16, dynamic=64).findings
    assert set(got.tolist()) == {64}
    short = launch(loaded, [got.copy(), got], 16, dynamic=60)
    assert [f.kind for f in short.findings] == ["shared out of bounds"]


@pytest.mark.parametrize(("kind", "size"), [("s8", 1), ("u8", 1), ("s16", 2), ("u16", 2)])
def test_narrow_loads_extend(kind: str, size: int) -> None:
    data = words(6, 32, np.uint8)
    body = f"""
mad.wide.u32 %a, %t, {size}, %in; ld.global.{kind} %x, [%a];
mad.wide.u32 %a, %t, 4, %out; st.global.u32 [%a], %x;
"""
    got = np.zeros(32 // size, np.int32)
    launch(program(kernel(body)), [data, got], 32 // size)
    np.testing.assert_array_equal(
        got, data.view(("i" if kind[0] == "s" else "u") + str(size)).astype(np.int32)
    )


def test_blocks_can_be_sampled() -> None:
    body = "mov.u32 %x, %ctaid.x; mad.wide.u32 %a, %x, 4, %out; st.global.u32 [%a], %x;"
    got = np.full(40, 1000, np.uint32)
    loaded = program(kernel(body))
    done = loaded.run((10, 2, 2), (1, 1, 1), 0, [Buffer(got.copy()), Buffer(got)], blocks=[3, 27, 39])
    assert isinstance(done, Execution)
    assert (done.blocks_run, done.blocks_total) == (3, 40)
    assert np.flatnonzero(got != 1000).tolist() == [3, 7, 9]


def test_block_coordinates() -> None:
    body = """
mov.u32 %x, %ctaid.x; mov.u32 %y, %ctaid.y; mov.u32 %z, %ctaid.z;
mad.lo.u32 %w, %z, 2, %y; mad.lo.u32 %w, %w, 3, %x;
mad.wide.u32 %a, %w, 4, %out; add.u32 %s, %w, 100; st.global.u32 [%a], %s;
"""
    got = np.zeros(30, np.uint32)
    done = program(kernel(body)).run((3, 2, 5), (1, 1, 1), 0, [Buffer(got.copy()), Buffer(got)])
    assert isinstance(done, Execution)
    assert got.tolist() == list(range(100, 130))


def test_other_kernels_variables_take_no_room() -> None:
    """A file-scope shared array that only another kernel uses does not count, nor does its table in memory."""
    module = ".shared .align 4 .b8 theirs[200000];\n.shared .align 4 .b8 ours[64];\n.global .align 4 .u32 unused[4];"
    body = "mov.u32 %s, ours; mad.lo.u32 %s, %t, 4, %s; st.shared.u32 [%s], %t;"
    loaded = program(kernel(body, "", module))
    assert loaded.kernel.static_shared == 64
    assert loaded.kernel.host_memory == {}
    assert not launch(loaded, [np.zeros(1)] * 2, 16).findings


@pytest.mark.parametrize(("first", "second"), [(128, 128), (256, 64), (32, 512)])
def test_an_overrun_into_an_idle_variable_is_found(first: int, second: int) -> None:
    """Behind each shared variable no other begins for as many bytes as it has, whatever runs over it."""
    declared = f".shared .align 16 .b8 s[{first}], u[{second}];\n"
    body = f"""
mov.u32 %s, s; mad.lo.u32 %s, %t, 4, %s; st.shared.u32 [%s+{first}], %t; ld.shared.u32 %x, [%s+{first}];
mov.u32 %s, u; mad.lo.u32 %s, %t, 4, %s; st.shared.u32 [%s], %x; ld.shared.u32 %y, [%s];
"""
    done = launch(program(kernel(declared + body)), [np.zeros(1)] * 2, first // 8)
    assert {f.kind for f in done.findings} == {"shared out of bounds"}


def test_gaps_take_no_room_and_keep_banks() -> None:
    declared = ".shared .align 16 .b8 s[144], u[80];\n.extern .shared .align 16 .b8 d[];\n"
    body = "mov.u32 %x, u; mov.u32 %y, s; mov.u32 %z, d; st.shared.u32 [%z], %x;"
    loaded = program(kernel(body, "", declared))
    places = {name: at for name, at, _ in loaded.kernel.shared_names}
    assert loaded.kernel.static_shared == 144 + 80
    assert (places["u"] - places["s"]) % 128 == 144 % 128
    assert (loaded.kernel.dynamic_offset - places["s"]) % 128 == (144 + 80) % 128
    assert not launch(loaded, [np.zeros(1)] * 2, 1, dynamic=16).findings
