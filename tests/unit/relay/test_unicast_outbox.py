"""Letters to members of other sites: what is acknowledged, repeated, expired, and taken in order."""
from __future__ import annotations

from random import Random

import pytest

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.protocols.relay.unicast.outbox import MAX_DOUBLINGS, UnicastInbox, UnicastOutbox, UnicastOutboxes

ME, YOU = (Address(name.encode().ljust(16, b"\0"), name) for name in "ab")


def letters(*payloads: bytes) -> Batch:
    return Batch(ME, YOU, payloads)


def kept(box: UnicastOutbox) -> list[tuple[int, bytes]]:
    return [(number, payload) for first, batch, _ in box.batches
            for number, payload in enumerate(batch.payloads, first)]


def test_an_acknowledgement_takes_effect_once_and_drops_what_is_below_it() -> None:
    box = UnicastOutbox(YOU, "SFO")
    assert box.add(letters(b"1", b"2", b"3"), 10) == 1
    assert box.add(letters(b"4"), 20) == 4
    assert not box.acknowledge(1, 30)
    assert (box.progress_ns, len(kept(box))) == (10, 4)
    box.resent = 3
    assert box.acknowledge(3, 40)
    assert kept(box) == [(3, b"3"), (4, b"4")]
    assert (box.base, box.progress_ns, box.resent) == (3, 40, 0)
    assert not box.acknowledge(3, 50)
    assert not box.acknowledge(2, 50)
    assert (box.base, box.progress_ns) == (3, 40)
    assert box.acknowledge(99, 60), "more than was ever sent counts as all"
    assert (kept(box), box.base) == ([], 5)
    assert not box.acknowledge(99, 70)


def test_the_retransmission_interval_of_an_empty_outbox_begins_with_the_next_unicast() -> None:
    box = UnicastOutbox(YOU, "SFO")
    box.add(letters(b"1"), 10)
    box.add(letters(b"2"), 90)
    assert box.progress_ns == 10
    assert not box.retransmission_due(109, 100)
    assert box.retransmission_due(110, 100)
    box.resent = 1
    assert not box.retransmission_due(209, 100)
    assert box.retransmission_due(210, 100)
    box.resent = MAX_DOUBLINGS + 5
    assert box.retransmission_due(10 + (100 << MAX_DOUBLINGS), 100)


def test_unicasts_expire_from_the_oldest_on() -> None:
    box = UnicastOutbox(YOU, "SFO")
    assert box.expired(10**9) is None
    for at_ns in (10, 20, 30):
        box.add(letters(b"x", b"y"), at_ns)
    assert [box.expired(before_ns) for before_ns in (9, 10, 20, 29, 30)] == [None, 3, 5, 5, 7]


def test_there_is_one_outbox_for_each_destination_and_it_counts_waiting_unicasts() -> None:
    boxes = UnicastOutboxes()
    assert boxes.get(YOU) is None
    box = boxes.box(YOU, "SFO")
    assert boxes.box(YOU, "SFO") is box is boxes.get(YOU)
    box.add(letters(b"1", b"2"), 0)
    boxes.box(ME, "NYC").add(letters(b"3"), 0)
    assert boxes.waiting == 3
    box.acknowledge(2, 0)
    assert boxes.waiting == 2
    assert [one.dest for one in boxes] == [YOU, ME]


@pytest.mark.parametrize("seed", range(20))
def test_an_inbox_takes_each_unicast_once_and_in_order_whatever_arrives_how_often(seed: int) -> None:
    rng, inbox, taken = Random(seed), UnicastInbox(), []
    base = 1
    for _ in range(80):
        first = rng.randrange(1, 30)
        stop = first + rng.randrange(1, 5)
        if rng.random() < 0.1:
            base = max(base, rng.randrange(1, 30))
        wanted = max(inbox.wanted.get(ME, 1), base)
        got = inbox.take(ME, first, base, letters(*(b"%d" % number for number in range(first, stop))))
        assert (got is not None) == (first <= wanted < stop)
        if got is not None:
            assert got.payloads == tuple(b"%d" % number for number in range(wanted, stop))
        assert inbox.wanted.get(ME, 1) == (stop if got is not None else wanted)
        taken += [] if got is None else [int(payload) for payload in got.payloads]
    assert taken == sorted(dict.fromkeys(taken))
