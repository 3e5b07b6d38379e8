"""gmqttd v0.5.0 in memory: the federation plugin as it is, with its faults, and a network of nodes with one clock.

Written after plugin/federation/{federation,peer,hooks,membership}.go. Faults that are kept: an error that the sender
sees first ends its stream for good, without a word (peer.go, line 372: `err :=` shadows err), so does a message that
protobuf cannot write; retained messages of a clean start are published again; an empty retained one is kept.
"""
from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from random import Random

import attrs

from jgroups_py.blocks.mqtt.broker.publication import SECOND, Publication
from jgroups_py.blocks.mqtt.broker.retained import RetainedTable
from jgroups_py.blocks.mqtt.broker.subscription_tree import SubscriptionTree, split_shared
from jgroups_py.blocks.mqtt.gmqtt.link import (
    EndIncoming,
    EndOutgoing,
    GmqttLink,
    GmqttRefusal,
    RejoinSerf,
    SayHello,
    SendEvents,
)
from jgroups_py.blocks.mqtt.gmqtt.options import GmqttOptions
from tests.unit.blocks.mqtt.gmqtt_schema import generated

API = generated()
LATENCY_NS = SECOND // 1000
SEEN = 100


class Network:
    """Virtual time, and what is to happen in it."""

    def __init__(self) -> None:
        self.now_ns = SECOND
        self.nodes: dict[str, Model | Ours] = {}
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0

    def later(self, delay_ns: int, what: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._events, (self.now_ns + delay_ns, self._number, what))

    def run(self, seconds: float) -> None:
        """Let time pass."""
        until_ns = self.now_ns + round(seconds * SECOND)
        while True:
            links = [node for node in self.nodes.values() if isinstance(node, Ours)]
            for node in links:
                node.carry_out()
            due = [at for at in (node.link.next_deadline_ns() for node in links) if at is not None]
            next_ns = min([*due, *(event[0] for event in self._events[:1]), until_ns])
            self.now_ns = max(self.now_ns, next_ns)
            if self._events and self._events[0][0] <= self.now_ns:
                heapq.heappop(self._events)[2]()
            elif due and min(due) <= self.now_ns:
                for node in links:
                    node.link.tick(self.now_ns)
            if self.now_ns >= until_ns and not (self._events and self._events[0][0] <= until_ns):
                for node in links:
                    node.carry_out()
                return

    def up(self, name: str) -> None:
        """Serf: a node joins, and all others and it learn of it."""
        for other in list(self.nodes):
            if other != name:
                self.nodes[other].joined(name)
                self.nodes[name].joined(other)

    def down(self, name: str, left: bool = False) -> None:
        """Serf: a node failed, or left."""
        for other, node in self.nodes.items():
            if other != name:
                node.gone(name, left)


class ServerStream:
    """A stream from one node to another; both ends see its end."""

    def __init__(self, client: str, server: str) -> None:
        self.client, self.server = client, server
        self.is_open = True
        self.number = 0                      # at a server of ours


@attrs.define(eq=False)
class PeerOfModel:
    """gmqttd's client for another node: peer.go."""

    session: str
    next_id: int = 0
    events: list[object] = attrs.field(factory=list)     # not acknowledged, with their ids
    read_from: int = 0                                   # the id that is sent next
    stream: ServerStream | None = None
    is_dead: bool = False                                # by its fault, nobody reconnects
    reconnects: int = 0


@attrs.define(eq=False)
class SessionAtModel:
    """gmqttd's server: what it knows of a client."""

    id: str
    next_id: int = 0
    seen: list[int] = attrs.field(factory=list)


