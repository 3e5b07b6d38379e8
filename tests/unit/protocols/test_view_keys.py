"""ENCRYPT mode="view": a key for each two members and one for each view, and who may speak under them."""
from __future__ import annotations

import pytest

from jgroups_py import wire
from jgroups_py.model.address import Address
from jgroups_py.model.batch import NO_RELIABILITY, Batch
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import AddressesKnown, Connect, Left, ViewKeyChosen
from jgroups_py.model.units import seconds
from jgroups_py.protocols import KNOWN
from jgroups_py.protocols.auth import Auth
from jgroups_py.protocols.auth.config import AuthConfig
from jgroups_py.protocols.encrypt.ciphers import frame_cipher, nonce_of
from jgroups_py.protocols.encrypt.protocol import Encrypt, EncryptConfig
from jgroups_py.protocols.encrypt.signatures import DATA_HEADER, DISCOVERY_IDS, Kind, kind_of
from jgroups_py.protocols.encrypt.waiting_unicasts import MAX_BYTES, MAX_RECEIVERS, MAX_TEXTS, WaitingUnicasts
from jgroups_py.protocols.gms.headers import LeaveRequest
from jgroups_py.protocols.merge.protocol import MERGE_ID, Info
from jgroups_py.protocols.nakack.headers import MulticastData
from jgroups_py.protocols.transport.protocol import Udp, UdpConfig
from jgroups_py.sealing.keyring import ACTIVE, group_key
from jgroups_py.sealing.primitives import SIGNATURE_BYTES, TAG_BYTES
from jgroups_py.stack.protocol import CONTROL
from jgroups_py.stack.stack import Stack
from jgroups_py.testing.bench import address, change, view_of
from jgroups_py.wire.sealed_head import (
    DISCOVERY_STREAM,
    HANDSHAKE_STREAM,
    MULTICAST_STREAM,
    SEAL_BYTES,
    SIGNED_STREAM,
    TAGGED_STREAM,
    UNICAST_STREAM,
    read_head,
    sealed_head,
)
from tests.unit.protocols.test_auth import KEYS_CONFIG, PSK_CONFIG, Authenticated, Files, Suspicions
from tests.unit.protocols.test_encrypt import PLACES, exchange

KEY, NEXT_KEY = bytes(range(100, 132)), bytes(range(132, 164))


class Viewed(Authenticated):
    """A member of mode "view"."""

    def __init__(
        self, name: str, sign: str = "none", keyring: str = "", config: AuthConfig = KEYS_CONFIG,
    ) -> None:
        super().__init__(name)
        self.encrypt = Encrypt(EncryptConfig(keyring=keyring, mode="view", sign=sign))
        self.auth, self.above = Auth(config), Suspicions()
        self.stack = Stack([Udp(UdpConfig()), self.encrypt, self.auth, self.above], self.me, secrets=self.secrets)
        self.stack.inject(Connect("demo"), 0)
        self.stack.inject(AddressesKnown({address(each): PLACES[each] for each in PLACES if each != name}), 0)
        self.stack.outputs.clear()

    def install(self, *names: str, key: bytes = KEY) -> None:
        self.stack.inject(ViewKeyChosen(key), self.now_ns)
        self.stack.inject(change(view_of(*names)), self.now_ns)


def group(*names: str, sign: str = "none", config: AuthConfig = KEYS_CONFIG) -> tuple[Viewed, ...]:
    """Members that have met, in a view."""
    members = {name: Viewed(name, sign, config=config) for name in names}
    for member in members.values():
        member.install(*names)
    moved = True
    while moved:
        moved = False
        for member in members.values():
            for to, frame in member.sent():
                moved = True
                for other in members.values():
                    if other is not member and to in (None, other.place):
                        other.take(frame, member.name)
    return tuple(members.values())


def stream_of(frame: bytes) -> int:
    return read_head(frame)[2]


def forged(insider: Viewed, victim: Viewed, batch: Batch, stream: int, trailer: bytes = b"", ahead: int = 5) -> bytes:
    """A frame that a member makes in the name of another one, with the key of the view."""
    assert victim.encrypt.writer is not None
    assert insider.encrypt.view_key is not None
    count, sender = victim.encrypt.writer.counters[0] + ahead, victim.encrypt.writer.sender
    head = sealed_head(stream, insider.encrypt.view_key.id, insider.encrypt.cluster, sender, count)
    cipher = frame_cipher(insider.encrypt.view_key, 0, insider.encrypt.cluster, sender, 0)
    return head + cipher.seal(nonce_of(stream, count), b"".join(wire.encode_inner(batch)) + trailer, head)


