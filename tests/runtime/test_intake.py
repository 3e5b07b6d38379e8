"""The short way of plain messages into the send queue: none is lost, doubled, or left alone while the loop sleeps.

The hand-over is explored: JChannel.send, the queue, and the host's and the loop's part in it, as they are, in all
interleavings of a loop, a sender and a second one, or a thread that closes, with one preemption (all_interleavings.py:
with two). Broken variants show that it finds what it is to find.
"""
from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from jgroups_py.channel.base import ChannelStatus
from jgroups_py.channel.sync import JChannel
from jgroups_py.model.address import Address
from jgroups_py.model.errors import NotConnectedError, ReceiversMissingError, SendTimeoutError
from jgroups_py.model.events import AppBusy
from jgroups_py.model.outputs import GroupConnected
from jgroups_py.runtime.host import Host
from jgroups_py.runtime.loop import NEVER_NS, Loop
from jgroups_py.runtime.send_queue import (
    FULL_BYTES,
    INTAKE_BYTES,
    LIMIT_BYTES,
    MESSAGE_COST,
    QueuedBatch,
    SendQueue,
)
from tests.runtime.interleavings import Interleaving, Trial, TurnLock, explore

ALL = 1 << 40
B = Address(bytes(15) + b"b", "B")
FILES = ("runtime/send_queue.py", "channel/sync.py", "runtime/host.py", "runtime/loop.py", "runtime/test_intake.py")
SHARED = ("append", "attend", "left", "tell", "uncounted", "_gated", "counted_bytes", "_asleep", "_step",
          "_reader_waits", "needs_round", "nbytes", "wake_reader", "poll", "acquire", "release", "intake", "_queued")


def sender(sends: SendQueue) -> Callable[..., None]:
    """JChannel.send, on a channel that has nothing but this queue."""
    def connection() -> Any:
        return SimpleNamespace(sends=sends)

    channel: Any = SimpleNamespace(
        _status=ChannelStatus(intake=sends.intake), connection=connection, send_timeout=5.0, _observer=None,
        _checked_parts=lambda dest, payload, flags, headers, topic: (dest, payload, flags, headers or ()))
    return lambda dest, payload, **options: JChannel.send(channel, dest, payload, **options)


# --- one thread -----------------------------------------------------------------------------------------------------

@pytest.fixture
def sends() -> SendQueue:
    made = SendQueue(lambda: None)
    made.open_intake(INTAKE_BYTES)
    return made


def taken(sends: SendQueue) -> list[Any]:
    return [(item.dest, item.payloads) if isinstance(item, QueuedBatch) else item[0] for item in sends.take(ALL)]


def test_what_took_the_lane_keeps_its_place_among_all_that_is_queued(sends):
    send, event = sender(sends), AppBusy(True)
    send(None, b"1")
    send(None, b"2", timeout=3)
    send(B, b"3")
    send(None, b"4")
    sends.put_event(event, 0, 0)
    send(None, b"5")
    sends.put_all(None, [b"6"], 0, (), 0)
    send(None, b"7", flags=4)
    send(None, b"8")
    assert taken(sends) == [(None, [b"1", b"2"]), (B, [b"3"]), (None, [b"4"]), event, (None, [b"5", b"6"]),
                            (None, [b"7"]), (None, [b"8"])]
    assert (sends.nbytes, sends.sent) == (0, 8)


def test_what_is_in_the_lane_counts(sends):
    send = sender(sends)
    send(None, bytes(1000))
    assert (sends.nbytes, sends.sent) == (1000 + MESSAGE_COST, 1)
    send(None, b"")
    assert (sends.nbytes, sends.sent) == (1000 + 2 * MESSAGE_COST, 2)
    sends.take(ALL)
    assert sends.nbytes == 0


def test_the_lane_lets_no_more_into_the_queue_than_the_limit(sends):
    send, fit = sender(sends), LIMIT_BYTES // (1000 + MESSAGE_COST)
    for _ in range(fit):
        send(None, bytes(1000), timeout=0)
    with pytest.raises(SendTimeoutError):
        send(None, bytes(1000), timeout=0)
    assert sends.sent == fit
    assert sends.intake.left == 0
    sends.take(FULL_BYTES)
    assert sends.intake.left == INTAKE_BYTES


def test_a_queue_that_is_nearly_full_lets_into_the_lane_what_there_is_room_for(sends):
    send, fit = sender(sends), (LIMIT_BYTES - 10 * (1000 + MESSAGE_COST)) // (1000 + MESSAGE_COST)
    sends.put_all(None, [bytes(1000)] * fit, 0, (), 0)
    assert 10 * 1000 < sends.intake.left < INTAKE_BYTES
    for _ in range(9):
        send(None, bytes(1000), timeout=0)
    assert len(sends.uncounted) == 9, "none took the long way"
    with pytest.raises(SendTimeoutError):
        send(None, bytes(10 * 1000), timeout=0)
    assert sends.nbytes <= LIMIT_BYTES


