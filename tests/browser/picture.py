"""The picture at the head of the README, from a run: `python -m tests.browser.picture` writes docs/live-page.png.

Runs `jgroups demo --web` and opens its page in a Chromium; kills the relay of NYC, cuts the bridge until messages for
SFO are held back, mends it, and photographs the page when what was held has
crossed: some messages are under way at any time.
"""
from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from tests.browser.chromium import Watched, browser
from tests.browser.live_demo import DEMO_WAIT_MS, Demo

PICTURE = Path(__file__).parents[2] / "docs" / "live-page.png"
SIZE = {"width": 1100, "height": 785}
CUT_MS = 2_500
"""How long the bridge is cut: long enough to see the hold fill on the strip chart."""


def take(demo: Demo, path: Path) -> None:
    """Make the faults, and the picture."""
    with browser() as chromium:
        watched = Watched(chromium, viewport=SIZE, color_scheme="light")
        page = watched.page
        page.goto(demo.url)
        demo.until("all 6 members see 2 sites")
        page.locator(".road:not(.still)").first.wait_for(timeout=DEMO_WAIT_MS)
        page.wait_for_timeout(4 * CUT_MS)
        page.get_by_role("button", name="kill the relay of NYC").click()
        page.get_by_role("status").get_by_text("killed A").wait_for(timeout=DEMO_WAIT_MS)
        page.wait_for_timeout(2 * CUT_MS)
        page.get_by_role("button", name="cut the bridge").click()
        page.locator("[data-key=held]", has_text=re.compile("[1-9]")).wait_for(timeout=DEMO_WAIT_MS)
        page.wait_for_timeout(CUT_MS)
        page.get_by_role("button", name="mend the bridge").click()
        page.locator(".road:not(.still)").first.wait_for(timeout=DEMO_WAIT_MS)
        page.locator("[data-key=held]", has_text=re.compile(r"^\d$")).wait_for(timeout=DEMO_WAIT_MS)
        page.locator("[data-key=lost]", has_text=re.compile("^0$")).wait_for(timeout=DEMO_WAIT_MS)
        page.wait_for_timeout(CUT_MS)
        page.screenshot(path=path, type="png")
        assert not watched.faults, watched.faults


def main(words: list[str]) -> int:
    """The command."""
    path = Path(words[0]) if words else PICTURE
    with tempfile.TemporaryDirectory(prefix="picture-") as folder:
        demo = Demo(Path(folder) / "out")
        try:
            take(demo, path)
        finally:
            demo.interrupt()
    sys.stdout.write(f"{path}: {path.stat().st_size / 1000:.0f} KB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
