"""A listener: accepts one connection a round, and pauses while the process has no descriptor left.

A connection that cannot be accepted stays in the system's queue and keeps the listener readable: without a pause, a
process at its limit of descriptors would retry it in every round, and do nothing else.
"""
from __future__ import annotations

import errno
import socket
from collections.abc import Callable

from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.counters import Counters, counter, declare
from jgroups_py.model.units import millis
from jgroups_py.runtime.loop import Loop, Task
from jgroups_py.runtime.poller import READ
from jgroups_py.runtime.sockets.destinations import error_name
from jgroups_py.runtime.sockets.ip import physical

try:
    import resource
except ImportError:                         # not on this system, which has no such limit
    resource = None                         # type: ignore[assignment]

BACKLOG = 128
REST_NS = millis(100)
EXHAUSTED = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
SHARE = 4


def share_of_descriptors(most: int) -> int:
    """How many connections one use of them may have: a quarter of what the process may open, `most` at most."""
    if resource is None:
        return most
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if soft == resource.RLIM_INFINITY else max(1, min(most, soft // SHARE))


class Acceptor:
    """Accepts on `listener`, which is bound; `accepted` gets each connection, non-blocking, and its peer's place."""

    COUNTERS = declare(
        counter("accept_<error>", "Connections that could not be accepted, by the error of the system."),
    )

    def __init__(
        self, loop: Loop, listener: socket.socket, counters: Counters,
        accepted: Callable[[socket.socket, PhysicalAddress], None],
    ) -> None:
        self._loop = loop
        self._listener = listener
        self._counters = counters
        self._accepted = accepted
        self._rest: Task | None = None
        listener.listen(BACKLOG)
        loop.watch(listener, READ, self._accept)

    def _accept(self) -> None:
        try:
            sock, place = self._listener.accept()
        except BlockingIOError:                              # the connection was reset before it was accepted
            return
        except OSError as error:
            self._counters.add(f"accept_{error_name(error)}")
            if error.errno in EXHAUSTED:
                self._loop.unwatch(self._listener)
                self._rest = self._loop.later(REST_NS, self._go_on)
            return
        sock.setblocking(False)
        self._accepted(sock, physical(place))

    def _go_on(self) -> None:
        self._rest = None
        self._loop.watch(self._listener, READ, self._accept)

    def close(self) -> None:
        """Accept no more."""
        if self._rest is None:
            self._loop.unwatch(self._listener)
        else:
            self._rest.cancel()
        self._listener.close()
