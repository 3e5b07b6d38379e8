"""Routing: where a client sends its requests, and how it handles the answers. Pure; members are named by ids.

READs go to the replicas in turn. Each carries the latest position that this client has read, which the replica must
have reached, so that a client's reads never go back. Writes and strong reads go to the leader, at first to the best
replica by placement, which redirects. A write that may have been carried out is repeated with the same id, and takes
effect once.
"""
from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import attrs

from jgroups_py.blocks.placement import Candidate, Placement
from jgroups_py.blocks.replication.messages import PartitionReply, PartitionRequest, ReplyStatus, Verb
from jgroups_py.model.address import Address
from jgroups_py.model.counters import Counters, counter, declare, table
from jgroups_py.model.errors import ChannelError


class PartitionUnavailableError(ChannelError):
    """No replica answered in time. A write may have been carried out, or may be later."""

    definite = False


def partition_of(key: str, partitions: int) -> int:
    """The partition of a key, the same everywhere."""
    return int.from_bytes(blake2b(key.encode(), digest_size=8, person=b"key").digest(), "big") % partitions


@attrs.define(eq=False)
class Operation:
    """A request until its final answer. tried: hosts that got it since the last redirect; reply: the answer."""

    request: PartitionRequest
    tried: dict[str, None] = attrs.Factory(dict)
    redirects: int = 0
    reply: PartitionReply | None = None


class Routing:
    """Where the partitions are, as far as a client has seen.

    hosts: members that may hold partitions; replicas, key: as of the store and its hosts' options. name: makes ids
    of writes unique; no two clients may have the same one, ever.
    """

    COUNTERS = declare(
        counter("redirect", "Answers of hosts that do not lead the partition."),
        counter("busy", "Answers of hosts that could not accept the request at the moment."),
        counter("unknown", "Answers that leave open whether a write is carried out."),
        counter("no_store", "Answers of hosts that have no such store."),
        counter("failed", "Requests without an answer: the host left, or was too slow."),
    )

    def __init__(self, hosts: Iterable[Candidate], replicas: int, name: bytes, key: str = "") -> None:
        self.replicas = replicas
        self.key = key
        self.name = name
        self.counters = Counters(table(self.COUNTERS))
        self._leaders: dict[int, str] = {}
        self._members: dict[int, tuple[str, ...]] = {}       # as leaders report, where it differs from placement
        self._seen: dict[int, int] = {}                      # partition -> the latest position that was read
        self._turn: dict[int, int] = {}
        self._number = 0
        self.hosts_changed(hosts)

    def hosts_changed(self, hosts: Iterable[Candidate]) -> None:
        """These members may have partitions now."""
        self._placement = Placement(hosts, self.key)
        self._known = {candidate.id: None for candidate in self._placement.candidates}
        self._members = {}
        self._leaders = {partition: leader for partition, leader in self._leaders.items() if leader in self._known}

    def begin(self, partition: int, verb: Verb, data: bytes) -> Operation:
        """A new request."""
        self._number += 1
        request = self.name + self._number.to_bytes(8, "big") if verb is Verb.WRITE else b""
        least = self._seen.get(partition, 0) if verb is Verb.READ else 0
        return Operation(PartitionRequest(partition, self._number, verb, request, least, data))

    def replicas_of(self, partition: int) -> tuple[str, ...]:
        """Hosts that hold the partition, by the latest redirect or by placement; the best first."""
        known = self._members.get(partition)
        return known or self._placement.place(str(partition), self.replicas, spread=True).ids

    def target(self, operation: Operation) -> str | None:
        """The host that gets the request next; None: no host is known."""
        partition = operation.request.partition
        leader = self._leaders.get(partition)
        if leader is not None and operation.request.verb != Verb.READ and leader not in operation.tried:
            operation.tried[leader] = None
            return leader
        replicas = self.replicas_of(partition)
        if operation.request.verb != Verb.READ:
            choices = replicas if leader is None else (leader, *replicas)
        else:
            turn = self._turn[partition] = self._turn.get(partition, -1) + 1
            turn %= max(1, len(replicas))
            choices = (*replicas[turn:], *replicas[:turn])
        choices = (*choices, *self._known)
        found = next((choice for choice in choices if choice not in operation.tried), None)
        if found is None:
            operation.tried.clear()
            found = choices[0] if choices else None
        if found is not None:
            operation.tried[found] = None
        return found

    def replied(self, operation: Operation, src: str, reply: PartitionReply) -> bool:
        """An answer arrived. Returns whether it is the final one; otherwise the request goes to the next `target`."""
        partition = operation.request.partition
        if reply.status == ReplyStatus.OK:
            operation.reply = reply
            self._seen[partition] = max(self._seen.get(partition, 0), reply.position)
            if operation.request.verb != Verb.READ:
                self._leaders[partition] = src
            return True
        self.counters.add(ReplyStatus(reply.status).name.lower())
        operation.redirects += reply.status == ReplyStatus.REDIRECT
        if reply.members:
            self._members[partition] = tuple(map(id_of, reply.members))
        if self._leaders.get(partition) == src:
            del self._leaders[partition]
        if reply.leader is not None:
            leader = self._leaders[partition] = id_of(reply.leader)
            if leader != src:
                operation.tried.pop(leader, None)
        return False

    def failed(self, operation: Operation, dest: str) -> None:
        """There is no answer: the host left, or was too slow."""
        self.counters.add("failed")
        partition = operation.request.partition
        if self._leaders.get(partition) == dest:
            del self._leaders[partition]
        self._members.pop(partition, None)


def id_of(member: Address) -> str:
    """The id of a member in placements, if its name is unique."""
    return member.name or member.raw.hex()
