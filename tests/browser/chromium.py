"""A Chromium for tests: that of this machine, or Debian's package, which root installs. Playwright drives it.

    python -m tests.browser.chromium        # gets it, prints where it is
"""
from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.integration.serf_agent import run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NAMES = ("chromium", "chromium-browser", "google-chrome")
HOW_TO_GET_IT = "a Chromium is needed: apt-get install chromium, and pip install 'jgroups_py[browser]' for Playwright"


def ensure() -> str:
    """The path of a Chromium; as root it is installed if there is none.

    Raises:
        RuntimeError: there is none; the text says how to get it.
    """
    if found := next(filter(None, map(shutil.which, NAMES)), None):
        return found
    if os.geteuid() == 0 and shutil.which("apt-get"):
        try:
            run(["apt-get", "-qq", "update"], {})
            run(["apt-get", "-qq", "install", "--yes", "--no-install-recommends", "chromium"], {})
        except RuntimeError as error:
            raise RuntimeError(f"{error}\n{HOW_TO_GET_IT}") from None
    if found := next(filter(None, map(shutil.which, NAMES)), None):
        return found
    raise RuntimeError(HOW_TO_GET_IT)


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser without a window.

    Raises:
        RuntimeError: Chromium or Playwright is missing.
    """
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise RuntimeError(HOW_TO_GET_IT) from None
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=ensure(), args=["--no-sandbox"])
        try:
            yield made
        finally:
            made.close()


class Watched:
    """A page, and what it did that it must not: errors, refusals of its policy, requests to other origins."""

    def __init__(self, browser: Browser, **options: Any) -> None:
        self.page: Page = browser.new_context(**options).new_page()
        self.faults: list[str] = []
        self.origins: set[str] = set()
        self.page.on("console", lambda message: self.faults.append(message.text) if message.type == "error" else None)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("request", lambda request: self.origins.add("/".join(request.url.split("/")[:3])))
        self.page.on("dialog", lambda dialog: (self.faults.append(f"dialog: {dialog.message}"), dialog.dismiss()))


if __name__ == "__main__":
    print(ensure())  # noqa: T201
