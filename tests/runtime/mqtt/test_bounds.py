"""What clients may cost: slow readers, garbage, many connections, and errors that only one of them causes."""
from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from jgroups_py.blocks.mqtt.broker.auth import FileAuthorizer, hash_password, read_passwords
from jgroups_py.blocks.mqtt.broker.ports import AllowAll
from jgroups_py.blocks.mqtt.codec.encoder import encode
from jgroups_py.blocks.mqtt.codec.packets import (
    ConnAckPacket,
    ConnectPacket,
    DisconnectPacket,
    PingReqPacket,
    PingRespPacket,
    PublishPacket,
    ReasonCode,
)
from jgroups_py.blocks.mqtt.server.listen import ListenAddress, SocketLimits
from jgroups_py.blocks.mqtt.server.listeners import guard_half_open, raise_descriptor_limit
from tests.runtime.mqtt.kit import V3, V5, Client, server
from tests.runtime.mqtt.processes import serving

pytestmark = pytest.mark.real
MIB = 1 << 20


def run(what: Coroutine[Any, Any, None]) -> None:
    asyncio.run(what)


async def answers(client: Client) -> None:
    """The broker still answers this client."""
    client.write(PingReqPacket())
    await client.get(PingRespPacket)


def file_with(tmp_path: Path, mqtt: str) -> str:
    """A configuration with a listener on loopback and these keys of `mqtt`."""
    file = tmp_path / "node.yml"
    file.write_text(f"listeners: [{{address: '127.0.0.1:0'}}]\nmqtt: {{{mqtt}}}\nlog: {{level: error}}\n")
    return str(file)


# --- slow readers ---------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_subscriber_that_does_not_read_costs_its_queue_and_no_more(loop, tmp_path):
    """200 MB for a subscriber with a queue of 4 MB; another one that reads gets all."""
    payload, number = bytes(10_000), 20_000

    async def body(port: int) -> int:
        async with Client(port) as slow, Client(port) as quick, Client(port) as publisher:
            for client_id, client in (("slow", slow), ("quick", quick), ("publisher", publisher)):
                await client.connect(client_id)
            slow.writer.transport.pause_reading()
            await quick.subscribe("t")
            slow.writer.transport.resume_reading()
            await slow.subscribe("t")
            slow.writer.transport.pause_reading()
            packet = encode(PublishPacket("t", payload), V5)
            sent = got = 0
            while got < number:
                while sent < number and sent - got < 200:
                    publisher.writer.write(packet)
                    sent += 1
                await publisher.writer.drain()
                await quick.get(PublishPacket)
                got += 1
            await answers(quick)
            return got

    with serving("-c", file_with(tmp_path, "queue_size: 4M, max_queued_messages: 100000"), "--loop", loop) as broker:
        before = broker.rss_bytes
        assert asyncio.run(body(broker.port)) == number
        assert broker.rss_bytes - before < 40 * MIB


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_client_that_does_not_read_its_acknowledgements_is_not_read(loop, tmp_path):
    """It could otherwise have the broker keep one for each of its pings, without end."""
    def body(port: int) -> int:
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.sendall(encode(ConnectPacket("c", V5), V5))
            client.settimeout(3)
            pings, sent = encode(PingReqPacket(), V5) * 32_768, 0
            try:
                while sent < 256 * MIB:
                    sent += client.send(pings)
            except TimeoutError:
                pass
            return sent

    with serving("-c", file_with(tmp_path, "max_keepalive: 0"), "--loop", loop) as broker:
        before = broker.rss_bytes
        assert body(broker.port) < 64 * MIB
        assert broker.rss_bytes - before < 40 * MIB


def test_many_retained_messages_do_not_fill_the_memory_of_the_connection():
    async def body() -> None:
        async with server(limits=SocketLimits(write_high_bytes=64 << 10, unread_bytes=256 << 10)) as broker:
            for number in range(20_000):
                broker.broker.publish(f"t/{number}", bytes(1_000), 0, True, 1)
            broker.settle()
            async with Client(broker.port) as client:
                await client.connect("c")
                await client.subscribe("t/#")
                got = 0
                while got < 20_000:
                    await client.get(PublishPacket)
                    got += 1
    run(body())


