"""memberlist's frames: those of a real agent are read, written ones decode to the same, others are a WireError."""
from __future__ import annotations

from random import Random

import pytest

from jgroups_py.model.batch import Header
from jgroups_py.model.errors import WireError
from jgroups_py.protocols.swim.headers import (
    ALIVE,
    DEAD,
    LEFT,
    SUSPECT,
    Alive,
    Dead,
    Nack,
    NodeState,
    PingFor,
    PingHeader,
    ProbeAck,
    PushPull,
    SuspectedHeader,
    UserMessage,
)
from jgroups_py.protocols.swim.memberlist import packet, serf
from jgroups_py.protocols.swim.memberlist.body import packed
from jgroups_py.protocols.swim.memberlist.messages import (
    COMPOUND,
    COMPRESSED,
    PUSH_PULL,
    USER,
    CodecContext,
    StreamFailure,
    address_of,
    write_message,
)
from jgroups_py.protocols.swim.memberlist.packet import deflated, fitting, read_packet, write_packet
from jgroups_py.protocols.swim.memberlist.stream import StreamReader, write_stream

CONTEXT = CodecContext()
AGENT, US = ("127.0.0.2", 27946), ("127.0.0.3", 27946)


def alive(name="us", place=US, incarnation=1, meta=b"\xff\x81\xa1k\xa1v"):
    return Alive(incarnation, name, place, address_of(name, place), None, meta)


PACKETS = {
    "a ping of serf agent 0.9.4": (
        "0085a44e6f6465a27573a55365714e6f01aa536f7572636541646472a47f000002aa536f757263654e6f6465a56167656e74aa536f757263"
        "65506f7274cd6d2a",
        [PingHeader(1, "us", "agent", AGENT)]),
    "its gossip: a checksum around a compound of two alive messages": (
        "0ceae7d2cd0702004d00400486a441646472a47f000002ab496e6361726e6174696f6e01a44d657461b0ff82a4726f6c65a3776562a26463"
        "a161a44e6f6465a56167656e74a4506f7274cd6d2aa356736ea60105020205050486a441646472a47f000003ab496e6361726e6174696f6e"
        "01a44d657461a6ff81a16ba176a44e6f6465a27573a4506f7274cd6d2aa356736ea6010502020504",
        [alive("agent", AGENT, meta=b"\xff\x82\xa4role\xa3web\xa2dc\xa1a"), alive()]),
}
MESSAGES = (
    PingHeader(1, "a", "", None), PingHeader(2**32 - 1, "a", "b", US),
    PingFor(2, "us", US, address_of("us", US), True, "", None),
    PingFor(3, "us", US, address_of("us", US), False, "b", AGENT), ProbeAck(4, b""), ProbeAck(5, b"\x01\x02"), Nack(6),
    SuspectedHeader(7, "us", "agent", 0), alive(), alive(place=None), alive("ü" * 60, ("::1", 1), 0, bytes(512)),
    Dead(8, "us", "us"), UserMessage(b""), UserMessage(bytes(range(256))),
)
STATES = (ALIVE, SUSPECT, DEAD, LEFT)
STREAMS = (
    PushPull(0, False, True, (), b""),
    PushPull(0, False, False, tuple(NodeState(alive(f"node{n}"), STATES[n % 4]) for n in range(50)), bytes(range(250))),
    PingHeader(1, "a", "b", US), ProbeAck(1, b""), UserMessage(b"x" * 300), StreamFailure("no room"),
)


@pytest.mark.parametrize("case", PACKETS)
def test_frames_of_a_real_agent_are_read(case):
    frame, messages = PACKETS[case]
    assert read_packet(bytes.fromhex(frame), CONTEXT) == messages


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("check", [False, True])
def test_messages_decode_to_what_was_encoded(compress, check):
    for message in MESSAGES:
        data = write_packet([write_message(message, CONTEXT)], compress=compress, check=check)
        assert read_packet(data, CONTEXT) == [message]
    data = write_packet([write_message(message, CONTEXT) for message in MESSAGES], compress=compress, check=check)
    assert read_packet(data, CONTEXT) == list(MESSAGES)


