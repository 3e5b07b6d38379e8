"""NameService: names by gossip on its own UDP port, among processes that share no group, and with Aeron.

The gossip of the protocol NAMES, in frames of Aeron's driver name resolver: an Aeron media driver that is configured
with resolver `driver` takes part, so that channels of Aeron can use the names of these processes, and the other way
round. It runs on its own thread; `find` and `known` may be called from any thread. It uses the IP version of its own
address: names are learned with the addresses of either, but frames go to those of its own. Source: see
protocols/name_service.
"""
from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from time import monotonic_ns
from types import TracebackType
from typing import Self

from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.counters import counter, declare, drop, table
from jgroups_py.model.errors import ConfigError, WireError
from jgroups_py.model.events import NameResolved
from jgroups_py.model.name_resolution import split_place
from jgroups_py.model.outputs import LOCAL, Resolve
from jgroups_py.model.text import place as place_text
from jgroups_py.model.units import NS_PER_S
from jgroups_py.protocols.name_service.bootstrap import Bootstraps
from jgroups_py.protocols.name_service.config import NamesConfig
from jgroups_py.protocols.name_service.gossip import NameGossip
from jgroups_py.protocols.name_service.res import MAX_FRAME_BYTES, decode_frame
from jgroups_py.runtime.foreign_formats import FORMATS, OpenFormat
from jgroups_py.runtime.name_resolution.resolver_threads import Resolving
from jgroups_py.runtime.sockets.interfaces import interface_number, resolve
from jgroups_py.runtime.sockets.ip import family, physical, socket_address, split_scope, version
from jgroups_py.system.drops import LoggedCounters

MAX_DATAGRAM = 65_536
STOP_SECONDS = 2.0


