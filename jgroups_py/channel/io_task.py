"""Which thread runs an AsyncChannel's rounds: the application's event loop, or a watchdog thread while that is blocked.

The event loop watches one descriptor for this channel, epoll's, and has a timer for the channel's next deadline. So
what arrives reaches a coroutine without a change of threads, and what the coroutines send in one turn of the event loop
leaves together in the next turn.

While a coroutine keeps the event loop busy, its member must go on sending heartbeats. The watchdog checks at intervals.
When a round is due and none was run since its last check, it runs rounds until the event loop runs again:

       +-------+  a round is due, none was run between two checks  +----------+
       | OWNED | ------------------------------------------------> | WATCHDOG |
       +-------+                                                   +----------+
         ^   ^                   the loop has ended                   |    |
         |   +--------------------------------------------------------+    | the event loop runs again
         |             the watchdog has ended its round    +----------+    |
         +------------------------------------------------ | RECALLED | <--+
                                                           +----------+

Where the event loop cannot watch descriptors, a thread runs the rounds (channel/io_thread.py).
"""
from __future__ import annotations

import asyncio
import contextlib
import math
import os
import select
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from jgroups_py.channel.io_state import (
    OWNED,
    RECALLED,
    TASK_TRANSITIONS,
    WATCHDOG,
    HandoverPolicy,
    IoOwnership,
    WatchdogStep,
)
from jgroups_py.channel.io_thread import LoopThread, always, never
from jgroups_py.runtime.loop import Loop

BUSY_CHECK_SECONDS = 0.02                   # between two checks of the watchdog while there is traffic,
IDLE_CHECK_SECONDS = 0.25                   # and while there is none: until then a blocked event loop is not detected
T = TypeVar("T")


