"""Receipt: what `send(until=...)` returns, and how far the message has come."""
from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import Any, Protocol, Self

from jgroups_py.model.address import Address
from jgroups_py.model.errors import ChannelError, ReceiptTimeoutError
from jgroups_py.model.view import ViewId

_LOCK = threading.Lock()                    # of the calls of all receipts; held for some instructions only
_NO_VIEWS: Mapping[str, tuple[ViewId, ...]] = {}


class EventLoop(Protocol):
    """Where receipts of an AsyncChannel are settled."""

    def call(self, function: Callable[[], object], /) -> None:
        """Call a function on the event loop, from any thread."""


class Receipt:
    """The receipt of one message; with `wait=False` it may still be pending.

    until: the words of the send, in order. members: with "stable", those of the own group that have the message; with
    "handled", those whose receiver has returned from it, also at other sites; with "ordered" alone, this member, where
    its place is final. left: members that left the view, were cut off, or came back by a merge meanwhile; it is not
    known whether they have the message. failed: of `members`, those whose receiver raised for it, or that dropped
    messages of this sender (FLOW). views: with RELAY, site -> the views whose members have it; `members` is empty then,
    unless `until` has "handled".
    """

    def __init__(self, until: tuple[str, ...]) -> None:
        # Thousands may be pending: each container that one of them holds is looked at by the garbage collector.
        self.until = until
        self.members: tuple[Address, ...] = ()
        self.left: tuple[Address, ...] = ()
        self.failed: tuple[Address, ...] = ()
        self.views = _NO_VIEWS
        self.error: ChannelError | None = None
        """Why there is none: ReceiptTimeoutError, MessageLostError, or ReceiptError (the channel was closed)."""
        self._done = False
        self._calls: tuple[Callable[[Any], object], ...] = ()

    @property
    def done(self) -> bool:
        """Whether it is complete: the fields have their values, or `error` is set."""
        return self._done

    def when_done(self, call: Callable[[Self], object]) -> None:
        """Call a function with this receipt when it is done; at once if it is.

        A JChannel calls it on the thread that runs its loop, so it must not wait; an AsyncChannel on the event loop.
        """
        with _LOCK:
            if not self._done:
                self._calls = (*self._calls, call)
                return
        call(self)

    def run(self, function: Callable[[], object]) -> None:
        """Call a function where receipts of this channel are settled."""
        function()

    def settle(self, error: ChannelError | None = None) -> None:
        """Called once, by the channel, by way of `run`: it is done."""
        with _LOCK:
            if self._done:
                return
            self.error, self._done = error, True
            calls, self._calls = self._calls, ()
        for call in calls:
            call(self)

    def __repr__(self) -> str:
        how = "under way" if not self._done else str(self.error) if self.error is not None else "done"
        return f"<Receipt {', '.join(self.until)}: {how}>"


class ThreadReceipt(Receipt):
    """The receipt of a JChannel.

    wait: blocks until a condition holds, an event is set, or a timeout is over. check: raises where waiting would never
    end.
    """

    def __init__(
        self, until: tuple[str, ...], wait: Callable[[Callable[[], bool], threading.Event, float | None], None],
        check: Callable[[], None],
    ) -> None:
        super().__init__(until)
        self._wait = wait
        self._check = check

    def result(self, timeout: float | None = None) -> Self:
        """Wait until it is done, `timeout` seconds at most (None: as long as the send's own timeout).

        Raises:
            ReceiptTimeoutError: it is not done; a later call may see it done. MessageLostError, ReceiptError: `error`.
            ChannelError: inside a callback "handled" would wait for that callback's own return.
        """
        if not self._done:
            self._check()
            over = threading.Event()
            self.when_done(lambda receipt: over.set())
            self._wait(over.is_set, over, timeout)
            if not self._done:
                raise ReceiptTimeoutError(f"no receipt ({', '.join(self.until)}) within {timeout or 0:g} s; it "
                                          "was sent, and the receipt is still on its way")
        if self.error is not None:
            raise self.error
        return self


class AsyncReceipt(Receipt):
    """The receipt of an AsyncChannel: `await` it.

    check: raises where waiting would never end.
    """

    def __init__(self, until: tuple[str, ...], check: Callable[[], None], events: EventLoop) -> None:
        super().__init__(until)
        self._check = check
        self._events = events
        self._future: asyncio.Future[None] | None = None     # of the first task that waits

    def run(self, function: Callable[[], object]) -> None:
        """A watchdog thread may run the round; tasks are woken on the event loop."""
        self._events.call(function)

    def settle(self, error: ChannelError | None = None) -> None:
        """See Receipt; on the event loop."""
        super().settle(error)
        future, self._future = self._future, None
        if future is not None:
            _wake(future, self)

    def future(self) -> asyncio.Future[None] | None:
        """What ends when it is done, for a task of the event loop to await; None: it is done."""
        if self._done:
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._future is None:
            self._future = future
        else:
            self.when_done(partial(_wake, future))
        return future

    def __await__(self) -> Generator[Any, None, Self]:
        """Wait until it is done; raises what ThreadReceipt.result does, but has no timeout of its own."""
        if not self._done:
            self._check()
            future = self.future()
            if future is not None:
                yield from future
        if self.error is not None:
            raise self.error
        return self


def _wake(future: asyncio.Future[None], _: Receipt) -> None:
    """The task that awaits it may have been cancelled meanwhile."""
    if not future.done():
        future.set_result(None)
