from hypothesis import given
from hypothesis import strategies as st

from tilepipe.report.changes import hunks

TEXTS = st.lists(st.sampled_from(["a", "b", "", "  for (;;)"]), max_size=30).map("\n".join)


@given(TEXTS, TEXTS)
def test_every_difference_is_in_some_hunk(before: str, after: str) -> None:
    """Lines outside the hunks are the same ones, and the numbers are those of the files."""
    old, new = before.split("\n"), after.split("\n")
    rows = [row for hunk in hunks(before, after) for row in hunk.rows]
    for row in rows:
        assert row.old is None or old[row.old.number - 1] == row.old.text
        assert row.new is None or new[row.new.number - 1] == row.new.text
        assert row.changed or (row.old and row.new and row.old.text == row.new.text)
    seen_old = {row.old.number for row in rows if row.old}
    seen_new = {row.new.number for row in rows if row.new}
    assert [t for n, t in enumerate(old, 1) if n not in seen_old] == [
        t for n, t in enumerate(new, 1) if n not in seen_new
    ]


@given(TEXTS, TEXTS)
def test_the_column_holds_the_same_lines(before: str, after: str) -> None:
    for hunk in hunks(before, after):
        went = [line for sign, line in hunk.unified if sign == "-"]
        came = [line for sign, line in hunk.unified if sign == "+"]
        kept = [line for sign, line in hunk.unified if sign == " "]
        assert went == [row.old for row in hunk.rows if row.changed and row.old]
        assert came == [row.new for row in hunk.rows if row.changed and row.new]
        assert kept == [row.new for row in hunk.rows if not row.changed]


def test_equal_texts_have_none() -> None:
    assert hunks("a\nb\n", "a\nb\n") == ()


def test_what_went_stands_before_what_came() -> None:
    (hunk,) = hunks("1\n2\n3\n4\n5", "1\n2\nx\ny\nz\n5")
    assert [sign + line.text for sign, line in hunk.unified] == [
        " 1",
        " 2",
        "-3",
        "-4",
        "+x",
        "+y",
        "+z",
        " 5",
    ]