class IoTask:
    """Runs a loop on an event loop. `_wake_reader` and `call` are for any thread, the rest runs on the event loop.

    orphaned: called by the watchdog when the event loop was closed and the loop goes on.
    """

    def __init__(self, name: str, loop: Loop, orphaned: Callable[[], None]) -> None:
        self._name = name
        self._loop = loop
        self._orphaned = orphaned
        self._events = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._descriptor = -1
        self._readable = select.poll()
        self._timer: asyncio.Handle | None = None            # not TimerHandle: uvloop's need not know its time
        self._when = 0.0                                     # its time
        self._reads = True                                   # the event loop watches the descriptor
        self._scheduled = False                              # `_turn` is
        self._rounds = 0                                     # rounds and turns that the event loop has run
        self._io = IoOwnership(TASK_TRANSITIONS)
        self._policy = HandoverPolicy()
        self._over = threading.Event()

    def start(self) -> None:
        """Run the loop from now on."""
        try:
            self._descriptor = os.dup(self._loop.fileno())   # the loop may be closed by the watchdog
            self._events.add_reader(self._descriptor, self._round)
            self._readable.register(self._descriptor, select.POLLIN)
        except (AttributeError, NotImplementedError):
            self._close_descriptor()
            return LoopThread(self._name, self._loop).start()
        self._loop.wake_reader = self._wake_reader
        self._events.call_soon(self._round)
        threading.Thread(target=self._watch, name=f"jgroups-{self._name}-watchdog", daemon=True).start()
        return None

    def call(self, function: Callable[[], object]) -> None:
        """Call `function` on the event loop: at once if this is its thread."""
        if threading.get_ident() == self._thread:
            function()
        else:
            self._call_soon(function)

    async def run_blocking(self, function: Callable[..., T], *arguments: Any) -> T:
        """What `function` returns, which may block: it runs on a thread."""
        return await asyncio.to_thread(function, *arguments)

    def _call_soon(self, function: Callable[[], object]) -> bool:
        """From any thread; False: the event loop is closed, and no coroutine waits for anything any more."""
        with contextlib.suppress(RuntimeError):
            self._events.call_soon_threadsafe(function)
            return True
        return False

    # --- on the event loop ------------------------------------------------------------------------------------------

    def _wake_reader(self) -> None:
        """Called by the loop: some thread queued something, and no thread checks the queue."""
        if threading.get_ident() != self._thread or self._io.state is not OWNED:
            self._loop.wake_poller()
        elif not self._scheduled:
            self._scheduled = True
            self._events.call_soon(self._turn)

    def _turn(self) -> None:
        """Send what the coroutines of the last turn have queued."""
        self._scheduled = False
        if self._loop.ended:
            return
        self._rounds += 1
        self._loop.run_queued()
        if self._io.state is OWNED:
            self._rest()
        else:
            self._recall()

    def _round(self) -> None:
        """Something is readable, or a deadline has come."""
        if self._loop.ended:
            return self._close_descriptor()
        if not self._io.rounds.acquire(False):
            if self._reads:
                # What is readable stays so until the watchdog has read it: the event loop would call this without end,
                # and keep Python's lock from the watchdog that it waits for.
                self._events.remove_reader(self._descriptor)
                self._reads = False
            return self._recall()                            # the watchdog calls this again when its round has ended
        if not self._reads:
            self._events.add_reader(self._descriptor, self._round)
            self._reads = True
        self._rounds += 1
        try:
            self._loop.round(always)
        finally:
            self._io.rounds.release()
        return self._rest()

    def _recall(self) -> None:
        """Ask the watchdog to end its round, if it runs one yet."""
        with self._io.mutex:
            if self._io.state is WATCHDOG:
                self._io.transition(WATCHDOG, RECALLED)
        self._loop.wake_poller()

    def _rest(self) -> None:
        if self._loop.ended:
            return self._close_descriptor()
        left = self._loop.idle_seconds(never)
        if not left:
            self._events.call_soon(self._round)
            return None
        timer, when = self._timer, self._events.time() + math.ceil(left * 1e3) * 1e-3
        if timer is None or self._when > when:
            if timer is not None:
                timer.cancel()
            self._when = when
            self._timer = self._events.call_at(when, self._deadline_came)
        return None

    def _deadline_came(self) -> None:
        """The timer has fired, so there is none any more. uvloop counts whole milliseconds, so it fires up to 1.5 ms
        early. The round then finds nothing to do and sets it again, for a whole millisecond: for less, one round would
        follow the other until the deadline."""
        self._timer = None
        self._round()

    def _close_descriptor(self) -> None:
        if self._descriptor >= 0:
            with contextlib.suppress(NotImplementedError):
                self._events.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
        if self._timer is not None:
            self._timer.cancel()
        self._over.set()

    # --- the watchdog -----------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        step, rounds = WatchdogStep.CHECK_AGAIN, -1
        while not self._loop.ended:
            if self._over.wait(IDLE_CHECK_SECONDS if step is WatchdogStep.SLEEP else BUSY_CHECK_SECONDS):
                return
            before, rounds = rounds, self._rounds
            due = rounds == before and (bool(self._readable.poll(0)) or self._loop.overdue())
            step = self._policy.check(rounds, due)
            if step is WatchdogStep.TAKE_OVER:
                self._take_over(rounds)
        if not self._call_soon(self._close_descriptor) and self._descriptor >= 0:
            os.close(self._descriptor)                       # the event loop is closed, it does not watch it any more
            self._descriptor = -1

    def _take_over(self, rounds: int) -> None:
        """A round is due and none was run since the last check, so the event loop is blocked: run rounds for it."""
        io, loop = self._io, self._loop
        with io.mutex:
            if self._rounds != rounds or not io.rounds.acquire(False):
                return                                       # it runs again since just now
            io.transition(OWNED, WATCHDOG)
        try:
            while io.state is WATCHDOG and not (loop.ended or self._events.is_closed()):
                loop.round(lambda: io.state is not WATCHDOG)
        finally:
            with io.mutex:
                io.transition(io.state, OWNED)
                io.rounds.release()
        if not self._call_soon(self._round):
            self._orphaned()
            with io.mutex:
                io.transition(OWNED, WATCHDOG)
            LoopThread(self._name, loop).run()               # nothing else will run it: the event loop is gone
