"""Clients in memory, against the pure broker: what a client gets is recorded, packet by packet."""
from __future__ import annotations

from collections import deque
from random import Random
from typing import Any

from jgroups_py.blocks.mqtt.broker.broker import Broker
from jgroups_py.blocks.mqtt.broker.options import BrokerOptions
from jgroups_py.blocks.mqtt.broker.outputs import (
    CloseConnection,
    MoreToSend,
    PauseReading,
    ResumeReading,
    SendAcks,
    SendPacket,
    SendPublish,
)
from jgroups_py.blocks.mqtt.codec.decoder import Decoder
from jgroups_py.blocks.mqtt.codec.encoder import encode, encode_acks
from jgroups_py.blocks.mqtt.codec.packets import (
    ConnAckPacket,
    ConnectPacket,
    DisconnectPacket,
    Packet,
    Properties,
    ProtocolVersion,
    PubAckPacket,
    PubCompPacket,
    PublishPacket,
    PubRecPacket,
    PubRelPacket,
    ReasonCode,
    SentBy,
    SubAckPacket,
    SubscribePacket,
    Subscription,
    UnsubAckPacket,
    UnsubscribePacket,
    Will,
)

SECOND = 1_000_000_000
V3, V5 = ProtocolVersion.MQTT_3_1_1, ProtocolVersion.MQTT_5


def written(output: SendPacket | SendAcks | SendPublish) -> bytes:
    """What the broker sends, as the server writes it."""
    if isinstance(output, SendPacket):
        return encode(output.packet, output.version)
    if isinstance(output, SendAcks):
        return encode_acks(output.kind, output.packet_ids)
    return output.frames.frame(output.qos, output.packet_id, output.retain, output.dup)


class Bench:
    """A broker, its clock and its clients. What the broker sends goes through the real encoder and decoder."""

    def __init__(self, federation: Any = None, authorizer: Any = None, **options: Any) -> None:
        self.now_ns = 1_000 * SECOND
        self.broker = Broker(BrokerOptions(**{"sys_interval_s": 0, **options}), Random(1), now_ns=self.now_ns,
                             federation=federation, authorizer=authorizer)
        self.clients: dict[int, Client] = {}
        self.numbers = 0

    def client(self, client_id: str = "", version: ProtocolVersion = V5, **options: Any) -> Client:
        """A client that has connected."""
        client = Client(self, client_id, version)
        client.connect(**options)
        return client

    def settle(self) -> None:
        """Carry out what the broker wants until nothing more comes."""
        while outputs := self.broker.drain():
            for output in outputs:
                self.clients[output.connection].take(output)

    def wait(self, seconds: float) -> None:
        """Time passes, deadline by deadline."""
        end_ns = self.now_ns + round(seconds * SECOND)
        while self.step(end_ns):
            pass

    def step(self, end_ns: int) -> bool:
        """Time passes to the next deadline; False if there was none before the end."""
        due_ns = self.broker.next_deadline_ns()
        if due_ns is None or due_ns > end_ns:
            self.now_ns = end_ns
            return False
        self.now_ns = max(self.now_ns, due_ns)
        self.broker.tick(self.now_ns)
        self.settle()
        return True

    def count(self, name: str) -> int:
        """A counter of the broker."""
        return self.broker.counters[name]


