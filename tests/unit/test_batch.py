"""Batches: what cutting, dropping and joining do to numbers and bytes."""
from __future__ import annotations

import pytest

from jgroups_py.model.address import Address, ProxyUUID
from jgroups_py.model.batch import OOB, Batch, joined
from jgroups_py.protocols.nakack.headers import MulticastData
from jgroups_py.protocols.relay.headers import Numbered

A, B = Address(b"A" * 16, "A"), Address(b"B" * 16, "B")
VIEW = b"v" * 24


def batch_of(first: int, *texts: bytes) -> Batch:
    return Batch(A, None, texts, (Numbered(first), MulticastData(VIEW, first + 100)))


def numbers(batch: Batch) -> tuple[int, int]:
    numbered, data = batch.headers
    return numbered.first, data.first                      # type: ignore[attr-defined]


def test_a_cut_batch_carries_the_numbers_of_its_first_message() -> None:
    piece = batch_of(1, b"a", b"b", b"c").cut(1, 3)
    assert piece.payloads == (b"b", b"c")
    assert numbers(piece) == (2, 102)


def test_the_kept_messages_form_the_longest_batches() -> None:
    pieces = list(batch_of(1, b"a", b"b", b"c", b"d").pieces([0, 2, 3]))
    assert [(piece.payloads, numbers(piece)) for piece in pieces] == [
        ((b"a",), (1, 101)), ((b"c", b"d"), (3, 103))]


def test_runs_that_continue_each_other_become_one() -> None:
    whole = batch_of(1, b"a", b"b", b"c")
    pieces = [whole.cut(0, 1), whole.cut(1, 3)]
    assert pieces[0].joins(pieces[1])
    assert [batch.payloads for batch in joined(pieces)] == [(b"a", b"b", b"c")]
    assert numbers(pieces[0].join(pieces[1])) == (1, 101)


@pytest.mark.parametrize(("payloads", "length"), [((b"ab", b"cd", b"ef"), 2), ((b"ab", b"c", b"def"), -1),
                                                  ((b"ab", b"cd", b"efg"), -1), ((b"a", b"bc", b"d"), -1)])
@pytest.mark.parametrize("asked", [True, False])
def test_a_joined_batch_has_its_bytes_and_the_length_of_its_messages(
    payloads: tuple[bytes, ...], length: int, asked: bool,
) -> None:
    whole = batch_of(1, *payloads)
    pieces = [whole.cut(0, 2), whole.cut(2, 3)]
    assert not asked or [piece.length for piece in pieces]
    together = pieces[0].join(pieces[1])
    assert (together.nbytes, together.length) == (sum(map(len, payloads)), length)


@pytest.mark.parametrize("following", [
    batch_of(3, b"x"), Batch(B, None, (b"x",), (Numbered(2), MulticastData(VIEW, 102))),
    batch_of(2, b"x").replaced(flags=OOB),
    Batch(A, None, (), (Numbered(2), MulticastData(VIEW, 102))), Batch(A, None, (b"x",), (Numbered(2),)),
], ids=["a hole", "another source", "other flags", "a control message", "fewer headers"])
def test_runs_that_do_not_continue_each_other_stay_apart(following: Batch) -> None:
    first = batch_of(1, b"a")
    assert not first.joins(following)
    assert len(list(joined([first, following]))) == 2


def test_a_control_message_takes_one_number_and_is_cut_only_whole() -> None:
    control = Batch(A, None, (), (Numbered(7),))
    assert control.count == 1
    assert control.cut(0, 1) is control
    with pytest.raises(AssertionError):
        control.cut(0, 2)


def test_bytes_are_those_of_the_payloads_with_any_headers() -> None:
    whole = batch_of(1, b"aaa", b"bb")
    assert whole.nbytes == whole.push(Numbered(9)).nbytes == whole.push(Numbered(9)).pop().nbytes == 5
    assert whole.cut(1, 2).nbytes == 2
    assert whole.replaced(payloads=(b"x",)).nbytes == 1


def test_one_length_is_known_where_all_messages_have_it() -> None:
    whole = batch_of(1, b"aa", b"bb", b"cc")
    assert whole.length == whole.push(Numbered(9)).length == whole.cut(1, 3).length == 2
    assert whole.cut(1, 3).nbytes == 4
    assert batch_of(1, b"aa", b"b").length == Batch(A, None).length == -1
    assert batch_of(1, b"", b"").length == 0
    assert whole.replaced(payloads=(b"x",)).length == 1


def test_a_proxy_is_found_where_the_original_was_kept_and_shows_its_site() -> None:
    proxy = ProxyUUID(A, B, "NYC")
    assert {A: 1}[proxy] == {proxy: 1}[A] == 1
    assert (str(proxy), str(A)) == ("A@NYC", "A")
    assert sorted([B, proxy]) == [A, B]
