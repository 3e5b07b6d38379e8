"""What an application sends and receives: one Message, or a MessageBatch."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from jgroups_py.model.address import Address, ProxyUUID
from jgroups_py.model.batch import Batch, Flag, Header
from jgroups_py.wire import AppHeaders
from jgroups_py.wire.topic_headers import topic_header, topic_of

FIRST_APP_HEADER = 200
LAST_APP_HEADER = 0xFFFF
NO_HEADERS: Mapping[int, bytes] = MappingProxyType({})


class Message:
    """One message.

    dest: None for all members; src: filled in at the receiver; headers: the application's own, id (200 or more) ->
    bytes. A message is not changed by sending it and may be sent again.
    """

    __slots__ = ("_flags", "_wired", "dest", "headers", "payload", "src")

    def __init__(
        self, dest: Address | None = None, payload: bytes | bytearray | memoryview | None = b"",
        flags: int = 0, headers: Mapping[int, bytes] | None = None, src: Address | None = None,
        topic: str | int | None = None,
    ) -> None:
        self.dest = dest
        self.payload: bytes = as_bytes(payload)
        self._flags = Flag.bits(flags) if flags else 0
        self.headers: Mapping[int, bytes] = headers or NO_HEADERS
        self.src = src
        self._wired: tuple[Header, ...] = () if topic is None else (topic_header(topic),)

    @property
    def flags(self) -> Flag:
        """The flags it was sent with."""
        return Flag(self._flags)

    @property
    def topic(self) -> str | None:
        """The topic of the message (TOPICS); None: it has none."""
        return topic_of(self._wired)

    @property
    def is_relayed(self) -> bool:
        """Whether it came from another site."""
        return isinstance(self.src, ProxyUUID)

    @property
    def site(self) -> str | None:
        """The other site that it came from, None if it is from here."""
        return self.src.site if isinstance(self.src, ProxyUUID) else None

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (self.dest, self.payload, self._flags, dict(self.headers), self.src, self.topic)

    def __repr__(self) -> str:
        to = "all" if self.dest is None else str(self.dest)
        return f"<Message {self.src}->{to}, {len(self.payload)} bytes>"


class MessageBatch:
    """Messages with one source, destination, flags and headers, in order. Iterating makes Messages; `payloads`
    costs nothing."""

    __slots__ = ("_batch", "headers")

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self.headers = headers_of(batch)

    @property
    def src(self) -> Address:
        """The member that sent them; a ProxyUUID if they come from another site."""
        return self._batch.src

    @property
    def dest(self) -> Address | None:
        """None: they went to all members."""
        return self._batch.dest

    @property
    def payloads(self) -> tuple[bytes, ...]:
        """One bytes object a message."""
        return self._batch.payloads

    @property
    def flags(self) -> Flag:
        """The flags they were sent with."""
        return Flag(self._batch.flags)

    @property
    def is_relayed(self) -> bool:
        """Whether they came from another site."""
        return isinstance(self._batch.src, ProxyUUID)

    @property
    def site(self) -> str | None:
        """The other site that they came from, None if they are from here."""
        src = self._batch.src
        return src.site if isinstance(src, ProxyUUID) else None

    @property
    def topic(self) -> str | None:
        """The topic of the messages (TOPICS); None: they have none."""
        return topic_of(self._batch.headers)

    def __len__(self) -> int:
        return len(self._batch.payloads)

    def __iter__(self) -> Iterator[Message]:
        batch, headers = self._batch, self.headers
        for payload in batch.payloads:
            yield received(batch, payload, headers)

    def __repr__(self) -> str:
        to = "all" if self.dest is None else str(self.dest)
        return f"<MessageBatch {self.src}->{to} x{len(self)}>"


def _remade(dest: Address | None, payload: bytes, flags: int, headers: Mapping[int, bytes], src: Address | None,
            topic: str | None) -> Message:
    """A message that was pickled or copied."""
    return Message(dest, payload, flags, headers, src, topic)


def received(batch: Batch, payload: bytes, headers: Mapping[int, bytes]) -> Message:
    """One message of a batch, made without checking what was checked when it was sent."""
    message = Message.__new__(Message)
    message.dest = batch.dest
    message.src = batch.src
    message.payload = payload
    message._flags = batch.flags
    message._wired = batch.headers
    message.headers = headers
    return message


def headers_of(batch: Batch) -> Mapping[int, bytes]:
    """The application's headers of a delivered batch."""
    if not batch.headers:
        return NO_HEADERS
    header = batch.headers[0]
    return header.items if isinstance(header, AppHeaders) else NO_HEADERS


def as_bytes(payload: bytes | bytearray | memoryview | None) -> bytes:
    """The payload as bytes that cannot be changed afterwards.

    Raises:
        TypeError: it is not bytes-like; text must be encoded by the application, which knows how.
    """
    if payload.__class__ is bytes:
        return payload
    return b"" if payload is None else _bytes_of(payload, "a payload")


def _bytes_of(value: Any, what: str) -> bytes:
    try:
        return bytes(memoryview(value))
    except TypeError:
        raise TypeError(f"{what} is bytes-like, not {type(value).__name__}; encode it first") from None


def wire_headers(headers: Mapping[int, bytes] | None) -> tuple[Header, ...]:
    """The application's headers as the stack carries them.

    Raises:
        ValueError: an id that protocols use (below 200) or that does not fit.
        TypeError: an id is no int or a value is not bytes-like.
    """
    if not headers:
        return ()
    for number in headers:
        if not isinstance(number, int):
            raise TypeError(f"the id of a header is an int, not {type(number).__name__}")
        if not FIRST_APP_HEADER <= number <= LAST_APP_HEADER:
            raise ValueError(f"header id {number}: an application's ids are {FIRST_APP_HEADER} to {LAST_APP_HEADER}")
    return (AppHeaders({number: _bytes_of(value, f"header {number}") for number, value in headers.items()}),)
