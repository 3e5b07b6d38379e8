"""The ownership of a channel's rounds: the states, the transitions between them, and when to change. Pure.

A round reads the sockets, runs the node and sends (runtime/loop.py). One thread at a time runs rounds. Usually it is
their owner: the I/O thread (io_thread.py) or the event loop (io_task.py). Another thread runs them while the owner is
blocked in a callback, or when that thread waits for the answer that the next round reads.
"""
from __future__ import annotations

import enum
import threading
from collections.abc import Collection, Mapping

from jgroups_py.model.units import millis

LEASE_NS = millis(1)                        # waits of one thread form a chain if each begins within this of the last
SLICE_NS = millis(5)                        # how long callbacks run, about, before the sockets are read again
IDLE_CHECKS = 50                            # checks without a new slice of callbacks after which the watchdog sleeps


class IoState(enum.Enum):
    """Which thread runs rounds."""

    OWNED = "the owner runs rounds, or will do so next"
    CALLBACK_RUNNING = "the owner is inside a callback; no thread runs rounds"
    CALLBACK_WAITING = "the owner runs rounds inside a callback that waits for its own channel"
    WATCHDOG = "the watchdog thread runs rounds, because a callback or a coroutine keeps the owner busy"
    LEASED = "the owner is parked; a thread that waits for its answers runs rounds, or is between two waits"
    LEASED_CALLBACK = "as LEASED, but the owner is inside a callback"
    RECALLED = "the owner reclaims rounds and waits until the thread that runs one has ended it"
    STOPPING = "the owner runs the loop to its end, without callbacks"

    __hash__ = object.__hash__                               # Enum's is a function of Python; here twice in every round


OWNED, CALLBACK_RUNNING, CALLBACK_WAITING, WATCHDOG, LEASED, LEASED_CALLBACK, RECALLED, STOPPING = IoState
"""Under names of their own: in Python 3.11 a look-up in the class takes 70 ns longer, and a round would make ten."""

Transitions = Mapping[IoState, Collection[IoState]]

THREAD_TRANSITIONS: Transitions = {
    OWNED: (CALLBACK_RUNNING, LEASED, RECALLED, STOPPING),
    CALLBACK_RUNNING: (OWNED, CALLBACK_WAITING, WATCHDOG, LEASED_CALLBACK),
    CALLBACK_WAITING: (CALLBACK_RUNNING,),
    WATCHDOG: (CALLBACK_RUNNING, RECALLED),
    LEASED: (CALLBACK_RUNNING, LEASED_CALLBACK, RECALLED, STOPPING),
    LEASED_CALLBACK: (CALLBACK_RUNNING, LEASED),
    RECALLED: (OWNED, CALLBACK_RUNNING, STOPPING),
    STOPPING: (),
}
"""Of a JChannel, whose owner is its I/O thread."""

TASK_TRANSITIONS: Transitions = {
    OWNED: (WATCHDOG,),
    WATCHDOG: (RECALLED, OWNED),
    RECALLED: (OWNED,),
}
"""Of an AsyncChannel, whose owner is the application's event loop: callbacks are coroutines, and nothing is parked."""

IN_CALLBACK = (CALLBACK_RUNNING, CALLBACK_WAITING, WATCHDOG, LEASED_CALLBACK)
LEASES = (LEASED, LEASED_CALLBACK)


class IoOwnership:
    """The state, and two locks: `mutex` for deciding on a transition, `rounds` held by the thread that runs rounds.

    `rounds` is never waited for under `mutex`. A thread other than the owner makes a transition, and takes `rounds`
    with it under `mutex` or waits for it afterwards. So the owner may take `rounds` without `mutex` in every round: it
    reads the state inside the round. The mutex is re-entrant because a signal's handler may send on this channel while
    its thread holds the mutex.
    """

    def __init__(self, transitions: Transitions) -> None:
        self.state = OWNED
        self.mutex = threading.RLock()
        self.rounds = threading.Lock()
        self._transitions = transitions

    def transition(self, before: IoState, after: IoState) -> None:
        """Go from one state to the next. The caller holds `mutex` and has read the state."""
        assert self.state is before, self._refused(before, after)
        assert after in self._transitions[before], self._refused(before, after)
        self.state = after

    def _refused(self, before: IoState, after: IoState) -> str:
        return f"from {before.name} to {after.name} while it was {self.state.name}"


class WatchdogStep(enum.Enum):
    """What the watchdog does after a check."""

    TAKE_OVER = "run rounds until the callback returns"
    CHECK_AGAIN = "check again after the interval"
    SLEEP = "there were no callbacks for a while: sleep until woken"


class HandoverPolicy:
    """When rounds change threads. Time and threads come in as arguments.

    *A lease* pays only for a chain of waits. Waking a thread on another processor costs as much as the whole stack, so
    a thread that sends a request, waits, and sends the next one should read its answers itself (leader and followers).
    A lease for a single wait costs two changes of threads more than it saves, and two threads that wait in turn would
    take the loop from each other. So the loop is leased to a thread whose last wait began within LEASE_NS, if no other
    thread has waited since. The owner takes it back when no wait has begun for LEASE_NS.

    *The watchdog* checks at intervals. Waking it before each callback would cost what callbacks on the I/O thread save.
    It takes over from a callback that was running at its last check already: after one interval at least, two at most.
    """

    def __init__(self) -> None:
        self._waiter: int | None = None                      # the thread that waited last
        self._waited_ns = 0                                  # since when
        self._last_check: int | None = None                   # the slice of callbacks at the watchdog's last look
        self._idle_checks = 0

    def is_chain(self, thread: int, now_ns: int) -> bool:
        """A thread begins to wait: whether it continues a chain of waits of its own, with no other thread's between."""
        chained = self._waiter == thread and now_ns - self._waited_ns <= LEASE_NS
        self._waiter, self._waited_ns = thread, now_ns
        return chained

    def check(self, slices: int, running: bool) -> WatchdogStep:
        """A check. slices: how many slices of callbacks have begun; running: whether the last one has not ended.

        An owner whose slices are rounds (an event loop) is `running` when a round is due.
        """
        if self._last_check != slices:
            self._last_check, self._idle_checks = slices, 0
            return WatchdogStep.CHECK_AGAIN                   # callbacks end and begin: rounds come in between
        if running:
            return WatchdogStep.TAKE_OVER                    # one slice for a whole interval: heartbeats are due
        self._idle_checks += 1
        return WatchdogStep.SLEEP if self._idle_checks >= IDLE_CHECKS else WatchdogStep.CHECK_AGAIN

    def woken(self, slices: int) -> None:
        """The watchdog has slept, and was woken as this slice began: that counts as a check."""
        self._last_check, self._idle_checks = slices, 0

    @staticmethod
    def lapsed(leases_before: int, leases: int, waiting: bool) -> bool:
        """The owner was parked for LEASE_NS: whether it takes rounds back.

        leases_before, leases: how many waits on a lease had ended, then and now; waiting: whether there is something to
        deliver, which it does first.
        """
        return leases == leases_before and not waiting

    @staticmethod
    def slice_is_over(began_ns: int, now_ns: int) -> bool:
        """Whether callbacks have run for so long that the sockets are to be read."""
        return now_ns - began_ns >= SLICE_NS
