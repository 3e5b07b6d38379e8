"""A server of HTTP/1.1 on asyncio. The bytes are h11's work (extra [http]), their meaning a function's.

Bounded against non-members: connections at once, bytes of a head and of a body, seconds for a request and between two
of them. A connection beyond the limit takes the place of the one that has been without a request for the longest time,
so that half-open connections cannot lock out a probe; it is refused only while every other one is being answered.
"""
from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import ssl
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import attrs

from jgroups_py.model.counters import Counters, counter, declare, table
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.text import place
from jgroups_py.runtime.http.messages import HttpAnswer, HttpRequest, plain_answer
from jgroups_py.system.unix_sockets import listening_socket

try:
    import h11
except ImportError:                                          # the extra is not installed: said when it is needed
    h11 = None                                               # type: ignore[assignment]

log = logging.getLogger(__name__)
READ_BYTES = 64 << 10
BACKLOG = 512                               # connections that wait to be accepted; one beyond tries again after 1 s
ACCEPTED_AT_ONCE = 1                        # of these, in one round of the loop, between which it may give way
YOUNG_SECONDS = 0.1                         # a connection whose request may be under way, see HttpLimits
REASONS = {200: b"OK", 202: b"Accepted", 400: b"Bad Request", 401: b"Unauthorized", 403: b"Forbidden",
           404: b"Not Found", 405: b"Method Not Allowed", 408: b"Request Timeout", 409: b"Conflict",
           413: b"Payload Too Large", 421: b"Misdirected Request", 500: b"Internal Server Error",
           503: b"Service Unavailable"}

COUNTERS = declare(
    counter("requests", "Requests that were answered."),
    counter("refused_connections", "Connections refused since all others were being answered."),
    counter("idle_connections_closed", "Connections without a request that made room for a new one."),
    counter("bad_requests", "Connections ended because of bytes that are no request, or one that is too large."),
    counter("timeouts", "Connections ended because a request took too long to arrive, or none came."),
    counter("exceptions", "Errors of the program in an answer; each was answered with 500."),
)

Handler = Callable[[HttpRequest], Awaitable[HttpAnswer]]


@attrs.frozen(kw_only=True)
class HttpLimits:
    """Of one listener.

    connections: above it, those without a request are ended for a new one. burst: up to here only those that have been
    without one for YOUNG_SECONDS: when many come at once, one whose request is under way must not be ended for those
    behind it.
    """

    connections: int = 64
    burst: int = 512
    head_bytes: int = 16 << 10
    body_bytes: int = 1 << 20
    request_seconds: float = 10.0
    """From the first byte, or the connection, to the last byte of a request; and for the client to take an answer."""
    idle_seconds: float = 60.0


@attrs.define(eq=False)
class Client:
    """A connection. waiting_since: loop time since when it has no request, None while one is being answered."""

    writer: asyncio.StreamWriter
    task: asyncio.Task[Any]
    waiting_since: float | None