# --- strangers ------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("listener", [ListenAddress("127.0.0.1", 0), ListenAddress("127.0.0.1", 0, None, "/mqtt")])
def test_garbage_on_200_connections_disturbs_nobody(listener):
    rng = random.Random(7)

    async def stranger(port: int) -> None:
        async with Client(port) as client:
            data = rng.randbytes(rng.randrange(1, 5_000))
            if rng.random() < 0.5:
                data = encode(ConnectPacket("c", V5), V5) + data
            if rng.random() < 0.3:
                data = b"GET /mqtt HTTP/1.1\r\n" + data
            client.writer.write(data)
            client.writer.write_eof()
            while await client.reader.read(1 << 16):
                pass

    async def body() -> None:
        async with server(ListenAddress("127.0.0.1", 0), listener) as broker, Client(broker.port) as client:
            await client.connect("stays")
            await asyncio.gather(*(asyncio.wait_for(stranger(broker.addresses[1].port), 60) for _ in range(200)))
            await answers(client)
            assert broker.counters["accepted"] == 201
            assert broker.counters["exceptions"] == 0
            assert len(broker.broker.connections) == 1
    run(body())


def test_a_flood_of_connections_is_bounded_and_counted_and_disturbs_nobody():
    """1,000 connections at once that say nothing, or half a CONNECT, where 50 may be."""
    flood, most = 1_000, 50

    async def ended(reader: asyncio.StreamReader) -> bool:
        """Whether the broker closes it."""
        try:
            return await asyncio.wait_for(reader.read(1), 30) == b""
        except ConnectionResetError:                     # what it had not read
            return True

    async def body() -> None:
        async with server(max_clients=most) as broker, Client(broker.port) as client:
            await client.connect("stays")
            counters, connections = broker.broker.counters, broker.broker.connections
            strangers = []
            for _ in range(flood // 100):
                made = await asyncio.gather(*(asyncio.open_connection("127.0.0.1", broker.port) for _ in range(100)))
                for at, (_, writer) in enumerate(made):
                    writer.write(b"\x10\x7f" if at % 2 else b"")
                await answers(client)
                assert len(connections) == most
                strangers += made
            refused = strangers[most - 1:]
            assert all([await ended(reader) for reader, _ in refused])
            assert counters["refused_full"] == len(refused)
            assert len(connections) == most
            for _, writer in strangers:
                writer.transport.abort()
            while len(connections) > 1:
                await asyncio.sleep(0.01)
            async with Client(broker.port) as another:
                await another.connect("comes")
                await answers(another)
            assert broker.counters["exceptions"] == 0
    run(body())


def test_a_stranger_by_websocket_cannot_fill_the_memory():
    """A WebSocket message is held until it is complete; before CONNECT the bound is that of CONNECT."""
    size = 8 * MIB
    request = (b"GET /mqtt HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
               b"Sec-WebSocket-Key: MTIzNDU2Nzg5MDEyMzQ1Ng==\r\nSec-WebSocket-Version: 13\r\n"
               b"Sec-WebSocket-Protocol: mqtt\r\n\r\n")

    def message(data: bytes, of: int) -> bytes:
        """The beginning of a binary message of `of` bytes, with a mask of zeros."""
        return b"\x82\xff" + of.to_bytes(8, "big") + bytes(4) + data

    async def sent(port: int, *data: bytes) -> bytes:
        """What is answered until the end, or for a while."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request + b"".join(data))
        await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
        found = b""
        try:
            while part := await asyncio.wait_for(reader.read(1 << 16), 1):
                found += part
        except TimeoutError:
            found += b"open"
        except ConnectionResetError:
            pass                                         # what was unread when the broker closed
        writer.transport.abort()
        return found

    async def body() -> None:
        listener = ListenAddress("127.0.0.1", 0, websocket_path="/mqtt")
        async with server(listener, max_packet_bytes=2 * size) as broker:
            connect = encode(ConnectPacket("c", V5), V5)
            assert not (await sent(broker.port, message(bytes(MIB), size))).endswith(b"open")
            assert broker.counters["websocket_ended"] == 1
            answer = await sent(broker.port, message(connect, len(connect)), message(bytes(MIB), size))
            assert answer.endswith(b"open"), "a client may send that"
            assert answer[2] == 0x20, "its CONNACK"
    run(body())


def test_two_thousand_idle_connections(tmp_path):
    """Each costs some kilobytes, and the broker answers a further one."""
    number = 2_000
    assert raise_descriptor_limit(number) >= number, "ulimit -n is too low for this test"

    async def body(port: int) -> None:
        idle = []
        for at in range(number):
            client = Client(port, version=V3)
            await client.__aenter__()
            await client.connect(f"idle-{at}", keep_alive_s=60)
            idle.append(client)
        async with Client(port) as client:
            await client.connect("c")
            await answers(client)
        await answers(idle[0])
        await answers(idle[-1])
        for client in idle:
            client.writer.transport.abort()

    with serving("-c", file_with(tmp_path, "max_clients: 3000")) as broker:
        before = broker.rss_bytes
        asyncio.run(body(broker.port))
        assert broker.rss_bytes - before < number * 20_000


def test_there_are_no_more_connections_than_allowed():
    async def body() -> None:
        async with server(max_clients=2) as broker, Client(broker.port) as one, Client(broker.port) as two:
            await one.connect("one")
            await two.connect("two")
            async with Client(broker.port) as third:
                assert await third.next() is None
            await answers(one)
            assert broker.broker.counters["refused_full"] == 1
    run(body())


def test_a_connection_without_connect_is_closed_in_time():
    async def body() -> None:
        async with server(connect_timeout_s=0.1) as broker, Client(broker.port) as client, Client(broker.port) as half:
            half.writer.write(b"\x10")
            assert await client.next() is None
            assert await half.next() is None
            assert broker.broker.counters["connect_timeouts"] == 2
    run(body())


def test_a_client_that_is_silent_longer_than_its_keep_alive_is_disconnected():
    async def body() -> None:
        async with server() as broker, Client(broker.port) as client:
            await client.connect("c", keep_alive_s=1)
            assert (await client.get(DisconnectPacket)).reason is ReasonCode.KEEP_ALIVE_TIMEOUT
            assert await client.next() is None
    run(body())


def test_a_packet_that_is_too_large_ends_its_connection():
    async def body() -> None:
        async with server(max_packet_bytes=1_000) as broker, Client(broker.port) as client:
            await client.connect("c")
            client.write(PublishPacket("t", bytes(2_000)))
            assert (await client.get(DisconnectPacket)).reason is ReasonCode.PACKET_TOO_LARGE
            assert await client.next() is None
    run(body())


def test_the_system_looks_after_peers_that_vanish(monkeypatch):
    """A client with a keep-alive of 0 that is unplugged would stay for ever."""
    guarded = []

    def guard(client: socket.socket) -> None:
        guard_half_open(client)
        guarded.append(client.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))

    monkeypatch.setattr("jgroups_py.blocks.mqtt.server.server.guard_half_open", guard)

    async def body() -> None:
        async with server() as broker, Client(broker.port) as client:
            await client.connect("c")
    run(body())
    assert guarded == [1]


def test_an_error_in_the_broker_ends_the_connection_that_caused_it(caplog):
    class Broken(AllowAll):
        def may(self, client_id: str, *rest: object) -> bool:
            assert client_id != "bad", "as if the authorizer had an error"
            return True

    async def body() -> None:
        async with server(authorizer=Broken()) as broker, Client(broker.port) as good, Client(broker.port) as bad:
            await good.connect("good")
            await good.subscribe("t")
            await bad.connect("bad")
            bad.write(PublishPacket("t", b"x"))
            assert await bad.next() is None
            await answers(good)
            assert broker.counters["exceptions"] == 1
            assert len(broker.broker.connections) == 1
    run(body())
    assert "as if the authorizer had an error" in caplog.text


# --- passwords ------------------------------------------------------------------------------------------------------

def test_passwords_are_checked_in_threads_and_too_many_at_once_are_refused():
    users = read_passwords("".join(f"user{number}:{hash_password(b'right', bytes([number] * 16))}\n"
                                   for number in range(6)))

    async def body() -> None:
        limits = SocketLimits(waiting_passwords=4)
        authorizer = FileAuthorizer(users, None, b"key")
        async with server(authorizer=authorizer, limits=limits) as broker:
            async def connect(number: int, password: bytes) -> ReasonCode | None:
                async with Client(broker.port) as client:
                    client.write(ConnectPacket(f"c{number}", V5, username=f"user{number}", password=password),
                                 PingReqPacket())        # what follows CONNECT waits with it
                    answer = await client.next()
                    if answer is None:
                        return None
                    assert isinstance(answer, ConnAckPacket)
                    if answer.reason is ReasonCode.SUCCESS:
                        await client.get(PingRespPacket)
                    return answer.reason
            found = await asyncio.gather(*(connect(number, b"right") for number in range(3)), connect(3, b"wrong"))
            assert found == [ReasonCode.SUCCESS] * 3 + [ReasonCode.BAD_USER_NAME_OR_PASSWORD]
            found = await asyncio.gather(*(connect(number, b"wrong") for number in range(6)))
            refused = broker.counters["refused_passwords"]
            assert sorted(map(str, found)) == sorted(
                ["None"] * refused + [str(ReasonCode.BAD_USER_NAME_OR_PASSWORD)] * (6 - refused))
            assert refused == 2
            assert await connect(0, b"right") is ReasonCode.SUCCESS
    run(body())
