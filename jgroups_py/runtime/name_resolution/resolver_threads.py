"""Runs resolvers off the loop: a few threads, started when a request is queued, which end when none is left.

A request that is in progress is not queued a second time, so that a resolver that hangs holds one thread. The
threads are daemons: a program that ends does not wait for a name server.
"""
from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.events import NameResolved
from jgroups_py.model.name_resolution import Chain, NameResolver
from jgroups_py.model.outputs import Resolve
from jgroups_py.runtime.name_resolution.resolvers import find_places, make_resolvers

log = logging.getLogger("jgroups_py")

THREADS = 4
Key = tuple[int, str, int, Chain, int]


def key_of(request: Resolve) -> Key:
    """What makes two requests the same one."""
    return request.net, request.name, request.port, request.chain, request.version


class Resolving:
    """The requests of one host. answer: called on one of the threads, with the net of the request and its result."""

    def __init__(self, answer: Callable[[int, NameResolved], None]) -> None:
        self._answer = answer
        self._lock = threading.Lock()
        self._waiting: deque[Resolve] = deque()
        self._in_progress: dict[Key, None] = {}
        self._threads = 0
        self._chains: dict[Chain, list[NameResolver]] = {}

    def ask(self, request: Resolve) -> None:
        """Resolve a name; returns at once."""
        key = key_of(request)
        with self._lock:
            if key in self._in_progress:
                return
            self._in_progress[key] = None
            self._waiting.append(request)
            if self._threads == THREADS:
                return
            self._threads += 1
        threading.Thread(target=self._work, name="jgroups-resolver", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._threads -= 1
                    return
                request = self._waiting.popleft()
            places = self._find(request)
            with self._lock:
                del self._in_progress[key_of(request)]
            self._answer(request.net, NameResolved(
                request.name, request.port, places[0] if places else None, places[1:]))

    def _find(self, request: Resolve) -> tuple[PhysicalAddress, ...]:
        try:
            with self._lock:
                resolvers = self._chains.get(request.chain)
                if resolvers is None:
                    resolvers = self._chains[request.chain] = make_resolvers(request.chain)
            return find_places(resolvers, request.name, request.port, request.parameter, request.again,
                               request.version)
        except Exception:
            log.exception("a resolver raised while it looked for %s:%d", request.name, request.port)
            return ()