@pytest.mark.parametrize("sizes", [[0], [100], [10_000], [0, 1, 300, 5000], [5000, 1]])
def test_no_more_messages_pass_than_may_and_what_is_smaller_than_the_last_ones_passes_soon(sends, sizes):
    """Until one takes the long way: in steps, as the sizes of those to come are not known."""
    countdown = SimpleNamespace(passing=500)
    sends.count_down(countdown)
    passed = 0
    while countdown.passing > 0:
        payload = bytes(sizes[passed % len(sizes)])
        if sends.intake.left - len(payload) <= 0:
            sends.renew()
            sends.take(ALL)
        if countdown.passing <= 0:
            break                                            # this one is looked at
        if sends.intake.left - len(payload) <= 0:            # too large for what so few messages may cost
            countdown.passing -= 1
        else:
            sends.intake.append(payload)
            sends.intake.left -= len(payload) + MESSAGE_COST
        passed += 1
        assert passed < 1500
    assert 500 <= passed <= (500 if len(sizes) == 1 else 1000)
    assert sends.intake.left - 1 <= 0, "the next one takes the long way"
    sends.count_down(None)
    assert sends.intake.left == INTAKE_BYTES


def test_a_message_that_is_too_large_for_the_stack_does_not_take_the_lane():
    sends = SendQueue(lambda: None)
    sends.open_intake(500)
    assert sends.intake.left - 500 > 0 >= sends.intake.left - 501


def test_the_loop_is_told_once_after_each_take():
    told: list[int] = []
    sends = SendQueue(lambda: told.append(1))
    sends.open_intake(INTAKE_BYTES)
    send = sender(sends)
    for expected in (1, 2):
        for _ in range(100):
            send(None, b"x")
        assert len(told) == expected
        sends.take(ALL)