class Client:
    """One client id. messages: every PUBLISH, also repeated ones; acks: whether it answers them by itself."""

    DEFAULT = V5

    def __init__(self, bench: Bench, client_id: str, version: ProtocolVersion) -> None:
        self.bench = bench
        self.client_id = client_id
        self.version = version
        self.number = 0                                  # of the connection; 0: none
        self.acks = True
        self.messages: list[PublishPacket] = []
        self.packets: deque[Packet] = deque()            # all others that were received
        self.closed: CloseConnection | None = None
        self.paused = False
        self.last_id = 0

    def connect(
        self, clean_start: bool = True, will: Will | None = None, keep_alive_s: int = 0, username: str | None = None,
        password: bytes | None = None, **properties: Any,
    ) -> ConnAckPacket:
        self.open()
        self.send(ConnectPacket(self.client_id, self.version, clean_start, keep_alive_s, username, password, will,
                                Properties(**properties)))
        answer = self.packets.popleft()
        assert isinstance(answer, ConnAckPacket)
        if answer.properties.assigned_client_identifier:
            self.client_id = answer.properties.assigned_client_identifier
        return answer

    def open(self) -> None:
        """A network connection."""
        self.bench.numbers += 1
        self.number = self.bench.numbers
        self.bench.clients[self.number] = self
        self.closed = None
        self.paused = False
        self.packets.clear()
        self.decoder = Decoder(sent_by=SentBy.SERVER, version=self.version)
        self.bench.broker.connected(self.number, self.bench.now_ns, "client")
        self.bench.settle()

    def send(self, *packets: Packet) -> None:
        self.bench.broker.received(self.number, packets, self.bench.now_ns)
        self.bench.settle()

    def cut(self) -> None:
        """The network connection ends without DISCONNECT."""
        self.bench.broker.lost(self.number, self.bench.now_ns)
        self.number = 0
        self.bench.settle()

    def disconnect(self, reason: ReasonCode = ReasonCode.NORMAL_DISCONNECTION, **properties: Any) -> None:
        self.send(DisconnectPacket(reason, Properties(**properties)))

    def subscribe(self, filter: str, qos: int = 2, identifier: int = 0, **options: Any) -> ReasonCode:
        self.last_id += 1
        self.send(SubscribePacket(self.last_id, (Subscription(filter, qos, **options),),
                                  Properties(subscription_identifiers=(identifier,) if identifier else ())))
        answer = self.answer(SubAckPacket)
        return answer.reasons[0]

    def unsubscribe(self, filter: str) -> ReasonCode:
        self.last_id += 1
        self.send(UnsubscribePacket(self.last_id, (filter,)))
        answer = self.answer(UnsubAckPacket)
        return answer.reasons[0] if answer.reasons else ReasonCode.SUCCESS

    def publish(
        self, topic: str, payload: bytes = b"x", qos: int = 0, retain: bool = False, dup: bool = False,
        packet_id: int = 0, **properties: Any,
    ) -> int:
        """The packet id."""
        if qos and not packet_id:
            self.last_id += 1
            packet_id = self.last_id
        self.send(PublishPacket(topic, payload, qos, retain, dup, packet_id, Properties(**properties)))
        return packet_id

    def answer(self, kind: type[Any]) -> Any:
        """The first packet of this kind that was not asked for yet."""
        found = next(each for each in self.packets if isinstance(each, kind))
        self.packets.remove(found)
        return found

    def has(self, kind: type[Any]) -> bool:
        return any(isinstance(each, kind) for each in self.packets)

    def payloads(self) -> list[bytes]:
        """Of the messages since the last call."""
        found = [message.payload for message in self.messages]
        self.messages.clear()
        return found

    def take(self, output: Any) -> None:
        """Carry out an output of the broker."""
        if isinstance(output, CloseConnection):
            assert self.closed is None, "closed twice"
            self.closed = output
            self.number = 0
        elif isinstance(output, PauseReading | ResumeReading):
            assert self.paused is isinstance(output, ResumeReading)
            self.paused = not self.paused
        elif isinstance(output, MoreToSend):
            self.bench.broker.write_ready(self.number, self.bench.now_ns)
        else:
            assert self.closed is None, "nothing is sent after a connection was closed"
            assert isinstance(output, SendPacket | SendAcks | SendPublish)
            for packet in self.decoder.feed(written(output)):
                self.receive(packet)

    def receive(self, packet: Packet) -> None:
        if not isinstance(packet, PublishPacket):
            if isinstance(packet, PubRelPacket):
                self.reply(PubCompPacket(packet.packet_id))
            if isinstance(packet, PubRecPacket) and packet.reason < 0x80:
                self.reply(PubRelPacket(packet.packet_id))
            self.packets.append(packet)
            return
        self.messages.append(packet)
        if packet.qos:
            self.reply((PubAckPacket if packet.qos == 1 else PubRecPacket)(packet.packet_id))

    def reply(self, packet: Packet) -> None:
        if self.acks:
            self.bench.broker.received(self.number, (packet,), self.bench.now_ns)
