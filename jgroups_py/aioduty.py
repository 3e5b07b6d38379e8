"""An AsyncChannel's rounds run on the application's event loop, and a stand-in runs them while that is blocked.

What the loop waits for is one descriptor (epoll's), which the event loop watches as any other; the loop's next deadline
is a timer of the event loop. So what arrives reaches a coroutine without a change of threads, and all that the
coroutines of one turn of the event loop send leaves together in the next. An event loop that computes for long must not
silence its member: the stand-in looks every now and then, and when a round is due and none was run since it looked
last, it runs the loop until the event loop comes round again.

Where the event loop cannot watch descriptors, a thread runs the rounds (duty.py).
"""
from __future__ import annotations

import asyncio
import contextlib
import os
import select
import threading
from collections.abc import Callable

from jgroups_py.duty import LoopThread, always, never
from jgroups_py.runtime.loop import Loop

BUSY_LOOK_SECONDS = 0.02                    # between two looks of the stand-in while there is traffic,
IDLE_LOOK_SECONDS = 0.25                    # and while there is none: so long may a blocked event loop stay unnoticed
TIRED_LOOKS = 50                            # after so many looks without a round there is no traffic


class AsyncDuty:
    """Runs a loop on an event loop. `alarm`, `tell` and `join` are for any thread, the rest is the event loop's.

    orphaned: called by the stand-in when the event loop was closed and the loop goes on.
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
        self._coming = False                                 # a turn is scheduled
        self._rounds = 0
        self._duty = threading.Lock()                        # held by whoever runs rounds
        self._standing_in = False
        self._wanted_back = False                            # the stand-in shall give it back
        self._over = threading.Event()

    def start(self) -> None:
        """Run the loop from now on."""
        try:
            self._descriptor = os.dup(self._loop.fileno())   # the loop may be closed by the stand-in
            self._events.add_reader(self._descriptor, self._round)
            self._readable.register(self._descriptor, select.POLLIN)
        except (AttributeError, NotImplementedError):
            self._close_descriptor()
            return LoopThread(self._name, self._loop).start()
        self._loop.alarm = self._alarm
        self._events.call_soon(self._round)
        threading.Thread(target=self._watch, name=f"jgroups-{self._name}-stand-in", daemon=True).start()
        return None

    def tell(self, function: Callable[[], object]) -> None:
        """Call `function` on the event loop: at once if we are on it."""
        if threading.get_ident() == self._thread:
            function()
        else:
            self._call_soon(function)

    def _call_soon(self, function: Callable[[], object]) -> bool:
        """From any thread; False: the event loop is closed, and nobody waits for anything any more."""
        with contextlib.suppress(RuntimeError):
            self._events.call_soon_threadsafe(function)
            return True
        return False

    # --- on the event loop ------------------------------------------------------------------------------------------

    def _alarm(self) -> None:
        """Something was queued, by whatever thread."""
        if threading.get_ident() != self._thread or self._standing_in:
            self._loop.ring()
        elif not self._coming:
            self._coming = True
            self._events.call_soon(self._turn)

    def _turn(self) -> None:
        """What the coroutines of one turn have queued leaves together."""
        self._coming = False
        if self._loop.ended:
            return
        self._rounds += 1
        self._loop.turn()
        if not self._standing_in:
            self._rest()

    def _round(self) -> None:
        """Something is readable, or a deadline has come."""
        if self._loop.ended:
            return self._close_descriptor()
        if not self._duty.acquire(False):
            self._wanted_back = True
            return self._loop.ring()                         # the stand-in calls us when it has given it back
        self._rounds += 1
        try:
            self._loop.round(always)
        finally:
            self._duty.release()
        return self._rest()

    def _rest(self) -> None:
        if self._loop.ended:
            return self._close_descriptor()
        left = self._loop.rest(never)
        if not left:
            self._events.call_soon(self._round)
            return None
        timer, now = self._timer, self._events.time()
        if timer is None or self._when > now + left or self._when < now:
            if timer is not None:
                timer.cancel()
            self._when = now + left
            self._timer = self._events.call_at(self._when, self._round)
        return None

    def _close_descriptor(self) -> None:
        if self._descriptor >= 0:
            with contextlib.suppress(NotImplementedError):
                self._events.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
        if self._timer is not None:
            self._timer.cancel()
        self._over.set()

    # --- the stand-in -----------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        idle = 0
        while not self._loop.ended:
            seen = self._rounds
            if self._over.wait(BUSY_LOOK_SECONDS if idle < TIRED_LOOKS else IDLE_LOOK_SECONDS):
                return
            if self._rounds != seen:
                idle = 0
            else:
                idle += 1
                self._look(seen)
        if not self._call_soon(self._close_descriptor) and self._descriptor >= 0:
            os.close(self._descriptor)                       # the event loop is closed, it does not watch it any more
            self._descriptor = -1

    def _look(self, seen: int) -> None:
        """No round was run for a while; if one is due, the event loop is blocked."""
        if not (self._readable.poll(0) or self._loop.overdue()) or not self._duty.acquire(False):
            return
        self._standing_in = True
        try:
            while self._rounds == seen and not (self._wanted_back or self._loop.ended or self._events.is_closed()):
                self._loop.round(lambda: self._wanted_back)
        finally:
            self._standing_in = self._wanted_back = False
            self._duty.release()
        if not self._call_soon(self._round):
            self._orphaned()
            LoopThread(self._name, self._loop).run()
