"""Asks the application who tokens are of, off the loop, and gives each question a time.

A few threads, which end when none is left to ask. A check that takes longer than its time is answered for it, and
holds its thread until it returns; if all threads are held so, further questions are answered "busy" when their time is
over. Threads are daemons: a program that ends does not wait for them.
"""
from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from jgroups_py.model.events import TokenChecked
from jgroups_py.model.outputs import CheckToken
from jgroups_py.model.plugins import plugin
from jgroups_py.model.token_check import ENTRY_POINTS, TokenCheck
from jgroups_py.model.units import NS_PER_S

log = logging.getLogger("jgroups_py")

THREADS: Final = 4


class TokenChecks:
    """The questions of one host. answer: called on some thread, once for each, with the net of the request."""

    def __init__(self, answer: Callable[[int, TokenChecked], None]) -> None:
        self._answer = answer
        self._lock = threading.Lock()
        self._waiting: deque[CheckToken] = deque()
        self._open: dict[tuple[int, int], None] = {}
        self._threads = 0
        self._checks: dict[str, TokenCheck] = {}

    def ask(self, request: CheckToken) -> None:
        """Ask about one token; returns at once."""
        timer = threading.Timer(request.timeout_ns / NS_PER_S, self._done, (request, None, "its check took too long"))
        timer.daemon = True
        with self._lock:
            self._open[request.net, request.number] = None
            self._waiting.append(request)
            starts = self._threads < THREADS
            self._threads += starts
        timer.start()
        if starts:
            threading.Thread(target=self._work, name="jgroups-token-check", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._lock:
                request = self._waiting.popleft() if self._waiting else None
                if request is None:
                    self._threads -= 1
                    return
                is_open = (request.net, request.number) in self._open
            if is_open:
                self._done(request, *self._checked(request))

    def _checked(self, request: CheckToken) -> tuple[Mapping[str, Any] | None, str]:
        try:
            with self._lock:
                check = self._checks.get(request.check)
                if check is None:
                    check = self._checks[request.check] = plugin(request.check, ENTRY_POINTS, TokenCheck)()
            found = check.check(request.token, request.key)
        except Exception:
            log.exception("%s raised while it checked a token", request.check)
            return None, "its check raised an error"
        if found is not None and not isinstance(found, Mapping):
            log.error("%s returned no mapping and not None", request.check)
            return None, "its check returned no mapping"
        return found, ""

    def _done(self, request: CheckToken, answer: Mapping[str, Any] | None, problem: str) -> None:
        with self._lock:
            if (request.net, request.number) not in self._open:
                return
            del self._open[request.net, request.number]
        self._answer(request.net, TokenChecked(request.number, answer, problem))
