"""From the files that member processes wrote to the History that the simulator's checkers judge.

The records of all files and the director's own (starts of faults, crashes, the end) are merged by time. What a
history of the simulator has and this one has not: which epochs a relay obeys (Obeyed), for the public API does not
tell it; R8 is judged here by which member brings remote messages.
"""
from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from jgroups_py.model.address import Address, ProxyUUID
from jgroups_py.model.view import GlobalView, MergeView, View, ViewId
from jgroups_py.simulator import history as h
from tests.chaos import payloads

COUNTER_BYTES = 8                    # of a view id: counter, then the coordinator's address
Line = list[Any]
"""A record as it was written: [time, kind, ...]."""


def read(path: Path) -> list[Line]:
    """The records of a file; a process that was killed may have left a part of a last line."""
    lines = path.read_bytes().split(b"\n")
    return [json.loads(line) for line in lines[:-1]]


class Member:
    """One file while it is being read: what one incarnation has recorded so far."""

    def __init__(self, gathered: Gathered, unsent: set[bytes]) -> None:
        self.gathered = gathered
        self.unsent = unsent                     # sends that were refused
        self.me: Address | None = None
        self.view: View | None = None

    def entry(self, line: Line) -> h.Entry | None:
        """The entry of a record; None: it is no event."""
        at_ns, kind, *fields = line
        entry: h.Entry | None = getattr(self, "on_" + kind)(at_ns, *fields)
        return entry

    @property
    def address(self) -> Address:
        """The member whose file it is."""
        assert self.me is not None, "a file begins with a start"
        return self.me

    def on_start(self, at_ns: int, address: str, tag: str, site: str) -> h.Entry:
        self.me = self.gathered.address(address)
        history = self.gathered.history
        history.names[self.me], history.sites[self.me] = tag, site
        return h.Start(at_ns, self.me, site)

    def on_view(
        self, at_ns: int, view_id: str, members: list[str], subgroups: list[Any] | None, missed: dict[str, int],
    ) -> h.Entry:
        previous, self.view = self.view, self.gathered.view(view_id, members, subgroups)
        shown: View = self.view
        if isinstance(shown, MergeView):
            lacks = {self.gathered.address(sender): number for sender, number in missed.items()}
            shown = MergeView(shown.id, shown.members, shown.subgroups, lacks)
        return h.InstalledView(at_ns, self.address, shown, previous)

    def on_send(self, at_ns: int, dest: str | None, runs: list[payloads.Run], flags: int, view_id: str) -> h.Entry:
        names = tuple(name for name in self.gathered.names(runs) if name not in self.unsent)
        to = None if dest is None else self.gathered.address(dest)
        return h.MessageSent(at_ns, self.address, to, names, flags, self.gathered.views.get(view_id))

    def on_unsent(self, at_ns: int, runs: list[payloads.Run], why: str) -> h.Entry:
        return h.Remark(at_ns, f"{self.gathered.history.name(self.address)} could not send "
                               f"{h.show_payloads(tuple(payloads.names(runs)))}: {why}")

    def on_late(self, at_ns: int, seconds: float) -> h.Entry:
        return h.Remark(at_ns, f"{self.gathered.history.name(self.address)} is paused by the machine for {seconds} s")

    def on_deliver(
        self, at_ns: int, src: str, site: str | None, relay: str | None, unicast: bool, runs: list[payloads.Run],
        flags: int,
    ) -> h.Entry:
        sender = self.gathered.address(src)
        if site is not None:
            sender = ProxyUUID(sender, None if relay is None else self.gathered.address(relay), site)
        dest = self.address if unicast else None
        return h.MessageDelivered(at_ns, self.address, sender, dest, self.gathered.names(runs), flags, self.view)

    def on_global(self, at_ns: int, sites: dict[str, list[str]]) -> h.Entry:
        return h.GlobalInstall(at_ns, self.address, GlobalView(
            {site: tuple(map(self.gathered.address, members)) for site, members in sites.items()}))

    def on_site(self, at_ns: int, site: str, status: str) -> h.Entry:
        return h.SiteStatusSeen(at_ns, self.address, site, status)

    def on_unreachable(self, at_ns: int, dest: str) -> h.Entry:
        return h.Unreached(at_ns, self.address, self.gathered.address(dest))

    def on_lost(self, at_ns: int, site: str, origin: str, first: int, stop: int) -> h.Entry:
        return h.Lost(at_ns, self.address, site, self.gathered.address(origin), first, stop)

    def on_leaving(self, at_ns: int) -> h.Entry | None:
        return h.Leaving(at_ns, self.me) if self.me is not None else None

    def on_left(self, at_ns: int) -> h.Entry | None:
        return h.MemberLeft(at_ns, self.me, "left") if self.me is not None else None

    def on_closed(self, at_ns: int, reason: str) -> h.Entry:
        return h.MemberLeft(at_ns, self.address, f"closed: {reason}")


class Gathered:
    """The history of a run, made of its files."""

    def __init__(self, files: Iterable[Path], added: Iterable[h.Entry]) -> None:
        """`added`: entries of the director, in order of time; what comes after its End does not belong to the run."""
        self.history = h.History()
        self.views: dict[str, View] = {}
        self._addresses: dict[str, Address] = {}
        self._names: dict[bytes, bytes] = {}             # one object for a payload however often it was delivered
        records = [read(path) for path in files]
        for line in (line for lines in records for line in lines if line[1] == "view"):
            self.view(*line[2:5])                        # a send may name a view that its sender records later
        streams = [self._entries(lines) for lines in records]
        for entry in heapq.merge(*streams, added, key=lambda entry: entry.at_ns):
            self.history.add(entry)
            if isinstance(entry, h.End):
                break

    def _entries(self, lines: list[Line]) -> Iterator[h.Entry]:
        unsent = {name for line in lines if line[1] == "unsent" for name in payloads.names(line[2])}
        member = Member(self, unsent)
        for line in lines:
            entry = member.entry(line)
            if entry is not None:
                yield entry

    def address(self, text: str) -> Address:
        """The member with this address."""
        return self._addresses.setdefault(text, Address(bytes.fromhex(text)))

    def view(self, view_id: str, members: list[str], subgroups: list[Any] | None) -> View:
        """The view as its member described it; what is recorded under this id first counts for the sends in it."""
        raw = bytes.fromhex(view_id)
        coordinator = self.address(raw[COUNTER_BYTES:].hex())
        number = ViewId(int.from_bytes(raw[:COUNTER_BYTES], "big"), coordinator)
        there = tuple(map(self.address, members))
        made = View(number, there) if subgroups is None else MergeView(
            number, there, tuple(self.view(group_id, group, None) for group_id, group in subgroups))
        self.views.setdefault(view_id, made)
        return made

    def names(self, runs: list[payloads.Run]) -> tuple[bytes, ...]:
        """What stands for the payloads of some runs."""
        return tuple(self._names.setdefault(name, name) for name in payloads.names(runs))
