"""Which thread runs a JChannel's event loop: its I/O thread, or a watchdog thread while a callback blocks it.

A delivery thread beside the I/O thread would cost a change of threads for every datagram, and two more for every
request that is answered. So the I/O thread does both in turn: a round of the loop, then the callbacks, with no lock
held. Callbacks always run on it. Rounds may run on other threads meanwhile:

                  callbacks begin                  checks twice during one callback
       +--------+ --------------> +------------------+ --------------> +----------+
       | OWNED  |                 | CALLBACK_RUNNING |                 | WATCHDOG |
       +--------+ <-------------- +------------------+ <-------------- +----------+
        ^  |  ^    callbacks end    |  ^        ^  |     loop ended          |
        |  |  |                     |  |        |  | a thread waits again     | callbacks end
        |  |  | the other thread    v  |        |  v                          |
        |  |  | has ended its    CALLBACK_    LEASED_       CALLBACK_WAITING: |
        |  |  | round            WAITING      CALLBACK      the callback waits|
        |  |  +--------------+                 |  ^         for the channel   |
        |  | a thread waits  |   callbacks end |  | callbacks begin           |
        |  | again and again |                 v  |                           v
        |  +------------------------------> +--------+  1 ms without   +----------+
        |                    |              | LEASED | --------------> | RECALLED |
        |                    |              +--------+  another wait   +----------+
        +--------------------+---------------------------------------------+
       OWNED, LEASED, RECALLED -> STOPPING: callbacks have ended, and the I/O thread runs the loop to its end.

* WATCHDOG: a callback may run for long, or wait for something outside this package. The watchdog thread then runs
  rounds, so that heartbeats, acknowledgements and timers go on. It checks every CHECK_SECONDS while callbacks run, and
  sleeps while nothing is delivered.
* CALLBACK_WAITING: a callback that waits for the channel itself (an answer, room, a state, the end) runs rounds of the
  loop, without delivering, until its condition holds (`work_until`).
* LEASED: another thread that waits for one answer after the other runs rounds itself (leader and followers), while the
  I/O thread is parked. Never the main thread: a signal's handler may raise there in the middle of a protocol.

io_state.py has the transitions, and the policy that decides when they happen. Every channel has its own I/O thread and
watchdog, so no channel ever waits for another's callbacks.
"""
from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from jgroups_py.channel.dispatcher import Dispatcher
from jgroups_py.channel.io_state import (
    CALLBACK_RUNNING,
    CALLBACK_WAITING,
    IN_CALLBACK,
    LEASE_NS,
    LEASED,
    LEASED_CALLBACK,
    LEASES,
    OWNED,
    RECALLED,
    STOPPING,
    THREAD_TRANSITIONS,
    WATCHDOG,
    HandoverPolicy,
    IoOwnership,
    IoState,
    WatchdogStep,
)
from jgroups_py.model.units import NS_PER_S, millis, seconds
from jgroups_py.runtime.host import Host
from jgroups_py.runtime.loop import NEVER_NS, Loop, clock

CHECK_SECONDS = 0.01                        # the interval of the watchdog's checks
FOREIGN_NS = millis(50)                     # how often a condition that other threads fulfil is checked
LEAVE_NS = seconds(3)                       # for leaving the group after the last callback
LEASE_SECONDS = LEASE_NS / NS_PER_S


class LoopThread:
    """A thread that runs a loop and delivers nothing."""

    def __init__(self, name: str, loop: Loop) -> None:
        self._loop = loop
        self._thread = threading.Thread(target=self.run, name=f"jgroups-{name}", daemon=True)

    def start(self) -> None:
        """Run the loop from now on."""
        self._thread.start()

    def run(self) -> None:
        """Run the loop to its end, on this thread."""
        while not self._loop.ended:
            self._loop.round(never)


def always() -> bool:
    """There is something to do."""
    return True


def never() -> bool:
    """There is nothing to do."""
    return False


