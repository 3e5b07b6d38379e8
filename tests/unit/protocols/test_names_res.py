"""Aeron's resolution frame as a codec: golden frames, every kind of damage, random bytes."""
from __future__ import annotations

from random import Random

import pytest

from jgroups_py.model.errors import WireError
from jgroups_py.protocols.name_service.res import MAX_FRAME_BYTES, NameEntry, decode_frame, encode_entry, encode_frames

FROM_A_DRIVER = [
    (NameEntry("ourdriver", "127.0.0.1", 18050, 0, True),
     "200000000000070001808246000000007f00000109006f757264726976657200"),
    (NameEntry("B", "127.0.0.1", 18051, 980),
     "180000000000070001008346d40300007f00000101004200"),
    (NameEntry("B", "127.0.0.1", 18051, 2984),                  # the padding of an entry need not be zero
     "180000000000070001008346a80b00007f00000101004275"),
]
"""What an Aeron 1.53 C media driver "ourdriver" sent about itself, and about a "B" announced to it."""
HAND_MADE = [
    (NameEntry("B", "127.0.0.1", 8050, 0, True),
     "18000000 00 00 0700  01 80 721f 00000000 7f000001 0100 42 00"),
    (NameEntry("name", "::1", 7800, 2040),
     "28000000 00 00 0700  02 00 781e f8070000 00000000000000000000000000000001 0400 6e616d65 0000"),
]


@pytest.mark.parametrize(("entry", "frame"), HAND_MADE)
def test_accept_4_1_a_frame_has_the_layout_of_aeron(entry: NameEntry, frame: str) -> None:
    assert encode_frames([entry]) == [bytes.fromhex(frame)]
    assert decode_frame(bytes.fromhex(frame)) == (entry,)


@pytest.mark.parametrize(("entry", "frame"), FROM_A_DRIVER)
def test_accept_4_1_frames_of_a_real_driver_are_decoded_and_encoded(entry: NameEntry, frame: str) -> None:
    assert decode_frame(bytes.fromhex(frame)) == (entry,)
    [made] = encode_frames([entry])
    assert made[:-1] == bytes.fromhex(frame)[:-1]


def test_entries_decode_to_what_was_encoded_and_each_takes_a_multiple_of_eight() -> None:
    entries = [NameEntry("n" * length, "10.0.0.1", length, length, length % 2 == 0) for length in range(1, 60)]
    assert all(len(encode_entry(entry)) % 8 == 0 for entry in entries)
    frames = encode_frames(entries)
    assert [entry for frame in frames for entry in decode_frame(frame)] == entries


def test_many_entries_are_encoded_in_several_frames() -> None:
    entries = [NameEntry(f"member-{number:04}", "10.0.0.1", 7800) for number in range(300)]
    frames = encode_frames(entries)
    assert len(frames) > 1
    assert max(map(len, frames)) <= MAX_FRAME_BYTES
    assert [entry for frame in frames for entry in decode_frame(frame)] == entries
    assert encode_frames([]) == []


def test_the_longest_name_fits_a_frame() -> None:
    entry = NameEntry("x" * 512, "::1", 1)
    assert decode_frame(encode_frames([entry])[0]) == (entry,)


def test_an_age_beyond_what_fits_is_the_oldest_there_is() -> None:
    [frame] = encode_frames([NameEntry("a", "10.0.0.1", 1, 1 << 40)])
    assert decode_frame(frame)[0].age_ms == (1 << 31) - 1


GOOD = encode_frames([NameEntry("abc", "10.0.0.1", 7800, 5)])[0]


@pytest.mark.parametrize(("at", "value", "why"), [
    (0, 7, "frame of 7 bytes"), (0, 255, "frame of 255 bytes"), (4, 1, "not a resolution frame"),
    (6, 8, "not a resolution frame"), (8, 3, "kind 3"), (15, 0x80, "age"), (20, 0, "name of 0"), (20, 200, "of 200"),
    (21, 3, "name of"), (22, 0xC3, "ASCII"),
])
def test_damage_is_a_wire_error_with_the_reason(at: int, value: int, why: str) -> None:
    data = bytearray(GOOD)
    data[at] = value
    with pytest.raises(WireError, match=why):
        decode_frame(bytes(data))


@pytest.mark.parametrize("length", range(len(GOOD)))
def test_a_frame_that_was_cut_off_is_a_wire_error(length: int) -> None:
    with pytest.raises(WireError):
        decode_frame(GOOD[:length])
    cut = (length).to_bytes(4, "little") + GOOD[4:length]
    if length > 8:
        with pytest.raises(WireError):
            decode_frame(cut)


def test_any_bytes_give_entries_or_a_wire_error() -> None:
    rng = Random(7)
    decoded = 0
    for _ in range(5000):
        data = bytearray(GOOD + rng.randbytes(rng.randrange(40)))
        for _ in range(rng.randrange(6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            decoded += len(decode_frame(bytes(data)))
        except WireError:
            continue
    assert decoded > 100                                   # and some damage is none
