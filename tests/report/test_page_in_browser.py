"""The page in a headless Chromium: nothing fetched, nothing wrong, everything drawn, on any screen and paper."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.report.browser import CHROMIUM, DRIVER, Browser, browser
from tests.report.samples import PIPELINED
from tests.report.test_page import FULL, KEPT, ORIGIN, PREDICTED, REFUSED

from tilepipe.evidence.types import Benchmark
from tilepipe.report.page import render_page

pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None,
    reason="needs Chromium and its driver (packages chromium, chromium-driver)",
)

BOXES = """
return [...document.querySelectorAll('svg')].map(svg => {
  const view = svg.viewBox.baseVal;
  const inside = e => {
    const b = e.getBBox();
    return b.x >= -1 && b.y >= -1 && b.x + b.width <= view.width + 1 && b.y + b.height <= view.height + 1;
  };
  const drawn = [...svg.querySelectorAll('text, rect, circle, polyline')].filter(e => !e.closest('defs'));
  return {
    id: svg.getAttribute('aria-labelledby'),
    width: svg.getBoundingClientRect().width,
    shapes: drawn.length,
    outside: drawn.filter(e => !inside(e)).map(e => e.textContent || e.outerHTML),
    described: ['title', 'desc'].every(t => svg.querySelector(':scope > ' + t).textContent.trim().length > 20),
  };
});
"""


@pytest.fixture(scope="module")
def session() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@pytest.fixture
def chromium(session: Browser) -> Browser:
    """The browser as a desktop screen in light colours, whatever the test before left it as."""
    session.media()
    session.width(1100)
    return session


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    texts = {
        "full": render_page([FULL], [ORIGIN]),
        "predicted": render_page([PREDICTED], [ORIGIN]),
        "several": render_page([FULL, REFUSED, KEPT, PREDICTED], [ORIGIN] * 4),
    }
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in texts}


@pytest.mark.parametrize("name", ["full", "predicted", "several"])
def test_nothing_is_wrong_and_nothing_is_fetched(
    name: str, chromium: Browser, pages: dict[str, Path]
) -> None:
    chromium.console()  # forgets what came before
    chromium.open(pages[name])
    assert chromium.run("return document.readyState") == "complete"
    assert chromium.console() == []
    asked = chromium.requests(pages[name])
    assert pages[name].as_uri() in asked
    assert [url for url in asked if url != pages[name].as_uri() and not url.startswith("data:")] == []


def test_the_console_is_listened_to(chromium: Browser, pages: dict[str, Path], tmp_path: Path) -> None:
    """The test above can fail: a page that fetches is caught twice over."""
    page = tmp_path / "fetches.html"
    page.write_text(pages["full"].read_text().replace("<main", '<img src="http://127.0.0.1:9/x.png"><main'))
    chromium.open(page)
    assert any("Content Security Policy" in message for message in chromium.console())


@pytest.mark.parametrize("name", ["full", "predicted", "several"])
def test_charts_are_drawn_inside_their_frames(name: str, chromium: Browser, pages: dict[str, Path]) -> None:
    chromium.open(pages[name])
    charts = chromium.run(BOXES)
    assert len(charts) >= 4
    for chart in charts:
        assert chart["outside"] == [], chart["id"]
        assert chart["shapes"] > 8 and chart["width"] > 300 and chart["described"], chart["id"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["screen", "print"])
def test_text_is_readable(scheme: str, kind: str, chromium: Browser, pages: dict[str, Path]) -> None:
    """Contrast of at least 4.5 to 1 between text and the ground it stands on; paper is always light."""
    chromium.media(kind, scheme)
    chromium.open(pages["several"])
    worst = chromium.run(CONTRAST)
    assert worst["ratio"] >= 4.5, worst
    ground = chromium.run("return getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (scheme == "light" or kind == "print")


CONTRAST = """
const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
const rgba = color => {
  canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data];
};
const light = c => c.slice(0, 3).map(v => v / 255)
  .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const ground = e => {
  if (e.matches('.ev-text')) return rgba(getComputedStyle(e.parentNode.querySelector('rect')).fill);
  for (; e; e = e.parentElement) {
    const c = rgba(getComputedStyle(e).backgroundColor);
    if (c[3] === 255) return c;
  }
  return [255, 255, 255, 255];
};
let worst = {ratio: 99};
for (const e of document.querySelectorAll('main *')) {
  const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
  if (!own || !e.checkVisibility() || e.matches('title, desc')) continue;
  const style = getComputedStyle(e);
  const text = light(rgba(e.closest('svg') ? style.fill : style.color)), back = light(ground(e));
  const ratio = (Math.max(text, back) + 0.05) / (Math.min(text, back) + 0.05);
  if (ratio < worst.ratio) worst = {ratio, text: e.textContent.slice(0, 40), tag: e.tagName, of: e.className};
}
return worst;
"""


@pytest.mark.parametrize("width", [320, 390, 768, 1600])
def test_no_screen_scrolls_sideways(width: int, chromium: Browser, pages: dict[str, Path]) -> None:
    chromium.width(width)
    chromium.open(pages["several"])
    assert chromium.run("return document.documentElement.scrollWidth") <= width


def test_the_keyboard_reaches_everything(chromium: Browser, pages: dict[str, Path]) -> None:
    chromium.open(pages["full"])
    chromium.tab()
    focused = "const e = document.activeElement; return [e.className, e.getBoundingClientRect().left >= 0]"
    assert chromium.run(focused) == ["skip", True]
    reached = set()
    for _ in range(60):
        chromium.tab()
        reached.add(chromium.run("return document.activeElement.tagName"))
        seen = chromium.run(
            "const e = document.activeElement;"
            "return e === document.body || getComputedStyle(e).outlineStyle !== 'none'"
        )
        assert seen
    assert {"SUMMARY", "INPUT", "PRE", "DIV"} <= reached


def test_the_change_can_be_read_both_ways(chromium: Browser, pages: dict[str, Path]) -> None:
    chromium.open(pages["full"])
    shown = "return ['unified', 'split'].map(c => document.querySelector('.' + c).checkVisibility())"
    assert chromium.run(shown) == [True, False]
    chromium.run("document.getElementById('k1-split').click()")
    assert chromium.run(shown) == [False, True]
    rows = chromium.run("return document.querySelectorAll('.split tbody tr').length")
    assert rows == 5


def test_a_benchmark_without_its_original_is_no_chart(chromium: Browser, tmp_path: Path) -> None:
    report = replace(
        PIPELINED, evidence=replace(PIPELINED.evidence, benchmark=Benchmark("unknown", reason="lost"))
    )
    page = tmp_path / "page.html"
    page.write_text(render_page([report], [ORIGIN]), encoding="utf-8")
    chromium.open(page)
    assert chromium.run("return document.querySelectorAll('.whisker').length") == 0
    assert chromium.run("return document.querySelectorAll('rect.bar').length") == 2
