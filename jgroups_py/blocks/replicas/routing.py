"""Routing: where a client sends its requests, what it makes of the answers. Pure; ids stand for members.

Any replica is as good as another for a READ, so they take turns; what was seen once is asked for as the least that the
next replica must have reached, so that a client never sees time go back. Writes and strong reads go to the leader, at
first to the best replica by placement, which knows the leader. A write that may have been carried out is sent again
under the same id, and happens once.
"""
from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import attrs

from jgroups_py.address import Address
from jgroups_py.blocks.placement import Candidate, Placement
from jgroups_py.blocks.replicas.messages import Reply, Request, Status, Verb
from jgroups_py.counters import Counters


def partition_of(key: str, partitions: int) -> int:
    """The partition of a key, the same everywhere."""
    return int.from_bytes(blake2b(key.encode(), digest_size=8, person=b"key").digest(), "big") % partitions


@attrs.define(eq=False)
class Operation:
    """A request until it is answered for good. tried: since the last hint; reply: the answer."""

    request: Request
    tried: dict[str, None] = attrs.Factory(dict)
    redirects: int = 0
    reply: Reply | None = None


class Routing:
    """What a client knows of where partitions are.

    hosts: who may have partitions; replicas, key: as of the store and of its hosts' options. name: makes the ids of
    writes unique; no two clients may have the same one, ever.
    """

    def __init__(self, hosts: Iterable[Candidate], replicas: int, name: bytes, key: str = "") -> None:
        self.replicas = replicas
        self.key = key
        self.name = name
        self.counters = Counters()
        self._leaders: dict[int, str] = {}
        self._members: dict[int, tuple[str, ...]] = {}       # as leaders say, where placement has not been followed yet
        self._seen: dict[int, int] = {}                      # partition -> the latest position that was seen
        self._turn: dict[int, int] = {}
        self._number = 0
        self.hosts_changed(hosts)

    def hosts_changed(self, hosts: Iterable[Candidate]) -> None:
        """These may have partitions now."""
        self._placement = Placement(hosts, self.key)
        self._known = {candidate.id: None for candidate in self._placement.candidates}
        self._members = {}
        self._leaders = {partition: leader for partition, leader in self._leaders.items() if leader in self._known}

    def begin(self, partition: int, verb: Verb, data: bytes) -> Operation:
        """A new request."""
        self._number += 1
        request = self.name + self._number.to_bytes(8, "big") if verb is Verb.WRITE else b""
        least = self._seen.get(partition, 0) if verb is Verb.READ else 0
        return Operation(Request(partition, self._number, verb, request, least, data))

    def replicas_of(self, partition: int) -> tuple[str, ...]:
        """Who has the partition, as far as we know; the best first."""
        known = self._members.get(partition)
        return known or self._placement.place(str(partition), self.replicas, spread=True).ids

    def target(self, operation: Operation) -> str | None:
        """Where to send it next; None: nobody is known."""
        partition = operation.request.partition
        leader, replicas = self._leaders.get(partition), self.replicas_of(partition)
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

    def replied(self, operation: Operation, src: str, reply: Reply) -> bool:
        """An answer came; whether it is the final one. Otherwise the request goes to the next `target`."""
        partition = operation.request.partition
        if reply.status == Status.OK:
            operation.reply = reply
            self._seen[partition] = max(self._seen.get(partition, 0), reply.position)
            if operation.request.verb != Verb.READ:
                self._leaders[partition] = src
            return True
        self.counters.add(Status(reply.status).name.lower())
        operation.redirects += reply.status == Status.REDIRECT
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
        """There is no answer: it left, or was too slow."""
        self.counters.add("failed")
        partition = operation.request.partition
        if self._leaders.get(partition) == dest:
            del self._leaders[partition]
        self._members.pop(partition, None)


def id_of(member: Address) -> str:
    """What a member is called in placements, if its name is its alone."""
    return member.name or member.raw.hex()
