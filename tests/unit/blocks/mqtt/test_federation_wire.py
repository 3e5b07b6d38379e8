"""Frames and events between brokers as bytes: golden ones, and any others."""
from __future__ import annotations

from random import Random

import attrs
import pytest

from jgroups_py.blocks.mqtt.broker.journal import SessionChange
from jgroups_py.blocks.mqtt.broker.publication import Publication
from jgroups_py.blocks.mqtt.broker.session import NO_MESSAGE, Delivery, GrantedOptions, LateMessages, LateSource
from jgroups_py.blocks.mqtt.codec.packets import Properties, Will
from jgroups_py.blocks.mqtt.federation import copy_bytes as c
from jgroups_py.blocks.mqtt.federation import wire as w
from jgroups_py.blocks.mqtt.federation.core import FederationCore
from jgroups_py.blocks.mqtt.federation.options import FederationOptions
from jgroups_py.blocks.mqtt.federation.sessions import (
    QueuedDelivery,
    SessionMoved,
    SessionOffer,
    followed_body,
    passed_body,
    read_followed,
    read_passed,
)
from jgroups_py.blocks.mqtt.federation.tables import SessionOwner
from jgroups_py.model.errors import WireError

PUBLICATION = Publication("a/b", b"123", 1, True, Properties(correlation_data=b"\xff\x00"), "me", 5_000_000_000)
PUBLICATION.origin, PUBLICATION.number = 7, 9
MESSAGE = w.ForwardedMessage(PUBLICATION, (("g", "a/+"),), shared_only=True, is_moved=True)
EVENTS = w.event_bytes(w.EventKind.MESSAGE, w.message_body(MESSAGE, 1_000_000_000))

GOLDEN: tuple[tuple[w.PeerFrame, str], ...] = (
    (w.PeerHello(1, 2, 3), "0101" "0000000000000001" "0000000000000002" "0000000000000003"),
    (w.PeerWelcome(1, 2, True, 3), "0102" "0000000000000001" "0000000000000002" "01" "0000000000000003"),
    (w.PeerEvents(2, 3, EVENTS), "0103" "0000000000000002" "0000000000000003" "00000040"
     "01" "0000003b" "fd" "0000000000000007" "0000000000000009" "0003" "0002" "00000003"
     "612f62" "6d65" "313233" "0000000000000fa0" "05" "090002ff00" "00000001" "000167" "0003612f2b"),
    (w.PeerAck(2, 3), "0104" "0000000000000002" "0000000000000003"),
    (w.InterestChange(1, 2, (("a/#", w.ONE), ("$share/g/b", w.GroupCount(0, 0)))),
     "0105" "0000000000000001" "0000000000000002" "00000002"
     "0003612f23" "0000000000000001" "0000000000000001"
     "000a2473686172652f672f62" "0000000000000000" "0000000000000000"),
    (w.InterestTree(1, 2, (("b", w.ONE),)), "0106" "0000000000000001" "0000000000000002" "00000001"
     "000162" "0000000000000001" "0000000000000001"),
    (w.InterestDigest(1, 2), "0107" "0000000000000001" "0000000000000002"),
    (w.WantTree(), "0108"),
    (w.TableExchange(w.RETAINED, b"xyz"), "0109" "01" "0000000378797a"),
    (w.RouteFence("A", "client", 5), "010a" "000141" "0006636c69656e74" "0000000000000005"),
    (w.SiteMessage(6, b"xyz", (("SFO", "$share/g/a"),)),
     "010b" "0000000000000006" "0000000378797a" "00000001" "000353464f" "000a2473686172652f672f61"),
    (w.SiteFilters(1, 2, 3, True, (("b", w.ONE),), ("a/#",), ("c", "d")),
     "010c" "0000000000000001" "0000000000000002" "0000000000000003" "01"
     "00000001" "000162" "0000000000000001" "0000000000000001" "00000001" "0003612f23" "00000002" "000163" "000164"),
    (w.SiteDigest(1, 2, 3), "010d" "0000000000000001" "0000000000000002" "0000000000000003"),
    (w.WantSiteFilters("SFO"), "010e" "000353464f"),
    (w.SiteServed(((7, 9),)), "010f" "00000001" "0000000000000007" "0000000000000009"),
    (w.OrphanFence("A", 5), "0110" "000141" "0000000000000005"),
    (w.CopyAck(5), "0111" "0000000000000005"),
    (w.PeerReceived(2, 3), "0112" "0000000000000002" "0000000000000003"),
)


