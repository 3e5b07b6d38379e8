"""Byte streams of one stack: a listener on the port of its datagrams, and TCP connections, ours and others'."""
from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Callable

from jgroups_py.counters import Counters
from jgroups_py.events import Event
from jgroups_py.runtime.loop import Loop
from jgroups_py.runtime.poller import READ, WRITE
from jgroups_py.streams import CloseStream, OpenStream, StreamClosed, StreamData, StreamOpened, WriteStream

BACKLOG = 128
MAX_ACCEPTED = 128                          # streams that others may have open to us; more are closed at once
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
    """The streams of one stack; `listener` is bound, `tell` passes events up the stack."""

    def __init__(self, loop: Loop, listener: socket.socket, tell: Callable[[Event], None]) -> None:
        self.loop = loop
        self.counters = Counters()
        self._tell = tell
        self._streams: dict[int, _Stream] = {}
        self._accepted = 0                                   # how many were, ever
        self._listener = listener
        listener.listen(BACKLOG)
        loop.watch(listener, READ, self._accept)

    def _accept(self) -> None:
        try:
            sock, place = self._listener.accept()
        except OSError:                                      # gone again, or no descriptors left
            return self.counters.add("accept_failed")
        if sum(number < 0 for number in self._streams) >= MAX_ACCEPTED:
            self.counters.add("streams_refused")
            return sock.close()
        sock.setblocking(False)
        self._accepted += 1
        stream = self._streams[-self._accepted] = _Stream(-self._accepted, sock, connected=True)
        self._watch(stream)
        return self._tell(StreamOpened(stream.number, place))

    # --- what the stack asks for ------------------------------------------------------------------------------------

    def open(self, asked: OpenStream) -> None:
        """Connect; StreamClosed follows if that fails."""
        assert asked.stream not in self._streams, "a stream's number is given once"
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        stream = self._streams[asked.stream] = _Stream(asked.stream, sock, connected=False)
        try:
            code = sock.connect_ex(asked.to)
        except (OSError, OverflowError):                     # a host name that means nothing, a port that is none
            code = errno.EADDRNOTAVAIL
        if code in CONNECTING:
            self._watch(stream)
        else:
            self.loop.call(lambda: self._down(stream, code))

    def write(self, asked: WriteStream) -> None:
        """Send bytes."""
        stream = self._streams.get(asked.stream)
        if stream is not None and not stream.closing:
            stream.waiting += asked.data
            self._watch(stream)

    def close_stream(self, asked: CloseStream) -> None:
        """Close, once all that was written is sent."""
        stream = self._streams.get(asked.stream)
        if stream is None:
            return
        stream.closing = True
        if asked.at_once or not stream.waiting:
            self._forget(stream)

    # --- what the system says ---------------------------------------------------------------------------------------

    def _watch(self, stream: _Stream) -> None:
        wanted = (READ if stream.connected else 0) | (WRITE if stream.waiting or not stream.connected else 0)
        self.loop.watch(stream.sock, wanted, lambda: self._ready(stream))

    def _ready(self, stream: _Stream) -> None:
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
        return None if stream.closing else self._tell(StreamData(stream.number, data))

    def _down(self, stream: _Stream, code: int) -> None:
        if self._streams.get(stream.number) is stream:
            self._forget(stream)
            if not stream.closing:
                self._tell(StreamClosed(stream.number, os.strerror(code) if code else ""))

    def _forget(self, stream: _Stream) -> None:
        del self._streams[stream.number]
        with contextlib.suppress(KeyError):                  # the connection was refused before we watched it
            self.loop.unwatch(stream.sock)
        stream.sock.close()

    def close(self) -> None:
        """Close everything at once."""
        self.loop.unwatch(self._listener)
        self._listener.close()
        for stream in list(self._streams.values()):
            self._forget(stream)

