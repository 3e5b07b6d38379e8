"""Every command that a page names exists: `jgroups` takes its arguments, tests and modules are found, settings too.

This holds for commands inside the text, and for blocks that need what is not there and so are not run.
"""
from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from configparser import ConfigParser
from importlib.util import find_spec
from pathlib import Path

import pytest

from jgroups_py.cli import SUBCOMMANDS, build_parser
from tests.documents.generated import subparsers_of
from tests.documents.markdown import ROOT, blocks, commands, inline_code, pages, user_pages

PROGRAMS = ("jgroups", "python", "pytest", "tox", "./test", "./demo")
PLACEHOLDER = re.compile(r"\.\.\.|\bX\b|\bNAME\b|\|")
KNOWN_NEEDS = {"root", "two hosts", "Serf's agent", "a package index", "a minute", "some minutes", "half an hour",
               "the repository", "Spark's workers", "Aeron's media driver", "mosquitto's clients", "curl", "Prometheus"}


def named(page: Path) -> Iterator[tuple[str, str]]:
    """(place, command) of every command of a page."""
    for line, code in inline_code(page):
        yield f"{page.relative_to(ROOT)}:{line}", code
    for block in blocks(page):
        for command, _ in commands(block) if block.language == "console" else ():
            yield block.place, command


def words_of(command: str) -> list[str]:
    """The words of a command up to a comment, a pipe or a redirection, without settings in front; what another command
    prints, `$(...)`, is one word."""
    words = shlex.split(re.sub(r"\$\(.*?\)", "printed", command), comments=True)
    stop = next((at for at, word in enumerate(words) if word in ("|", ">", "<", "&", "&&", "2>&1", ";")), len(words))
    words = [word.rstrip(";") for word in words[:stop]]
    while words and re.match(r"^[A-Z_]+=", words[0]):
        words.pop(0)
    return words


def check_jgroups(words: list[str]) -> str:
    """Why `jgroups WORDS` is a usage error, "" if it is not."""
    if words and words[0] not in SUBCOMMANDS and not words[0].startswith("-"):
        return f"no subcommand {words[0]}"
    if len(words) < 2:
        return ""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stderr(printed), contextlib.redirect_stdout(io.StringIO()):
            build_parser(words[0]).parse_args(words)
    except SystemExit as end:
        reason = printed.getvalue().strip().rpartition("\n")[2] if end.code else ""
        return unknown_options(words) if re.search("required$|arguments are required", reason) else reason
    return ""


def unknown_options(words: list[str]) -> str:
    """The options that a command does not have; for a command that the text does not write out."""
    parser = subparsers_of(build_parser(words[0]))[words[0]]
    if children := subparsers_of(parser):
        parser = children[words[1]]
    known = {option for action in parser._actions for option in action.option_strings}
    return ", ".join(word for word in words if word.startswith("-") and word not in known)


def check_pytest(words: list[str]) -> str:
    """Why `pytest WORDS` finds no test, "" if the paths exist and one of the names stands in their tests."""
    paths = [ROOT / word.partition("::")[0] for word in words if word.startswith("tests")]
    if missing := [str(path.relative_to(ROOT)) for path in paths if not path.exists()]:
        return f"no {missing[0]}"
    if "-k" in words and paths:
        wanted = [word.lower() for word in re.findall(r"\w+", words[words.index("-k") + 1])
                  if word not in ("or", "and", "not")]
        files = [file for path in paths for file in ([path] if path.is_file() else sorted(path.rglob("*")))]
        text = " ".join(f"{file.name} {file.read_text(errors='replace') if file.suffix == '.py' else ''}"
                        for file in files if file.is_file()).lower()
        if absent := [word for word in wanted if word not in text]:
            return f"no test has {absent[0]!r} in its name"
    return ""


def check_command(command: str) -> str:
    """Why a command cannot be given, "" if it can."""
    words = words_of(command)
    if words[:1] == ["chrt"]:
        words = words[3:]
    match words:
        case ["jgroups", *rest]:
            return check_jgroups(rest)
        case ["./demo", *rest]:
            return check_jgroups(["demo", *rest])
        case ["pytest", *rest]:
            return check_pytest(rest)
        case ["tox", "-e", name, *_]:
            settings = ConfigParser()
            settings.read(ROOT / "tox.ini")
            return "" if f"testenv:{name}" in settings else f"no tox environment {name}"
        case ["python", "-m", module, *_] if module.partition(".")[0] in ("jgroups_py", "tests", "benchmarks"):
            return "" if find_spec(module) else f"no module {module}"
        case ["python", script, *_] if script.startswith(("examples/", "tests/")):
            return "" if (ROOT / script).exists() else f"no {script}"
    return ""


def test_commands_that_pages_name_can_be_given() -> None:
    wrong = []
    for page in user_pages():
        for place, command in named(page):
            if command.split(" ")[0] in (*PROGRAMS, "chrt") and not PLACEHOLDER.search(command):
                reason = check_command(command)
                wrong += [f"{place}: `{command}`: {reason}"] if reason else []
    assert wrong == []


def test_a_command_that_does_not_exist_is_found() -> None:
    assert check_command("jgroups sim --profile nothing") != ""
    assert check_command("jgroups nothing") != ""
    assert check_command("jgroups member --nothing DIR") != ""
    assert check_command("tox -e nothing") != ""
    assert check_command("pytest tests/nothing.py") != ""
    assert check_command("pytest tests/scenarios -k nothing_like_this") != ""
    assert check_command("python -m tests.nothing") != ""
    assert check_command("jgroups sim --profile relay --seeds 0:300") == ""


def test_pages_wait_for_a_line_of_a_file_that_may_not_be_there_yet() -> None:
    """A shell may look for the file before the program in the background has made it: grep is told not to complain."""
    waiting = [f"{block.place}: {command}" for page in user_pages() for block in blocks(page)
               if block.language == "console" for command, _ in commands(block)
               if re.search(r"until grep (?!-qs )", command)]
    assert waiting == []


def test_what_a_block_needs_is_stated_in_known_words() -> None:
    needs = [(block.place, block.needs) for page in user_pages() for block in blocks(page) if block.needs]
    assert [place for place, what in needs if not any(known in str(what) for known in KNOWN_NEEDS)] == []


def test_scenarios_that_pages_name_exist() -> None:
    for page in pages():
        for line, code in inline_code(page):
            found = re.fullmatch(r"scenario (\w+)", code)
            if found and found[1] != "X":
                assert (ROOT / f"tests/scenarios/{found[1]}.txt").exists(), f"{page.name}:{line}: {code}"


@pytest.mark.parametrize("name", sorted(SUBCOMMANDS))
def test_every_subcommand_is_in_the_reference(name: str) -> None:
    assert f"## jgroups {name}\n" in (ROOT / "docs/reference/command-line.md").read_text(encoding="utf-8")