PLAIN = ((0, False, False, False), (1, True, False, False), (2, False, False, False), (2, True, True, False),
         (1, False, False, True), (0, False, True, True))


@pytest.mark.parametrize(("qos", "retain", "shared_only", "is_moved"), PLAIN)
@pytest.mark.parametrize("topic", ["a/b", "\u00e9/" * 200])
@pytest.mark.parametrize("payload", [b"", b"x" * 300])
def test_the_short_way_to_write_and_read_a_message_is_the_long_one(qos, retain, shared_only, is_moved, topic, payload):
    made = Publication(topic, payload, qos, retain, publisher="me")
    made.origin, made.number = 7, 9
    item = w.ForwardedMessage(made, (), shared_only, is_moved)
    data = w.message_event_bytes(item, 5)
    assert data == w.event_bytes(w.EventKind.MESSAGE, w.message_body(item, 5))
    topics = w.KnownTopics()
    for _ in range(2):                                   # the second time the topic is known
        found = w.read_plain_message(data, 5, len(data), topics)
        assert (found is None) is (shared_only or is_moved)
        again = w.read_message(data[5:], 5, topics)
        assert (again.shared_only, again.is_moved) == (shared_only, is_moved)
        for each in (again.publication, found or again.publication):
            assert attrs.asdict(each) == attrs.asdict(made)


def test_the_short_way_to_read_takes_nothing_that_the_long_one_refuses():
    """Whatever the bytes: a value, None or WireError, and where there is a value the long way has the same."""
    rng, topics = Random(7), w.KnownTopics()
    made = Publication("a/b", b"123", 1, False, publisher="m\u00e9")
    body = w.message_event_bytes(w.ForwardedMessage(made), 5)[5:]
    taken = 0
    for _ in range(5_000):
        data = bytearray(body)
        for _ in range(rng.randrange(4)):
            data[rng.randrange(len(data))] = rng.choice((0, 1, 3, 4, 7, 35, 43, 63, 255, rng.randrange(256)))
        del data[rng.choice((len(data), rng.randrange(len(data)))):]
        try:
            found = w.read_plain_message(bytes(data), 0, len(data), topics)
        except WireError:
            found = None
        if found is not None:
            taken += 1
            assert attrs.asdict(w.read_message(bytes(data), 5).publication) == attrs.asdict(found)
    assert taken > 500


def test_topics_that_are_remembered_are_bounded():
    topics = w.KnownTopics()
    for number in range(2 * w.MAX_TOPICS):
        assert topics[b"t/%d" % number] == f"t/{number}"
    assert len(topics) <= w.MAX_TOPICS
    before = len(topics)
    assert topics[b"x" * 1_000] == "x" * 1_000
    assert len(topics) == before
    for wrong in (b"a/+", b"\xff"):
        with pytest.raises(WireError):
            topics[wrong]


@pytest.mark.parametrize(("frame", "golden"), GOLDEN, ids=lambda value: type(value).__name__)
def test_frames_are_written_as_they_always_were_and_read_back(frame, golden):
    assert w.encode_frame(frame).hex() == golden
    assert w.decode_frame(bytes.fromhex(golden)) == frame


def test_every_frame_is_among_them():
    assert [type(frame) for frame, _ in GOLDEN] == w.known_frames()


