"""Every code that a message can carry has a page, and every page a message."""

import ast
import re
from pathlib import Path

import pytest

from tilepipe.diagnostics import Refusal
from tilepipe.diagnostics.explain import explain, titles

ROOT = Path(__file__).parents[2]
CODE = re.compile(r"TP\d{3}")


def used_codes() -> set[str]:
    """The codes that stand as string literals, alone, in the sources."""
    found = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value):
                found.add(node.value)
    return found


def test_codes_and_pages_agree() -> None:
    pages = {path.stem for path in (ROOT / "docs" / "refusals").glob("*.md")}
    used = used_codes()
    assert used, "no code found: the search is broken"
    assert sorted(used - pages) == [], "codes without a page in docs/refusals"
    assert sorted(pages - used) == [], "pages that no message refers to"


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "refusals").glob("*.md")), ids=lambda p: p.stem)
def test_a_page_has_the_agreed_form(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.match(rf"# {path.stem}: \S", text)
    assert [line for line in text.splitlines() if line.startswith("## ")] == ["## Example", "## What to do"]


@pytest.mark.parametrize("spelling", ["TP141", "tp141", "141", " TP141 "])
def test_explain_reads_codes_as_people_write_them(spelling: str) -> None:
    page = explain(spelling)
    assert isinstance(page, str)
    assert page.startswith("# TP141: ")


@pytest.mark.parametrize("spelling", ["", "TP", "TP000", "TP1411", "../TP141", "hello"])
def test_explain_refuses_other_words(spelling: str) -> None:
    page = explain(spelling)
    assert isinstance(page, Refusal)
    assert (page.diagnostics[0].code, page.exit_code) == ("TP141", 2)


def test_titles_lists_every_page() -> None:
    assert titles()["TP141"] == "no such code"
    assert list(titles()) == sorted(titles())
