"""Member processes of a command (demo, bench): started, told, heard, killed; none is left behind.

A worker module is run with its options as a JSON argument; commands go to its stdin, events come from its stdout, one
JSON object a line each.
"""
from __future__ import annotations

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import attrs

MAX_STDERR_LINES = 40
END_SECONDS = 3.0


@attrs.define(eq=False)
class Person:
    """One member process. `tag` names the incarnation: "A", then "A#2"; `site`: the group that it belongs to."""

    tag: str
    site: str
    process: subprocess.Popen[str]
    state: str = "starting"             # starting, up, killed, left, failed
    errors: list[str] = attrs.Factory(list)

    @property
    def name(self) -> str:
        """The logical name."""
        return self.tag.partition("#")[0]

    @property
    def up(self) -> bool:
        """Whether it takes part."""
        return self.state == "up"

    def tell(self, do: str, **fields: Any) -> None:
        """Send a command; a process that is gone is noticed elsewhere."""
        assert self.process.stdin is not None, "the process has a pipe for commands"
        try:
            self.process.stdin.write(json.dumps({"do": do, **fields}) + "\n")
            self.process.stdin.flush()
        except (BrokenPipeError, ValueError):
            self.errors.append(f"could not tell it to {do}: its input is closed")


P = TypeVar("P", bound=Person)


class Company(Generic[P]):
    """All processes of one command; their events arrive in one queue as (person, event)."""

    def __init__(self, worker: str, kind: type[P]) -> None:
        self.people: list[P] = []
        self.events: queue.SimpleQueue[tuple[P, dict[str, Any]]] = queue.SimpleQueue()
        self._worker = worker
        self._kind = kind

    def start(self, tag: str, site: str, options: dict[str, Any]) -> P:
        """Start one member."""
        with interrupted_later():
            process = subprocess.Popen(
                self.command(options),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                start_new_session=True)         # a Ctrl-C at the terminal reaches only us
            person = self._kind(tag, site, process)
            self.people.append(person)
        threading.Thread(target=self._listen, args=(person,), daemon=True).start()
        threading.Thread(target=self._complaints, args=(person,), daemon=True).start()
        return person

    def command(self, options: dict[str, Any]) -> list[str]:
        """The command line of a worker with these options."""
        return [sys.executable, "-m", self._worker, json.dumps(options)]

    def _listen(self, person: P) -> None:
        assert person.process.stdout is not None, "the process has a pipe for events"
        for line in person.process.stdout:
            try:
                self.events.put((person, json.loads(line)))
            except ValueError:
                self.events.put((person, {"event": "error", "message": f"not an event: {line.strip()}"}))
        self.events.put((person, {"event": "ended"}))

    def _complaints(self, person: P) -> None:
        assert person.process.stderr is not None, "the process has a pipe for complaints"
        for line in person.process.stderr:
            if len(person.errors) < MAX_STDERR_LINES:
                person.errors.append(line.rstrip())

    def kill(self, person: P) -> float:
        """SIGKILL; when it happened."""
        person.state = "killed"
        os.kill(person.process.pid, signal.SIGKILL)
        return time.time()

    def up(self, site: str | None = None) -> list[P]:
        """Who takes part, of one site or all."""
        return [person for person in self.people if person.up and site in (None, person.site)]

    def end(self) -> None:
        """End every process that still runs: ask, then kill."""
        running = [person for person in self.people if person.process.poll() is None]
        for person in running:
            if person.process.stdin is not None:
                try:
                    person.process.stdin.close()
                except OSError:
                    person.errors.append("its input was closed already")
        deadline = time.monotonic() + END_SECONDS
        for person in running:
            try:
                person.process.wait(max(0.05, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                person.process.kill()
                person.process.wait()


@contextmanager
def interrupted_later() -> Iterator[None]:
    """A Ctrl-C counts at the end of the block: a process that was started is known by then, so it can be ended."""
    if threading.current_thread() is not threading.main_thread():
        yield                                   # only the main thread is interrupted
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            signal.raise_signal(signal.SIGINT)


def free_ports(number: int) -> int:
    """The first of `number` neighbouring TCP ports of loopback that are free just now."""
    for _ in range(200):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            first = probe.getsockname()[1]
        if first + number < 65536 and all(_is_free(port) for port in range(first, first + number)):
            return int(first)
    raise OSError(f"no {number} neighbouring free ports on loopback")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_udp_port() -> int:
    """A UDP port that nobody uses just now, for IP multicast."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
