"""NAKACK: what is owed is sent in bursts, in the order of the requests, all of it and once."""
from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.protocols.nakack.retransmit_queue import RetransmitQueue, fitting
from jgroups_py.testing.bench import address, multicast

A, B, C = map(address, "ABC")


def kept(src: Address) -> object:
    """Single messages 1 to 39 of a sender, 10 bytes each; nothing of C."""
    def between(first: int, stop: int) -> Iterator[tuple[int, Batch]]:
        for number in range(first, min(stop, 40), 4):
            upto = min(number + 4, stop, 40)
            yield number, multicast(src.name, *(b"%010d" % n for n in range(number, upto)))
    return None if src == C else between


def numbers(sent: list[tuple[object, int, Batch]]) -> list[int]:
    for _, first, batch in sent:
        assert [int(payload) for payload in batch.payloads] == list(range(first, first + batch.count))
    return [number for _, first, batch in sent for number in range(first, first + batch.count)]


def test_a_burst_is_as_large_as_its_bound_and_the_rest_follows() -> None:
    queue = RetransmitQueue()
    queue.put(B, A, [(1, 6), (10, 12)])
    assert numbers(queue.burst(kept, 30)) == [1, 2, 3]
    assert numbers(queue.burst(kept, 25)) == [4, 5, 10]
    assert queue
    assert numbers(queue.burst(kept, 1000)) == [11]
    assert not queue
    assert queue.burst(kept, 1000) == []


def test_the_oldest_request_is_served_first_and_the_rest_of_a_burst_goes_to_the_next() -> None:
    queue = RetransmitQueue()
    queue.put(B, A, [(1, 3)])
    queue.put(C, A, [(5, 8)])
    sent = queue.burst(kept, 40)
    assert [request for request, _, _ in sent] == [(B, A), (C, A)]
    assert numbers(sent) == [1, 2, 5, 6]
    assert [request for request, _, _ in queue.burst(kept, 40)] == [(C, A)]


def test_a_new_request_replaces_the_older_one_but_those_answered_by_multicast_add_up() -> None:
    queue = RetransmitQueue()
    queue.put(B, A, [(1, 3)])
    queue.put(B, A, [(5, 6)])
    assert numbers(queue.burst(kept, 1000)) == [5]
    queue.put(None, A, [(1, 3)])
    queue.put(None, A, [(5, 6)])
    assert numbers(queue.burst(kept, 1000)) == [1, 2, 5]


def test_what_is_no_longer_kept_is_dropped() -> None:
    queue = RetransmitQueue()
    queue.put(B, C, [(1, 3)])
    queue.put(B, A, [(50, 60)])
    assert queue.burst(kept, 1000) == []
    assert not queue


@pytest.mark.parametrize("seed", range(10))
def test_everything_requested_and_kept_is_sent_once_in_bursts_of_any_size(seed: int) -> None:
    rng, queue, sent = Random(seed), RetransmitQueue(), []
    wanted = sorted(rng.sample(range(1, 50), 20))
    queue.put(B, A, [(number, number + 1) for number in wanted])
    while queue:
        room = rng.randrange(1, 70)
        burst = queue.burst(kept, room)
        nbytes = sum(batch.nbytes for _, _, batch in burst)
        assert nbytes < room + 10, "one message may go over"
        sent += numbers(burst)
    assert sent == [number for number in wanted if number < 40]


def test_at_least_one_message_fits() -> None:
    batch = multicast("A", b"12345", b"12345", b"12345")
    assert [fitting(batch, room) for room in (1, 5, 6, 10)] == [(1, 5), (1, 5), (2, 10), (2, 10)]
    assert [fitting(batch, room) for room in (11, 15, 99)] == [(3, 15)] * 3