def test_fields_that_memberlist_lacks_are_left_out():
    told = SuspectedHeader(7, "us", "agent", 5)
    assert read_packet(write_message(told, CONTEXT), CONTEXT) == [SuspectedHeader(7, "us", "agent", 0)]


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("piece_bytes", [1, 7, 1 << 16])
@pytest.mark.parametrize("message", STREAMS, ids=lambda message: type(message).__name__)
def test_a_stream_is_complete_with_its_last_byte_and_not_before(message, piece_bytes, compress):
    data = write_stream(message, CONTEXT, compress=compress)
    reader = StreamReader(CONTEXT)
    pieces = [data[at:at + piece_bytes] for at in range(0, len(data), piece_bytes)]
    assert [reader.feed(piece) for piece in pieces] == [None] * (len(pieces) - 1) + [message]


def test_bytes_after_a_stream_s_message_are_an_error():
    reader = StreamReader(CONTEXT)
    assert reader.feed(write_stream(ProbeAck(1, b""), CONTEXT, compress=False)) == ProbeAck(1, b"")
    with pytest.raises(WireError, match="bytes after the message"):
        reader.feed(b"\x02")


def test_a_node_has_the_same_address_for_a_place_at_every_member():
    assert address_of("a", US) == address_of("a", US) != address_of("a", AGENT)
    assert address_of("a", ("b", 1)) != address_of("ab", ("", 1))


def test_fields_that_are_missing_or_nil_are_zero_and_unknown_ones_are_skipped():
    body = packed({"SeqNo": 3, "Payload": None, "Invented": [1, {}]})
    assert read_packet(b"\x02" + body, CONTEXT) == [ProbeAck(3, b"")]


def test_an_ipv4_address_in_16_bytes_is_one():
    mapped = bytes(10) + b"\xff\xff\x7f\x00\x00\x03"
    (message,) = read_packet(b"\x04" + packed({"Node": "us", "Addr": mapped, "Port": US[1]}), CONTEXT)
    assert message.place == US


def test_messages_are_cut_into_packets_that_fit():
    messages = [bytes((USER,)) + bytes(number) for number in (400, 300, 300, 2000, 10)]
    packets = list(fitting(messages, 1100))
    assert [[len(message) for message in packet] for packet in packets] == [[401, 301, 301], [2001], [11]]
    few_bytes = list(fitting([b"\x08"] * 300, 1100))
    assert [len(packet) for packet in few_bytes] == [255, 45]


WRONG = {
    "nothing": (b"", "empty"),
    "an unknown type": (b"\x63\x80", "unknown type 99"),
    "a push-pull": (bytes((PUSH_PULL,)) + packed({}), "type 6"),
    "a body that is a list": (b"\x00\x90", "not a map"),
    "a body that ends early": (b"\x00\x82\xa5SeqNo", "not msgpack"),
    "bytes after the body": (b"\x00\x80\x80", "not msgpack"),
    "a number below 0": (b"\x00" + packed({"SeqNo": -1}), "SeqNo is -1; allowed are 0 to"),
    "a number above 32 bits": (b"\x00" + packed({"SeqNo": 1 << 32}), "allowed are 0 to"),
    "a flag for a number": (b"\x00" + packed({"SeqNo": True}), "is a bool"),
    "a name that is not text": (b"\x00" + packed({"Node": b"\xff"}), "not UTF-8"),
    "an address of 5 bytes": (b"\x04" + packed({"Addr": bytes(5), "Port": 1}), "5 bytes"),
    "five versions": (b"\x04" + packed({"Vsn": bytes(5)}), "has 5 version numbers, not 6"),
    "a wrong checksum": (b"\x0c\0\0\0\0\x02\x80", "wrong checksum"),
    "half a checksum": (b"\x0c\0\0", "truncated"),
    "an unknown compression": (bytes((COMPRESSED,)) + packed({"Algo": 1, "Buf": b""}), "algorithm 1; only 0"),
    "a compound without lengths": (bytes((COMPOUND, 2, 0, 1)), "truncated"),
    "a compound whose lengths are wrong": (bytes((COMPOUND, 1, 0, 9, 2)), "do not add up"),
    "a compound with an empty message": (bytes((COMPOUND, 1, 0, 0)), "empty"),
    "envelopes without end": (deflated(deflated(deflated(deflated(deflated(b"\x02\x80"))))), "too many envelopes"),
    "a label": (b"\xf4\x01a\x02\x80", "label"),
    "an encrypted message": (b"\x0a" + bytes(40), "type 10"),
    "a name that steers terminals": (b"\x04" + packed({"Node": "\x1b[31mred"}), "no member may have"),
    "an accuser of two lines": (b"\x05" + packed({"Node": "a", "From": "b\nc"}), "no member may have"),
}