class NameService:
    """A participant called `name` at `bind` ("host:port"; IPv6: "[::1]:port", "[fe80::1%eth0]:port").

    bootstrap: the first neighbours; the other properties are those of NAMES: `interface`, `resolver`, the intervals.
    """

    COUNTERS = declare(
        *NameGossip.COUNTERS,
        counter("not_sent", "Frames that the system refused; they are sent again in a second."),
        counter("not_received", "Errors while receiving: ICMP errors about datagrams to a closed port."),
        drop("frames_malformed", "Frames that could not be decoded."),
        drop("other_ip_version_dropped", "Frames to an address of the other IP version than that of the socket."),
    )

    def __init__(
        self, name: str, bind: str, bootstrap: str | Sequence[str] = "", *, trusted_network: bool = False,
        **properties: object,
    ) -> None:
        """Open the socket and start. trusted_network: only trusted machines reach its port: needed in a process that
        has a channel with ENCRYPT, as these frames are not sealed.

        Raises:
            ConfigError: a property, or the name, is wrong; the host has no address; a channel of this process has
                ENCRYPT.
            OSError: the address is in use, or no address of this machine.
        """
        if not name:
            raise ConfigError("a name service has a name")
        self._config = NamesConfig(name=name, bootstrap=bootstrap, **properties)    # type: ignore[arg-type]
        host, port = split_place(bind)
        bound = resolve(host)
        own, self._interface = split_scope(bound)[0], interface_number(bound)
        self._version = version(own)
        self._format = FORMATS.enter(OpenFormat("NameService", sealed=False, foreign=not trusted_network))
        self._socket = socket.socket(family(own), socket.SOCK_DGRAM)
        try:
            if self._version == 6:
                self._socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            self._socket.bind(socket_address(own, port, self._interface))
        except OSError:
            self._socket.close()
            FORMATS.leave(self._format)
            raise
        self.counters = LoggedCounters(table(self.COUNTERS))
        self._gossip = NameGossip(name, (self._config.interface or own, port), self._config.timeout_ns)
        self._bootstrap = Bootstraps(self._config.bootstrap, port, self._config.bootstrap_ns)
        self._resolving = Resolving(lambda net, event: self._resolved.put(event))
        self._resolved: SimpleQueue[NameResolved] = SimpleQueue()
        self._lock = threading.Lock()                        # the gossip is read from other threads
        self._over = threading.Event()
        self._self_ns = monotonic_ns()                       # when the own name is sent next
        self._neighbours_ns = self._self_ns + self._config.neighbours_ns
        self._thread = threading.Thread(target=self._run, name=f"jgroups-names-{name}", daemon=True)
        self._thread.start()

    # --- from any thread ----------------------------------------------------------------------------------------------

    @property
    def problems(self) -> list[str]:
        """The errors in entries of the bootstrap list, which are left out."""
        return list(self._bootstrap.problems)

    def find(self, name: str, port: int = 0) -> PhysicalAddress | None:
        """The physical address of `name`, by gossip; `port` prefers one of several."""
        with self._lock:
            return self._gossip.find(name, port)

    def known(self) -> dict[tuple[str, int], str]:
        """All entries learned by gossip: (name, port) -> host."""
        with self._lock:
            return {key: known.host for key, known in self._gossip.cache.items()}

    def neighbours(self) -> list[PhysicalAddress]:
        """The places with which names are exchanged."""
        with self._lock:
            return list(self._gossip.neighbours)

    def close(self) -> None:
        """Stop sending; other processes drop the name after its timeout."""
        self._over.set()
        self._send(b"", physical(self._socket.getsockname()))     # wakes the thread
        self._thread.join(STOP_SECONDS)
        self._socket.close()
        FORMATS.leave(self._format)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        self.close()

    # --- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._over.is_set():
            now_ns = monotonic_ns()
            with self._lock:
                frames = self._due(now_ns)
            for frame, place in frames:
                self._send(frame, place)
            self._read(min(self._self_ns, self._neighbours_ns) - now_ns)

    def _due(self, now_ns: int) -> list[tuple[bytes, PhysicalAddress]]:
        frames: list[tuple[bytes, PhysicalAddress]] = []
        self._take_resolved()
        if now_ns >= self._self_ns:
            self._self_ns = now_ns + self._config.self_ns
            self._gossip.forget(now_ns)
            for name, port, again in self._bootstrap.due(self._gossip.neighbours, now_ns):
                self._resolving.ask(Resolve(LOCAL, name, port, self._config.resolver, "bootstrap", again,
                                            self._version))
            frames += self._gossip.announce(self._bootstrap.places())
        if now_ns >= self._neighbours_ns:
            self._neighbours_ns = now_ns + self._config.neighbours_ns
            frames += self._gossip.pass_on(now_ns)
        return frames

    def _take_resolved(self) -> None:
        while True:
            try:
                event = self._resolved.get_nowait()
            except Empty:
                return
            if event.place is not None:
                self._bootstrap.resolved(event.name, event.port, event.place)

    def _send(self, frame: bytes, place: PhysicalAddress) -> None:
        assert len(frame) <= MAX_FRAME_BYTES, "frames are cut at the largest size"
        if version(place[0]) != self._version:
            return self.counters.drop("other_ip_version_dropped", f"to {place_text(*place)}")
        try:
            self._socket.sendto(frame, socket_address(*place, self._interface))
        except OSError:                                      # no process or route there: sent again in a second
            self.counters.add("not_sent")
        return None

    def _read(self, wait_ns: int) -> None:
        self._socket.settimeout(max(wait_ns, 1) / NS_PER_S)
        try:
            data, source = self._socket.recvfrom(MAX_DATAGRAM)
        except TimeoutError:
            return
        except OSError:                                      # ICMP error about a datagram to a closed port
            return self.counters.add("not_received")
        try:
            entries = decode_frame(data) if data else ()
        except WireError:
            return self.counters.drop("frames_malformed", f"from {place_text(*physical(source))}: its bytes make "
                                      "no sense")
        with self._lock:
            for entry in entries:
                outcome = self._gossip.take(entry, str(source[0]).partition("%")[0], monotonic_ns())
                if outcome:
                    self.counters.add(outcome)
        return None
