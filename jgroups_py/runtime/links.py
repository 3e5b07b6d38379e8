"""FD_SOCK's connections: a listener that greets with our address, and links to the listeners of others.

Nothing travels over a link but one byte of whoever opened it, 16 bytes of greeting back and, before a graceful close,
one byte of goodbye. Its use is to break: the system closes the sockets of a process that dies, at once. The first
byte is for a process that dies just then: a connection that is made while the system takes its listener down may be
left standing with nobody at the other end and no word about it; whoever sends over it is told. Or, less often, the
request for a connection is dropped without a word, so another one follows soon. Whoever does not knock is none of us:
it is given a few seconds, and makes room at once for the next one when there are too many.
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
from jgroups_py.runtime.accepting import Acceptor, share_of_descriptors
from jgroups_py.runtime.interfaces import resolve
from jgroups_py.runtime.loop import Loop, Task
from jgroups_py.runtime.places import UNSENDABLE, Places, error_name
from jgroups_py.runtime.poller import READ, WRITE
from jgroups_py.runtime.udp import bound_in_range
from jgroups_py.units import millis, seconds

KNOCK = b"\x00"
GOODBYE = b"\x00"
MAX_ACCEPTED = 1024                         # links that others may hold to us, or a quarter of our descriptors
SILENT_NS = seconds(5)                      # whoever has not knocked after so long is no member
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
        self._listener: Acceptor | None = None
        self._most_accepted = share_of_descriptors(MAX_ACCEPTED)
        self._accepted: dict[socket.socket, None] = {}
        self._silent: dict[socket.socket, int] = {}          # those that have not knocked -> until when; oldest first
        self._hush: Task | None = None                       # when the first of them is looked at
        self._places = Places(self.counters)
        self._links: dict[int, Link] = {}

    # --- the listener -----------------------------------------------------------------------------------------------

    def listen(self, asked: Listen) -> None:
        """Open the listener; Listening follows. Raises OSError or ConfigError."""
        self._close_listener()
        listener = bound_in_range(socket.SOCK_STREAM, resolve(asked.host), asked.port, asked.port_range)
        self._listener = Acceptor(self.loop, listener, self.counters, self._taken)
        host, port = listener.getsockname()
        self._tell(Listening((host, port)))

    def _taken(self, sock: socket.socket, _place: PhysicalAddress) -> None:
        if len(self._accepted) >= self._most_accepted:
            self._make_room()
        if len(self._accepted) >= self._most_accepted:
            self.counters.add("links_refused")
            return sock.close()
        self._accepted[sock] = None
        self._silent[sock] = self.loop.now_ns + SILENT_NS
        if self._hush is None:
            self._hush = self.loop.later(SILENT_NS, self._drop_silent)
        self.loop.watch(sock, READ, lambda: self._heard(sock))
        try:
            sock.send(self.me)                               # 16 bytes fit the buffer of a new connection
        except OSError:
            self._drop(sock)
        return None

    def _make_room(self) -> None:
        """Close the oldest link that has not knocked."""
        while self._silent:
            oldest = next(iter(self._silent))
            self._heard(oldest)                              # its knock may be here, unread
            if oldest in self._silent:
                self.counters.add("silent_links_closed")
                return self._drop(oldest)
        return None

    def _drop_silent(self) -> None:
        self._hush = None
        for sock in [sock for sock, until_ns in self._silent.items() if until_ns <= self.loop.now_ns]:
            self.counters.add("silent_links_closed")
            self._drop(sock)
        if self._silent:
            self._hush = self.loop.later(next(iter(self._silent.values())) - self.loop.now_ns, self._drop_silent)

    def _heard(self, sock: socket.socket) -> None:
        """Whoever opened a link only knocks; other bytes are dropped, an end ends it."""
        if sock not in self._accepted:
            return                                           # closed earlier in this round
        try:
            data = sock.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._drop(sock)
            return
        self._silent.pop(sock, None)
        if data != KNOCK:
            self.counters.add("stray_bytes_dropped", len(data))

    def _drop(self, sock: socket.socket) -> None:
        del self._accepted[sock]
        self._silent.pop(sock, None)
        self.loop.unwatch(sock)
        sock.close()

    def _close_listener(self) -> None:
        if self._listener is not None:
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
        if asked.timeout_ns > UNANSWERED_NS and link.again is None:
            link.again = self.loop.later(UNANSWERED_NS, lambda: self._connect(link, asked.to))

    def _connect(self, link: Link, to: PhysicalAddress) -> None:
        self._hang_up(link)
        place = self._places.of(to)
        if place is None:
            if not self._places.looks_for(to):
                return self.loop.call(lambda: self._down(link, errno.EADDRNOTAVAIL))
            link.again = self.loop.later(UNANSWERED_NS, lambda: self._connect(link, to))
            return None
        try:
            link.sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            link.sock.setblocking(False)
            code = link.sock.connect_ex(place)
        except UNSENDABLE as error:                          # no descriptors left, a port that is none
            self.counters.add(f"connect_{error_name(error)}")
            code = errno.EADDRNOTAVAIL
        if link.sock is not None and code in (0, errno.EINPROGRESS, errno.EWOULDBLOCK):
            return self.loop.watch(link.sock, WRITE, lambda: self._connected(link))
        return self.loop.call(lambda: self._down(link, code))

    def _hang_up(self, link: Link) -> None:
        if link.sock is not None:
            with contextlib.suppress(KeyError):              # the connection was refused before we watched it
                self.loop.unwatch(link.sock)
            link.sock.close()
            link.sock = None

    def _connected(self, link: Link) -> None:
        if link.sock is None:
            return None                                      # closed earlier in this round
        if link.again is not None:
            link.again.cancel()
        code = link.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            return self._down(link, code)
        try:
            link.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            link.sock.send(KNOCK)
        except OSError as error:
            return self._down(link, error.errno or errno.EIO)
        return self.loop.watch(link.sock, READ, lambda: self._read(link))

    def _read(self, link: Link) -> None:
        if link.sock is None:
            return None                                      # closed earlier in this round
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
        if self._hush is not None:
            self._hush.cancel()
        for sock in list(self._accepted):
            if graceful:
                with contextlib.suppress(OSError):           # gone already
                    sock.send(GOODBYE)
            self._drop(sock)
        for link in list(self._links.values()):
            self._forget(link)
