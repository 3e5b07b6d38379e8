"""NAKACK: what is owed is paid in bursts, in the order of the requests, all of it and once."""
from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from jgroups_py.address import Address
from jgroups_py.batch import Batch
from jgroups_py.protocols.nakack.resending import Debts, fitting
from tests.unit.harness import address, multicast

A, B, C = map(address, "ABC")


def kept(src: Address) -> object:
    """Single messages 1 to 39 of a sender, 10 bytes each; nothing of C."""
    def between(first: int, stop: int) -> Iterator[tuple[int, Batch]]:
        for number in range(first, min(stop, 40), 4):
            upto = min(number + 4, stop, 40)
            yield number, multicast(src.name, *(b"%010d" % n for n in range(number, upto)))
    return None if src == C else between


def numbers(paid: list[tuple[object, int, Batch]]) -> list[int]:
    for _, first, run in paid:
        assert [int(payload) for payload in run.payloads] == list(range(first, first + run.count))
    return [number for _, first, run in paid for number in range(first, first + run.count)]


def test_a_burst_is_as_large_as_the_room_and_the_rest_follows() -> None:
    debts = Debts()
    debts.ask(B, A, [(1, 6), (10, 12)])
    assert numbers(debts.pay(kept, 30)) == [1, 2, 3]
    assert numbers(debts.pay(kept, 25)) == [4, 5, 10]
    assert debts
    assert numbers(debts.pay(kept, 1000)) == [11]
    assert not debts
    assert debts.pay(kept, 1000) == []


def test_who_asked_first_is_served_first_and_room_that_is_left_goes_to_the_next() -> None:
    debts = Debts()
    debts.ask(B, A, [(1, 3)])
    debts.ask(C, A, [(5, 8)])
    paid = debts.pay(kept, 40)
    assert [debtor for debtor, _, _ in paid] == [(B, A), (C, A)]
    assert numbers(paid) == [1, 2, 5, 6]
    assert [debtor for debtor, _, _ in debts.pay(kept, 40)] == [(C, A)]


def test_a_new_request_replaces_the_older_one_but_those_answered_by_multicast_add_up() -> None:
    debts = Debts()
    debts.ask(B, A, [(1, 3)])
    debts.ask(B, A, [(5, 6)])
    assert numbers(debts.pay(kept, 1000)) == [5]
    debts.ask(None, A, [(1, 3)])
    debts.ask(None, A, [(5, 6)])
    assert numbers(debts.pay(kept, 1000)) == [1, 2, 5]


def test_what_is_no_longer_kept_is_not_owed() -> None:
    debts = Debts()
    debts.ask(B, C, [(1, 3)])
    debts.ask(B, A, [(50, 60)])
    assert debts.pay(kept, 1000) == []
    assert not debts


@pytest.mark.parametrize("seed", range(10))
def test_everything_asked_for_and_kept_is_paid_once_in_bursts_of_any_size(seed: int) -> None:
    rng, debts, paid = Random(seed), Debts(), []
    wanted = sorted(rng.sample(range(1, 50), 20))
    debts.ask(B, A, [(number, number + 1) for number in wanted])
    while debts:
        room = rng.randrange(1, 70)
        burst = debts.pay(kept, room)
        nbytes = sum(run.nbytes for _, _, run in burst)
        assert nbytes < room + 10, "one message may go over"
        paid += numbers(burst)
    assert paid == [number for number in wanted if number < 40]


def test_at_least_one_message_fits() -> None:
    run = multicast("A", b"12345", b"12345", b"12345")
    assert [fitting(run, room) for room in (1, 5, 6, 10)] == [(1, 5), (1, 5), (2, 10), (2, 10)]
    assert [fitting(run, room) for room in (11, 15, 99)] == [(3, 15)] * 3
