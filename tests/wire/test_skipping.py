"""Headers that a member does not have: one that may be skipped is, any other makes the frame unreadable."""
from __future__ import annotations

import contextlib
from random import Random

import pytest

from jgroups_py import wire
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.errors import WireError
from jgroups_py.wire.codec import MAX_SKIPPED_IDS, OTHERS, Interner, Reader

A, B = Address(b"A" * 16, "A"), Address(b"B" * 16, "B")
CLUSTER = wire.cluster_id("demo")
SKIPPED, NEEDED = (1234, 200), (1234, 100)
KNOWN = wire.AppHeaders({200: b"known"})


def raw(key: tuple[int, int], body: bytes, length: int | None = None) -> bytes:
    """A header as it stands in a frame. length: what it says of its body, if that is not so."""
    return (key[0].to_bytes(2, "big") + key[1].to_bytes(1, "big")
            + (len(body) if length is None else length).to_bytes(4, "big") + body)


def body(*headers: bytes, payloads: tuple[bytes, ...] = (b"one", b"two")) -> bytes:
    """The body of a frame with these headers, and messages of one length each."""
    tail = b"".join(payloads)
    lengths = b"".join(len(payload).to_bytes(4, "big") for payload in payloads)
    return bytes(2) + len(headers).to_bytes(1, "big") + b"".join(headers) + len(payloads).to_bytes(4, "big") + (
        lengths + tail)


def decoded(data: bytes, interner: Interner | None = None) -> Batch:
    return wire.decode_body(Reader(data, interner or Interner()), A, B, equal=False)


def bytes_of(header: Header) -> bytes:
    out = bytearray()
    wire.encode_headers((header,), out)
    return bytes(out)


def test_a_header_that_may_be_skipped_is_and_its_message_is_there_without_it():
    for place in range(3):
        headers = [bytes_of(KNOWN), bytes_of(KNOWN)]
        headers.insert(place, raw(SKIPPED, b"whatever a later version says"))
        interner = Interner()
        batch = decoded(body(*headers), interner)
        assert batch.headers == (KNOWN, KNOWN)
        assert batch.payloads == (b"one", b"two")
        assert interner.unread.skipped == {SKIPPED: 1}


def test_a_header_that_may_not_be_skipped_makes_the_frame_unreadable():
    with pytest.raises(WireError, match="unknown header 1234/100"):
        decoded(body(raw(SKIPPED, b""), raw(NEEDED, b"")))


@pytest.mark.parametrize("length", [1, 100, 2**31 - 1, 2**32 - 1])
def test_a_skippable_header_that_says_it_is_longer_than_its_frame_is_refused(length: int):
    data = body(raw(SKIPPED, b"", length), payloads=())
    end = len(data) - data.index(raw(SKIPPED, b"", length)) - 7
    if length > end:
        with pytest.raises(WireError, match="longer than its frame"):
            decoded(data)
    else:
        with pytest.raises(WireError):                     # it takes what should be the number of messages
            decoded(data)


def test_a_skippable_header_cut_short_is_refused_at_each_byte():
    whole = raw(SKIPPED, b"12345")
    for stop in range(len(whole)):
        with pytest.raises(WireError):
            wire.decode_headers(Reader(whole[:stop], Interner()), 1)


def test_255_skippable_headers_of_one_id_are_one_message_without_headers():
    interner = Interner()
    batch = decoded(body(*[raw(SKIPPED, b"x")] * 255), interner)
    assert batch.headers == ()
    assert batch.payloads == (b"one", b"two")
    assert interner.unread.skipped == {SKIPPED: 255}


def test_ids_that_are_made_up_take_no_memory():
    interner = Interner()
    for first in range(0, 2000, 200):
        decoded(body(*[raw((1024 + first + at, 128 + at % 128), b"") for at in range(200)]), interner)
    assert len(interner.unread.skipped) == MAX_SKIPPED_IDS + 1
    assert interner.unread.skipped[OTHERS] == 2000 - MAX_SKIPPED_IDS


def test_a_declared_skippable_header_of_a_protocol_that_is_not_in_the_stack_is_skipped_too():
    told = wire.Releases({})
    interner = Interner()
    assert decoded(body(bytes_of(told)), interner).headers == (told,)
    interner.unread.protocols = frozenset((1, 11))
    assert decoded(body(bytes_of(told)), interner).headers == ()
    assert interner.unread.skipped == {(2, 128): 1}


def test_twice_the_releases_are_two_headers_and_the_first_that_is_met_counts():
    one, other = wire.Releases({}), wire.Releases({})
    assert wire.releases_in(decoded(body(bytes_of(one), bytes_of(other)))) == {}


def test_mutated_frames_with_skippable_headers_are_refused_or_read_and_reserve_nothing():
    rng = Random(5)
    frame = b"".join(wire.encode_frame(CLUSTER, Batch(A, None, (b"payload", b"p"), (KNOWN, wire.Releases({})))))
    start = frame.index(bytes_of(KNOWN))
    skippable = raw(SKIPPED, b"remark")
    read = skipped = 0
    for _ in range(20_000):
        data = bytearray(body(skippable, bytes_of(KNOWN), skippable, payloads=(b"payload", b"p")))
        for _ in range(rng.choice((0, 1, 1, 2, 5))):
            at = rng.randrange(len(data))
            data[at] = rng.randrange(256)
        if rng.random() < 0.3:
            del data[rng.randrange(len(data)):]
        interner = Interner()
        with contextlib.suppress(WireError):
            decoded(bytes(data), interner)
            read += 1
        skipped += sum(interner.unread.skipped.values())
        assert len(interner.unread.skipped) <= 3
    assert start > 0
    assert read > 1000
    assert skipped > 10_000
