"""Case 11: the original's frames, against classes that protobuf generates from the original's schema."""
from __future__ import annotations

from random import Random

import pytest

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.errors import WireError
from jgroups_py.model.events import SendTo
from jgroups_py.model.outputs import Frame
from jgroups_py.model.topics import EVERYTHING, NOTHING, interest_in
from jgroups_py.protocols.discovery.pex.headers import PeerPong
from jgroups_py.protocols.discovery.pex.influx import (
    MAX_FRAME_BYTES,
    InfluxFrame,
    InfluxPayload,
    InfluxPeer,
    InfluxPing,
    InfluxPong,
    read_frame,
    write_frame,
)
from jgroups_py.protocols.discovery.pex.transport import InfluxUdp
from jgroups_py.stack.protocol import CONTROL
from jgroups_py.stack.stack import Stack
from tests.unit.protocols.pex.schema import generated

FRAME = generated()
PLACE = "10.0.0.9", 8082
A, B = Address(b"A" * 16), Address(b"B" * 16)
PEERS = (InfluxPeer(B, ("10.0.0.2", 8082), interest_in(1, 63)), InfluxPeer(A, ("::1", 80), EVERYTHING))
FRAMES = [
    InfluxFrame(A, ()),
    InfluxFrame(A, (InfluxPing(interest_in(0, 7)),)),
    InfluxFrame(A, (InfluxPing(EVERYTHING), InfluxPing(NOTHING))),
    InfluxFrame(B, (InfluxPong(PEERS, interest_in(3)),)),
    InfluxFrame(B, (InfluxPong((), NOTHING),)),
    InfluxFrame(A, (InfluxPayload(b"\x00payload\xff", 63),)),
    InfluxFrame(A, (InfluxPayload(b"", 0), InfluxPing(interest_in(5)))),
]


@pytest.mark.parametrize("frame", FRAMES)
def test_accept_1_11_protobuf_reads_what_we_write_and_writes_the_same(frame: InfluxFrame) -> None:
    data = write_frame(frame)
    theirs = FRAME()
    theirs.ParseFromString(data)
    assert theirs.identity == frame.identity.raw
    assert len(theirs.messages) == len(frame.messages)
    assert theirs.SerializeToString() == data
    assert read_frame(data) == frame


def test_accept_1_11_the_fields_have_their_meanings() -> None:
    theirs = FRAME()
    theirs.ParseFromString(write_frame(InfluxFrame(B, (
        InfluxPong(PEERS, interest_in(3)), InfluxPayload(b"text", 5), InfluxPing(EVERYTHING)))))
    pong, said, ping = theirs.messages
    assert [(peer.identity, peer.address, peer.interests) for peer in pong.pong.peers] == [
        (b"B" * 16, "10.0.0.2:8082", 1 << 1 | 1 << 63), (b"A" * 16, "[::1]:80", (1 << 64) - 1)]
    assert (pong.pong.interests, said.user_data.payload, said.user_data.topic) == (1 << 3, b"text", 1 << 5)
    assert ping.WhichOneof("payload") == "ping"
    assert ping.ping.interests == (1 << 64) - 1


def test_accept_1_11_we_read_what_protobuf_writes() -> None:
    rng = Random(1)
    for _ in range(200):
        theirs = FRAME(identity=rng.randbytes(16))
        for _ in range(rng.randrange(4)):
            message = theirs.messages.add()
            match rng.randrange(3):
                case 0:
                    message.ping.interests = rng.getrandbits(64)
                case 1:
                    message.pong.interests = rng.getrandbits(64)
                    for port in range(rng.randrange(5)):
                        message.pong.peers.add(identity=rng.randbytes(16), address=f"10.0.0.{port}:{port + 1}",
                                               interests=rng.getrandbits(64))
                case _:
                    message.user_data.payload = rng.randbytes(rng.randrange(200))
                    message.user_data.topic = 1 << rng.randrange(64)
        data = theirs.SerializeToString()
        assert write_frame(read_frame(data)) == data


def test_accept_1_7_a_payload_of_10207_bytes_fills_the_largest_frame() -> None:
    assert len(write_frame(InfluxFrame(A, (InfluxPayload(bytes(10_207), 34),)))) == MAX_FRAME_BYTES
    with pytest.raises(ValueError, match="10241"):
        write_frame(InfluxFrame(A, (InfluxPayload(bytes(10_208), 34),)))
    with pytest.raises(ValueError, match="10245"):
        write_frame(InfluxFrame(A, (InfluxPayload(bytes(10_207), 63),)))        # what the original overlooks


def test_accept_1_12_a_thousand_peers_are_listed_in_frames_that_the_original_reads() -> None:
    peers = tuple((Address(number.to_bytes(16, "big")), (f"10.0.{number // 250}.{number % 250}", 8082))
                  for number in range(1000))
    pong = PeerPong(NOTHING, PLACE, peers, False, False)
    stack = Stack([InfluxUdp()], A)
    stack.inject(SendTo(PLACE, Batch(A, None, (), (pong,), CONTROL)), 0)
    frames = [b"".join(output.data) for output in stack.outputs if isinstance(output, Frame)]
    assert max(map(len, frames)) <= MAX_FRAME_BYTES
    told = [peer for data in frames for message in read_frame(data).messages for peer in message.peers]
    assert [(peer.identity, peer.place) for peer in told] == list(peers)


def test_fields_of_a_later_schema_are_skipped() -> None:
    data = write_frame(InfluxFrame(A, (InfluxPing(interest_in(1)),)))
    assert read_frame(data + b"\x78\x05" + b"\x7a\x02hi" + b"\x7d1234" + b"\x7912345678") == read_frame(data)


def test_a_topic_without_a_number_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="64"):
        write_frame(InfluxFrame(A, (InfluxPayload(b"", 64),)))


def test_accept_1_10_any_bytes_are_a_wire_error_or_a_frame_to_protobuf_too() -> None:
    rng, taken = Random(2), 0
    whole = [write_frame(frame) for frame in FRAMES[1:]]
    for _ in range(5000):
        data = bytearray(rng.choice(whole))
        for _ in range(rng.randrange(4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        data = data[:rng.randrange(len(data) + 1)]
        try:
            read_frame(bytes(data))
        except WireError:
            continue
        FRAME().ParseFromString(bytes(data))
        taken += 1
    assert taken > 100
