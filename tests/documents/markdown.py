"""Reads the project's Markdown pages: their anchors, links, code blocks and the commands in them.

What a page may hold is written for authors in CONTRIBUTING.md ("Documents"); the tests beside this file hold it.
"""
from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import attrs

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[\w-]*)\n(?P<text>.*?)^ *```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,6} +(?P<text>.+?) *#*$", re.MULTILINE)
ANCHOR = re.compile(r'<a (?:id|name)="(?P<name>[^"]+)">')
LINK = re.compile(r"(?<!!)\[(?:[^\[\]]|\[[^\]]*\])*\]\((?P<target>[^)\s]+)\)")
INLINE = re.compile(r"`(?P<code>[^`\n]+)`")
SAVED = re.compile(r"`(?P<name>[\w./-]+\.\w+)`:?$")
NEEDS = re.compile(r"\*\*(?P<what>(?:Needs|Takes) [^*]+)\*\*")


@attrs.frozen
class Block:
    """A fenced block of a page.

    line: of its first line of text, from 1; before: the paragraph in front of it, on one line.
    """

    page: Path
    line: int
    language: str
    text: str
    before: str

    @property
    def saved_as(self) -> str | None:
        """The file that the reader saves it as: the paragraph in front ends in its name."""
        found = SAVED.search(self.before)
        return found["name"] if found else None

    @property
    def needs(self) -> str | None:
        """What it needs or takes, as the text in front of it states in bold: "Needs root"."""
        found = NEEDS.search(self.before)
        return found["what"] if found else None

    @property
    def place(self) -> str:
        """Where it stands, for messages."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@cache
def pages() -> tuple[Path, ...]:
    """All Markdown files of the project, as git knows them."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], cwd=ROOT,
                            capture_output=True, text=True, check=True).stdout.split("\n")
    return tuple(ROOT / name for name in sorted(listed) if name and (ROOT / name).exists())


def user_pages() -> list[Path]:
    """README.md and the pages under docs/: what is shown there is executed."""
    return [page for page in pages() if page == ROOT / "README.md" or ROOT / "docs" in page.parents]


def text_of(page: Path) -> str:
    """The text of a page."""
    return page.read_text(encoding="utf-8")


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = text_of(page)
    found = []
    for fence in FENCE.finditer(text):
        before = text[:fence.start()].rstrip("\n").rpartition("\n\n")[2]
        indent = len(fence["indent"])
        lines = [line[indent:] if not line[:indent].strip() else line for line in fence["text"].split("\n")]
        found.append(Block(page, text.count("\n", 0, fence.start()) + 2, fence["language"], "\n".join(lines),
                           " ".join(before.split())))
    return found


def prose(page: Path) -> str:
    """The text of a page with its fenced blocks blanked, line by line."""
    return FENCE.sub(lambda fence: "\n" * fence.group().count("\n"), text_of(page))


def anchors(page: Path) -> set[str]:
    """What a link to this page may name behind `#`, as GitHub makes them of headings."""
    found: dict[str, int] = {}
    names = set()
    for heading in HEADING.finditer(prose(page)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading["text"]).replace("`", "").replace("*", "")
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-")
        again = found.get(slug, 0)
        found[slug] = again + 1
        names.add(f"{slug}-{again}" if again else slug)
    return names | set(ANCHOR.findall(text_of(page)))


def links(page: Path) -> Iterator[tuple[int, str]]:
    """(line, target) of the links of a page."""
    for at, line in enumerate(prose(page).split("\n"), 1):
        for link in LINK.finditer(INLINE.sub("``", line) if "](" not in line else line):
            yield at, link["target"]


def commands(block: Block) -> list[tuple[str, list[str]]]:
    """(command, lines of output shown below it) of a console block; a command goes on behind a backslash."""
    found: list[tuple[str, list[str]]] = []
    goes_on = False
    for line in block.text.rstrip("\n").split("\n"):
        if goes_on:
            found[-1] = (f"{found[-1][0]}\n{line}", [])
        elif line.startswith("$ "):
            found.append((line[2:], []))
        elif found:
            found[-1][1].append(line)
        goes_on = line.endswith("\\") and (goes_on or line.startswith("$ "))
    return found


def inline_code(page: Path) -> Iterator[tuple[int, str]]:
    """(line, code) of the code spans in the prose of a page."""
    for at, line in enumerate(prose(page).split("\n"), 1):
        for span in INLINE.finditer(line):
            yield at, span["code"]
