"""The member processes of a benchmark: they are started, get commands, and their events are awaited."""
from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterable
from typing import Any, Self

import attrs

from jgroups_py.cli import process_group
from jgroups_py.cli.process_group import ProcessGroup
from jgroups_py.config.load import load
from jgroups_py.model.errors import ConfigError
from jgroups_py.system.free_ports import free_range

WORKER = "jgroups_py.cli.bench.worker"
START_TIMEOUT_S = 60.0
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class BenchError(Exception):
    """The benchmark could not be carried out."""


@attrs.define(eq=False)
class BenchMember(process_group.WorkerProcess):
    """One member and its latest event of each kind."""

    latest: dict[str, dict[str, Any]] = attrs.Factory(dict)


class BenchGroup:
    """The members of one benchmark. A context manager: leaving it ends all processes."""

    def __init__(self) -> None:
        self.processes: ProcessGroup[BenchMember] = ProcessGroup(WORKER, BenchMember)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.processes.end()

    @property
    def members(self) -> list[BenchMember]:
        """The members that are connected."""
        return [member for member in self.processes.workers if member.state != "killed"]

    def start(self, tag: str, site: str, **options: Any) -> BenchMember:
        """Start one process; it is not connected yet."""
        return self.processes.start(tag, site, {"name": tag, **options})

    def connect(self, members: Iterable[BenchMember]) -> None:
        """Connect the members; the first one first, so that it is coordinator."""
        joining = list(members)
        self.wait("all processes started", joining, "loaded", START_TIMEOUT_S)
        for part in (joining[:1], joining[1:]):
            self.command(part, "connect")
            self.wait("all members joined", part, "ready", START_TIMEOUT_S)
        self.wait_until("every member sees all others", START_TIMEOUT_S, lambda: all(
            len(member.latest.get("view", {}).get("members", ())) == len(joining) for member in joining))

    def command(self, members: Iterable[BenchMember], do: str, **fields: Any) -> None:
        """Send a command to some members."""
        for member in members:
            member.command(do, **fields)

    def wait(self, what: str, members: Iterable[BenchMember], event: str, timeout: float) -> list[dict[str, Any]]:
        """Wait until each member sent `event` since it was last waited for; returns these events."""
        awaited = list(members)
        self.wait_until(what, timeout, lambda: all(event in member.latest for member in awaited))
        return [member.latest.pop(event) for member in awaited]

    def wait_until(self, what: str, timeout: float, holds: Callable[[], bool]) -> None:
        """Process events of the members until `holds()`.

        Raises:
            BenchError: it does not hold in time, or a member failed.
        """
        until = time.monotonic() + timeout
        while not holds():
            try:
                member, event = self.processes.events.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                raise BenchError(f"waited {timeout:g} s for this: {what}{self._stderr()}") from None
            self._take(member, event)

    def _take(self, member: BenchMember, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "error":
            raise BenchError(f"member {member.tag}: {event['message']}")
        if kind == "ended" and member.state != "killed":
            raise BenchError(f"member {member.tag} ended{self._stderr()}")
        member.latest[kind] = event

    def _stderr(self) -> str:
        lines = [f"{member.tag}: {line}" for member in self.processes.workers for line in member.errors[-5:]]
        return "\n  " + "\n  ".join(lines) if lines else ""


def letters(number: int, first: int = 0) -> list[str]:
    """Names for `number` members: A, B, ...; beyond Z with numbers."""
    return [LETTERS[at] if at < len(LETTERS) else f"M{at}" for at in range(first, first + number)]


def properties_for(stack: str, members: int, given: dict[str, str]) -> dict[str, str]:
    """The properties for the stack file: the given ones, and free ports where the file has variables for them.

    Raises:
        ConfigError: of the stack file or the given properties.
    """
    load(stack, given)
    found = dict(given)
    port, ports = free_range(members + 1), members
    for group in ({"mcast_port": str(free_range())},
                  {"bind_port": str(port), "port_range": str(ports), "initial_hosts": f"127.0.0.1[{port}]"}):
        if not any(name in given for name in group):
            try:
                load(stack, {**found, **group})
            except ConfigError:
                continue                                     # the stack file does not use these variables
            found.update(group)
    return found
