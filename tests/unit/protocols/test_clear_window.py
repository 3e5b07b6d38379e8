"""accept_clear: members with and without ENCRYPT in one group for a time, and nothing in clear before or after."""
from __future__ import annotations

import pytest

from jgroups_py import wire
from jgroups_py.model.batch import Batch
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import Connect
from jgroups_py.model.outputs import LogEntry
from jgroups_py.model.units import seconds
from jgroups_py.protocols.auth import Auth
from jgroups_py.protocols.auth.config import AuthConfig
from jgroups_py.protocols.encrypt.clear_window import HEARD_NS, MAX_HEARD, ClearWindow
from jgroups_py.protocols.encrypt.protocol import Encrypt, EncryptConfig
from jgroups_py.protocols.transport.protocol import Udp, UdpConfig
from jgroups_py.stack.stack import Stack
from jgroups_py.testing.bench import address, change, view_of
from tests.unit.protocols.test_auth import Files
from tests.unit.protocols.test_encrypt import PLACES, Counted, Member, exchange

MINUTE_NS = seconds(60)


class Upgraded(Member):
    """With ENCRYPT and accept_clear="10m"."""

    def __init__(self, name: str, *, clear: str = "10m") -> None:
        self.name, self.me, self.place = name, address(name), PLACES[name]
        self.secrets = Counted(f"{name}1")
        self.encrypt = Encrypt(EncryptConfig(keyring="group.keys", accept_clear_ns=clear))
        self.stack = Stack([Udp(UdpConfig()), self.encrypt], self.me, secrets=self.secrets)
        self.now_ns = 0
        self.stack.inject(Connect("demo"), 0)

    def log(self) -> list[str]:
        found = [each.text for each in self.stack.outputs if isinstance(each, LogEntry)]
        self.stack.outputs[:] = [each for each in self.stack.outputs if not isinstance(each, LogEntry)]
        return found

    def sends(self, payload: bytes, dest: str = "") -> list[str]:
        """How a message leaves: "clear", "sealed"."""
        return [kind(frame) for frame in self.sent_frames(payload, dest)]

    def sent_frames(self, payload: bytes, dest: str = "") -> list[bytes]:
        self.frames()
        self.stack.inject(wire_batch(self, payload, dest), self.now_ns)
        return self.frames()


class Clear(Upgraded):
    """Without ENCRYPT."""

    def __init__(self, name: str) -> None:
        self.name, self.me, self.place = name, address(name), PLACES[name]
        self.transport = Udp(UdpConfig())
        self.stack = Stack([self.transport], self.me)
        self.now_ns = 0
        self.stack.inject(Connect("demo"), 0)


def wire_batch(member: Member, payload: bytes, dest: str) -> Batch:
    return Batch(member.me, address(dest) if dest else None, (payload,))


def kind(frame: bytes) -> str:
    return {1: "clear", 2: "sealed"}[frame[2]]


def installs(names: str, *members: Member) -> None:
    for member in members:
        member.stack.inject(change(view_of(*names)), member.now_ns)


def test_a_member_in_clear_and_an_upgraded_one_hear_each_other():
    old, new = Clear("A"), Upgraded("B")
    installs("AB", old, new)
    for frame in new.sent_frames(b"from B"):
        old.take(frame, "B")
    for frame in old.sent_frames(b"from A"):
        new.take(frame, "A")
    assert old.delivered() == [b"from B"]
    assert new.delivered() == [b"from A"]
    assert new.sends(b"x") == ["clear", "sealed"]
    assert new.sends(b"x", "A") == ["clear", "sealed"]
    assert new.stats["clear_frames_accepted"] == 1


def test_two_upgraded_members_prove_themselves_and_send_nothing_in_clear_any_more():
    one, other = Upgraded("A"), Upgraded("B")
    installs("AB", one, other)
    assert one.sends(b"x") == ["clear", "sealed"]
    (clear, _) = one.sent_frames(b"in clear")
    other.take(clear, "A")
    exchange(one, other)
    assert other.delivered()[0] == b"in clear"
    assert one.sends(b"x") == other.sends(b"x") == one.sends(b"x", "B") == other.sends(b"x", "A") == ["sealed"]
    # What claims in clear to be of one that has a key is not believed.
    other.take(clear, "A")
    assert other.delivered() == []
    assert other.drops() == {"clear_of_proven_dropped": 1}


