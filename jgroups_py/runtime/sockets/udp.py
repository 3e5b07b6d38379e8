"""UDP sockets of one stack: one for unicasts, which also sends everything, and one for the multicast address.

Frames go out as lists of buffers that the system gathers, and come in as (data, sender's physical address), many a
round. Datagrams that the system does not take now wait in a bounded queue; beyond it they are dropped and counted,
and NAKACK and UNICAST retransmit them. Other processes of this host share the multicast port.
"""
from __future__ import annotations

import contextlib
import errno
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.counters import counter, declare, drop, table
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.text import place as place_text
from jgroups_py.model.units import show_size
from jgroups_py.protocols.transport.protocol import UdpConfig
from jgroups_py.runtime.loop import Loop
from jgroups_py.runtime.poller import READ, WRITE
from jgroups_py.runtime.sockets.destinations import UNSENDABLE, Places, error_name
from jgroups_py.runtime.sockets.interfaces import interface_number, resolve
from jgroups_py.runtime.sockets.ip import SocketAddress, family, physical, socket_address, split_scope, version
from jgroups_py.runtime.sockets.multicast import join, send_from, shared_socket
from jgroups_py.runtime.sockets.own_multicast_filter import ignore_own
from jgroups_py.system.drops import LoggedCounters

Frames = Iterable[tuple[bytes, PhysicalAddress | None]]
Buffers = list[bytes | bytearray]

READS_PER_ROUND = 64                        # datagrams of one socket in one round: 4 MB at most
MAX_BUFFERS = 512                           # buffers the system gathers at once (IOV_MAX is 1024 on Linux)
MAX_DATAGRAM = 65536
OUTGOING_BYTES = 4 << 20                    # what waits for the system to take it, at most


