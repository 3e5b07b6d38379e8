"""The queue between the application's threads and the loop."""
from __future__ import annotations

import threading

import pytest

from jgroups_py.channel.message import wire_headers
from jgroups_py.model.address import Address
from jgroups_py.model.errors import NotConnectedError, SendTimeoutError
from jgroups_py.model.events import AppBusy
from jgroups_py.runtime.send_queue import BATCH_BYTES, FULL_BYTES, MESSAGE_COST, OVERDRAFT, QueuedBatch, SendQueue
from tests.runtime.helpers import eventually

ALL = 1 << 40
B = Address(bytes(15) + b"b", "B")


def queue(limit: int = 10 * MESSAGE_COST) -> tuple[SendQueue, list[int]]:
    rung: list[int] = []
    return SendQueue(lambda: rung.append(1), limit), rung


def test_consecutive_messages_with_one_destination_and_the_same_flags_form_one_batch():
    sends, _ = queue()
    for payload in (b"1", b"2"):
        sends.put(None, payload, 0, (), 0)
    sends.put(B, b"3", 0, (), 0)
    sends.put(None, b"4", 0, (), 0)
    sends.put(None, b"5", 1, (), 0)
    batches = sends.take(ALL)
    assert [(batch.dest, batch.payloads, batch.flags) for batch in batches if isinstance(batch, QueuedBatch)] == [
        (None, [b"1", b"2"], 0), (B, [b"3"], 0), (None, [b"4"], 0), (None, [b"5"], 1)]


def test_messages_with_equal_application_headers_form_one_batch():
    sends, _ = queue()
    for text in (b"x", b"x", b"y"):
        sends.put(None, b"", 0, wire_headers({200: text}), 0)
    assert [len(batch.payloads) for batch in sends.take(ALL) if isinstance(batch, QueuedBatch)] == [2, 1]


def test_a_message_put_after_a_take_starts_a_batch_of_its_own():
    sends, _ = queue()
    sends.put(None, b"1", 0, (), 0)
    first = sends.take(ALL)
    sends.put(None, b"2", 0, (), 0)
    assert isinstance(first[0], QueuedBatch)
    assert first[0].payloads == [b"1"]


def test_a_queue_that_holds_much_is_reported_with_every_message_so_that_senders_help():
    sends, rung = queue(limit=2 * FULL_BYTES)
    calls = []
    for _ in range(5):
        sends.put(None, bytes(FULL_BYTES // 4), 0, (), 0)
        calls.append(len(rung))
    assert calls == [1, 1, 1, 2, 3]                           # when it was empty, and from the fourth quarter on


def test_the_loop_is_woken_only_when_the_queue_was_empty():
    sends, rung = queue()
    sends.put(None, b"1", 0, (), 0)
    sends.put(None, b"2", 0, (), 0)
    assert len(rung) == 1
    sends.take(ALL)
    sends.put(None, b"3", 0, (), 0)
    assert len(rung) == 2


def test_an_event_keeps_its_place_between_messages():
    sends, _ = queue()
    sends.put(None, b"1", 0, (), 0)
    sends.put_event(AppBusy(True), 0, 0)
    sends.put(None, b"2", 0, (), 0)
    kinds = [type(item) for item in sends.take(ALL)]
    assert kinds == [QueuedBatch, tuple, QueuedBatch]


def test_take_returns_no_more_than_it_was_asked_for_but_at_least_one_batch():
    sends, _ = queue(ALL)
    for _ in range(3):
        sends.put_all(None, [bytes(BATCH_BYTES)], 0, (), 0)
    assert len(sends.take(1)) == 1
    assert len(sends.take(ALL)) == 2
    assert sends.nbytes == 0


def test_a_full_queue_refuses_after_the_timeout_and_the_message_is_not_queued():
    sends, _ = queue()
    for _ in range(10):
        sends.put(None, b"", 0, (), 0)
    with pytest.raises(SendTimeoutError):
        sends.put(None, b"", 0, (), 0.01)
    assert sends.sent == 10


def test_a_message_larger_than_the_whole_queue_is_taken_when_the_queue_is_empty():
    sends, _ = queue()
    sends.put(None, bytes(100_000), 0, (), 0)
    assert sends.nbytes > sends.limit_bytes


def test_a_waiting_sender_goes_on_when_the_loop_takes():
    sends, _ = queue()
    for _ in range(10):
        sends.put(None, b"", 0, (), 0)
    thread = threading.Thread(target=sends.put, args=(None, b"late", 0, (), 5))
    thread.start()
    eventually(lambda: sends.take(ALL) or True)
    thread.join(5)
    assert sends.sent == 11


def test_a_waiting_sender_gets_an_error_when_the_channel_closes():
    sends, _ = queue()
    for _ in range(10):
        sends.put(None, b"", 0, (), 0)
    calls: list[Exception] = []

    def put() -> None:
        try:
            sends.put(None, b"late", 0, (), 5)
        except NotConnectedError as error:
            calls.append(error)

    thread = threading.Thread(target=put)
    thread.start()
    sends.close(lambda: NotConnectedError("gone"))
    thread.join(5)
    assert [str(error) for error in calls] == ["gone"]


def test_a_callback_may_overdraw_the_limit_but_not_without_bound():
    sends, _ = queue()
    sends.owner = threading.get_ident()
    for _ in range(10 * OVERDRAFT):
        sends.put(None, b"", 0, (), 0)
    with pytest.raises(SendTimeoutError):
        sends.put(None, b"", 0, (), 0.01)


def test_room_is_announced_once_when_half_of_the_queue_is_free():
    sends, _ = queue()
    calls: list[str] = []
    for _ in range(10):
        sends.put(None, b"", 0, (), 0)
    sends.when_room(lambda: calls.append("room"))
    assert calls == []
    sends.take(ALL)
    sends.take(ALL)
    assert calls == ["room"]


def test_many_messages_are_queued_in_batches_that_the_loop_can_take_one_by_one():
    sends, _ = queue(ALL)
    sends.put_all(None, [bytes(1000)] * 4000, 0, (), 0)
    batches = sends.take(ALL)
    assert len(batches) > 5
    assert sum(len(batch.payloads) for batch in batches if isinstance(batch, QueuedBatch)) == 4000
