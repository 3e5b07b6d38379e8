"""The one I/O thread of a process: a duty cycle over all its channels.

A round reads the clock once, reads what is readable (bounded, so that no socket starves the others), lets every
host take what its application queued, advance its node and carry out what the node asks, and then sleeps until the
next deadline or the next readable socket. It never waits to fill a batch: what is there when it comes round is the
batch, so load makes batches. All channels share this thread, apart from the application's own threads, so a busy
application cannot starve failure detection. Source: Aeron's duty cycle.

A host that was late (the process was stopped, the machine was suspended) reads on before its timers may fire:
otherwise a member that slept would find everybody else silent.
"""
from __future__ import annotations

import contextlib
import heapq
import logging
import os
import selectors
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic_ns
from typing import Protocol

from jgroups_py.units import NS_PER_S, millis

log = logging.getLogger("jgroups_py")

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
LATE_NS = millis(500)                       # a round this much after its deadline finds the sockets full
CATCH_UP_ROUNDS = 200                       # then so many rounds may only read, at most
LONGEST_SLEEP_S = 3600.0
STOP_SECONDS = 2.0
SWITCH_SECONDS = 0.0005
"""How long another thread of Python may make the loop wait, at most.

Every system call of the loop gives up the interpreter's lock; a thread that computes then keeps it for a whole switch
interval, 5 ms by default, and a round of 100 datagrams would take half a second. Measured with a computing thread in
the process: a request and its reply take 5.7 ms with the default and 0.4 ms with this.
"""

clock = monotonic_ns


class Guest(Protocol):
    """What the loop runs: one host."""

    def step(self, now_ns: int) -> int | None:
        """One round; the next deadline in ns, at or before `now_ns` if there is more to do at once."""

    def fail(self, error: Exception) -> None:
        """Something of this host raised: close it, tell the application why. Must not raise."""

    @property
    def wants_round(self) -> bool:
        """Whether something was queued for it since its last step."""


class Task:
    """A call to make on behalf of a guest (None: the loop's own); `cancel` to forget it."""

    __slots__ = ("function", "guest")

    def __init__(self, function: Callable[[], None] | None, guest: Guest | None) -> None:
        self.function = function
        self.guest = guest

    def cancel(self) -> None:
        """It will not be called."""
        self.function = None

    def run(self) -> None:
        """Make the call; whatever it raises ends its guest, and nobody else."""
        if self.function is None:
            return
        try:
            self.function()
        except Exception as error:                           # a bug of ours; the other channels live on
            if self.guest is not None:
                self.guest.fail(error)
            else:
                log.exception("a task of the loop failed")