def test_a_message_is_read_as_it_was_written():
    (kind, begin, end), = w.split_events(EVENTS)
    found = w.read_message(EVENTS[begin:end], 11_000_000_000)
    assert kind == w.EventKind.MESSAGE
    assert (found.targets, found.shared_only, found.is_moved) == (MESSAGE.targets, True, True)
    expected = attrs.evolve(PUBLICATION, expires_ns=15_000_000_000)
    assert attrs.asdict(found.publication) == attrs.asdict(expected)


OFFER = SessionOffer("me", 5, 60, (("$share/g/a", GrantedOptions(1, False, True, (7,))),))
OFFER_BEHIND = attrs.evolve(OFFER, last_id=9)
QUEUED = QueuedDelivery("me", 5, 9, Delivery(PUBLICATION, 1, True, (7,), "$share/g/a"))
MOVED = SessionMoved("me", 5, True, False, 9, (3,), ((7, 9),))
FOLLOWED = SessionMoved("me", 5, True, is_followed=True)
WITH_WILL = SessionMoved("me", 5, True, is_followed=True, will_ns=9,
                         will=Will("w", b"x", 1, True, Properties(will_delay_interval=9)))
LATE = LateMessages(5, {"A": LateSource(4, 3, 3_000_000_000, {7: 2})}, ((7, 9), (8, 1)), ((8, 2, "$share/g/a"),))
"""Of origin 8 nothing can come late, so it is not remembered."""
LATE_BYTES = ("0000000000000005" "00000001" "000141" "0000000000000004" "0000000000000003" "0000000077359400" "00000001"
              "0000000000000007" "0000000000000002" "00000001" "0000000000000007" "0000000000000009"
              "00000001" "0000000000000008" "0000000000000002" "000a2473686172652f672f61")
SESSIONS = (
    (OFFER.encode(), "00026d65" "0000000000000005" "0000003c" "00000001" "000a2473686172652f672f61" "01" "00" "01"
     "0000000100000007"),
    (OFFER_BEHIND.encode(), OFFER.encode().hex() + "0009"),
    (QUEUED.encode(1_000_000_000), "00026d65" "0000000000000005" "01" "0009" "01" "01" "0000000100000007"
     "000a2473686172652f672f61" "0000002f" "35" "0000000000000007" "0000000000000009" "0003" "0002" "00000003"
     "612f62" "6d65" "313233" "0000000000000fa0" "05" "090002ff00"),
    (QueuedDelivery("me", 5, 9, NO_MESSAGE).encode(0),
     "00026d65" "0000000000000005" "02" "0009" "02" "00" "00000000" "0000" "00000000"),
    (MOVED.encode(), "00026d65" "0000000000000005" "01" "00" "0009" "00000001" "0003" "00000001" "0000000000000007"
     "0000000000000009"),
    (FOLLOWED.encode(), "00026d65" "0000000000000005" "01" "00" "0000" "00000000" "00000000" "01"),
    (WITH_WILL.encode(), "00026d65" "0000000000000005" "01" "00" "0000" "00000000" "00000000" "03"
     "0000000000000009" "000177" "0000000178" "01" "01" "00000006" "05" "1800000009"),
    (passed_body("me", 5), "00026d65" "0000000000000005"),
    (followed_body("me", LATE, 1_000_000_000), "00026d65" + LATE_BYTES),
)


@pytest.mark.parametrize(("found", "golden"), SESSIONS)
def test_events_of_a_session_are_written_as_they_always_were(found, golden):
    assert found.hex() == golden


