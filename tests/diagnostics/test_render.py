from hypothesis import given
from hypothesis import strategies as st

from tilepipe.diagnostics import Diagnostic, Place
from tilepipe.diagnostics.render import MAX_COLUMNS, plain, plain_all, styled

LINE = "    acc += As[ty][k] * Bs[k][tx];"
READ = Diagnostic(
    "TP012",
    "refusal",
    "tile `As` is read before it is overwritten",
    Place("gemm.cu", 41, 12, 2, LINE),
    "read here; overwritten at line 47",
    "copy the tile at the top of the loop body, then compute",
)


def test_the_format_as_published() -> None:
    assert plain(READ) == (
        "gemm.cu:41:12: TP012 refused: tile `As` is read before it is overwritten\n"
        "   |\n"
        "41 |     acc += As[ty][k] * Bs[k][tx];\n"
        "   |            ^^ read here; overwritten at line 47\n"
        "   = help: copy the tile at the top of the loop body, then compute · tilepipe explain TP012"
    )


def test_without_place_label_and_help() -> None:
    assert plain(Diagnostic("TP140", "error", "no")) == "TP140 error: no\n = help: tilepipe explain TP140"


def test_several_stand_apart() -> None:
    assert plain_all([READ, READ]).count("\n\n") == 1


def test_tabs_keep_the_caret_under_its_text() -> None:
    lines = plain(Diagnostic("TP012", "warning", "m", Place("a.cu", 7, 6, 2, "\tx =\tAs;"))).split("\n")
    assert lines[2].index("As") == lines[3].index("^^")


def test_wide_characters_keep_the_caret_under_its_text() -> None:
    lines = plain(Diagnostic("TP012", "note", "m", Place("a.cu", 7, 8, 2, "/* 幅 */As;"))).split("\n")
    assert lines[3].index("^^") == lines[2].index("As") + 1  # 幅 takes two columns, one character


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert "\x1b" not in plain(Diagnostic("TP012", "note", "m", Place("a.cu", 1, 1, 1, "\x1b[31mred")))


def test_styled_text_says_the_same_and_reads_no_markup() -> None:
    marked = Diagnostic("TP012", "error", "see [bold]x[/bold]", READ.place)
    assert styled(marked).plain == plain(marked)


@given(
    text=st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=400).filter(
        lambda t: "\n" not in t
    ),
    column=st.integers(1, 500),
    width=st.integers(1, 50),
)
def test_any_place_renders_in_bounds(text: str, column: int, width: int) -> None:
    lines = plain(Diagnostic("TP012", "error", "m", Place("a.cu", 3, column, width, text))).split("\n")
    assert len(lines) == 5
    assert "^" in lines[3]
    assert len(lines[2]) <= MAX_COLUMNS + 4
