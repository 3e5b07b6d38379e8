"""The REST API on a socket: what clients and strangers send, and the bounds."""
from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from random import Random
from time import monotonic_ns, time

import pytest

from jgroups_py.blocks.mqtt.broker.broker import Broker
from jgroups_py.blocks.mqtt.broker.options import BrokerOptions
from jgroups_py.blocks.mqtt.server.admin import AdminLimits, AdminServer
from jgroups_py.blocks.mqtt.server.rest import RestApi
from jgroups_py.model.errors import ConfigError

pytestmark = pytest.mark.real
HEALTH = b"GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n"


def serve(test: Callable[[AdminServer], Awaitable[None]], **limits: float) -> None:
    """Run a test against a server on a free port."""
    async def run() -> None:
        broker = Broker(BrokerOptions(node_name="node1"), Random(1), now_ns=monotonic_ns())
        api = RestApi(broker, broker.drain, None, monotonic_ns, time)
        async with AdminServer(api, port=0, limits=AdminLimits(**limits)) as server:  # type: ignore[arg-type]
            await test(server)
    asyncio.run(run())


async def connect(server: AdminServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", server.port)


async def exchange(server: AdminServer, data: bytes) -> bytes:
    """All that comes until the server closes."""
    reader, writer = await connect(server)
    writer.write(data)
    answer = await reader.read()
    writer.close()
    return answer


async def read_answer(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """(status line, body)."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    return head.split(b"\r\n")[0], await reader.readexactly(length)


def test_requests_on_one_connection_also_at_once():
    async def test(server: AdminServer) -> None:
        reader, writer = await connect(server)
        writer.write(HEALTH + HEALTH + b"POST /v1/publish HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(2):
            assert await read_answer(reader) == (b"HTTP/1.1 200 OK", b'{"status":"ok","node_name":"node1"}')
        body = json.dumps({"topic_name": "a", "payload": "x"}).encode()
        for at in range(len(body)):
            writer.write(b"1\r\n" + body[at:at + 1] + b"\r\n")
        writer.write(b"0\r\n\r\n")
        assert await read_answer(reader) == (b"HTTP/1.1 200 OK", b"{}")
        writer.write(b"HEAD /v1/health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 405 Method Not Allowed\r\n")
        assert answer.endswith(b"\r\n\r\n")
        assert server.counters["requests"] == 4
        writer.close()
    serve(test)


@pytest.mark.parametrize("data", [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", b"\r\n" * 10 + b"\0",
    b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
])
def test_what_is_no_request_ends_the_connection(data: bytes):
    async def test(server: AdminServer) -> None:
        assert (await exchange(server, data)).startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert server.counters["bad_requests"] == 1
        assert (await exchange(server, HEALTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))).startswith(
            b"HTTP/1.1 200 OK\r\n")
    serve(test)


def test_a_head_without_an_end_is_not_kept():
    async def test(server: AdminServer) -> None:
        reader, writer = await connect(server)
        with contextlib.suppress(ConnectionError):       # what it does not read resets the connection
            while True:
                writer.write(b"GET /" + b"x" * 10_000)
                await writer.drain()
        assert server.counters["bad_requests"] == 1
        del reader
    serve(test)


def test_a_body_that_is_too_large_is_not_read():
    async def test(server: AdminServer) -> None:
        data = b"POST /v1/publish HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 2_000
        assert (await exchange(server, data)).startswith(b"HTTP/1.1 413 Payload Too Large\r\n")
    serve(test, body_bytes=1_000)


def test_a_slow_request_and_an_idle_connection_end():
    async def test(server: AdminServer) -> None:
        assert (await exchange(server, HEALTH[:-4])).startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        assert b"408" in await exchange(server, b"")
        assert server.counters["timeouts"] == 2
    serve(test, request_seconds=0.05, idle_seconds=0.05)


def test_connections_beyond_their_number_are_closed():
    async def test(server: AdminServer) -> None:
        held = [await connect(server) for _ in range(3)]
        for reader, writer in held:
            writer.write(HEALTH)
            assert (await read_answer(reader))[0] == b"HTTP/1.1 200 OK"
        assert await exchange(server, b"") == b""
        assert server.counters["refused_connections"] == 1
        for _, writer in held:
            writer.close()
    serve(test, connections=3)


def test_an_error_in_the_api_is_answered_and_counted():
    async def test(server: AdminServer) -> None:
        async def fail(method: str, target: str, body: bytes) -> None:
            raise ZeroDivisionError
        server._api.handle = fail  # type: ignore[method-assign, assignment]
        reader, writer = await connect(server)
        writer.write(HEALTH)
        assert (await read_answer(reader))[0] == b"HTTP/1.1 500 Internal Server Error"
        assert server.counters["exceptions"] == 1
        writer.close()
    serve(test)


def test_a_port_that_is_in_use_is_named():
    async def test(server: AdminServer) -> None:
        other = AdminServer(server._api, port=server.port)
        with pytest.raises(ConfigError, match=rf"^REST: 127\.0\.0\.1:{server.port}: "):
            await other.start()
    serve(test)
