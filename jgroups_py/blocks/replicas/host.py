"""Host: all partitions of one member, pure. Views, messages, requests and time go in; messages and answers come out.

It knows the hosts of the view by their Hellos, places partitions on them (blocks/placement), makes and drops replicas
as their leaders say, and tells clients where to go. What happens inside a partition is in replica.py.
"""
from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

from jgroups_py.address import Address
from jgroups_py.blocks.placement import Candidate, Placement
from jgroups_py.blocks.replicas.leading import Leading
from jgroups_py.blocks.replicas.log import Entry
from jgroups_py.blocks.replicas.machine import Machine
from jgroups_py.blocks.replicas.messages import (
    Create,
    Hello,
    Leads,
    Message,
    Reply,
    Request,
    Status,
    Verb,
    decode,
    encode,
)
from jgroups_py.blocks.replicas.options import Options
from jgroups_py.blocks.replicas.outputs import Answer, Health, Output, Send, Watcher
from jgroups_py.blocks.replicas.quorums import Configuration
from jgroups_py.blocks.replicas.replica import RECEIVERS, Replica
from jgroups_py.blocks.replicas.state import ReplicaState, Ticket
from jgroups_py.codec import Interner
from jgroups_py.counters import Counters
from jgroups_py.errors import ChannelError, WireError
from jgroups_py.view import View

MAX_PARTITIONS = 1 << 20
MAX_REPLICAS = 15


Store = tuple[bytes, int, int]
"""(id, number of partitions, replicas of each)."""


class StoreExistsError(ChannelError):
    """There is a store in this group already."""


