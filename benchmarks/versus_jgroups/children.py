"""Member processes: started, told, heard, measured, ended by their own ids; none is left behind."""
from __future__ import annotations

import json
import os
import queue
import re
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Self

ENDING_S = 4.0
STDERR_LINES = 15
MAX_LAST_WORDS = 600                # characters of them in a remark
ANYTHING, TROUBLE = re.compile(r"\w"), re.compile(r"Exception|Error|ERROR|SEVERE|Traceback")
ROOT = Path(__file__).parents[2]


class Stalled(Exception):
    """What was waited for did not come in time, or a member failed."""


def fits(found: dict[str, Any], event: str, wanted: dict[str, object]) -> bool:
    """Whether an event is the one that is waited for.

    >>> fits({"event": "flooded", "trial": 3}, "flooded", {"trial": 4})
    False
    """
    return found["event"] == event and all(found.get(name) == value for name, value in wanted.items())


class Child:
    """One member."""

    def __init__(self, name: str, command: Sequence[str], folder: Path) -> None:
        self.name = name
        self.members = 0                                    # of the view it is in
        self.errors: deque[str] = deque(maxlen=STDERR_LINES)
        self._events: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._passed: list[dict[str, Any]] = []             # events that came while others were waited for
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)},
            start_new_session=True)                         # a Ctrl-C at the terminal reaches only us
        for listen in (self._hear, self._overhear):
            threading.Thread(target=listen, daemon=True).start()

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def _hear(self) -> None:
        assert self._process.stdout is not None, "the process has a pipe for events"
        for line in self._process.stdout:
            try:
                self._events.put(json.loads(line))
            except ValueError:
                self.errors.append(line.rstrip())
        self._events.put({"event": "ended"})

    def _overhear(self) -> None:
        assert self._process.stderr is not None, "the process has a pipe for complaints"
        for line in self._process.stderr:
            self.errors.append(line.rstrip())

    def say(self, *words: object) -> None:
        """Give it a command."""
        assert self._process.stdin is not None, "the process has a pipe for commands"
        try:
            self._process.stdin.write(" ".join(map(str, words)) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise Stalled(f"{self.name} is gone{self._last_words()}") from None

    def wait(self, event: str, deadline: float, **wanted: object) -> dict[str, Any]:
        """The next such event with these fields, until `deadline` (monotonic). It may have come while another one was
        waited for.

        Raises:
            Stalled: it did not come, or the member told of an error or ended.
        """
        for passed in self._passed:
            if fits(passed, event, wanted):
                self._passed.remove(passed)
                return passed
        while not fits(found := self._next(event, deadline), event, wanted):
            self._passed.append(found)
        return found

    def _next(self, event: str, deadline: float) -> dict[str, Any]:
        try:
            found = self._events.get(timeout=max(0.001, deadline - monotonic()))
        except queue.Empty:
            raise Stalled(f"{self.name}: no {event} in time{self._last_words(TROUBLE)}") from None
        if found["event"] == "view":
            self.members = found["members"]
        elif found["event"] in ("error", "ended"):
            raise Stalled(f"{self.name}: {found.get('message', 'the process ended')}{self._last_words()}")
        return found

    def _last_words(self, like: re.Pattern[str] = ANYTHING) -> str:
        said = [line for line in self.errors if like.search(line)]
        return "; it said: " + " | ".join(said)[-MAX_LAST_WORDS:] if said else ""

    def cpu_s(self) -> float:
        """Processor seconds used so far, by all its threads."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        user, system = int(fields[11]), int(fields[12])     # fields 14 and 15 of proc(5); the first two are cut off
        return (user + system) / os.sysconf("SC_CLK_TCK")

    def rss_mb(self) -> float:
        """Resident memory now."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def kill(self) -> None:
        """SIGKILL."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def dismiss(self) -> None:
        """Ask it to end."""
        if self._process.stdin is not None:
            try:
                self._process.stdin.close()
            except OSError:
                return

    def end(self, deadline: float) -> None:
        """See it end, or end it."""
        try:
            self._process.wait(max(0.05, deadline - monotonic()))
        except subprocess.TimeoutExpired:
            self.kill()


class Crew:
    """Members that are started together and end together, whatever happens."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._children: list[Child] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.end()

    def start(self, name: str, command: Sequence[str]) -> Child:
        """One more member."""
        child = Child(name, command, self._folder)
        self._children.append(child)
        return child

    def end(self) -> None:
        """End all that still run: ask, then kill."""
        running = [child for child in self._children if child.running]
        for child in running:
            child.dismiss()
        deadline = monotonic() + ENDING_S
        for child in running:
            child.end(deadline)
        self._children.clear()
