"""Records of the journal: what was written is read back, and of damaged files as much as the checksums vouch for."""
from __future__ import annotations

from random import Random

import pytest

from jgroups_py import wire
from jgroups_py.model.address import Address
from jgroups_py.model.batch import OOB, Batch
from jgroups_py.protocols.relay.headers import SiteRow
from jgroups_py.protocols.relay.journal.records import (
    BATCH,
    HEAD_BYTES,
    VERSION,
    BatchRecord,
    JournalDamage,
    OwnerRecord,
    Record,
    StateRecord,
    Written,
    batch_record,
    owner_record,
    read_records,
    state_record,
)

ALICE = Address(b"a" * 16, "alice")


def read(data: bytes) -> tuple[list[Record], JournalDamage]:
    damage = JournalDamage()
    return list(read_records(data, wire.Interner(), damage)), damage


def batch_data(first: int, *payloads: bytes) -> bytes:
    return bytes(batch_record(ALICE, first, 1_700_000_000_000_000_000, Batch(ALICE, None, payloads)))


def numbers(records: list[Record]) -> list[int]:
    return [record.first for record in records if isinstance(record, BatchRecord)]


def test_what_is_written_is_read_back():
    headers = (wire.AppHeaders({200: b"trace"}),)
    batch = Batch(ALICE, None, (b"one", b"", b"three"), headers, int(OOB))
    row = SiteRow("SFO", 1, None, (), {ALICE: 7}, {ALICE: 3}, {ALICE: ((3, 5),)}, 2)
    known = StateRecord((row,), {ALICE: 6}, ("A", "B"))
    data = b"".join(map(bytes, (owner_record("demo", "NYC"), batch_record(ALICE, 41, 17, batch), state_record(known))))
    (owner, held, state), damage = read(data)
    assert owner == OwnerRecord(VERSION, "demo", "NYC")
    assert isinstance(held, BatchRecord)
    assert (held.origin, held.origin.name, held.first, held.since_ns) == (ALICE, "alice", 41, 17)
    assert held.batch.payloads == batch.payloads
    assert (held.batch.headers, held.batch.flags, held.batch.dest) == (headers, int(OOB), None)
    assert state == known
    assert damage == JournalDamage()


@pytest.mark.parametrize("payloads", [(), (b"",), (b"x",), (b"xy", b"zz"), (b"x", b"yy"), (bytes(70_000),)])
def test_batches_of_all_shapes_are_read_back(payloads):
    (held,), _ = read(batch_data(1, *payloads))
    assert isinstance(held, BatchRecord)
    assert held.batch.payloads == payloads


def test_a_file_cut_anywhere_gives_every_record_before_the_cut():
    parts = [bytes(owner_record("demo", "NYC")), batch_data(1, b"a", b"bb"),
             bytes(state_record(StateRecord((), {}, ()))), batch_data(3, b"cc"), batch_data(4, b"d" * 40)]
    ends = [sum(map(len, parts[:count + 1])) for count in range(len(parts))]
    data = b"".join(parts)
    for cut in range(len(data)):
        records, damage = read(data[:cut])
        whole = sum(end <= cut for end in ends)
        assert len(records) == whole, f"cut at {cut}"
        begin = [0, *ends][whole]
        assert damage == JournalDamage(cut - begin, places=[begin] if cut > begin else []), f"cut at {cut}"


def test_a_flipped_bit_anywhere_costs_one_record_or_the_tail_and_never_gives_a_wrong_one():
    parts = [batch_data(1, b"a", b"bb"), batch_data(3, b"cc"), batch_data(4, b"dddd")]
    data = b"".join(parts)
    good = {(record.first, record.batch.payloads) for record in read(data)[0] if isinstance(record, BatchRecord)}
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        records, damage = read(bytes(flipped))
        in_first = bit // 8 < len(parts[0])
        in_head = bit // 8 < HEAD_BYTES
        assert {(r.first, r.batch.payloads) for r in records if isinstance(r, BatchRecord)} < good, f"bit {bit}"
        assert damage != JournalDamage(), f"bit {bit}"
        if in_first:
            assert numbers(records) == ([] if in_head else [3, 4]), f"bit {bit}"


def test_a_tail_of_zeros_is_cut():
    records, damage = read(batch_data(1, b"a") + bytes(4096))
    assert numbers(records) == [1]
    assert damage == JournalDamage(4096, places=[len(batch_data(1, b"a"))])


def test_random_bytes_are_no_records():
    rng = Random(5)
    for length in range(300):
        records, damage = read(rng.randbytes(length))
        assert not records
        assert damage.cut_bytes == length


def test_a_record_of_an_unknown_kind_or_with_a_body_that_makes_no_sense_is_skipped():
    later = bytes(Written(99, b"later"))
    records, damage = read(later + bytes(Written(BATCH, b"no run")) + batch_data(1, b"a"))
    assert numbers(records) == [1]
    assert damage == JournalDamage(skipped=2, places=[0, len(later)])


def test_shuffled_and_damaged_files_never_give_anything_that_was_not_written():
    rng = Random(11)
    for _ in range(300):
        parts = [batch_data(first, *(bytes([first]) * rng.randint(0, 9) for _ in range(rng.randint(1, 5))))
                 for first in range(1, rng.randint(2, 12))]
        written = {(r.first, r.batch.payloads) for part in parts for r in read(part)[0] if isinstance(r, BatchRecord)}
        data = bytearray(b"".join(parts))
        for _ in range(rng.randint(0, 3)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        del data[rng.randint(0, len(data)):]
        found = {(r.first, r.batch.payloads) for r in read(bytes(data))[0] if isinstance(r, BatchRecord)}
        assert found <= written
