"""The books of a simulated store of partitions: what was asked, answered, carried out, and whether it fits together.

P1  The replicas of a partition carry out the same writes in the same order, states that are transferred included.
P2  An acknowledged write is not lost, unless a majority of the replicas of its partition is gone at once.
P3  Writes and strong reads of an epoch are acknowledged by one leader.
P4  Writes and strong reads are linearizable: each takes effect at one moment between question and answer.
P5  What a client reads at any replicas never goes back, and contains what it has written.
P6  When all has healed, every partition that still has a majority has a leader and as many replicas as it can.

A write appends a value that nobody else writes, and is answered by the place of the value in its partition, so places
are the order that P4 asks for: an operation is before another one if its answer came before the other one's question.
Source: Herlihy and Wing, "Linearizability" (1990), which is easy to check here because the order is told.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from jgroups_py.address import Address
from jgroups_py.blocks.replicas.host import Host
from jgroups_py.blocks.replicas.log import Entry
from jgroups_py.blocks.replicas.machine import Machine
from jgroups_py.blocks.replicas.messages import Verb
from jgroups_py.blocks.replicas.outputs import Watcher
from jgroups_py.blocks.replicas.state import ReplicaState, Ticket

_U32 = 4


class Broken(AssertionError):
    """A guarantee does not hold."""

    def __init__(self, guarantee: str, text: str) -> None:
        super().__init__(text)
        self.guarantee = guarantee


class Records(Machine):
    """A list of values. A write appends one, and is answered by its place; a read is answered by all."""

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
    """What `Records.save` gave."""
    return data.split(b"\n") if data else []


@attrs.define(eq=False)
class Done:
    """An operation that was answered. place: of a write; number: of values that a strong read saw."""

    began_ns: int
    ended_ns: int
    verb: Verb
    place: int
    what: str


@attrs.frozen
class Asked:
    """The ticket of a request."""

    src: Address
    number: int
    verb: Verb


class Ledger(Watcher):
    """Of all members of one run."""

    def __init__(self, now_ns: list[int]) -> None:
        self.now_ns = now_ns                               # a list of one: the run's clock
        self.entries: dict[int, dict[int, Entry]] = {}     # partition -> number -> what was carried out
        self.leader: dict[tuple[int, int], Address] = {}   # (partition, epoch) -> who acknowledged
        self.acknowledged: dict[int, dict[bytes, int]] = {}     # partition -> value -> place
        self.done: dict[int, list[Done]] = {}
        self.counts: dict[str, int] = {}

    # --- what happens -----------------------------------------------------------------------------------------------

    def applied(self, replica: ReplicaState, number: int, entry: Entry) -> None:
        known = self.entries.setdefault(replica.partition, {}).setdefault(number, entry)
        if known != entry:
            raise Broken("P1", f"partition {replica.partition}, entry {number}: {replica.me} carries out {entry}, "
                               f"somebody else {known}")

    def loaded(self, replica: ReplicaState, stop: int) -> None:
        machine = replica.once.machine
        assert isinstance(machine, Records), "the machine of this simulation"
        wanted = self.values(replica.partition, stop)
        if machine.values != wanted:
            raise Broken("P1", f"partition {replica.partition}: the state up to {stop} that {replica.me} got has "
                               f"{machine.values}, not {wanted}")

    def answered(self, replica: ReplicaState, ticket: Ticket) -> None:
        assert isinstance(ticket, Asked), "the tickets of this simulation"
        if ticket.verb is Verb.READ:
            return
        key = replica.partition, replica.epoch
        if self.leader.setdefault(key, replica.me) != replica.me:
            raise Broken("P3", f"partition {key[0]}, epoch {key[1]}: {self.leader[key]} and {replica.me} acknowledge")

    def values(self, partition: int, stop: int) -> list[bytes]:
        """What a partition holds after the entries below `stop`: each write once."""
        entries = self.entries.get(partition, {})
        found: dict[bytes, bytes] = {}
        for number in range(1, stop):
            entry = entries.get(number)
            if entry is not None and entry.request:
                found.setdefault(entry.request, entry.data)
        return list(found.values())

    def count(self, name: str, number: int = 1) -> None:
        """What the run got into."""
        self.counts[name] = self.counts.get(name, 0) + number

    # --- what clients see -------------------------------------------------------------------------------------------

    def wrote(self, partition: int, value: bytes, place: int, began_ns: int) -> None:
        """A write was acknowledged."""
        known = self.acknowledged.setdefault(partition, {})
        if known.setdefault(value, place) != place:
            raise Broken("P4", f"{value!r} was acknowledged at place {known[value]} and at {place}")
        self._ended(partition, Done(began_ns, self.now_ns[0], Verb.WRITE, place, value.decode()))

    def read_strongly(self, partition: int, values: list[bytes], began_ns: int) -> None:
        """A strong read was answered."""
        self._ended(partition, Done(began_ns, self.now_ns[0], Verb.STRONG, len(values), f"read of {len(values)}"))
        for place, value in enumerate(values):
            if self.acknowledged.get(partition, {}).get(value, place) != place:
                raise Broken("P4", f"a strong read has {value!r} at place {place}, it was acknowledged elsewhere")

    def _ended(self, partition: int, done: Done) -> None:
        """Compare with what was answered before this operation was begun."""
        earlier = self.done.setdefault(partition, [])
        for other in earlier:
            if other.ended_ns < done.began_ns and not in_order(other, done):
                raise Broken("P4", f"partition {partition}: {done.what} (place {done.place}) was asked for after "
                                   f"{other.what} (place {other.place}) had been answered")
        earlier.append(done)

    # --- the end ----------------------------------------------------------------------------------------------------

    def judge(self, hosts: Iterable[Host]) -> None:
        """All has healed: what must be there, is."""
        hosts = list(hosts)
        store = next((host.store for host in hosts if host.store is not None), None)
        for partition in range(store[1] if store is not None else 0):
            self._judge_partition(partition, hosts)

    def _judge_partition(self, partition: int, hosts: list[Host]) -> None:
        replicas = [host.parts[partition] for host in hosts if partition in host.parts]
        leaders = [replica for replica in replicas
                   if replica.is_leader and replica.leads().ready and replica.has_quorum()]
        if not leaders:
            self._judge_lost(partition, replicas, {host.me: None for host in hosts})
            return
        leader = max(leaders, key=lambda replica: replica.epoch)
        machine = leader.once.machine
        assert isinstance(machine, Records), "the machine of this simulation"
        for value, place in self.acknowledged.get(partition, {}).items():
            if machine.values[place:place + 1] != [value]:
                raise Broken("P2", f"partition {partition}: {value!r}, acknowledged at place {place}, is gone")
        if len(leaders) > 1:
            raise Broken("P6", f"partition {partition} has {len(leaders)} leaders")
        if sorted(leader.configuration.members) != sorted(leader.desired()):
            raise Broken("P6", f"partition {partition} has replicas at {leader.configuration.members}, "
                               f"they should be at {leader.desired()}")
        for replica in replicas:
            if not replica.hollow and replica.me not in leader.configuration.members and replica.log.stop > 1:
                raise Broken("P6", f"partition {partition}: {replica.me} keeps data of no use")

    def _judge_lost(self, partition: int, replicas: Sequence[ReplicaState], live: dict[Address, None]) -> None:
        """No leader: then a majority of a configuration must be gone: the newest that is known, if only to those who
        have dropped their data."""
        self.count("partitions without a majority")
        newest = max(replicas, default=None, key=lambda replica: replica.log.reach)
        if newest is not None and newest.configuration.members and newest.configuration.has_quorum(live):
            raise Broken("P6", f"partition {partition} has no leader, though {newest.configuration.members} have a "
                               "majority that lives")


def in_order(first: Done, second: Done) -> bool:
    """Whether the second operation may come after the first: places of writes and numbers of values read say so."""
    if second.verb is Verb.WRITE:
        return second.place >= first.place if first.verb is Verb.STRONG else second.place > first.place
    return second.place >= first.place if first.verb is Verb.STRONG else second.place > first.place
