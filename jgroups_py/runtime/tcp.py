"""The TCP mesh of one stack, on ZeroMQ: one ROUTER that receives, one DEALER per peer that sends.

ZeroMQ connects, reconnects with growing waits, probes idle connections and keeps a bounded queue for each peer, all
on its own thread, so a dead peer blocks nobody. A connection introduces itself by its routing id: magic, version,
four random bytes, and where its owner receives; messages of a connection without one are refused and counted. A
frame for a peer whose connection is not up yet waits a moment (the first message to a peer is the one that opens
the connection); otherwise a frame that cannot go out now is lost and counted, and NAKACK and UNICAST repair it.
"""
from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable

import zmq

from jgroups_py.address import PhysicalAddress
from jgroups_py.counters import Counters
from jgroups_py.protocols.transport import TcpConfig
from jgroups_py.runtime.accepting import share_of_descriptors
from jgroups_py.runtime.interfaces import resolve
from jgroups_py.runtime.loop import Loop, Task
from jgroups_py.runtime.places import UNSENDABLE, Places, error_name
from jgroups_py.runtime.poller import READ
from jgroups_py.texts import is_host
from jgroups_py.units import NS_PER_MS, NS_PER_S, millis, seconds

Frames = list[tuple[bytes, PhysicalAddress | None]]
Buffers = list[bytes | bytearray]
Data = bytes | zmq.Frame

READS_PER_ROUND = 64                        # frames in one round: 4 MB at most at the usual frame size
HELLO = b"JP1"                              # first bytes of a routing id of ours
HELLO_BYTES = len(HELLO) + 4
MAX_PEERS_KNOWN = 4096                      # routing ids whose meaning is remembered
SHARED_BYTES = 8 << 10                      # larger frames are copied into ZeroMQ once, not once for each peer
WAIT_BYTES = 1 << 20                        # frames waiting for one connection to come up, at most
WAIT_NS = seconds(2)                        # and for how long
RETRY_NS = millis(50)                       # waiting frames are also tried on a timer
IDLE_NS = seconds(120)                      # a connection unused for so long is closed
SWEEP_NS = seconds(15)
LINGER_MS = 200                             # how long goodbyes may take to leave when the sockets close
HANDSHAKE_MS = 5_000
PROBES = 2                                  # without answer after an idle time, then a connection is broken
RECEIVE_QUEUE = 64                          # frames ZeroMQ reads ahead from each peer
LARGEST_FRAME = 16 << 20                    # a peer that announces more is cut off (its bundles may exceed ours)
BACKLOG = 512
MONITORED: dict[int, str] = {
    zmq.EVENT_ACCEPTED: "connections_accepted", zmq.EVENT_DISCONNECTED: "connections_ended",
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL: "handshakes_failed", zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL: "handshakes_failed",
}
"""ZeroMQ's event -> the name under which it is counted."""
MAX_SOCKETS = 16_384
MAX_PEERS = 4096                            # connections to peers, at most
EVICTED_PART = 8                            # of them, when they are too many, one in so many makes room


class ZmqContext:
    """The ZeroMQ context of a loop, made on first use and ended with the loop."""

    _of: dict[Loop, zmq.Context[zmq.Socket[bytes]]] = {}

    @classmethod
    def of(cls, loop: Loop) -> zmq.Context[zmq.Socket[bytes]]:
        """The context whose sockets live on this loop's thread."""
        context = cls._of.get(loop)
        if context is None:
            context = cls._of[loop] = zmq.Context()
            context.set(zmq.MAX_SOCKETS, MAX_SOCKETS)
            loop.at_stop(lambda: cls._of.pop(loop).destroy(linger=LINGER_MS))
        return context


class Peer:
    """The way to one physical address."""

    __slots__ = ("place", "socket", "used_ns", "waiting", "waiting_bytes", "watched")

    def __init__(self, place: PhysicalAddress, socket: zmq.Socket[bytes], now_ns: int) -> None:
        self.place = place
        self.socket = socket
        self.used_ns = now_ns
        self.waiting: deque[tuple[int, Data]] = deque()      # (since when, frame)
        self.waiting_bytes = 0
        self.watched = False


