"""The TCP mesh of one stack, on ZeroMQ: one ROUTER that receives, one DEALER per peer that sends.

ZeroMQ connects, reconnects with backoff, probes idle connections and keeps a bounded queue per peer, all on its own
thread, so a failed peer does not block the others. A connection is identified by its routing id: magic, version, four
random bytes, and the physical address at which its member receives. Messages on a connection without a valid routing
id are dropped and counted. A frame for a peer whose connection is not up yet waits up to WAIT_NS (the first frame to a
peer opens the connection); otherwise a frame that cannot be sent now is dropped and counted, and NAKACK and UNICAST
retransmit it.
"""
from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable

import zmq

from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.counters import counter, declare, drop, table
from jgroups_py.model.text import is_host
from jgroups_py.model.text import place as place_text
from jgroups_py.model.units import NS_PER_MS, NS_PER_S, millis, seconds
from jgroups_py.protocols.transport.protocol import TcpConfig
from jgroups_py.runtime.loop import Loop, Task
from jgroups_py.runtime.poller import READ
from jgroups_py.runtime.sockets.destinations import UNSENDABLE, Places, error_name
from jgroups_py.runtime.sockets.interfaces import resolve
from jgroups_py.runtime.sockets.ip import SocketAddress, physical, split_scope
from jgroups_py.runtime.sockets.listener import share_of_descriptors
from jgroups_py.system.drops import LoggedCounters

Frames = list[tuple[bytes, PhysicalAddress | None]]
Buffers = list[bytes | bytearray]
Data = bytes | zmq.Frame

READS_PER_ROUND = 64                        # frames in one round: 4 MB at most at the usual frame size
HELLO = b"JP1"                              # magic and version of a routing id
HELLO_BYTES = len(HELLO) + 4
MAX_PEERS_KNOWN = 4096                      # parsed routing ids that are cached
SHARED_BYTES = 8 << 10                      # larger frames are copied into ZeroMQ once, not once for each peer
WAIT_BYTES = 1 << 20                        # frames waiting for one connection to come up, at most
WAIT_NS = seconds(2)                        # and for how long
RETRY_NS = millis(50)                       # a timer retries waiting frames, beside readiness
IDLE_NS = seconds(120)                      # a connection unused for so long is closed
SWEEP_NS = seconds(15)
LINGER_MS = 200                             # how long queued frames may leave after a close
HANDSHAKE_MS = 5_000
PROBES = 2                                  # unanswered probes after an idle time that break a connection
RECEIVE_QUEUE = 64                          # frames ZeroMQ reads ahead from each peer
LARGEST_FRAME = 16 << 20                    # one that announces more is closed (a peer's bundles may be larger)
BACKLOG = 512
MONITORED: dict[int, str] = {
    zmq.EVENT_ACCEPTED: "connections_accepted", zmq.EVENT_DISCONNECTED: "connections_ended",
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL: "handshakes_failed", zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL: "handshakes_failed",
}
"""ZeroMQ's event -> the name under which it is counted."""
MAX_SOCKETS = 16_384
MAX_PEERS = 4096                            # connections to peers, at most
EVICTED_PART = 8                            # at the limit, one in so many of the least recently used is closed


class ZmqContext:
    """The ZeroMQ context of a loop, made on first use and ended with the loop."""

    _of: dict[Loop, zmq.Context[zmq.Socket[bytes]]] = {}

    @classmethod
    def of(cls, loop: Loop) -> zmq.Context[zmq.Socket[bytes]]:
        """The context of this loop's sockets."""
        context = cls._of.get(loop)
        if context is None:
            context = cls._of[loop] = zmq.Context()
            context.set(zmq.MAX_SOCKETS, MAX_SOCKETS)
            loop.at_stop(lambda: cls._of.pop(loop).destroy(linger=LINGER_MS))
        return context


