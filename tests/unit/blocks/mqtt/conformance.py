"""What the cases of conformance need: a client that speaks bytes over a link, and a broker in memory behind one.

The cases (cases_of_both.py, cases_3_1_1.py, cases_5.py) ask a `Server` for clients, so they run against anything that
speaks MQTT: the pure core here, and brokers on sockets (tests/runtime/mqtt). A case waits for packets, never for a
while: that nothing came is asked by PINGREQ, which a broker answers after all that it sent before.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import attrs

from jgroups_py.blocks.mqtt.broker.outputs import CloseConnection, MoreToSend, SendAcks, SendPacket, SendPublish
from jgroups_py.blocks.mqtt.broker.ports import Access, AllowAll
from jgroups_py.blocks.mqtt.codec.decoder import Decoder
from jgroups_py.blocks.mqtt.codec.encoder import encode
from jgroups_py.blocks.mqtt.codec.packets import (
    ConnAckPacket,
    ConnectPacket,
    ControlPacket,
    DisconnectPacket,
    MqttError,
    Packet,
    PingReqPacket,
    PingRespPacket,
    Properties,
    ProtocolVersion,
    PubAckPacket,
    PubCompPacket,
    PublishPacket,
    PubRecPacket,
    PubRelPacket,
    SentBy,
    SubAckPacket,
    SubscribePacket,
    Subscription,
    UnsubAckPacket,
    UnsubscribePacket,
    Will,
)
from tests.unit.blocks.mqtt.clients import SECOND, Bench, written

FORBIDDEN = "test/nosubscribe"
"""A broker that is tried refuses subscriptions to this topic,"""
SERVER_KEEP_ALIVE_S = 60
"""and wants at least one packet in this time of clients of version 5."""
PATIENCE_S = 10.0
"""How long an answer may take."""

P = TypeVar("P", bound=ControlPacket)


class Link(Protocol):
    """A network connection, as a client has it."""

    def send(self, data: bytes) -> None:
        ...

    def receive(self, within_s: float) -> bytes | None:
        """What has come, b"" at the end of the connection, None if nothing came in time."""
        ...

    def close(self) -> None:
        """End it without a DISCONNECT."""
        ...


class Server(Protocol):
    """A broker that is tried. prefix: of all topics and client ids of a case, so that cases do not meet."""

    @property
    def prefix(self) -> str:
        ...

    def connect(self) -> Link:
        ...

    def now_s(self) -> float:
        """The clock that intervals are measured with."""
        ...

    def pass_time(self, seconds: float) -> None:
        ...


class Client:
    """A client id. messages: all PUBLISH packets; answers: all others that are not part of a QoS handshake.

    is_silent: it acknowledges nothing.
    """

    def __init__(self, server: Server, name: str, version: ProtocolVersion) -> None:
        self.server = server
        self.client_id = server.prefix + name if name else ""
        self.version = version
        self.is_silent = False
        self.is_closed = True
        self.messages: list[PublishPacket] = []
        self.answers: list[Packet] = []
        self._last_id = 0

    # --- the connection -----------------------------------------------------------------------------------------------

    def open(self) -> None:
        """A network connection."""
        self._link = self.server.connect()
        self._decoder = Decoder(SentBy.SERVER, self.version)
        self.is_closed = False
        self.answers.clear()
        self.messages.clear()

    def connect(
        self, clean_start: bool = True, keep_alive_s: int = 0, will: Will | None = None, **properties: Any,
    ) -> ConnAckPacket:
        """A network connection and CONNECT; the answer."""
        self.open()
        return self.ask(ConnectPacket(self.client_id, self.version, clean_start, keep_alive_s, will=will,
                                      properties=Properties(**properties)), ConnAckPacket)

    def disconnect(self, **properties: Any) -> None:
        """DISCONNECT; the broker ends the connection."""
        self.send(DisconnectPacket(properties=Properties(**properties)))
        self.wait_for(lambda: self.is_closed, "the end of the connection")

    def cut(self) -> None:
        """The network connection ends."""
        self._link.close()
        self.is_closed = True

    def send(self, *packets: Packet) -> None:
        self.send_bytes(b"".join(encode(packet, self.version) for packet in packets))

    def send_bytes(self, data: bytes) -> None:
        self._link.send(data)

    # --- requests -----------------------------------------------------------------------------------------------------

    def ask(self, packet: Packet, kind: type[P]) -> P:
        """Send a packet; the first answer of this type."""
        self.send(packet)
        return self.answer(kind)

    def answer(self, kind: type[P]) -> P:
        """Take the first answer of this type, or wait for it."""
        self.wait_for(lambda: self.has(kind), kind.__name__)
        found = next(each for each in self.answers if isinstance(each, kind))
        self.answers.remove(found)                       # type: ignore[arg-type]
        return found

    def has(self, kind: type[ControlPacket]) -> bool:
        return any(isinstance(each, kind) for each in self.answers)

    def subscribe(
        self, *filters: str, qos: int | Sequence[int] = 2, identifier: int = 0, **options: Any,
    ) -> SubAckPacket:
        """qos: of all filters, or of each."""
        qualities = (qos,) * len(filters) if isinstance(qos, int) else qos
        return self.ask(SubscribePacket(
            self.new_id(), tuple(Subscription(each, quality, **options)
                                 for each, quality in zip(filters, qualities, strict=True)),
            Properties(subscription_identifiers=(identifier,) if identifier else ())), SubAckPacket)

    def unsubscribe(self, *filters: str) -> UnsubAckPacket:
        return self.ask(UnsubscribePacket(self.new_id(), filters), UnsubAckPacket)

    def publish(self, topic: str, payload: bytes, qos: int = 0, retain: bool = False, **properties: Any) -> None:
        """Returns when the broker has taken the message over."""
        packet_id = self.new_id() if qos else 0
        self.send(PublishPacket(topic, payload, qos, retain, False, packet_id, Properties(**properties)))
        if qos == 2:
            assert self.answer(PubRecPacket).reason < 0x80
            self.ask(PubRelPacket(packet_id), PubCompPacket)
        elif qos:
            assert self.answer(PubAckPacket).reason < 0x80
        else:
            self.settle()

    def settle(self) -> None:
        """All that the broker sent before has arrived."""
        self.ask(PingReqPacket(), PingRespPacket)

    def received(self, number: int | None = None) -> list[PublishPacket]:
        """Take the messages: those that come until there are so many, and what came by then besides them."""
        if number is not None:
            self.wait_for(lambda: len(self.messages) >= number, f"{number} messages")
        if not self.is_closed:
            self.settle()
        found, self.messages = self.messages, []
        return found

    def new_id(self) -> int:
        self._last_id += 1
        return self._last_id

    # --- what comes ---------------------------------------------------------------------------------------------------

    def wait_for(self, condition: Callable[[], bool], what: str, within_s: float = PATIENCE_S) -> None:
        """Read until it holds."""
        end_s = self.server.now_s() + within_s
        while not condition():
            assert not self.is_closed, f"{self.client_id}: closed, before {what}; {self.answers}"
            left_s = max(0.0, end_s - self.server.now_s())
            assert self.read(left_s), f"{self.client_id}: no {what} in {within_s} s; {self.answers}"

    def wait_for_end(self, within_s: float = PATIENCE_S) -> None:
        """The broker closes the connection."""
        self.wait_for(lambda: self.is_closed, "the end of the connection", within_s)

    def read(self, within_s: float) -> bool:
        """Take what has come; False if nothing came in time."""
        data = self._link.receive(within_s)
        if data is None:
            return False
        if not data:
            self.is_closed = True
            return True
        for packet in self._decoder.feed(data):
            self._take(packet)
        return True

    def _take(self, packet: Packet) -> None:
        if isinstance(packet, PublishPacket):
            self.messages.append(packet)
            if packet.qos and not self.is_silent:
                self.send((PubAckPacket if packet.qos == 1 else PubRecPacket)(packet.packet_id))
        elif not isinstance(packet, PubRelPacket):
            self.answers.append(packet)
        elif not self.is_silent:
            self.send(PubCompPacket(packet.packet_id))


# --- the core in memory -----------------------------------------------------------------------------------------------

class MemoryLink:
    """A connection to the pure core: bytes go through a decoder of their own, as in a server."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._decoder = Decoder(SentBy.CLIENT)
        self._arrived = bytearray()
        self._is_closed = False
        bench.numbers += 1
        self._number = bench.numbers
        bench.clients[self._number] = self               # type: ignore[assignment]
        bench.broker.connected(self._number, bench.now_ns, "memory")
        bench.settle()

    def send(self, data: bytes) -> None:
        if self._is_closed:
            return
        broker, now_ns = self._bench.broker, self._bench.now_ns
        try:
            broker.received(self._number, self._decoder.feed(data), now_ns)
        except MqttError as error:
            broker.received(self._number, error.packets, now_ns)
            broker.failed(self._number, error, now_ns)
        self._bench.settle()

    def receive(self, within_s: float) -> bytes | None:
        """Time passes until something comes."""
        end_ns = self._bench.now_ns + round(within_s * SECOND)
        while not self._arrived and not self._is_closed:
            if not self._bench.step(end_ns):
                return None
        data = bytes(self._arrived)
        self._arrived.clear()
        return data

    def close(self) -> None:
        self._is_closed = True
        self._bench.broker.lost(self._number, self._bench.now_ns)
        self._bench.settle()

    def take(self, output: SendPacket | SendAcks | SendPublish | CloseConnection | MoreToSend) -> None:
        """Carry out an output of the broker."""
        assert not self._is_closed, "nothing is sent after a connection was closed"
        if isinstance(output, CloseConnection):
            self._is_closed = True
        elif isinstance(output, MoreToSend):
            self._bench.broker.write_ready(self._number, self._bench.now_ns)
        else:
            self._arrived += written(output)


class ForbidsOneTopic(AllowAll):
    """No subscription to FORBIDDEN."""

    def may(self, client_id: str, username: str | None, access: Access, topic: str) -> bool:
        return access is not Access.SUBSCRIBE or topic != FORBIDDEN


@attrs.frozen
class MemoryServer:
    """The pure core."""

    bench: Bench
    prefix: str = ""

    def connect(self) -> Link:
        return MemoryLink(self.bench)

    def now_s(self) -> float:
        return self.bench.now_ns / SECOND

    def pass_time(self, seconds: float) -> None:
        self.bench.wait(seconds)