class TcpMesh:
    """The sockets; `received` gets all frames of one round. Raises OSError or ConfigError if they cannot open."""

    def __init__(
        self, loop: Loop, config: TcpConfig, received: Callable[[Frames], None],
        note: Callable[[str, str], None],
    ) -> None:
        self.loop = loop
        self.config = config
        self.counters = Counters()
        self._received = received
        self._note = note
        self._context = ZmqContext.of(loop)
        self._peers: dict[PhysicalAddress, Peer] = {}        # by the address in numbers
        self._most_peers = share_of_descriptors(MAX_PEERS)
        self._known: dict[bytes, PhysicalAddress | None] = {}     # routing id -> where its owner receives
        self._places = Places(self.counters)
        self._warned: dict[str, None] = {}                   # kinds of errors that were noted already
        self._joined: tuple[Buffers, Data] = ([], b"")            # the last frame: a multicast goes to many peers
        self._router = self._context.socket(zmq.ROUTER)
        self._monitor: zmq.Socket[bytes] | None = None
        try:
            host = resolve(config.bind_addr)
            self._set_up_router()
            port = self._bind(host)
        except Exception:
            self._router.close(0)
            raise
        self.physical: PhysicalAddress = (config.external_addr or host, config.external_port or port)
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
        self._set_common(router)
        if config.recv_buf_bytes:
            router.set(zmq.RCVBUF, config.recv_buf_bytes)

    def _set_common(self, sock: zmq.Socket[bytes]) -> None:
        """Probes are the system's: ZeroMQ's own (HEARTBEAT_IVL) end the whole process with a failed assertion if one
        is due on a connection that broke while its frames waited to be read (libzmq issues 4364 and 4767)."""
        heartbeat_ns = self.config.heartbeat_ns
        sock.set(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
        sock.set(zmq.IPV6, 0)
        if heartbeat_ns:
            probe_s = max(1, round(heartbeat_ns / NS_PER_S))
            sock.set(zmq.TCP_KEEPALIVE, 1)
            sock.set(zmq.TCP_KEEPALIVE_IDLE, probe_s)
            sock.set(zmq.TCP_KEEPALIVE_INTVL, probe_s)
            sock.set(zmq.TCP_KEEPALIVE_CNT, PROBES)
            sock.set(zmq.TCP_MAXRT, (PROBES + 1) * heartbeat_ns // NS_PER_MS)

    def _bind(self, host: str) -> int:
        first, extra = self.config.bind_port, self.config.port_range
        if not first:
            self._router.bind(f"tcp://{host}:*")
            return int(self._router.get_string(zmq.LAST_ENDPOINT).rpartition(":")[2])
        for port in range(first, first + extra + 1):
            try:
                self._router.bind(f"tcp://{host}:{port}")
                return port
            except zmq.ZMQError as error:
                if error.errno != zmq.EADDRINUSE or port == first + extra:
                    text = f"cannot bind {host}:{first} (port_range {extra}): {error.strerror}"
                    raise OSError(error.errno, text) from error
        raise AssertionError("the last port either binds or raises")

    def _watch_handshakes(self) -> None:
        """Garbage sent to our port never becomes a message; ZeroMQ tells of it by these events alone."""
        self._monitor = self._router.get_monitor_socket(sum(MONITORED))
        self.loop.watch(int(self._monitor.get(zmq.FD)), READ, self._read_monitor)
        self._read_monitor()                                 # the descriptor tells nothing before a first read in vain

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
        """ZeroMQ's descriptor tells of changes, not of states, so we read until nothing is left or come back."""
        frames: Frames = []
        receive, known = self._router.recv_multipart, self._known
        try:
            for _ in range(READS_PER_ROUND):
                parts = receive(zmq.NOBLOCK)
                routing_id = parts[0]
                physical = known[routing_id] if routing_id in known else self._introduced(routing_id)
                if physical is None or len(parts) != 2:
                    self.counters.add("refused_messages_dropped")
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

    def _introduced(self, routing_id: bytes) -> PhysicalAddress | None:
        """Where the owner of a connection receives; None: it is none of us."""
        if len(self._known) >= MAX_PEERS_KNOWN:
            self._known.clear()
        physical = self._known[routing_id] = parse_hello(routing_id)
        place = None if physical is None else self._places.found(physical)
        if physical is None:
            self.counters.add("foreign_connections_refused")
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
                return self._put_off(peer, data)
            peer.socket.send(data, zmq.NOBLOCK, copy=data.__class__ is bytes)
        except zmq.Again:
            self._put_off(self._peers[place], data)
        except UNSENDABLE as error:
            self._not_sent(error, place)
        return None

    def _not_sent(self, error: Exception, to: PhysicalAddress) -> None:
        """A target that ZeroMQ does not take, no descriptors left, ...: a lost frame."""
        name = error_name(error)
        self.counters.add(f"send_{name}_dropped")
        if name not in self._warned:
            self._warned[name] = None
            self._note("warning", f"cannot send to {to[0]}:{to[1]}: {error}")

    def _new_peer(self, place: PhysicalAddress) -> Peer:
        if len(self._peers) >= self._most_peers:
            # Whoever sends us made-up addresses fills the table with peers that are used once; those in use stay.
            by_use = sorted(self._peers, key=lambda to: self._peers[to].used_ns)
            for unused in by_use[:1 + len(by_use) // EVICTED_PART]:
                self.counters.add("peers_evicted")
                self._close_peer(self._peers.pop(unused))
        peer = self._peers[place] = Peer(place, self._dealer(place), self.loop.now_ns)
        return peer

    def _dealer(self, to: PhysicalAddress) -> zmq.Socket[bytes]:
        config = self.config
        dealer = self._context.socket(zmq.DEALER)
        dealer.set(zmq.ROUTING_ID, make_hello(self.physical))
        dealer.set(zmq.IMMEDIATE, 1)                         # only connections that stand get a queue
        dealer.set(zmq.SNDHWM, config.send_queue)
        dealer.set(zmq.LINGER, LINGER_MS)
        dealer.set(zmq.CONNECT_TIMEOUT, config.connect_timeout_ns // NS_PER_MS)
        dealer.set(zmq.RECONNECT_IVL, max(1, config.reconnect_ns // NS_PER_MS))
        dealer.set(zmq.RECONNECT_IVL_MAX, config.reconnect_max_ns // NS_PER_MS)
        self._set_common(dealer)
        if config.send_buf_bytes:
            dealer.set(zmq.SNDBUF, config.send_buf_bytes)
        try:
            dealer.connect(f"tcp://{to[0]}:{to[1]}")
        except zmq.ZMQError:
            dealer.close(0)
            raise
        self.counters.add("connections_opened")
        return dealer

    def _put_off(self, peer: Peer, data: Data) -> None:
        if peer.waiting_bytes + len(data) > WAIT_BYTES:
            return self.counters.add("send_queue_full_dropped")
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
            peer.socket.get(zmq.EVENTS)                      # makes ZeroMQ look at what its descriptor told
            while waiting:
                since_ns, data = waiting[0]
                if since_ns < oldest_ns:
                    self.counters.add("not_connected_dropped")
                else:
                    send(data, zmq.NOBLOCK, copy=data.__class__ is bytes)
                waiting.popleft()
                peer.waiting_bytes -= len(data)
        except zmq.Again:
            return None
        except UNSENDABLE as error:                          # the timer tries the others
            peer.waiting_bytes -= len(waiting.popleft()[1])
            return self._not_sent(error, peer.place)
        return self._unwatch(peer)

    def _renew(self, peer: Peer) -> None:
        """A peer that connected to us is there: do not wait until ZeroMQ tries again a port that was dead before."""
        if int(peer.socket.get(zmq.EVENTS)) & zmq.POLLOUT:
            return None
        try:
            fresh = self._dealer(peer.place)
        except UNSENDABLE as error:
            return self._not_sent(error, peer.place)
        self._unwatch(peer)
        peer.socket.close(0)
        peer.socket = fresh
        if peer.waiting:
            self._watch(peer)
        return None

    def _watch(self, peer: Peer) -> None:
        peer.watched = True
        self.loop.watch(int(peer.socket.get(zmq.FD)), READ, lambda: self._flush(peer))
        self._flush(peer)                                    # it may have come up before we watched

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


def make_hello(physical: PhysicalAddress) -> bytes:
    """A routing id for one connection of ours. The random bytes keep two ways to one peer apart (a proxy)."""
    return HELLO + os.urandom(HELLO_BYTES - len(HELLO)) + f"{physical[0]}:{physical[1]}".encode()


def parse_hello(routing_id: bytes) -> PhysicalAddress | None:
    """What `make_hello` was given; None if this is no routing id of ours.

    >>> parse_hello(make_hello(("10.0.0.1", 7800))), parse_hello(b"x")
    (('10.0.0.1', 7800), None)
    """
    if not routing_id.startswith(HELLO):
        return None
    host, _, port = routing_id[HELLO_BYTES:].rpartition(b":")
    if not port.isdigit() or not 0 < int(port) <= 65535 or not host.isascii() or not is_host(host.decode()):
        return None
    return host.decode(), int(port)