class IoThread:
    """The one thread that calls a JChannel's receiver, and its watchdog."""

    def __init__(self, name: str, host: Host, dispatcher: Dispatcher) -> None:
        self.dispatcher = dispatcher
        self._host = host
        loop = self._loop = host.loop
        inbox = self._inbox = host.inbox
        self._io = IoOwnership(THREAD_TRANSITIONS)
        self._policy = HandoverPolicy()
        self._main_thread = threading.main_thread().ident    # here, as a fork may change it
        self._leases = 0                                     # how many waits on a lease have ended
        self._unpark = threading.Event()
        self._slices = 0                                     # how often callbacks were begun
        self._asleep = True                                  # the watchdog sleeps until it is woken
        self._wake_watchdog = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"jgroups-{name}", daemon=True)
        self._watchdog = threading.Thread(target=self._watch, name=f"jgroups-{name}-watchdog", daemon=True)
        loop.wake_reader = self._wake_reader
        inbox.notify = loop.wake
        inbox.wait = self.work_until

    @property
    def ident(self) -> int | None:
        """The thread's id."""
        return self._thread.ident

    @property
    def state(self) -> IoState:
        """Which thread runs rounds just now."""
        return self._io.state

    def start(self) -> None:
        """Run the loop and deliver from now on."""
        self._watchdog.start()                               # first: a stack that refuses to start ends the thread at
        self._thread.start()                                 # once, and another thread may be in `stop` by then
        self._host.round_in_callback, self._host.sends.owner = self.round_in_callback, self.ident

    def current(self) -> bool:
        """Whether the caller is inside a callback."""
        return threading.get_ident() == self._thread.ident

    def _wake_reader(self) -> None:
        """Called by the loop: some thread queued something, and no thread checks the queue."""
        if self._io.state is LEASED and not self._io.rounds.locked():
            self.recall()                                    # the thread that leased the loop is between two waits
        else:
            self._loop.wake_poller()

    # --- for threads that wait for the channel ----------------------------------------------------------------------

    def work_until(self, holds: Callable[[], bool], timeout: float | None) -> None:
        """Run the loop until `holds()`, `timeout` seconds at most (None: for ever).

        It may return earlier: the caller checks its condition again, and blocks if it does not hold.
        """
        if self.current():
            until_ns = NEVER_NS if timeout is None else clock() + seconds(timeout)
            self._run_in_callback(holds, until_ns)
        else:
            self._run_on_lease(holds)

    def round_in_callback(self) -> None:
        """One round that does not wait: for a callback that fills the send queue, which no other thread empties."""
        with self._rounds_in_callback() as granted:
            if granted:
                self._loop.round(always)

    def _run_in_callback(self, holds: Callable[[], bool], until_ns: int) -> None:
        """On the I/O thread, inside a callback: run rounds, unless another thread does."""
        loop = self._loop
        with self._rounds_in_callback() as granted:
            while granted and not holds() and not loop.ended and (left_ns := until_ns - clock()) > 0:
                loop.round(holds, min(left_ns, FOREIGN_NS))

    @contextlib.contextmanager
    def _rounds_in_callback(self) -> Iterator[bool]:
        io = self._io
        with io.mutex:
            granted = io.state is CALLBACK_RUNNING and io.rounds.acquire(False)
            if granted:
                io.transition(CALLBACK_RUNNING, CALLBACK_WAITING)
        try:
            yield granted
        finally:
            if granted:
                with io.mutex:
                    io.transition(CALLBACK_WAITING, CALLBACK_RUNNING)
                    io.rounds.release()

    def _run_on_lease(self, holds: Callable[[], bool]) -> None:
        """Outside callbacks: run rounds, if the policy grants this thread a lease.

        Between two waits of a chain no thread reads the sockets; at its end that lasts up to twice LEASE_NS.
        """
        if not self._leased():
            return
        io, loop, waiting = self._io, self._loop, self.dispatcher.any_waiting
        try:
            while not holds() and io.state in LEASES and not loop.ended:
                loop.round(lambda: io.state not in LEASES or holds())
                if waiting():
                    self._unpark.set()                       # only the I/O thread calls the receiver
            quiet = not loop.ended and loop.idle_seconds(waiting) > 0
        finally:
            with io.mutex:
                self._leases += 1
                if io.state is LEASED_CALLBACK:
                    io.transition(LEASED_CALLBACK, CALLBACK_RUNNING)
                io.rounds.release()
        if not quiet:
            self.recall()

    def _leased(self) -> bool:
        """Whether this thread has a lease, and `rounds` with it."""
        io, thread = self._io, threading.get_ident()
        with io.mutex:
            if not self._policy.is_chain(thread, clock()) or thread == self._main_thread:
                self.recall()                                # several threads wait in turn: none gets a lease
                return False
            if io.state in (LEASED, CALLBACK_RUNNING):
                if not io.rounds.acquire(False):
                    return False                             # leased by another thread
                if io.state is CALLBACK_RUNNING:
                    io.transition(CALLBACK_RUNNING, LEASED_CALLBACK)
                return True
            if io.state is not OWNED:
                return False
            io.transition(OWNED, LEASED)
        self._loop.wake()                                    # the I/O thread ends its round and parks
        if not io.rounds.acquire(timeout=LEASE_SECONDS):
            return False                                     # the I/O thread recalls the lease after LEASE_NS
        with io.mutex:
            if io.state is CALLBACK_RUNNING:                 # the I/O thread had callbacks to make first
                io.transition(CALLBACK_RUNNING, LEASED_CALLBACK)
        return True

    def recall(self) -> None:
        """From any thread: a lease ends; the I/O thread runs rounds again."""
        with self._io.mutex:
            if self._io.state is LEASED:
                self._io.transition(LEASED, RECALLED)
                self._unpark.set()

    # --- the end ----------------------------------------------------------------------------------------------------

    def stop(self, drain_seconds: float, stop_seconds: float) -> bool:
        """Wait for what is queued, then stop without the rest; whether the thread has ended."""
        if self.current():
            self.dispatcher.stopping = True
            return False
        self._thread.join(drain_seconds)
        if self._thread.is_alive():
            self.dispatcher.stopping = True
            self._inbox.wake_consumer()
            self.recall()
            self._loop.wake()
            self._thread.join(stop_seconds)
        if self._thread.is_alive():
            return False
        if threading.current_thread() is not self._watchdog:
            self._watchdog.join(stop_seconds)
        return True

    # --- the I/O thread ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._serve()
        finally:
            self.dispatcher.abandon()
            self._finish()
        if self.dispatcher.exit_error is not None:
            raise self.dispatcher.exit_error                       # to threading.excepthook, as from any thread

    def _serve(self) -> None:
        """Rounds and callbacks in turn, until delivery is to stop or the loop has ended."""
        io, loop, dispatcher = self._io, self._loop, self.dispatcher
        while not dispatcher.stopping:
            if self._take_rounds():
                try:
                    if not loop.ended:
                        loop.round(self._due)
                finally:                                     # on an exception too: _finish needs `rounds`
                    io.rounds.release()
            else:
                self._park()
            delivered = self._deliver()
            if not loop.ended:
                if delivered:
                    loop.run_queued()
            elif not dispatcher.any_waiting():
                break

    def _due(self) -> bool:
        return self._io.state is not OWNED or self.dispatcher.stopping or self.dispatcher.any_waiting()

    def _park(self) -> None:
        """Leave the loop to the thread that leased it, as long as that thread's waits form a chain."""
        before, waiting = self._leases, self.dispatcher.any_waiting
        self._unpark.clear()                                 # before the state is read, so that no wake-up is lost
        if self._io.state is LEASED and not waiting():
            self._unpark.wait(LEASE_SECONDS)
        if self._policy.lapsed(before, self._leases, waiting()):
            self.recall()

    def _take_rounds(self) -> bool:
        """Acquire `rounds`, unless the loop is leased; whether it was acquired."""
        io = self._io
        if io.state is LEASED:
            return False
        # Without the mutex: a thread that leases the loop just now waits for `rounds`, and `_due` ends this round.
        if not io.rounds.acquire(False):
            with io.mutex:
                if io.state is LEASED:
                    return False
                if io.state is OWNED:                # or another thread could lease the loop meanwhile
                    io.transition(OWNED, RECALLED)
            self._loop.wake()                                # the thread that runs rounds reads the state again
            io.rounds.acquire()
        if io.state is RECALLED:
            with io.mutex:
                io.transition(RECALLED, OWNED)
        return True

    def _deliver(self) -> bool:
        """Call the receiver for what arrived, for SLICE_NS; whether there was something."""
        io, dispatcher = self._io, self.dispatcher
        if not dispatcher.any_waiting():
            return False
        with io.mutex:
            leased = io.state is LEASED and io.rounds.locked()
            io.transition(io.state, LEASED_CALLBACK if leased else CALLBACK_RUNNING)
            self._slices += 1
        if self._asleep:                                     # after the transition, so that no wake-up is lost
            self._asleep = False
            self._wake_watchdog.set()
        began_ns = clock()
        while not dispatcher.stopping:
            output = dispatcher.next(0)
            if output is None:
                break
            dispatcher.handle(output)
            if self._policy.slice_is_over(began_ns, clock()):
                break
        with io.mutex:
            io.transition(io.state, AFTER_CALLBACKS[io.state])
        return True

    def _finish(self) -> None:
        """Run the loop to its end: if the channel was closed inside a callback, no other thread does."""
        io = self._io
        with io.mutex:
            io.transition(io.state, STOPPING)
        self._loop.wake()                                    # a thread that runs a round reads the state again
        until_ns = clock() + LEAVE_NS
        with io.rounds:
            while not self._loop.ended:
                left_ns = until_ns - clock()
                if left_ns <= 0:
                    self._host.kill("left without the group's consent")
                self._loop.round(never, max(left_ns, 0))
        self._over.set()
        self._wake_watchdog.set()

    # --- the watchdog -----------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        step = WatchdogStep.SLEEP
        while not self._loop.ended:
            if step is WatchdogStep.SLEEP:
                self._sleep()
                self._policy.woken(self._slices)
            if self._over.wait(CHECK_SECONDS):
                return
            slices = self._slices
            step = self._policy.check(slices, self._io.state in IN_CALLBACK)
            if step is WatchdogStep.TAKE_OVER:
                self._take_over(slices)

    def _sleep(self) -> None:
        """Sleep until callbacks run. The flag is set before the state is read, so that no wake-up is lost."""
        self._asleep = True
        if self._io.state not in IN_CALLBACK and not self._over.is_set():
            self._wake_watchdog.wait()
        self._wake_watchdog.clear()
        self._asleep = False

    def _take_over(self, slices: int) -> None:
        """Run the loop until the callbacks that were running at the last check have ended."""
        io, loop = self._io, self._loop
        with io.mutex:
            if io.state is not CALLBACK_RUNNING or self._slices != slices or not io.rounds.acquire(False):
                return                                       # they have ended, or one of them runs rounds itself
            io.transition(CALLBACK_RUNNING, WATCHDOG)
        try:
            while io.state is WATCHDOG and not loop.ended:
                loop.round(lambda: io.state is not WATCHDOG)
        finally:
            with io.mutex:
                if io.state is WATCHDOG:
                    io.transition(WATCHDOG, CALLBACK_RUNNING)
                io.rounds.release()


AFTER_CALLBACKS = {
    CALLBACK_RUNNING: OWNED,
    WATCHDOG: RECALLED,
    LEASED_CALLBACK: LEASED,
}
"""The state in which callbacks end -> the next one."""
