"""How senders are admitted to the send queue: receivers before room, both looked at again after each wake-up."""
from __future__ import annotations

import threading
from collections.abc import Callable
from random import Random

import pytest

from jgroups_py.channel.receipts import Receipts
from jgroups_py.model.address import Address
from jgroups_py.model.errors import ReceiversMissingError, SendTimeoutError
from jgroups_py.model.outputs import GroupConnected
from jgroups_py.runtime.send_queue import MESSAGE_COST, OVERDRAFT, SendQueue
from jgroups_py.wire.block_headers import Ask
from tests.runtime.helpers import PATIENCE_SECONDS

ALL = 1 << 40
B = Address(bytes(15) + b"b", "B")
MISSING = GroupConnected(False, 1, 3)
REFUSING = GroupConnected(False, 1, 3, raises=True)
ENOUGH = GroupConnected(True, 3, 3)

Put = Callable[[SendQueue, float | None], None]


class Numbered:
    """A stream of multicasts."""

    dest: Address | None = None

    def __init__(self) -> None:
        self.drawn = 0

    def number(self, item: object, count: int) -> int:
        self.drawn += count
        return self.drawn

    def headers(self, first: int) -> tuple[Ask, ...]:
        return (Ask(0, first),)


def put(sends: SendQueue, timeout: float | None) -> None:
    sends.put(None, b"", 0, (), timeout)


def put_all(sends: SendQueue, timeout: float | None) -> None:
    sends.put_all(None, [b""], 0, (), timeout)


def put_numbered(sends: SendQueue, timeout: float | None) -> None:
    sends.put_numbered(Numbered(), None, (b"",), 0, timeout)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The queue's clock, which a test sets."""
    found = [100.0]
    monkeypatch.setattr("jgroups_py.runtime.send_queue.monotonic", lambda: found[0])
    return found


every_put = pytest.mark.parametrize("put", [put, put_all, put_numbered])


def full_queue() -> SendQueue:
    sends = SendQueue(lambda: None, limit_bytes=2 * MESSAGE_COST)
    for _ in range(2):
        sends.put(B, b"", 0, (), 0)
    return sends


class Sender:
    """A thread that puts; `raised` is what came of it."""

    def __init__(self, put: Put, sends: SendQueue, timeout: float | None = PATIENCE_SECONDS) -> None:
        self.raised: BaseException | None = None
        self._put, self._sends, self._timeout = put, sends, timeout
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._put(self._sends, self._timeout)
        except Exception as error:                           # noqa: BLE001  looked at by the test
            self.raised = error

    def waits(self, number: int = 1) -> bool:
        """Wait until so many senders wait in the queue, or this one is done; whether it waits."""
        pause = threading.Event()
        while self._thread.is_alive() and self._sends._blocked < number:
            pause.wait(0.001)
        return self._thread.is_alive()

    def ended(self) -> bool:
        self._thread.join(PATIENCE_SECONDS)
        return not self._thread.is_alive()


@every_put
def test_a_group_that_refuses_multicasts_refuses_them_when_the_queue_is_full_too(put: Put) -> None:
    sends = full_queue()
    sends.connected(REFUSING)
    with pytest.raises(ReceiversMissingError):
        put(sends, 0.01)


@every_put
def test_a_sender_that_waited_for_receivers_waits_for_room_that_others_took_meanwhile(
    put: Put, clock: list[float],
) -> None:
    sends = SendQueue(lambda: None, limit_bytes=2 * MESSAGE_COST)
    sends.connected(MISSING)
    sender = Sender(put, sends)
    assert sender.waits()
    for _ in range(2):
        sends.put(B, b"", 0, (), 0)                          # unicasts pass
    sends.connected(ENOUGH)
    clock[0] += PATIENCE_SECONDS
    sends.connected(ENOUGH)                                  # it looks at the clock, and at the queue, again
    assert sender.ended()
    assert isinstance(sender.raised, SendTimeoutError)
    assert sends.nbytes == sends.limit_bytes


def test_room_wakes_the_sender_that_can_use_it_behind_those_that_lack_receivers() -> None:
    sends = full_queue()
    sends.connected(MISSING)
    for number in range(3):
        assert Sender(put, sends, None).waits(number + 1)
    unicast = Sender(lambda sends, timeout: sends.put(B, b"", 0, (), timeout), sends, None)
    assert unicast.waits(4)
    sends.take(ALL)
    assert unicast.ended()
    assert unicast.raised is None
    sends.connected(ENOUGH)


@every_put
def test_a_sender_that_waited_for_room_is_refused_if_receivers_went_meanwhile(put: Put) -> None:
    sends = full_queue()
    sender = Sender(put, sends)
    assert sender.waits()
    sends.connected(REFUSING)
    sends.take(ALL)
    assert sender.ended()
    assert isinstance(sender.raised, ReceiversMissingError)
    assert sends.nbytes == 0


@every_put
def test_both_waits_have_one_deadline(put: Put, clock: list[float]) -> None:
    """Receivers come in the last moment of a send; there is no second timeout to wait for room."""
    sends = full_queue()
    sends.connected(MISSING)
    sender = Sender(put, sends)
    assert sender.waits()
    clock[0] += PATIENCE_SECONDS
    sends.connected(ENOUGH)
    assert sender.ended()
    assert isinstance(sender.raised, SendTimeoutError)


def test_a_multicast_with_a_receipt_is_refused_as_others_are_and_may_overdraw_as_others_may() -> None:
    class Connected:
        sends = SendQueue(lambda: None, limit_bytes=2 * MESSAGE_COST)

    receipts, sends = Receipts(), Connected.sends
    receipts.begin(Connected)                                # type: ignore[arg-type]

    def send() -> None:
        receipts.send(("",), b"", 0, (), 0.01, lambda receipt: None)

    sends.connected(REFUSING)
    with pytest.raises(ReceiversMissingError):
        send()
    sends.connected(ENOUGH)
    sends.owner = threading.get_ident()
    for _ in range(OVERDRAFT):                               # each costs two messages
        send()
    with pytest.raises(SendTimeoutError):
        send()


def test_no_wake_up_is_lost_between_senders_the_loop_and_changes_of_receivers() -> None:
    """The queue holds two messages, so nearly every put waits; a lost wake-up is a standstill."""
    threads, each, queued = 8, 200, threading.Event()
    sends = SendQueue(queued.set, limit_bytes=2 * MESSAGE_COST)
    finished: list[int] = []
    over = threading.Event()

    def send(mine: int) -> None:
        for number in range(each):
            (put, put_all, put_numbered)[(mine + number) % 3](sends, None)
        finished.append(mine)

    def take() -> None:
        while not over.is_set():
            queued.wait(0.5)                                 # the flag is looked at again: only senders may be stuck
            queued.clear()
            while sends.take(MESSAGE_COST):
                pass

    def change() -> None:
        rng = Random(7)
        for _ in range(300):
            sends.connected(rng.choice((MISSING, ENOUGH)))
            threading.Event().wait(0.0005)
        sends.connected(ENOUGH)

    senders = [threading.Thread(target=send, args=(mine,), daemon=True) for mine in range(threads)]
    others = [threading.Thread(target=function, daemon=True) for function in (take, change)]
    for thread in (*senders, *others):
        thread.start()
    for thread in senders:
        thread.join(PATIENCE_SECONDS)
    over.set()
    queued.set()
    for thread in others:
        thread.join(PATIENCE_SECONDS)
    assert sorted(finished) == list(range(threads))
    assert sends.sent == threads * each
    assert sends.nbytes == 0
