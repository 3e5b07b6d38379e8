"""The answering side of a service: requests to the application's handler, its answers back as runs.

A handler gets a Request and returns the answer, or LATER and answers when it can, from any thread. What it raises
travels back as an error. Answers to a run of requests leave as one run, as long as the handler answers at once.
"""
from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Any, Final

from jgroups_py.address import Address
from jgroups_py.batch import Batch, Header
from jgroups_py.blockheaders import Answer, Ask, Failure
from jgroups_py.counters import Counters
from jgroups_py.delivery import BUGS
from jgroups_py.errors import ChannelError
from jgroups_py.message import as_bytes
from jgroups_py.runtime.sends import SendQueue

log = logging.getLogger("jgroups_py")

LATER: Final = object()
"""What a handler returns that will call `request.answer` or `request.fail` itself."""

FLUSH_BYTES = 128 << 10                     # answers of so many bytes leave before the rest of their run is handled
MAX_ERROR_CHARS = 4000

Handler = Callable[["Request"], Any]


class Request:
    """A request that another member (or this one) sent. src: who; payload: bytes."""

    __slots__ = ("_number", "_server", "payload", "src")

    def __init__(self, server: Server, src: Address, payload: bytes, number: int) -> None:
        self._server = server
        self.src = src
        self.payload = payload
        self._number = number

    @property
    def wanted(self) -> bool:
        """Whether the other member waits for an answer."""
        return self._number >= 0

    def answer(self, payload: bytes | bytearray | memoryview = b"") -> None:
        """Answer now; for handlers that returned LATER. Answering twice, or after the channel was closed, is vain."""
        self._server.send(Answer, self, as_bytes(payload))

    def fail(self, error: BaseException) -> None:
        """Let the other member's request fail with this error."""
        self._server.send(Failure, self, error_bytes(error))

    def __repr__(self) -> str:
        return f"<Request of {self.src}, {len(self.payload)} bytes>"


class Back:
    """Answers of one kind to one member. See sends.Stream: an answer has the number of its request."""

    __slots__ = ("dest", "kind", "service")

    def __init__(self, kind: type[Answer] | type[Failure], service: int, dest: Address) -> None:
        self.kind = kind
        self.service = service
        self.dest: Address | None = dest

    def number(self, item: int, count: int) -> int:
        """The number of the request that is answered."""
        return item

    def headers(self, first: int) -> tuple[Header, ...]:
        """Of a run that begins with the answer to request `first`."""
        return (self.kind(self.service, first),)


class Server:
    """One service's handler. sends: the queue of the connection that is now, None without one.

    deferred: what to do with an awaitable that a handler returned, None where that makes no sense.
    """

    def __init__(
        self, service: int, handler: Handler | None, sends: Callable[[], SendQueue | None],
        deferred: Callable[[Request, Any], None] | None = None,
    ) -> None:
        self.handler = handler
        self.counters = Counters()
        self._service = service
        self._sends = sends
        self._deferred = deferred
        self._back: dict[tuple[type[Header], Address], Back] = {}

    def keep(self, members: dict[Address, None]) -> None:
        """Forget the answer streams to all others; they are made anew when needed."""
        self._back = {key: back for key, back in self._back.items() if key[1] in members}

    def serve(self, batch: Batch) -> None:
        """Handle a run of requests, on the consumer's thread."""
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
            except BUGS as error:                            # the application's, not ours
                self._handler_raised(error)
                data = None
                request.fail(error)
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
        """One answer, from any thread."""
        if request.wanted:
            self._put(kind, request.src, request._number, (payload,))

    def _taken(self, request: Request, result: Any) -> bytes | None:
        """The answer in what a handler returned that is not bytes; None: there is none yet."""
        if result is LATER:
            return None
        if self._deferred is not None and hasattr(result, "__await__"):
            self._deferred(request, result)
            return None
        return as_bytes(result)

    def _handler_raised(self, error: BaseException) -> None:
        self.counters.add("handler_exceptions")
        log.warning("the handler of service %d raised; the requester is told", self._service, exc_info=error)

    def _refuse(self, batch: Batch, number: int) -> None:
        self.counters.add("requests_without_handler", len(batch.payloads))
        if number >= 0:
            text = f"NoHandler\nservice {self._service} has no handler here".encode()
            self._put(Failure, batch.src, number, (text,) * len(batch.payloads))

    def _put(self, kind: Any, dest: Address, first: int, payloads: Any) -> None:
        sends = self._sends()
        back = self._back.get((kind, dest))
        if back is None:
            back = self._back[kind, dest] = Back(kind, self._service, dest)
        if sends is not None:
            with contextlib.suppress(ChannelError):          # closed meanwhile: the requester sees us leave
                return sends.put_numbered(back, first, payloads, 0, None)
        self.counters.add("answers_unsent", len(payloads))
        return None


def error_bytes(error: BaseException) -> bytes:
    """How an error travels: its class, a line feed, its text."""
    return f"{type(error).__name__}\n{error}"[:MAX_ERROR_CHARS].encode()
