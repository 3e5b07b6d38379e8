"""The outputs of a host, and the port for observers of it."""
from __future__ import annotations

import attrs

from jgroups_py.blocks.replication.log import ReplicatedEntry
from jgroups_py.blocks.replication.machine import Machine
from jgroups_py.blocks.replication.messages import PartitionReply
from jgroups_py.blocks.replication.ports import Ticket
from jgroups_py.model.address import Address


@attrs.frozen(eq=False)
class SendToHost:
    """Send to a member of the view, or to all (None), this one included."""

    dest: Address | None
    data: bytes


@attrs.frozen(eq=False)
class AnswerClient:
    """Answer the request that the ticket names."""

    ticket: Ticket
    reply: PartitionReply


@attrs.frozen(eq=False)
class Health:
    """A partition that this member leads has fewer live replicas than it should, or all of them again."""

    partition: int
    live: int
    wanted: int


Output = SendToHost | AnswerClient | Health


class Watcher:
    """Called with what happens at a host; for checkers. me: the host's member."""

    def applied(self, me: Address, partition: int, number: int, entry: ReplicatedEntry) -> None:
        """A committed entry was carried out."""

    def loaded(self, me: Address, partition: int, machine: Machine, stop: int) -> None:
        """A state up to an entry has replaced the content."""

    def answered(self, me: Address, partition: int, epoch: int, ticket: Ticket) -> None:
        """A request was answered with OK."""
