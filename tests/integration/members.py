"""Drives `jgroups member` processes: commands in, events out; a failure's message has all that they printed."""
from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from time import monotonic, sleep
from types import TracebackType
from typing import Any, Self

from jgroups_py.system.free_ports import free_range

Event = dict[str, Any]
STARTING_SECONDS = 120.0                   # ceilings, for a machine that is busy with other things
WAITING_SECONDS = 120.0
LEAVING_SECONDS = 60.0
POLL_SECONDS = 0.1
SHOWN_EVENTS = 30
SHOWN_STDERR = 4000


class Member:
    """One process. `events` grows as it prints; `wait` looks at the events since the mark.

    sources: where its package lies, None: this one. prefix: a command that runs the one given to it.
    """

    def __init__(
        self, name: str, stack: str, cluster: str, properties: dict[str, object], options: Iterable[str] = (),
        sources: Path | None = None, prefix: Iterable[str] = (),
    ) -> None:
        self.name = name
        self.events: list[Event] = []
        self.changed = threading.Condition()
        self.errors = ""
        command = [*prefix, sys.executable, "-m", "jgroups_py", "member", "--stack", stack, "--cluster", cluster,
                   "--name", name, *options]
        for key, value in properties.items():
            command += ["-p", f"{key}={value}"]
        environment = None if sources is None else {**os.environ, "PYTHONPATH": str(sources)}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, bufsize=1, cwd=sources, env=environment)
        self.readers = [threading.Thread(target=self._read_events, daemon=True),
                        threading.Thread(target=self._read_errors, daemon=True)]
        for reader in self.readers:
            reader.start()

    # --- its output -------------------------------------------------------------------------------------------------

    def _read_events(self) -> None:
        assert self.process.stdout is not None, "opened as a pipe"
        for line in self.process.stdout:
            try:
                event = json.loads(line)
            except ValueError:
                event = {"event": "garbage", "line": line}
            event["at"] = monotonic()
            with self.changed:
                self.events.append(event)
                self.changed.notify_all()

    def _read_errors(self) -> None:
        assert self.process.stderr is not None, "opened as a pipe"
        for line in self.process.stderr:
            self.errors += line

    def mark(self) -> int:
        """Where the next event will stand; give it to `wait`."""
        return len(self.events)

    def wait(
        self, holds: Callable[[Event], object], what: str, since: int = 0, timeout: float = WAITING_SECONDS,
    ) -> Event:
        """The first event from `since` on for which `holds` is true."""
        until = monotonic() + timeout
        at = since
        with self.changed:
            while True:
                for event in self.events[at:]:
                    if holds(event):
                        return event
                at = len(self.events)
                left = until - monotonic()
                if left <= 0 or not self.changed.wait(min(left, 0.5)):
                    assert monotonic() < until, f"no {what} within {timeout:g} s\n{self.report()}"
                    assert self.process.poll() is None or len(self.events) > at, (
                        f"no {what}: the process has ended with {self.process.poll()}\n{self.report()}")

    def view_of(self, names: Iterable[str], since: int = 0, timeout: float = WAITING_SECONDS) -> Event:
        """The first view with exactly these members."""
        wanted = sorted(names)
        return self.wait(lambda event: event["event"] == "view" and sorted(event["members"]) == wanted,
                         f"view of {' '.join(wanted)}", since, timeout)

    def last_view(self) -> list[str]:
        """The members of the last view, in order."""
        return next((event["members"] for event in reversed(self.events) if event["event"] == "view"), [])

    def ready(self) -> Event:
        """Its `ready` event."""
        return self.wait(lambda event: event["event"] == "ready", "ready event", 0, STARTING_SECONDS)

    def stats(self, timeout: float = WAITING_SECONDS) -> Event:
        """Its figures now."""
        since = self.mark()
        self.command("stats")
        return self.wait(lambda event: event["event"] == "stats", "stats", since, timeout)

    def received_all(self, expected: dict[str, int], timeout: float = WAITING_SECONDS) -> Event:
        """Wait until `next` has reached the expected number for each sender; the stats then."""
        until = monotonic() + timeout
        while True:
            stats = self.stats()
            received = stats["received"]
            if all(received.get(name, {}).get("next", 0) >= number for name, number in expected.items()):
                return stats
            assert monotonic() < until, f"not all of {expected} arrived within {timeout:g} s: {stats}\n{self.report()}"
            sleep(POLL_SECONDS)

    def report(self) -> str:
        """Its last events and its stderr, for the message of a failure."""
        events = "\n".join(json.dumps(event) for event in self.events[-SHOWN_EVENTS:])
        return f"--- {self.name}, process {self.process.pid}:\n{events}\n{self.errors[-SHOWN_STDERR:]}"

    # --- what is done to it -----------------------------------------------------------------------------------------

    def command(self, command: str) -> None:
        """Write a line to its stdin."""
        assert self.process.stdin is not None, "opened as a pipe"
        try:
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()
        except OSError:
            raise AssertionError(f"{self.name} takes no commands any more\n{self.report()}") from None

    def signal(self, number: int) -> None:
        """SIGSTOP and the like."""
        self.process.send_signal(number)

    def kill(self) -> float:
        """SIGKILL; when it was sent."""
        at = monotonic()
        self.process.kill()
        return at

    def leave(self) -> int:
        """Leave gracefully; the exit code."""
        self.command("leave")
        return self.process.wait(LEAVING_SECONDS)

    def close(self) -> None:
        """Whatever state it is in, end it."""
        if self.process.poll() is None:
            with contextlib.suppress(OSError):
                os.kill(self.process.pid, signal.SIGCONT)
            self.process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(LEAVING_SECONDS)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


class Group:
    """Processes of one cluster; all of them end with it."""

    def __init__(self, stack: str, cluster: str = "test", **properties: object) -> None:
        self.stack = stack
        self.cluster = cluster
        self.properties = {**free_ports(stack), **properties}
        self.members: dict[str, Member] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        for member in self.members.values():
            member.close()

    def __getitem__(self, name: str) -> Member:
        return self.members[name]

    def spawn(
        self, name: str, options: Iterable[str] = (), sources: Path | None = None, **properties: object,
    ) -> Member:
        """Start a process, with further options of `jgroups member`; do not wait for it. sources: as in Member."""
        properties = {**self.properties, **properties}
        member = self.members[name] = Member(name, self.stack, self.cluster, properties, options, sources)
        return member

    def start(self, names: str, timeout: float = STARTING_SECONDS) -> list[Member]:
        """Start one process after the other (a word a name) and wait for the view of all."""
        started = []
        for name in names.split():
            started.append(self.spawn(name))
            started[-1].ready()
        self.settle(list(self.members), timeout)
        return started

    def settle(self, names: Iterable[str], timeout: float = WAITING_SECONDS, since: int = 0) -> None:
        """Wait until all of `names` have a view of exactly them."""
        wanted = list(names)
        for name in wanted:
            self.members[name].view_of(wanted, since, timeout)

    def report(self) -> str:
        """The reports of all of them."""
        return "\n".join(member.report() for member in self.members.values())


def free_ports(stack: str) -> dict[str, object]:
    """Properties that keep a test's group apart from all others on this machine."""
    if Path(stack).stem == "tcp":
        first = free_range(40)
        return {"bind_port": first, "port_range": 39, "initial_hosts": f"127.0.0.1[{first}]"}
    return {"mcast_port": free_range()}
