"""Host: all partitions of one member, pure. Views, messages, requests and time go in; messages and answers come out.

Hosts of the view announce themselves with HostHello. The host places partitions on them (blocks/placement), makes and
drops replicas as their leaders announce, and redirects clients. What happens inside a partition is in replica.py.
"""
from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

from jgroups_py.blocks.placement import Candidate, Placement
from jgroups_py.blocks.replication.founding import Founding
from jgroups_py.blocks.replication.log import ReplicatedEntry
from jgroups_py.blocks.replication.machine import Machine
from jgroups_py.blocks.replication.messages import (
    Create,
    HostHello,
    Leads,
    PartitionReply,
    PartitionRequest,
    ReplicationMessage,
    ReplyStatus,
    Verb,
    decode,
    encode,
)
from jgroups_py.blocks.replication.options import Options
from jgroups_py.blocks.replication.outputs import AnswerClient, Health, Output, SendToHost, Watcher
from jgroups_py.blocks.replication.ports import Ticket
from jgroups_py.blocks.replication.quorums import Configuration
from jgroups_py.blocks.replication.replica import RECEIVED, PartitionReplica
from jgroups_py.model.address import Address
from jgroups_py.model.counters import Counters, counter, declare, drop, table
from jgroups_py.model.errors import ChannelError, WireError
from jgroups_py.model.view import View
from jgroups_py.wire.codec import Interner

FOUND = -1, "found"                         # the timer of the founding: of no partition
MAX_PARTITIONS = 1 << 20
MAX_REPLICAS = 15
MAX_GONE = 1000                             # so many members whose processes have ended are remembered


Store = tuple[bytes, int, int]
"""(id, number of partitions, replicas of each)."""


class StoreExistsError(ChannelError):
    """The group has a store already."""


