"""Resolved destinations of frames, connections and streams: IP addresses as they are, host names through resolvers.

A physical address is received from other members, and its host may be a name (external_addr of a member behind a
proxy). A socket that is given a name calls the system's resolver, which blocks the loop until a name server answers.
So sockets get addresses only: an unknown name is resolved on another thread, and frames to it are dropped and counted
until then, as a datagram may be lost. The table of names is bounded, since frames of non-members can fill it; the least
recently used name is evicted.
"""
from __future__ import annotations

import errno
import struct
from collections.abc import Callable
from time import monotonic_ns

import zmq

from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.counters import declare, drop
from jgroups_py.model.events import NameResolved
from jgroups_py.model.name_resolution import MAX_PORT, Chain, is_address, parse_resolvers
from jgroups_py.model.outputs import LOCAL, Resolve
from jgroups_py.model.text import place as place_text
from jgroups_py.model.units import seconds
from jgroups_py.runtime.name_resolution.resolver_threads import Resolving
from jgroups_py.runtime.sockets.interfaces import interface_number
from jgroups_py.runtime.sockets.ip import SocketAddress, socket_address, usual_form, version
from jgroups_py.system.drops import LoggedCounters

ADDRESSES_KEPT = 4096                       # checked addresses that are cached; then the cache is cleared
NAMES_KEPT = 64
FOUND_NS = seconds(60)                      # a resolved name is resolved again after so long
NOT_FOUND_NS = seconds(5)                   # and an unresolved one
SYSTEM = parse_resolvers("dns")
UNSENDABLE = (OSError, ValueError, TypeError, OverflowError, struct.error, zmq.ZMQError)
"""What sockets raise for a destination or data that they refuse. None of it may end a channel, since destinations are
received from other members. Caught around system calls only, never around a node."""


def error_name(error: BaseException) -> str:
    """How an error is counted: by the system's name for it, or by its class.

    >>> error_name(OSError(errno.ENETUNREACH, "")), error_name(TypeError()), error_name(zmq.ZMQError(errno.EINVAL))
    ('ENETUNREACH', 'TypeError', 'EINVAL')
    """
    number = getattr(error, "errno", None)
    return errno.errorcode.get(number, type(error).__name__) if number else type(error).__name__


class Name:
    """A host name. place: its resolved address (None: not resolved); times of the last resolution and the last use."""

    __slots__ = ("place", "resolved_ns", "used_ns")

    def __init__(self) -> None:
        self.place: SocketAddress | None = None
        self.resolved_ns = -FOUND_NS
        self.used_ns = 0


class Places:
    """The resolved destinations of one stack; `counters` gets the drops.

    host: the address that its sockets have bound, whose interface gives link-local addresses their scope, and whose IP
    version is preferred where a name has addresses of both. one_version: its socket takes that version only.
    """

    COUNTERS = declare(
        drop("no_port_dropped", "Frames to an invalid port."),
        drop("name_unresolved_dropped", "Frames to a host name of which no address is known, or not yet."),
        drop("other_ip_version_dropped", "Frames to an address of the other IP version than that of the socket."),
    )

    def __init__(
        self, counters: LoggedCounters, chain: Chain = SYSTEM, clock: Callable[[], int] = monotonic_ns,
        host: str = "", one_version: bool = False,
    ) -> None:
        self._version = version(host)
        self._one_version = one_version
        self._scope = interface_number(host) if self._version == 6 else 0
        self._counters = counters
        self._chain = chain
        self._clock = clock
        self._addresses: dict[PhysicalAddress, SocketAddress] = {}
        self._names: dict[PhysicalAddress, Name] = {}
        self._resolving_names: dict[PhysicalAddress, None] = {}        # names that are being resolved
        self._resolving = Resolving(self._resolved)

    def of(self, to: PhysicalAddress) -> SocketAddress | None:
        """The address of `to` as a socket takes it; None: not resolved. Starts a resolution if one is due."""
        return self._addresses.get(to) or self._resolve(to)

    def found(self, to: PhysicalAddress) -> SocketAddress | None:
        """As `of`, but starts no resolution and counts nothing."""
        name = self._names.get(to)
        return self._addresses.get(to, to) if name is None else name.place

    def looks_for(self, to: PhysicalAddress) -> bool:
        """Whether the address is being resolved."""
        return to in self._resolving_names

    def _resolve(self, to: PhysicalAddress) -> SocketAddress | None:
        if not 0 < to[1] <= MAX_PORT:
            self._counters.drop("no_port_dropped", f"{place_text(*to)} has an invalid port")
            return None
        if is_address(to[0]):
            return self._literal(to)
        place = self._name(to).place
        if place is None:
            self._counters.drop("name_unresolved_dropped", f"no address of {to[0]} is known")
        return place

    def _literal(self, to: PhysicalAddress) -> SocketAddress | None:
        host = usual_form(to[0])
        if self._one_version and version(host) != self._version:
            self._counters.drop("other_ip_version_dropped",
                                f"{place_text(*to)}: the socket has an address of IPv{self._version}")
            return None
        if len(self._addresses) >= ADDRESSES_KEPT:
            self._addresses.clear()
        place = self._addresses[to] = socket_address(host, to[1], self._scope)
        return place

    def _name(self, to: PhysicalAddress) -> Name:
        now_ns = self._clock()
        name = self._names.get(to)
        if name is None:
            if len(self._names) >= NAMES_KEPT:
                del self._names[min(self._names, key=lambda key: self._names[key].used_ns)]
            name = self._names[to] = Name()
        name.used_ns = now_ns
        due_ns = name.resolved_ns + (FOUND_NS if name.place is not None else NOT_FOUND_NS)
        if now_ns >= due_ns and to not in self._resolving_names and len(self._resolving_names) < NAMES_KEPT:
            name.resolved_ns = now_ns
            self._resolving_names[to] = None
            self._resolving.ask(Resolve(LOCAL, to[0], to[1], self._chain, "endpoint", False, self._version))
        return name

    def _resolved(self, _net: int, answer: NameResolved) -> None:
        """On a resolver's thread. One assignment, so the loop sees the old place or the new one."""
        self._resolving_names.pop((answer.name, answer.port), None)
        name = self._names.get((answer.name, answer.port))
        if name is None:
            return
        for host, port in answer.places:
            if not self._one_version or version(host) == self._version:
                name.place = socket_address(usual_form(host), port, self._scope)
                return
