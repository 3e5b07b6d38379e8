"""Who runs the loop of a channel: a thread of its own that also calls the receiver, or a stand-in while that is busy.

Handing what arrived from an I/O thread to a delivery thread would cost a change of threads for every datagram, and two
more for every request that is answered. So one thread does both in turn: a round of the loop, then the callbacks, with
no lock held. A callback may take its time or wait for something; then the stand-in runs the loop, so that heartbeats,
acknowledgements and timers go on:

* it looks every LOOK_SECONDS while callbacks run, and takes over from one that was running the last time already;
  while nothing is delivered it sleeps and costs nothing;
* the thread of the callbacks takes the loop back when the callbacks are done.

A callback that waits for the channel itself (an answer, room, a state, the end) needs no stand-in: it runs rounds of
the loop, without delivering, until what it waits for is there (`work_until`). Any other thread that waits for one
answer after the other borrows the loop in the same way (leader and followers): it reads its answer itself, and the
channel's thread parks, looking every LOAN_NS whether the loop is still wanted; for waking a thread on another processor
costs as much as the stack. Not the main thread: there a signal's handler may raise in the middle of a protocol.

Callbacks stay on one thread for as long as the channel is connected. The duty lock says who may run rounds; there is
one of each kind for every channel, so no channel ever waits for another's callbacks.
"""
from __future__ import annotations

import threading
from collections.abc import Callable

from jgroups_py.delivery import Dispatcher
from jgroups_py.runtime.inbox import Inbox
from jgroups_py.runtime.loop import NEVER_NS, Loop, clock
from jgroups_py.units import NS_PER_S, millis, seconds

LOOK_SECONDS = 0.01                         # a callback that takes longer than one to two of these is stood in for
TIRED_LOOKS = 50                            # after so many looks without a callback the stand-in sleeps
SLICE_NS = millis(5)                        # callbacks run for so long, about, before the sockets are read again
LOAN_NS = millis(1)                         # waits of one thread that begin within this are a chain; see `_borrow`
HOLDS_NS = millis(50)                       # a condition that other threads fulfil is looked at so often


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


