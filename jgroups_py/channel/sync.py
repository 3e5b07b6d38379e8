"""JChannel: an application's connection to a group. Its methods may be called from any thread.

`connect` returns once this member is in a view; `send` queues and returns, and waits only when the group is slower
than the sender; the receiver is called on one thread, in order (io_thread.py). A channel does not survive a fork: in
the child it is closed, and a new one must be made there. At the end of the program open channels leave their groups.
"""
from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from time import monotonic
from types import TracebackType
from typing import Any, Self, overload

from jgroups_py.channel.base import BaseChannel, ChannelState, ChannelStatus
from jgroups_py.channel.dispatcher import Transfer
from jgroups_py.channel.environment import THREAD_ENVIRONMENT, ThreadIo
from jgroups_py.channel.message import Message, Payload
from jgroups_py.channel.receipt import ThreadReceipt
from jgroups_py.channel.receipts import Until
from jgroups_py.channel.receiver import ReceiverLike
from jgroups_py.channel.session import Session
from jgroups_py.channel.streams import DeliveryStream, GroupEvent
from jgroups_py.channel.validation import Coordinator, provider_of
from jgroups_py.config.load import Source
from jgroups_py.model.address import Address
from jgroups_py.model.batch import RSVP, Flag, Header
from jgroups_py.model.errors import ChannelError, StateTransferError
from jgroups_py.model.events import GetState
from jgroups_py.model.units import seconds
from jgroups_py.model.view import View
from jgroups_py.runtime.send_queue import MESSAGE_COST

LEAVE_SECONDS = 3.0                         # for leaving the group, before the sockets are closed regardless
DRAIN_SECONDS = 0.3                         # for a receiver to handle what came before the end
STOP_SECONDS = 0.5                          # for the callback that runs just then
STATS_SECONDS = 2.0
LATE_SECONDS = 2.0                          # how much later than its timeout a state transfer may report its failure

_channels: weakref.WeakSet[JChannel] = weakref.WeakSet()


