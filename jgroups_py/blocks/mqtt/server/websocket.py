"""MQTT over WebSocket (section 6 of the standard): the bytes of one connection, without I/O.

Frames are only an envelope: packets may begin and end anywhere in them [MQTT-6.0.0-2]. They are binary [MQTT-6.0.0-1]
and the subprotocol is "mqtt" [MQTT-6.0.0-3]. Frames are read and written by the library `websockets`; the measurement
behind this choice is in design/mqtt.md.
"""
from __future__ import annotations

import http
import logging

from jgroups_py.model.errors import ConfigError, WireError

SUBPROTOCOL = "mqtt"
ANY_PATH = "/"
library_log = logging.getLogger(f"{__name__}.library")
library_log.setLevel(logging.WARNING)                    # it reports each connection


class WebSocketError(WireError):
    """A client does not speak WebSocket, or not MQTT over it. `to_send` still has the answer for it."""


class WebSocketStream:
    """One connection, from its HTTP request on. path: that of the request, "/" for any; max_bytes: of one message;
    stranger_bytes: of all that comes until `trust` is called, since a message is held until it is complete.

    Raises:
        ConfigError: the library is not installed.
    """

    def __init__(self, path: str, max_bytes: int, stranger_bytes: int) -> None:
        try:
            from websockets.frames import Opcode
            from websockets.protocol import State
            from websockets.server import ServerProtocol
            from websockets.typing import Subprotocol
        except ImportError:
            raise ConfigError("WebSocket listeners need websockets: pip install 'jgroups_py[mqtt]'") from None
        self._path = path
        # Without extensions: compression would cost a client's memory, and the payload is seldom text.
        self._protocol = ServerProtocol(subprotocols=[Subprotocol(SUBPROTOCOL)], max_size=max_bytes,
                                        logger=library_log)
        self._stranger_bytes: int | None = stranger_bytes        # that may still come; None: it is no stranger any more
        self._open = State.OPEN
        self._text, self._close = Opcode.TEXT, Opcode.CLOSE

    def receive(self, data: bytes) -> bytes:
        """The bytes of MQTT in received data. Send `to_send` afterwards, also after an error.

        Raises:
            WebSocketError: close the connection when `to_send` was sent; also after the client's regular end.
        """
        from websockets.frames import Frame
        if self._stranger_bytes is not None:
            self._stranger_bytes -= len(data)
            if self._stranger_bytes < 0:
                self._protocol.fail(1009, "too much before CONNECT")
                raise WebSocketError("too much before CONNECT")
        self._protocol.receive_data(data)
        payload: list[bytes] = []
        for event in self._protocol.events_received():
            if not isinstance(event, Frame):
                self._answer(event)
            elif event.opcode is self._text:
                self._protocol.fail(1003, "MQTT packets come in binary frames")
                raise WebSocketError("a text frame [MQTT-6.0.0-1]")
            elif event.opcode is self._close:
                raise WebSocketError("the client closed the WebSocket")
            elif event.opcode < 8:                       # pings are answered already
                payload.append(bytes(event.data))
        broken = self._protocol.parser_exc
        if broken is not None:
            raise WebSocketError(f"no WebSocket: {broken}")
        return payload[0] if len(payload) == 1 else b"".join(payload)

    def trust(self) -> None:
        """CONNECT has come: messages may be as large as the largest packet from now on."""
        self._stranger_bytes = None

    def frame(self, data: bytes) -> bytes:
        """The frame with these bytes of MQTT; empty before the handshake and after the end."""
        if self._protocol.state is self._open:
            self._protocol.send_binary(data)
        return self.to_send()

    def finish(self) -> bytes:
        """The bytes by which the server ends the WebSocket."""
        if self._protocol.state is self._open:
            self._protocol.send_close(1000)
        return self.to_send()

    def to_send(self) -> bytes:
        """Bytes of the WebSocket itself that are to be sent: the answer to the request, pongs, the close frame."""
        return b"".join(self._protocol.data_to_send())

    def _answer(self, request: object) -> None:
        from websockets.http11 import Request
        assert isinstance(request, Request)
        if self._path not in (ANY_PATH, request.path.partition("?")[0]):
            self._protocol.send_response(self._protocol.reject(
                http.HTTPStatus.NOT_FOUND, f"MQTT is at {self._path}\n"))
            raise WebSocketError(f"a request for {request.path[:100]!r}, not for {self._path!r}")
        response = self._protocol.accept(request)
        self._protocol.send_response(response)
        if response.status_code != http.HTTPStatus.SWITCHING_PROTOCOLS:
            raise WebSocketError(f"answered with {response.status_code}: {self._protocol.handshake_exc}")
