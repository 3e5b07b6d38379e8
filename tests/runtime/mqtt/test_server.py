"""The server on real sockets, with a client that looks at each packet."""
from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine
from typing import Any

import pytest

from jgroups_py.blocks.mqtt.codec.packets import (
    DisconnectPacket,
    PingReqPacket,
    PingRespPacket,
    PubAckPacket,
    PubCompPacket,
    PublishPacket,
    PubRecPacket,
    PubRelPacket,
    ReasonCode,
)
from jgroups_py.blocks.mqtt.server.listen import ListenAddress
from jgroups_py.model.errors import ConfigError
from tests.runtime.mqtt.kit import V3, V5, Client, server

pytestmark = pytest.mark.real


def run(what: Coroutine[Any, Any, None]) -> None:
    asyncio.run(what)


@pytest.mark.parametrize("version", [V3, V5])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_message_arrives_once_with_each_qos(version, qos):
    async def body() -> None:
        async with server() as broker, Client(broker.port, version=version) as client:
            await client.connect("c")
            await client.subscribe("a/+", 2)
            client.write(PublishPacket("a/b", b"hello", qos, packet_id=7 if qos else 0))
            kinds = []
            while len(kinds) < (1, 2, 4)[qos]:
                packet = await client.next()
                kinds.append(type(packet))
                if isinstance(packet, PublishPacket):
                    assert (packet.topic, packet.payload, packet.qos) == ("a/b", b"hello", qos)
                    if qos:
                        client.write((PubAckPacket if qos == 1 else PubRecPacket)(packet.packet_id))
                elif isinstance(packet, PubRecPacket):
                    client.write(PubRelPacket(packet.packet_id))
                elif isinstance(packet, PubRelPacket):
                    client.write(PubCompPacket(packet.packet_id))
            assert kinds.count(PublishPacket) == 1
            client.write(PingReqPacket())
            while not isinstance(await client.next(), PingRespPacket):
                pass
            assert broker.counters["exceptions"] == 0
    run(body())


def test_nothing_is_read_after_disconnect():
    async def body() -> None:
        async with server() as broker, Client(broker.port) as other, Client(broker.port) as client:
            await other.connect("other")
            await other.subscribe("#")
            await client.connect("c")
            client.write(PublishPacket("a", b"before"), DisconnectPacket(), PublishPacket("a", b"after"))
            assert await client.next() is None
            other.write(PingReqPacket())
            assert (await other.get(PublishPacket)).payload == b"before"
            await other.get(PingRespPacket)
    run(body())


def test_stopping_tells_the_clients_and_closes():
    async def body() -> None:
        broker = server()
        async with broker:
            client = Client(broker.port)
            await client.__aenter__()
            await client.connect("c")
        assert (await client.get(DisconnectPacket)).reason is ReasonCode.SERVER_SHUTTING_DOWN
        assert await client.next() is None
        client.writer.close()
    run(body())


def test_a_port_in_use_is_named():
    async def body() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with pytest.raises(ConfigError, match=rf"mqtt://127\.0\.0\.1:{port}: port {port} is in use"):
                await server(ListenAddress("127.0.0.1", port)).start()
    run(body())


def test_an_address_of_another_machine_is_named():
    async def body() -> None:
        with pytest.raises(ConfigError, match=r"'192\.0\.2\.1' is no address of this machine"):
            await server(ListenAddress("192.0.2.1", 0)).start()
    run(body())


def test_one_listener_takes_both_families():
    async def body() -> None:
        async with server(ListenAddress("", 0)) as broker:
            for host in ("127.0.0.1", "::1"):
                async with Client(broker.port, host) as client:
                    await client.connect(host)
    run(body())
