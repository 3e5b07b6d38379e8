"""The report of an archive in a real Chromium: with a script and without, on a desk and on a phone, light and dark."""
from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jgroups_py.cli import main
from tests.browser.chromium import browser
from tests.unit.pipeline.made import archive

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1440, "height": 900}
SIZES = {"phone": PHONE, "tablet": {"width": 901, "height": 1100}, "desk": DESK}
LEAST_TEXT_PX = 11.0
EVIL = "<img src=x onerror=alert(1)>"
SMALLEST_TEXT = """() => Math.min(...[...document.querySelectorAll("body *")].filter(each =>
    each.checkVisibility() && !["SCRIPT", "TITLE", "title"].includes(each.tagName) &&
    [...each.childNodes].some(node => node.nodeType === 3 && node.textContent.trim()))
  .map(each => {
    const size = parseFloat(getComputedStyle(each).fontSize), svg = each.closest("svg");
    return svg ? size * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : size;
  }))"""
"""Of all texts that are shown, as they are on the screen: the pictures are scaled."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as made:
        yield made


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    archive(folder / "made", messages=20_000, faults=2, sites=((EVIL, ("A", "B", "C")), ("SFO", ("D", "E", "F"))))
    assert main(["archive", "report", str(folder / "made"), "--out", str(folder / "before"), "--json"]) == 1
    assert main(["archive", "report", str(folder / "made"), "--out", str(folder / "out"), "--json",
                 "--compare", str(folder / "before")]) == 1
    return folder / "out" / "report.html"


class Watched:
    """What a page must not do: errors on its console, requests to anywhere but its own file."""

    def __init__(self, page: Page, report: Path) -> None:
        self.faults: list[str] = []
        page.on("console", lambda message: self.faults.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("dialog", lambda dialog: self.faults.append(f"a name ran: {dialog.message}"))
        page.on("request", lambda request: None if request.url.partition("#")[0] == report.as_uri()
                else self.faults.append(f"asks for {request.url}"))
        page.goto(report.as_uri())


@pytest.fixture(params=SIZES)
def size(request: pytest.FixtureRequest) -> dict[str, int]:
    return SIZES[request.param]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_every_text_is_large_enough_and_nothing_is_wider_than_the_screen(
    chromium: Browser, report: Path, size: dict[str, int], script: bool, scheme: str,
):
    context = chromium.new_context(viewport=size, java_script_enabled=True, color_scheme=scheme)
    page = context.new_page()
    if not script:                                           # the page's own does not run, that of the test does
        page.route("**/*", lambda route: route.fulfill(
            body=re.sub(r"<script>.*</script>", "", report.read_text(), flags=re.S), content_type="text/html"))
    watched = Watched(page, report)
    assert page.locator("svg.drawn").count() == (page.locator("figure.plot").count() if script else 0)
    assert page.evaluate(SMALLEST_TEXT) >= LEAST_TEXT_PX
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    assert page.locator("figure.plot svg:visible").count() == page.locator("figure.plot").count() > 4
    assert watched.faults == []
    context.close()


def ticks(page: Page, at: int) -> list[str]:
    """The texts at the axes of a chart."""
    return page.locator("figure.plot").nth(at).locator("svg.drawn .tick").all_text_contents()


def test_a_stretch_that_is_dragged_is_shown_by_all_charts_and_a_double_click_shows_all(chromium: Browser, report: Path):
    page = chromium.new_page(viewport=DESK)
    watched = Watched(page, report)
    before = [ticks(page, at) for at in range(page.locator("figure.plot").count())]
    first = page.locator("figure.plot svg.drawn").first
    first.scroll_into_view_if_needed()
    box = first.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.4, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, y, steps=4)
    assert float(first.locator(".chosen").get_attribute("width") or 0) > 50
    page.mouse.up()
    after = [ticks(page, at) for at in range(len(before))]
    kept = [at for at, (one, other) in enumerate(zip(before, after, strict=True)) if one == other]
    assert not watched.faults
    assert not kept, [page.locator("figure.plot").nth(at).get_attribute("aria-label") for at in kept]
    page.mouse.dblclick(box["x"] + box["width"] / 2, y)
    assert [ticks(page, at) for at in range(len(before))] == before
    assert watched.faults == []
    page.close()


def test_one_cursor_stands_at_one_time_in_all_charts_and_says_the_values(chromium: Browser, report: Path):
    page = chromium.new_page(viewport=DESK)
    watched = Watched(page, report)
    figure = page.locator("figure.plot").first
    figure.focus()
    page.keyboard.press("ArrowRight")
    said = page.locator("figure.plot .says").all_inner_texts()
    assert len({text.partition(":")[0] for text in said}) == 1
    assert all(re.match(r"at .+: .*\d", text) for text in said), said
    assert page.locator("svg.drawn .cursor:not([visibility=hidden])").count() == len(said)
    page.keyboard.press("ArrowLeft")
    assert page.locator("figure.plot .says").first.inner_text() != said[0]
    page.keyboard.press("+")
    assert page.locator("figure.plot").count() == len(said)
    page.keyboard.press("0")
    assert watched.faults == []
    page.close()


def test_findings_are_sorted_and_filtered_and_lead_to_their_marks(chromium: Browser, report: Path):
    page = chromium.new_page(viewport=DESK)
    watched = Watched(page, report)
    table = page.locator("table.sorted").first
    counts = [int(text.replace(",", "")) for text in table.locator("td:last-child").all_inner_texts()]
    assert counts != sorted(counts)
    table.get_by_role("button", name="count").click()
    assert [int(text.replace(",", "")) for text in table.locator("td:last-child").all_inner_texts()] == sorted(counts)
    assert table.locator("th[aria-sort=ascending]").count() == 1
    page.locator("input[type=search]").first.fill("duplicated")
    shown = table.locator("tr:visible").all_inner_texts()[1:]
    assert shown
    assert all("duplicated" in row for row in shown)
    link = table.locator("tr:visible a[href^='#finding-']").first
    target = link.get_attribute("href")
    link.click()
    assert page.evaluate("document.querySelector(':target').id") == (target or "").removeprefix("#")
    assert watched.faults == []
    page.close()


def test_the_report_compares_two_runs(chromium: Browser, report: Path):
    page = chromium.new_page(viewport=DESK)
    Watched(page, report)
    heading = page.get_by_role("heading", name="Compared with before")
    rows = heading.locator("xpath=following-sibling::div[1]//tr").all_inner_texts()[1:]
    assert len(rows) > 10
    assert all("=" in row or row.startswith("verdict") for row in rows), "the same archive, so nothing differs"
    page.close()