def test_events_of_a_session_are_read_as_they_were_written():
    assert SessionOffer.decode(OFFER.encode()) == OFFER
    assert SessionOffer.decode(OFFER_BEHIND.encode()) == OFFER_BEHIND
    for behind in (b"\x00", b"\x00\x09\x00"):
        with pytest.raises(WireError):
            SessionOffer.decode(OFFER.encode() + behind)
    assert SessionMoved.decode(MOVED.encode()) == MOVED
    assert SessionMoved.decode(FOLLOWED.encode()) == FOLLOWED
    assert SessionMoved.decode(WITH_WILL.encode()) == WITH_WILL
    for behind in (b"\x00", b"\x01\x00", b"\x04", b"\x02"):
        with pytest.raises(WireError):
            SessionMoved.decode(MOVED.encode() + behind)
    assert read_passed(passed_body("me", 5)) == ("me", 5)
    client_id, late = read_followed(followed_body("me", LATE, 1_000_000_000), 2_000_000_000)
    assert (client_id, late.claim, list(late.had)) == ("me", 5, [(7, 9)])
    assert list(late.of_groups) == [(8, 2, "$share/g/a")]
    assert attrs.asdict(late.sources["A"]) == attrs.asdict(LateSource(4, 3, 4_000_000_000, {7: 2}))
    with pytest.raises(WireError):
        read_followed(followed_body("me", LATE, 0) + b"\x00", 0)
    with pytest.raises(WireError):
        read_followed(bytes.fromhex("00026d65" "0000000000000005" "00000000" "00002711") + bytes(16 * 10_001 + 4), 0)
    found = QueuedDelivery.decode(QUEUED.encode(1_000_000_000), 1_000_000_000)
    assert (found.client_id, found.claim, found.packet_id) == ("me", 5, 9)
    assert attrs.asdict(found.delivery) == attrs.asdict(QUEUED.delivery)
    assert QueuedDelivery.decode(SESSIONS[3][0], 0).delivery is NO_MESSAGE


def test_what_may_come_late_is_in_a_copy_with_what_has_come() -> None:
    copy = c.SessionCopy(1)
    copy.apply(b"\x16" + bytes.fromhex(LATE_BYTES), 2_000_000_000)
    assert copy.late is not None
    assert attrs.asdict(copy.late.sources["A"]) == attrs.asdict(LateSource(4, 3, 4_000_000_000, {7: 2}))
    publication = attrs.evolve(PUBLICATION)
    publication.origin, publication.number = 7, 11
    plain = attrs.evolve(QUEUED.delivery, group="", publication=publication)
    copy.apply(c.change_bytes((SessionChange.QUEUED, plain), 0) + c.change_bytes(CHANGES[6][0], 0), 0)
    assert list(copy.late.had) == [(7, 9), (7, 11)]
    assert list(copy.late.of_groups) == [(8, 2, "$share/g/a"), (7, 9, "$share/g/a")]


def test_the_owner_of_a_session_is_written_as_it_always_was_and_read_with_the_life_of_its_node():
    without, with_life = SessionOwner("me", "A", 5, True), SessionOwner("me", "A", 5, True, 9)
    assert without.encode().hex() == "00026d65" "000141" "0000000000000005" "01"
    assert with_life.encode() == without.encode() + (9).to_bytes(8, "big")
    assert [SessionOwner.decode(owner.encode()).life for owner in (without, with_life)] == [0, 9]
    with pytest.raises(WireError):
        SessionOwner.decode(with_life.encode() + b"\x00")


DELIVERY = ("01" "01" "0000000100000007" "000a2473686172652f672f61" "0000002f" "35" "0000000000000007"
            "0000000000000009" "0003" "0002" "00000003" "612f62" "6d65" "313233" "0000000000000fa0" "05" "090002ff00")
