"""Servers on loopback, and a client that sends and gets packets one by one."""
from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType
from typing import Any

from jgroups_py.blocks.mqtt.broker.options import BrokerOptions
from jgroups_py.blocks.mqtt.codec.decoder import Decoder
from jgroups_py.blocks.mqtt.codec.encoder import encode
from jgroups_py.blocks.mqtt.codec.packets import (
    ConnAckPacket,
    ConnectPacket,
    Packet,
    Properties,
    ProtocolVersion,
    SentBy,
    SubAckPacket,
    SubscribePacket,
    Subscription,
)
from jgroups_py.blocks.mqtt.server.listen import ListenAddress
from jgroups_py.blocks.mqtt.server.server import MqttServer

V3, V5 = ProtocolVersion.MQTT_3_1_1, ProtocolVersion.MQTT_5
ANSWER_SECONDS = 30
"""No answer of a broker on loopback takes so long."""


def server(*listeners: ListenAddress, limits: Any = None, authorizer: Any = None, **options: Any) -> MqttServer:
    """A server on a free port of loopback, or with these listeners."""
    return MqttServer(BrokerOptions(**{"sys_interval_s": 0, **options}),
                      listeners or [ListenAddress("127.0.0.1", 0)], limits=limits, authorizer=authorizer)


class Client:
    """A connection: `async with Client(port) as client`. packets: received and not asked for yet."""

    def __init__(self, port: int, host: str = "127.0.0.1", version: ProtocolVersion = V5, **options: Any) -> None:
        self._place = (host, port)
        self._options = options
        self.version = version
        self.packets: deque[Packet] = deque()
        self._decoder = Decoder(SentBy.SERVER, version)

    async def __aenter__(self) -> Client:
        self.reader, self.writer = await asyncio.open_connection(*self._place, **self._options)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        self.writer.transport.abort()

    def write(self, *packets: Packet) -> None:
        """Without waiting."""
        self.writer.write(b"".join(encode(packet, self.version) for packet in packets))

    async def connect(self, client_id: str, clean_start: bool = True, **values: Any) -> ConnAckPacket:
        """CONNECT, and its answer."""
        properties = Properties(**values.pop("properties", {}))
        self.write(ConnectPacket(client_id, self.version, clean_start, properties=properties, **values))
        return await self.get(ConnAckPacket)

    async def subscribe(self, filter: str, qos: int = 0) -> None:
        self.write(SubscribePacket(1, (Subscription(filter, qos),)))
        await self.get(SubAckPacket)

    async def next(self) -> Packet | None:
        """The next packet, None: the server has closed the connection."""
        while not self.packets:
            data = await asyncio.wait_for(self.reader.read(1 << 16), ANSWER_SECONDS)
            if not data:
                return None
            self.packets.extend(self._decoder.feed(data))
        return self.packets.popleft()

    async def get(self, kind: type[Any]) -> Any:
        """The next packet, which is of this kind."""
        found = await self.next()
        assert isinstance(found, kind), f"{found}, not {kind.__name__}"
        return found
