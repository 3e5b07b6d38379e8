"""A copy of the project where a file may be another one for a while, and processes that run there within limits.

The working tree is never written to. What is started ends with its parent and cannot take more than it is given of
processor time and memory: a mutant may loop for ever, or keep all it sees.
"""
from __future__ import annotations

import importlib.util
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import attrs

from jgroups_py.system.child_processes import end_with_parent

ROOT = Path(__file__).parents[2]
FOLDERS = ("jgroups_py", "tests", "stacks", "benchmarks")
FILES = ("setup.cfg",)
MAX_MEMORY = 6 << 30
GRACE_S = 5
WALL_LIMIT_S = 1800.0                    # of work that waits instead of computing; nothing here comes near it
NEVER_COPIED = shutil.ignore_patterns("*.jsonl", "*.png", "*.svg")


@attrs.frozen
class Ended:
    """How a process ended. code: as of subprocess; over: which limit ended it, "" if none."""

    code: int
    output: str
    cpu_s: float
    over: str


class Workshop:
    """A temporary copy; used as a context manager, it is removed at the end."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="mutants-")
        self.root = Path(self._folder.name)
        for name in FOLDERS:
            shutil.copytree(ROOT / name, self.root / name, ignore=NEVER_COPIED)
        for name in FILES:
            shutil.copy2(ROOT / name, self.root / name)

    def __enter__(self) -> Workshop:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._folder.cleanup()

    def read(self, path: str) -> str:
        """A file as it is now."""
        return (self.root / path).read_text(encoding="utf-8")

    def put(self, path: str, source: str) -> None:
        """Write a source file. What was compiled from the old one goes: Python would take it if size and second of
        the last change are equal."""
        (self.root / path).write_text(source, encoding="utf-8")
        Path(importlib.util.cache_from_source(str(self.root / path))).unlink(missing_ok=True)

    @contextmanager
    def changed(self, path: str, source: str) -> Iterator[None]:
        """The file is another inside the block."""
        before = self.read(path)
        self.put(path, source)
        try:
            yield
        finally:
            self.put(path, before)

    def run(self, words: list[str], *, cpu_s: float, given: str = "") -> Ended:
        """Run Python on `words`, with `given` on stdin; its stdout, and its stderr behind that."""
        parent, limit = os.getpid(), max(1, round(cpu_s))

        def confine() -> None:
            end_with_parent(parent)
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + GRACE_S))
            resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as asked:
            asked.write(given)
            asked.seek(0)
            process = subprocess.Popen(
                [sys.executable, *words], cwd=self.root, env=self._environment(), stdin=asked, stdout=out,
                stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=confine)
            # A group of its own: what it started ends with it.
            timer = threading.Timer(WALL_LIMIT_S, end_group, (process.pid,))
            timer.start()
            try:
                _, status, usage = os.wait4(process.pid, 0)
            finally:
                over_wall = not timer.is_alive()
                timer.cancel()
                end_group(process.pid)
            process.returncode = code = os.waitstatus_to_exitcode(status)
            out.seek(0)
            output = out.read()
        used_s = usage.ru_utime + usage.ru_stime
        over = "cpu" if code == -signal.SIGXCPU or (code == -signal.SIGKILL and used_s >= limit) else \
            "wall" if code == -signal.SIGKILL and over_wall else ""
        return Ended(code, output, used_s, over)

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(self.root), "PYTHONHASHSEED": "0"}


def end_group(group: int) -> None:
    """Whatever is left of a process that was started here."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return
