"""Rpc: requests over a JChannel, for threads.

    def add(request):
        a, b = struct.unpack(">qq", request.payload)
        return struct.pack(">q", a + b)

    rpc = Rpc(channel, add)
    rpc.request(member, struct.pack(">qq", 1, 2), timeout=2.0)      # -> bytes, or raises a RequestError
    rpc.request_many(None, payload, Mode.MAJORITY).values           # {member: bytes}
    replies = [rpc.start(member, payload) for payload in many]      # concurrent: they are sent in batches
    results = [reply.result() for reply in replies]
"""
from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from jgroups_py.blocks.rpc.calls import Answers, Call, Mode
from jgroups_py.blocks.rpc.client import NO_ANSWERS, TIMEOUT_SECONDS, BaseRpc
from jgroups_py.blocks.rpc.serving import Handler
from jgroups_py.channel.base import BaseChannel
from jgroups_py.channel.dispatcher import EXITS
from jgroups_py.channel.sync import JChannel
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Flag
from jgroups_py.model.errors import ChannelError, RequestTimeoutError

log = logging.getLogger("jgroups_py")


class Reply:
    """The outcome of a request, available once it is done."""

    __slots__ = ("_call", "_callbacks", "_channel", "_forget", "_latch", "done")

    def __init__(self, forget: Callable[[Call], None], channel: BaseChannel) -> None:
        self.done = False                                    # answered, failed, or timed out
        self._latch = _closed_latch()
        self._forget = forget
        self._channel = channel
        self._callbacks: deque[Callable[[Reply], None]] = deque()
        self._call: Call | None = None

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the answer: bytes, or Answers of a request to several members.

        Raises:
            RequestError: see Rpc.request.
            TimeoutError: not done within `timeout` seconds; the request continues (it has a timeout of its own).
        """
        if not self.done:
            self._channel.work_until(lambda: self.done, timeout)
            if not self._latch.acquire(timeout=-1 if timeout is None else timeout):
                raise TimeoutError(f"the request is not done within {timeout:g} s")
            self._latch.release()                            # for other threads that wait
        assert self._call is not None, "a reply has its call before a thread can wait for it"
        return outcome_of(self._call)

    @property
    def number(self) -> int:
        """The number of the request; of one to several members that of the first."""
        assert self._call is not None, "it was sent"
        return self._call.numbers[0]

    def cancel(self) -> None:
        """Cancel the request: it ends with RequestTimeoutError, and a later answer is dropped."""
        call = self._call
        if call is not None and not self.done:
            self._forget(call)
            call.outcome = call.outcome or RequestTimeoutError("cancelled")
            self.release()

    def when_done(self, callback: Callable[[Reply], None]) -> None:
        """Call `callback` with this reply once it is done; immediately, if it is.

        The callback runs inside a round of the channel's loop and must return soon; longer work needs another thread.
        """
        self._callbacks.append(callback)
        if self.done:
            self._run_callbacks()

    def release(self) -> None:
        """Mark the request as done, wake waiting threads and run the callbacks."""
        self.done = True
        with contextlib.suppress(RuntimeError):              # cancelled and answered at the same time
            self._latch.release()
        self._run_callbacks()

    def _run_callbacks(self) -> None:
        while True:
            try:
                callback = self._callbacks.popleft()
            except IndexError:
                return
            try:
                callback(self)
            except BaseException as error:                   # must not unwind through the node in the middle of a round
                log.exception("a callback of a reply raised")
                if isinstance(error, EXITS):
                    with contextlib.suppress(ChannelError):  # not connected any more
                        reason = f"a callback of a reply raised {type(error).__name__}"
                        self._channel.connection().interrupt(reason, error)


class Rpc(BaseRpc):
    """Requests and answers of one service of a JChannel. Any thread may call it."""

    def __init__(self, channel: JChannel, handler: Handler | None = None, service: int = 0) -> None:
        """See BaseRpc. May be made before or after the channel connects; lives as long as the channel.

        Raises:
            ValueError: the channel has such a service already.
        """
        super().__init__(channel, handler, service, None)

    def request(self, dest: Address, payload: Any, timeout: float | None = TIMEOUT_SECONDS, flags: int = 0) -> bytes:
        """Send a request to one member, and wait for its answer. timeout: seconds; None: no limit.

        Raises:
            RemoteError: its handler raised. MemberLeftError, RequestTimeoutError: there is no answer.
            ChannelError, ValueError, TypeError: as of `send`, or the channel was closed meanwhile.
        """
        latch = _closed_latch()
        call = self._send_one(dest, payload, Flag.bits(flags), timeout, latch, self._channel.send_timeout)
        try:
            # With several requests under way this thread does not run the loop: answers to others would depend on it.
            if len(self._calls.pending) <= 1:
                self._channel.work_until(lambda: call.outcome is not None, timeout)
            latch.acquire()
        except BaseException:                                # KeyboardInterrupt: no thread waits any more
            self._calls.forget(call)
            raise
        return outcome_of(call)                              # type: ignore[no-any-return]

    def request_many(
        self, dests: Iterable[Address] | None, payload: Any, mode: Mode | str = Mode.ALL,
        timeout: float | None = TIMEOUT_SECONDS, flags: int = 0,
    ) -> Answers:
        """Send a request to several members (None: to all, by one multicast), and wait for the answers that `mode`
        requires.

        Members that fail, leave or are late are listed in the Answers; nothing is raised for them. Returns at once when
        the mode cannot be satisfied any more. None includes this member, if this service has a handler.
        """
        reply = self.start_many(dests, payload, mode, timeout, flags)
        try:
            return reply.result()                            # type: ignore[no-any-return]
        except BaseException:                                # KeyboardInterrupt: no thread waits any more
            reply.cancel()
            raise

    def start(self, dest: Address, payload: Any, timeout: float | None = TIMEOUT_SECONDS, flags: int = 0) -> Reply:
        """As `request`, without waiting."""
        reply = Reply(self._calls.forget, self._channel)
        reply._call = self._send_one(dest, payload, Flag.bits(flags), timeout, reply, self._channel.send_timeout)
        return reply

    def start_many(
        self, dests: Iterable[Address] | None, payload: Any, mode: Mode | str = Mode.ALL,
        timeout: float | None = TIMEOUT_SECONDS, flags: int = 0,
    ) -> Reply:
        """As `request_many`, without waiting."""
        reply, call = Reply(self._calls.forget, self._channel), None
        room = self._channel.send_timeout
        if Mode(mode) is Mode.NONE:
            for dest in [None] if dests is None else dests:
                self.notify(dest, payload, flags)
        else:
            call = self._send_many(dests, payload, Flag.bits(flags), Mode(mode), timeout, reply, room)
        reply._call = call or finished_call(reply)
        return reply

    def notify(self, dest: Address | None, payload: Any, flags: int = 0) -> None:
        """Send a one-way request, which is not answered (None: to all members)."""
        self._notify(dest, payload, flags, self._channel.send_timeout)

    def close(self) -> None:
        """End the service: waiting requests fail, and its number is free."""
        self._hub.remove(self._number)

    def _done(self, finished: list[Call]) -> None:
        for call in finished:
            call.waiter.release()


def _closed_latch() -> threading.Lock:
    latch = threading.Lock()
    latch.acquire()
    return latch


def finished_call(waiter: Reply) -> Call:
    """A request without destinations: it is done."""
    call = Call(0, waiter)
    call.outcome = NO_ANSWERS
    waiter.release()
    return call


def outcome_of(call: Call) -> Any:
    """The answer of a request that is done; raises its exception if it failed."""
    outcome = call.outcome
    if isinstance(outcome, Exception):
        raise outcome
    return outcome
