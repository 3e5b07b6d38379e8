"""Links between the project's pages lead to files and headings that exist, and every page under docs/ is reachable."""
from __future__ import annotations

from pathlib import Path

import pytest

from tests.documents.markdown import ROOT, anchors, blocks, links, pages, user_pages

OUTSIDE = ("http://", "https://", "mailto:")
LANGUAGES = {"python", "console", "text", "xml", "yaml", "mermaid", "diff"}
README_LINES = 160


def target_of(page: Path, target: str) -> tuple[Path, str]:
    """(file, anchor) that a relative link of a page means."""
    name, _, anchor = target.partition("#")
    return (page.parent / name).resolve() if name else page, anchor


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_what_exists(page: Path) -> None:
    wrong = []
    for line, target in links(page):
        if target.startswith(OUTSIDE):
            continue
        there, anchor = target_of(page, target)
        if not there.exists():
            wrong.append(f"{page.name}:{line}: no file {target}")
        elif anchor and (there.suffix != ".md" or anchor not in anchors(there)):
            wrong.append(f"{page.name}:{line}: no heading {target}")
    assert wrong == []


def test_every_page_of_the_documentation_is_reached_from_the_readme() -> None:
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        ahead = {target_of(page, target)[0] for _, target in links(page) if not target.startswith(OUTSIDE)}
        ahead |= {folder / "index.md" for folder in ahead if folder.is_dir()}
        waiting += [there for there in ahead if there.suffix == ".md" and there.exists() and there not in reached]
    assert [str(page.relative_to(ROOT)) for page in user_pages() if page not in reached] == []


def test_every_block_says_its_language() -> None:
    assert [block.place for page in user_pages() for block in blocks(page) if block.language not in LANGUAGES] == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split("\n")) <= README_LINES