def nested(data: bytes, number: int, times: int) -> bytes:
    """A compound of `number` times `data`, nested `times` deep."""
    for _ in range(times):
        data = bytes((COMPOUND, number)) + len(data).to_bytes(2, "big") * number + data * number
    return data


TOO_MUCH = {
    "65,025 messages in 25 KB": nested(deflated(nested(b"\x02\x80", 255, 1)), 255, 1),
    "four levels of compounds": nested(b"\x02\x80", 10, 4),
    "9.2 MB in 65 KB": nested(deflated(b"\x08" + bytes(0xFFF0)), 140, 1),
}


@pytest.mark.parametrize("case", TOO_MUCH)
def test_what_one_datagram_unpacks_to_is_bounded_over_all_its_envelopes(case, monkeypatch):
    data, taken = TOO_MUCH[case], [0, 0]
    assert len(data) <= 0xFFFF
    real_inflate, real_read = packet.decompressed, packet.read_message

    def inflate(data: bytes, limit: int) -> bytes:
        found = real_inflate(data, limit)
        taken[0] += len(found)
        return found

    def read(data: bytes, context: CodecContext) -> Header:
        taken[1] += 1
        return real_read(data, context)
    monkeypatch.setattr(packet, "decompressed", inflate)
    monkeypatch.setattr(packet, "read_message", read)
    with pytest.raises(WireError, match=r"unpacks to more than|decodes to more than"):
        read_packet(data, CONTEXT)
    assert taken[0] <= packet.LARGEST_PACKET
    assert taken[1] <= packet.FULLEST_PACKET


def test_the_largest_packet_that_a_library_makes_is_read():
    messages = [write_message(alive("n" * 150, US, n), CONTEXT) for n in range(255)]
    for compress, check in ((False, True), (True, True)):
        data = write_packet(messages, compress=compress, check=check)
        assert len(read_packet(data, CONTEXT)) == 255


@pytest.mark.parametrize("case", WRONG)
def test_a_malformed_packet_is_refused_with_the_reason(case):
    data, reason = WRONG[case]
    with pytest.raises(WireError, match=reason):
        read_packet(data, CONTEXT)


WRONG_STREAMS = {
    "an unknown type": (b"\x63", "type 99"),
    "encrypted": (b"\x0a\0\0\0\1", "which is encrypted"),
    "more nodes than there may be": (b"\x06" + packed({"Nodes": 1 << 40}), "allowed are 0 to"),
    "a user state of a negative length": (b"\x06" + packed({"UserStateLen": -5}), "allowed are 0 to"),
    "a node that is not a map": (b"\x06" + packed({"Nodes": 1}) + b"\x07", "not a map"),
    "a node in an unknown state": (b"\x06" + packed({"Nodes": 1}) + packed({"State": 4}), "state is 4; allowed are"),
    "bytes that are not msgpack": (b"\x06\xc1", "not a message"),
    "a list of many items in five bytes": (b"\x06\xdd\xff\xff\xff\xff", "not a message"),
    "too long": (b"\x08" + packed({"UserMsgLen": 2000}) + bytes(1500), "more than 1000 bytes"),
}


@pytest.mark.parametrize("case", WRONG_STREAMS)
def test_a_malformed_stream_is_refused_with_the_reason(case):
    data, reason = WRONG_STREAMS[case]
    with pytest.raises(WireError, match=reason):
        StreamReader(CONTEXT, 1000 if case == "too long" else 1 << 20).feed(data)


@pytest.mark.parametrize("ltime", [2**62, 2**63, 2**64 - 1])
def test_a_lamport_time_that_leaves_no_room_for_later_ones_is_refused(ltime):
    with pytest.raises(WireError, match="allowed are 0 to"):
        serf.read_message(serf.write_message(serf.SerfJoin(ltime, "a")))
    state = serf.SerfState(1, {"a": ltime}, (), 1, (), 1)
    with pytest.raises(WireError, match="not a number"):
        serf.read_state(serf.write_state(state))