class PartitionHost:
    """See the module. `drain` returns the outputs; `advance` is due at `next_deadline_ns`."""

    COUNTERS = declare(
        counter("reads", "Reads that were answered."),
        counter("elections_won", "Elections won by replicas of this host."),
        counter("configurations", "Changes of the replicas of partitions that leaders of this host began."),
        counter("handed_over", "Partitions handed over to the preferred replica."),
        counter("states_sent", "Contents of partitions sent to other replicas."),
        counter("states_loaded", "Contents of partitions received."),
        counter("replicas_dropped", "Replicas whose data was dropped: other hosts have the partition now."),
        drop("malformed", "Messages that could not be decoded."),
        drop("from_non_members", "Messages of a process outside the view."),
        drop("not_understood", "Messages of hosts of another store, or of a kind that is not for a host."),
        drop("foreign_stores", "Messages about another store."),
        drop("of_no_store", "Messages about a partition that the store does not have."),
    )

    def __init__(
        self, me: Address, make: Callable[[int], Machine], options: Options | None = None,
        watcher: Watcher | None = None, founding: Founding | None = None,
    ) -> None:
        """founding: this store is created by its founders; see founding.py."""
        self.me = me
        self.options = options or Options()
        self._make_machine = make
        self._outputs: list[Output] = []
        self._encoded: tuple[ReplicationMessage | None, bytes] = None, b""     # what was sent last, as bytes
        self._unsent: dict[int, None] = {}                 # partitions with entries that are still to be sent
        self.now_ns = 0
        self.members: dict[Address, None] = {}             # of the view
        self.hellos: dict[Address, HostHello] = {}             # of hosts in the view
        self.gone: dict[Address, None] = {}                # members whose processes have ended for certain
        self.draining = False
        self.store: Store | None = None
        self.parts: dict[int, PartitionReplica] = {}
        self.leaders: dict[int, Leads] = {}                # partition -> its leader's latest announcement
        self.leader_of: dict[int, Address] = {}            # partition -> its source, while that is in the view
        self.counters = Counters(table(self.COUNTERS))
        self._watcher = watcher or Watcher()
        self._founding = founding
        self._addresses = Interner()
        self._timers: dict[tuple[int, str], int] = {}
        self._heap: list[tuple[int, int, str]] = []
        self._placement: tuple[Placement, dict[str, Address]] | None = None
        self._ranking: dict[int, list[Address]] = {}
        self._short: dict[int, int] = {}                   # partition -> live replicas, where these are too few

    @property
    def replicas(self) -> int:
        """How many replicas a partition should have."""
        return self.store[2] if self.store is not None else 1

    @property
    def next_deadline_ns(self) -> int | None:
        """When `advance` is due."""
        while self._heap and self._timers.get(self._heap[0][1:]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    # --- what goes in -----------------------------------------------------------------------------------------------

    def create(self, name: bytes, partitions: int, replicas: int, now_ns: int) -> None:
        """Create the store: once, at one member, for the hosts of its view.

        name: of this store; two stores of one group need different names, random ones for example.

        Raises:
            StoreExistsError: the group has one.
            ValueError: a number out of range.
        """
        if not 1 <= partitions <= MAX_PARTITIONS or not 1 <= replicas <= MAX_REPLICAS:
            raise ValueError(f"{partitions} partitions with {replicas} replicas: 1 to {MAX_PARTITIONS} partitions with "
                             f"1 to {MAX_REPLICAS} replicas are possible")
        if self.store is not None:
            raise StoreExistsError(f"the group has a store with {self.store[1]} partitions already")
        self.now_ns = now_ns
        hosts = tuple((member, hello.weight, hello.zone) for member, hello in self.hellos.items())
        self.send(None, Create((name, partitions, replicas), hosts))

    def view(self, view: View, now_ns: int) -> None:
        """A view of the group was installed."""
        self.now_ns = now_ns
        self.members = dict.fromkeys(view.members)
        self.hellos = {member: hello for member, hello in self.hellos.items() if member in self.members}
        self.leader_of = {partition: member for partition, member in self.leader_of.items() if member in self.members}
        self._hosts_changed()
        self.hello()
        for replica in self.parts.values():
            replica.view_changed()
        self.cancel_timer(*FOUND)
        self._consider_founding()

    def member_gone(self, member: Address, now_ns: int) -> None:
        """The process of a member has ended for certain: supervisors learn of it, now and in later epochs."""
        self.now_ns = now_ns
        self.gone[member] = None
        if len(self.gone) > MAX_GONE:
            del self.gone[next(iter(self.gone))]
        for replica in self.parts.values():
            replica.gone(member)

    def vacate(self, now_ns: int) -> None:
        """Move all replicas of this host to other hosts, as far as there are any; done when `is_empty`."""
        self.now_ns = now_ns
        self.draining = True
        self.hello()

    @property
    def is_empty(self) -> bool:
        """Whether no known configuration needs this host."""
        return not any(replica.state.is_needed for replica in self.parts.values())

    def receive(self, src: Address, data: bytes, now_ns: int) -> None:
        """A message of a host, this one included, but for requests and replies."""
        self.now_ns = now_ns
        try:
            message = decode(data, self._addresses)
        except WireError:
            return self.count("malformed")
        if src not in self.members:
            return self.count("from_non_members")
        if isinstance(message, HostHello):
            return self._on_hello(message, src)
        if isinstance(message, Create):
            return self._on_create(message)
        if not isinstance(message, RECEIVED) or self._is_foreign(src):
            return self.count("not_understood")
        replica = self._replica(message.partition)
        if isinstance(message, Leads):
            self._on_leads(message, src)
        if replica is not None:
            replica.receive(message, src)
        return None

    def request(self, ticket: Ticket, request: PartitionRequest, now_ns: int) -> None:
        """A client's request; an AnswerClient with its ticket follows, at once or later."""
        self.now_ns = now_ns
        if self.store is None or request.partition >= self.store[1]:
            status = ReplyStatus.NO_STORE
        else:
            replica = self.parts.get(request.partition)
            if replica is not None:
                return replica.request(ticket, Verb(request.verb), request.request, request.least, request.data)
            status = ReplyStatus.REDIRECT
        leader, members = self.location(request.partition)
        reply = PartitionReply(request.partition, 0, status, 0, leader, members, b"")
        return self._outputs.append(AnswerClient(ticket, reply))

    def advance(self, now_ns: int) -> None:
        """Fire the timers that are due."""
        self.now_ns = now_ns
        while (due_ns := self.next_deadline_ns) is not None and due_ns <= now_ns:
            _, partition, name = heapq.heappop(self._heap)
            del self._timers[partition, name]
            if (partition, name) == FOUND:
                self._found()
            else:
                self.parts[partition].due(name)

    # --- what comes out ---------------------------------------------------------------------------------------------

    def drain(self) -> list[Output]:
        """The outputs since the last call. Entries that were appended meanwhile are sent together."""
        unsent, self._unsent = self._unsent, {}
        for partition in unsent:
            self.parts[partition].flush()
        outputs, self._outputs = self._outputs, []
        return outputs

    # --- hosts ------------------------------------------------------------------------------------------------------

    def hello(self) -> None:
        """Announce this host to all members."""
        self.send(None, HostHello(self.options.weight, self.options.zone, self.draining, self.store))

    def _on_hello(self, hello: HostHello, src: Address) -> None:
        if hello == self.hellos.get(src):
            return
        self.hellos[src] = hello
        self._hosts_changed()
        if self.store is None and hello.store is not None:
            self.store = hello.store
            self.hello()
        if self._is_foreign(src):
            self.count("foreign_stores")
        for replica in self.parts.values():
            replica.hosts_changed()
        self._consider_founding()

    def _consider_founding(self) -> None:
        """Found the store some time from now, if it is still possible then."""
        if not self._may_found():
            self.cancel_timer(*FOUND)
        elif not self.timer_is_set(*FOUND):
            self.set_timer(*FOUND, self.options.settle_ns)

    def _may_found(self) -> bool:
        founding = self._founding
        if founding is None or self.store is not None or self.me.name != founding.names[0]:
            return False
        hosts = [member.name for member in self.hellos]
        return all(name in hosts for name in founding.names) and not any(
            hello.store for hello in self.hellos.values())

    def _found(self) -> None:
        if self._founding is not None and self._may_found():
            self.create(self._founding.new_name(), self._founding.partitions, self._founding.replicas, self.now_ns)

    def _is_foreign(self, src: Address) -> bool:
        """Whether a host has another store: its messages are ignored."""
        hello = self.hellos.get(src)
        return (hello is not None and hello.store is not None and self.store is not None
                and hello.store != self.store)

    def _on_create(self, message: Create) -> None:
        if self.store not in (None, message.store):
            return self.count("foreign_stores")
        self.store = message.store
        placement, addresses = placement_of(
            [(member, weight, zone) for member, weight, zone in message.hosts], self.options.key)
        for partition in range(message.store[1]):
            found = [addresses[one] for one in place(placement, partition, message.store[2])]
            if self.me in found:
                replica = self._replica(partition)
                assert replica is not None, "the store is known"
                replica.created(Configuration(tuple(found)))
        return self.hello()

    def _hosts_changed(self) -> None:
        self._placement, self._ranking = None, {}

    def placement(self) -> tuple[Placement, dict[str, Address]]:
        """(placement on the hosts that may have partitions, id -> address)."""
        if self._placement is None:
            self._placement = placement_of(
                [(member, 0 if hello.draining or self._is_foreign(member) else hello.weight, hello.zone)
                 for member in self.members if (hello := self.hellos.get(member)) is not None], self.options.key)
        return self._placement

    def target(self, partition: int) -> tuple[Address, ...]:
        """The best hosts of a partition."""
        placement, addresses = self.placement()
        return tuple(addresses[one] for one in place(placement, partition, self.replicas))

    def preference(self, partition: int, members: Iterable[Address]) -> list[Address]:
        """The members, the best first; those that are not candidates (any more) last."""
        ranking = self._ranking.get(partition)
        if ranking is None:
            placement, addresses = self.placement()
            ranking = self._ranking[partition] = [
                addresses[candidate.id] for candidate in placement.ranking(str(partition))]
        order = {member: at for at, member in enumerate(ranking)}
        return sorted(members, key=lambda member: (order.get(member, len(order)), member.raw))

    def has_announced(self, members: Iterable[Address]) -> bool:
        """Whether all of them that are in the view have sent HostHello."""
        return all(member in self.hellos or member not in self.members for member in members)

    # --- partitions -------------------------------------------------------------------------------------------------

    def _replica(self, partition: int) -> PartitionReplica | None:
        if self.store is None or partition >= self.store[1]:
            self.count("of_no_store")
            return None
        if partition not in self.parts:
            self.parts[partition] = PartitionReplica(self, partition)
        return self.parts[partition]

    def location(self, partition: int) -> tuple[Address | None, tuple[Address, ...]]:
        """(leader if known, replicas as far as known)."""
        replica, announced = self.parts.get(partition), self.leaders.get(partition)
        if replica is not None and replica.term.leader is not None and not replica.state.hollow:
            return replica.term.leader, replica.state.configuration.members
        return self.leader_of.get(partition), () if announced is None else announced.members

    def _on_leads(self, message: Leads, src: Address) -> None:
        known = self.leaders.get(message.partition)
        if known is None or (message.epoch, message.shown) >= (known.epoch, known.shown):
            self.leaders[message.partition] = message
            self.leader_of[message.partition] = src

    # --- ports.HostPort ---------------------------------------------------------------------------------------------

    def new_machine(self, partition: int) -> Machine:
        """An empty machine of the application."""
        return self._make_machine(partition)

    def send(self, dest: Address | None, message: ReplicationMessage) -> None:
        """Send to a host, or to all (None)."""
        if message is not self._encoded[0]:                  # entries go to several replicas, encoded once
            self._encoded = message, encode(message)
        self._outputs.append(SendToHost(dest, self._encoded[1]))

    def answer(self, partition: int, ticket: Ticket, status: ReplyStatus, data: bytes) -> None:
        """Answer a client; an answer other than OK carries the leader and the replicas."""
        replica = self.parts[partition]
        leader, members = self.location(partition) if status is not ReplyStatus.OK else (None, ())
        if status is ReplyStatus.OK:
            self._watcher.answered(self.me, partition, replica.term.epoch, ticket)
        self._outputs.append(
            AnswerClient(ticket, PartitionReply(partition, 0, status, replica.state.committed, leader, members, data)))

    def schedule_flush(self, partition: int) -> None:
        """A leader has new entries; the next `drain` sends them."""
        self._unsent[partition] = None

    def report_live(self, partition: int, live: int) -> None:
        """Emit Health for a partition that this member leads, if it has too few live replicas, or enough again."""
        wanted, known = self.replicas, self._short.get(partition)
        if live < wanted and live != known:
            self._short[partition] = live
            self._outputs.append(Health(partition, live, wanted))
        elif live >= wanted and known is not None:
            del self._short[partition]
            self._outputs.append(Health(partition, live, wanted))

    def leadership_lost(self, partition: int) -> None:
        """A partition that this member led is led by another replica, or by none."""
        self._short.pop(partition, None)
        if self.leader_of.get(partition) == self.me:
            del self.leader_of[partition]

    def applied(self, partition: int, number: int, entry: ReplicatedEntry) -> None:
        """See Watcher."""
        self._watcher.applied(self.me, partition, number, entry)

    def loaded(self, partition: int, stop: int) -> None:
        """See Watcher."""
        self.count("states_loaded")
        self._watcher.loaded(self.me, partition, self.parts[partition].state.content.machine, stop)

    def count(self, name: str, number: int = 1) -> None:
        """Add to a counter."""
        self.counters.add(name, number)

    def set_timer(self, partition: int, name: str, delay_ns: int) -> None:
        """Call the replica's `due(name)` after `delay_ns`; setting it again replaces the deadline."""
        due_ns = self.now_ns + delay_ns
        self._timers[partition, name] = due_ns
        heapq.heappush(self._heap, (due_ns, partition, name))

    def timer_is_set(self, partition: int, name: str) -> bool:
        """Whether the timer is set."""
        return (partition, name) in self._timers

    def cancel_timer(self, partition: int, name: str) -> None:
        """Cancel the timer, if it is set."""
        self._timers.pop((partition, name), None)


def placement_of(hosts: Iterable[tuple[Address, int, str]], key: str) -> tuple[Placement, dict[str, Address]]:
    """(placement, id -> address) of hosts with their weights and zones. Ids are logical names, so that a member that
    restarts gets its partitions back; of two members with one name the lower address gets it as its id."""
    addresses: dict[str, Address] = {}
    candidates = []
    for member, weight, zone in sorted(hosts, key=lambda host: host[0].raw):
        name = member.name if member.name and member.name not in addresses else member.raw.hex()
        addresses[name] = member
        candidates.append(Candidate(name, weight, zone))
    return Placement(candidates, key), addresses


def place(placement: Placement, partition: int, replicas: int) -> tuple[str, ...]:
    """The ids of a partition's best hosts, spread over zones if there are several."""
    return placement.place(str(partition), replicas, spread=True).ids
