"""The processes of a benchmark, and waiting for what they tell."""
from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterable
from typing import Any, Self

import attrs

from jgroups_py.cli import company
from jgroups_py.cli.company import Company, free_ports, free_udp_port
from jgroups_py.config.load import load
from jgroups_py.errors import ConfigError

WORKER = "jgroups_py.cli.bench.worker"
START_TIMEOUT_S = 60.0
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class BenchError(Exception):
    """The benchmark could not be carried out."""


@attrs.define(eq=False)
class Member(company.Person):
    """One member and its latest event of each kind."""

    said: dict[str, dict[str, Any]] = attrs.Factory(dict)


class Crew:
    """The members of one benchmark. A context manager: leaving it ends all processes."""

    def __init__(self) -> None:
        self.company: Company[Member] = Company(WORKER, Member)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.company.end()

    @property
    def members(self) -> list[Member]:
        """Who takes part."""
        return [member for member in self.company.people if member.state != "killed"]

    def start(self, tag: str, site: str, **options: Any) -> Member:
        """Start one process; it is not connected yet."""
        return self.company.start(tag, site, {"name": tag, **options})

    def connect(self, members: Iterable[Member]) -> None:
        """Let them join; the first one first, so that it is coordinator."""
        everybody = list(members)
        self.wait("all processes started", everybody, "loaded", START_TIMEOUT_S)
        for part in (everybody[:1], everybody[1:]):
            self.tell(part, "connect")
            self.wait("all members joined", part, "ready", START_TIMEOUT_S)
        self.wait_until("every member sees all others", START_TIMEOUT_S, lambda: all(
            len(member.said.get("view", {}).get("members", ())) == len(everybody) for member in everybody))

    def tell(self, members: Iterable[Member], do: str, **fields: Any) -> None:
        """Send a command to some."""
        for member in members:
            member.tell(do, **fields)

    def wait(self, what: str, members: Iterable[Member], event: str, timeout: float) -> list[dict[str, Any]]:
        """Wait until each of them told `event` since it was last waited for; these events."""
        awaited = list(members)
        self.wait_until(what, timeout, lambda: all(event in member.said for member in awaited))
        return [member.said.pop(event) for member in awaited]

    def wait_until(self, what: str, timeout: float, holds: Callable[[], bool]) -> None:
        """Hear the members until `holds()`.

        Raises:
            BenchError: it does not hold in time, or a member failed.
        """
        until = time.monotonic() + timeout
        while not holds():
            try:
                member, event = self.company.events.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                raise BenchError(f"waited {timeout:g} s in vain: {what}{self._complaints()}") from None
            self._heard(member, event)

    def _heard(self, member: Member, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "error":
            raise BenchError(f"member {member.tag}: {event['message']}")
        if kind == "ended" and member.state != "killed":
            raise BenchError(f"member {member.tag} ended{self._complaints()}")
        member.said[kind] = event

    def _complaints(self) -> str:
        lines = [f"{member.tag}: {line}" for member in self.company.people for line in member.errors[-5:]]
        return "\n  " + "\n  ".join(lines) if lines else ""


def letters(number: int, first: int = 0) -> list[str]:
    """Names for `number` members: A, B, ...; beyond Z with numbers."""
    return [LETTERS[at] if at < len(LETTERS) else f"M{at}" for at in range(first, first + number)]


def properties_for(stack: str, members: int, given: dict[str, str]) -> dict[str, str]:
    """What fills the stack file: the given properties, and ports of our own where the file asks for any.

    Raises:
        ConfigError: of the stack file or the given properties.
    """
    load(stack, given)
    found = dict(given)
    port, ports = free_ports(members + 1), members
    for group in ({"mcast_port": str(free_udp_port())},
                  {"bind_port": str(port), "port_range": str(ports), "initial_hosts": f"127.0.0.1[{port}]"}):
        if not any(name in given for name in group):
            try:
                load(stack, {**found, **group})
            except ConfigError:
                continue                                     # this stack has no such ports
            found.update(group)
    return found
