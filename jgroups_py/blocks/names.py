"""NameService: names by gossip on a UDP port of its own, among processes that share no group, and with Aeron.

The same gossip as the protocol NAMES, in frames of Aeron's driver name resolver: an Aeron media driver that is
configured with resolver `driver` takes part, so that channels of Aeron may name our endpoints and we find its drivers.
Works on a thread of its own; `find` and `known` may be called from any thread. Source: see protocols/names.
"""
from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from time import monotonic_ns
from types import TracebackType
from typing import Self

from jgroups_py.address import PhysicalAddress
from jgroups_py.counters import Counters
from jgroups_py.errors import ConfigError, WireError
from jgroups_py.naming import NameResolved, Resolve
from jgroups_py.outputs import LOCAL
from jgroups_py.protocols.names.bootstrap import Bootstraps
from jgroups_py.protocols.names.config import NamesConfig
from jgroups_py.protocols.names.gossip import Gossip
from jgroups_py.protocols.names.res import MAX_FRAME_BYTES, decode_frame
from jgroups_py.resolver import split_place
from jgroups_py.runtime.resolving import Resolving
from jgroups_py.units import NS_PER_S

MAX_DATAGRAM = 65_536
STOP_SECONDS = 2.0


class NameService:
    """A participant called `name` at `bind` ("host:port").

    bootstrap: whom to tell first; the other properties are those of NAMES: `interface`, `resolver`, the intervals.
    """

    def __init__(self, name: str, bind: str, bootstrap: str | Sequence[str] = "", **properties: object) -> None:
        """Open the socket and begin.

        Raises:
            ConfigError: a property, or the name, is wrong.
            OSError: the place is taken, or no place of this machine.
        """
        if not name:
            raise ConfigError("a name service has a name")
        self._config = NamesConfig(name=name, bootstrap=bootstrap, **properties)    # type: ignore[arg-type]
        host, port = split_place(bind)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.bind((host, port))
        except OSError:
            self._socket.close()
            raise
        self.counters = Counters()
        self._gossip = Gossip(name, (self._config.interface or host, port), self._config.timeout_ns)
        self._bootstrap = Bootstraps(self._config.bootstrap, port, self._config.bootstrap_ns)
        self._resolving = Resolving(lambda net, event: self._resolved.put(event))
        self._resolved: SimpleQueue[NameResolved] = SimpleQueue()
        self._lock = threading.Lock()                        # the gossip is read from other threads
        self._over = threading.Event()
        self._self_ns = monotonic_ns()                       # when our own name is due
        self._neighbours_ns = self._self_ns + self._config.neighbours_ns
        self._thread = threading.Thread(target=self._run, name=f"jgroups-names-{name}", daemon=True)
        self._thread.start()

    # --- from any thread ----------------------------------------------------------------------------------------------

    @property
    def problems(self) -> list[str]:
        """What is wrong with entries of the bootstrap list, which were left out."""
        return list(self._bootstrap.problems)

    def find(self, name: str, port: int = 0) -> PhysicalAddress | None:
        """Where `name` is by gossip; `port` prefers one of several."""
        with self._lock:
            return self._gossip.find(name, port)

    def known(self) -> dict[tuple[str, int], str]:
        """All that gossip told: (name, port) -> host."""
        with self._lock:
            return {key: known.host for key, known in self._gossip.cache.items()}

    def neighbours(self) -> list[PhysicalAddress]:
        """With whom names are exchanged."""
        with self._lock:
            return list(self._gossip.neighbours)

    def close(self) -> None:
        """Say no more; others forget the name when its time is over."""
        self._over.set()
        self._send(b"", self._socket.getsockname())          # wakes the thread
        self._thread.join(STOP_SECONDS)
        self._socket.close()

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
                self._resolving.ask(Resolve(LOCAL, name, port, self._config.resolver, "bootstrap", again))
            frames += self._gossip.introduce(self._bootstrap.places())
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
        try:
            self._socket.sendto(frame, place)
        except OSError:                                      # nobody there, or no way there: told again in a second
            self.counters.add("not_sent")

    def _read(self, wait_ns: int) -> None:
        self._socket.settimeout(max(wait_ns, 1) / NS_PER_S)
        try:
            data, source = self._socket.recvfrom(MAX_DATAGRAM)
        except TimeoutError:
            return
        except OSError:                                      # the echo of a datagram to a closed port
            return self.counters.add("not_received")
        try:
            entries = decode_frame(data) if data else ()
        except WireError:
            return self.counters.add("frames_malformed")
        with self._lock:
            for entry in entries:
                outcome = self._gossip.heard(entry, str(source[0]), monotonic_ns())
                if outcome:
                    self.counters.add(outcome)
        return None
