"""FRAG: sizes at their limits."""
from __future__ import annotations

import pytest

from jgroups_py import wire
from jgroups_py.model.batch import Batch
from jgroups_py.protocols.frag import Frag, FragConfig, Fragment
from jgroups_py.protocols.frag.messages import Reassembly
from jgroups_py.protocols.frag.protocol import HEADROOM_BYTES
from jgroups_py.testing.bench import Bench, address, change, unicast, view_of
from jgroups_py.wire import AppHeaders

CONFIG = FragConfig(frag_size_bytes=1000, window_bytes=10_000, max_message_bytes=5000, max_reassembly_bytes="4M")


def member() -> Bench:
    bench = Bench(Frag(CONFIG), me="A")
    bench.down(change(view_of("A", "B")))
    return bench


@pytest.mark.parametrize(("size", "fragments"), [(999, 0), (1000, 0), (1001, 2), (2000, 2), (2001, 3), (5000, 5)])
def test_a_message_is_fragmented_only_if_it_is_larger_than_a_fragment(size: int, fragments: int) -> None:
    a = member()
    a.down(unicast("A", "B", bytes(size)))
    batches = a.sent()
    assert sum(len(payload) for batch in batches for payload in batch.payloads) == size
    found = [len(batch) for batch in batches if isinstance(batch.headers[-1] if batch.headers else None, Fragment)]
    assert sum(found) == fragments


def test_a_large_message_to_the_own_member_is_not_fragmented() -> None:
    a = member()
    a.down(unicast("A", "A", bytes(3000)))
    assert a.stats().get("fragmented", 0) == 0


@pytest.mark.parametrize(("size", "refused"), [(5000, 0), (5001, 1)])
def test_the_largest_message_is_sent_and_one_byte_more_is_not(size: int, refused: int) -> None:
    a = member()
    a.down(unicast("A", "B", bytes(size)))
    assert bool(a.sent()) != bool(refused)
    assert a.stats().get("too_large_dropped", 0) == len(a.outputs) == refused


@pytest.mark.parametrize(("room", "refused"), [(-1, 1), (0, 1), (1, 0)])
def test_headers_that_leave_no_room_in_a_frame_are_refused_with_a_log_entry(room: int, refused: int) -> None:
    a = member()
    batch = unicast("A", "B", bytes(2000), headers=(AppHeaders({200: bytes(500)}),))
    a.transport.frame_bytes = HEADROOM_BYTES + wire.headers_nbytes(batch) + room
    a.down(batch)
    assert a.stats().get("too_large_dropped", 0) == refused
    assert ["has headers that fill a frame" in note.text for note in a.outputs] == [True] * refused
    assert bool(a.sent()) != bool(refused)


@pytest.mark.parametrize(("number", "index", "total", "nbytes", "continues"), [
    (7, 1, 3, 2500, True), (8, 1, 3, 2500, False), (7, 2, 3, 2500, False), (7, 0, 3, 2500, False),
    (7, 1, 4, 2500, False), (7, 1, 3, 2501, False)])
def test_a_message_is_continued_only_by_its_own_next_fragment(
    number: int, index: int, total: int, nbytes: int, continues: bool,
) -> None:
    first = Fragment(7, 0, 3, 2500, 0)
    message = Reassembly(first, Batch(address("B"), address("A"), (b"x",), (first,), 0), 0)
    message.add(Batch(address("B"), address("A"), (b"x" * 1000,), (first,), 0))
    assert message.is_continued_by(Fragment(number, index, total, nbytes, 0)) is continues