@pytest.mark.parametrize("sign", ["none", "pair", "each"])
def test_members_of_a_view_read_multicasts_and_unicasts_of_each_other(sign):
    one, other, third = group("A", "B", "C", sign=sign)
    frame = one.send(b"to all")
    assert stream_of(frame) == {"none": MULTICAST_STREAM, "pair": TAGGED_STREAM, "each": SIGNED_STREAM}[sign]
    for member in (other, third):
        member.take(frame, "A")
        assert member.delivered() == [b"to all"]
        member.take(frame, "A")
        assert member.drops() == {"replayed_dropped": 1}
    frame = one.send(b"to B", dest=other.me)
    assert stream_of(frame) == UNICAST_STREAM
    third.take(frame, "A")
    assert third.delivered() == []
    other.take(frame, "A")
    assert other.delivered() == [b"to B"]


@pytest.mark.parametrize("keyring", ["", "group.keys"])
def test_an_operator_sees_at_how_many_members_the_key_of_the_view_is(keyring):
    one, other = Viewed("A", keyring=keyring), Viewed("B", keyring=keyring)
    for member in (one, other):
        member.install("A", "B")
    exchange(one, other)

    def shown(member: Viewed) -> tuple[str, int, list[str], int]:
        report = member.encrypt.key_report()
        key = report["view_key"]
        return key["id"], key["held_by"], key["not_held_by"], len(report["keys"])

    def report_to_each_other() -> None:
        for member in (one, other):
            member.advance(seconds(1))
        exchange(one, other)

    report_to_each_other()
    former = group_key(KEY, ACTIVE).name
    assert shown(one) == shown(other) == (former, 2, [], 1 if keyring else 0)
    one.install("A", "B", key=NEXT_KEY)
    new = group_key(NEXT_KEY, ACTIVE).name
    assert shown(one)[:3] == (new, 1, ["B"]), "B has reported the key of the former view only"
    assert shown(other)[:2] == (former, 2)
    other.install("A", "B", key=NEXT_KEY)
    report_to_each_other()
    assert shown(one)[:3] == shown(other)[:3] == (new, 2, [])
    assert KEY.hex() not in str(one.encrypt.key_report())


def test_what_protocols_multicast_is_signed_and_discovery_is_for_all():
    one, other = group("A", "B", sign="each")
    one.stack.inject(Batch(one.me, None, (), (LeaveRequest(None),), CONTROL), 0)
    (frame,) = one.frames()
    assert stream_of(frame) == SIGNED_STREAM
    one.stack.inject(Batch(one.me, None, (), (Info(view_of("A").id, one.place),), CONTROL), 0)
    (discovery,) = one.frames()
    assert stream_of(discovery) == DISCOVERY_STREAM
    stranger = Viewed("C")
    stranger.take(discovery, "A")
    exchange(one, stranger)
    assert stranger.knows(one)
    assert stranger.stats["frames_opened"] == 1
    other.take(frame, "A")
    assert other.stats["frames_opened"] == 1


@pytest.mark.parametrize("sign", ["none", "pair"])
def test_what_protocols_multicast_has_a_tag_for_each_member_once_all_have_proven_themselves(sign):
    one, other, third = group("A", "B", "C", sign=sign)
    one.stack.inject(Batch(one.me, None, (), (LeaveRequest(None),), CONTROL), 0)
    (frame,) = one.frames()
    assert stream_of(frame) == TAGGED_STREAM
    for member in (other, third):
        opened = member.stats["frames_opened"]
        member.take(frame, "A")
        assert (member.stats["frames_opened"], member.drops()) == (opened + 1, {})


@pytest.mark.parametrize("sign", ["none", "pair"])
def test_what_protocols_multicast_is_signed_while_a_member_has_not_proven_itself(sign):
    """A tag could not be made for that member, and what protocols multicast may come only once."""
    one, other = group("A", "B", sign=sign)
    one.install("A", "B", "C")
    other.install("A", "B", "C")
    one.sent()
    one.stack.inject(Batch(one.me, None, (), (LeaveRequest(None),), CONTROL), 0)
    (frame,) = [frame for frame in one.frames() if stream_of(frame) != HANDSHAKE_STREAM]
    assert stream_of(frame) == SIGNED_STREAM
    opened = other.stats["frames_opened"]
    other.take(frame, "A")
    assert other.stats["frames_opened"] == opened + 1