class HttpServer:
    """See the module.

    handler: makes the answer to a request. where: a (host, port), host "": all addresses, port 0: a free one, which
    `port` says after `start`; or the path of a UNIX domain socket, which gets mode 0600. what: the endpoint's name in
    errors. give_way: called between pieces of work, which are some 0.1 ms long; see GiveWay in thread.py.
    """

    COUNTERS = COUNTERS

    def __init__(
        self, handler: Handler, where: tuple[str, int] | Path, *, what: str, extra: str = "http",
        tls: ssl.SSLContext | None = None, limits: HttpLimits | None = None,
    ) -> None:
        if h11 is None:
            raise ConfigError(f"{what} needs h11: pip install 'jgroups_py[{extra}]'")
        self.where = where
        self.port = 0 if isinstance(where, Path) else where[1]
        self.limits = limits or HttpLimits()
        self.counters = Counters(table(COUNTERS))
        self.handler = handler
        self.give_way: Callable[[], None] = lambda: None
        self._what = what
        self._tls = tls
        self._clients: dict[asyncio.Task[Any], Client] = {}
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen.

        Raises:
            ConfigError: the address cannot be had.
        """
        try:
            self._server = await self._listen()
        except OSError as error:
            is_taken = error.errno == errno.EADDRINUSE
            why = "the port is in use by another process" if is_taken else error.strerror or error
            raise ConfigError(f"{self._what}: {place_text(self.where)}: {why}") from None
        if not isinstance(self.where, Path):
            self.port = self._server.sockets[0].getsockname()[1]

    async def _listen(self) -> asyncio.Server:
        if isinstance(self.where, Path):
            listener = listening_socket(self.where, self._what, self.limits.connections)
            return await asyncio.start_unix_server(self._serve, sock=listener, limit=READ_BYTES)
        host, port = self.where
        server = await asyncio.start_server(self._serve, host or None, port, ssl=self._tls, limit=READ_BYTES,
                                            backlog=ACCEPTED_AT_ONCE)
        for listening in server.sockets:                     # to asyncio one number is both, to the system it is not
            with listening.dup() as same:
                same.listen(BACKLOG)
        return server

    async def stop(self) -> None:
        """Stop listening and end all connections."""
        if self._server is not None:
            self._server.close()
        for task in list(self._clients):
            task.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        if self._server is not None and isinstance(self.where, Path):
            self.where.unlink(missing_ok=True)

    # --- connections ------------------------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.give_way()
        task = asyncio.current_task()
        assert task is not None, "a callback of streams runs in a task"
        if not self._has_room():
            self.counters.add("refused_connections")
            writer.close()
            return
        client = self._clients[task] = Client(writer, task, asyncio.get_running_loop().time())
        try:
            await self._requests(reader, client)
        except (OSError, EOFError, TimeoutError):
            pass                                             # the client is gone, or takes no answer
        except asyncio.CancelledError:
            pass                                             # by this server; streams of Python 3.11 would log it
        finally:
            self._clients.pop(task, None)
            writer.close()
            self.give_way()

    def _has_room(self) -> bool:
        """Whether one more connection is served. Above the limit those are ended that have been without a request for
        longest, as many as it takes."""
        limits, number = self.limits, len(self._clients)
        if number < limits.connections:
            return True
        now = asyncio.get_running_loop().time()
        idle = sorted((client.waiting_since, number, client) for number, client in enumerate(self._clients.values())
                      if client.waiting_since is not None)
        for since, _, client in idle:
            if number < limits.connections or (now - since < YOUNG_SECONDS and number < limits.burst):
                return True
            self.counters.add("idle_connections_closed")
            del self._clients[client.task]
            client.task.cancel()
            number -= 1
        return number < limits.connections

    async def _requests(self, reader: asyncio.StreamReader, client: Client) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=self.limits.head_bytes)
        peer = client.writer.get_extra_info("peername")
        peer_text = peer[0] if isinstance(peer, tuple) else ""
        while True:
            client.waiting_since = asyncio.get_running_loop().time()
            try:
                request = await self._next_request(connection, reader, peer_text)
            except TimeoutError:
                self.counters.add("timeouts")
                return await self._send(connection, client, plain_answer(408, "Request Timeout"), is_last=True)
            except h11.RemoteProtocolError as error:
                self.counters.add("bad_requests")
                return await self._send(connection, client, plain_answer(400, f"Bad Request: {error}"), is_last=True)
            client.waiting_since = None
            if request is None:
                return
            if isinstance(request, HttpAnswer):
                self.counters.add("bad_requests")
                return await self._send(connection, client, request, is_last=True)
            self.give_way()
            answer = await self._answer(request)
            self.counters.add("requests")
            await self._send(connection, client, answer, is_head=request.method == "HEAD")
            if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                return
            connection.start_next_cycle()

    async def _answer(self, request: HttpRequest) -> HttpAnswer:
        try:
            return await self.handler(request)
        except Exception:
            self.counters.add("exceptions")
            log.exception("%s: %s %s", self._what, request.method, request.target)
            return plain_answer(500, "Internal Server Error")

    async def _next_request(
        self, connection: h11.Connection, reader: asyncio.StreamReader, peer: str,
    ) -> HttpRequest | HttpAnswer | None:
        """The next request, or the answer to one whose body is too large; None: the client has closed."""
        head: h11.Request | None = None
        parts: list[bytes] = []
        size = 0
        if not connection.trailing_data[0]:
            async with asyncio.timeout(self.limits.idle_seconds):
                connection.receive_data(await reader.read(READ_BYTES))
        async with asyncio.timeout(self.limits.request_seconds):
            while True:
                event = connection.next_event()
                if event is h11.NEED_DATA:
                    connection.receive_data(await reader.read(READ_BYTES))
                elif isinstance(event, h11.Request):
                    head = event
                    self.give_way()
                elif isinstance(event, h11.Data):
                    size += len(event.data)
                    if size > self.limits.body_bytes:
                        return plain_answer(413, "Payload Too Large")
                    parts.append(bytes(event.data))
                elif isinstance(event, h11.EndOfMessage) and head is not None:
                    headers = {name.decode("ascii"): value.decode("latin-1") for name, value in head.headers}
                    return HttpRequest(head.method.decode("ascii"), head.target.decode("ascii", "replace"), headers,
                                       b"".join(parts), peer)
                else:                                        # ConnectionClosed, or PAUSED by an upgrade
                    return None

    async def _send(
        self, connection: h11.Connection, client: Client, answer: HttpAnswer, *, is_last: bool = False,
        is_head: bool = False,
    ) -> None:
        stream = answer.stream
        try:
            if connection.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
                return
            headers = [("Content-Type", answer.content_type), ("X-Content-Type-Options", "nosniff"), *answer.headers]
            if stream is None:
                headers.append(("Content-Length", str(len(answer.body))))
            if is_last:
                headers.append(("Connection", "close"))
            parts = [connection.send(h11.Response(
                status_code=answer.status, headers=headers, reason=REASONS.get(answer.status, b"")))]
            self.give_way()
            if not is_head:
                parts.append(connection.send(h11.Data(data=answer.body)))
            if stream is None or is_head:
                parts.append(connection.send(h11.EndOfMessage()))
            await self._write(client, parts)
            if stream is not None and not is_head:
                async for piece in stream:
                    await self._write(client, [connection.send(h11.Data(data=piece))])
                await self._write(client, [connection.send(h11.EndOfMessage())])
        finally:
            if stream is not None:
                with contextlib.suppress(RuntimeError):      # it is being closed already
                    await stream.aclose()

    async def _write(self, client: Client, parts: Iterable[bytes | None]) -> None:
        """Give bytes to the client. One that takes none for too long is ended: TimeoutError."""
        self.give_way()
        client.writer.write(b"".join(part for part in parts if part))
        async with asyncio.timeout(self.limits.request_seconds):
            await client.writer.drain()


def place_text(where: tuple[str, int] | Path) -> str:
    """An address as it is written in a configuration.

    >>> place_text(("::1", 80)), place_text(("", 80)), place_text(Path("/run/a.sock"))
    ('[::1]:80', '*:80', 'unix:/run/a.sock')
    """
    if isinstance(where, Path):
        return f"unix:{where}"
    return place(*where)
