"""FD_SOCK's connections: a listener that greets with this member's address, and links to other members' listeners.

A link is a failure detector: when a process ends, the system closes its sockets at once, and the other end reads the
end of the stream. So almost nothing travels over it: one byte from the end that connects (KNOCK), 16 bytes of greeting
back (the listener's address) and one byte before a graceful close (GOODBYE).

* KNOCK finds half-open connections. A connection that is made while the system takes the listener down may stay open
  at this end only; a write is answered with a reset, a read alone would wait for ever.
* Less often the system drops the connection request itself in that state, without a reset. So the connection is tried
  once more after UNANSWERED_NS; TCP would wait a second.
* An accepted connection without KNOCK is not a member's. It is closed after SILENT_NS, or at once when the limit of
  accepted links is reached and another one connects.
"""
from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Callable

from jgroups_py.model.address import ADDRESS_BYTES, PhysicalAddress
from jgroups_py.model.counters import counter, declare, drop, table
from jgroups_py.model.events import Event, LinkDown, LinkUp, Listening
from jgroups_py.model.outputs import Listen, OpenLink
from jgroups_py.model.text import place as place_text
from jgroups_py.model.units import millis, seconds
from jgroups_py.runtime.loop import Loop, Task
from jgroups_py.runtime.poller import READ, WRITE
from jgroups_py.runtime.sockets.destinations import UNSENDABLE, Places, error_name
from jgroups_py.runtime.sockets.interfaces import resolve
from jgroups_py.runtime.sockets.ip import family, physical
from jgroups_py.runtime.sockets.listener import Acceptor, share_of_descriptors
from jgroups_py.runtime.sockets.udp import bound_in_range
from jgroups_py.system.drops import LoggedCounters

KNOCK = b"\x00"
GOODBYE = b"\x00"
MAX_ACCEPTED = 1024                         # accepted links at most, or a quarter of the descriptors
SILENT_NS = seconds(5)                      # an accepted connection must have sent KNOCK by then
READ_BYTES = 4096
UNANSWERED_NS = millis(200)                 # then the connection is tried once more; TCP itself would after a second


class Link:
    """A connection to another member's listener."""

    __slots__ = ("deadline", "greeting", "number", "retry", "sock", "up")

    def __init__(self, number: int) -> None:
        self.number = number
        self.sock: socket.socket | None = None
        self.greeting = b""
        self.up = False
        self.deadline: Task | None = None                    # the timeout of the attempt
        self.retry: Task | None = None                       # the second attempt