class Peer:
    """The connection to one physical address, and the frames that wait for it."""

    __slots__ = ("place", "socket", "used_ns", "waiting", "waiting_bytes", "watched")

    def __init__(self, place: SocketAddress, socket: zmq.Socket[bytes], now_ns: int) -> None:
        self.place = place
        self.socket = socket
        self.used_ns = now_ns
        self.waiting: deque[tuple[int, Data]] = deque()      # (since when, frame)
        self.waiting_bytes = 0
        self.watched = False


class TcpMesh:
    """The sockets; `received` gets all frames of one round. Raises OSError or ConfigError if they cannot open."""

    COUNTERS = declare(
        *Places.COUNTERS,
        counter("connections_opened", "Connections opened to peers."),
        counter("connections_accepted", "Connections opened by peers."),
        counter("connections_ended", "Connections that ended."),
        counter("handshakes_failed", "Connections on which another protocol than ZeroMQ was used."),
        counter("other_connection_events", "Events of connections that have no name here."),
        counter("peers_evicted", "Connections closed to make room for others."),
        drop("foreign_connections_refused", "Connections without a valid routing id of a member."),
        drop("refused_messages_dropped", "Messages on such connections, and malformed messages."),
        drop("send_<error>_dropped", "Frames that could not be sent, by the error."),
        drop("send_queue_full_dropped", "Frames to a peer whose queue is full."),
        drop("not_connected_dropped", "Frames that waited too long for a connection."),
    )

    def __init__(
        self, loop: Loop, config: TcpConfig, received: Callable[[Frames], None],
        note: Callable[[str, str], None],
    ) -> None:
        self.loop = loop
        self.config = config
        self.counters = LoggedCounters(table(self.COUNTERS))
        self._received = received
        self._note = note
        self._context = ZmqContext.of(loop)
        self._peers: dict[SocketAddress, Peer] = {}          # by the address in numbers
        self._most_peers = share_of_descriptors(MAX_PEERS)
        self._known: dict[bytes, PhysicalAddress | None] = {}     # routing id -> where its owner receives
        self._warned: dict[str, None] = {}                   # errors that have been logged once
        self._joined: tuple[Buffers, Data] = ([], b"")            # the last frame, for all peers of a multicast
        self._router = self._context.socket(zmq.ROUTER)
        self._monitor: zmq.Socket[bytes] | None = None
        try:
            self.host = resolve(config.bind_addr)
            self._places = Places(self.counters, host=self.host)
            self._set_up_router()
            port = self._bind(self.host)
        except Exception:
            self._router.close(0)
            raise
        self.physical: PhysicalAddress = (config.external_addr or split_scope(self.host)[0],
                                          config.external_port or port)
        loop.watch(int(self._router.get(zmq.FD)), READ, self._read)
        self._watch_handshakes()
        self._retry: Task | None = None
        self._sweep = loop.later(SWEEP_NS, self._close_idle)

    def _set_up_router(self) -> None:
        router, config = self._router, self.config
        router.set(zmq.RCVHWM, RECEIVE_QUEUE)
        router.set(zmq.ROUTER_HANDOVER, 1)                   # a peer that reconnects replaces its old connection
        router.set(zmq.MAXMSGSIZE, max(LARGEST_FRAME, 2 * config.max_bundle_bytes))
        router.set(zmq.BACKLOG, BACKLOG)
        router.set(zmq.LINGER, 0)
        self._set_common(router, self.host)
        if config.recv_buf_bytes:
            router.set(zmq.RCVBUF, config.recv_buf_bytes)

    def _set_common(self, sock: zmq.Socket[bytes], host: str) -> None:
        """Probes are the system's: ZeroMQ's own (HEARTBEAT_IVL) end the whole process with a failed assertion if one
        is due on a connection that broke while its frames waited to be read (libzmq issues 4364 and 4767)."""
        heartbeat_ns = self.config.heartbeat_ns
        sock.set(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
        sock.set(zmq.IPV6, int(":" in host))
        if heartbeat_ns:
            probe_s = max(1, round(heartbeat_ns / NS_PER_S))
            sock.set(zmq.TCP_KEEPALIVE, 1)
            sock.set(zmq.TCP_KEEPALIVE_IDLE, probe_s)
            sock.set(zmq.TCP_KEEPALIVE_INTVL, probe_s)
            sock.set(zmq.TCP_KEEPALIVE_CNT, PROBES)
            sock.set(zmq.TCP_MAXRT, (PROBES + 1) * heartbeat_ns // NS_PER_MS)

    def _bind(self, host: str) -> int:
        first, extra = self.config.bind_port, self.config.port_range
        ports = range(first, first + extra + 1) if first else ("*",)
        for port in ports:
            try:
                self._router.bind(f"tcp://{bracketed(host)}:{port}")
                return int(self._router.get_string(zmq.LAST_ENDPOINT).rpartition(":")[2])
            except zmq.ZMQError as error:
                if error.errno != zmq.EADDRINUSE or port == ports[-1]:
                    text = f"cannot bind {place_text(host, first)} (port_range {extra}): {error.strerror}"
                    raise OSError(error.errno, text) from error
        raise AssertionError("the last port either binds or raises")

    def _watch_handshakes(self) -> None:
        """Bytes that are not ZeroMQ never become a message; ZeroMQ reports them by these events only."""
        self._monitor = self._router.get_monitor_socket(sum(MONITORED))
        self.loop.watch(int(self._monitor.get(zmq.FD)), READ, self._read_monitor)
        self._read_monitor()                                 # edge-triggered: armed by a read that finds nothing

    def _read_monitor(self) -> None:
        assert self._monitor is not None, "only a monitor that exists is watched"
        try:
            while True:
                event = int.from_bytes(self._monitor.recv_multipart(zmq.NOBLOCK)[0][:2], sys.byteorder)
                self.counters.add(MONITORED.get(event, "other_connection_events"))
        except zmq.Again:
            pass

    # --- in ---------------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Read until nothing is left, or schedule another read: ZeroMQ's descriptor is edge-triggered."""
        frames: Frames = []
        receive, known = self._router.recv_multipart, self._known
        try:
            for _ in range(READS_PER_ROUND):
                parts = receive(zmq.NOBLOCK)
                routing_id = parts[0]
                physical = known[routing_id] if routing_id in known else self._identify(routing_id)
                if physical is None or len(parts) != 2:
                    self.counters.drop("refused_messages_dropped", "its connection has no valid routing id")
                else:
                    frames.append((parts[1], physical))
            self.loop.call(self._read_on)
        except zmq.Again:
            pass
        if frames:
            self._received(frames)

    def _read_on(self) -> None:
        if not self._router.closed:
            self._read()

    def _identify(self, routing_id: bytes) -> PhysicalAddress | None:
        """The physical address of the member at the other end; None: the routing id is invalid."""
        if len(self._known) >= MAX_PEERS_KNOWN:
            self._known.clear()
        physical = self._known[routing_id] = parse_hello(routing_id)
        place = None if physical is None else self._places.found(physical)
        if physical is None:
            self.counters.drop("foreign_connections_refused", f"a connection has the routing id {routing_id!r}")
        elif place in self._peers:
            self._renew(self._peers[place])
        return physical

    # --- out --------------------------------------------------------------------------------------------------------

    def send(self, to: PhysicalAddress | None, buffers: Buffers) -> None:
        """One message to one peer."""
        assert to is not None, "TCP has no multicast"
        data: Data
        if self._joined[0] is buffers:
            data = self._joined[1]
        else:
            data = b"".join(buffers)
            if len(data) >= SHARED_BYTES:
                data = zmq.Frame(data, copy=True)
            self._joined = buffers, data
        place = self._places.of(to)
        if place is None:
            return None
        try:
            peer = self._peers.get(place) or self._new_peer(place)
            peer.used_ns = self.loop.now_ns
            if peer.waiting:
                return self._queue_frame(peer, data)
            peer.socket.send(data, zmq.NOBLOCK, copy=data.__class__ is bytes)
        except zmq.Again:
            self._queue_frame(self._peers[place], data)
        except UNSENDABLE as error:
            self._drop_unsent(error, place)
        return None

    def _drop_unsent(self, error: Exception, to: SocketAddress) -> None:
        """Drop a frame: ZeroMQ refuses the destination, no descriptor is left, and so on."""
        name = error_name(error)
        self.counters.drop(f"send_{name}_dropped", f"to {place_text(*physical(to))}: {error}")
        if name not in self._warned:
            self._warned[name] = None
            self._note("warning", f"cannot send to {place_text(*physical(to))}: {error}")

    def _new_peer(self, place: SocketAddress) -> Peer:
        if len(self._peers) >= self._most_peers:
            # Made-up addresses in received frames fill the table with peers that are used once; those in use stay.
            by_use = sorted(self._peers, key=lambda to: self._peers[to].used_ns)
            for unused in by_use[:1 + len(by_use) // EVICTED_PART]:
                self.counters.add("peers_evicted")
                self._close_peer(self._peers.pop(unused))
        peer = self._peers[place] = Peer(place, self._dealer(place), self.loop.now_ns)
        return peer

    def _dealer(self, to: SocketAddress) -> zmq.Socket[bytes]:
        config = self.config
        dealer = self._context.socket(zmq.DEALER)
        dealer.set(zmq.ROUTING_ID, make_hello(self.physical))
        dealer.set(zmq.IMMEDIATE, 1)                         # frames are queued for established connections only
        dealer.set(zmq.SNDHWM, config.send_queue)
        dealer.set(zmq.LINGER, LINGER_MS)
        dealer.set(zmq.CONNECT_TIMEOUT, config.connect_timeout_ns // NS_PER_MS)
        dealer.set(zmq.RECONNECT_IVL, max(1, config.reconnect_ns // NS_PER_MS))
        dealer.set(zmq.RECONNECT_IVL_MAX, config.reconnect_max_ns // NS_PER_MS)
        self._set_common(dealer, to[0])
        if config.send_buf_bytes:
            dealer.set(zmq.SNDBUF, config.send_buf_bytes)
        try:
            dealer.connect(endpoint(to))
        except zmq.ZMQError:
            dealer.close(0)
            raise
        self.counters.add("connections_opened")
        return dealer

    def _queue_frame(self, peer: Peer, data: Data) -> None:
        if peer.waiting_bytes + len(data) > WAIT_BYTES:
            return self.counters.drop("send_queue_full_dropped",
                                      f"to {place_text(*physical(peer.place))}, which takes no more")
        peer.waiting.append((self.loop.now_ns, data))
        peer.waiting_bytes += len(data)
        if not peer.watched:
            self._watch(peer)
        if self._retry is None:
            self._retry = self.loop.later(RETRY_NS, self._retry_all)
        return None

    def _flush(self, peer: Peer) -> None:
        waiting, send = peer.waiting, peer.socket.send
        oldest_ns = self.loop.now_ns - WAIT_NS
        try:
            peer.socket.get(zmq.EVENTS)                      # makes ZeroMQ process what made its descriptor readable
            while waiting:
                since_ns, data = waiting[0]
                if since_ns < oldest_ns:
                    self.counters.drop("not_connected_dropped", f"to {place_text(*physical(peer.place))}")
                else:
                    send(data, zmq.NOBLOCK, copy=data.__class__ is bytes)
                waiting.popleft()
                peer.waiting_bytes -= len(data)
        except zmq.Again:
            return None
        except UNSENDABLE as error:                          # the timer tries the others
            peer.waiting_bytes -= len(waiting.popleft()[1])
            return self._drop_unsent(error, peer.place)
        return self._unwatch(peer)

    def _renew(self, peer: Peer) -> None:
        """A peer that has connected is up: replace a DEALER that is in reconnect backoff by a fresh one."""
        if int(peer.socket.get(zmq.EVENTS)) & zmq.POLLOUT:
            return None
        try:
            fresh = self._dealer(peer.place)
        except UNSENDABLE as error:
            return self._drop_unsent(error, peer.place)
        self._unwatch(peer)
        peer.socket.close(0)
        peer.socket = fresh
        if peer.waiting:
            self._watch(peer)
        return None

    def _watch(self, peer: Peer) -> None:
        peer.watched = True
        self.loop.watch(int(peer.socket.get(zmq.FD)), READ, lambda: self._flush(peer))
        self._flush(peer)                                    # it may have come up before it was watched

    def _unwatch(self, peer: Peer) -> None:
        if peer.watched:
            peer.watched = False
            self.loop.unwatch(int(peer.socket.get(zmq.FD)))

    def _retry_all(self) -> None:
        self._retry = None
        for peer in self._peers.values():
            if peer.waiting:
                self._flush(peer)
        if any(peer.waiting for peer in self._peers.values()):
            self._retry = self.loop.later(RETRY_NS, self._retry_all)

    def _close_idle(self) -> None:
        oldest_ns = self.loop.now_ns - IDLE_NS
        for to in [to for to, peer in self._peers.items() if peer.used_ns < oldest_ns]:
            self._close_peer(self._peers.pop(to))
        self._sweep = self.loop.later(SWEEP_NS, self._close_idle)

    def _close_peer(self, peer: Peer) -> None:
        self._unwatch(peer)
        peer.socket.close(LINGER_MS)

    def close(self) -> None:
        """Close all sockets; what ZeroMQ has queued goes out within LINGER_MS."""
        for task in (self._sweep, self._retry):
            if task is not None:
                task.cancel()
        for peer in self._peers.values():
            self._close_peer(peer)
        self._peers.clear()
        if self._monitor is not None:
            self.loop.unwatch(int(self._monitor.get(zmq.FD)))
            self._router.disable_monitor()
            self._monitor.close(0)
        self.loop.unwatch(int(self._router.get(zmq.FD)))
        self._router.close(0)


def bracketed(host: str) -> str:
    """An IP address as ZeroMQ takes it before a port."""
    return f"[{host}]" if ":" in host else host


def endpoint(place: SocketAddress) -> str:
    """Where ZeroMQ connects.

    >>> endpoint(("10.0.0.1", 7800)), endpoint(("::1", 7800, 0, 0)), endpoint(("fe80::1", 7800, 0, 2))
    ('tcp://10.0.0.1:7800', 'tcp://[::1]:7800', 'tcp://[fe80::1%2]:7800')
    """
    scope = f"%{place[3]}" if len(place) > 2 and place[3] else ""
    return f"tcp://{bracketed(place[0] + scope)}:{place[1]}"


def make_hello(physical: PhysicalAddress) -> bytes:
    """A new routing id of this member. Its random bytes distinguish two connections to one peer (through a proxy)."""
    return HELLO + os.urandom(HELLO_BYTES - len(HELLO)) + f"{physical[0]}:{physical[1]}".encode()


def parse_hello(routing_id: bytes) -> PhysicalAddress | None:
    """The physical address in a routing id; None if it was not made by `make_hello`.

    >>> parse_hello(make_hello(("10.0.0.1", 7800))), parse_hello(b"x")
    (('10.0.0.1', 7800), None)
    """
    if not routing_id.startswith(HELLO):
        return None
    host, _, port = routing_id[HELLO_BYTES:].rpartition(b":")
    if not port.isdigit() or not 0 < int(port) <= 65535 or not host.isascii() or not is_host(host.decode()):
        return None
    return host.decode(), int(port)
