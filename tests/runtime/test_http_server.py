"""The server of HTTP on a socket: what clients and non-members send, and the bounds."""
from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import selectors
import socket
import stat
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import pytest

from jgroups_py.model.errors import ConfigError
from jgroups_py.runtime.http import server as http_server
from jgroups_py.runtime.http import thread as http_thread
from jgroups_py.runtime.http.messages import HttpAnswer, HttpRequest, plain_answer
from jgroups_py.runtime.http.server import YOUNG_SECONDS, HttpLimits, HttpServer
from jgroups_py.runtime.http.thread import (
    READY_AT_ONCE,
    REST_SECONDS,
    USUAL_REST_SECONDS,
    WORK_FOR_LATE,
    WORK_SECONDS,
    GiveWay,
    GivingSelector,
    HttpThread,
)

pytestmark = pytest.mark.real
HEALTH = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"


async def handle(request: HttpRequest) -> HttpAnswer:
    """Echoes what is posted; /health is fine; /stream comes in pieces; /broken raises."""
    match request.target:
        case "/health" if request.method == "GET":
            return HttpAnswer(200, b'{"status":"ok"}')
        case "/echo":
            return HttpAnswer(200, request.body)
        case "/stream":
            return HttpAnswer(200, b"first;", "text/event-stream", stream=pieces())
        case "/broken":
            raise ZeroDivisionError
    return plain_answer(405, "Method Not Allowed")


async def pieces() -> AsyncGenerator[bytes, None]:
    for number in range(3):
        yield b"%d;" % number


def serve(test: Callable[[HttpServer], Awaitable[None]], **limits: float) -> None:
    """Run a test against a server on a free port."""
    async def run() -> None:
        bounds = HttpLimits(**limits)  # type: ignore[arg-type]
        async with HttpServer(handle, ("127.0.0.1", 0), what="endpoint", limits=bounds) as server:
            await test(server)
    asyncio.run(run())