class Host:
    """See the module. `drain` gives what is to be done; `next_deadline_ns` is when `advance` is due."""

    def __init__(
        self, me: Address, make: Callable[[int], Machine], options: Options | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        self.me = me
        self.options = options or Options()
        self.make_machine = make
        self._outputs: list[Output] = []
        self._stirred: dict[int, Leading] = {}             # leaders with new entries
        self.now_ns = 0
        self.members: dict[Address, None] = {}             # of the view
        self.hellos: dict[Address, Hello] = {}             # of hosts in the view
        self.draining = False
        self.store: Store | None = None
        self.parts: dict[int, Replica] = {}
        self.leaders: dict[int, Leads] = {}                # partition -> what its leader said last
        self.leader_of: dict[int, Address] = {}            # partition -> who said it, while in the view
        self.counters = Counters()
        self._watcher = watcher or Watcher()
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
        """Begin the store: once, at one member, whose view it is made for.

        name: of this store; whoever makes two of them must give them different ones, random ones for example.

        Raises:
            StoreExistsError: there is one already.
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
        """The group's view."""
        self.now_ns = now_ns
        self.members = dict.fromkeys(view.members)
        self.hellos = {member: hello for member, hello in self.hellos.items() if member in self.members}
        self.leader_of = {partition: member for partition, member in self.leader_of.items() if member in self.members}
        self._hosts_changed()
        self.hello()
        for replica in self.parts.values():
            replica.view_changed()

    def vacate(self, now_ns: int) -> None:
        """Move all that we hold to others, as far as there are others; `is_empty` tells when it is done."""
        self.now_ns = now_ns
        self.draining = True
        self.hello()

    @property
    def is_empty(self) -> bool:
        """Whether no configuration that we know of needs us."""
        return not any(replica.is_needed for replica in self.parts.values())

    def receive(self, src: Address, data: bytes, now_ns: int) -> None:
        """A message of another host, or of ourselves; Requests and Replies are not for here."""
        self.now_ns = now_ns
        try:
            message = decode(data, self._addresses)
        except WireError:
            return self.count("malformed")
        if src not in self.members:
            return self.count("from_strangers")
        if isinstance(message, Hello):
            return self._heard_hello(message, src)
        if isinstance(message, Create):
            return self._created(message)
        if type(message) not in RECEIVERS or self._is_foreign(src):
            return self.count("not_understood")
        replica = self._replica(message.partition)           # type: ignore[attr-defined]
        if isinstance(message, Leads):
            self._heard_leads(message, src)
        if replica is not None:
            replica.receive(message, src)
        return None

    def request(self, ticket: Ticket, request: Request, now_ns: int) -> None:
        """A client's request; an Answer with its ticket follows, now or later."""
        self.now_ns = now_ns
        if self.store is None or request.partition >= self.store[1]:
            status = Status.NO_STORE
        else:
            replica = self.parts.get(request.partition)
            if replica is not None:
                return replica.request(ticket, Verb(request.verb), request.request, request.least, request.data)
            status = Status.REDIRECT
        leader, members = self.whereabouts(request.partition)
        return self._outputs.append(Answer(ticket, Reply(request.partition, 0, status, 0, leader, members, b"")))

    def advance(self, now_ns: int) -> None:
        """Time has passed: timers that are due fire."""
        self.now_ns = now_ns
        while (due_ns := self.next_deadline_ns) is not None and due_ns <= now_ns:
            _, partition, name = heapq.heappop(self._heap)
            del self._timers[partition, name]
            self.parts[partition].due(name)

    # --- what comes out ---------------------------------------------------------------------------------------------

    def drain(self) -> list[Output]:
        """What is to be done, since it was last asked for. Entries that were appended meanwhile go out together."""
        stirred, self._stirred = self._stirred, {}
        for replica in stirred.values():
            replica.flush()
        outputs, self._outputs = self._outputs, []
        return outputs

    def stir(self, replica: Leading) -> None:
        """A leader has new entries."""
        self._stirred[replica.partition] = replica

    # --- hosts ------------------------------------------------------------------------------------------------------

    def hello(self) -> None:
        """Tell all who we are."""
        self.send(None, Hello(self.options.weight, self.options.zone, self.draining, self.store))

    def _heard_hello(self, hello: Hello, src: Address) -> None:
        if hello == self.hellos.get(src):
            return
        self.hellos[src] = hello
        self._hosts_changed()
        if self.store is None and hello.store is not None:
            self.store = hello.store
            self.hello()
        if self._is_foreign(src):
            self.count("foreign_stores")
        for partition, replica in self.parts.items():
            if replica.is_leader:
                self.set_timer(partition, "review", self.options.settle_ns)

    def _is_foreign(self, src: Address) -> bool:
        """Whether a host has another store than we: nothing of it is for us."""
        hello = self.hellos.get(src)
        return (hello is not None and hello.store is not None and self.store is not None
                and hello.store != self.store)

    def _created(self, message: Create) -> None:
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
        """Of the hosts that may have partitions, and which address stands behind an id."""
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
        """The members, the best first; those that are no candidates (any more) last."""
        ranking = self._ranking.get(partition)
        if ranking is None:
            placement, addresses = self.placement()
            ranking = self._ranking[partition] = [
                addresses[candidate.id] for candidate in placement.ranking(str(partition))]
        order = {member: at for at, member in enumerate(ranking)}
        return sorted(members, key=lambda member: (order.get(member, len(order)), member.raw))

    def knows(self, members: Iterable[Address]) -> bool:
        """Whether all of them that are in the view have said hello."""
        return all(member in self.hellos or member not in self.members for member in members)

    # --- what replicas ask for --------------------------------------------------------------------------------------

    def _replica(self, partition: int) -> Replica | None:
        if self.store is None or partition >= self.store[1]:
            self.count("of_no_store")
            return None
        if partition not in self.parts:
            self.parts[partition] = Replica(self, partition)
        return self.parts[partition]

    def send(self, dest: Address | None, message: Message) -> None:
        """Say something to a host."""
        self._outputs.append(Send(dest, encode(message)))

    def answer(self, ticket: Ticket, replica: ReplicaState, status: Status, data: bytes = b"") -> None:
        """Answer a client."""
        leader, members = self.whereabouts(replica.partition) if status is not Status.OK else (None, ())
        if status is Status.OK:
            self._watcher.answered(replica, ticket)
        self._outputs.append(
            Answer(ticket, Reply(replica.partition, 0, status, replica.committed, leader, members, data)))

    def whereabouts(self, partition: int) -> tuple[Address | None, tuple[Address, ...]]:
        """(leader if known, replicas as far as known)."""
        replica, said = self.parts.get(partition), self.leaders.get(partition)
        if replica is not None and replica.leader is not None and not replica.hollow:
            return replica.leader, replica.configuration.members
        return self.leader_of.get(partition), () if said is None else said.members

    def leading(self, replica: Leading) -> None:
        """We lead a partition, or its replicas changed: tell all, for routing and for those who may drop theirs."""
        leadership = replica.leads()
        holders = dict.fromkeys(leadership.holders())
        if replica.log.changed_at >= replica.committed:
            holders |= dict.fromkeys(replica.log.configuration_before(replica.log.changed_at).everybody)
        leadership.shown += 1
        self.send(None, Leads(replica.partition, replica.epoch, leadership.shown, replica.configuration.members,
                              tuple(holders)))
        self._watcher.led(replica)
        self.set_timer(replica.partition, "review", self.options.settle_ns)

    def _heard_leads(self, message: Leads, src: Address) -> None:
        known = self.leaders.get(message.partition)
        if known is None or (message.epoch, message.shown) >= (known.epoch, known.shown):
            self.leaders[message.partition] = message
            self.leader_of[message.partition] = src

    def judge(self, replica: Replica) -> None:
        """Report a partition that we lead, if it has too few living replicas, or no longer."""
        live = sum(member in self.members for member in replica.configuration.members)
        wanted, known = self.replicas, self._short.get(replica.partition)
        if live < wanted and live != known:
            self._short[replica.partition] = live
            self._outputs.append(Health(replica.partition, live, wanted))
        elif live >= wanted and known is not None:
            del self._short[replica.partition]
            self._outputs.append(Health(replica.partition, live, wanted))

    def steps_down(self, replica: ReplicaState) -> None:
        """A partition that we led is no longer our concern."""
        self._short.pop(replica.partition, None)
        if self.leader_of.get(replica.partition) == self.me:
            del self.leader_of[replica.partition]

    def applied(self, replica: ReplicaState, number: int, entry: Entry) -> None:
        """See Watcher."""
        self._watcher.applied(replica, number, entry)

    def loaded(self, replica: ReplicaState, stop: int) -> None:
        """See Watcher."""
        self.count("states_loaded")
        self._watcher.loaded(replica, stop)

    def dropped(self, replica: ReplicaState) -> None:
        """A replica gave up its data."""
        self.count("replicas_dropped")

    def count(self, name: str, number: int = 1) -> None:
        """Count under a name."""
        self.counters.add(name, number)

    # --- timers -----------------------------------------------------------------------------------------------------

    def set_timer(self, partition: int, name: str, delay_ns: int) -> None:
        """See ReplicaState.set_timer."""
        due_ns = self.now_ns + delay_ns
        self._timers[partition, name] = due_ns
        heapq.heappush(self._heap, (due_ns, partition, name))

    def timer_is_set(self, partition: int, name: str) -> bool:
        """Whether it will fire."""
        return (partition, name) in self._timers

    def cancel_timer(self, partition: int, name: str) -> None:
        """It will not fire."""
        self._timers.pop((partition, name), None)


def placement_of(hosts: Iterable[tuple[Address, int, str]], key: str) -> tuple[Placement, dict[str, Address]]:
    """(placement, id -> address) of hosts with their weights and zones. Ids are logical names, so that a member that
    restarts gets the partitions that it had; of two members with one name the lower address has it."""
    addresses: dict[str, Address] = {}
    candidates = []
    for member, weight, zone in sorted(hosts, key=lambda host: host[0].raw):
        name = member.name if member.name and member.name not in addresses else member.raw.hex()
        addresses[name] = member
        candidates.append(Candidate(name, weight, zone))
    return Placement(candidates, key), addresses


def place(placement: Placement, partition: int, replicas: int) -> tuple[str, ...]:
    """The ids of a partition's best hosts, over zones if there are several."""
    return placement.place(str(partition), replicas, spread=True).ids
