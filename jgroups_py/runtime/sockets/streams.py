"""Byte streams of one stack: a listener on the port of its datagrams, and the TCP connections of both directions."""
from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Callable

from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.counters import counter, declare, drop, table
from jgroups_py.model.events import Event, StreamClosed, StreamData, StreamOpened
from jgroups_py.model.outputs import CloseStream, OpenStream, WriteStream
from jgroups_py.model.text import place as place_text
from jgroups_py.runtime.loop import Loop
from jgroups_py.runtime.poller import READ, WRITE
from jgroups_py.runtime.sockets.destinations import UNSENDABLE, Places, error_name
from jgroups_py.runtime.sockets.ip import family
from jgroups_py.runtime.sockets.listener import Acceptor, share_of_descriptors
from jgroups_py.system.drops import LoggedCounters

MAX_ACCEPTED = 128                          # accepted streams at most, or a quarter of the descriptors
READ_BYTES = 1 << 16
CONNECTING = frozenset((0, errno.EINPROGRESS, errno.EWOULDBLOCK))


class _Stream:
    """One connection."""

    __slots__ = ("closing", "connected", "number", "sock", "waiting")

    def __init__(self, number: int, sock: socket.socket, connected: bool) -> None:
        self.number = number
        self.sock = sock
        self.connected = connected
        self.waiting = bytearray()                           # written, and not taken by the system yet
        self.closing = False                                 # nothing more is written or wanted


class StreamSockets:
    """The streams of one stack; `listener` is bound, to `host`; `notify` passes events up the stack."""

    COUNTERS = declare(
        *Places.COUNTERS,
        *Acceptor.COUNTERS,
        counter("connect_<error>", "Connections that could not be made, by the error of the system."),
        drop("streams_refused", "Connections closed at once: there are too many."),
    )

    def __init__(
        self, loop: Loop, listener: socket.socket, notify: Callable[[Event], None], host: str = "127.0.0.1",
    ) -> None:
        self.loop = loop
        self.counters = LoggedCounters(table(self.COUNTERS))
        self._notify = notify
        self._streams: dict[int, _Stream] = {}
        self._accepted = 0                                   # how many were, ever
        self._most_accepted = share_of_descriptors(MAX_ACCEPTED)
        self._places = Places(self.counters, host=host)
        self._acceptor = Acceptor(loop, listener, self.counters, self._accept)

    def _accept(self, sock: socket.socket, place: PhysicalAddress) -> None:
        if sum(number < 0 for number in self._streams) >= self._most_accepted:
            self.counters.drop("streams_refused", f"{place_text(*place)} connects, and there are too many streams")
            return sock.close()
        self._accepted += 1
        stream = self._streams[-self._accepted] = _Stream(-self._accepted, sock, connected=True)
        self._watch(stream)
        return self._notify(StreamOpened(stream.number, place))

    # --- what the stack asks for ------------------------------------------------------------------------------------

    def open(self, request: OpenStream) -> None:
        """Connect; StreamClosed follows if that fails."""
        assert request.stream not in self._streams, "a stream's number is given once"
        place = self._places.of(request.to)
        try:
            if place is None:
                raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
            sock = socket.socket(family(place[0]), socket.SOCK_STREAM)
        except OSError as error:
            self.counters.add(f"connect_{error_name(error)}")
            why = StreamClosed(request.stream, error.strerror or "")
            return self.loop.call(lambda: self._notify(why))
        sock.setblocking(False)
        stream = self._streams[request.stream] = _Stream(request.stream, sock, connected=False)
        try:
            code = sock.connect_ex(place)
        except UNSENDABLE as error:                          # an invalid port
            self.counters.add(f"connect_{error_name(error)}")
            code = errno.EADDRNOTAVAIL
        if code in CONNECTING:
            return self._watch(stream)
        return self.loop.call(lambda: self._down(stream, code))

    def write(self, request: WriteStream) -> None:
        """Send bytes."""
        stream = self._streams.get(request.stream)
        if stream is not None and not stream.closing:
            stream.waiting += request.data
            self._watch(stream)

    def close_stream(self, request: CloseStream) -> None:
        """Close, once all that was written is sent."""
        stream = self._streams.get(request.stream)
        if stream is None:
            return
        stream.closing = True
        if request.at_once or not stream.waiting:
            self._forget(stream)

    # --- readiness --------------------------------------------------------------------------------------------------

    def _watch(self, stream: _Stream) -> None:
        wanted = (READ if stream.connected else 0) | (WRITE if stream.waiting or not stream.connected else 0)
        self.loop.watch(stream.sock, wanted, lambda: self._ready(stream))

    def _ready(self, stream: _Stream) -> None:
        if self._streams.get(stream.number) is not stream:
            return None                                      # closed earlier in this round
        if not stream.connected:
            code = stream.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                return self._down(stream, code)
            stream.connected = True
        if stream.waiting:
            self._write(stream)
        if self._streams.get(stream.number) is stream:
            self._read(stream)
        return None

    def _write(self, stream: _Stream) -> None:
        try:
            sent = stream.sock.send(stream.waiting)
        except BlockingIOError:
            return None
        except OSError as error:
            return self._down(stream, error.errno or errno.EIO)
        del stream.waiting[:sent]
        if stream.waiting:
            return None
        return self._forget(stream) if stream.closing else self._watch(stream)

    def _read(self, stream: _Stream) -> None:
        try:
            data = stream.sock.recv(READ_BYTES)
        except BlockingIOError:
            return None
        except OSError as error:
            return self._down(stream, error.errno or errno.EIO)
        if not data:
            return self._down(stream, 0)
        return None if stream.closing else self._notify(StreamData(stream.number, data))

    def _down(self, stream: _Stream, code: int) -> None:
        if self._streams.get(stream.number) is stream:
            self._forget(stream)
            if not stream.closing:
                self._notify(StreamClosed(stream.number, os.strerror(code) if code else ""))

    def _forget(self, stream: _Stream) -> None:
        del self._streams[stream.number]
        with contextlib.suppress(KeyError):                  # the connection was refused before it was watched
            self.loop.unwatch(stream.sock)
        stream.sock.close()

    def close(self) -> None:
        """Close everything at once."""
        self._acceptor.close()
        for stream in list(self._streams.values()):
            self._forget(stream)

