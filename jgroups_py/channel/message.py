"""What an application sends and receives: one Message, or a MessageBatch."""
from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from jgroups_py.model.address import Address, ProxyUUID
from jgroups_py.model.batch import Batch, Flag, Header
from jgroups_py.wire import AppHeaders
from jgroups_py.wire.topic_headers import topic_header, topic_of

Payload = bytes | bytearray | memoryview
"""What can be sent: bytes, or what can be read as bytes. Text is encoded by the application, which knows how."""
FIRST_APP_HEADER = 200
LAST_APP_HEADER = 0xFFFF
NO_HEADERS: Mapping[int, bytes] = MappingProxyType({})


class MessageHead:
    """What the messages of a batch have in common, but their source. Never changed, as they share it."""

    __slots__ = ("dest", "flags", "headers", "wired")

    def __init__(
        self, dest: Address | None, flags: int, headers: Mapping[int, bytes], wired: tuple[Header, ...],
    ) -> None:
        self.dest = dest
        self.flags = flags
        self.headers = headers
        self.wired = wired                                   # all headers, as the stack carries them


class Message:
    """One message.

    dest: None for all members; src: filled in at the receiver; headers: the application's own, id (200 or more) ->
    bytes. A message is not changed by sending it and may be sent again.
    """

    # A member may receive a million of these a second: each attribute that is not shared costs 10 ns a message.
    __slots__ = ("_head", "payload", "src")

    def __init__(
        self, dest: Address | None = None, payload: Payload | None = b"",
        flags: int = 0, headers: Mapping[int, bytes] | None = None, src: Address | None = None,
        topic: str | int | None = None,
    ) -> None:
        self.payload: bytes = as_bytes(payload)
        self.src = src
        self._head = MessageHead(dest, Flag.bits(flags) if flags else 0, headers or NO_HEADERS,
                          () if topic is None else (topic_header(topic),))

    @property
    def dest(self) -> Address | None:
        """None: all members."""
        return self._head.dest

    @dest.setter
    def dest(self, dest: Address | None) -> None:
        head = self._head
        self._head = MessageHead(dest, head.flags, head.headers, head.wired)

    @property
    def headers(self) -> Mapping[int, bytes]:
        """The application's."""
        return self._head.headers

    @headers.setter
    def headers(self, headers: Mapping[int, bytes]) -> None:
        head = self._head
        self._head = MessageHead(head.dest, head.flags, headers, head.wired)

    @property
    def _flags(self) -> int:
        return self._head.flags

    @property
    def _wired(self) -> tuple[Header, ...]:
        return self._head.wired

    @property
    def place(self) -> int:
        """With TOTAL, of a multicast that was received: its place in the order of the view, counted from 1; the same at
        all members that go on to the next view together. 0: it has none."""
        return 0

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

    def as_batch(self) -> MessageBatch:
        """A batch of this message alone."""
        assert self.src is not None, "a received message has a source"
        return MessageBatch(Batch(self.src, self.dest, (self.payload,), self._wired, self._flags))

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (self.dest, self.payload, self._flags, dict(self.headers), self.src, self.topic, self.place)

    def __repr__(self) -> str:
        to = "all" if self.dest is None else str(self.dest)
        return f"<Message {self.src}->{to}, {len(self.payload)} bytes>"


class OrderedMessage(Message):
    """A received multicast with a place in the order of all: a class of its own, so that others do not pay for it."""

    __slots__ = ("_place",)
    _place: int

    @property
    def place(self) -> int:
        return self._place


class MessageBatch:
    """Messages with one source, destination, flags and headers, in order. Iterating makes Messages; `payloads`
    costs nothing; `buffer` and `lengths` are for libraries that take columns, such as numpy and Arrow."""

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

    def buffer(self) -> memoryview:
        """All payloads, one behind the other, as read-only bytes.

        They are joined at each call, with a single copy; one payload alone is not copied.
        """
        payloads = self._batch.payloads
        return memoryview(payloads[0] if len(payloads) == 1 else b"".join(payloads))

    def lengths(self) -> memoryview:
        """The length of each payload, as read-only unsigned ints of 32 bits (format "I"); `numpy.asarray` and
        `pyarrow.py_buffer` take it without a copy.

        >>> from jgroups_py.testing.bench import multicast
        >>> batch = MessageBatch(multicast("A", b"ab", b"", b"cde"))
        >>> bytes(batch.buffer()), batch.lengths().tolist()
        (b'abcde', [2, 0, 3])
        """
        batch, count = self._batch, len(self)
        lengths = array("I", (batch.length,)) * count if batch.length >= 0 else array("I", map(len, batch.payloads))
        return memoryview(lengths).toreadonly()

    @property
    def flags(self) -> Flag:
        """The flags they were sent with."""
        return Flag(self._batch.flags)

    @property
    def place(self) -> int:
        """The place of the first one in the order of the view; the others follow (TOTAL). 0: they have none."""
        return self._batch.place

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
        src, head, place = self._batch.src, head_of(self._batch), self._batch.place
        for number, payload in enumerate(self._batch.payloads):
            yield received(payload, src, head, place and place + number)

    def __repr__(self) -> str:
        to = "all" if self.dest is None else str(self.dest)
        return f"<MessageBatch {self.src}->{to} x{len(self)}>"


def _remade(dest: Address | None, payload: bytes, flags: int, headers: Mapping[int, bytes], src: Address | None,
            topic: str | None, place: int) -> Message:
    """A message that was pickled or copied."""
    message = Message(dest, payload, flags, headers, src, topic)
    return message if not place or src is None else received(payload, src, message._head, place)


def received(payload: bytes, src: Address, head: MessageHead, place: int = 0) -> Message:
    """One message of a batch, made without checking what was checked when it was sent."""
    message: Message
    if place:
        message = ordered = OrderedMessage.__new__(OrderedMessage)
        ordered._place = place
    else:
        message = Message.__new__(Message)
    message.payload = payload
    message.src = src
    message._head = head
    return message


def head_of(batch: Batch) -> MessageHead:
    """What all messages of a delivered batch have in common. Not the batch itself: a message that is kept would keep
    the payloads of all others."""
    return MessageHead(batch.dest, batch.flags, headers_of(batch), batch.headers)


def headers_of(batch: Batch) -> Mapping[int, bytes]:
    """The application's headers of a delivered batch."""
    if not batch.headers:
        return NO_HEADERS
    header = batch.headers[0]
    return header.items if isinstance(header, AppHeaders) else NO_HEADERS


def as_bytes(payload: Payload | None) -> bytes:
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
