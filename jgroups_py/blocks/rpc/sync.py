"""Rpc: requests over a JChannel, for threads.

    def add(request):
        a, b = struct.unpack(">qq", request.payload)
        return struct.pack(">q", a + b)

    rpc = Rpc(channel, add)
    rpc.request(member, struct.pack(">qq", 1, 2), timeout=2.0)      # -> bytes, or raises a RequestError
    rpc.request_many(None, payload, Mode.MAJORITY).values           # {member: bytes}
    replies = [rpc.start(member, payload) for payload in many]      # concurrent: they travel as runs
    results = [reply.result() for reply in replies]
"""
from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from jgroups_py.address import Address
from jgroups_py.batch import Flag
from jgroups_py.blocks.rpc.calls import Answers, Call, Mode
from jgroups_py.blocks.rpc.client import NOBODY, TIMEOUT_SECONDS, BaseRpc
from jgroups_py.blocks.rpc.serving import Handler
from jgroups_py.channel import JChannel
from jgroups_py.errors import RequestTimeoutError

log = logging.getLogger("jgroups_py")


class Reply:
    """What came or will come of a request."""

    __slots__ = ("_call", "_callbacks", "_forget", "_latch", "_work_until", "done")

    def __init__(
        self, forget: Callable[[Call], None], work_until: Callable[[Callable[[], bool], float | None], None],
    ) -> None:
        self.done = False                                    # whether it is over: answered, failed, or late
        self._latch = _closed_latch()
        self._forget = forget
        self._work_until = work_until
        self._callbacks: deque[Callable[[Reply], None]] = deque()
        self._call: Call | None = None

    def result(self, timeout: float | None = None) -> Any:
        """The answer (bytes, or Answers of a request to many); waits for it.

        Raises:
            RequestError: see Rpc.request.
            TimeoutError: not over within `timeout` seconds; the request goes on (it has a timeout of its own).
        """
        if not self.done:
            self._work_until(lambda: self.done, timeout)
            if not self._latch.acquire(timeout=-1 if timeout is None else timeout):
                raise TimeoutError(f"not over within {timeout:g} s")
            self._latch.release()                            # whoever else waits
        assert self._call is not None, "a reply has its call before anybody can wait"
        return outcome_of(self._call)

    def cancel(self) -> None:
        """Forget it: it ends with RequestTimeoutError, an answer that comes is dropped."""
        call = self._call
        if call is not None and not self.done:
            self._forget(call)
            call.outcome = call.outcome or RequestTimeoutError("cancelled")
            self.release()

    def when_done(self, callback: Callable[[Reply], None]) -> None:
        """Call `callback` with this reply once it is over, at once if it is.

        It runs inside a round of the channel's loop and must return soon; hand work to a thread of your own.
        """
        self._callbacks.append(callback)
        if self.done:
            self._run_callbacks()

    def release(self) -> None:
        """It is over."""
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
            except Exception:
                log.exception("a callback of a reply raised")


class Rpc(BaseRpc):
    """Requests and answers of one service of a JChannel. Any thread may call it."""

    def __init__(self, channel: JChannel, handler: Handler | None = None, service: int = 0) -> None:
        """See BaseRpc. May be made before or after the channel connects; lives as long as the channel.

        Raises:
            ValueError: the channel has such a service already.
        """
        super().__init__(channel, handler, service, None)

    def request(self, dest: Address, payload: Any, timeout: float | None = TIMEOUT_SECONDS, flags: int = 0) -> bytes:
        """Ask one member; its answer. timeout: seconds, None to wait for ever.

        Raises:
            RemoteError: its handler raised. MemberLeftError, RequestTimeoutError: there is no answer.
            ChannelError, ValueError, TypeError: as of `send`, or the channel was closed meanwhile.
        """
        latch = _closed_latch()
        call = self._send_one(dest, payload, Flag.bits(flags), timeout, latch, self._channel.send_timeout)
        try:
            if len(self._calls.pending) <= 1:                # others' answers must not wait for us to come round again
                self._channel._work_until(lambda: call.outcome is not None, timeout)
            latch.acquire()
        except BaseException:                                # Ctrl-C: nobody waits any more
            self._calls.forget(call)
            raise
        return outcome_of(call)                              # type: ignore[no-any-return]

    def request_many(
        self, dests: Iterable[Address] | None, payload: Any, mode: Mode | str = Mode.ALL,
        timeout: float | None = TIMEOUT_SECONDS, flags: int = 0,
    ) -> Answers:
        """Ask several members (None: all of the group, by one multicast), wait for as many answers as `mode` says.

        Members that fail, leave or are late are in the Answers; nothing is raised for them. It returns at once when the
        mode cannot be satisfied any more. None asks ourselves too, if this service has a handler.
        """
        reply = self.start_many(dests, payload, mode, timeout, flags)
        try:
            return reply.result()                            # type: ignore[no-any-return]
        except BaseException:                                # Ctrl-C: nobody waits any more
            reply.cancel()
            raise

    def start(self, dest: Address, payload: Any, timeout: float | None = TIMEOUT_SECONDS, flags: int = 0) -> Reply:
        """As `request`, without waiting."""
        reply = Reply(self._calls.forget, self._channel._work_until)
        reply._call = self._send_one(dest, payload, Flag.bits(flags), timeout, reply, self._channel.send_timeout)
        return reply

    def start_many(
        self, dests: Iterable[Address] | None, payload: Any, mode: Mode | str = Mode.ALL,
        timeout: float | None = TIMEOUT_SECONDS, flags: int = 0,
    ) -> Reply:
        """As `request_many`, without waiting."""
        reply, call = Reply(self._calls.forget, self._channel._work_until), None
        room = self._channel.send_timeout
        if Mode(mode) is Mode.NONE:
            for dest in [None] if dests is None else dests:
                self.tell(dest, payload, flags)
        else:
            call = self._send_many(dests, payload, Flag.bits(flags), Mode(mode), timeout, reply, room)
        reply._call = call or nobody(reply)
        return reply

    def tell(self, dest: Address | None, payload: Any, flags: int = 0) -> None:
        """Send a request that nobody answers (None: to all members)."""
        self._tell(dest, payload, flags, self._channel.send_timeout)

    def close(self) -> None:
        """End the service: what waits fails, and its number is free."""
        self._hub.remove(self._number)

    def _done(self, finished: list[Call]) -> None:
        for call in finished:
            call.waiter.release()


def _closed_latch() -> threading.Lock:
    latch = threading.Lock()
    latch.acquire()
    return latch


def nobody(waiter: Reply) -> Call:
    """The request that asked nobody: it is over."""
    call = Call(0, waiter)
    call.outcome = NOBODY
    waiter.release()
    return call


def outcome_of(call: Call) -> Any:
    """The answer of a request that is over, or its exception raised."""
    outcome = call.outcome
    if isinstance(outcome, Exception):
        raise outcome
    return outcome
