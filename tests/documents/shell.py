"""A shell in which the commands of one page run, in order, in a folder of its own."""
from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

PRIVATE = ["unshare", "--mount", "--net", "bash", "--norc", "-c",
           "mkdir -p /run/netns && mount -t tmpfs none /run/netns && ip link set lo up && exec bash --norc"]
"""A shell with networks of its own: what a page makes there vanishes with the shell."""

MARK = "end-of-command-4711"
NUMBER = re.compile(r"(?<![A-Za-z_])(?:[0-9a-f]{32}\b|[0-9a-f]{8}\b|\d[\d,.:]*\d|\d)(?:T?[\d:.]*\d)?")
GRACE_S = 10


class Shell:
    """bash; first on its PATH: `jgroups`, `python`, `pytest`, `mypy` of this environment and the `programs` given."""

    def __init__(self, folder: Path, root: Path, programs: Iterable[Path] = (), private: bool = False,
                 clone: bool = False) -> None:
        tools = folder / ".tools"
        tools.mkdir()
        for name, words in (("jgroups", "-P -m jgroups_py"), ("python", ""),
                            ("pytest", "-P -m pytest -p no:cacheprovider"), ("mypy", "-P -m mypy")):
            script = tools / name
            script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
            script.chmod(0o755)
        for program in programs:
            (tools / program.name).symlink_to(program)
        work = folder / "work"
        work.mkdir()
        self.folder = work
        if clone:
            copy_of(root, work)
        environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "COLUMNS": "100",
                       "PYTHONPATH": str(work if clone else root), "PYTHONUNBUFFERED": "1"}
        words = PRIVATE if private else ["bash", "--norc"]
        self.process = subprocess.Popen(words, cwd=work, env=environment, text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)

    def __enter__(self) -> Shell:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        """End the processes that commands left in the background: they share this shell's session."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, number)
                self.process.wait(GRACE_S)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()

    def run(self, command: str) -> tuple[int, list[str]]:
        """(exit code, lines of output) of a command; what it started with & goes on."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{{ {command}\n}} </dev/null\necho \"{MARK} $?\"\n")
        self.process.stdin.flush()
        lines = []
        for line in self.process.stdout:
            before, mark, code = line.partition(MARK)
            if mark:
                return int(code), [*lines, before] if before else lines
            lines.append(line.rstrip("\n"))
        raise AssertionError(f"the shell ended in {command!r}:\n" + "\n".join(lines))


def copy_of(root: Path, folder: Path) -> None:
    """Put the files of a repository into a folder, as they are now."""
    names = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True).stdout.split("\n")
    for name in names:
        if (root / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, folder / name)


def shape(line: str) -> str:
    """A line of a command's output with every number as `0` and every space as one: what does not change."""
    return " ".join(NUMBER.sub("0", line).split())


def fits(shown: str, printed: str) -> bool:
    """Whether a line is what is shown; `...` inside it stands for any text."""
    return re.fullmatch(".*".join(map(re.escape, shown.split("..."))), printed) is not None


def differs(shown: list[str], printed: list[str], exact: bool) -> str:
    """Why output is not what a page shows, "" if it is; a line `...` stands for any lines."""
    same = str.rstrip if exact else shape
    want, have = [same(line) for line in shown], [same(line) for line in printed]
    at = 0
    anywhere = False
    for index, line in enumerate(want):
        if line == "...":
            anywhere = True
            continue
        places = range(at, len(have)) if anywhere else range(at, min(at + 1, len(have)))
        found = next((place for place in places if fits(line, have[place])), None)
        if found is None:
            return f"line {index + 1} of what is shown is not printed: {shown[index]!r}"
        at, anywhere = found + 1, False
    if not anywhere and any(have[at:]):
        return f"printed, and not shown: {printed[at]!r}"
    return ""