WILL = Will("w", b"x", 1, True, Properties(will_delay_interval=9))
CHANGES = (
    ((SessionChange.CONNECTION, 60, True, WILL), "01" "0000003c" "01" "01" "000177" "0000000178" "01" "01" "00000006"
     "05" "1800000009"),
    ((SessionChange.CONNECTION, 60, False, None), "01" "0000003c" "00" "00"),
    ((SessionChange.SUBSCRIBED, "a/#", GrantedOptions(1, False, True, (7,))),
     "02" "0003612f23" "01" "00" "01" "0000000100000007"),
    ((SessionChange.UNSUBSCRIBED, "a/#"), "03" "0003612f23"),
    ((SessionChange.RECORDED, 3), "04" "0003"),
    ((SessionChange.UNRECORDED, 3), "05" "0003"),
    ((SessionChange.QUEUED, QUEUED.delivery), "06" "00000049" + DELIVERY),
    ((SessionChange.UNQUEUED,), "07"),
    ((SessionChange.TAKEN, 9), "08" "0009"),
    ((SessionChange.SENT, 9, QUEUED.delivery), "09" "0009" "00000049" + DELIVERY),
    ((SessionChange.RELEASED, 9), "0a" "0009"),
    ((SessionChange.DONE, 9), "0b" "0009"),
)
PART = c.CopyPart("me", 5, 7, True, False, b"xyz")
COPIES = (
    (c.number_bytes(3) + c.part_bytes(PART), "0000000000000003"
     "00026d65" "0000000000000005" "0000000000000007" "01" "00" "0000000378797a"),
    (c.here_body("A", True, (("me", c.CopyRank(1, 5, 7)),)),
     "000141" "01" "00000001" "00026d65" "01" "0000000000000005" "0000000000000007"),
    (c.wanted_body("A", "me", 5), "000141" "00026d65" "0000000000000005"),
    (c.text_body("me", 1), "00026d65" "0000000000000001"),
)


@pytest.mark.parametrize(("entry", "golden"), CHANGES)
def test_changes_of_a_session_are_written_as_they_always_were(entry, golden):
    assert c.change_bytes(entry, 1_000_000_000).hex() == golden


@pytest.mark.parametrize(("found", "golden"), COPIES)
def test_events_of_copies_are_written_as_they_always_were(found, golden):
    assert found.hex() == golden


def test_events_of_copies_are_read_as_they_were_written():
    assert c.read_parts(COPIES[0][0] + c.part_bytes(PART)) == (3, [PART, PART])
    assert c.read_here(COPIES[1][0]) == ("A", True, {"me": c.CopyRank(1, 5, 7)})
    assert c.read_wanted(COPIES[2][0]) == ("A", "me", 5)
    assert c.read_text(COPIES[3][0]) == ("me", 1)


def test_a_copy_that_carries_out_all_changes_is_the_session():
    copy = c.SessionCopy(1)
    copy.apply(b"".join(c.change_bytes(entry, 1_000_000_000) for entry, _ in CHANGES[:2]), 2_000_000_000)
    assert (copy.expiry_s, copy.is_connected, copy.will) == (60, False, None)
    assert copy.away_ns(5_000_000_000) == 3_000_000_000
    copy.apply(c.change_bytes(CHANGES[0][0], 0), 0)
    assert (copy.will, copy.away_ns(5)) == (WILL, 0)
    copy.apply(c.change_bytes(CHANGES[2][0], 0), 0)
    assert copy.subscriptions == {"a/#": GrantedOptions(1, False, True, (7,))}
    copy.apply(c.change_bytes(CHANGES[3][0], 0), 0)
    for name, *values in (
            ("RECORDED", 3), ("RECORDED", 4), ("UNRECORDED", 3), ("QUEUED", QUEUED.delivery),
            ("QUEUED", QUEUED.delivery), ("QUEUED", QUEUED.delivery), ("UNQUEUED",), ("TAKEN", 9),
            ("SENT", 10, QUEUED.delivery), ("SENT", 11, QUEUED.delivery), ("RELEASED", 10), ("DONE", 11)):
        entry = (SessionChange[name], *values)
        copy.apply(c.change_bytes(entry, 1_000_000_000), 1_000_000_000)
    assert (copy.subscriptions, list(copy.recorded), list(copy.in_flight), copy.in_flight[10], len(copy.queue),
            copy.last_id) == ({}, [4], [9, 10], None, 1, 11)
    found = c.read_delivery(copy.queue[0])
    assert attrs.asdict(found) == attrs.asdict(QUEUED.delivery)
    assert copy.seen == {}                               # of a shared subscription: these are in no order


@pytest.mark.parametrize("changes", ["07", "080009", "0a0000", "63", "02" "0003612f23" "03" "00" "00" "00000000",
                                     "0600000001", "01" "0000003c" "01" "01" "000123"])
