"""The documentation as a site: built without a warning or a network; nothing from outside, no dead link."""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import jgroups_py

ROOT = Path(__file__).parents[2]
LOADS = {"script": ("src",), "img": ("src", "srcset"), "source": ("src", "srcset"), "iframe": ("src",),
         "object": ("data",), "embed": ("src",), "video": ("src", "poster"), "audio": ("src",), "image": ("href",)}
LINKS_THAT_LOAD = {"stylesheet", "icon", "preload", "prefetch", "modulepreload", "preconnect", "dns-prefetch"}
NO_NETWORK = ["unshare", "--net", "--map-root-user"]

pytestmark = pytest.mark.site


class Page(HTMLParser):
    """What a page of HTML loads, where it links to, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors.update(given[name] for name in ("id", "name") if name in given)
        self.loads += [given[name] for name in LOADS.get(tag, ()) if name in given]
        if tag == "link" and LINKS_THAT_LOAD & set(given.get("rel", "").split()):
            self.loads.append(given["href"])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; warnings are errors. Where a network can be taken away from the build, it is."""
    folder = tmp_path_factory.mktemp("site")
    alone = shutil.which("unshare") and subprocess.run([*NO_NETWORK, "true"], capture_output=True).returncode == 0
    done = subprocess.run([*(NO_NETWORK if alone else []), sys.executable, "-m", "sphinx", "-W", "-n", "--keep-going",
                           "-q", "-b", "html", "-c", "docs", "-d", str(folder / "trees"), ".", str(folder / "html")],
                          cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"})
    assert done.returncode == 0, done.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    """The pages by their paths."""
    return {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}


def outside(address: str) -> bool:
    """Whether a browser asks another host for it."""
    parts = urlsplit(address)
    return bool(parts.netloc) or parts.scheme not in ("", "data")


def test_no_page_loads_a_script_a_font_a_style_or_a_picture_from_outside(pages: dict[Path, Page], site: Path) -> None:
    assert [f"{path.name}: {load}" for path, page in pages.items() for load in page.loads if outside(load)] == []
    styles = list(site.rglob("*.css"))
    assert styles
    wrong = [style.name for style in styles for text in [style.read_text(encoding="utf-8")]
             if any(f"{start}{quote}{host}" in text for start in ("url(", "@import ") for quote in ("", "'", '"')
                    for host in ("http:", "https:", "//"))]
    assert wrong == []


def test_no_link_of_a_page_leads_nowhere(pages: dict[Path, Page], site: Path) -> None:
    dead = []
    for path, page in pages.items():
        for link in page.links:
            if outside(link):
                continue
            name, _, anchor = link.partition("#")
            there = (path.parent / unquote(urlsplit(name).path)).resolve() if name else path
            if not there.is_file() or (anchor and there in pages and unquote(anchor) not in pages[there].anchors):
                dead.append(f"{path.relative_to(site)}: {link}")
    assert dead == []


def test_every_page_of_docs_and_every_public_name_is_there(pages: dict[Path, Page], site: Path) -> None:
    written = {path.relative_to(ROOT).with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert written <= {path.relative_to(site) for path in pages}
    names = {f"jgroups_py.{name}" for name in jgroups_py.__all__ if isinstance(getattr(jgroups_py, name), type)}
    assert len(names) > 20
    assert names <= pages[site / "docs" / "api.html"].anchors


def test_every_page_of_docs_is_in_the_contents(pages: dict[Path, Page], site: Path) -> None:
    first = pages[site / "docs" / "index.html"]
    linked = {(site / "docs" / link.partition("#")[0]).resolve() for link in first.links if not outside(link)}
    assert [str(path) for path in pages if path.is_relative_to(site / "docs") and path not in linked
            and path.name != "index.html"] == []
