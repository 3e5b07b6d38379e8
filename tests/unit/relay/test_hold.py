"""The hold against a dumb twin: a table of single messages."""
from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.protocols.relay.origin.hold import MESSAGE_BYTES, Hold

NEAR, FAR = (Address(name.encode().ljust(16, b"\0"), name) for name in "nf")


class Twin:
    """Message by message. kept: (origin, number) -> (payload, since when)."""

    def __init__(self) -> None:
        self.kept: dict[tuple[Address, int], tuple[bytes, int]] = {}
        self.trimmed: dict[Address, int] = {}

    def add(self, origin: Address, first: int, payloads: tuple[bytes, ...], since_ns: int) -> int:
        before = len(self.kept)
        for number, payload in enumerate(payloads, first):
            if number >= self.trimmed.get(origin, 1):
                self.kept.setdefault((origin, number), (payload, since_ns))
        return len(self.kept) - before

    def drop_below(self, origin: Address, number: int) -> None:
        self.trimmed[origin] = max(number, self.trimmed.get(origin, 1))
        self.kept = {key: value for key, value in self.kept.items() if key[0] != origin or key[1] >= number}

    def forget(self, origin: Address) -> None:
        self.trimmed.pop(origin, None)
        self.kept = {key: value for key, value in self.kept.items() if key[0] != origin}

    def numbers(self, origin: Address) -> list[int]:
        return sorted(number for other, number in self.kept if other == origin)

    def nbytes(self, keys: list[tuple[Address, int]]) -> int:
        return sum(len(self.kept[key][0]) + MESSAGE_BYTES for key in keys)


def contents(hold: Hold) -> dict[tuple[Address, int], tuple[bytes, int]]:
    return {(origin, number): (payload, held.since_ns) for origin, batches in hold.batches.items() for held in batches
            for number, payload in enumerate(held.batch.payloads, held.first)}


def same(hold: Hold, twin: Twin, rng: Random) -> None:
    """All that can be asked has one answer."""
    assert contents(hold) == twin.kept
    assert hold.messages == len(twin.kept)
    assert hold.nbytes == twin.nbytes(list(twin.kept))
    for origin in (NEAR, FAR):
        numbers = twin.numbers(origin)
        batches = hold.batches.get(origin, [])
        assert all(a.stop <= b.first for a, b in pairwise(batches))
        assert [n for first, stop in hold.ranges(origin) for n in range(first, stop)] == numbers
        assert all(a[1] < b[0] for a, b in pairwise(hold.ranges(origin)))
        assert hold.end(origin) == (numbers[-1] + 1 if numbers else twin.trimmed.get(origin, 1))
        at = rng.randrange(1, 40)
        stop = at + rng.randrange(1, 12)
        assert hold.first_from(origin, at) == min((n for n in numbers if n >= at), default=None)
        pieces = [n for held in hold.pieces(origin, at, stop) for n in range(held.first, held.stop)]
        assert pieces == [n for n in numbers if at <= n < stop]
        below = {origin: at}
        assert hold.bytes_from(below) == twin.nbytes([key for key in twin.kept if key[1] >= below.get(key[0], 1)])
        batch_from(hold, twin, origin, at, rng.randrange(1, 600))


def batch_from(hold: Hold, twin: Twin, origin: Address, at: int, max_bytes: int) -> None:
    """It begins where it is asked to, has one message at least, and no more than fit."""
    held = hold.batch_from(origin, at, max_bytes)
    if (origin, at) not in twin.kept:
        assert held is None
        return
    assert held is not None
    assert held.first == at
    assert held.batch.payloads == tuple(twin.kept[origin, n][0] for n in range(at, held.stop))
    assert held.stop == at + 1 or held.nbytes <= max_bytes
    more = hold.batch_from(origin, at, 1 << 30)
    assert more is not None
    if held.stop < more.stop:
        assert held.nbytes + len(twin.kept[origin, held.stop][0]) + MESSAGE_BYTES > max_bytes


@pytest.mark.parametrize("seed", range(30))
def test_the_hold_keeps_what_a_table_of_messages_would(seed: int) -> None:
    rng, hold, twin = Random(seed), Hold(), Twin()
    for now_ns in range(60):
        origin, first = rng.choice((NEAR, FAR)), rng.randrange(1, 36)
        match rng.randrange(8):
            case 0:
                hold.drop_below(origin, first // 2)
                twin.drop_below(origin, first // 2)
            case 1 if rng.random() < 0.2:
                hold.forget(origin)
                twin.forget(origin)
            case _:
                payloads = tuple(b"%d" % now_ns * rng.randrange(9) for _ in range(rng.randrange(1, 9)))
                kept = hold.add(origin, first, Batch(origin, None, payloads), now_ns)
                assert kept == twin.add(origin, first, payloads, now_ns)
        same(hold, twin, rng)


def test_age_is_that_of_the_first_message_that_is_not_acknowledged() -> None:
    hold = Hold()
    hold.add(NEAR, 1, Batch(NEAR, None, (b"a", b"b")), 10)
    hold.add(NEAR, 3, Batch(NEAR, None, (b"c",)), 20)
    hold.add(FAR, 1, Batch(FAR, None, (b"d",)), 30)
    assert hold.has_older({}, 11)
    assert not hold.has_older({}, 10)
    assert hold.has_older({NEAR: 2}, 11), "b is as old"
    assert not hold.has_older({NEAR: 3}, 20)
    assert hold.has_older({NEAR: 3}, 21)
    assert not hold.has_older({NEAR: 4}, 30)
    assert hold.has_older({NEAR: 4}, 31)
    assert not hold.has_older({NEAR: 4, FAR: 2}, 99)
    assert [hold.oldest_ns(numbers) for numbers in ({}, {NEAR: 2}, {NEAR: 3}, {NEAR: 4}, {NEAR: 4, FAR: 2})] == [
        10, 10, 20, 30, None]


def test_batches_that_end_within_what_is_acknowledged_now_give_their_ages_once() -> None:
    hold = Hold()
    hold.add(NEAR, 1, Batch(NEAR, None, (b"a", b"b")), 10)
    hold.add(NEAR, 3, Batch(NEAR, None, (b"c",)), 20)
    assert hold.since_of(NEAR, 1, 2) == [], "b is not acknowledged"
    assert hold.since_of(NEAR, 2, 3) == [10]
    assert hold.since_of(NEAR, 3, 4) == [20]
    assert hold.since_of(NEAR, 1, 4) == [10, 20]
    assert hold.since_of(FAR, 1, 9) == []