class JChannel(BaseChannel):
    """A member of a group, or of none yet."""

    _stream: DeliveryStream | None = None                            # what messages() or events() iterates over

    def __init__(
        self, stack: Source = "udp", name: str | None = None, properties: Mapping[str, object] | None = None,
        receiver: ReceiverLike | None = None,
    ) -> None:
        """`stack`: a stack file, a packaged stack's name, a StackSpec or a list of protocols; `name`: the logical name,
        None: the host's and a number; `properties` fill the file's ${name:default}; `receiver`: see the property.

        Raises:
            ConfigError: with every problem of the stack.
            TypeError, ValueError: the name is no str of at most 255 bytes, or the receiver cannot be called.
        """
        super().__init__(stack, name, properties, receiver)
        self._lock = threading.Condition()
        self._thread: ThreadIo | None = None
        self._ending: Session | None = None
        self._status.over = self._stream_over
        _channels.add(self)

    # --- connect and close ------------------------------------------------------------------------------------------

    def connect(
        self, cluster: str, timeout: float = 10.0, state_from: Address | Coordinator | None = None,
    ) -> Self:
        """Join the group of this name, or found it; with `state_from` (a member, or COORDINATOR), fetch the state too.

        Raises:
            JoinTimeoutError: no view within `timeout` seconds; the channel may be connected again.
            StateTransferError: joined, but the state did not come; the channel is disconnected again.
            ChannelError: it is connected already, closed, or its sockets cannot be opened.
            TypeError, ValueError: the name is no str of 1 to 255 bytes, or `state_from` is no member.
        """
        provider, place = provider_of(state_from), THREAD_ENVIRONMENT.get()
        if self._stream is not None:
            self._stream.begins_connection()
        with self._lock:
            session = self._begin(cluster, self._notify_waiters, place.new_host)
            session.dispatcher.callback_failed = place.callback_failed
            thread = self._thread = place.new_thread(self.name, session.host, session.dispatcher)
        session.state_due = state_from is not None
        session.start()
        thread.start()
        try:
            with self._lock:
                self._lock.wait_for(lambda: session.joined or session.ended, timeout)
            if not session.joined:
                raise self._join_failure(session, timeout)
            if state_from is not None:
                self.get_state(provider, timeout)
                session.state_due = False
        except BaseException:
            self._end(session)
            raise
        return self

    def disconnect(self) -> None:
        """Leave the group gracefully; the channel may be connected again."""
        with self._lock:
            session = self._session
        if session is not None:
            self._end(session)

    def close(self, *, forget: bool = False) -> None:
        """Leave the group and end the channel. Closing again does nothing.

        With RELAY, other sites hold for a site whose last member has left, as after a crash, until it is back.
        forget: they do not, as it does not return: the last member leaves its site OFFLINE at once.

        Raises:
            ValueError: `forget` needs RELAY in the stack; nothing was done.
        """
        self._check_forget(forget)
        with self._lock:
            session = self._session
        if session is not None:
            self._end(session, forget)
        with self._lock:
            self._status.state = ChannelState.CLOSED

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        self.close()

    def work_until(self, holds: Callable[[], bool], timeout: float | None) -> None:
        """See BaseChannel.work_until, and io_thread.py for when it runs rounds."""
        if self._thread is not None:
            self._thread.work_until(holds, timeout)

    def _notify_waiters(self) -> None:
        with self._lock:
            self._lock.notify_all()

    def _end(self, session: Session, forget: bool = False) -> None:
        """Leave, stop the I/O thread; the second caller waits for the first, unless it is inside a callback."""
        thread = self._thread
        assert thread is not None, "a session has a thread"
        with self._lock:
            if self._ending is session:
                if not thread.current():
                    self._lock.wait_for(lambda: self._ending is not session, LEAVE_SECONDS + STOP_SECONDS)
                return
            self._ending = session
        if self._stream is not None:
            self._stream.release()
        session.leave(forget)
        self._wait_ended(session, LEAVE_SECONDS)
        if not session.ended:
            session.host.kill("left without the group's consent")
            self._wait_ended(session, STOP_SECONDS)
        thread.stop(DRAIN_SECONDS, STOP_SECONDS)
        session.host.join()
        with self._lock:
            self._status.session_ended(session)
            self._ending = None
            self._lock.notify_all()

    def _wait_ended(self, session: Session, timeout: float) -> None:
        self._wait_until(lambda: session.ended, timeout)

    def _wait_until(self, holds: Callable[[], bool], timeout: float | None) -> None:
        self.work_until(holds, timeout)
        with self._lock:
            self._lock.wait_for(holds, timeout)

    # --- send -------------------------------------------------------------------------------------------------------

    @overload
    def send(
        self, dest: Payload | Message, /, *, flags: int = 0,
        headers: Mapping[int, bytes] | None = None, timeout: float | None = None, until: None = None,
        wait: bool = True, topic: str | int | None = None,
    ) -> None: ...

    @overload
    def send(
        self, dest: Payload | Message, /, *, flags: int = 0,
        headers: Mapping[int, bytes] | None = None, until: str | Iterable[str], timeout: float | None = None,
        wait: bool = True, topic: str | int | None = None,
    ) -> ThreadReceipt: ...

    @overload
    def send(
        self, dest: Address | None, payload: Payload | None = None, flags: int = 0, *,
        headers: Mapping[int, bytes] | None = None, timeout: float | None = None, until: None = None,
        wait: bool = True, topic: str | int | None = None,
    ) -> None: ...

    @overload
    def send(
        self, dest: Address | None, payload: Payload | None = None, flags: int = 0, *,
        headers: Mapping[int, bytes] | None = None, until: str | Iterable[str], timeout: float | None = None,
        wait: bool = True, topic: str | int | None = None,
    ) -> ThreadReceipt: ...

    def send(
        self, dest: Address | Message | Payload | None, payload: Payload | None = None, flags: int = 0, *,
        headers: Mapping[int, bytes] | None = None, timeout: float | None = None,
        until: str | Iterable[str] | None = None, wait: bool = True, topic: str | int | None = None,
    ) -> ThreadReceipt | None:
        """Send to `dest` (None: all members), or a payload alone to all, or a Message.

        Returns when it is queued, or when `until` holds.

        Order: each receiver gets the messages of one sender in the order of sending, once and without holes. Between
        different senders there is no order, unless the stack has a protocol for it.

        timeout: seconds to wait for room and for `until`, `send_timeout` of the channel by default.
        until: "stable": all members of the own group have the message; "handled": their receivers have returned from
        it (the flag RSVP means the same); "ordered": its place in the total order is final, which needs TOTAL. With
        RELAY, "stable@SITE" and "handled@SITE" speak of the members of that site, "...@*" of all sites that are not
        OFFLINE; or a list of these. Returns the Receipt; with wait=False at once, without waiting.
        A member that crashes or leaves meanwhile is waited for no more, and named in `receipt.left`. One that joins
        meanwhile is not waited for. Members that a partition cuts off are waited for until a view lacks them, and stay
        in `left` if they come back. At the timeout the message is on its way, and what became of it is not known.
        topic: the topic of a message to all: a name, or a number from 0 to 63. Members that subscribe to it get the
        message, and it crosses to sites with such a member. Needs TOPICS.

        Raises:
            NotConnectedError, ChannelClosedError: nothing was sent.
            SendTimeoutError: the group stayed slower than this sender; nothing was sent.
            UnknownSiteError: `until` names a site that is not known; nothing was sent.
            MessageLostError: it was sent, but is lost for a site that `until` names.
            ReceiptTimeoutError, ReceiptError: it was sent; whether `until` holds is not known (the channel was closed).
            ValueError, TypeError: the payload is too large or no bytes, or a header's id is a protocol's.
        """
        if (dest is None and payload.__class__ is bytes and not flags and headers is None and topic is None
                and until is None):                          # plain: the short way, see send_queue.Intake
            intake = self._status.intake
            left = intake.left - len(payload)
            if left > 0:
                intake.append(payload)
                intake.left = left - MESSAGE_COST
                if not intake.attend or intake.tell(payload):
                    return None
            elif self._observer is not None and self._passes(payload):
                return None
        session = self.connection()
        dest, data, bits, wired = self._checked_parts(dest, payload, flags, headers, topic)
        room = self.send_timeout if timeout is None else timeout
        if self._observer is not None and (observer := self._asking()) is not None:
            with observer.sending(dest, (data,), wired) as wired:
                if until is not None or bits & RSVP:
                    return self.send_until(self.checked_until(until, dest, bits), data, bits, wired, room, wait)
                session.sends.put(dest, data, bits, wired, room)
                session.sends.renew()                        # the observer may let some pass again
                return None
        if until is not None or bits & RSVP:
            return self.send_until(self.checked_until(until, dest, bits), data, bits, wired, room, wait)
        session.sends.put(dest, data, bits, wired, room)
        return None

    def send_until(
        self, until: Until, data: bytes, bits: int, wired: tuple[Header, ...], timeout: float | None, wait: bool,
    ) -> ThreadReceipt:
        """For building blocks: `send` to all with headers of theirs, and with what `checked_until` returned."""
        def check() -> None:
            self._check_handled(until, self._inside_callback())

        def block(holds: Callable[[], bool], over: threading.Event, seconds: float | None) -> None:
            ends = None if seconds is None else monotonic() + seconds
            self.work_until(holds, seconds)
            over.wait(None if ends is None else max(0.0, ends - monotonic()))

        if wait:
            check()
        receipt = ThreadReceipt(until.words, block, check)
        self.receipts.start(until, receipt, data, bits, wired, timeout, timeout)
        return receipt.result() if wait else receipt

    def send_batch(
        self, dest: Address | None, payloads: Iterable[Any], flags: int = 0, *,
        headers: Mapping[int, bytes] | None = None, timeout: float | None = None, topic: str | int | None = None,
    ) -> None:
        """Send many messages as `send` does one after the other, for less, and raise as it does.

        SendTimeoutError: the first ones may have been sent, the rest was not.
        """
        session = self.connection()
        found = self._all_bytes(dest, payloads, flags)
        wired, wait = self._wire_headers(headers, topic, dest), self.send_timeout if timeout is None else timeout
        if self._observer is not None and (observer := self._asking()) is not None:
            with observer.sending(dest, found, wired) as wired:
                return session.sends.put_all(dest, found, Flag.bits(flags), wired, wait)
        return session.sends.put_all(dest, found, Flag.bits(flags), wired, wait)

    # --- receive ----------------------------------------------------------------------------------------------------

    def messages(self, *, timeout: float | None = None) -> Iterator[Message]:
        """Iterate over the messages that are delivered from now on; see channel/streams.py for a loop that is slow.

        A second call goes on where the loop before it stopped. The iteration ends with the connection, or after
        `timeout` seconds without a message. What `on_view` and `on_state` registered is called besides.

        Raises:
            ChannelError: the channel has a receiver or a function for messages, or `events()` was called.
        """
        return self._iterate(False, timeout)

    def events(self, *, timeout: float | None = None) -> Iterator[GroupEvent]:
        """Iterate over messages and the events around them in order, beginning with the present view; as `messages()`.

            for event in ch.events():
                match event:
                    case jg.Message(): ...
                    case jg.View(): ...
        """
        return self._iterate(True, timeout)

    def _iterate(self, events: bool, timeout: float | None) -> Iterator[Any]:
        functions, stream = self._own_functions(), self._stream
        if stream is None:
            stream = DeliveryStream(events)
            functions.open_stream(stream.calls())
            stream.begin(self._receiver_changed, lambda: self.view)
            self._stream = stream
        elif stream.events != events:
            raise ChannelError("a channel's messages() and events() exclude each other: the one that was called first "
                               "takes the messages (until `ch.receiver = None`)")
        return stream.iterate(timeout, self._inside_callback)

    def _inside_callback(self) -> bool:
        return self._thread is not None and self._thread.current()

    def _receiver_changed(self) -> None:
        if self._functions is None and self._stream is not None:
            self._stream.finish()
            self._stream = None
        super()._receiver_changed()

    def _stream_over(self) -> None:
        if self._stream is not None:
            self._stream.finish()

    def wait_for(self, *, members: int, timeout: float | None = None) -> View:
        """Wait until the view has so many members, or more; returns that view.

        timeout: seconds, None: for ever.

        Raises:
            MembersTimeoutError: it has not in time. ChannelError: inside a callback the view does not change.
            NotConnectedError, ChannelClosedError: there is no view, or not any more.
        """
        self._check_wait(members, self._inside_callback())
        self._wait_until(lambda: self._waited_enough(members), timeout)
        return self._awaited_view(members, timeout)

    # --- state and figures ------------------------------------------------------------------------------------------

    def get_state(self, target: Address | Coordinator | None = None, timeout: float = 10.0) -> None:
        """Fetch the state of `target` (None: the coordinator) into the receiver's set_state; returns when it is set.

        timeout: seconds in which nothing of it arrives; a large state may take longer while it moves.
        With RELAY, `target` may be a member of another site: then all members of this site take its state (relay rule
        16), and what this site multicasts waits until they have.

        Raises:
            StateTransferError: it did not come, or not wholly; set_state may have seen a part. Or another one is on
                its way to this channel.
            NotConnectedError, ChannelClosedError: no state was requested.
            TypeError: the target is no member.
        """
        provider, session, thread = provider_of(target), self.connection(), self._thread
        assert thread is not None, "a session has a thread"
        with self._lock:
            if session.dispatcher.transfer is not None:
                raise StateTransferError("another get_state of this channel is under way")
            transfer = session.dispatcher.transfer = Transfer(self._notify_waiters)
        try:
            session.sends.put_event(GetState(provider, seconds(timeout)), 0, timeout)
            if thread.current():
                session.dispatcher.pump(lambda: transfer.error is not None, timeout + LATE_SECONDS)
            else:
                self._wait_for(transfer, session, timeout)
        finally:
            session.dispatcher.transfer = None
        if transfer.error is None:
            raise StateTransferError(f"no state within {timeout:g} s")
        if transfer.error:
            raise StateTransferError(transfer.error)

    def _wait_for(self, transfer: Transfer, session: Session, timeout: float) -> None:
        """The protocol keeps the time; a state that is arriving may take longer than `timeout`."""
        until = monotonic() + timeout + LATE_SECONDS
        with self._lock:
            while transfer.error is None and not session.ended:
                if monotonic() > until and not session.dispatcher.reading_state:
                    return
                self._lock.wait(LATE_SECONDS)

    def stats(self) -> dict[str, dict[str, float]]:
        """Protocol name -> its counters; "channel" has those of the channel itself. Empty while not connected."""
        session = self._session
        if session is None:
            return {}
        found: list[dict[str, dict[str, float]]] = []

        def answered(figures: Any) -> None:
            found.append(figures)
            self._notify_waiters()

        session.host.ask(session.host.stats, answered)
        self._wait_until(lambda: bool(found) or session.ended, STATS_SECONDS)
        if not found or found[0] is None:
            return {}
        found[0]["channel"].update({**session.dispatcher.counters, **self.receipts.counters})
        return found[0]

    # --- fork and exit ----------------------------------------------------------------------------------------------

    def _forked(self) -> None:
        self._lock = threading.Condition()
        self._thread = None
        self._status = ChannelStatus(ChannelState.CLOSED, "a channel does not survive a fork; make a new one")


def join(
    cluster: str, *, stack: Source = "udp", name: str | None = None, properties: Mapping[str, object] | None = None,
    receiver: ReceiverLike | None = None, timeout: float = 10.0, state_from: Address | Coordinator | None = None,
) -> JChannel:
    """A channel that is connected: `JChannel(stack, name, properties, receiver).connect(cluster, timeout, state_from)`.

        with jg.join("chat", name="A", receiver=print) as ch:
            ch.send(b"hello, all")

    A receiver gets everything from the first view on, functions that are registered afterwards what comes after that.
    If it does not connect, the channel is closed. Raises what both raise.
    """
    channel = JChannel(stack, name, properties, receiver)
    try:
        return channel.connect(cluster, timeout, state_from)
    except BaseException:
        channel.close()
        raise


def _after_fork() -> None:
    for channel in list(_channels):
        channel._forked()


@atexit.register
def _at_exit() -> None:
    """Leave all groups: first ask everywhere, so that the waits overlap."""
    channels = [channel for channel in list(_channels) if channel._session is not None]
    for channel in channels:
        if channel._session is not None:
            channel._session.leave(forget=False)
    for channel in channels:
        channel.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
