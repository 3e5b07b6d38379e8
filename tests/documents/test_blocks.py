"""What README.md and the pages under docs/ show is run, page by page, top to bottom, and prints what they show.

Python blocks print exactly what the block below them shows; of commands the numbers may differ.
"""
from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.documents.markdown import ROOT, Block, blocks, commands, user_pages
from tests.documents.shell import Shell, differs
from tests.integration.serf_agent import serf_path

REPOSITORY, ROOT_USER, SERF = "Needs the repository", "Needs root", "Needs Serf's agent"
MOSQUITTO, CURL = "Needs mosquitto's clients", "Needs curl"
STDERR = "stderr.txt"
"""Where the log of a Python block goes; pages show what it prints."""


def can_run(block: Block) -> bool:
    """Whether what a block needs is here; what needs a network or long runs is not run."""
    if block.needs is None:
        return True
    here = {REPOSITORY: True, ROOT_USER: may_unshare(), SERF: serf_path() is not None,
            MOSQUITTO: shutil.which("mosquitto_pub") is not None, CURL: shutil.which("curl") is not None}
    return here.get(block.needs, False)


@cache
def may_unshare() -> bool:
    """Whether a shell can have networks of its own."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "ip"))):
        return False
    return subprocess.run(["unshare", "--mount", "--net", "true"], capture_output=True).returncode == 0


def runs_something(page: Path) -> bool:
    """Whether anything on this page can be run here."""
    return any(block.language in ("python", "console") and can_run(block) for block in blocks(page))


def shell_for(page: Path, folder: Path) -> Shell:
    """A shell for a page, with networks of its own where the system allows it: pages use fixed ports."""
    serf = serf_path()
    needs = {block.needs for block in blocks(page)}
    return Shell(folder, ROOT, [] if serf is None else [serf], may_unshare(), clone=REPOSITORY in needs)


def steps(page: Path) -> list[tuple[Block, list[str] | None]]:
    """(block, output that the page shows below it, None if it shows none) of all blocks but outputs."""
    found: list[tuple[Block, list[str] | None]] = []
    for block in blocks(page):
        if block.language == "text" and found and found[-1][0].language == "python" and found[-1][1] is None:
            if block.before.endswith("prints:"):
                found[-1] = (found[-1][0], block.text.rstrip("\n").split("\n"))
        elif block.language != "text" or block.saved_as:
            found.append((block, None))
    return found


def perform(shell: Shell, block: Block, output: list[str] | None) -> None:
    """Do with a block what the page asks its reader to do."""
    if block.saved_as is not None:
        path = shell.folder / block.saved_as
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")
    elif block.language == "python":
        script = shell.folder / f"block{block.line}.py"
        script.write_text(block.text, encoding="utf-8")
        check(block, f"python {script.name} 2>{STDERR}", output, shell, exact=True)
    elif block.language == "console":
        for command, shown in commands(block):
            check(block, command, shown or None, shell, exact=False)


def check(block: Block, command: str, shown: list[str] | None, shell: Shell, exact: bool) -> None:
    """Run a command; it exits with 0 and prints what is shown."""
    code, printed = shell.run(command)
    printed_so_far = f"{block.place}: $ {command}\n" + "\n".join(printed)
    if exact:
        printed_so_far += (shell.folder / STDERR).read_text(errors="replace")
    assert code == 0, f"exit code {code}\n{printed_so_far}"
    if shown is not None:
        wrong = differs(shown, printed, exact)
        assert not wrong, f"{wrong}\n{printed_so_far}"


LONG_PAGES = ("find-a-lost-message.md", "recording.md")
"""On Spark too, but less: half a minute of processor time each."""


def as_parameter(page: Path) -> object:
    """A page as a parameter; the one on Spark's jobs takes minutes and runs with the other long tests of Spark."""
    marks = [pytest.mark.spark] if page.name == "pipeline.md" else [pytest.mark.long] * (page.name in LONG_PAGES)
    return pytest.param(page, id=str(page.relative_to(ROOT)), marks=marks)


@pytest.mark.real
@pytest.mark.parametrize("page", [as_parameter(page) for page in user_pages() if runs_something(page)])
def test_a_page_runs_from_top_to_bottom(page: Path, tmp_path: Path) -> None:
    with shell_for(page, tmp_path) as shell:
        for block, output in steps(page):
            if can_run(block):
                perform(shell, block, output)


def test_a_line_that_is_shown_and_not_printed_is_found() -> None:
    assert differs(["a 1", "...", "b"], ["a 2", "x", "y", "b"], exact=False) == ""
    assert differs(["a (b, ...)"], ["a (b, c)"], exact=True) == ""
    assert "'b'" in differs(["a 1", "...", "b"], ["a 2", "x"], exact=False)
    assert "'a 1'" in differs(["a 1"], ["a 2"], exact=True)
    assert "'more'" in differs(["a"], ["a", "more"], exact=True)