def test_without_signatures_of_messages_a_large_text_of_a_protocol_that_has_no_room_for_tags_is_signed():
    """`overhead` has room for a signature only: with tags for many members the frame would be too large."""
    one, *others = group(*PLACES, config=PSK_CONFIG)         # more than have identities
    room, tags = one.encrypt.room.max_frame_bytes(), TAG_BYTES * len(others)
    assert tags > SIGNATURE_BYTES, "else it is no question"
    bare = len(wire.encode_inner(Batch(one.me, None, (b"",), (LeaveRequest(None),), CONTROL))[0])
    for length, stream in ((room - SEAL_BYTES - tags - bare, TAGGED_STREAM),
                           (room - SEAL_BYTES - tags - bare + 1, SIGNED_STREAM),
                           (room - SEAL_BYTES - SIGNATURE_BYTES - bare, SIGNED_STREAM)):
        one.stack.inject(Batch(one.me, None, (bytes(length),), (LeaveRequest(None),), CONTROL), 0)
        (frame,) = one.frames()
        assert (stream_of(frame), len(frame) <= room) == (stream, True)
        for member in others:
            opened = member.stats["frames_opened"]
            member.take(frame, "A")
            assert (member.stats["frames_opened"], member.drops()) == (opened + 1, {})


@pytest.mark.parametrize(("sign", "batch", "stream", "trailer"), [
    ("none", "control", TAGGED_STREAM, b""), ("none", "data", TAGGED_STREAM, bytes(32)),
    ("each", "control", TAGGED_STREAM, bytes(32)),
    ("none", "control", MULTICAST_STREAM, b""), ("none", "control", SIGNED_STREAM, bytes(64)),
    ("none", "control", TAGGED_STREAM, bytes(32)),
    ("pair", "control", TAGGED_STREAM, bytes(32)), ("pair", "control", TAGGED_STREAM, b""),
    ("pair", "control", MULTICAST_STREAM, b""), ("pair", "control", SIGNED_STREAM, bytes(64)),
    ("pair", "data", MULTICAST_STREAM, b""), ("pair", "data", TAGGED_STREAM, bytes(32)),
    ("pair", "data", SIGNED_STREAM, bytes(64)), ("pair", "data", TAGGED_STREAM, b""),
    ("each", "data", MULTICAST_STREAM, b""), ("each", "data", TAGGED_STREAM, bytes(32)),
    ("each", "data", SIGNED_STREAM, bytes(64)), ("each", "data", SIGNED_STREAM, b""),
])
def test_an_insider_cannot_speak_as_another_member(sign, batch, stream, trailer):
    one, other, third = group("A", "B", "C", sign=sign)
    text = Batch(one.me, None, (b"forged",), (), NO_RELIABILITY) if batch == "data" else \
        Batch(one.me, None, (), (LeaveRequest(None),), CONTROL)
    other.take(forged(third, one, text, stream, trailer), "A")
    assert other.delivered() == []
    assert other.drops() == {"unsigned_dropped": 1}
    # What it forged takes none of the member's own counters.
    other.take(one.send(b"genuine"), "A")
    assert other.delivered() == [b"genuine"]


def test_without_signatures_an_insider_can_forge_messages_of_the_application():
    """The limit of sign="none", as documented."""
    one, other, third = group("A", "B", "C")
    other.take(forged(third, one, Batch(one.me, None, (b"forged",), (), NO_RELIABILITY), MULTICAST_STREAM), "A")
    assert other.delivered() == [b"forged"]


def test_a_key_opens_nothing_once_the_next_view_is_installed():
    one, other, third = group("A", "B", "C")
    late = one.send(b"late")
    for member in (one, other):
        member.install("A", "B", key=NEXT_KEY)
    other.take(late, "A")
    other.take(third.send(b"C is excluded"), "C")
    assert other.delivered() == []
    frame = one.send(b"new")
    third.take(frame, "A")
    assert third.delivered() == []
    other.take(frame, "A")
    assert other.delivered() == [b"new"]
    assert one.encrypt.view_key is not None
    assert one.encrypt.view_key.secret == NEXT_KEY


def test_a_frame_of_the_next_view_waits_for_its_key():
    one, other = group("A", "B")
    one.install("A", "B", key=NEXT_KEY)
    frame = one.send(b"first of the next view")
    other.take(frame, "A")
    assert other.delivered() == []
    other.install("A", "B", key=NEXT_KEY)
    assert other.delivered() == [b"first of the next view"]
    other.take(frame, "A")
    assert other.drops() == {"replayed_dropped": 1}


