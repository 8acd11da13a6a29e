"""cp.async: when copies land, what they fill, and what is wrong to do meanwhile."""

from __future__ import annotations

import numpy as np
import pytest
from snippets import HEADER, Array, launch, program, words

POISON = 0xFFFFFFFF


def kernel(body: str, block: int = 1) -> str:
    """%s is the shared address of the thread's 16-byte slot of `ring`, %in its 16 source bytes, %out its result."""
    return f"""{HEADER}
.visible .entry k(.param .u64 p, .param .u64 q)
{{
.reg .b64 %in, %out, %a;
.reg .b32 %t, %x, %y, %z, %w, %s;
.reg .pred %p;
.shared .align 16 .b8 ring[{16 * (block + 2)}];
ld.param.u64 %in, [p]; ld.param.u64 %out, [q];
mov.u32 %t, %tid.x; mov.u32 %s, ring; mad.lo.u32 %s, %t, 16, %s;
mul.wide.u32 %a, %t, 16; add.s64 %in, %in, %a; add.s64 %out, %out, %a;
{body}
ret;
}}
"""


STORE = "ld.shared.v4.b32 {%x, %y, %z, %w}, [%s]; st.global.v4.b32 [%out], {%x, %y, %z, %w};"


def run(body: str, block: int = 1, **options: object) -> tuple[Array, Array, list[str]]:
    """Source, result and the kinds of findings."""
    data = words(1, 4 * (block + 8), np.uint32)
    got = np.zeros(4 * block, np.uint32)
    done = launch(program(kernel(body, block)), [data, got], block, **options)
    return data, got, [f.kind for f in done.findings]


@pytest.mark.parametrize("copy", ["cg", "ca"])
@pytest.mark.parametrize("early", [False, True])
def test_waited_copy_arrives(copy: str, early: bool) -> None:
    body = f"cp.async.{copy}.shared.global [%s], [%in], 16; cp.async.wait_all;" + STORE
    data, got, findings = run(body, 8, early=early)
    np.testing.assert_array_equal(got, data[:32])
    assert findings == []


@pytest.mark.parametrize("size", [4, 8, 16])
@pytest.mark.parametrize("taken", [0, 1, 3, 4])
def test_source_size_fills_with_zeros(size: int, taken: int) -> None:
    body = (
        f"""
st.shared.v4.b32 [%s], {{%t, %t, %t, %t}};
mov.u32 %x, {taken};
cp.async.ca.shared.global [%s], [%in], {size}, %x;
cp.async.commit_group; cp.async.wait_group 0;
"""
        + STORE
    )
    data, got, findings = run(body)
    want = np.zeros(16, np.uint8)
    want[:taken] = data.view(np.uint8)[:taken]
    np.testing.assert_array_equal(got.view(np.uint8), want)
    assert findings == []


def test_zero_source_size_reads_nothing() -> None:
    """The source may then point anywhere."""
    body = "mov.u64 %a, 64; cp.async.cg.shared.global [%s], [%a], 16, 0; cp.async.wait_all;" + STORE
    _, got, findings = run(body)
    assert got.tolist() == [0] * 4
    assert findings == []


@pytest.mark.parametrize("ignore", [0, 1])
def test_ignore_source(ignore: int) -> None:
    body = (
        f"setp.eq.u32 %p, {ignore}, 1; cp.async.cg.shared.global [%s], [%in], 16, %p; cp.async.wait_all;"
        + STORE
    )
    data, got, findings = run(body)
    np.testing.assert_array_equal(got, data[:4] * (1 - ignore))
    assert findings == []


TWO_GROUPS = """
cp.async.cg.shared.global [%s], [%in], 16; cp.async.commit_group;
cp.async.cg.shared.global [%s+16], [%in+16], 16; cp.async.commit_group;
"""
STORE_SECOND = STORE.replace("[%s]", "[%s+16]")


@pytest.mark.parametrize(
    ("wait", "reads", "expected"),
    [
        ("cp.async.wait_group 0;", STORE_SECOND, []),
        ("cp.async.wait_group 1;", STORE + "cp.async.wait_all;", []),
        ("cp.async.wait_group 1;", STORE_SECOND + "cp.async.wait_all;", ["read of in-flight copy"]),
        ("cp.async.wait_group 2;", STORE + "cp.async.wait_all;", ["read of in-flight copy"]),
        ("cp.async.wait_group 1;", STORE, ["pending at exit"]),
        ("cp.async.commit_group; cp.async.wait_group 1;", STORE_SECOND, []),
        ("cp.async.commit_group; cp.async.wait_group 2;", STORE, ["pending at exit"]),
    ],
)
def test_groups_count_from_the_newest(wait: str, reads: str, expected: list[str]) -> None:
    """An empty commit is a group too, and pushes the older ones out of the wait's allowance."""
    _, _, findings = run(TWO_GROUPS + wait + reads)
    assert findings == expected


def test_uncommitted_copies_are_waited_for_by_wait_all_only() -> None:
    issue = "cp.async.cg.shared.global [%s], [%in], 16;"
    assert run(issue + "cp.async.wait_all;" + STORE)[2] == []
    assert run(issue + "cp.async.wait_group 0;" + STORE + "cp.async.wait_all;")[2] == [
        "read of in-flight copy"
    ]


