"""A model of mosquitto 2.0 in memory, and a link between it and a node of a simulated federation.

The model is the broker of this project, changed where mosquitto differs and the link depends on it: it publishes its
log, and sends a message once for each filter of a client that matches.
"""
from __future__ import annotations

from random import Random
from typing import Any

from jgroups_py.blocks.mqtt.broker.broker import Broker
from jgroups_py.blocks.mqtt.broker.options import BrokerOptions
from jgroups_py.blocks.mqtt.broker.outputs import CloseConnection, MoreToSend, PauseReading, ResumeReading
from jgroups_py.blocks.mqtt.broker.publication import Publication
from jgroups_py.blocks.mqtt.codec.decoder import Decoder
from jgroups_py.blocks.mqtt.codec.encoder import encode
from jgroups_py.blocks.mqtt.codec.packets import Packet, ProtocolVersion, SentBy, UnsubscribePacket
from jgroups_py.blocks.mqtt.mosquitto.learned import LOG
from jgroups_py.blocks.mqtt.mosquitto.link import (
    CloseBoth,
    LinkFailed,
    MosquittoLink,
    MosquittoState,
    OpenBroker,
    OpenMosquitto,
    ToBroker,
    ToMosquitto,
)
from jgroups_py.blocks.mqtt.mosquitto.options import MosquittoOptions
from tests.unit.blocks.mqtt.clients import SECOND, Bench, Client, written
from tests.unit.blocks.mqtt.federation_world import FederationWorld, Node

V5 = ProtocolVersion.MQTT_5


class ModelMosquitto(Bench):
    """See the module. reports: which kinds of log lines are configured."""

    def __init__(self, now_ns: int, reports: tuple[str, ...] = ("M/subscribe", "M/unsubscribe", "N")) -> None:
        super().__init__()
        self.now_ns = now_ns
        self.reports = reports
        self._begin()

    def _begin(self) -> None:
        broker = self.broker = Broker(BrokerOptions(sys_interval_s=0, receive_maximum=20, max_inflight=20), Random(1),
                                      now_ns=self.now_ns)
        router = broker.router
        subscribe, unsubscribe = router.subscribe, broker._handlers[UnsubscribePacket]
        accept, detach = broker._accept, broker._detach

        def copies(session: Any, subscriptions: Any, publication: Publication, now_ns: int) -> None:
            for each in subscriptions:
                merged(session, (each,), publication, now_ns)
        merged, router._deliver_merged = router._deliver_merged, copies      # type: ignore[method-assign]

        def subscribed(session: Any, filter: str, granted: Any) -> bool:
            is_new = subscribe(session, filter, granted)
            self.log("M/subscribe", f"{session.client_id} {granted.qos} {filter}")
            return is_new

        def unsubscribed(connection: Any, session: Any, packet: UnsubscribePacket, now_ns: int) -> None:
            for filter in packet.filters:
                self.log("M/unsubscribe", f"{session.client_id} {filter}")
            unsubscribe(connection, session, packet, now_ns)

        def accepted(connection: Any, packet: Any, client_id: str, now_ns: int) -> None:
            version = 5 if packet.version is V5 else 2
            self.log("N", f"New client connected from 127.0.0.1:9 as {client_id} (p{version}, "
                          f"c{int(packet.clean_start)}, k60).")
            accept(connection, packet, client_id, now_ns)

        def detached(connection: Any, *rest: Any, **options: Any) -> None:
            session = connection.session
            detach(connection, *rest, **options)
            if session is not None:
                self.log("N", f"Client {session.client_id} disconnected.")
        router.subscribe = subscribed                                        # type: ignore[method-assign]
        broker._handlers[UnsubscribePacket] = unsubscribed
        broker._accept, broker._detach = accepted, detached                  # type: ignore[method-assign]

    def settle(self) -> None:
        """As a bench does; what is for a connection that the link has just closed is lost."""
        while outputs := self.broker.drain():
            for output in outputs:
                if output.connection in self.clients:
                    self.clients[output.connection].take(output)

    def log(self, kind: str, line: str) -> None:
        """A line of its log, for those that have subscribed it."""
        if kind in self.reports:
            payload = f"1795485842: {line}".encode()[:999]
            self.broker.router.deliver(Publication(LOG + kind, payload, 2), (), self.now_ns)

    def restart(self) -> None:
        """Without persistence: nothing is left. Its clients are disconnected."""
        clients, self.clients = self.clients, {}
        self._begin()
        for client in clients.values():
            if isinstance(client, LinkSide):
                client.ended("connection reset")
            else:
                client.number = 0


