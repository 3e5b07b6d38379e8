"""The live page in a real Chromium: a member's, with names full of markup, and the demo's, with its buttons."""
from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

import jgroups_py as jg
from jgroups_py.ops.http import HttpAccess, HttpEndpoint
from jgroups_py.system.free_ports import free_range
from tests.browser.chromium import Watched, browser
from tests.browser.live_demo import DEMO_WAIT_MS, Demo

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser
EVIL = "<img src=x onerror=alert(1)>"
EVIL_CLUSTER = "</script><script>alert(2)</script> &lt;\u05d0\u05d1"
TOKEN = "a-token-of-sixteen-bytes"
WAIT_MS = 30_000
DESKTOP, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}

MEASURE = """() => {
  const channels = text => text.match(/[0-9.]+/g).map(Number);
  const linear = c => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const light = colour => { const [r, g, b] = colour.map(linear);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = element => { for (let at = element; at; at = at.parentElement) {
      const colour = channels(getComputedStyle(at).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour.slice(0, 3); } return [255, 255, 255]; };
  const panel = document.querySelector(".frame"), texts = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].filter(node => node.nodeType === 3 && node.data.trim()).length;
    if (!own || !element.getClientRects().length || element.closest("script, style, title")) continue;
    const style = getComputedStyle(element), inside = element instanceof SVGElement;
    const colour = channels(inside ? style.fill : style.color).slice(0, 3);
    const behind = inside && element.closest("#map") ? channels(getComputedStyle(panel).fill).slice(0, 3)
      : ground(element);
    const [a, b] = [light(colour), light(behind)].sort((x, y) => y - x);
    texts.push({text: element.textContent.trim().slice(0, 40), size: parseFloat(style.fontSize),
                contrast: (a + 0.05) / (b + 0.05)});
  }
  return {texts, overflow: document.documentElement.scrollWidth - innerWidth,
          small: [...document.querySelectorAll("button, input")].filter(each => each.getClientRects().length).map(
            each => each.getBoundingClientRect()).filter(box => box.width < 44 || box.height < 44).length};
}"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as made:
        yield made


@pytest.fixture(scope="module")
def channel() -> Iterator[jg.JChannel]:
    with jg.JChannel("udp", EVIL, {"mcast_port": free_range()}) as made:
        made.connect(EVIL_CLUSTER)
        yield made


def is_readable(watched: Watched) -> None:
    found: Any = watched.page.evaluate(MEASURE)
    assert found["overflow"] <= 0, "no scrolling sideways"
    assert found["small"] == 0, "what is pressed has 44 by 44 pixels at least"
    assert len(found["texts"]) > 15
    assert [each for each in found["texts"] if each["size"] < 11] == []
    assert [each for each in found["texts"] if each["contrast"] < 4.5] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_names_full_of_markup_are_texts_and_the_page_is_readable(
    chromium: Browser, channel: jg.JChannel, size: dict[str, int], scheme: str,
):
    with HttpEndpoint(channel, "0") as endpoint:
        watched = Watched(chromium, viewport=size, color_scheme=scheme)
        page = watched.page
        page.goto(endpoint.url + "/")
        page.get_by_role("cell", name=EVIL, exact=True).wait_for(timeout=WAIT_MS)
        channel.send(b"x")
        page.locator("[data-key=delivered]", has_text=re.compile("[1-9]")).wait_for(timeout=WAIT_MS)
        assert page.get_by_role("heading", level=1).inner_text() == f"{EVIL} in {EVIL_CLUSTER}"
        assert page.locator("img").count() == 0
        assert page.locator("script").count() == 1
        assert page.get_by_role("button").count() == 0, "a member's page has no buttons"
        is_readable(watched)
        assert (watched.faults, watched.origins) == ([], {endpoint.url})


def test_the_page_goes_on_when_the_endpoint_is_back(chromium: Browser, channel: jg.JChannel):
    watched = Watched(chromium)
    with HttpEndpoint(channel, "0") as endpoint:
        port = endpoint.port
        watched.page.goto(endpoint.url + "/")
        watched.page.get_by_text("live", exact=True).wait_for(timeout=WAIT_MS)
    watched.page.get_by_text(re.compile("^no connection")).wait_for(timeout=WAIT_MS)
    with HttpEndpoint(channel, str(port)):
        watched.page.get_by_text("live", exact=True).wait_for(timeout=WAIT_MS)


def test_a_token_is_asked_for_and_taken_from_the_address(chromium: Browser, channel: jg.JChannel, tmp_path: Any):
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o600)
    with HttpEndpoint(channel, "0", HttpAccess(token_file=file)) as endpoint:
        page = Watched(chromium).page
        page.goto(endpoint.url + "/")
        page.get_by_label("A token is needed:").fill("wrong")
        page.keyboard.press("Enter")
        page.get_by_text("the token is not accepted").wait_for(timeout=WAIT_MS)
        assert page.get_by_role("table").count() == 0, "nothing is shown"
        page.get_by_label("A token is needed:").fill(TOKEN)
        page.keyboard.press("Enter")
        page.get_by_text("live", exact=True).wait_for(timeout=WAIT_MS)
        other = Watched(chromium).page
        other.goto(f"{endpoint.url}/#{TOKEN}")
        other.get_by_text("live", exact=True).wait_for(timeout=WAIT_MS)
        assert TOKEN not in other.url


@pytest.fixture
def demo(tmp_path: Any) -> Iterator[Demo]:
    made = Demo(tmp_path / "out")
    yield made
    if made.process.poll() is None:
        made.interrupt()


def press(page: Any, name: str) -> None:
    """By keyboard: Tab until the button has the focus, then Enter."""
    button = page.get_by_role("button", name=name)
    for _ in range(30):
        page.keyboard.press("Tab")
        if button.evaluate("element => element === document.activeElement"):
            page.keyboard.press("Enter")
            return
    raise AssertionError(f"the keyboard does not reach {name}")


def test_a_relay_is_killed_and_the_bridge_cut_by_keyboard_and_nothing_is_lost(chromium: Browser, demo: Demo):
    watched = Watched(chromium, viewport=PHONE, color_scheme="dark", reduced_motion="reduce")
    page = watched.page
    page.goto(demo.url)
    demo.until("all 6 members see 2 sites")
    page.get_by_role("button", name="end, and count").wait_for(timeout=DEMO_WAIT_MS)
    page.locator(".road:not(.still)").first.wait_for(timeout=DEMO_WAIT_MS)   # messages cross
    is_readable(watched)
    assert page.locator(".dot").count() == 0, "nothing moves for those who want no motion"
    press(page, "kill the relay of NYC")
    page.locator(".cross").first.wait_for(timeout=DEMO_WAIT_MS)
    page.get_by_role("status").get_by_text("killed A").wait_for(timeout=DEMO_WAIT_MS)
    press(page, "cut the bridge")
    page.locator("[data-key=held].bad, [data-key=held]", has_text=re.compile("[1-9]")).wait_for(timeout=DEMO_WAIT_MS)
    page.locator(".road.still").first.wait_for(timeout=DEMO_WAIT_MS)
    press(page, "mend the bridge")
    page.locator(".road:not(.still)").first.wait_for(timeout=DEMO_WAIT_MS)
    press(page, "bring one back to NYC")
    page.get_by_text("A is back in NYC").wait_for(timeout=DEMO_WAIT_MS)
    press(page, "end, and count")
    page.get_by_role("heading", name="The figures at the end").wait_for(timeout=DEMO_WAIT_MS)
    demo.until("the page stays until Ctrl-C")
    assert page.locator("#verdict").inner_text() == "everything arrived once and in order"
    totals = next(line for line in demo.lines if line.startswith("all ")).split()
    shown = {row.locator("th").inner_text(): row.locator("td").inner_text().replace(",", "")
             for row in page.locator("#result tr").all()}
    assert [shown[name] for name in ("expected", "received", "lost", "duplicated", "out of order")] == totals[1:]
    assert (page.locator("[data-key=lost]").inner_text(), page.locator("[data-key=twice]").inner_text()) == ("0", "0")
    assert (watched.faults, watched.origins) == ([], {demo.url.partition("/#")[0]})
    assert demo.interrupt() == 0
    with pytest.raises(ProcessLookupError):
        os.kill(demo.process.pid, 0)
