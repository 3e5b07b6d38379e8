"""FD_SOCK's connections: a listener that greets with our address, and links to the listeners of others.

Nothing travels over a link but one byte of whoever opened it, 16 bytes of greeting back and, before a graceful close,
one byte of goodbye. Its use is to break: the system closes the sockets of a process that dies, at once. The first
byte is for a process that dies just then: a connection that is made while the system takes its listener down may be
left standing with nobody at the other end and no word about it; whoever sends over it is told. Or, less often, the
request for a connection is dropped without a word, so another one follows soon.
"""
from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Callable

from jgroups_py.address import ADDRESS_BYTES, PhysicalAddress
from jgroups_py.counters import Counters
from jgroups_py.events import Event, LinkDown, LinkUp, Listening
from jgroups_py.outputs import Listen, OpenLink
from jgroups_py.runtime.interfaces import resolve
from jgroups_py.runtime.loop import Loop, Task
from jgroups_py.runtime.poller import READ, WRITE
from jgroups_py.runtime.udp import bound_in_range
from jgroups_py.units import millis

KNOCK = b"\x00"
GOODBYE = b"\x00"
BACKLOG = 128
MAX_ACCEPTED = 1024                         # links that others may hold to us; more are closed at once
READ_BYTES = 4096
UNANSWERED_NS = millis(200)                 # no answer so long: connect anew, once; the system would after a second


class Link:
    """A connection to somebody's listener."""

    __slots__ = ("again", "deadline", "greeting", "number", "sock", "up")

    def __init__(self, number: int) -> None:
        self.number = number
        self.sock: socket.socket | None = None
        self.greeting = b""
        self.up = False
        self.deadline: Task | None = None                    # when it is given up
        self.again: Task | None = None                       # when it is tried once more


class Links:
    """The listener and the links of one stack; `tell` passes events up that stack."""

    def __init__(self, loop: Loop, me: bytes, tell: Callable[[Event], None]) -> None:
        assert len(me) == ADDRESS_BYTES, "the greeting is an address"
        self.loop = loop
        self.me = me
        self.counters = Counters()
        self._tell = tell
        self._listener: socket.socket | None = None
        self._accepted: dict[socket.socket, None] = {}
        self._links: dict[int, Link] = {}

    # --- the listener -----------------------------------------------------------------------------------------------

    def listen(self, asked: Listen) -> None:
        """Open the listener; Listening follows. Raises OSError or ConfigError."""
        self._close_listener()
        listener = bound_in_range(socket.SOCK_STREAM, resolve(asked.host), asked.port, asked.port_range)
        listener.listen(BACKLOG)
        self._listener = listener
        self.loop.watch(listener, READ, self._accept)
        host, port = listener.getsockname()
        self._tell(Listening((host, port)))

    def _accept(self) -> None:
        assert self._listener is not None, "only a listener that exists is watched"
        try:
            sock, _ = self._listener.accept()
        except OSError:                                      # gone again, or no descriptors left
            return self.counters.add("accept_failed")
        if len(self._accepted) >= MAX_ACCEPTED:
            self.counters.add("links_refused")
            return sock.close()
        sock.setblocking(False)
        self._accepted[sock] = None
        self.loop.watch(sock, READ, lambda: self._heard(sock))
        try:
            sock.send(self.me)                               # 16 bytes fit the buffer of a new connection
        except OSError:
            self._drop(sock)
        return None

    def _heard(self, sock: socket.socket) -> None:
        """Whoever opened a link only knocks; other bytes are dropped, an end ends it."""
        try:
            data = sock.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._drop(sock)
        elif data != KNOCK:
            self.counters.add("stray_bytes_dropped", len(data))

    def _drop(self, sock: socket.socket) -> None:
        del self._accepted[sock]
        self.loop.unwatch(sock)
        sock.close()

    def _close_listener(self) -> None:
        if self._listener is not None:
            self.loop.unwatch(self._listener)
            self._listener.close()
            self._listener = None

    # --- links ------------------------------------------------------------------------------------------------------

    def open(self, asked: OpenLink) -> None:
        """Connect; LinkUp or LinkDown follows."""
        if asked.link in self._links:
            self.close_link(asked.link)
        link = self._links[asked.link] = Link(asked.link)
        link.deadline = self.loop.later(asked.timeout_ns, lambda: self._down(link, errno.ETIMEDOUT))
        self._connect(link, asked.to)
        if asked.timeout_ns > UNANSWERED_NS:
            link.again = self.loop.later(UNANSWERED_NS, lambda: self._connect(link, asked.to))

    def _connect(self, link: Link, to: PhysicalAddress) -> None:
        self._hang_up(link)
        link.sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        link.sock.setblocking(False)
        try:
            code = link.sock.connect_ex(to)
        except (OSError, OverflowError):                     # a host name that means nothing, a port that is none
            code = errno.EADDRNOTAVAIL
        if code in (0, errno.EINPROGRESS, errno.EWOULDBLOCK):
            self.loop.watch(link.sock, WRITE, lambda: self._connected(link))
        else:
            self.loop.call(lambda: self._down(link, code))

    def _hang_up(self, link: Link) -> None:
        if link.sock is not None:
            with contextlib.suppress(KeyError):              # the connection was refused before we watched it
                self.loop.unwatch(link.sock)
            link.sock.close()

    def _connected(self, link: Link) -> None:
        if link.again is not None:
            link.again.cancel()
        assert link.sock is not None, "it was watched"
        code = link.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            return self._down(link, code)
        link.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        try:
            link.sock.send(KNOCK)
        except OSError as error:
            return self._down(link, error.errno or errno.EIO)
        return self.loop.watch(link.sock, READ, lambda: self._read(link))

    def _read(self, link: Link) -> None:
        assert link.sock is not None, "it was watched"
        try:
            data = link.sock.recv(READ_BYTES)
        except BlockingIOError:
            return None
        except OSError as error:
            return self._down(link, error.errno or errno.EIO)
        if not data:
            return self._down(link, 0)
        if link.up:
            return self._down(link, 0, graceful=data == GOODBYE)
        link.greeting += data
        if len(link.greeting) < ADDRESS_BYTES:
            return None
        link.up = True
        if link.deadline is not None:
            link.deadline.cancel()
        said = link.greeting[ADDRESS_BYTES:]
        self._tell(LinkUp(link.number, link.greeting[:ADDRESS_BYTES]))
        if said and self._links.get(link.number) is link:    # goodbye came with the greeting
            self._down(link, 0, graceful=said == GOODBYE)
        return None

    def _down(self, link: Link, code: int, graceful: bool = False) -> None:
        if self._links.get(link.number) is not link:
            return
        self._forget(link)
        refused = code == errno.ECONNREFUSED and not link.up
        self._tell(LinkDown(link.number, refused=refused, graceful=graceful))

    def _forget(self, link: Link) -> None:
        del self._links[link.number]
        for task in (link.deadline, link.again):
            if task is not None:
                task.cancel()
        self._hang_up(link)

    def close_link(self, number: int) -> None:
        """Close it; nothing is told."""
        link = self._links.get(number)
        if link is not None:
            self._forget(link)

    def close(self, graceful: bool) -> None:
        """Close everything; others are told goodbye if `graceful`."""
        self._close_listener()
        for sock in list(self._accepted):
            if graceful:
                with contextlib.suppress(OSError):           # gone already
                    sock.send(GOODBYE)
            self._drop(sock)
        for link in list(self._links.values()):
            self._forget(link)
