"""Runs resolvers off the loop: a few threads that come when there is something to ask and go when there is not.

A name that is being looked for is not looked for a second time, so that a resolver that hangs is asked once. The
threads are daemons: a program that ends does not wait for a name server.
"""
from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from jgroups_py.naming import NameResolved, Resolve
from jgroups_py.resolver import Chain, NameResolver
from jgroups_py.runtime.resolvers import find_place, make_resolvers

log = logging.getLogger("jgroups_py")

THREADS = 4
Key = tuple[int, str, int, Chain]


class Resolving:
    """What one host is looking for. answer: called on one of the threads, with the net that asked."""

    def __init__(self, answer: Callable[[int, NameResolved], None]) -> None:
        self._answer = answer
        self._lock = threading.Lock()
        self._waiting: deque[Resolve] = deque()
        self._asked: dict[Key, None] = {}
        self._threads = 0
        self._chains: dict[Chain, list[NameResolver]] = {}

    def ask(self, asked: Resolve) -> None:
        """Look for a name; returns at once."""
        key = asked.net, asked.name, asked.port, asked.chain
        with self._lock:
            if key in self._asked:
                return
            self._asked[key] = None
            self._waiting.append(asked)
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
                asked = self._waiting.popleft()
            place = self._find(asked)
            with self._lock:
                del self._asked[asked.net, asked.name, asked.port, asked.chain]
            self._answer(asked.net, NameResolved(asked.name, asked.port, place))

    def _find(self, asked: Resolve) -> tuple[str, int] | None:
        try:
            with self._lock:
                resolvers = self._chains.get(asked.chain)
                if resolvers is None:
                    resolvers = self._chains[asked.chain] = make_resolvers(asked.chain)
            return find_place(resolvers, asked.name, asked.port, asked.parameter, asked.again)
        except Exception:
            log.exception("a resolver raised while it looked for %s:%d", asked.name, asked.port)
            return None
