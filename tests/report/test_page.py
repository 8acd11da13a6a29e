"""The page as text: what it says, that it says it for any report, and that nothing in it is markup by accident."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from tests.report.samples import PIPELINED, RACY

from tilepipe.diagnostics import Diagnostic, refusal
from tilepipe.evidence.types import Benchmark, Sass
from tilepipe.report import Evidence, RunReport, refused_report, with_checklist
from tilepipe.report.page import Command, Origin, render_page

ORIGIN = Origin(
    "__global__ void igemm()\n{\n}\n", (Command("The same again:", "tilepipe run igemm.cu --seed 7"),), 7
)
FULL = with_checklist(replace(PIPELINED, source="__global__ void igemm()\n{\n    int tp_stage = 0;\n}\n"))
KEPT = replace(PIPELINED, outcome="original_kept", chosen=None, source=None)
REFUSED = refused_report(refusal("TP012", "tile `As` is <read> before it is overwritten"))
PREDICTED = replace(FULL, evidence=replace(FULL.evidence, benchmark=Benchmark("unknown", reason="no GPU")))
REPORTS = {
    "full": FULL,
    "predicted": PREDICTED,
    "racy": RACY,
    "kept": KEPT,
    "refused": REFUSED,
    "empty": RunReport(),
    "audit failed": replace(FULL, evidence=Evidence(sass=Sass("unknown", reasons=("no loop",)))),
}
VOID = {"meta", "link", "br", "input", "col"}


class Reader(HTMLParser):
    """Checks that tags are balanced, and collects ids, references to them, text by heading, and addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.refers: set[str] = set()
        self.headings: list[str] = []
        self.addresses: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        self.ids += [given["id"] or ""] if "id" in given else []
        self.refers |= set((given.get("aria-labelledby") or "").split())
        self.refers |= {given["for"] or ""} if "for" in given else set()
        self.addresses += [given[k] or "" for k in ("href", "src", "action") if k in given]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "h2":
            self.headings.append(data)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    return reader


def page_of(report: RunReport, origin: Origin = ORIGIN) -> str:
    return render_page([report], [origin])


@pytest.mark.parametrize("name", REPORTS)
def test_any_report_is_a_sound_page(name: str) -> None:
    reader = read(page_of(REPORTS[name]))
    assert len(set(reader.ids)) == len(reader.ids)
    assert reader.refers <= set(reader.ids)


@pytest.mark.parametrize("name", REPORTS)
def test_nothing_is_fetched_or_run(name: str) -> None:
    reader = read(page_of(REPORTS[name]))
    assert all(address.startswith(("#", "data:")) for address in reader.addresses)
    assert "script" not in reader.tags and "iframe" not in reader.tags
    assert not re.search(r"url\((?!#)|@import", page_of(REPORTS[name]))


def test_a_full_page_has_every_part() -> None:
    assert read(page_of(FULL)).headings == [
        "Messages",
        "Checklist",
        "What runs when",
        "Which tile is where",
        "What stages cost",
        "Candidates",
        "Evidence",
        "The change",
        "Machine code",
        "How to reproduce",
    ]


@pytest.mark.parametrize(
    "words",
    [
        "1.72× the original, measured",
        "a load is in flight during 100% of the math",
        "3 stages: 16384 bytes, 8 blocks per SM (shared)",
        "Measured on NVIDIA H200 at size target",
        "int tp_stage = 0;",
        "tilepipe run igemm.cu --seed 7",
        "DEPBAR.LE SB0, 0x1",
        "last tile computed, from the right stage",
    ],
)
def test_what_it_says(words: str) -> None:
    assert words in page_of(FULL)


def test_predictions_are_called_predictions() -> None:
    page = page_of(PREDICTED)
    assert "<strong>Predicted by the time model, not measured</strong>: no GPU." in page
    assert "Measured on" not in page


def test_source_and_messages_are_text() -> None:
    hostile = "<script>alert(1)</script>&amp;\udc80"
    report = replace(FULL, source=hostile, diagnostics=(Diagnostic("TP001", "note", hostile),))
    page = page_of(report, Origin(hostile + "\n"))
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&amp;amp;?" in page
    read(page)


def test_several_kernels_share_a_page() -> None:
    page = render_page([FULL, REFUSED, KEPT], [ORIGIN] * 3)
    reader = read(page)
    assert len(set(reader.ids)) == len(reader.ids)
    assert page.count("<article") == 3
    assert {"#k1-verdict", "#k2-verdict", "#k3-verdict"} <= set(reader.addresses)


def test_no_timeline_says_why() -> None:
    assert "There is no timeline: no loop." in page_of(REPORTS["audit failed"])
