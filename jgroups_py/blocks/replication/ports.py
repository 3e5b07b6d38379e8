"""The host, as the replicas of a member see it, and the port of one replica."""
from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Protocol

from jgroups_py.blocks.replication.log import ReplicatedEntry
from jgroups_py.blocks.replication.machine import Machine
from jgroups_py.blocks.replication.messages import Leads, ReplicationMessage, ReplyStatus
from jgroups_py.blocks.replication.options import Options
from jgroups_py.model.address import Address

Ticket = Hashable
"""Identifies the request that an answer is for; the host does not interpret it."""


class HostPort(Protocol):
    """A host, as its replicas see it."""

    @property
    def me(self) -> Address:
        """This member."""

    @property
    def options(self) -> Options:
        """The properties of the host."""

    @property
    def members(self) -> Mapping[Address, None]:
        """Of the view."""

    @property
    def now_ns(self) -> int:
        """The time, monotonic."""

    @property
    def gone(self) -> Mapping[Address, None]:
        """Members whose processes have ended for certain, as far as known."""

    @property
    def replicas(self) -> int:
        """How many replicas a partition should have."""

    def target(self, partition: int) -> tuple[Address, ...]:
        """The best hosts of a partition in this view, the preferred leader first."""

    def preference(self, partition: int, members: Iterable[Address]) -> list[Address]:
        """The members by preference, those that are no candidates last."""

    def has_announced(self, members: Iterable[Address]) -> bool:
        """Whether all of them that are in the view have announced their weight and zone (HostHello)."""

    def new_machine(self, partition: int) -> Machine:
        """An empty machine of the application."""

    def send(self, dest: Address | None, message: ReplicationMessage) -> None:
        """Send to a member of the view, or to all (None)."""

    def answer(self, partition: int, ticket: Ticket, status: ReplyStatus, data: bytes) -> None:
        """Answer a client's request; an answer other than OK carries the leader and the replicas."""

    def schedule_flush(self, partition: int) -> None:
        """Call the replica's `flush` before the next drain: entries of one step are sent together."""

    def set_timer(self, partition: int, name: str, delay_ns: int) -> None:
        """Call the replica's `due(name)` after `delay_ns`; setting it again replaces the deadline."""

    def timer_is_set(self, partition: int, name: str) -> bool:
        """Whether the timer is set."""

    def cancel_timer(self, partition: int, name: str) -> None:
        """Cancel the timer, if it is set."""

    def count(self, name: str) -> None:
        """Add one to a counter."""

    def applied(self, partition: int, number: int, entry: ReplicatedEntry) -> None:
        """A committed entry was carried out."""

    def loaded(self, partition: int, stop: int) -> None:
        """A transferred state, up to an entry, has replaced the content."""

    def report_live(self, partition: int, live: int) -> None:
        """This many replicas of a partition that this member leads are in the view."""

    def leadership_lost(self, partition: int) -> None:
        """This member no longer leads the partition."""


class PartitionPort:
    """The host, bound to one partition. Messages go to members of the view only."""

    def __init__(self, host: HostPort, partition: int) -> None:
        self.me = host.me
        self.options = host.options
        self.partition = partition
        self._host = host

    @property
    def members(self) -> Mapping[Address, None]:
        """Of the view."""
        return self._host.members

    @property
    def now_ns(self) -> int:
        """The time, monotonic."""
        return self._host.now_ns

    @property
    def gone(self) -> Mapping[Address, None]:
        """Members whose processes have ended for certain, as far as known."""
        return self._host.gone

    @property
    def replicas(self) -> int:
        """How many replicas the partition should have."""
        return self._host.replicas

    def target(self) -> tuple[Address, ...]:
        """The best hosts of this view, the preferred leader first."""
        return self._host.target(self.partition)

    def preference(self, members: Iterable[Address]) -> list[Address]:
        """The members by preference, those that are no candidates last."""
        return self._host.preference(self.partition, members)

    def has_announced(self, members: Iterable[Address]) -> bool:
        """Whether all of them that are in the view have announced their weight and zone (HostHello)."""
        return self._host.has_announced(members)

    def new_machine(self) -> Machine:
        """An empty machine of the application."""
        return self._host.new_machine(self.partition)

    def send(self, dest: Address, message: ReplicationMessage) -> None:
        """Send to a member, if it is in the view."""
        if dest in self._host.members:
            self._host.send(dest, message)

    def announce(self, message: Leads) -> None:
        """Send to all hosts of the view."""
        self._host.send(None, message)

    def answer(self, ticket: Ticket, status: ReplyStatus, data: bytes = b"") -> None:
        """Answer a client's request; an answer other than OK carries the leader and the replicas."""
        self._host.answer(self.partition, ticket, status, data)

    def redirect(self, ticket: Ticket) -> None:
        """Answer a request that another replica can carry out."""
        self._host.answer(self.partition, ticket, ReplyStatus.REDIRECT, b"")

    def schedule_flush(self) -> None:
        """New entries are to be sent before the next drain."""
        self._host.schedule_flush(self.partition)

    def set_timer(self, name: str, delay_ns: int) -> None:
        """Set a timer, or replace its deadline."""
        self._host.set_timer(self.partition, name, delay_ns)

    def arm(self, name: str, delay_ns: int) -> None:
        """Set a timer, unless it is set."""
        if not self._host.timer_is_set(self.partition, name):
            self._host.set_timer(self.partition, name, delay_ns)

    def cancel_timer(self, name: str) -> None:
        """Cancel the timer, if it is set."""
        self._host.cancel_timer(self.partition, name)

    def count(self, name: str) -> None:
        """Add one to a counter of the host."""
        self._host.count(name)

    def applied(self, number: int, entry: ReplicatedEntry) -> None:
        """A committed entry was carried out."""
        self._host.applied(self.partition, number, entry)

    def loaded(self, stop: int) -> None:
        """A transferred state, up to an entry, has replaced the content."""
        self._host.loaded(self.partition, stop)

    def report_live(self, live: int) -> None:
        """This many replicas are in the view of their leader."""
        self._host.report_live(self.partition, live)

    def leadership_lost(self) -> None:
        """This replica no longer leads."""
        self._host.leadership_lost(self.partition)
