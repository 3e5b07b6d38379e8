"""Where a frame, a connection or a stream goes: addresses as they are, names of hosts as resolvers found them.

A physical address comes from others, and its host may be a name (external_addr of a member behind a proxy). A socket
that is given a name asks the system's resolver, on the thread of the loop, for as long as a name server keeps silent.
So no socket gets a name: one that is not known yet is looked for on another thread, and what goes there meanwhile is
lost and counted, as a datagram may be. How many names are remembered is bounded, as anybody may send them to us; the
one that was asked for longest ago makes room.
"""
from __future__ import annotations

import errno
import struct
from collections.abc import Callable
from time import monotonic_ns

import zmq

from jgroups_py.address import PhysicalAddress
from jgroups_py.counters import Counters
from jgroups_py.naming import NameResolved, Resolve
from jgroups_py.outputs import LOCAL
from jgroups_py.resolver import MAX_PORT, Chain, parse_resolvers
from jgroups_py.runtime.resolving import Resolving
from jgroups_py.texts import is_ipv4
from jgroups_py.units import seconds

ADDRESSES_KEPT = 4096                       # that were looked at before; then it starts again
NAMES_KEPT = 64
FOUND_NS = seconds(60)                      # an address that was found is looked for again after so long
NOT_FOUND_NS = seconds(5)                   # and one that was not
SYSTEM = parse_resolvers("dns")
UNSENDABLE = (OSError, ValueError, TypeError, OverflowError, struct.error, zmq.ZMQError)
"""What sockets raise for a target or data that they do not take, whatever the reason. Nothing of it is a bug that must
end a channel: targets come from others. Caught around calls of the system only, never around a node."""


def error_name(error: BaseException) -> str:
    """How an error is counted: by the system's name for it, or by its class.

    >>> error_name(OSError(errno.ENETUNREACH, "")), error_name(TypeError()), error_name(zmq.ZMQError(errno.EINVAL))
    ('ENETUNREACH', 'TypeError', 'EINVAL')
    """
    number = getattr(error, "errno", None)
    return errno.errorcode.get(number, type(error).__name__) if number else type(error).__name__


class Name:
    """A name of a host, and the place that was found for it (None: none)."""

    __slots__ = ("asked_ns", "place", "wanted_ns")

    def __init__(self) -> None:
        self.place: PhysicalAddress | None = None
        self.asked_ns = -FOUND_NS
        self.wanted_ns = 0


class Places:
    """What one stack knows of the addresses it sends to; `counters` counts what has none."""

    def __init__(self, counters: Counters, chain: Chain = SYSTEM, clock: Callable[[], int] = monotonic_ns) -> None:
        self._counters = counters
        self._chain = chain
        self._clock = clock
        self._addresses: dict[PhysicalAddress, PhysicalAddress] = {}
        self._names: dict[PhysicalAddress, Name] = {}
        self._asked: dict[PhysicalAddress, None] = {}        # what resolvers are busy with
        self._resolving = Resolving(self._resolved)

    def of(self, to: PhysicalAddress) -> PhysicalAddress | None:
        """Where `to` is, with the address in numbers; None: not known, or not yet."""
        return self._addresses.get(to) or self._looked_at(to)

    def found(self, to: PhysicalAddress) -> PhysicalAddress | None:
        """The same, but nobody is asked for it and nothing is counted."""
        name = self._names.get(to)
        return to if name is None else name.place

    def looks_for(self, to: PhysicalAddress) -> bool:
        """Whether a resolver is busy with it."""
        return to in self._asked

    def _looked_at(self, to: PhysicalAddress) -> PhysicalAddress | None:
        if not 0 < to[1] <= MAX_PORT:
            self._counters.add("no_port_dropped")
            return None
        if is_ipv4(to[0]):
            if len(self._addresses) >= ADDRESSES_KEPT:
                self._addresses.clear()
            self._addresses[to] = to
            return to
        place = self._named(to).place
        if place is None:
            self._counters.add("name_unresolved_dropped")
        return place

    def _named(self, to: PhysicalAddress) -> Name:
        now_ns = self._clock()
        name = self._names.get(to)
        if name is None:
            if len(self._names) >= NAMES_KEPT:
                del self._names[min(self._names, key=lambda key: self._names[key].wanted_ns)]
            name = self._names[to] = Name()
        name.wanted_ns = now_ns
        due_ns = name.asked_ns + (FOUND_NS if name.place is not None else NOT_FOUND_NS)
        if now_ns >= due_ns and to not in self._asked and len(self._asked) < NAMES_KEPT:
            name.asked_ns = now_ns
            self._asked[to] = None
            self._resolving.ask(Resolve(LOCAL, to[0], to[1], self._chain, "endpoint", again=False))
        return name

    def _resolved(self, _net: int, answer: NameResolved) -> None:
        """On a resolver's thread: one assignment, which the loop sees or does not see yet."""
        self._asked.pop((answer.name, answer.port), None)
        name = self._names.get((answer.name, answer.port))
        if name is not None and answer.place is not None:
            name.place = answer.place