async def connect(server: HttpServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", server.port)


async def exchange(server: HttpServer, data: bytes) -> bytes:
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
    async def test(server: HttpServer) -> None:
        reader, writer = await connect(server)
        writer.write(HEALTH + HEALTH + b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(2):
            assert await read_answer(reader) == (b"HTTP/1.1 200 OK", b'{"status":"ok"}')
        body = b"a body in pieces"
        for at in range(len(body)):
            writer.write(b"1\r\n" + body[at:at + 1] + b"\r\n")
        writer.write(b"0\r\n\r\n")
        assert await read_answer(reader) == (b"HTTP/1.1 200 OK", body)
        writer.write(b"HEAD /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
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
    async def test(server: HttpServer) -> None:
        assert (await exchange(server, data)).startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert server.counters["bad_requests"] == 1
        assert (await exchange(server, HEALTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))).startswith(
            b"HTTP/1.1 200 OK\r\n")
    serve(test)


def test_a_head_without_an_end_is_not_kept():
    async def test(server: HttpServer) -> None:
        reader, writer = await connect(server)
        with contextlib.suppress(ConnectionError):       # what it does not read resets the connection
            while True:
                writer.write(b"GET /" + b"x" * 10_000)
                await writer.drain()
        assert server.counters["bad_requests"] == 1
        del reader
    serve(test)


def test_a_body_that_is_too_large_is_not_read():
    async def test(server: HttpServer) -> None:
        data = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 2_000
        assert (await exchange(server, data)).startswith(b"HTTP/1.1 413 Payload Too Large\r\n")
    serve(test, body_bytes=1_000)


def test_a_slow_request_and_an_idle_connection_end():
    async def test(server: HttpServer) -> None:
        assert (await exchange(server, HEALTH[:-4])).startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        assert b"408" in await exchange(server, b"")
        assert server.counters["timeouts"] == 2
    serve(test, request_seconds=0.05, idle_seconds=0.05)


def test_a_connection_beyond_the_limit_takes_the_place_of_the_one_that_is_idle_for_longest():
    async def test(server: HttpServer) -> None:
        held = [await connect(server) for _ in range(3)]
        for reader, writer in held:
            writer.write(HEALTH)
            assert (await read_answer(reader))[0] == b"HTTP/1.1 200 OK"
        await asyncio.sleep(1.5 * YOUNG_SECONDS)
        reader, writer = await connect(server)
        writer.write(HEALTH)
        assert (await read_answer(reader))[0] == b"HTTP/1.1 200 OK"
        assert await held[0][0].read() == b"", "the idlest was closed"
        assert (server.counters["idle_connections_closed"], server.counters["refused_connections"]) == (1, 0)
        for _, each in [*held, (reader, writer)]:
            each.close()
    serve(test, connections=3)


def test_a_probe_among_many_connections_that_come_at_once_is_answered(monkeypatch):
    async def test(server: HttpServer) -> None:
        monkeypatch.setattr(http_server, "YOUNG_SECONDS", 60.0)          # all of them are, on a busy machine too
        waiting = [await connect(server)]
        crowd = [asyncio.create_task(connect(server)) for _ in range(100)]
        waiting += [await asyncio.create_task(connect(server))]
        for reader, writer in waiting:
            writer.write(HEALTH)
            assert (await read_answer(reader))[0] == b"HTTP/1.1 200 OK", "it was ended for those that came behind it"
        assert len(server._clients) > 50, "all of them came at once"
        waiting += await asyncio.gather(*crowd)
        monkeypatch.setattr(http_server, "YOUNG_SECONDS", 0.0)
        waiting += [await connect(server)]
        waiting[-1][1].write(HEALTH)
        assert (await read_answer(waiting[-1][0]))[0] == b"HTTP/1.1 200 OK"
        assert len(server._clients) <= 8, "once they are not young any more they are ended for a new one"
        for _, writer in waiting:
            writer.close()
    serve(test, connections=8)


def test_above_the_bound_of_a_burst_the_idlest_is_ended_however_young():
    async def test(server: HttpServer) -> None:
        held = [await connect(server) for _ in range(20)]
        await asyncio.sleep(0.05)
        assert len(server._clients) <= 10
        for _, writer in held:
            writer.close()
    serve(test, connections=3, burst=10)


def test_connections_that_come_while_the_loop_is_busy_wait_for_it():
    async def test(server: HttpServer) -> None:
        clients = [socket.create_connection(("127.0.0.1", server.port), timeout=1) for _ in range(200)]
        for client in clients:                               # the server has not run since the first one
            client.sendall(HEALTH)
        async with asyncio.timeout(30):
            while server.counters["requests"] < len(clients):
                await asyncio.sleep(0.01)
        for client in clients:
            client.close()
    serve(test, connections=400)


def test_a_server_with_a_thread_of_its_own_rests_after_some_work(monkeypatch: pytest.MonkeyPatch):
    clock, rests = {"worked": 0.0}, []
    monkeypatch.setattr(http_thread.time, "thread_time", lambda: clock["worked"])
    monkeypatch.setattr(http_thread.time, "sleep", rests.append)
    give_way = GiveWay()
    for _ in range(10):
        clock["worked"] += WORK_SECONDS * 0.4
        give_way()
    assert rests == [REST_SECONDS] * 3
    now = iter([0.0, USUAL_REST_SECONDS + WORK_SECONDS])     # before and after a rest that ended late
    monkeypatch.setattr(http_thread.time, "perf_counter", lambda: next(now))
    clock["worked"] += WORK_SECONDS
    for _ in range(WORK_FOR_LATE):
        give_way()
        clock["worked"] += WORK_SECONDS * 0.9
    assert len(rests) == 4, "it works for longer before the next one"


def test_sockets_that_are_ready_take_turns_and_one_that_is_closed_meanwhile_is_left_out():
    pairs = [socket.socketpair() for _ in range(2 * READY_AT_ONCE)]
    with contextlib.closing(GivingSelector(lambda: None)) as selector:
        for number, (ours, theirs) in enumerate(pairs):
            selector.register(ours, selectors.EVENT_READ, number)
            theirs.send(b"x")                                # and nobody reads it
        first = [key.data for key, _ in selector.select(0)]
        second = [key.data for key, _ in selector.select(0)]
        assert sorted(first + second) == list(range(2 * READY_AT_ONCE))
        again = [key.data for key, _ in selector.select(0)]
        assert len(again) == READY_AT_ONCE
        [left, *others] = {*range(2 * READY_AT_ONCE)} - {*again}
        selector.unregister(pairs[left][0])
        assert [key.data for key, _ in selector.select(0)] == others
    for ours, theirs in pairs:
        ours.close()
        theirs.close()


def test_the_work_for_a_burst_of_clients_is_done_in_pieces():
    """40 requests that come at once, each of which costs 2 ms: between two of them the thread gives way."""
    gave_way: list[float] = []

    async def work(request: HttpRequest) -> HttpAnswer:
        until = time.thread_time() + 0.002
        while time.thread_time() < until:
            pass
        return HttpAnswer(200, b"{}")
    server = HttpServer(work, ("127.0.0.1", 0), what="endpoint")
    thread = HttpThread(server, "endpoint")
    rest = server.give_way
    server.give_way = lambda: (gave_way.append(time.thread_time()), rest())[1]
    thread.start()
    try:
        clients = [socket.create_connection(("127.0.0.1", server.port), timeout=30) for _ in range(40)]
        for client in clients:
            client.sendall(HEALTH)
        for client in clients:
            assert client.recv(4096).startswith(b"HTTP/1.1 200")
            client.close()
    finally:
        thread.close()
    assert gave_way[-1] - gave_way[0] >= 40 * 0.002
    assert max(after - before for before, after in itertools.pairwise(gave_way)) < 2 * 0.002


def test_while_all_others_are_being_answered_a_connection_is_refused():
    async def test(server: HttpServer) -> None:
        going_on = asyncio.Event()

        async def wait(request: HttpRequest) -> HttpAnswer:
            await going_on.wait()
            return plain_answer(200, "late")
        server.handler = wait
        held = [await connect(server) for _ in range(2)]
        for _, writer in held:
            writer.write(HEALTH)
        while any(client.waiting_since is not None for client in server._clients.values()) or len(server._clients) < 2:
            await asyncio.sleep(0)
        assert await exchange(server, b"") == b""
        assert server.counters["refused_connections"] == 1
        going_on.set()
        for reader, writer in held:
            assert (await read_answer(reader))[1] == b"late\n"
            writer.close()
    serve(test, connections=2)


def test_an_error_in_the_handler_is_answered_and_counted():
    async def test(server: HttpServer) -> None:
        answer = await exchange(server, b"GET /broken HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
        assert server.counters["exceptions"] == 1
    serve(test)


def test_a_stream_comes_in_pieces_and_ends():
    async def test(server: HttpServer) -> None:
        answer = await exchange(server, b"GET /stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        head, _, body = answer.partition(b"\r\n\r\n")
        assert b"content-length" not in head.lower()
        assert body == b"6\r\nfirst;\r\n2\r\n0;\r\n2\r\n1;\r\n2\r\n2;\r\n0\r\n\r\n"
    serve(test)


def test_a_client_that_takes_nothing_of_a_stream_is_ended():
    async def test(server: HttpServer) -> None:
        ended = asyncio.Event()

        async def endless() -> AsyncGenerator[bytes, None]:
            try:
                while True:
                    yield b"x" * 100_000
            finally:
                ended.set()

        async def flood(request: HttpRequest) -> HttpAnswer:
            return HttpAnswer(200, b"", stream=endless())
        server.handler = flood
        _, writer = await connect(server)
        writer.write(HEALTH)
        await ended.wait()
        writer.close()
    serve(test, request_seconds=0.1)


def test_a_port_that_is_in_use_is_named():
    async def test(server: HttpServer) -> None:
        other = HttpServer(handle, ("127.0.0.1", server.port), what="endpoint")
        with pytest.raises(ConfigError, match=rf"^endpoint: 127\.0\.0\.1:{server.port}: the port is in use"):
            await other.start()
    serve(test)


def test_a_unix_socket_is_for_its_user_and_is_removed(tmp_path: Path):
    path = tmp_path / "http.sock"

    async def test() -> None:
        async with HttpServer(handle, path, what="endpoint"):
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(HEALTH)
            assert (await read_answer(reader))[0] == b"HTTP/1.1 200 OK"
            writer.close()
            with pytest.raises(ConfigError, match=r"another member listens there"):
                await HttpServer(handle, path, what="endpoint").start()
    asyncio.run(test())
    assert not path.exists()