class LinkSide:
    """One connection of the link, in the place of a client of a bench."""

    def __init__(self, bench: Any, sent: Any, broke: Any) -> None:
        self.bench = bench
        self.inbox: list[Packet] = []
        self.number = 0
        self._sent = sent
        self._broke = broke

    def open(self) -> None:
        self.bench.numbers += 1
        self.number = self.bench.numbers
        self.bench.clients[self.number] = self
        self.decoder = Decoder(SentBy.SERVER, V5)
        self.to_bench = Decoder(SentBy.CLIENT)
        self.inbox.clear()
        self.bench.broker.connected(self.number, self.bench.now_ns, "link")

    def take(self, output: Any) -> None:
        if isinstance(output, CloseConnection):
            self.ended(output.detail)
        elif isinstance(output, MoreToSend):
            self.bench.broker.write_ready(self.number, self.bench.now_ns)
        elif not isinstance(output, PauseReading | ResumeReading):
            self.inbox += self.decoder.feed(written(output))

    def send(self, packet: Packet) -> None:
        if self.number:
            self.bench.broker.received(self.number, self.to_bench.feed(encode(packet, V5)), self.bench.now_ns)

    def deliver(self) -> bool:
        inbox, self.inbox = self.inbox, []
        if inbox:
            self._sent(inbox, self.bench.now_ns)
        return bool(inbox)

    def ended(self, why: str) -> None:
        """The other end has closed it. What had been sent before is handled first."""
        self.deliver()
        self.number = 0
        self._broke(why, self.bench.now_ns)

    def close(self) -> None:
        """This end closes."""
        number, self.number = self.number, 0
        self.inbox.clear()
        if number:
            self.bench.clients.pop(number, None)
            self.bench.broker.lost(number, self.bench.now_ns)


class LinkedNode:
    """A node of a world, a model of mosquitto, the link between them."""

    def __init__(self, world: FederationWorld, name: str, model: ModelMosquitto | None = None, **options: Any) -> None:
        self.world = world
        self.name = name
        self.model = model or ModelMosquitto(world.now_ns)
        self.failed = ""
        self.options = options
        self.is_cut = False
        self.begin()

    def begin(self) -> None:
        """A new life of the link, at the node's life of now."""
        node = self.node
        self.link = MosquittoLink(MosquittoOptions(**{"name": self.name, **self.options}), node.broker,
                                  node.federation.interest_of_peers, self.world.rng, self.world.now_ns)
        put = node.broker.router.retained.put

        def watched(publication: Publication) -> bool:
            kept = put(publication)
            self.link.retained_changed(publication.topic)
            return kept
        node.broker.router.retained.put = watched        # type: ignore[method-assign]
        self.mosquitto = LinkSide(self.model, self.link.mosquitto_sent, self.link.broke)
        self.broker = LinkSide(node, self.link.broker_sent, self.link.broke)

    @property
    def node(self) -> Node:
        return self.world.nodes[self.name]

    def settle(self) -> bool:
        """Carry out what the link wants; whether something was done."""
        self.model.now_ns = self.world.now_ns
        self.link.tick(self.world.now_ns)
        found = False
        while True:
            outputs = self.link.drain(self.world.now_ns)
            for output in outputs:
                self._carry_out(output)
            self.model.settle()
            self.node.settle()
            if not (outputs or self.mosquitto.deliver() or self.broker.deliver()):
                return found
            found = True

    def _carry_out(self, output: Any) -> None:
        if isinstance(output, ToMosquitto):
            self.mosquitto.send(output.packet)
        elif isinstance(output, ToBroker):
            self.broker.send(output.packet)
        elif isinstance(output, OpenMosquitto):
            if self.is_cut:
                self.link.broke("refused", self.world.now_ns)
            else:
                self.mosquitto.open()
                self.link.mosquitto_opened(self.world.now_ns)
        elif isinstance(output, OpenBroker):
            self.broker.open()
            self.link.broker_opened(self.world.now_ns)
        elif isinstance(output, CloseBoth):
            self.mosquitto.close()
            self.broker.close()
        else:
            assert isinstance(output, LinkFailed)
            self.failed = output.why

    def cut(self) -> None:
        """The connection to mosquitto breaks; what was under way is lost."""
        self.mosquitto.inbox.clear()
        self.mosquitto.close()
        self.link.broke("cut", self.world.now_ns)

    def client(self, client_id: str, version: ProtocolVersion = V5, **options: Any) -> Client:
        """A client of mosquitto."""
        return self.model.client(client_id, version, **options)

    @property
    def is_up(self) -> bool:
        return self.link.state is MosquittoState.UP

    def count(self, name: str) -> int:
        return self.link.counters[name]


def linked(
    names: str, seed: int = 0, broker: dict[str, Any] | None = None, **federation: Any,
) -> tuple[FederationWorld, list[LinkedNode]]:
    """A federation with a mosquitto at each node, once all links are up. federation: options of FederationCore."""
    world = FederationWorld(names, seed, broker=broker, **federation)
    nodes = [LinkedNode(world, name) for name in names]
    run(world, nodes, 1.0)
    assert all(each.is_up for each in nodes)
    return world, nodes


def run(world: FederationWorld, nodes: list[LinkedNode], seconds: float, step_s: float = 0.01) -> None:
    """Time passes."""
    end_ns = world.now_ns + round(seconds * SECOND)
    while True:
        for each in nodes:
            if each.node.is_live:
                each.settle()
        if world.now_ns >= end_ns:
            return
        world.run(min(step_s, (end_ns - world.now_ns) / SECOND))
