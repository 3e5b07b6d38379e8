"""Streams of numbered messages in the send queue: neighbours form runs with one header."""
from __future__ import annotations

from jgroups_py.model.address import Address
from jgroups_py.runtime.send_queue import BATCH_BYTES, QueuedBatch, SendQueue
from jgroups_py.wire.block_headers import Ask

B, C = Address(b"b" * 16), Address(b"c" * 16)


class Counting:
    """Numbers messages from `first` on."""

    def __init__(self, dest: Address, first: int) -> None:
        self.dest: Address | None = dest
        self.next = first

    def number(self, item: object, count: int) -> int:
        first = self.next
        self.next += count
        return first

    def headers(self, first: int) -> tuple[Ask, ...]:
        return (Ask(0, first),)


def taken(queue: SendQueue) -> list[tuple[Address | None, int, int]]:
    """(destination, first number, messages) of each run."""
    found = []
    for batch in queue.take(1 << 30):
        assert isinstance(batch, QueuedBatch)
        assert isinstance(batch.headers[0], Ask)
        found.append((batch.dest, batch.headers[0].first, len(batch.payloads)))
    return found


def test_consecutive_messages_of_a_stream_form_a_batch():
    queue, stream = SendQueue(lambda: None), Counting(B, 5)
    for payloads in ((b"x",), (b"y", b"z"), (b"",)):
        queue.put_numbered(stream, None, payloads, 0, 0)
    assert taken(queue) == [(B, 5, 4)]


def test_a_message_of_another_stream_or_a_skipped_number_begins_a_new_batch():
    queue, stream, other = SendQueue(lambda: None), Counting(B, 5), Counting(B, 5)
    queue.put_numbered(stream, None, (b"x",), 0, 0)
    queue.put_numbered(other, None, (b"x",), 0, 0)
    stream.next = 100
    queue.put_numbered(stream, None, (b"x",), 0, 0)
    assert taken(queue) == [(B, 5, 1), (B, 5, 1), (B, 100, 1)]


def test_messages_to_others_in_between_do_not_end_a_batch():
    queue, to_b, to_c = SendQueue(lambda: None), Counting(B, 5), Counting(C, 5)
    for _ in range(3):
        queue.put_numbered(to_b, None, (b"x",), 0, 0)
        queue.put_numbered(to_c, None, (b"x",), 0, 0)
    assert taken(queue) == [(B, 5, 3), (C, 5, 3)]


def test_messages_to_one_destination_keep_their_order():
    queue, stream = SendQueue(lambda: None), Counting(B, 5)
    queue.put_numbered(stream, None, (b"1",), 0, 0)
    queue.put(B, b"2", 0, (Ask(9, 9),), 0)
    queue.put_numbered(stream, None, (b"3",), 0, 0)
    queue.put(C, b"to another", 0, (Ask(9, 9),), 0)
    queue.put(B, b"4", 0, (Ask(9, 9),), 0)
    batches = [batch for batch in queue.take(1 << 30) if isinstance(batch, QueuedBatch) and batch.dest == B]
    assert [payload for batch in batches for payload in batch.payloads] == [b"1", b"2", b"3", b"4"]


def test_a_batch_that_was_taken_is_not_joined_any_more():
    queue, stream = SendQueue(lambda: None), Counting(B, 5)
    queue.put_numbered(stream, None, (b"x",), 0, 0)
    taken(queue)
    queue.put_numbered(stream, None, (b"x",), 0, 0)
    assert taken(queue) == [(B, 6, 1)]


def test_a_full_batch_is_closed():
    queue, stream = SendQueue(lambda: None), Counting(B, 1)
    for _ in range(3):
        queue.put_numbered(stream, None, (bytes(BATCH_BYTES),), 0, 0)
    assert taken(queue) == [(B, 1, 1), (B, 2, 1), (B, 3, 1)]
