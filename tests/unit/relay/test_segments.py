"""Segments of the journal: their names, and how much of them is still held."""
from __future__ import annotations

import pytest

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.protocols.relay.journal.segments import JournalSegment, folder_name
from jgroups_py.protocols.relay.origin.hold import Hold

NEAR, FAR = (Address(name.encode().ljust(16, b"\0"), name) for name in "nf")


@pytest.mark.parametrize(("member", "folder"), [
    ("A", "A"), ("node-1_b", "node-1_b"), ("a.b", "a.b"), (".", "%2e"), ("..", "%2e%2e"), ("a b", "a%20b"),
    ("a/b", "a%2fb"), ("50%", "50%25"), ("\u00e9", "%c3%a9"), ("", "%")])
def test_a_folder_has_the_name_of_its_member_without_characters_special_to_a_file_system(member, folder):
    assert folder_name(member) == folder


def test_a_segment_is_live_as_far_as_its_numbers_are_held():
    segment, hold = JournalSegment("x"), Hold()
    segment.cover(NEAR, 3, 5)
    segment.cover(NEAR, 1, 4)
    segment.cover(NEAR, 7, 9)
    segment.cover(FAR, 1, 3)
    assert segment.spans == {NEAR: (1, 9), FAR: (1, 3)}
    assert (list(segment.live(hold)), segment.live_ratio(hold)) == ([], 0.0)
    hold.add(NEAR, 5, Batch(NEAR, None, (b"x",) * 8), 0)
    assert list(segment.live(hold)) == [(NEAR, 5, 9)]
    assert segment.live_ratio(hold) == 0.4
    hold.drop_below(NEAR, 9)
    assert list(segment.live(hold)) == [], "what is held begins behind it"
    hold.add(FAR, 1, Batch(FAR, None, (b"x", b"y")), 0)
    assert segment.live_ratio(hold) == 0.2
    assert JournalSegment("y").live_ratio(hold) == 0.0
