"""Hosts of partitions without channels: messages take 200 us at first, views come as the test says, time is virtual."""
from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from hashlib import blake2b

import attrs

from jgroups_py.blocks.placement import Candidate
from jgroups_py.blocks.replication.host import PartitionHost
from jgroups_py.blocks.replication.messages import PartitionReply, Verb
from jgroups_py.blocks.replication.options import Options
from jgroups_py.blocks.replication.outputs import AnswerClient, Health, SendToHost
from jgroups_py.blocks.replication.replica import PartitionReplica
from jgroups_py.blocks.replication.routing import Operation, Routing
from jgroups_py.model.address import Address
from jgroups_py.model.units import millis, seconds
from jgroups_py.model.view import View, ViewId
from jgroups_py.testing.simulation.ledger import Records

LATENCY_NS = 200_000
ANSWER_NS = millis(300)                    # until a client asks another member
PAUSE_NS = millis(20)
OPTIONS = Options(settle_ns="100ms")


def address_of(name: str, number: int = 1) -> Address:
    """The same for the same start of a member."""
    return Address(blake2b(f"{name}#{number}".encode(), digest_size=16).digest(), name)


class Cluster:
    """Hosts by name. `cut`: (source, destination) pairs of names whose messages are lost."""

    def __init__(
        self, names: str, partitions: int = 1, replicas: int = 3, options: Options = OPTIONS,
        machine: Callable[[], Records] = Records,
    ) -> None:
        self.now_ns = 0
        self.machine = machine
        self.latency_ns = LATENCY_NS
        self.options = options
        self.hosts: dict[str, PartitionHost] = {}
        self.cut: dict[tuple[str, str], None] = {}
        self.answers: dict[int, PartitionReply] = {}
        self.health: list[Health] = []
        self.views = 0
        self._starts: dict[str, int] = {}
        self._flights: list[tuple[int, int, str, str, bytes]] = []
        self._order = 0
        self._tickets = 0
        for name in names:
            self.start(name)
        self.view(names)
        self.run(millis(5))
        self.hosts[names[0]].create(b"store", partitions, replicas, self.now_ns)
        self._settle(names[0])
        self.run(seconds(1))

    # --- members ----------------------------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        """A member starts, with nothing."""
        number = self._starts[name] = self._starts.get(name, 0) + 1
        self.hosts[name] = PartitionHost(address_of(name, number), lambda partition: self.machine(), self.options)

    def crash(self, name: str) -> None:
        """Nothing is left of it; views follow when the test gives them."""
        del self.hosts[name]

    def view(self, *groups: Iterable[str]) -> None:
        """Each group gets a view of its members."""
        for names in groups:
            self.views += 1
            members = tuple(self.hosts[name].me for name in names)
            for name in names:
                self.hosts[name].view(View(ViewId(self.views, members[0]), members), self.now_ns)
                self._settle(name)

    def split(self, *groups: Iterable[str]) -> None:
        """No message passes between the groups, and each gets its view."""
        sides = {name: number for number, names in enumerate(groups) for name in names}
        self.cut = {(one, other): None for one in sides for other in sides if sides[one] != sides[other]}
        self.view(*groups)

    def merge(self, names: Iterable[str]) -> None:
        """All is as it was."""
        self.cut = {}
        self.view(names)

    # --- what tests look at -----------------------------------------------------------------------------------------

    def replica(self, name: str, partition: int = 0) -> PartitionReplica:
        """A partition at a member."""
        return self.hosts[name].parts[partition]

    def leaders(self, partition: int = 0) -> list[str]:
        """Who leads a partition, and could acknowledge."""
        return [name for name, host in self.hosts.items()
                if partition in host.parts and host.parts[partition].is_ready]

    def leader(self, partition: int = 0) -> str:
        """Its leader, the newest one."""
        return max(self.leaders(partition), key=lambda name: self.replica(name, partition).term.epoch)

    def members(self, partition: int = 0) -> list[str]:
        """The members that have it, as its leader sees it."""
        leader = self.replica(self.leader(partition), partition)
        return sorted(member.name for member in leader.state.configuration.members)

    def values(self, name: str, partition: int = 0) -> list[bytes]:
        """What a member has of it."""
        machine = self.replica(name, partition).state.content.machine
        assert isinstance(machine, Records)
        return machine.values

    # --- time -------------------------------------------------------------------------------------------------------

    def run(self, for_ns: int) -> None:
        """Let time pass."""
        self.run_until(lambda: False, for_ns)

    def run_until(self, holds: Callable[[], bool], limit_ns: int) -> bool:
        """Let time pass until something holds; whether it came to hold within the limit."""
        stop_ns = self.now_ns + limit_ns
        while not holds():
            due = [(deadline, 0, name) for name, host in self.hosts.items()
                   if (deadline := host.next_deadline_ns) is not None]
            if self._flights:
                due.append((self._flights[0][0], 1, ""))
            at_ns, is_message, name = min(due, default=(stop_ns + 1, 0, ""))
            if at_ns > stop_ns:
                self.now_ns = stop_ns
                return holds()
            self.now_ns = max(self.now_ns, at_ns)
            if is_message:
                self._arrive(*heapq.heappop(self._flights)[2:])
            else:
                self.hosts[name].advance(self.now_ns)
                self._settle(name)
        return True

    def _arrive(self, src: str, dest: str, data: bytes) -> None:
        if dest in self.hosts and (src.partition("#")[0], dest) not in self.cut:
            name, _, number = src.partition("#")
            self.hosts[dest].receive(address_of(name, int(number)), data, self.now_ns)
            self._settle(dest)

    def _settle(self, name: str) -> None:
        host = self.hosts[name]
        for output in host.drain():
            if isinstance(output, SendToHost):
                dests = [member.name for member in host.members] if output.dest is None else [output.dest.name]
                for dest in dests:
                    self._order += 1
                    delay_ns = 0 if dest == name else self.latency_ns
                    heapq.heappush(self._flights, (self.now_ns + delay_ns, self._order, f"{name}#{self._starts[name]}",
                                                   dest, output.data))
            elif isinstance(output, AnswerClient):
                assert isinstance(output.ticket, int)
                self.answers[output.ticket] = output.reply
            else:
                self.health.append(output)

    # --- clients ----------------------------------------------------------------------------------------------------

    def routing(self) -> Routing:
        """What a client of these hosts begins with."""
        self._tickets += 1
        replicas = next(iter(self.hosts.values())).replicas
        return Routing([Candidate(name) for name in self.hosts], replicas, self._tickets.to_bytes(16, "big"))

    def ask(self, name: str, operation: Operation) -> PartitionReply | None:
        """What a member answers; None: nothing in time."""
        self._tickets += 1
        ticket = self._tickets
        self.hosts[name].request(ticket, operation.request, self.now_ns)
        self._settle(name)
        self.run_until(lambda: ticket in self.answers or name not in self.hosts, ANSWER_NS)
        return self.answers.pop(ticket, None)

    def call(self, routing: Routing, verb: Verb, data: bytes = b"", partition: int = 0, tries: int = 200) -> Call:
        """A whole operation, as a client does it."""
        operation = routing.begin(partition, verb, data)
        for _ in range(tries):
            target = routing.target(operation)
            reply = self.ask(target, operation) if target in self.hosts else None
            if reply is None:
                routing.failed(operation, target or "")
            elif routing.replied(operation, target or "", reply):
                return Call(operation, target or "", reply)
            if reply is None or reply.leader is None:
                self.run(PAUSE_NS)
        raise AssertionError(f"{verb.name} was not answered in {tries} tries")

    def write(self, routing: Routing, data: bytes, partition: int = 0) -> int:
        """The place of what is written."""
        return int.from_bytes(self.call(routing, Verb.WRITE, data, partition).reply.data, "big")


@attrs.frozen
class Call:
    """An operation that was answered: the member that did, and the answer."""

    operation: Operation
    by: str
    reply: PartitionReply
