"""Partitions with replicas (blocks/replication) on the simulator: hosts, clients, operations; `--profile replicas`.

Every member hosts partitions and is a client, which writes, reads strongly and reads at any replica, with the routing
of real clients. Each answer is checked at once, and all of them at the end (ledger.py).
"""
from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import attrs

import jgroups_py as jg
from jgroups_py.blocks.placement import Candidate
from jgroups_py.blocks.replication.host import PartitionHost
from jgroups_py.blocks.replication.messages import PartitionReply, PartitionRequest, Verb, decode, encode
from jgroups_py.blocks.replication.options import Options
from jgroups_py.blocks.replication.outputs import AnswerClient, SendToHost
from jgroups_py.blocks.replication.routing import Operation, Routing
from jgroups_py.model.address import Address
from jgroups_py.model.errors import ChannelError
from jgroups_py.model.units import NS_PER_S
from jgroups_py.simulator.plan_parts import WHOLE, PlanPart
from jgroups_py.simulator.runner import APPLICATIONS, Outcome
from jgroups_py.testing.simulation.alarm import Alarm
from jgroups_py.testing.simulation.ledger import Broken, Records, RequestTicket, StoreLedger, values_of
from jgroups_py.testing.simulation.trial import Trial
from jgroups_py.wire.codec import Interner

PROFILE = "replicas"
PARTITIONS = 3
PATIENCE_S = 3.0                           # timeout of an operation
ANSWER_S = 0.7                             # until the client tries another replica
PAUSE_S = 0.15                             # backoff after an answer without a useful hint
COUNTED = {"elections_won": "elections", "configurations": "changes of replicas", "states_loaded": "states taken over",
           "replicas_dropped": "replicas dropped", "handed_over": "leaders moved"}
BURST = (1, 1, 2, 3, 5, 8)                 # operations at a time


@attrs.frozen
class Setting:
    """The draws of a seed, besides its faults."""

    replicas: int
    enough: int                            # hosts at which the store is created
    options: dict[str, Any]


def setting_of(seed: int) -> Setting:
    """Draw small limits, so that state transfers in several pieces occur."""
    rng = Random(f"{seed}/replicas")
    return Setting(
        rng.choice((1, 2, 3, 3, 3, 3, 3, 4, 5)), rng.choice((1, 2, 3, 3, 4)),
        {"keep_entries": rng.choice((1, 3, 10, 100)), "piece_bytes": 1024, "window_entries": rng.choice((1, 4, 1000)),
         "settle_ns": rng.choice(("100ms", "300ms", "600ms")), "window_pieces": rng.choice((1, 4)),
         "commit_notice_ns": rng.choice(("1ms", "5ms", "50ms")), "elect_ns": rng.choice(("20ms", "200ms")),
         "elect_step_ns": rng.choice(("1ms", "1ms", "150ms"))})


