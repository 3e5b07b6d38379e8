"""A server of HTTP on an event loop and a thread of its own, for programs without a loop or with a busy one.

Other threads of the process, that of a channel above all, must not wait for the interpreter's lock until a burst of
clients has been answered. Python takes the lock away from a thread after 0.5 ms (5 ms without a member); each read and
write of a socket gives it up, but for so short that a thread which waits for it is not there in time. So the server's
thread sleeps for a moment after each WORK_SECONDS of its processor time: between rounds of its loop, which are short
therefore, and where the server calls `give_way`. A longer rest would not help messages, and keep probes waiting
(benchmarks/http_load.py).
"""
from __future__ import annotations

import asyncio
import contextlib
import selectors
import threading
import time
from collections.abc import Callable

from jgroups_py.model.errors import ConfigError
from jgroups_py.runtime.http.server import HttpServer

STOP_SECONDS = 5.0
WORK_SECONDS = 0.0001
REST_SECONDS = 0.00005                      # Linux adds as much
USUAL_REST_SECONDS = 0.0002                 # beside a thread that is busy now and then
WORK_FOR_LATE = 8
READY_AT_ONCE = 2                           # sockets, in a round of the loop


class GiveWay:
    """Called by one thread between pieces of its work: sleeps if it has worked for WORK_SECONDS since it last did.

    Beside a thread that is busy all the time each rest ends only when that one gives up the lock. Then it works for
    longer before the next rest, or probes would wait.
    """

    def __init__(self) -> None:
        self._next_rest = WORK_SECONDS                       # in processor time of the thread

    def __call__(self) -> None:
        if time.thread_time() >= self._next_rest:
            began = time.perf_counter()
            time.sleep(REST_SECONDS)
            late = time.perf_counter() - began - USUAL_REST_SECONDS
            self._next_rest = time.thread_time() + max(WORK_SECONDS, WORK_FOR_LATE * late)


class GivingSelector(selectors.DefaultSelector):
    """Gives way before each round of a loop, and gives the round a few of the sockets that are ready, all in turn."""

    def __init__(self, give_way: Callable[[], None]) -> None:
        super().__init__()
        self._give_way = give_way
        self._ready: list[tuple[selectors.SelectorKey, int]] = []    # found, and not given yet

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """As its base class."""
        self._give_way()
        if not self._ready:
            self._ready = super().select(timeout)
        given, self._ready = self._ready[:READY_AT_ONCE], self._ready[READY_AT_ONCE:]
        known = self.get_map()
        return [(key, events) for key, events in given if known.get(key.fd) is key]     # nobody closed it since


class HttpThread:
    """Runs a server. `loop` is its event loop, which exists before `start`."""

    def __init__(self, server: HttpServer, name: str) -> None:
        server.give_way = GiveWay()
        self.loop = asyncio.SelectorEventLoop(GivingSelector(server.give_way))
        self._server = server
        self._stopping = asyncio.Event()
        self._listening = threading.Event()
        self._error: ConfigError | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Listen.

        Raises:
            ConfigError: the address cannot be had.
        """
        self._thread.start()
        self._listening.wait()
        if self._error is not None:
            self.close()
            raise self._error

    def close(self) -> None:
        """Stop listening and end all connections; idempotent, from any thread."""
        with contextlib.suppress(RuntimeError):              # it has ended already
            self.loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        with contextlib.closing(self.loop):
            asyncio.set_event_loop(self.loop)
            self.loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        try:
            await self._server.start()
        except ConfigError as error:
            self._error = error
            return
        finally:
            self._listening.set()
        try:
            await self._stopping.wait()
        finally:
            await self._server.stop()