def test_as_long_as_one_member_is_in_clear_all_get_both_and_each_message_counts_once():
    old, one, other = Clear("A"), Upgraded("B"), Upgraded("C")
    installs("ABC", old, one, other)
    for frame in one.sent_frames(b"first"):
        other.take(frame, "B")
    exchange(one, other)
    other.delivered()
    frames = one.sent_frames(b"second")
    assert [kind(frame) for frame in frames] == ["clear", "sealed"]
    for frame in frames:
        old.take(frame, "B")
        other.take(frame, "B")
    assert old.delivered() == other.delivered() == [b"second"]
    assert one.sends(b"x", "C") == ["sealed"]
    one.take(old.sent_frames(b"A is there")[0], "A")
    installs("BC", one, other)
    assert one.sends(b"x") == ["sealed"]
    # A member in clear that looks for the group is answered so that it understands.
    one.take(old.sent_frames(b"hello")[0], "A")
    assert one.sends(b"x") == ["clear", "sealed"]
    one.now_ns += HEARD_NS
    assert one.sends(b"x") == ["sealed"]


def test_the_time_ends_by_itself_with_a_warning_each_minute():
    old, new = Clear("A"), Upgraded("B", clear="3m")
    installs("AB", new)
    frame = old.sent_frames(b"from A")[0]
    warned = [text for text in new.log() if "in clear" in text]
    for _ in range(3):
        new.advance(MINUTE_NS)
        warned += [text for text in new.log() if "in clear" in text]
    assert [text.split("another ")[-1].split(" (")[0] for text in warned] == [
        "3.0 minutes", "2.0 minutes", "1.0 minutes",
        "ENCRYPT takes and sends nothing in clear any more: accept_clear is over"]
    assert warned[1].endswith("members without ENCRYPT: A")
    new.take(frame, "A")
    assert new.delivered() == []
    assert new.drops()["unsealed_dropped"] == 1
    assert new.sends(b"x") == ["sealed"]


def test_without_it_nothing_in_clear_is_believed_or_sent():
    old, new = Clear("A"), Member("B")
    installs("AB", new)
    new.frames()
    new.take(old.sent_frames(b"from A")[0], "A")
    assert new.delivered() == []
    assert new.drops() == {"unsealed_dropped": 1}
    assert kind(new.send(b"x")) == "sealed"


@pytest.mark.parametrize("changed", [b"", b"JP\1", b"JP\1" + bytes(40)])
def test_malformed_frames_are_counted(changed):
    new = Upgraded("B")
    new.take(changed, "A")
    good = bytearray(Clear("A").sent_frames(b"from A")[0])
    good[-12] ^= 1
    new.take(bytes(good[:20]), "A")
    new.take(b"".join(wire.encode_frame(wire.cluster_id("other"), wire_batch(Clear("A"), b"x", ""))), "A")
    assert new.delivered() == []
    assert sum(new.drops().values()) == 3


@pytest.mark.parametrize("clear", ["61m", "2h"])
def test_an_hour_is_the_most(clear):
    with pytest.raises(ConfigError, match="out of range: 0 to 3600s"):
        EncryptConfig(keyring="k", accept_clear_ns=clear)


def test_it_needs_shared_keys_without_auth():
    with pytest.raises(ConfigError, match="accept_clear needs mode='shared'"):
        EncryptConfig(mode="view", accept_clear_ns="10m")
    files = {"psk.keys": b"", "k": b""}
    with pytest.raises(ConfigError, match=r"accept_clear cannot be used with AUTH.*Upgrade the group to ENCRYPT first"):
        Stack([Udp(UdpConfig()), Encrypt(EncryptConfig(keyring="k", accept_clear_ns="10m")),
               Auth(AuthConfig(authority="psk", secret="psk.keys"))], address("A"), secrets=Files("A", files))


def test_what_is_remembered_of_senders_in_clear_is_bounded():
    window = ClearWindow(MINUTE_NS)
    for number in range(3 * MAX_HEARD):
        source = number.to_bytes(16, "big")
        assert window.takes(source, 0)
        assert window.asks(source, 0)
        assert not window.asks(source, 0)
    assert len(window.heard) == len(window._asked) == MAX_HEARD
    assert not window.takes(bytes(16), MINUTE_NS)
