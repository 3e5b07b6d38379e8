"""One client's connection: bytes in and out of asyncio, and the reasons for which reading is paused."""
from __future__ import annotations

import asyncio
import enum
from typing import Protocol, cast

from jgroups_py.blocks.mqtt.codec.decoder import Decoder
from jgroups_py.blocks.mqtt.codec.packets import MqttError, Packet
from jgroups_py.blocks.mqtt.server.websocket import WebSocketStream


class NotRead(enum.IntFlag):
    """Reasons for which reading from a client is paused."""

    NOTHING = 0
    BROKER = 1
    """The broker paused it: a subscriber's queue is full, or too many acknowledgements wait for peers."""
    TURN = 2
    """Its share of this round is used up; other clients are next."""
    PASSWORD = 4
    """Its password is being checked."""
    UNREAD = 8
    """Too many bytes for it are unsent: it does not read the acknowledgements that it causes."""
    ENDING = 16
    """It is being closed."""


class SocketOwner(Protocol):
    """What a connection reports to."""

    @property
    def read_buffer(self) -> memoryview:
        """The buffer for the next bytes of any connection; they are taken out before another one is read."""
        ...

    def made(self, client: ClientSocket) -> None: ...

    def received(self, client: ClientSocket, data: bytes) -> None: ...

    def lost(self, client: ClientSocket) -> None: ...

    def write_blocked(self, client: ClientSocket) -> None: ...

    def write_ready(self, client: ClientSocket) -> None: ...


class ClientSocket(asyncio.BufferedProtocol):
    """See the module. parts: to be written at the end of the round; backlog: packets that the broker has yet to get."""

    __slots__ = ("backlog", "decoder", "error", "is_greeted", "not_read", "number", "owner", "parts", "peer",
                 "transport", "websocket")

    def __init__(self, owner: SocketOwner, decoder: Decoder, websocket: WebSocketStream | None) -> None:
        self.owner = owner
        self.decoder = decoder
        self.websocket = websocket
        self.transport: asyncio.Transport | None = None
        self.number = 0
        self.peer = ""
        self.parts: list[bytes] = []
        self.backlog: list[Packet] = []
        self.error: MqttError | None = None              # follows the backlog
        self.is_greeted = False                          # its CONNECT came
        self.not_read = NotRead.NOTHING

    # --- of asyncio ---------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.owner.made(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.owner.read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.owner.received(self, bytes(self.owner.read_buffer[:nbytes]))

    def connection_lost(self, exc: Exception | None) -> None:
        self.owner.lost(self)

    def pause_writing(self) -> None:
        self.owner.write_blocked(self)

    def resume_writing(self) -> None:
        self.owner.write_ready(self)

    # --- of the server ------------------------------------------------------------------------------------------------

    def greet(self) -> None:
        """Its CONNECT has come, and what had to be computed for it has been."""
        if not self.is_greeted:
            self.is_greeted = True
            if self.websocket is not None:
                self.websocket.trust()

    def pause(self, why: NotRead) -> None:
        """Pause reading for a reason."""
        if not self.not_read and self.transport is not None:
            self.transport.pause_reading()
        self.not_read |= why

    def resume(self, why: NotRead) -> None:
        """A reason is gone; without any other reading goes on."""
        before, self.not_read = self.not_read, self.not_read & ~why
        if before and not self.not_read and self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()

    def write(self) -> int:
        """Send the parts with one write; returns the number of unsent bytes."""
        data = self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)
        self.parts.clear()
        if self.websocket is not None:
            data = self.websocket.frame(data) if data else self.websocket.to_send()
        transport = self.transport
        if transport is None or transport.is_closing():
            return 0
        if data:
            transport.write(data)
        return transport.get_write_buffer_size()

    @property
    def unsent_bytes(self) -> int:
        """Bytes in asyncio's write buffer."""
        return 0 if self.transport is None or self.transport.is_closing() else self.transport.get_write_buffer_size()

    def close(self) -> None:
        """Close when all is sent."""
        if self.transport is None:
            return
        if self.websocket is not None and not self.transport.is_closing():
            self.transport.write(self.websocket.finish())
        self.transport.close()

    def abort(self) -> None:
        """Close at once."""
        if self.transport is not None:
            self.transport.abort()