def test_messages_of_serf_decode_to_what_was_encoded():
    for message in (
            serf.SerfJoin(1, "a"), serf.SerfLeave(2**62 - 1, "b", True), serf.SerfEvent(3, "deploy", b"\0\1", True)):
        assert serf.read_message(serf.write_message(message)) == message
    assert serf.read_message(b"\x04" + packed({"LTime": 4, "ID": 5, "Name": "load"})) == serf.Query(4, 5, "load")
    assert serf.read_message(b"\x05\x80") is None


def test_a_state_of_serf_decodes_to_what_was_encoded():
    events = (serf.SerfEvent(3, "deploy", b"1"), serf.SerfEvent(3, "deploy", b"2"), serf.SerfEvent(4, "restart", b""))
    state = serf.SerfState(9, {"a": 1, "b": 7}, ("b",), 5, events, 2)
    assert serf.read_state(serf.write_state(state)) == state
    of_an_agent = b"\x02" + packed({"LTime": 1, "Events": [None] * 512, "StatusLTimes": {"agent": 0}})
    assert serf.read_state(of_an_agent) == serf.SerfState(1, {"agent": 0}, (), 0, (), 0)


@pytest.mark.parametrize(("data", "reason"), [
    (b"", "not a state"), (b"\x01\x80", "not a state"),
    (b"\x02" + packed({"StatusLTimes": {"a": "b"}}), "not a number"),
    (b"\x02" + packed({"StatusLTimes": {1: 1}}), "int is not allowed"),
    (b"\x02" + packed({"Events": [1]}), "not a map"),
    (b"\x02" + packed({"LeftMembers": [1]}), "is a int"),
])
def test_a_malformed_state_is_refused_with_the_reason(data, reason):
    with pytest.raises(WireError, match=reason):
        serf.read_state(data)


def mangled(random, data):
    """`data` with some bits, bytes and lengths changed."""
    data = bytearray(data)
    for _ in range(random.randrange(4)):
        at = random.randrange(len(data)) if data else 0
        match random.randrange(4):
            case 0 if data:
                data[at] ^= 1 << random.randrange(8)
            case 1 if data:
                data[at] = random.choice((0, 0x7F, 0x80, 0x90, 0xC0, 0xC1, 0xC7, 0xDA, 0xDD, 0xDF, 0xFF))
            case 2:
                del data[at:at + random.randrange(1, 9)]
            case _:
                data[at:at] = random.randbytes(random.randrange(1, 5))
    return bytes(data)


def fuzzed(read, samples, rounds, seed):
    """How often `read` took mangled samples, and how often it refused them."""
    random, outcomes = Random(seed), {"read": 0, "refused": 0}
    for _ in range(rounds):
        data = mangled(random, random.choice(samples)) if random.random() < 0.95 else random.randbytes(30)
        try:
            read(data)
            outcomes["read"] += 1
        except WireError:
            outcomes["refused"] += 1
    return outcomes


def test_any_packet_gives_messages_or_an_error():
    samples = [bytes.fromhex(frame) for frame, _ in PACKETS.values()]
    samples += [write_packet([write_message(m, CONTEXT)], compress=m is MESSAGES[10], check=False) for m in MESSAGES]
    outcomes = fuzzed(lambda data: read_packet(data, CONTEXT), samples, 4000, seed=1)
    assert min(outcomes.values()) > 500, outcomes


def test_any_stream_gives_a_message_or_waits_or_is_an_error():
    samples = [write_stream(m, CONTEXT, compress=compress) for m in STREAMS for compress in (False, True)]
    outcomes = fuzzed(lambda data: StreamReader(CONTEXT).feed(data), samples, 1500, seed=2)
    assert min(outcomes.values()) > 200, outcomes


def test_any_user_message_of_serf_gives_one_or_an_error():
    samples = [serf.write_message(serf.SerfJoin(1, "a")), serf.write_message(serf.SerfEvent(3, "deploy", b"x"))]
    states = [serf.write_state(serf.SerfState(9, {"a": 1}, ("b",), 5, (serf.SerfEvent(3, "d", b"1"),), 2))]
    assert min(fuzzed(serf.read_message, samples, 1500, seed=3).values()) > 200
    assert min(fuzzed(serf.read_state, states, 1500, seed=4).values()) > 200