class Links:
    """The listener and the links of one stack; `notify` passes events up that stack.

    host: what the transport has bound, where the listener is too unless a request names another address.
    """

    COUNTERS = declare(
        *Places.COUNTERS,
        *Acceptor.COUNTERS,
        counter("connect_<error>", "Connections that could not be made, by the error of the system."),
        counter("silent_links_closed", "Connections closed because the other end sent no proof that it is a member."),
        drop("links_refused", "Connections closed at once: there are too many."),
        drop("stray_bytes_dropped", "Bytes received on connections which carry nothing after the greeting."),
    )

    def __init__(
        self, loop: Loop, me: bytes, notify: Callable[[Event], None], host: str = "127.0.0.1",
    ) -> None:
        assert len(me) == ADDRESS_BYTES, "the greeting is an address"
        self.loop = loop
        self.me = me
        self.counters = LoggedCounters(table(self.COUNTERS))
        self._notify = notify
        self._listener: Acceptor | None = None
        self._most_accepted = share_of_descriptors(MAX_ACCEPTED)
        self._accepted: dict[socket.socket, None] = {}
        self._silent: dict[socket.socket, int] = {}          # without KNOCK so far -> closed then; oldest first
        self._silence_timer: Task | None = None                       # runs when the oldest of them is due
        self._host = host
        self._places = Places(self.counters, host=host)
        self._links: dict[int, Link] = {}

    # --- the listener -----------------------------------------------------------------------------------------------

    def listen(self, request: Listen) -> None:
        """Open the listener; Listening follows. Raises OSError or ConfigError."""
        self._close_listener()
        host = resolve(request.host) if request.host else self._host
        listener = bound_in_range(socket.SOCK_STREAM, host, request.port, request.port_range)
        self._listener = Acceptor(self.loop, listener, self.counters, self._accept)
        self._notify(Listening(physical(listener.getsockname())))

    def _accept(self, sock: socket.socket, place: PhysicalAddress) -> None:
        if len(self._accepted) >= self._most_accepted:
            self._make_room()
        if len(self._accepted) >= self._most_accepted:
            self.counters.drop("links_refused", f"{place_text(*place)} connects, and there are too many links")
            return sock.close()
        self._accepted[sock] = None
        self._silent[sock] = self.loop.now_ns + SILENT_NS
        if self._silence_timer is None:
            self._silence_timer = self.loop.later(SILENT_NS, self._drop_silent)
        self.loop.watch(sock, READ, lambda: self._read_accepted(sock))
        try:
            sock.send(self.me)                               # 16 bytes fit the buffer of a new connection
        except OSError:
            self._drop(sock)
        return None

    def _make_room(self) -> None:
        """Close the oldest link without KNOCK, so that connections of non-members do not keep members out."""
        while self._silent:
            oldest = next(iter(self._silent))
            self._read_accepted(oldest)                              # KNOCK may have arrived in this round
            if oldest in self._silent:
                self.counters.add("silent_links_closed")
                return self._drop(oldest)
        return None

    def _drop_silent(self) -> None:
        self._silence_timer = None
        for sock in [sock for sock, until_ns in self._silent.items() if until_ns <= self.loop.now_ns]:
            self.counters.add("silent_links_closed")
            self._drop(sock)
        if self._silent:
            oldest_ns = next(iter(self._silent.values()))
            self._silence_timer = self.loop.later(oldest_ns - self.loop.now_ns, self._drop_silent)

    def _read_accepted(self, sock: socket.socket) -> None:
        """The other end of an accepted link sends KNOCK only: more is dropped, end of stream closes it."""
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
            self.counters.drop("stray_bytes_dropped", "a link carries nothing after KNOCK", len(data))

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

    def open(self, request: OpenLink) -> None:
        """Connect; LinkUp or LinkDown follows."""
        if request.link in self._links:
            self.close_link(request.link)
        link = self._links[request.link] = Link(request.link)
        link.deadline = self.loop.later(request.timeout_ns, lambda: self._down(link, errno.ETIMEDOUT))
        self._connect(link, request.to)
        if request.timeout_ns > UNANSWERED_NS and link.retry is None:
            link.retry = self.loop.later(UNANSWERED_NS, lambda: self._connect(link, request.to))

    def _connect(self, link: Link, to: PhysicalAddress) -> None:
        self._close_socket(link)
        place = self._places.of(to)
        if place is None:
            if not self._places.looks_for(to):
                return self.loop.call(lambda: self._down(link, errno.EADDRNOTAVAIL))
            link.retry = self.loop.later(UNANSWERED_NS, lambda: self._connect(link, to))
            return None
        try:
            link.sock = socket.socket(family(place[0]), socket.SOCK_STREAM)
            link.sock.setblocking(False)
            code = link.sock.connect_ex(place)
        except UNSENDABLE as error:                          # no descriptor left, or an invalid port
            self.counters.add(f"connect_{error_name(error)}")
            code = errno.EADDRNOTAVAIL
        if link.sock is not None and code in (0, errno.EINPROGRESS, errno.EWOULDBLOCK):
            return self.loop.watch(link.sock, WRITE, lambda: self._connected(link))
        return self.loop.call(lambda: self._down(link, code))

    def _close_socket(self, link: Link) -> None:
        if link.sock is not None:
            with contextlib.suppress(KeyError):              # the connection was refused before it was watched
                self.loop.unwatch(link.sock)
            link.sock.close()
            link.sock = None

    def _connected(self, link: Link) -> None:
        if link.sock is None:
            return None                                      # closed earlier in this round
        if link.retry is not None:
            link.retry.cancel()
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
        rest = link.greeting[ADDRESS_BYTES:]
        self._notify(LinkUp(link.number, link.greeting[:ADDRESS_BYTES]))
        if rest and self._links.get(link.number) is link:    # GOODBYE arrived in the same read
            self._down(link, 0, graceful=rest == GOODBYE)
        return None

    def _down(self, link: Link, code: int, graceful: bool = False) -> None:
        if self._links.get(link.number) is not link:
            return
        self._forget(link)
        refused = code == errno.ECONNREFUSED and not link.up
        self._notify(LinkDown(link.number, refused=refused, graceful=graceful))

    def _forget(self, link: Link) -> None:
        del self._links[link.number]
        for task in (link.deadline, link.retry):
            if task is not None:
                task.cancel()
        self._close_socket(link)

    def close_link(self, number: int) -> None:
        """Close it; no LinkDown follows."""
        link = self._links.get(number)
        if link is not None:
            self._forget(link)

    def close(self, graceful: bool) -> None:
        """Close everything; accepted links get GOODBYE if `graceful`."""
        self._close_listener()
        if self._silence_timer is not None:
            self._silence_timer.cancel()
        for sock in list(self._accepted):
            if graceful:
                with contextlib.suppress(OSError):           # the other end has closed it
                    sock.send(GOODBYE)
            self._drop(sock)
        for link in list(self._links.values()):
            self._forget(link)
