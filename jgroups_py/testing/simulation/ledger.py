"""The checkers of a simulated store of partitions, over a record of its operations and applied entries.

P1  The replicas of a partition carry out the same writes in the same order, also where a state is transferred.
P2  An acknowledged write is not lost, unless a majority of the replicas of its partition fails at once.
P3  Writes and strong reads of an epoch are acknowledged by one leader.
P4  Writes and strong reads are linearizable: each takes effect at one moment between request and answer.
P5  Reads of one client are monotonic over all replicas, and contain its own writes.
P6  After healing, every partition that still has a majority has a leader and as many replicas as possible.

A write appends a unique value, and its answer is the index of the value in its partition. If one operation was answered
before another one was requested, linearizability requires that it takes effect first; the indexes show whether it did.
Source: Herlihy and Wing, "Linearizability" (1990). The check is simple because the answers contain the order.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from jgroups_py.blocks.replication.host import PartitionHost
from jgroups_py.blocks.replication.log import ReplicatedEntry
from jgroups_py.blocks.replication.machine import Machine
from jgroups_py.blocks.replication.messages import Verb
from jgroups_py.blocks.replication.outputs import Watcher
from jgroups_py.blocks.replication.ports import Ticket
from jgroups_py.blocks.replication.replica import PartitionReplica
from jgroups_py.model.address import Address

_U32 = 4


class Broken(AssertionError):
    """A guarantee (P1 to P6) is violated."""

    def __init__(self, guarantee: str, text: str) -> None:
        super().__init__(text)
        self.guarantee = guarantee


class Records(Machine):
    """A list of values. A write appends one and returns its place; a read returns all."""

    def __init__(self) -> None:
        self.values: list[bytes] = []

    def apply(self, command: bytes) -> bytes:
        self.values.append(command)
        return (len(self.values) - 1).to_bytes(_U32, "big")

    def read(self, query: bytes) -> bytes:
        return self.save()

    def save(self) -> bytes:
        return b"\n".join(self.values)

    def load(self, data: bytes) -> None:
        self.values = values_of(data)


def values_of(data: bytes) -> list[bytes]:
    """The values that `Records.save` wrote."""
    return data.split(b"\n") if data else []


@attrs.define(eq=False)
class AnsweredOperation:
    """An operation and its answer. place: index of a written value, or number of values that a strong read returned."""

    began_ns: int
    ended_ns: int
    verb: Verb
    place: int
    what: str


@attrs.frozen
class RequestTicket:
    """The ticket of a request."""

    src: Address
    number: int
    verb: Verb


class StoreLedger(Watcher):
    """The record of all members of one run; raises Broken at the first violation."""

    def __init__(self, now_ns: list[int]) -> None:
        self.now_ns = now_ns                               # a list with one number: the run's clock
        self.entries: dict[int, dict[int, ReplicatedEntry]] = {}     # partition -> number -> applied entry
        self.leader: dict[tuple[int, int], Address] = {}   # (partition, epoch) -> member that acknowledged
        self.acknowledged: dict[int, dict[bytes, int]] = {}     # partition -> value -> place
        self.done: dict[int, list[AnsweredOperation]] = {}
        self.counts: dict[str, int] = {}

    # --- events of replicas -------------------------------------------------------------------------------------------

    def applied(self, me: Address, partition: int, number: int, entry: ReplicatedEntry) -> None:
        known = self.entries.setdefault(partition, {}).setdefault(number, entry)
        if known != entry:
            raise Broken("P1", f"partition {partition}, entry {number}: {me} applied {entry}, another member {known}")

    def loaded(self, me: Address, partition: int, machine: Machine, stop: int) -> None:
        assert isinstance(machine, Records), "the machine of this simulation"
        wanted = self.values(partition, stop)
        if machine.values != wanted:
            raise Broken("P1", f"partition {partition}: the state below entry {stop} that {me} loaded has "
                               f"{machine.values}, not {wanted}")

    def answered(self, me: Address, partition: int, epoch: int, ticket: Ticket) -> None:
        assert isinstance(ticket, RequestTicket), "the tickets of this simulation"
        if ticket.verb is Verb.READ:
            return
        if self.leader.setdefault((partition, epoch), me) != me:
            raise Broken("P3", f"partition {partition}, epoch {epoch}: {self.leader[partition, epoch]} and {me} both "
                               "acknowledged")

    def values(self, partition: int, stop: int) -> list[bytes]:
        """The values of a partition after the entries below `stop`: each write once."""
        entries = self.entries.get(partition, {})
        found: dict[bytes, bytes] = {}
        for number in range(1, stop):
            entry = entries.get(number)
            if entry is not None and entry.request:
                found.setdefault(entry.request, entry.data)
        return list(found.values())

    def count(self, name: str, number: int = 1) -> None:
        """Count a state that the run reached."""
        self.counts[name] = self.counts.get(name, 0) + number

    # --- answers to clients -------------------------------------------------------------------------------------------

    def wrote(self, partition: int, value: bytes, place: int, began_ns: int) -> None:
        """A write was acknowledged."""
        known = self.acknowledged.setdefault(partition, {})
        if known.setdefault(value, place) != place:
            raise Broken("P4", f"{value!r} was acknowledged at place {known[value]} and at {place}")
        self._ended(partition, AnsweredOperation(began_ns, self.now_ns[0], Verb.WRITE, place, value.decode()))

    def read_strongly(self, partition: int, values: list[bytes], began_ns: int) -> None:
        """A strong read was answered."""
        read = AnsweredOperation(began_ns, self.now_ns[0], Verb.STRONG, len(values), f"read of {len(values)}")
        self._ended(partition, read)
        for place, value in enumerate(values):
            if self.acknowledged.get(partition, {}).get(value, place) != place:
                raise Broken("P4", f"a strong read has {value!r} at place {place}, it was acknowledged elsewhere")

    def _ended(self, partition: int, done: AnsweredOperation) -> None:
        """P4: compare with the operations that were answered before this one was requested."""
        earlier = self.done.setdefault(partition, [])
        for other in earlier:
            if other.ended_ns < done.began_ns and not in_order(other, done):
                raise Broken("P4", f"partition {partition}: {done.what} (place {done.place}) began after {other.what} "
                                   f"(place {other.place}) had been answered")
        earlier.append(done)

    # --- the end ----------------------------------------------------------------------------------------------------

    def check_end(self, hosts: Iterable[PartitionHost]) -> None:
        """Check P2 and P6 after healing."""
        hosts = list(hosts)
        store = next((host.store for host in hosts if host.store is not None), None)
        for partition in range(store[1] if store is not None else 0):
            self._check_partition(partition, hosts)

    def _check_partition(self, partition: int, hosts: list[PartitionHost]) -> None:
        replicas = [host.parts[partition] for host in hosts if partition in host.parts]
        leaders = [replica for replica in replicas
                   if replica.is_ready and replica.state.has_quorum()]
        if not leaders:
            self._check_leaderless(partition, replicas, {host.me: None for host in hosts})
            return
        leader = max(leaders, key=lambda replica: replica.term.epoch)
        machine = leader.state.content.machine
        assert isinstance(machine, Records), "the machine of this simulation"
        for value, place in self.acknowledged.get(partition, {}).items():
            if machine.values[place:place + 1] != [value]:
                raise Broken("P2", f"partition {partition}: {value!r}, acknowledged at place {place}, is lost")
        if len(leaders) > 1:
            raise Broken("P6", f"partition {partition} has {len(leaders)} leaders")
        if sorted(leader.state.configuration.members) != sorted(leader.moving.desired()):
            raise Broken("P6", f"partition {partition} has replicas at {leader.state.configuration.members}, "
                               f"they should be at {leader.moving.desired()}")
        for replica in replicas:
            state = replica.state
            member = replica.me in leader.state.configuration.members
            if not state.hollow and not member and state.log.stop > 1:
                raise Broken("P6", f"partition {partition}: {replica.me} keeps data but is no replica")

    def _check_leaderless(
        self, partition: int, replicas: Sequence[PartitionReplica], live: dict[Address, None],
    ) -> None:
        """P6: a partition may lack a leader only if a majority of its newest configuration has failed. The newest is
        the one of the longest log, replicas that dropped their data included.
        """
        self.count("partitions without a majority")
        newest = max(replicas, default=None, key=lambda replica: replica.state.log.reach)
        config = None if newest is None else newest.state.configuration
        if config is not None and config.members and config.has_quorum(live):
            raise Broken("P6", f"partition {partition} has no leader, though a majority of {config.members} runs")


def in_order(first: AnsweredOperation, second: AnsweredOperation) -> bool:
    """Whether the places are those of an order in which the first operation takes effect before the second."""
    if second.verb is Verb.WRITE:
        return second.place >= first.place if first.verb is Verb.STRONG else second.place > first.place
    return second.place >= first.place if first.verb is Verb.STRONG else second.place > first.place