class UdpSockets:
    """The two sockets of member `me`; `received` gets all frames of one round.

    Raises:
        OSError, ConfigError: they cannot be opened.
    """

    COUNTERS = declare(
        *Places.COUNTERS,
        drop("send_<error>_dropped", "Datagrams that the system did not take, by its error."),
        drop("send_queue_full_dropped", "Datagrams that found the queue full, which waits for the system to take "
                                        "more."),
        counter("receive_<error>", "Errors while receiving: the echo of a datagram to a closed port, an interface "
                                   "that went down."),
    )

    def __init__(
        self, loop: Loop, config: UdpConfig, me: bytes, received: Callable[[Frames], None],
        note: Callable[[str, str], None],
    ) -> None:
        self.loop = loop
        self.counters = LoggedCounters(table(self.COUNTERS))
        self._received = received
        self._note = note
        self._outgoing: deque[tuple[Buffers, SocketAddress]] = deque()
        self._outgoing_bytes = 0
        self._warned: dict[str, None] = {}                   # errors that have been logged once
        self.host = resolve(config.bind_addr, version(config.mcast_addr) if config.ip_mcast else 0)
        if config.ip_mcast and self.host == "::1":
            raise ConfigError(f"bind_addr {config.bind_addr!r}: the loopback interface has no IPv6 multicast; "
                              "bind_addr=127.0.0.1 with an IPv4 mcast_addr, the address of another interface, or TCP")
        self._interface = interface_number(self.host)        # used with IPv6 only
        self._group = socket_address(config.mcast_addr, config.mcast_port, self._interface)
        self._places = Places(self.counters, host=self.host, one_version=True)
        self._multicast: socket.socket | None = None
        self._unicast = bound_in_range(socket.SOCK_DGRAM, self.host, config.bind_port, config.port_range)
        self._datagrams = self._datagrams_6 if family(self.host) == socket.AF_INET6 else self._datagrams_4
        try:
            self._set_up(config, me)
        except OSError:
            self.close()
            raise
        port = int(self._unicast.getsockname()[1])
        self.physical: PhysicalAddress = (config.external_addr or split_scope(self.host)[0],
                                          config.external_port or port)

    def _set_up(self, config: UdpConfig, me: bytes) -> None:
        self._buffer(self._unicast, socket.SO_RCVBUF, config.ucast_recv_buf_bytes, "ucast_recv_buf_size")
        self._buffer(self._unicast, socket.SO_SNDBUF, max(config.ucast_send_buf_bytes, config.mcast_send_buf_bytes),
                     "ucast_send_buf_size")
        self.loop.watch(self._unicast, READ, self._read_unicast)
        if not config.ip_mcast:
            return
        send_from(self._unicast, self.host, self._interface, config.ip_ttl)
        self._multicast = shared_socket(self._group)
        ignore_own(self._multicast, me)
        join(self._multicast, config.mcast_addr, self.host, self._interface)
        self._buffer(self._multicast, socket.SO_RCVBUF, config.mcast_recv_buf_bytes, "mcast_recv_buf_size")
        self.loop.watch(self._multicast, READ, self._read_multicast)

    def _buffer(self, sock: socket.socket, option: int, wanted: int, name: str) -> None:
        sock.setsockopt(socket.SOL_SOCKET, option, wanted)
        # Linux doubles what it is asked for, to allow for its own overhead, and reports the doubled value.
        got = sock.getsockopt(socket.SOL_SOCKET, option) // 2
        if got < wanted:
            self._note("debug", f"{name}: the system gives {show_size(got)} instead of {show_size(wanted)} "
                                "(net.core.rmem_max, net.core.wmem_max)")

    # --- out --------------------------------------------------------------------------------------------------------

    def send(self, to: PhysicalAddress | None, buffers: Buffers) -> None:
        """One datagram; to None: to the multicast address."""
        place = self._group if to is None else self._places.of(to)
        if place is None:
            return None
        if len(buffers) > MAX_BUFFERS:
            buffers = [b"".join(buffers)]
        if self._outgoing:
            return self._queue_datagram(buffers, place)
        try:
            self._unicast.sendmsg(buffers, (), 0, place)
        except UNSENDABLE as error:
            self._drop_unsent(error, buffers, place)
        return None

    def _drop_unsent(self, error: Exception, buffers: Buffers, to: SocketAddress) -> None:
        if isinstance(error, BlockingIOError):
            self.loop.watch(self._unicast, READ | WRITE, self._write_and_read)
            return self._queue_datagram(buffers, to)
        # ENOBUFS, EPERM, ENETUNREACH, ECONNREFUSED (a port at a peer was closed before), ...: the datagram is dropped.
        name = error_name(error)
        self.counters.drop(f"send_{name}_dropped", f"to {place_text(*physical(to))}: {error}")
        if name not in self._warned:
            self._warned[name] = None
            self._note("warning", f"cannot send to {place_text(*physical(to))}: {error}")
        return None

    def _queue_datagram(self, buffers: Buffers, to: SocketAddress) -> None:
        nbytes = sum(map(len, buffers))
        if self._outgoing_bytes + nbytes > OUTGOING_BYTES:
            return self.counters.drop("send_queue_full_dropped",
                                      f"to {place_text(*physical(to))}: the system takes no more")
        self._outgoing_bytes += nbytes
        return self._outgoing.append((buffers, to))

    def _write_and_read(self) -> None:
        outgoing = self._outgoing
        while outgoing:
            buffers, to = outgoing[0]
            try:
                self._unicast.sendmsg(buffers, (), 0, to)
            except BlockingIOError:
                break
            except UNSENDABLE as error:
                self._drop_unsent(error, buffers, to)
            outgoing.popleft()
            self._outgoing_bytes -= sum(map(len, buffers))
        if not outgoing:
            self.loop.watch(self._unicast, READ, self._read_unicast)
        self._read_unicast()

    # --- in ---------------------------------------------------------------------------------------------------------

    def _read_unicast(self) -> None:
        self._read(self._unicast)

    def _read_multicast(self) -> None:
        assert self._multicast is not None, "only a socket that exists is watched"
        self._read(self._multicast)

    def _read(self, sock: socket.socket) -> None:
        # After a wait there is most likely one datagram only, and a second recv that finds nothing would double the
        # cost. If there are more, the next round does not wait and reads them all.
        frames = self._datagrams(sock, 1 if self.loop.waited else READS_PER_ROUND)
        self._received(frames)
        for _ in frames:                    # not consumed (no node): the socket would stay readable
            pass

    def _datagrams_4(self, sock: socket.socket, most: int) -> Iterator[tuple[bytes, PhysicalAddress]]:
        """What can be read now. Each datagram is read when it is asked for, so that it is cut into messages while the
        processor's caches have it, and its memory is used again for the next one."""
        receive = sock.recvfrom
        try:
            for _ in range(most):
                yield receive(MAX_DATAGRAM)
        except BlockingIOError:
            pass
        except OSError as error:            # the echo of a datagram to a closed port, or the interface went down
            self.counters.add(f"receive_{error_name(error)}")

    def _datagrams_6(self, sock: socket.socket, most: int) -> Iterator[tuple[bytes, PhysicalAddress]]:
        """The same from a socket of IPv6, which reports a flow label and a scope too."""
        for data, place in self._datagrams_4(sock, most):
            yield data, place[:2]

    def close(self) -> None:
        """Close both sockets; what waits is lost."""
        for sock in (self._unicast, self._multicast):
            if sock is not None and sock.fileno() >= 0:
                with contextlib.suppress(KeyError):          # not watched yet
                    self.loop.unwatch(sock)
                sock.close()


def bound_in_range(kind: int, host: str, port: int, port_range: int) -> socket.socket:
    """A non-blocking socket on the first free port of `port` to `port + port_range`; port 0: any.

    Raises:
        OSError: none of them is free, or `host` is not an address of this machine.
    """
    address, scope = split_scope(host)
    last = OSError(errno.EADDRINUSE, "no port to try")
    for candidate in range(port, port + (port_range if port else 0) + 1):
        sock = socket.socket(family(host), kind)
        try:
            if sock.family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            if kind == socket.SOCK_STREAM:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(socket_address(address, candidate, scope))
            sock.setblocking(False)
            return sock
        except OSError as error:
            sock.close()
            last = error
            if error.errno != errno.EADDRINUSE:
                break
    raise OSError(last.errno, f"cannot bind {place_text(host, port)} (port_range {port_range}): {last.strerror}")