def test_changes_that_no_session_can_have_are_refused(changes):
    with pytest.raises(WireError):
        c.SessionCopy(1).apply(bytes.fromhex(changes), 0)


@pytest.mark.parametrize("change", [
    {"topic": "a/+"}, {"topic": ""}, {"topic": "a\0"}, {"qos": 3}, {"number": 1 << 62}, {"origin": 1 << 62},
    {"properties": Properties(topic_alias=1)}, {"properties": Properties(subscription_identifiers=(1,))},
])
def test_a_message_that_no_client_could_have_sent_is_refused(change):
    body = w.message_body(w.ForwardedMessage(attrs.evolve(PUBLICATION, **change)), 0)
    with pytest.raises(WireError):
        w.read_message(body, 0)


@pytest.mark.parametrize("target", [("", "a"), ("g/h", "a/#/b"), ("+", "a"), ("g", "")])
def test_a_target_that_no_client_could_have_is_refused(target):
    body = w.message_body(w.ForwardedMessage(PUBLICATION, (target,)), 0)
    with pytest.raises(WireError):
        w.read_message(body, 0)


@pytest.mark.parametrize("delta", [("a/#/b", w.ONE), ("a", w.GroupCount(1, 2)), ("a", w.GroupCount(1 << 40, 1))])
def test_an_absurd_filter_is_refused(delta):
    with pytest.raises(WireError):
        w.decode_frame(w.encode_frame(w.InterestChange(1, 1, (delta,))))


def test_a_frame_of_another_version_is_refused():
    with pytest.raises(WireError, match="no frame of this version"):
        w.decode_frame(b"\x02" + w.encode_frame(w.WantTree())[1:])


def mutated(rng: Random, data: bytes) -> bytes:
    changed = bytearray(data[:rng.randrange(len(data) + 1)] if rng.random() < 0.3 else data)
    for _ in range(rng.randrange(4)):
        if changed:
            changed[rng.randrange(len(changed))] = rng.choice((0, 1, 0x7F, 0xFF, rng.randrange(256)))
    return bytes(changed)


def event_frames() -> list[bytes]:
    """The events of a session, in frames of a stream."""
    return [w.encode_frame(w.PeerEvents(77, 1, w.event_bytes(kind, body)))
            for kind, (body, _) in zip((3, 3, 4, 4, 5, 5, 5, 2, 12, 6, 8, 9, 7), SESSIONS + COPIES, strict=True)]


def test_any_bytes_leave_a_core_that_works():
    """Q13: absurd frames are counted and dropped; the link lives."""
    rng = Random(3)
    core = FederationCore(FederationOptions(name="A", queue_bytes=100_000, session_copies=1), Random(1), now_ns=0)
    served = []

    class Served:
        class router:
            class retained:
                put = staticmethod(lambda publication: True)

        def deliver(self, *arguments, **options):
            served.append(arguments)

        def release(self, token, now_ns):
            served.append(token)

        class options:
            ack_timeout_s = 1

        sessions = {}
        claimed = refuse_claimed = take_connection = adopt = staticmethod(lambda *arguments: None)

    core.attach(Served())
    core.peers_changed({"A": 1, "B": 2}, 0)
    frames = [*(w.encode_frame(frame) for frame, _ in GOLDEN), *event_frames()]
    for number in range(20_000):
        if number % 50 == 0:
            core.publish(PUBLICATION, (), number)
        core.receive("B", mutated(rng, rng.choice(frames)), number)
        core.drain(number)
        core.tick(number * 1_000_000)
    assert core.counters["malformed"] > 2_000
    assert core.peers["B"].size < 400_000
    peer = core.peers["B"]
    core.receive("B", w.encode_frame(w.PeerHello(1, 77, 1)), 0)
    plain = w.event_bytes(w.EventKind.MESSAGE, w.message_body(w.ForwardedMessage(PUBLICATION), 0))
    core.receive("B", w.encode_frame(w.PeerEvents(77, peer.in_next, plain)), 0)
    assert served[-1][0].payload == b"123"