def test_frames_that_wait_for_a_key_are_bounded():
    one, other = group("A", "B")
    one.install("A", "B", key=NEXT_KEY)
    for _ in range(300):
        other.take(one.send(b"x"), "A")
    assert (len(other.encrypt.early), other.drops()) == (256, {"unknown_key_dropped": 44})


def test_a_unicast_waits_until_its_receiver_has_proven_itself():
    one, other = Viewed("A"), Viewed("B")
    one.stack.inject(Batch(one.me, other.me, (b"first",)), 0)
    one.stack.inject(Batch(one.me, other.me, (b"second",)), 0)
    exchange(one, other)
    assert other.delivered() == [b"first", b"second"]


def test_a_unicast_to_a_receiver_that_does_not_answer_is_dropped():
    one = Viewed("A")
    one.stack.inject(Batch(one.me, address("B"), (b"first",)), 0)
    one.stack.inject(Batch(one.me, Address(bytes(16)), (b"no place",)), 0)
    assert one.drops() == {"no_key_dropped": 1}
    for _ in range(60):
        one.advance(10**8)
    assert one.drops() == {"no_key_dropped": 2}


def test_the_outbox_is_bounded():
    outbox = WaitingUnicasts()
    assert all(outbox.add(b"A", b"x", ("h", 1)) for _ in range(MAX_TEXTS))
    assert not outbox.add(b"A", b"x", ("h", 1))
    assert not outbox.add(b"B", bytes(MAX_BYTES), ("h", 1))
    assert all(outbox.add(b"%d" % number, b"x", ("h", 1)) for number in range(MAX_RECEIVERS - 1))
    assert not outbox.add(b"one more", b"x", ("h", 1))
    assert len(outbox.take(b"A")) == MAX_TEXTS
    assert outbox.take(b"A") == []
    assert outbox.add(b"one more", b"x", ("h", 1))
    assert len(outbox.without({b"one more": None})) == MAX_RECEIVERS - 1


def test_a_member_that_leaves_erases_its_keys():
    one, _ = group("A", "B")
    one.stack.inject(Left(), 0)
    assert (one.encrypt.view_key, one.encrypt.pairs) == (None, {})


def test_a_pair_of_members_has_a_key_that_no_third_has():
    one, other, third = group("A", "B", "C")
    keys = {sender.pair.secret for member in (one, other, third) for sender in member.encrypt.pairs.values()}
    assert len(keys) == 3
    assert not any(key.hex() in repr(one.encrypt.__dict__) for key in (*keys, KEY))


def test_kinds_are_those_of_the_headers():
    assert wire.encode_inner(Batch(address("A"), None, (b"x",), (MulticastData(
        bytes(24), 1),)))[0][4:7] == DATA_HEADER
    assert (KNOWN["PING"].wire_id, MERGE_ID) == DISCOVERY_IDS
    assert kind_of(b"") is kind_of(b"\0") is Kind.UNICAST
    assert kind_of(b"\1") is Kind.DATA


@pytest.mark.parametrize(("properties", "error"), [
    ({"sign": "pair", "keyring": "k"}, "sign='pair' needs mode='view'"), ({}, "keyring is empty"),
])
def test_properties_that_do_not_fit_are_refused(properties, error):
    with pytest.raises(ConfigError, match=error):
        EncryptConfig(**properties)
    with pytest.raises(ConfigError, match="mode='view' needs AUTH directly above it"):
        Stack([Udp(UdpConfig()), Encrypt(EncryptConfig(mode="view"))], address("A"), secrets=Viewed("A").secrets)


class Usurper(Viewed):
    """A known member, C, that takes the address of A and a salt of its own, and proves its own identity."""

    def __init__(self, name: str = "C") -> None:
        super().__init__(name)
        self.me = Address(address("A").raw, name)
        self.stack = Stack([Udp(UdpConfig()), self.encrypt, self.auth, self.above], self.me, secrets=self.secrets)
        self.stack.inject(Connect("demo"), 0)
        self.stack.outputs.clear()

    def tries(self, victim: Viewed) -> None:
        """Take A's place at the victim."""
        self.stack.inject(Batch(self.me, None, (), (Info(view_of("A").id, self.place),), CONTROL), 0)
        for frame in self.frames():
            victim.take(frame, self.name)
        exchange(self, victim)


