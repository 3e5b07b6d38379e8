"""The I/O of one channel: a duty cycle over its sockets, timers and queue, run by one thread at a time.

A round waits for the next deadline or the next readable socket, reads the clock once, reads what is readable (bounded,
so that no socket starves the others), runs calls and timers, and lets the host send what its application queued,
advance its node and carry out what the node asks. It never waits to fill a batch: what is queued when a round begins is
the batch, so batches grow with the load. Source: Aeron's duty cycle.

A round may run on any thread. Most run on the reader's: the thread that runs rounds now (channel/io_state.py). A thread
that queues a message while no round is running may send it itself (`combine`; flat combining, Hendler et al. 2010). The
step lock excludes one from the other. A channel has a loop of its own, so no channel waits for another's application.

After a stall (the process was stopped, the machine was suspended) the loop reads on before timers may fire: the
heartbeats of the other members are in the sockets' buffers, and a timer that fired first would suspect all of them.
"""
from __future__ import annotations

import contextlib
import heapq
import logging
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from time import monotonic_ns
from typing import Protocol

from jgroups_py.model.units import NS_PER_S, millis, seconds
from jgroups_py.runtime.memory import keep_freed_memory
from jgroups_py.runtime.poller import READ, Poller, new_poller

log = logging.getLogger("jgroups_py")

LATE_NS = millis(500)                       # a round this late after its deadline was held up: see _work
CATCH_UP_ROUNDS = 200                       # rounds that may only read before timers fire again, at most
LONGEST_SLEEP_NS = seconds(3600)
NEVER_NS = 1 << 62
STOP_SECONDS = 2.0
AT_ONCE_NS = millis(0.01)                   # a poll that returned sooner did not wait
COMBINED_STEPS = 4                          # how often a sender sends what others queued meanwhile
SWITCH_SECONDS = 0.0005
"""How long another thread of Python may make the loop wait, at most.

Every system call of the loop gives up the interpreter's lock; a thread that computes then keeps it for a whole switch
interval, 5 ms by default, and a round of 100 datagrams would take half a second. Measured with a computing thread in
the process: a request and its reply take 5.7 ms with the default and 0.4 ms with this.
"""

clock = monotonic_ns
BOOT_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", None)      # only Linux has it


class LoopHost(Protocol):
    """What a loop runs. Two threads never run its methods at once."""

    def step(self, now_ns: int) -> int | None:
        """One round; the next deadline in ns, at or before `now_ns` if there is more to do at once."""

    def send_queued(self, now_ns: int) -> int | None:
        """Send what was queued, and no more: no timer fires. The next deadline, as `step`."""

    def fail(self, error: BaseException) -> None:
        """A part of this host raised: close it, with the reason. Must not raise."""

    @property
    def needs_round(self) -> bool:
        """Whether something was queued for it since its last step."""


