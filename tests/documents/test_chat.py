"""The chat that pages show runs in two processes, and each terminal shows what the page has."""
from __future__ import annotations

import os
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from tests.documents.markdown import ROOT, Block, blocks, user_pages

CEILING_S = 60


def chats() -> list[tuple[Block, Block]]:
    """(program, what the terminal of B shows) on every page that has the chat."""
    found = []
    for page in user_pages():
        there = blocks(page)
        found += [(block, after) for block, after in pairwise(there) if block.saved_as == "chat.py"]
    return found


class Terminal:
    """A chat in a process; `lines` are what it has printed."""

    def __init__(self, script: Path, name: str) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.output = script.with_name(f"{name}.txt")
        with self.output.open("w") as file:
            self.process = subprocess.Popen([sys.executable, str(script), name], env=environment, text=True,
                                            stdin=subprocess.PIPE, stdout=file)

    def type(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def wait_for(self, *alternatives: str) -> None:
        deadline = time.monotonic() + CEILING_S
        while not set(alternatives) & set(self.lines()):
            assert time.monotonic() < deadline, f"{' or '.join(alternatives)!r} not in {self.lines()}"
            time.sleep(0.05)

    def lines(self) -> list[str]:
        return self.output.read_text().split("\n")[:-1]

    def close(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(CEILING_S)


def test_pages_have_the_chat() -> None:
    assert len(chats()) == 2


@pytest.mark.real
@pytest.mark.parametrize(("program", "shown"), chats(), ids=lambda block: block.page.stem)
def test_the_chat_prints_what_the_page_shows(program: Block, shown: Block, tmp_path: Path) -> None:
    script = tmp_path / "chat.py"
    script.write_text(program.text)
    members, *lines = shown.text.rstrip("\n").split("\n")
    a = Terminal(script, "A")
    a.wait_for("members: A")
    b = Terminal(script, "B")
    terminals = {"A": a, "B": b}
    merged = "members: B, A"                # B began alone, as on a busy machine A did not answer in time
    for terminal in terminals.values():
        terminal.wait_for(members, merged)
    for line in lines:
        name, _, text = line.partition(": ")
        terminals[name].type(text)
        for terminal in terminals.values():
            terminal.wait_for(line)
    shown_by_b = b.lines()
    assert shown_by_b[-len(lines) - 1:] in ([members, *lines], [merged, *lines])
    assert shown_by_b[-len(lines) - 1] == members or shown_by_b[0] == "members: B", shown_by_b
    assert [terminal.close() for terminal in (b, a)] == [0, 0]
