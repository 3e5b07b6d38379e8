"""The REST API on sockets of asyncio; HTTP/1.1 by h11 (extra [mqtt]), what it means by rest.py.

Bounded against what strangers send: connections at once, bytes of a head and of a body, seconds for a request and
between two of them. Whoever can connect may order: listen at 127.0.0.1, or put a proxy with passwords in front.
"""
from __future__ import annotations

import asyncio
import errno
import logging
import ssl
from types import TracebackType

import attrs

from jgroups_py.blocks.mqtt.server.listen import place
from jgroups_py.blocks.mqtt.server.rest import RestAnswer, RestApi, plain_answer
from jgroups_py.model.counters import Counters, counter, declare, table
from jgroups_py.model.errors import ConfigError

try:
    import h11
except ImportError:                                          # the extra is not installed: said when it is needed
    h11 = None                                               # type: ignore[assignment]

log = logging.getLogger(__name__)
READ_BYTES = 64 << 10
REASONS = {200: b"OK", 400: b"Bad Request", 404: b"Not Found", 405: b"Method Not Allowed",
           408: b"Request Timeout", 413: b"Payload Too Large", 500: b"Internal Server Error",
           503: b"Service Unavailable"}

COUNTERS = declare(
    counter("requests", "Requests that were answered."),
    counter("refused_connections", "Connections beyond their number."),
    counter("bad_requests", "Connections ended because of bytes that are no request, or one that is too large."),
    counter("timeouts", "Connections ended because a request took too long to arrive, or none came."),
    counter("exceptions", "Errors in the API; each was answered with 500."),
)


@attrs.frozen(kw_only=True)
class AdminLimits:
    """Of one listener."""

    connections: int = 64
    head_bytes: int = 16 << 10
    body_bytes: int = 1 << 20
    request_seconds: float = 10.0
    """From the first byte, or the connection, to the last byte of a request."""
    idle_seconds: float = 60.0


class AdminServer:
    """See the module. host "": all addresses; port 0: a free one (`port` says which)."""

    COUNTERS = COUNTERS

    def __init__(
        self, api: RestApi, host: str = "127.0.0.1", port: int = 8083, *, tls: ssl.SSLContext | None = None,
        limits: AdminLimits | None = None,
    ) -> None:
        if h11 is None:
            raise ConfigError("the REST API needs h11: pip install 'jgroups_py[mqtt]'")
        self.port = port
        self.limits = limits or AdminLimits()
        self.counters = Counters(table(COUNTERS))
        self._api = api
        self._host = host
        self._tls = tls
        self._clients: dict[asyncio.Task[None], None] = {}
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> AdminServer:
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
            self._server = await asyncio.start_server(
                self._serve, self._host or None, self.port, ssl=self._tls, limit=READ_BYTES)
        except OSError as error:
            is_taken = error.errno == errno.EADDRINUSE
            why = "the port is in use by another process" if is_taken else error.strerror or error
            raise ConfigError(f"REST: {place(self._host, self.port)}: {why}") from None
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening and end all connections."""
        if self._server is not None:
            self._server.close()
        for task in list(self._clients):
            task.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "a callback of streams runs in a task"
        if len(self._clients) >= self.limits.connections:
            self.counters.add("refused_connections")
            writer.close()
            return
        self._clients[task] = None
        try:
            await self._requests(reader, writer)
        except (OSError, EOFError):
            pass                                             # the client is gone
        finally:
            del self._clients[task]
            writer.close()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=self.limits.head_bytes)
        while True:
            try:
                request = await self._next_request(connection, reader)
            except TimeoutError:
                self.counters.add("timeouts")
                return await self._answer(connection, writer, plain_answer(408, "Request Timeout"), is_last=True)
            except h11.RemoteProtocolError as error:
                self.counters.add("bad_requests")
                return await self._answer(connection, writer, plain_answer(400, f"Bad Request: {error}"), is_last=True)
            if request is None:
                return
            method, target, body = request
            if body is None:
                self.counters.add("bad_requests")
                return await self._answer(connection, writer, plain_answer(413, "Payload Too Large"), is_last=True)
            try:
                answer = await self._api.handle(method, target, body)
            except Exception:
                self.counters.add("exceptions")
                log.exception("%s %s", method, target)
                answer = plain_answer(500, "Internal Server Error")
            self.counters.add("requests")
            await self._answer(connection, writer, answer, is_head=method == "HEAD")
            if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                return
            connection.start_next_cycle()

    async def _next_request(
        self, connection: h11.Connection, reader: asyncio.StreamReader,
    ) -> tuple[str, str, bytes | None] | None:
        """(method, target, body) of the next request; body None: it is too large. None: the client has closed."""
        method = target = ""
        parts: list[bytes] = []
        size = 0
        seconds = self.limits.idle_seconds
        if not connection.trailing_data[0]:
            async with asyncio.timeout(seconds):
                data = await reader.read(READ_BYTES)
            connection.receive_data(data)
        async with asyncio.timeout(self.limits.request_seconds):
            while True:
                event = connection.next_event()
                if event is h11.NEED_DATA:
                    connection.receive_data(await reader.read(READ_BYTES))
                elif isinstance(event, h11.Request):
                    method, target = event.method.decode("ascii"), event.target.decode("ascii", "replace")
                elif isinstance(event, h11.Data):
                    size += len(event.data)
                    if size > self.limits.body_bytes:
                        return method, target, None
                    parts.append(bytes(event.data))
                elif isinstance(event, h11.EndOfMessage):
                    return method, target, b"".join(parts)
                else:                                        # ConnectionClosed, or PAUSED by an upgrade
                    return None

    async def _answer(
        self, connection: h11.Connection, writer: asyncio.StreamWriter, answer: RestAnswer, *, is_last: bool = False,
        is_head: bool = False,
    ) -> None:
        if connection.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        headers = [("Content-Type", answer.content_type), ("Content-Length", str(len(answer.body))),
                   ("X-Content-Type-Options", "nosniff")]
        if is_last:
            headers.append(("Connection", "close"))
        parts = [connection.send(h11.Response(
            status_code=answer.status, headers=headers, reason=REASONS.get(answer.status, b"")))]
        if not is_head:
            parts.append(connection.send(h11.Data(data=answer.body)))
        parts.append(connection.send(h11.EndOfMessage()))
        writer.write(b"".join(part for part in parts if part))
        async with asyncio.timeout(self.limits.request_seconds):
            await writer.drain()