class Model:
    """A node of gmqttd with one subscriber, whose messages are in `got`."""

    def __init__(self, network: Network, name: str, seed: int = 0) -> None:
        self.network, self.name = network, name
        self.rng = Random(f"{name}/{seed}")
        self.peers: dict[str, PeerOfModel] = {}
        self.sessions: dict[str, SessionAtModel] = {}
        self.fed: SubscriptionTree[str, None] = SubscriptionTree(100)
        self.local: SubscriptionTree[str, None] = SubscriptionTree(100)
        self.retained: dict[str, object] = {}
        self.got: list[tuple[str, bytes]] = []
        self.last: dict[str, object] = {}                # topic -> the newest message, whole
        self.streams: list[ServerStream] = []
        network.nodes[name] = self

    # --- membership.go ------------------------------------------------------------------------------------------------

    def joined(self, name: str) -> None:
        if name not in self.peers:
            self.peers[name] = PeerOfModel(f"{self.rng.getrandbits(64):x}")
            self.network.later(0, lambda: self.serve(name, self.peers.get(name)))

    def gone(self, name: str, left: bool) -> None:
        peer = self.peers.pop(name, None)
        if peer is not None:
            if peer.stream is not None:
                self.end(peer.stream)
            self.unsubscribe_all(name)
            self.sessions.pop(name, None)
            for stream in [each for each in self.streams if each.client == name]:
                self.end(stream)

    # --- the client: peer.go ------------------------------------------------------------------------------------------

    def serve(self, name: str, peer: PeerOfModel | None) -> None:
        """serveStream: Hello, then the stream; again after an error."""
        if peer is None or self.peers.get(name) is not peer or peer.is_dead:
            return
        try:
            answer = self.network.nodes[name].hello(self.name, API["ClientHello"](
                session_id=peer.session).SerializeToString())
            stream = ServerStream(self.name, name)
            hello = API["ServerHello"].FromString(answer)
            if hello.clean_start:
                peer.events.clear()
                peer.next_id = peer.read_from = 0
                for filter, _ in self.local.filters():
                    self.add(peer, self.subscribe_event(filter))
                for message in self.retained.values():
                    self.add(peer, API["Event"](message=message))
            peer.read_from = hello.next_event_id
            self.network.nodes[name].opened(stream)
        except (GmqttRefusal, ConnectionError):
            self.network.later(min(2 * SECOND, peer.reconnects * SECOND // 2), lambda: self.serve(name, peer))
            peer.reconnects += 1
            return
        peer.stream = stream
        self.send(name, peer)

    def add(self, peer: PeerOfModel, event: object) -> None:
        """queue.add"""
        event.id = peer.next_id              # type: ignore[attr-defined]
        peer.next_id += 1
        peer.events.append(event)

    def send(self, name: str, peer: PeerOfModel) -> None:
        """sendEvents, one by one."""
        stream = peer.stream
        if stream is None or self.peers.get(name) is not peer or peer.is_dead:
            return
        for event in [event for event in peer.events if event.id >= peer.read_from]:   # type: ignore[attr-defined]
            peer.read_from = event.id + 1    # type: ignore[attr-defined]
            if not stream.is_open or event.message.correlation_data == UNWRITABLE:     # type: ignore[attr-defined]
                peer.is_dead = True          # its fault: the error is shadowed, nobody reconnects
                peer.stream = None
                self.end(stream)
                return
            data = event.SerializeToString() # type: ignore[attr-defined]
            self.network.later(LATENCY_NS, lambda data=data: self.arrive(stream, data))

    def arrive(self, stream: ServerStream, data: bytes) -> None:
        if stream.is_open:
            ack = self.network.nodes[stream.server].take(stream, data)
            if ack is not None:
                self.network.later(LATENCY_NS, lambda: self.network.nodes[stream.client].acked(stream, ack))

    def acked(self, stream: ServerStream, data: bytes) -> None:
        peer = self.peers.get(stream.server)
        if stream.is_open and peer is not None and peer.stream is stream:
            id = API["Ack"].FromString(data).event_id
            peer.events = [event for event in peer.events if event.id > id]            # type: ignore[attr-defined]

    def broken(self, stream: ServerStream, seen_by_sender: bool) -> None:
        """A stream of this client broke. seen_by_sender: first, which is the fault; else it reconnects."""
        peer = self.peers.get(stream.server)
        if peer is None or peer.stream is not stream:
            return
        peer.stream = None
        peer.is_dead = seen_by_sender
        if not seen_by_sender:
            self.network.later(0, lambda: self.serve(stream.server, peer))

    # --- the server: federation.go ------------------------------------------------------------------------------------

    def hello(self, name: str, data: bytes) -> bytes:
        if name not in self.peers:
            raise GmqttRefusal(f"Hello: the node [{name}] has not yet joined")
        id = API["ClientHello"].FromString(data).session_id
        known = self.sessions.get(name)
        if known is None or known.id != id:
            self.sessions[name] = known = SessionAtModel(id)
            self.unsubscribe_all(name)
            return bytes(API["ServerHello"](clean_start=True).SerializeToString())
        return bytes(API["ServerHello"](next_event_id=known.next_id).SerializeToString())

    def opened(self, stream: ServerStream) -> None:
        if stream.client not in self.sessions:
            raise GmqttRefusal(f"EventStream: node [{stream.client}] does not exist")
        self.streams.append(stream)

    def take(self, stream: ServerStream, data: bytes) -> bytes | None:
        """eventStreamHandler"""
        session = self.sessions[stream.client]
        event = API["Event"].FromString(data)
        assert event.WhichOneof("Event") is not None, "gmqttd would die of it: it answers with a null pointer"
        if event.id not in session.seen:
            session.seen = [*session.seen[-SEEN + 1:], event.id]
            match event.WhichOneof("Event"):
                case "Subscribe":
                    group, filter = event.Subscribe.share_name, event.Subscribe.topic_filter
                    self.fed.subscribe(f"$share/{group}/{filter}" if group else filter, stream.client, None)
                case "unsubscribe":
                    self.fed.unsubscribe(event.unsubscribe.topic_name, stream.client)
                case "message":
                    self.publish_here(event.message)
                    if event.message.retained:
                        self.retained[event.message.topic_name] = event.message
        session.next_id = event.id + 1
        return bytes(API["Ack"](event_id=event.id).SerializeToString())

    def unsubscribe_all(self, name: str) -> None:
        for filter, _ in list(self.fed.filters()):
            self.fed.unsubscribe(filter, name)

    def end(self, stream: ServerStream, seen_by_sender: bool = False) -> None:
        """The connection of a stream is gone."""
        if stream.is_open:
            stream.is_open = False
            client, server = self.network.nodes[stream.client], self.network.nodes[stream.server]
            self.network.later(0, lambda: client.broken(stream, seen_by_sender))
            self.network.later(0, lambda: server.lost(stream))

    def lost(self, stream: ServerStream) -> None:
        if stream in self.streams:
            self.streams.remove(stream)

    # --- clients: hooks.go --------------------------------------------------------------------------------------------

    @staticmethod
    def subscribe_event(filter: str) -> object:
        group, rest = split_shared(filter)
        event = API["Event"]()
        event.Subscribe.share_name, event.Subscribe.topic_filter = group, rest
        return event

    def subscribe(self, filter: str) -> None:
        """Its client subscribes."""
        if self.local.subscribe(filter, "client", None):
            self.tell(lambda: self.subscribe_event(filter))
        if not split_shared(filter)[0]:
            for topic, message in self.retained.items():
                if any(True for _ in one_filter(filter).match(topic).plain):
                    self.got.append((topic, message.payload))      # type: ignore[attr-defined]

    def unsubscribe(self, filter: str) -> None:
        self.local.unsubscribe(filter, "client")
        self.tell(lambda: API["Event"](unsubscribe=API["Unsubscribe"](topic_name=filter)))

    def tell(self, event: Callable[[], object], only: Sequence[str] | None = None) -> None:
        for name, peer in list(self.peers.items()):
            if only is None or name in only:
                self.add(peer, event())
                self.send(name, peer)

    def publish(self, topic: str, payload: bytes, retained: bool = False, **fields: object) -> None:
        """A client publishes here; without shared subscriptions, which the tests play at our end."""
        message = API["Message"](topic_name=topic, payload=payload, qos=1, retained=retained, **fields)
        if retained:
            self.retained[topic] = message
            if not payload:
                del self.retained[topic]
            self.tell(lambda: API["Event"](message=message))
        else:
            matches = self.fed.match(topic)
            wanted = [name for name, _ in matches.plain] + [name for match in matches.shared for name in match.members]
            self.tell(lambda: API["Event"](message=message), wanted)
        self.publish_here(message)

    def publish_here(self, message: object) -> None:
        matches = self.local.match(message.topic_name)             # type: ignore[attr-defined]
        copies = len(matches.shared) + bool(matches.plain)
        self.got += [(message.topic_name, message.payload)] * copies           # type: ignore[attr-defined]
        self.last[message.topic_name] = message                    # type: ignore[attr-defined]


UNWRITABLE = "stands for bytes that are not UTF-8: Go's protobuf refuses the message"


def one_filter(filter: str) -> SubscriptionTree[str, None]:
    tree: SubscriptionTree[str, None] = SubscriptionTree(10)
    tree.subscribe(filter, "client", None)
    return tree


class Ours:
    """A node with GmqttLink, whose broker has one subscriber too."""

    def __init__(self, network: Network, name: str, seed: int = 0, **options: object) -> None:
        self.network, self.name = network, name
        self.retained = RetainedTable(1000)
        self.link = GmqttLink(GmqttOptions(name=name, **options), Random(seed), self.retained)     # type: ignore[arg-type]
        self.link.attach(self)
        self.local: SubscriptionTree[str, None] = SubscriptionTree(100)
        self.got: list[tuple[str, bytes]] = []
        self.publications: list[Publication] = []
        self.groups: list[tuple[str, str]] = []
        self.released: list[int] = []
        self.outgoing: dict[str, ServerStream] = {}
        self.attempts: dict[str, int] = {}
        self.incoming: list[ServerStream] = []
        self.rejoins = 0
        network.nodes[name] = self

    # --- its clients --------------------------------------------------------------------------------------------------

    def subscribe(self, filter: str, members: int = 1) -> None:
        self.local.subscribe(filter, "client", None)
        group, rest = split_shared(filter)
        self.link.interest(group, rest, members, members)

    def unsubscribe(self, filter: str) -> None:
        self.local.unsubscribe(filter, "client")
        group, rest = split_shared(filter)
        self.link.interest(group, rest, 0, 0)

    def publish(self, topic: str, payload: bytes, qos: int = 1, retained: bool = False, **fields: object) -> int:
        """As the router does; the token."""
        made = Publication(topic, payload, qos, retained, **fields)            # type: ignore[arg-type]
        matches = self.local.match(topic)
        choices = [self.link.own[f"$share/{match.group}/{match.filter}"] for match in matches.shared]
        forwarding = self.link.publish(made, choices, self.network.now_ns)
        if retained:
            self.retained.put(made)
        copies = bool(matches.plain) + sum(
            (match.group, match.filter) not in forwarding.elsewhere for match in matches.shared)
        self.got += [(topic, payload)] * copies
        return forwarding.token

    def deliver(self, publication: Publication, groups: Sequence[tuple[str, str]], now_ns: int) -> None:
        self.publications.append(publication)
        copies = bool(self.local.match(publication.topic).plain) + len(groups)
        self.got += [(publication.topic, publication.payload)] * copies
        self.groups += groups

    def release(self, token: int, now_ns: int) -> None:
        self.released.append(token)

    # --- its hands, as grpc.py has them -------------------------------------------------------------------------------

    def joined(self, name: str) -> None:
        self.link.member_up(name, f"{name}:8901", self.network.now_ns)

    def gone(self, name: str, left: bool) -> None:
        (self.link.member_left if left else self.link.member_failed)(name, self.network.now_ns)

    def carry_out(self) -> None:
        for output in self.link.drain(self.network.now_ns):
            match output:
                case SayHello(peer, _, attempt, hello):
                    self.network.later(LATENCY_NS, lambda p=peer, a=attempt, h=hello: self.say(p, a, h))
                case SendEvents(peer, attempt, events):
                    stream = self.outgoing.get(peer)
                    if self.attempts.get(peer) == attempt and stream is not None:
                        for data in events:
                            self.network.later(LATENCY_NS, lambda s=stream, d=data: self.arrive(s, d))
                case EndOutgoing(peer, attempt):
                    stream = self.outgoing.pop(peer, None)
                    if stream is not None and self.attempts.get(peer) == attempt:
                        Model.end(self, stream)                    # type: ignore[arg-type]
                case EndIncoming(peer, number):
                    for stream in [each for each in self.incoming if each.client == peer and each.number == number]:
                        Model.end(self, stream)                    # type: ignore[arg-type]
                case RejoinSerf():
                    self.rejoins += 1
                    self.network.down(self.name, left=True)
                    self.network.later(SECOND, self.rejoin)

    def rejoin(self) -> None:
        for name in self.network.nodes:
            if name != self.name:
                self.network.nodes[name].joined(self.name)

    def say(self, peer: str, attempt: int, hello: bytes) -> None:
        try:
            answer = self.network.nodes[peer].hello(self.name, hello)
            stream = ServerStream(self.name, peer)
            self.network.nodes[peer].opened(stream)
        except (GmqttRefusal, ConnectionError) as error:
            self.link.broke(peer, attempt, str(error), self.network.now_ns)
            return
        self.outgoing[peer], self.attempts[peer] = stream, attempt
        self.link.greeted(peer, attempt, answer, self.network.now_ns)

    def arrive(self, stream: ServerStream, data: bytes) -> None:
        if stream.is_open:
            ack = self.network.nodes[stream.server].take(stream, data)
            self.network.later(LATENCY_NS, lambda: self.acked(stream, ack))

    def acked(self, stream: ServerStream, data: bytes | None) -> None:
        if stream.is_open and data is not None and self.outgoing.get(stream.server) is stream:
            self.link.acknowledged(stream.server, self.attempts[stream.server], data, self.network.now_ns)

    def broken(self, stream: ServerStream, seen_by_sender: bool) -> None:
        if self.outgoing.get(stream.server) is stream:
            self.link.broke(stream.server, self.attempts[stream.server], "reset", self.network.now_ns)

    def hello(self, name: str, data: bytes) -> bytes:
        return self.link.hello(name, data, self.network.now_ns)

    def opened(self, stream: ServerStream) -> None:
        stream.number = self.link.stream_began(stream.client, self.network.now_ns)
        self.incoming.append(stream)

    def take(self, stream: ServerStream, data: bytes) -> bytes | None:
        try:
            return self.link.event(stream.client, stream.number, data, self.network.now_ns)
        except GmqttRefusal:
            Model.end(self, stream)                                # type: ignore[arg-type]
            return None

    def lost(self, stream: ServerStream) -> None:
        if stream in self.incoming:
            self.incoming.remove(stream)
            self.link.stream_ended(stream.client, stream.number, self.network.now_ns)


def cut(network: Network, client: str, server: str, seen_by_sender: bool = False) -> None:
    """Reset the connection from one node to another. seen_by_sender: gmqttd's fault shows."""
    node = network.nodes[client]
    stream = node.peers[server].stream if isinstance(node, Model) else node.outgoing.get(server)
    assert stream is not None
    Model.end(node, stream, seen_by_sender)                        # type: ignore[arg-type]