def test_late_copies_read_as_poison_and_early_ones_do_not_hide_it() -> None:
    """Without a wait the late mode shows NaN patterns, the early mode right data; both are findings."""
    body = "cp.async.cg.shared.global [%s], [%in], 16;" + STORE + "cp.async.wait_all;"
    _, got, findings = run(body)
    assert got.tolist() == [POISON] * 4
    assert findings == ["read of in-flight copy"]
    data, got, findings = run(body, early=True)
    np.testing.assert_array_equal(got, data[:4])
    assert findings == ["read of in-flight copy"]


def test_source_is_read_late() -> None:
    """A source overwritten before the wait may already be the new one: the late mode shows it."""
    body = (
        """
cp.async.cg.shared.global [%s], [%in], 16;
st.global.v4.b32 [%in], {%t, %t, %t, %t};
cp.async.wait_all;
"""
        + STORE
    )
    assert run(body)[1].tolist() == [0] * 4
    _, got, _ = run(body, early=True)
    assert got.any()


@pytest.mark.parametrize(
    "other", ["st.shared.b32 [%s+4], %t;", "cp.async.ca.shared.global [%s+4], [%in], 4;"]
)
def test_overwriting_a_pending_copy(other: str) -> None:
    _, _, findings = run("cp.async.cg.shared.global [%s], [%in], 16;" + other + "cp.async.wait_all;")
    assert findings == ["overwritten while pending"]


def test_completion_is_the_threads_own_until_a_barrier() -> None:
    """Thread t reads what thread t ^ 1 copied."""
    issue = "cp.async.cg.shared.global [%s], [%in], 16; cp.async.wait_all;"
    neighbour = "xor.b32 %x, %t, 1; mov.u32 %s, ring; mad.lo.u32 %s, %x, 16, %s;"
    data, got, findings = run(issue + "bar.sync 0;" + neighbour + STORE, 2)
    assert findings == []
    np.testing.assert_array_equal(got, np.roll(data[:8], 4))
    _, _, findings = run(issue + neighbour + STORE, 2)
    assert set(findings) == {"uninitialised read", "read-write race", "write-read race"}


def test_barrier_before_the_wait_publishes_nothing() -> None:
    body = (
        """
cp.async.cg.shared.global [%s], [%in], 16; cp.async.commit_group;
bar.sync 0;
cp.async.wait_group 0;
xor.b32 %x, %t, 1; mov.u32 %s, ring; mad.lo.u32 %s, %x, 16, %s;
"""
        + STORE
    )
    _, _, findings = run(body, 2)
    assert set(findings) <= {"write-read race", "read of in-flight copy"}
    assert "write-read race" in findings


def test_issue_conflicts_with_readers_of_the_same_interval() -> None:
    """Refilling a slot that another thread read since the last barrier."""
    body = """
st.shared.v4.b32 [%s], {%t, %t, %t, %t};
bar.sync 0;
xor.b32 %x, %t, 1; mov.u32 %w, ring; mad.lo.u32 %w, %x, 16, %w;
ld.shared.b32 %y, [%w];
BARRIER
cp.async.cg.shared.global [%s], [%in], 16; cp.async.wait_all;
"""
    assert run(body.replace("BARRIER", "bar.sync 0;"), 2)[2] == []
    findings = run(body.replace("BARRIER", ""), 2)[2]
    assert findings and set(findings) <= {"read-write race", "write-read race"}


def test_bounds_are_checked_at_issue() -> None:
    """The bad source is reported at the copy's own line, not at the wait."""
    text = kernel("cp.async.cg.shared.global [%s], [%in+1024], 16;\ncp.async.wait_all;")
    done = launch(program(text), [np.zeros(16), np.zeros(2)], 1)
    (found,) = done.findings
    line = 1 + text[: text.index("cp.async.cg")].count("\n")
    assert (found.kind, found.lines) == ("global out of bounds", (line,))
    partial = "cp.async.cg.shared.global [%s], [%in], 16, 4; cp.async.wait_all;"
    assert not launch(program(kernel(partial)), [np.zeros(1, np.uint32), np.zeros(2)], 1).findings


@pytest.mark.parametrize(
    ("operands", "kind"),
    [
        ("[%s+4], [%in], 16", "misaligned access"),
        ("[%s], [%in+4], 16", "misaligned access"),
        ("[%s+4096], [%in], 16", "shared out of bounds"),
        ("[%s], [%in], 16, 32", "bad operand"),
    ],
)
def test_bad_operands(operands: str, kind: str) -> None:
    _, _, findings = run(f"cp.async.cg.shared.global {operands}; cp.async.wait_all;")
    assert findings == [kind]


def test_many_pending_copies() -> None:
    """Hundreds of copies in flight: the queue grows."""
    body = """
mov.u32 %x, 0;
LOOP:
and.b32 %y, %x, 1; mad.lo.u32 %z, %y, 4, %s;
cp.async.ca.shared.global [%s], [%in], 4; cp.async.commit_group;
add.u32 %x, %x, 1;
setp.lt.u32 %p, %x, 300;
@%p bra LOOP;
cp.async.wait_group 0;
"""
    data, _, findings = run(body + STORE)
    assert "overwritten while pending" in findings  # that loop is wrong, and survives
    assert data is not None
