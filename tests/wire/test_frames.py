"""Whole frames: their golden bytes, and what a decoder makes of damaged ones."""
from __future__ import annotations

import random
from zlib import crc32

import pytest

from jgroups_py import wire
from jgroups_py.model.address import Address
from jgroups_py.model.batch import OOB, Batch
from jgroups_py.model.errors import WireError
from jgroups_py.protocols import KNOWN
from tests.wire.collect import collected

A, B = Address(b"A" * 16, "A"), Address(b"B" * 16, "B")
CLUSTER = wire.cluster_id("demo")
PREFIX = "4a50 01"
HEADERS = (wire.AppHeaders({200: b"x"}),)
HEADER = "0001 00 0000000b 00000001 00c8 00000001 78"

FRAMES = [
    ("a control message to all", Batch(A, None), "01", "", "0000 00 00000000", ""),
    ("a message to one", Batch(A, B, (b"hi",), (), OOB), "02", "42" * 16, "0001 00 00000001 00000002", "6869"),
    ("equal lengths", Batch(A, None, (b"ab", b"cd"), HEADERS), "03", "",
     f"0000 01 {HEADER} 00000002 00000002", "6162 6364"),
    ("unequal lengths", Batch(A, None, (b"ab", b"", b"c")), "01", "",
     "0000 00 00000003 00000002 00000000 00000001", "6162 63"),
    ("empty messages", Batch(A, None, (b"", b"")), "03", "", "0000 00 00000002 00000000", ""),
]


def golden(flags: str, dest: str, body: str, payload: str = "") -> bytes:
    head = bytes.fromhex(f"{CLUSTER.hex()} {'41' * 16} {dest} {body}")
    return sealed(bytes.fromhex(f"{PREFIX} {flags}"), head, bytes.fromhex(payload))


def sealed(start: bytes, head: bytes, payload: bytes = b"") -> bytes:
    """A frame with the length of its head and the checksum over it."""
    head = (len(head) + 4).to_bytes(4, "big") + head
    return start + crc32(head, start[3]).to_bytes(4, "big") + head + payload


def same(one: Batch, other: Batch) -> bool:
    return (one.src, one.dest, one.payloads, one.headers, one.flags) == (
        other.src, other.dest, other.payloads, other.headers, other.flags)


@pytest.mark.parametrize(("batch", "flags", "dest", "body", "payload"), [frame[1:] for frame in FRAMES],
                         ids=[frame[0] for frame in FRAMES])
def test_a_frame_has_its_golden_bytes_and_they_give_the_batch(batch, flags, dest, body, payload):
    data = b"".join(wire.encode_frame(CLUSTER, batch))
    assert data == golden(flags, dest, body, payload)
    assert same(wire.decode_frame(data, CLUSTER, wire.Interner()), batch)


def test_a_cluster_is_eight_bytes_of_its_name():
    assert CLUSTER.hex() == "8cf40c6846431c20"


@pytest.mark.parametrize(("at", "byte", "reason"), [
    (0, 0, "not a frame"), (2, 9, "foreign version"), (3, 0x80, "unknown frame flags"), (4, 0, "wrong checksum"),
    (12, 0, "wrong checksum"), (30, 0, "wrong checksum"),
])
def test_a_frame_of_another_cluster_is_refused_with_its_reason(at, byte, reason):
    data = bytearray(golden("01", "", "0000 00 00000000"))
    data[at] = byte
    with pytest.raises(WireError, match=reason):
        wire.decode_frame(bytes(data), CLUSTER, wire.Interner())


def test_a_frame_of_another_cluster_is_refused_as_such():
    with pytest.raises(WireError, match="foreign cluster"):
        wire.decode_frame(golden("01", "", "0000 00 00000000"), wire.cluster_id("other"), wire.Interner())


def test_any_flipped_bit_outside_the_payloads_is_refused():
    batch = Batch(A, B, (b"payload", b"more"), HEADERS)
    data = b"".join(wire.encode_frame(CLUSTER, batch))
    for bit in range(8 * (len(data) - batch.nbytes)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(WireError):
            wire.decode_frame(bytes(flipped), CLUSTER, wire.Interner())


def test_a_batch_inside_a_message_comes_back_as_it_was():
    for _, batch, *_ in FRAMES:
        out = bytearray()
        wire.pack_batch(batch, out)
        reader = wire.Reader(bytes(out), wire.Interner())
        assert same(wire.unpack_batch(reader), batch)
        assert reader.pos == len(out)


def damaged(rng: random.Random, data: bytes) -> bytes:
    """`data` with a few bytes changed, cut out or put in."""
    changed = bytearray(data)
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(changed) + 1)
        changed[at:at + rng.randrange(3)] = rng.randbytes(rng.randrange(3))
    return bytes(changed[:rng.randrange(len(changed) + 1)] if rng.random() < 0.2 else changed)


@pytest.mark.slow
def test_any_bytes_give_a_batch_or_a_wire_error_and_nothing_else():
    for known in KNOWN.values():
        known.load()
    rng = random.Random(3)
    samples = []
    for header, _ in collected():
        batch = Batch(A, rng.choice([None, B]), (b"payload",) * rng.randrange(4), (header,))
        samples.append((batch, b"".join(wire.encode_frame(CLUSTER, batch))))
    accepted = 0
    for number in range(20_000):
        batch, sample = samples[number % len(samples)]
        head = damaged(rng, sample[12:len(sample) - batch.nbytes])
        # A checksum that fits, so that the damage reaches the decoders behind it.
        data = sealed(sample[:4], head, damaged(rng, b"".join(batch.payloads)))
        try:
            batch = wire.decode_frame(data, CLUSTER, wire.Interner())
        except WireError:
            continue
        accepted += 1
        again = wire.decode_frame(b"".join(wire.encode_frame(CLUSTER, batch)), CLUSTER, wire.Interner())
        assert same(again, batch)
    assert accepted, "some damage only changes values"