class StoreRun:
    """The objects that all members of one seed share."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.setting = setting_of(seed)
        self.now_ns = [0]
        self.ledger = StoreLedger(self.now_ns)
        self.created = False
        self.hosts: list[PartitionHost] = []                        # of all incarnations

    def start(self, channel: Any) -> Holder:
        """The application of a member that starts."""
        return Holder(channel, self)

    def reached(self) -> dict[str, int]:
        """State -> how often the run reached it."""
        counts = Counter(self.ledger.counts)
        for host in self.hosts:
            counts.update({COUNTED[name]: number for name, number in host.counters.items() if name in COUNTED})
        return dict(counts)

    def at_end(self, holders: list[Holder]) -> None:
        """Check P2 and P6 once all is at rest."""
        self.ledger.check_end(holder.host for holder in holders if holder.host is not None)


class Holder(jg.Receiver):
    """One member: a host and a client."""

    def __init__(self, channel: Any, run: StoreRun) -> None:
        self.channel = channel
        self.run = run
        self.host: PartitionHost | None = None
        self.routing = Routing((), run.setting.replicas, b"")
        self.waiting: dict[int, Pending] = {}
        self.seen: dict[int, list[bytes]] = {}             # partition -> values that this client has read, for P5
        self.own_writes: dict[int, dict[bytes, int]] = {}        # partition -> own value -> when it was acknowledged
        self.written = 0
        self.addresses: dict[str, Address] = {}
        self._interner = Interner()
        self.alarm = Alarm(channel, self.now_ns, self.wake)
        channel.receiver = self

    # --- the group --------------------------------------------------------------------------------------------------

    def view_accepted(self, view: jg.View) -> None:
        if self.host is None:
            rng = Random(f"{self.run.seed}/{self.channel.name}")
            options = Options(weight=rng.choice((1, 1, 2, 3)), zone=rng.choice(("", "", "x", "y")),
                              **self.run.setting.options)
            self.host = PartitionHost(self.channel.address, lambda partition: Records(), options, self.run.ledger)
            self.run.hosts.append(self.host)
            self.routing.name = self.channel.address.raw
        self.addresses = {member.name: member for member in view.members}
        self.host.view(view, self.now_ns())
        self.settle()

    def receive(self, message: jg.Message) -> None:
        host, now_ns = self.host, self.now_ns()
        assert host is not None, "messages are delivered in views"
        assert message.src is not None, "a delivered message has a source"
        decoded = decode(message.payload, self._interner)
        if isinstance(decoded, PartitionRequest):
            host.request(RequestTicket(message.src, decoded.number, Verb(decoded.verb)), decoded, now_ns)
        elif isinstance(decoded, PartitionReply):
            self.replied(message.src, decoded)
        else:
            host.receive(message.src, message.payload, now_ns)
        self.settle()

    def now_ns(self) -> int:
        self.run.now_ns[0] = round(self.channel.now * NS_PER_S)
        return self.run.now_ns[0]

    def settle(self) -> None:
        """Carry out the outputs of the host, and schedule its next deadline."""
        host = self.host
        assert host is not None, "only a member settles"
        for output in host.drain():
            if isinstance(output, SendToHost):
                self.send(output.dest, output.data)
            elif isinstance(output, AnswerClient):
                assert isinstance(output.ticket, RequestTicket), "the tickets of this simulation"
                self.send(output.ticket.src, encode(output.reply.numbered(output.ticket.number)))
        self.alarm.set(host.next_deadline_ns)

    def wake(self) -> None:
        if self.host is not None and self.channel.state is jg.ChannelState.CONNECTED:
            self.host.advance(self.now_ns())
            self.settle()

    def send(self, dest: Address | None, data: bytes) -> None:
        try:
            self.channel.send(dest, data)
        except ChannelError:
            self.run.ledger.count("messages refused by the channel")

    # --- the client -------------------------------------------------------------------------------------------------

    def act(self, rng: Random) -> None:
        """Start some operations; the first member that sees enough hosts creates the store."""
        host = self.host
        if host is None:
            return
        self.now_ns()
        if host.store is None:
            if not self.run.created and len(host.hellos) >= self.run.setting.enough:
                self.run.created = True
                host.create(b"store", PARTITIONS, self.run.setting.replicas, self.now_ns())
                self.settle()
            return
        if rng.random() < 0.02:
            self.vacate()
        for _ in range(rng.choice(BURST)):
            self.begin(rng.randrange(PARTITIONS), rng.choice((Verb.WRITE, Verb.WRITE, Verb.STRONG, Verb.READ)))

    def vacate(self) -> None:
        """Move all replicas to other hosts."""
        if self.host is not None:
            self.host.vacate(self.now_ns())
            self.settle()

    def begin(self, partition: int, verb: Verb) -> None:
        host = self.host
        assert host is not None, "a member"
        self.routing.hosts_changed(Candidate(member.name, hello.weight, hello.zone)
                                   for member, hello in host.hellos.items() if not hello.draining)
        value = b""
        if verb is Verb.WRITE:
            self.written += 1
            value = f"{host.me.raw.hex()[:6]}.{self.written}".encode()
        operation = self.routing.begin(partition, verb, value)
        pending = self.waiting[operation.request.number] = Pending(
            operation, self.now_ns(), seen=len(self.seen.get(partition, ())))
        self.run.ledger.count("operations")
        self.try_next(pending)

    def try_next(self, pending: Pending) -> None:
        """Send the request to the next replica that may answer."""
        target = self.routing.target(pending.operation)
        pending.dest = self.addresses.get(target or "")
        pending.tries += 1
        if pending.dest is not None:
            self.send(pending.dest, encode(pending.operation.request))
        self.channel.later(ANSWER_S if pending.dest is not None else PAUSE_S, self.too_late, pending, pending.tries)

    def too_late(self, pending: Pending, tries: int) -> None:
        number = pending.operation.request.number
        if self.waiting.get(number) is not pending or pending.tries != tries:
            return
        if self.now_ns() - pending.began_ns > PATIENCE_S * NS_PER_S:
            del self.waiting[number]
            self.run.ledger.count("operations given up")
            return
        if self.channel.state is jg.ChannelState.CONNECTED:
            if pending.dest is not None:
                self.routing.failed(pending.operation, pending.dest.name)
            self.try_next(pending)

    def replied(self, src: Address, reply: PartitionReply) -> None:
        pending = self.waiting.get(reply.number)
        if pending is None or pending.dest != src:
            return
        if not self.routing.replied(pending.operation, src.name, reply):
            pending.tries += 1
            pending.dest = None
            self.channel.later(PAUSE_S, self.too_late, pending, pending.tries)
            return
        del self.waiting[reply.number]
        self.run.ledger.count("operations answered")
        self.answered(pending, reply)

    def answered(self, pending: Pending, reply: PartitionReply) -> None:
        request, ledger = pending.operation.request, self.run.ledger
        now_ns = self.now_ns()
        if request.verb == Verb.WRITE:
            place = int.from_bytes(reply.data, "big")
            self.own_writes.setdefault(request.partition, {})[request.data] = now_ns
            ledger.wrote(request.partition, request.data, place, pending.began_ns)
            return
        values = values_of(reply.data)
        if request.verb == Verb.STRONG:
            ledger.read_strongly(request.partition, values, pending.began_ns)
        self.check_monotonic(request.partition, values, pending)

    def check_monotonic(self, partition: int, values: list[bytes], pending: Pending) -> None:
        """Check P5: a read contains what the client had read, and written, when the read began."""
        seen, written = self.seen.get(partition, []), self.own_writes.get(partition, {})
        common = min(len(seen), len(values))
        lacks = [value for value, ended_ns in written.items() if ended_ns < pending.began_ns and value not in values]
        if values[:common] != seen[:common] or len(values) < pending.seen or lacks:
            raise Broken("P5", f"{self.channel.name} read {values} of partition {partition}, having seen "
                               f"{seen[:pending.seen]} and written {lacks}")
        if len(values) > len(seen):
            self.seen[partition] = values


@attrs.define(eq=False)
class Pending:
    """An operation under way. seen: how many values of its partition the client had read when it began."""

    operation: Operation
    began_ns: int
    dest: Address | None = None
    tries: int = 0
    seen: int = 0


def act(holder: Holder, rng: Random) -> None:
    """Start operations of a member: the trial's `act`."""
    holder.act(rng)


def run(seed: int, part: PlanPart = WHOLE, keep: bool = False) -> Outcome:
    """Run a seed, or a part of it."""
    shared = StoreRun(seed)
    outcome = Trial(PROFILE, shared.start, act, at_end=shared.at_end, falls_silent=True).run(seed, part, keep=keep)
    return attrs.evolve(outcome, reached={**outcome.reached, **shared.reached()})


APPLICATIONS[PROFILE] = run