class ChannelThread:
    """The one thread that calls a JChannel's receiver, and its stand-in."""

    def __init__(self, name: str, loop: Loop, inbox: Inbox, dispatcher: Dispatcher) -> None:
        self.dispatcher = dispatcher
        self._loop = loop
        self._inbox = inbox
        self._duty = threading.Lock()                        # held by whoever runs rounds
        self._wanted_back = False                            # the stand-in shall give it back
        self._lent = False                                   # it is left to a thread that waits for its answers
        self._loans = 0
        self._unpark = threading.Event()
        self._waited = (0, 0)                                # the last wait outside callbacks: whose, since when
        self._delivering = False
        self._slices = 0                                     # how often callbacks were begun
        self._resting = True                                 # the stand-in sleeps until it is alarmed
        self._alarm = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"jgroups-{name}", daemon=True)
        self._stand_in = threading.Thread(target=self._watch, name=f"jgroups-{name}-stand-in", daemon=True)
        loop.alarm = self._wake_reader
        inbox.notify = loop.wake
        inbox.wait = self.work_until

    @property
    def ident(self) -> int | None:
        """The thread's id."""
        return self._thread.ident

    def start(self) -> None:
        """Run the loop and deliver from now on."""
        self._thread.start()
        self._stand_in.start()

    def current(self) -> bool:
        """Whether the caller is inside a callback."""
        return threading.get_ident() == self._thread.ident

    def _wake_reader(self) -> None:
        if self._lent and not self._duty.locked():
            self.take_back()                                 # whoever borrowed it is elsewhere
        else:
            self._loop.ring()

    # --- for threads that wait for the channel ----------------------------------------------------------------------

    def work_until(self, holds: Callable[[], bool], timeout: float | None) -> None:
        """Run the loop until `holds()`, `timeout` seconds at most (None: for ever).

        It may return before: whoever calls must look again, and wait in its own way.
        """
        if not self.current():
            return self._borrow(holds)
        if not self._duty.acquire(False):
            return None
        try:
            until_ns = NEVER_NS if timeout is None else clock() + seconds(timeout)
            while not holds() and not self._loop.ended and (left_ns := until_ns - clock()) > 0:
                self._loop.round(holds, min(left_ns, HOLDS_NS))
        finally:
            self._duty.release()
        return None

    def _borrow(self, holds: Callable[[], bool]) -> None:
        """Outside callbacks: run the loop, if this thread waits again and again, and nobody else does.

        Between two waits of a chain nobody reads; that may last twice LOAN_NS when the chain has ended.
        """
        me, now_ns = threading.get_ident(), clock()
        before, self._waited = self._waited, (me, now_ns)
        if before[0] != me or now_ns - before[1] > LOAN_NS or me == threading.main_thread().ident:
            if self._lent:
                self.take_back()
            return
        if not self._duty.acquire(False):
            if self._lent:
                return                                       # to somebody else
            self._lent = True
            self._loop.wake()
            if not self._duty.acquire(timeout=LOAN_NS / NS_PER_S):
                return
        loop, waiting = self._loop, self.dispatcher.any_waiting
        try:
            while not holds() and not self._wanted_back and not loop.ended:
                loop.round(lambda: self._wanted_back or holds())
                if waiting():
                    self._unpark.set()                       # callbacks are the channel's thread's
            self._loans += 1
            idle = not loop.ended and loop.rest(waiting) > 0
        finally:
            self._duty.release()
        if not idle:
            self.take_back()

    def take_back(self) -> None:
        """The channel's thread shall read again, from any thread."""
        self._lent = False
        self._unpark.set()

    def breathe(self) -> None:
        """One round that does not wait: for a callback that fills the queue and does nothing else."""
        if self._duty.acquire(False):
            try:
                self._loop.round(always)
            finally:
                self._duty.release()

    def pump(self, until: Callable[[], bool], timeout: float) -> None:
        """Go on delivering until `until()` holds, `timeout` seconds without news at most."""
        while not until() and not self.dispatcher.stopping:
            output = self.dispatcher.next(timeout)
            if output is None:
                return
            self.dispatcher.handle(output)

    # --- the end ----------------------------------------------------------------------------------------------------

    def stop(self, drain_seconds: float, stop_seconds: float) -> bool:
        """Wait for what is queued, then stop without the rest; whether the thread has ended."""
        if self.current():
            self.dispatcher.stopping = True
            return False
        self._thread.join(drain_seconds)
        if self._thread.is_alive():
            self.dispatcher.stopping = True
            self._inbox.poke()
            self.take_back()
            self._loop.wake()
            self._thread.join(stop_seconds)
        if self._thread.is_alive():
            return False
        if threading.current_thread() is not self._stand_in:
            self._stand_in.join(stop_seconds)
        return True

    # --- the thread of the callbacks --------------------------------------------------------------------------------

    def _run(self) -> None:
        loop, dispatcher = self._loop, self.dispatcher
        while not dispatcher.stopping:
            if self._lent:
                self._park()
            else:
                self._take_duty()
                if not loop.ended:
                    loop.round(self._news)
                self._duty.release()
            delivered = self._deliver()
            if not loop.ended:
                if delivered:
                    loop.turn()
            elif not dispatcher.any_waiting():
                break
        dispatcher.abandon()
        self._finish()

    def _news(self) -> bool:
        return self._lent or self.dispatcher.stopping or self.dispatcher.any_waiting()

    def _park(self) -> None:
        """Leave the loop to who borrowed it, as long as it is borrowed again and again."""
        loans = self._loans
        self._unpark.wait(LOAN_NS / NS_PER_S)
        self._unpark.clear()
        if self._loans == loans and not self.dispatcher.any_waiting():
            self._lent = False

    def _take_duty(self) -> None:
        if not self._duty.acquire(False):
            self._wanted_back = True
            self._loop.wake()
            self._duty.acquire()
            self._wanted_back = False

    def _deliver(self) -> bool:
        """Call the receiver for what arrived, for some milliseconds; whether there was something."""
        dispatcher = self.dispatcher
        if not dispatcher.any_waiting():
            return False
        self._slices += 1
        self._delivering = True
        if self._resting:
            self._resting = False
            self._alarm.set()
        until_ns = clock() + SLICE_NS
        while not dispatcher.stopping:
            output = dispatcher.next(0)
            if output is None:
                break
            dispatcher.handle(output)
            if clock() >= until_ns:
                break
        self._delivering = False
        return True

    def _finish(self) -> None:
        """Whoever closed the channel inside a callback is not there any more to see the loop end."""
        with self._duty:
            while not self._loop.ended:
                self._loop.round(never)
        self._over.set()
        self._alarm.set()

    # --- the stand-in -----------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        idle = TIRED_LOOKS
        while not self._loop.ended:
            if idle >= TIRED_LOOKS:
                self._rest()
                idle = 0
            seen = self._slices
            if self._over.wait(LOOK_SECONDS):
                return
            if self._slices != seen:
                idle = 0
            elif self._delivering:
                self._stand_in_for(seen)
            else:
                idle += 1

    def _rest(self) -> None:
        """Sleep until callbacks run. The flag is up first, then we look, so that no alarm is lost."""
        self._resting = True
        if not self._delivering and not self._over.is_set():
            self._alarm.wait()
        self._alarm.clear()
        self._resting = False

    def _stand_in_for(self, seen: int) -> None:
        """Run the loop until the callbacks that were running at the last look are done."""
        if not self._duty.acquire(False):
            return                                           # the callback runs the loop itself while it waits
        try:
            while self._slices == seen and self._delivering and not self._wanted_back and not self._loop.ended:
                self._loop.round(lambda: self._wanted_back)
        finally:
            self._duty.release()
