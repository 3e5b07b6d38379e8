"""memberlist's TCP streams: a request and its answer, one message each way, then both sides close.

    push-pull:  6, msgpack {Nodes, UserStateLen, Join}, that many node states (msgpack), that many bytes of user state
    ping, ack:  0 or 2, as in datagrams; failure: 13, msgpack {Error}
    user:       8, msgpack {UserMsgLen}, that many bytes
    compressed: 9, as in datagrams, around any of these
    encrypted:  10, see sealing.py, around all that

The length of a message shows only while it is decoded, so a reader takes bytes as they arrive until it is complete.
"""
from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final

from jgroups_py.model.batch import Header
from jgroups_py.model.errors import WireError
from jgroups_py.protocols.swim.headers import NodeState, PushPull, UserMessage
from jgroups_py.protocols.swim.memberlist.body import MOST_ITEMS, Body, body_of, packed
from jgroups_py.protocols.swim.memberlist.messages import (
    ACK,
    COMPRESSED,
    ENCRYPTED,
    FAILURE,
    LABELLED,
    PING,
    PUSH_PULL,
    USER,
    CodecContext,
    alive_fields,
    read_ack,
    read_failure,
    read_node_state,
    read_ping,
    write_message,
)
from jgroups_py.protocols.swim.memberlist.packet import deflated, inflated
from jgroups_py.protocols.swim.memberlist.sealing import ENVELOPE_BYTES, Keyring, envelope_length

try:
    import msgpack
except ImportError:                                          # need_msgpack in body.py reports it where msgpack is used
    msgpack = None

MOST_BYTES: Final = 16 << 20                # of one message: some 100,000 nodes

_SHORT: dict[int, Callable[[Body, CodecContext], Header]] = {PING: read_ping, ACK: read_ack, FAILURE: read_failure}
Parse = Generator[None, None, Header]


def write_stream(header: Header, context: CodecContext, *, compress: bool) -> bytes:
    """The bytes of `header` on a stream."""
    if isinstance(header, PushPull):
        data = _push_pull(header, context)
    elif isinstance(header, UserMessage):
        data = bytes((USER,)) + packed({"UserMsgLen": len(header.payload)}) + header.payload
    else:
        data = write_message(header, context)
    data = deflated(data) if compress else data
    return data if context.keyring is None else context.keyring.envelope(ENCRYPTED, data)


def _push_pull(header: PushPull, context: CodecContext) -> bytes:
    parts = [bytes((PUSH_PULL,)),
             packed({"Nodes": len(header.states), "UserStateLen": len(header.user), "Join": header.join})]
    for state in header.states:
        parts.append(packed({**alive_fields(state.alive, context, "Name"), "State": state.state}))
    return b"".join([*parts, header.user])


class StreamReader:
    """Decodes one message from bytes that arrive in pieces."""

    def __init__(self, context: CodecContext, limit: int = MOST_BYTES) -> None:
        self._context = context
        self._limit = limit
        self._bytes = 0
        self._source = _unpacker(limit)
        self._parse = self._message()
        self.message: Header | None = None

    def feed(self, data: bytes) -> Header | None:
        """The message, once it is complete; None before.

        Raises:
            WireError: the bytes are not a message, it is too long, or more bytes follow it.
        """
        self._bytes += len(data)
        if self._bytes > self._limit:
            raise WireError(f"a stream of more than {self._limit} bytes")
        if self.message is not None:
            raise WireError("bytes after the message")
        self._source.feed(data)
        try:
            next(self._parse)
        except StopIteration as done:
            self.message = done.value
        except WireError:
            raise
        except (ValueError, msgpack.UnpackException) as error:
            raise WireError(f"not a message: {error}") from None
        return self.message

    # --- what a message consists of; a bare yield waits for more bytes ------------------------------------------------

    def _message(self) -> Parse:
        kind = (yield from self._bytes_of(1))[0]
        if self._context.keyring is not None:
            kind = yield from self._unsealed(kind, self._context.keyring)
        if kind == COMPRESSED:
            kind = yield from self._inside(inflated(body_of((yield from self._object())), self._limit))
        if kind == PUSH_PULL:
            return (yield from self._push_pull())
        if kind == USER:
            header = body_of((yield from self._object()))
            return UserMessage((yield from self._bytes_of(header.number("UserMsgLen", self._limit))))
        if kind in _SHORT:
            return _SHORT[kind](body_of((yield from self._object())), self._context)
        what = {ENCRYPTED: ", which is encrypted", LABELLED: ", which has a label"}.get(kind, "")
        raise WireError(f"a message of type {kind} over a stream{what}")

    def _unsealed(self, kind: int, keyring: Keyring) -> Generator[None, None, int]:
        """Decrypt an envelope and continue with its contents."""
        if kind != ENCRYPTED:
            raise WireError("a stream that is not encrypted")
        head = bytes((kind,)) + (yield from self._bytes_of(ENVELOPE_BYTES - 1))
        length = envelope_length(head)
        if length > self._limit:
            raise WireError(f"a stream of more than {self._limit} bytes")
        return (yield from self._inside(keyring.opened((yield from self._bytes_of(length)), head)))

    def _inside(self, whole: bytes) -> Generator[None, None, int]:
        """Continue with the contents of an envelope; returns their first byte."""
        self._source, self._bytes = _unpacker(self._limit), len(whole)
        self._source.feed(whole)
        return (yield from self._bytes_of(1))[0]

    def _push_pull(self) -> Parse:
        header = body_of((yield from self._object()))
        number, user_bytes = header.number("Nodes", self._limit), header.number("UserStateLen", self._limit)
        states: list[NodeState] = []
        for _ in range(number):
            states.append(read_node_state(body_of((yield from self._object())), self._context))
        user = yield from self._bytes_of(user_bytes)
        return PushPull(0, False, header.flag("Join"), tuple(states), user)

    def _object(self) -> Generator[None, None, Any]:
        while True:
            try:
                return self._source.unpack()
            except msgpack.OutOfData:
                yield

    def _bytes_of(self, number: int) -> Generator[None, None, bytes]:
        taken = b""
        while len(taken) < number:
            taken += self._source.read_bytes(number - len(taken))
            if len(taken) < number:
                yield
        return taken


def _unpacker(limit: int) -> Any:
    return msgpack.Unpacker(raw=True, max_buffer_size=limit, max_array_len=MOST_ITEMS, max_map_len=MOST_ITEMS)