def test_a_queue_that_holds_much_is_reported_whenever_the_lane_is_counted():
    told: list[int] = []
    sends = SendQueue(lambda: told.append(sends.nbytes))
    sends.open_intake(INTAKE_BYTES)
    send = sender(sends)
    for _ in range(2 * FULL_BYTES // (1000 + MESSAGE_COST)):
        send(None, bytes(1000))
    assert [nbytes >= FULL_BYTES for nbytes in told] == [False, True, True, True, True]


def test_a_closed_queue_refuses_what_was_on_its_way_into_the_lane(sends):
    send, append = sender(sends), sends.intake.append
    send(None, b"in time")

    def late(payload: bytes) -> None:                        # the thread was preempted just before it appended
        sends.close(lambda: NotConnectedError("gone"))
        append(payload)

    sends.intake.append = late
    with pytest.raises(NotConnectedError):
        send(None, b"late")
    assert taken(sends) == [(None, [b"in time"])]
    with pytest.raises(NotConnectedError):
        send(None, b"later")
    assert sends.nbytes == 0


def test_a_group_without_receivers_refuses_what_took_the_lane_before_the_news(sends):
    send = sender(sends)
    sends.connected(GroupConnected(False, receivers=0, wanted=1, raises=True))
    with pytest.raises(ReceiversMissingError):
        send(None, b"refused")
    sends.intake.left = 1000                                   # as a thread may leave it that was preempted in `send`
    with pytest.raises(ReceiversMissingError):
        send(None, b"refused, too")
    sends.connected(GroupConnected(True, receivers=1, wanted=1, raises=True))
    send(None, b"sent")
    assert taken(sends) == [(None, [b"sent"])]


# --- threads --------------------------------------------------------------------------------------------------------

class Node:
    """Takes what is sent."""

    me = B
    next_deadline_ns = None

    def __init__(self) -> None:
        self.outputs: list[object] = []
        self.sent: list[bytes] = []

    def pending_bytes(self) -> int:
        return 0

    def send(self, batch: Any, now_ns: int) -> None:
        self.sent += batch.payloads

    def advance(self, now_ns: int) -> None:
        pass


class Member(Host):
    """A host and its loop, of which all that takes part in the hand-over is real."""

    def __init__(self, run: Interleaving, sends: type[SendQueue] = SendQueue) -> None:
        self.run = run
        self.woken = False
        self.node: Any = Node()
        self.sends = sends(self._queued)
        self.sends._lock = TurnLock(run)                     # type: ignore[assignment]
        self.sends.open_intake(INTAKE_BYTES)
        self.coalesces_sends = False
        self._main_thread = threading.main_thread().ident
        self._last_send = (0, 0, 0)
        self._held_back = self._over = False
        self._unchecked_bytes = 0
        self._leave_by_ns = None
        self._log_check_ns = NEVER_NS
        self._for_application = []
        self.loop = Loop(self)
        for made in (self.loop._poller, self.loop._waker, self.loop._woken):
            made.close()                                     # type: ignore[attr-defined]
        self.loop._poller = self                             # type: ignore[assignment]
        self.loop._step = TurnLock(run)                      # type: ignore[assignment]
        self.loop.wake_reader = self.wake
        self.loop._deadline_ns = NEVER_NS

    def wake(self) -> None:
        """Wake the loop that sleeps in `poll`."""
        self.woken = True

    def poll(self, timeout: float) -> list[Any]:
        """Sleep until the loop is woken; for ever, if all others have ended, and then nothing may wait."""
        if timeout:
            self.run.wait_until(lambda: self.woken or self.run.others_ended)
            assert self.woken or not self.sends.nbytes, "the loop sleeps although something was queued"
        self.woken = False
        return []

    def rounds(self) -> None:
        """What the loop's thread does."""
        while not self.run.others_ended or self.sends.nbytes:
            self.loop.round(lambda: False)

    def fail(self, error: BaseException) -> None:
        raise error


def flood(*names: bytes, sends: type[SendQueue] = SendQueue, send: Any = sender) -> Trial:
    """Each sender sends two messages; all must come, once, in the order of their sender."""
    def trial(run: Interleaving) -> Any:
        member = Member(run, sends)

        def sending(name: bytes) -> Callable[[], None]:
            to = send(member.sends)
            return lambda: (to(None, name + b"1"), to(None, name + b"2"))

        def check() -> None:
            sent = member.node.sent
            assert sorted(sent) == sorted(name + number for name in names for number in (b"1", b"2"))
            assert all(sent.index(name + b"1") < sent.index(name + b"2") for name in names)
        return [*map(sending, names), member.rounds], check
    return trial


def closing(sends: type[SendQueue] = SendQueue) -> Trial:
    """A sender, and a thread that closes the queue: what was sent without an error comes, what was refused does not."""
    def trial(run: Interleaving) -> Any:
        member = Member(run, sends)
        send, accepted = sender(member.sends), list[bytes]()

        def sending() -> None:
            for payload in (b"1", b"2"):
                try:
                    send(None, payload)
                    accepted.append(payload)
                except NotConnectedError:
                    pass

        def close() -> None:
            member.sends.close(lambda: NotConnectedError("gone"))

        def check() -> None:
            assert member.node.sent == accepted
            with pytest.raises(NotConnectedError):
                send(None, b"after the end")
        return [sending, close, member.rounds], check
    return trial


@pytest.mark.slow
@pytest.mark.parametrize("trial", [flood(b"a", b"b"), closing()], ids=["two senders", "closing"])
def test_in_all_interleavings_every_message_comes_once_and_in_order(trial):
    assert explore(trial, FILES, SHARED, preemptions=1) > 50


class ResetsAfterwards(SendQueue):
    """Tells the loop first, and resets the flag afterwards."""

    def _tell(self, payload: bytes) -> bool:
        self._queued()
        self.intake.attend = False
        return True


class ResetsAlways(SendQueue):
    """Resets the flag though the loop has taken the message meanwhile; so it was at first."""

    def _tell(self, payload: bytes) -> bool:
        with self._lock:
            self.intake.attend = False
        self._queued()
        return True


class CountsAfterwards(SendQueue):
    """Counts what it has taken out of the intake, and not what is still there; so it was at first."""

    def _count_intake(self) -> None:
        payloads = self.uncounted[:]
        self.uncounted.clear()
        if payloads:
            self._open_batch(None, 0, ()).payloads += payloads
            self._open = None
            self._items[-1].nbytes = len(payloads)           # type: ignore[union-attr]
            self.counted_bytes += len(payloads)


class ForgetsLateOnes(SendQueue):
    """Leaves what came after the end in the intake."""

    def _taken_back(self, payload: bytes) -> bool:
        return False


def looks_first(sends: SendQueue) -> Callable[..., None]:
    """A send that looks at the flag first, and appends afterwards."""
    def send(dest: None, payload: bytes) -> None:
        intake = sends.intake
        attend = intake.attend
        intake.append(payload)
        if attend:
            intake.tell(payload)
    return send


@pytest.mark.slow
@pytest.mark.parametrize(("trial", "preemptions"), [
    (flood(b"a", sends=ResetsAfterwards), 2), (closing(CountsAfterwards), 1), (flood(b"a", sends=ResetsAlways), 1),
    (flood(b"a", send=looks_first), 2), (closing(ForgetsLateOnes), 1),
], ids=["reset afterwards", "counts afterwards", "always reset", "looks first", "late ones"])
def test_a_broken_hand_over_is_found(trial, preemptions):
    with pytest.raises(AssertionError):
        explore(trial, FILES, SHARED, preemptions)


def test_many_threads_that_flood_lose_nothing(sends):
    """The same without a schedule: whatever the machine does."""
    send, found = sender(sends), list[bytes]()
    threads = [threading.Thread(target=lambda name=name: [send(None, name + number.to_bytes(4, "big"))
                                                          for number in range(5000)]) for name in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads) or sends.nbytes:
        for _, payloads in taken(sends):
            found += payloads
    for name in (b"a", b"b", b"c"):
        assert [one for one in found if one[:1] == name] == [name + number.to_bytes(4, "big") for number in range(5000)]
    assert sends.sent == len(found) == 15_000