def test_a_known_member_cannot_take_the_address_of_another_one():
    one, other, _ = group("A", "B", "C", sign="each")
    proven = other.encrypt.pairs[one.me.raw]
    usurper = Usurper()
    usurper.tries(other)
    assert other.encrypt.pairs[one.me.raw] is proven
    assert other.drops() == {"unidentified_dropped": 2}
    assert other.auth.identity_of(one.me).name == "A"
    assert other.above.seen == ()
    other.take(one.send(b"still A"), "A")
    assert other.delivered() == [b"still A"]


def test_an_address_stays_with_the_member_that_proved_it_first_in_no_view_too():
    one, other = Viewed("A"), Viewed("B")
    one.stack.inject(Batch(one.me, None, (), (Info(view_of("A").id, one.place),), CONTROL), 0)
    for frame in one.frames():
        other.take(frame, "A")
    exchange(one, other)
    Usurper().tries(other)
    assert other.auth.stats()["identities_refused"] == 1
    assert "C shows itself under the address of 'A'" in other.log()
    assert other.knows(one)


def test_with_a_shared_secret_the_keys_of_a_member_stay_those_that_it_had_first():
    members = {name: Viewed(name, config=PSK_CONFIG) for name in "AB"}
    one, other = members["A"], members["B"]
    for member in members.values():
        member.install("A", "B")
    exchange(one, other)
    proven = other.encrypt.pairs[one.me.raw]
    assert proven.pair is not None
    usurper = Viewed("A", config=PSK_CONFIG)
    usurper.secrets.random.seed("another process")
    usurper.encrypt.writer._renew()
    Usurper.tries(usurper, other)
    assert usurper.encrypt.writer.sender != one.encrypt.writer.sender
    assert other.encrypt.pairs[one.me.raw] is proven
    assert other.drops() == {"unidentified_dropped": 2}
    assert other.auth.stats()["identities_verified"] == 1, "it was refused before its proof was looked at"


def test_frames_whose_key_does_not_come_are_dropped_after_a_while():
    one, other = group("A", "B")
    one.install("A", "B", key=NEXT_KEY)
    first, second = one.send(b"x"), one.send(b"y")
    other.take(first, "A")
    other.take(first, "A")
    assert (len(other.encrypt.early), other.drops()) == (1, {"unknown_key_dropped": 1})
    other.advance(seconds(3))
    other.take(second, "A")
    other.advance(seconds(2))
    assert (len(other.encrypt.early), other.drops()) == (1, {"unknown_key_dropped": 2})
    other.advance(seconds(3))
    assert (len(other.encrypt.early), other.drops()) == (0, {"unknown_key_dropped": 3})


class UnderTheAddressOf(Viewed):
    """A process with the identity of one member and the address of another one."""

    def __init__(self, name: str, victim: Viewed) -> None:
        super().__init__(name)
        self.me = Address(victim.me.raw, name)
        self.encrypt, self.auth = Encrypt(EncryptConfig(mode="view")), Auth(KEYS_CONFIG)
        self.stack = Stack([Udp(UdpConfig()), self.encrypt, self.auth, Suspicions()], self.me,
                           secrets=Files("another salt", self.secrets.files))
        self.stack.inject(Connect("demo"), 0)
        self.stack.inject(AddressesKnown({address(each): PLACES[each] for each in PLACES}), 0)
        self.stack.outputs.clear()


@pytest.mark.parametrize("met", [True, False], ids=["victim-has-proven-itself", "victim-is-in-the-view-only"])
def test_an_insider_cannot_prove_its_own_identity_under_the_address_of_another_member(met):
    if met:
        insider, target, victim = group("A", "B", "C")
    else:
        (insider, target), victim = group("A", "B"), Viewed("C")
        target.install("A", "B", "C")
        target.frames()
    impostor = UnderTheAddressOf("A", victim)
    impostor.install("A", "B", "C", key=KEY)
    for _ in range(3):
        for _, frame in impostor.sent():
            target.take(frame, "A")
        for _, frame in target.sent():
            impostor.take(frame, "B")
    found = target.auth.identity_of(victim.me)
    assert found is None or found.name == "C"
    if met:
        assert target.drops()["unidentified_dropped"] >= 1, "it was refused before its proof was looked at"
    else:
        assert target.auth.stats()["identities_refused"] == 1
        assert "A shows itself under the address of 'C'" in target.log()
    impostor.stack.inject(Batch(impostor.me, None, (b"forged",), (), NO_RELIABILITY), 0)
    for frame in impostor.frames():
        target.take(frame, "A")
    assert target.delivered() == []
    assert target.auth.contradiction(victim.me) == ""
    assert target.encrypt.pairs.keys() == ({insider.me.raw, victim.me.raw} if met else {insider.me.raw})