class Task:
    """A call that is made later, unless it is cancelled."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[[], None] | None) -> None:
        self.function = function

    def cancel(self) -> None:
        """It will not be called."""
        self.function = None


class Loop:
    """The I/O of `host`.

    `clock_ns`, `call`, `wake`, `combine`, `stop`, `overdue` and `join` are for any thread. The callers of rounds see to
    it that one thread runs them at a time. Everything else is for the thread inside a round.
    """

    def __init__(self, host: LoopHost) -> None:
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_SECONDS))
        keep_freed_memory()
        self.now_ns = clock()
        self.ended = False
        self._host = host
        self._poller: Poller[Task] = new_poller()
        self._calls: deque[Task] = deque()
        self._timers: list[tuple[int, int, Task]] = []
        self._order = 0
        self._deadline_ns = 0                                # when a round is due
        self._caught_up_rounds = 0
        self._round_began_ns = 0                                  # when the last round began
        self.waited = False                                  # whether the round that runs had nothing to do at first
        self._asleep = False
        self._stopping = False
        self._over = threading.Event()
        self._step = threading.Lock()                        # held by the thread that runs the host's methods
        self._reader_waits = False                           # the reader waits for the lock: senders leave it alone
        self.wake_reader: Callable[[], None] = self.wake_poller           # how to wake the reader
        self._on_stop: list[Callable[[], None]] = []
        self._waker, self._woken = socket.socketpair()
        self._waker.setblocking(False)
        self._woken.setblocking(False)
        self.watch(self._woken, READ, self._drain_wakeups)

    # --- from any thread --------------------------------------------------------------------------------------------

    def clock_ns(self) -> int:
        """The time now."""
        return clock()

    def boot_ns(self) -> int:
        """The time now, by a clock that counts also while the machine is suspended, where the system has one."""
        return clock() if BOOT_CLOCK is None else time.clock_gettime_ns(BOOT_CLOCK)

    def call(self, function: Callable[[], None]) -> None:
        """Run `function` in a round, soon."""
        self._calls.append(Task(function))
        self.wake()

    def wake(self) -> None:
        """Run another round: something was queued. Costs a system call only if the reader is asleep."""
        if self._asleep:
            self._asleep = False
            self.wake_reader()

    def combine(self) -> None:
        """Send what was queued, on this thread; if another thread runs the host, that one checks the queue afterwards.

        A sender queues first and tries the lock second; the thread that holds the lock releases it first and checks the
        queue second. So nothing that was queued is left.
        """
        host, step = self._host, self._step
        for _ in range(COMBINED_STEPS):
            if self._reader_waits or not step.acquire(False):
                return
            try:
                self._send_queued(host)
            finally:
                step.release()
            if not host.needs_round:
                return
        self.wake()                                          # others keep queueing: the reader takes over

    def stop(self) -> None:
        """End the loop: the reader closes everything in its next round."""
        self._stopping = True
        self._asleep = False
        self.wake_reader()

    def overdue(self) -> bool:
        """Whether a deadline has passed without a round."""
        return clock() > self._deadline_ns

    def join(self) -> None:
        """After `stop`: wait until everything is closed."""
        self._over.wait(STOP_SECONDS)

    def wake_poller(self) -> None:
        """Wake a reader that waits in the poller."""
        try:
            self._waker.send(b"\0")
        except BlockingIOError:
            pass                                             # its buffer is full of wake-ups
        except OSError:
            assert self._stopping, "the waker lives as long as the loop"

    def _send_queued(self, host: LoopHost) -> None:
        self.now_ns = clock()
        try:
            deadline_ns = host.send_queued(self.now_ns)
        except Exception as error:                           # noqa: BLE001  a bug in this package: the host closes
            return host.fail(error)
        except BaseException as error:                       # a round was cut short: the state of the node is unknown
            host.fail(error)
            raise
        if deadline_ns is not None and deadline_ns < self._deadline_ns:
            self._deadline_ns = deadline_ns
            self.wake()                                      # the reader sleeps past the new deadline
        return None

    # --- inside a round ---------------------------------------------------------------------------------------------

    def watch(self, fd: socket.socket | int, events: int, handler: Callable[[], None]) -> None:
        """Call `handler` whenever `fd` is readable (or writable, by `events`); it replaces an earlier handler."""
        self._poller.set(fd, events, Task(handler))
        self.wake()                                          # some pollers do not notice a change while they wait

    def unwatch(self, fd: socket.socket | int) -> None:
        """Stop watching `fd`; to be called before it is closed."""
        self._poller.remove(fd)

    def later(self, delay_ns: int, function: Callable[[], None]) -> Task:
        """Call `function` once, `delay_ns` from now."""
        task = Task(function)
        self._order += 1
        heapq.heappush(self._timers, (self.now_ns + delay_ns, self._order, task))
        return task

    def at_stop(self, function: Callable[[], None]) -> None:
        """Call `function` when the loop ends."""
        self._on_stop.append(function)

    # --- the reader's -----------------------------------------------------------------------------------------------

    def fileno(self) -> int:
        """The descriptor that is readable when a round has something to read.

        Raises:
            AttributeError: this system has none.
        """
        return self._poller.fileno()

    def round(self, due: Callable[[], bool], longest_ns: int = LONGEST_SLEEP_NS) -> bool:
        """Wait until there is something to do, `longest_ns` at most, and do it; do not wait if `due()`.

        A thread that makes `due()` true calls `wake` afterwards, so that no wake-up is lost. Returns whether something
        was readable.
        """
        timeout = self.idle_seconds(due, longest_ns)
        ready = self._poller.poll(timeout)
        self.waited = timeout > 0 and clock() - self._round_began_ns > AT_ONCE_NS
        self._asleep = False
        self._reader_waits = True
        with self._step:
            self._reader_waits = False
            try:
                self._work(ready)
            except BaseException as error:                   # a signal's handler raised, on an event loop's thread
                self._host.fail(error)
                raise
            finally:
                if self._stopping:
                    self._end()
        return bool(ready)

    def idle_seconds(self, due: Callable[[], bool], longest_ns: int = LONGEST_SLEEP_NS) -> float:
        """For how many seconds there is nothing to do, unless the reader is woken or something is readable.

        The flag is set first and the queues are checked second. A thread that queues something in between sees the flag
        and wakes the reader, so no wake-up is lost.
        """
        self._asleep = True
        now_ns = self._round_began_ns = clock()
        sleep_ns = min(self._deadline_ns - now_ns, longest_ns)
        if sleep_ns <= 0 or self._calls or self._stopping or self._host.needs_round or due():
            self._asleep = False
            return 0.0
        return sleep_ns / NS_PER_S

    def run_queued(self) -> None:
        """A round that neither waits nor reads: for what was queued since the last one."""
        if (self._calls or self._host.needs_round) and not self._late(clock()):
            with self._step:
                try:
                    self._work([])
                except BaseException as error:               # as in `round`
                    self._host.fail(error)
                    raise

    def _late(self, now_ns: int) -> bool:
        return 0 < self._deadline_ns < now_ns - LATE_NS

    def _work(self, ready: list[Task]) -> None:
        now_ns = self.now_ns = clock()
        late = self._late(now_ns)
        for task in ready:
            self._run(task)
        if late and self._caught_up_rounds < CATCH_UP_ROUNDS and ready:
            # The deadline stays in the past, so the next round reads at once. The number of such rounds is bounded:
            # under a flood there is always something to read, and without timers this member would send no heartbeats.
            self._caught_up_rounds += 1
            return
        self._caught_up_rounds = 0
        for _ in range(len(self._calls)):                    # a call that queues another one does not starve the timers
            self._run(self._calls.popleft())
        timers = self._timers
        while timers and timers[0][0] <= now_ns:
            self._run(heapq.heappop(timers)[2])
        self._deadline_ns = self._step_host(now_ns)

    def _run(self, task: Task) -> None:
        """Make the call. An Exception closes the host; SystemExit and KeyboardInterrupt propagate out of the round."""
        if task.function is not None:
            try:
                task.function()
            except Exception as error:                       # noqa: BLE001  a bug in this package: the host closes
                self._host.fail(error)

    def _step_host(self, now_ns: int) -> int:
        try:
            deadline_ns = self._host.step(now_ns)
        except Exception as error:                           # noqa: BLE001  a bug in this package: the host closes
            self._host.fail(error)
            deadline_ns = None
        if deadline_ns is None:
            deadline_ns = NEVER_NS
        timers = self._timers
        return timers[0][0] if timers and timers[0][0] < deadline_ns else deadline_ns

    def _drain_wakeups(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(4096)

    def _end(self) -> None:
        if not self.ended:
            self.ended = True
            for function in self._on_stop:
                function()
            self._poller.close()
            self._waker.close()
            self._woken.close()
            self._over.set()
