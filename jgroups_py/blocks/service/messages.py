"""What services send each other, as payloads of requests and one-way requests (blocks/rpc).

A result is the answer as it is; all that is no result is a failure, whose kind begins with "!" unless it is the class
of an exception that the method raised. Whatever does not have one of these forms is refused or dropped.
"""
from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Protocol

import attrs

from jgroups_py.blocks.service.interface import KEY_BYTES
from jgroups_py.model.address import Address
from jgroups_py.model.errors import WireError
from jgroups_py.model.text import is_name

CALL, CALL_ONCE, OPEN, PULL, CANCEL, OFFER = range(1, 7)
CALL_HEAD = Struct(">B8sI")                 # kind, key, milliseconds that are left (0: no limit)
ONCE_HEAD = Struct(">B8sIQB")               # the same; number of the call at its caller, whether it was sent before
OPEN_HEAD = Struct(">B8sIH")                # the same as CALL_HEAD; window: items that the caller takes at a time
NUMBERED = Struct(">BQ")                    # kind, number of the request that opened the stream, or made the call
LENGTH = Struct(">I")
COUNT = Struct(">H")
HEADS = {CALL: CALL_HEAD, CALL_ONCE: ONCE_HEAD, OPEN: OPEN_HEAD, PULL: NUMBERED, CANCEL: NUMBERED}
MAX_MS = (1 << 32) - 1
MAX_OFFERED = 64                            # services in an offer
MAX_METHODS = 1000                          # of all of them
PIECE_BYTES = 1 << 20                       # items of a stream that travel together, unless one is larger

FAULT, NO_METHOD, BAD_ARGUMENTS, OVERLOADED, CANCELLED, FORGOTTEN, NO_STREAM = (
    "!fault", "!method", "!arguments", "!overloaded", "!cancelled", "!forgotten", "!stream")


class Answerable(Protocol):
    """What a method or a stream answers: a Request of blocks/rpc, or what stands for it."""

    @property
    def src(self) -> Address:
        """The caller."""

    def answer(self, payload: bytes = b"") -> None:
        """Send a result."""

    def refuse(self, kind: str, text: str) -> None:
        """Send a failure."""


@attrs.frozen
class Offered:
    """A service as a member offers it. keys: of its methods."""

    name: str
    version: str
    keys: tuple[bytes, ...]


def encode_offer(offers: Iterable[Offered]) -> bytes:
    """All that a member offers."""
    parts = [bytes([OFFER])]
    for offer in offers:
        for text in (offer.name.encode(), offer.version.encode()):
            parts += [bytes([len(text)]), text]
        parts += [COUNT.pack(len(offer.keys)), *offer.keys]
    return b"".join(parts)


def decode_offer(data: bytes) -> tuple[Offered, ...]:
    """What encode_offer made.

    Raises:
        WireError: it did not.
    """
    found: list[Offered] = []
    at, methods = 1, 0

    def take(count: int) -> bytes:
        nonlocal at
        piece = data[at:at + count]
        if len(piece) < count:
            raise WireError(f"an offer ends at byte {len(data)}, inside a field")
        at += count
        return piece

    def text() -> str:
        try:
            value = take(take(1)[0]).decode()
        except UnicodeDecodeError as error:
            raise WireError("an offer with a text that is no UTF-8") from error
        if not is_name(value):
            raise WireError("an offer with a text that is no name")
        return value
    while at < len(data):
        name, version = text(), text()
        count, = COUNT.unpack(take(COUNT.size))
        methods += count
        if len(found) >= MAX_OFFERED or methods > MAX_METHODS:
            raise WireError(f"an offer of more than {MAX_OFFERED} services or {MAX_METHODS} methods")
        keys = take(count * KEY_BYTES)
        found.append(Offered(name, version, tuple(keys[i:i + KEY_BYTES] for i in range(0, len(keys), KEY_BYTES))))
    return tuple(found)


def encode_items(items: Iterable[bytes], more: bool) -> bytes:
    """The answer to a pull: encoded items, and whether the stream goes on."""
    parts = [b"\1" if more else b"\0"]
    for item in items:
        parts += [LENGTH.pack(len(item)), item]
    return b"".join(parts)


def decode_items(data: bytes, window: int) -> tuple[list[bytes], bool]:
    """What encode_items made.

    Raises:
        WireError: it did not, or there are more than `window` items.
    """
    if data[:1] not in (b"\0", b"\1"):
        raise WireError("the items of a stream without a beginning")
    items: list[bytes] = []
    at = 1
    while at < len(data):
        head = data[at:at + LENGTH.size]
        if len(head) < LENGTH.size:
            raise WireError("the items of a stream end inside a length")
        size, = LENGTH.unpack(head)
        at += LENGTH.size
        item = data[at:at + size]
        if len(item) < size:
            raise WireError("the items of a stream end inside an item")
        if len(items) >= window:
            raise WireError(f"a stream brought more than the {window} items that it may")
        items.append(item)
        at += size
    return items, data[0] == 1
