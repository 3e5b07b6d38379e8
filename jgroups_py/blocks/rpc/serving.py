"""The answering side of a service: passes requests to the application's handler, and sends its answers in batches.

A handler gets a Request and returns the answer; or it returns LATER and answers later, from any thread. An exception
that it raises is sent back as an error. Answers to a batch of requests leave as one batch if the handler returns them
at once.
"""
from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Any, Final

from jgroups_py.channel.dispatcher import EXITS
from jgroups_py.channel.message import as_bytes
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.counters import counter, declare, drop, table
from jgroups_py.model.errors import ChannelError
from jgroups_py.runtime.send_queue import SendQueue
from jgroups_py.system.drops import LoggedCounters
from jgroups_py.wire.block_headers import Answer, Ask, Failure

log = logging.getLogger("jgroups_py")

LATER: Final = object()
"""Returned by a handler that will call `request.answer` or `request.fail` itself."""

FLUSH_BYTES = 128 << 10                     # answers of this size are sent before the rest of the batch is handled
MAX_ERROR_CHARS = 4000

Handler = Callable[["Request"], Any]


class Request:
    """A request that a member sent, perhaps this one. src: its sender; payload: bytes."""

    __slots__ = ("_number", "_server", "payload", "src")

    def __init__(self, server: Server, src: Address, payload: bytes, number: int) -> None:
        self._server = server
        self.src = src
        self.payload = payload
        self._number = number

    @property
    def needs_answer(self) -> bool:
        """Whether the sender waits for an answer; False for a one-way request."""
        return self._number >= 0

    @property
    def number(self) -> int:
        """Its number, which no other request of its sender's channel has; below 0: it is one-way."""
        return self._number

    def answer(self, payload: bytes | bytearray | memoryview = b"") -> None:
        """Send the answer; for handlers that returned LATER. A second answer, or one after close, is dropped."""
        self._server.send(Answer, self, as_bytes(payload))

    def fail(self, error: BaseException) -> None:
        """Make the sender's request fail with this error."""
        self._server.send(Failure, self, error_bytes(error))

    def refuse(self, kind: str, text: str) -> None:
        """Make the sender's request fail with a RemoteError of this kind and text, which is not cut."""
        self._server.send(Failure, self, f"{kind}\n{text}".encode())

    def __repr__(self) -> str:
        return f"<Request of {self.src}, {len(self.payload)} bytes>"


class AnswerStream:
    """The stream of answers of one kind to one member (see send_queue.Stream): an answer has its request's number."""

    __slots__ = ("dest", "kind", "service")

    def __init__(self, kind: type[Answer] | type[Failure], service: int, dest: Address) -> None:
        self.kind = kind
        self.service = service
        self.dest: Address | None = dest

    def number(self, item: int, count: int) -> int:
        """The number of the request that is answered."""
        return item

    def headers(self, first: int) -> tuple[Header, ...]:
        """The headers of a batch that begins with the answer to request `first`."""
        return (self.kind(self.service, first),)


class Server:
    """The handler of one service. sends: returns the send queue of the current connection, None without one.

    deferred: called with an awaitable that a handler returned; None: awaitables are not supported.
    """

    COUNTERS = declare(
        counter("handler_exceptions", "Exceptions that the handler raised; the request fails at its sender."),
        drop("requests_without_handler", "Requests while there is no handler; they fail at their senders."),
        drop("answers_unsent", "Answers that could not be sent: the channel is closed."),
    )

    def __init__(
        self, service: int, handler: Handler | None, sends: Callable[[], SendQueue | None],
        deferred: Callable[[Request, Any], None] | None = None,
    ) -> None:
        self.handler = handler
        self.counters = LoggedCounters(table(self.COUNTERS))
        self._service = service
        self._sends = sends
        self._deferred = deferred
        self._streams: dict[tuple[type[Header], Address], AnswerStream] = {}

    def keep(self, members: dict[Address, None]) -> None:
        """Drop the answer streams to all other members; they are made again when needed."""
        self._streams = {key: stream for key, stream in self._streams.items() if key[1] in members}

    def serve(self, batch: Batch) -> None:
        """Handle a batch of requests, on the thread of the channel's callbacks."""
        header, src = batch.headers[0], batch.src
        number = header.first if header.__class__ is Ask else -1
        handler = self.handler
        if handler is None:
            return self._refuse(batch, number)
        answers: list[bytes] = []                            # to the requests just before `number`
        nbytes = 0
        for payload in batch.payloads:
            request = Request(self, src, payload, number)
            try:
                result = handler(request)
                data = result if result.__class__ is bytes else self._taken(request, result)
            except BaseException as error:                   # of the application
                self._handler_raised(error)
                data = None
                request.fail(error)
                if isinstance(error, EXITS):                 # the channel closes, see Receiver
                    raise
            if number < 0:
                continue
            number += 1
            if data is not None:
                answers.append(data)
                nbytes += len(data)
            if answers and (data is None or nbytes > FLUSH_BYTES):
                self._put(Answer, src, number - len(answers) - (data is None), answers)
                answers, nbytes = [], 0
        if answers:
            self._put(Answer, src, number - len(answers), answers)
        return None

    def send(self, kind: type[Answer] | type[Failure], request: Request, payload: bytes) -> None:
        """Send one answer, from any thread."""
        if request.needs_answer:
            self._put(kind, request.src, request._number, (payload,))

    def _taken(self, request: Request, result: Any) -> bytes | None:
        """Convert a handler's result that is not bytes; None: the answer follows later."""
        if result is LATER:
            return None
        if self._deferred is not None and hasattr(result, "__await__"):
            self._deferred(request, result)
            return None
        return as_bytes(result)

    def _handler_raised(self, error: BaseException) -> None:
        self.counters.add("handler_exceptions")
        log.warning("the handler of service %d raised; the request fails at its sender", self._service, exc_info=error)

    def _refuse(self, batch: Batch, number: int) -> None:
        self.counters.drop("requests_without_handler", f"of {batch.src} to service {self._service}",
                           len(batch.payloads))
        if number >= 0:
            text = f"NoHandler\nservice {self._service} has no handler here".encode()
            self._put(Failure, batch.src, number, (text,) * len(batch.payloads))

    def _put(self, kind: Any, dest: Address, first: int, payloads: Any) -> None:
        sends = self._sends()
        stream = self._streams.get((kind, dest))
        if stream is None:
            stream = self._streams[kind, dest] = AnswerStream(kind, self._service, dest)
        if sends is not None:
            with contextlib.suppress(ChannelError):          # closed meanwhile: the request fails with the next view
                return sends.put_numbered(stream, first, payloads, 0, None)
        self.counters.drop("answers_unsent", f"of service {self._service}: the channel is closed", len(payloads))
        return None


def error_bytes(error: BaseException) -> bytes:
    """An error on the wire: its class, a line feed, its text."""
    return f"{type(error).__name__}\n{error}"[:MAX_ERROR_CHARS].encode()