class Loop:
    """One I/O thread. Only `call`, `wake`, `on_thread`, `acquire` and `release` are for other threads."""

    _shared: Loop | None = None
    _shared_lock = threading.Lock()

    def __init__(self) -> None:
        self.now_ns = clock()
        self._selector = selectors.DefaultSelector()
        self._guests: dict[Guest, None] = {}
        self._calls: deque[Task] = deque()
        self._timers: list[tuple[int, int, Task]] = []
        self._order = 0
        self._asleep = False
        self._stopping = False
        self._users = 0
        self._on_stop: list[Callable[[], None]] = []
        self._waker, self._woken = socket.socketpair()
        self._waker.setblocking(False)
        self._woken.setblocking(False)
        self.watch(self._woken, READ, self._wakened)
        self._thread = threading.Thread(target=self._run, name="jgroups-loop", daemon=True)

    # --- one a process ----------------------------------------------------------------------------------------------

    @classmethod
    def acquire(cls) -> Loop:
        """The loop of this process, started if it is not running; every acquire needs a release."""
        with cls._shared_lock:
            loop = cls._shared
            if loop is None:
                loop = cls._shared = Loop()
                sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_SECONDS))
                loop._thread.start()
            loop._users += 1
            return loop

    def release(self) -> None:
        """Not needed any more; the last release ends the thread."""
        with self._shared_lock:
            self._users -= 1
            if self._users:
                return
            if Loop._shared is self:
                Loop._shared = None
        self._stopping = True
        self._ring()

    def join(self) -> None:
        """If the last user has released it: wait until the thread has closed everything."""
        if self._stopping and not self.on_thread():
            self._thread.join(STOP_SECONDS)

    @classmethod
    def forget_after_fork(cls) -> None:
        """A forked child has no loop thread and must not touch its parent's sockets: it starts afresh."""
        cls._shared_lock = threading.Lock()
        cls._shared = None

    # --- from any thread --------------------------------------------------------------------------------------------

    def call(self, function: Callable[[], None], guest: Guest | None = None) -> None:
        """Run `function` on the loop thread soon, on behalf of `guest`."""
        self._calls.append(Task(function, guest))
        self.wake()

    def wake(self) -> None:
        """Come round again: something was queued. Costs a system call only if the loop is asleep."""
        if self._asleep:
            self._ring()

    def on_thread(self) -> bool:
        """Whether this is the loop's thread."""
        return threading.current_thread() is self._thread

    def _ring(self) -> None:
        self._asleep = False
        try:
            self._waker.send(b"\0")
        except BlockingIOError:
            pass                                             # it is ringing already
        except OSError:
            assert self._stopping, "the waker lives as long as the loop"

    # --- on the loop thread -----------------------------------------------------------------------------------------

    def add(self, guest: Guest) -> None:
        """Step `guest` from now on."""
        self._guests[guest] = None

    def remove(self, guest: Guest) -> None:
        """Step it no more."""
        self._guests.pop(guest, None)

    def watch(
        self, fd: socket.socket | int, events: int, handler: Callable[[], None], guest: Guest | None = None,
    ) -> None:
        """Call `handler` whenever `fd` is readable (or writable, as `events` says), on behalf of `guest`."""
        self._selector.register(fd, events, Task(handler, guest))

    def rewatch(
        self, fd: socket.socket | int, events: int, handler: Callable[[], None], guest: Guest | None = None,
    ) -> None:
        """Change what a watched `fd` is watched for."""
        self._selector.modify(fd, events, Task(handler, guest))

    def unwatch(self, fd: socket.socket | int) -> None:
        """Watch `fd` no more; to be called before it is closed."""
        self._selector.unregister(fd)

    def later(self, delay_ns: int, function: Callable[[], None], guest: Guest | None = None) -> Task:
        """Call `function` once, `delay_ns` from now, on behalf of `guest`."""
        task = Task(function, guest)
        self._order += 1
        heapq.heappush(self._timers, (self.now_ns + delay_ns, self._order, task))
        return task

    def at_stop(self, function: Callable[[], None]) -> None:
        """Call `function` when the loop ends, after all hosts are gone."""
        self._on_stop.append(function)

    # --- the duty cycle ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        timeout = 0.0
        behind = 0
        while not self._stopping:
            ready = self._selector.select(timeout)
            self._asleep = False
            now_ns = clock()
            if now_ns - self.now_ns > timeout * NS_PER_S + LATE_NS:
                behind = CATCH_UP_ROUNDS
            self.now_ns = now_ns
            for key, _ in ready:
                key.data.run()
            if behind and ready:
                behind -= 1
                timeout = 0.0
                continue
            behind = 0
            self._run_calls()
            self._run_timers()
            deadline_ns = self._step_guests()
            timeout = self._seconds_to_sleep(deadline_ns)
        self._end()

    def _run_calls(self) -> None:
        calls = self._calls
        for _ in range(len(calls)):
            calls.popleft().run()

    def _run_timers(self) -> None:
        timers = self._timers
        while timers and timers[0][0] <= self.now_ns:
            heapq.heappop(timers)[2].run()

    def _step_guests(self) -> int | None:
        now_ns, guests = self.now_ns, self._guests
        soonest = self._timers[0][0] if self._timers else None
        for guest in list(guests):
            try:
                deadline_ns = guest.step(now_ns)
            except Exception as error:                       # noqa: BLE001  the other channels must live on
                guest.fail(error)
                continue
            if deadline_ns is not None and (soonest is None or deadline_ns < soonest):
                soonest = deadline_ns
        return soonest

    def _seconds_to_sleep(self, deadline_ns: int | None) -> float:
        """How long select may wait; the flag is up first, then the queues are looked at, so no wake-up is lost."""
        if deadline_ns is not None and deadline_ns <= self.now_ns:
            return 0.0
        self._asleep = True
        if self._calls or self._stopping or any(guest.wants_round for guest in self._guests):
            self._asleep = False
            return 0.0
        if deadline_ns is None:
            return LONGEST_SLEEP_S
        return min(max(0.0, (deadline_ns - clock()) / NS_PER_S), LONGEST_SLEEP_S)

    def _wakened(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(4096)

    def _end(self) -> None:
        for guest in list(self._guests):
            guest.fail(RuntimeError("the loop ended"))
        for function in self._on_stop:
            function()
        self._selector.close()
        self._waker.close()
        self._woken.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=Loop.forget_after_fork)
