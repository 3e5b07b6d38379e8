"""AUTH: who is believed, under which name, and what happens to members that are revoked."""
from __future__ import annotations

from pathlib import Path
from random import Random

import attrs
import pytest

from jgroups_py.config.load import load
from jgroups_py.model.address import Address
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import ChallengeMember, Connect, Suspect, TrustRead
from jgroups_py.model.outputs import LogEntry, NodeFailed, ReadTrust
from jgroups_py.model.secrets import Secrets
from jgroups_py.model.units import seconds
from jgroups_py.protocols.auth import Auth
from jgroups_py.protocols.auth.config import AuthConfig
from jgroups_py.protocols.encrypt.headers import decode_handshake
from jgroups_py.protocols.encrypt.protocol import Encrypt, EncryptConfig
from jgroups_py.protocols.transport.protocol import Udp, UdpConfig
from jgroups_py.sealing.identities import (
    Identity,
    KnownMembers,
    OwnIdentity,
    RevokedKeys,
    new_identity,
    parse_identity,
)
from jgroups_py.sealing.keyring import GroupKeyring, new_keyring
from jgroups_py.stack.protocol import Protocol, on
from jgroups_py.stack.stack import Stack
from jgroups_py.testing.bench import address, change, view_of
from tests.unit.protocols.test_encrypt import KEYS, PLACES, Member, exchange

KEYS_CONFIG = AuthConfig(identity="own.pem", trust="known.json", revoked="revoked.json")
PSK_CONFIG = AuthConfig(authority="psk", secret="psk.keys")


def identity(name: str, site: str = "", roles: tuple[str, ...] = ("member",), life: str = "") -> OwnIdentity:
    return new_identity(Random(f"{name}{life}").randbytes(32), name, site, roles)


EVERYONE = [identity(name) for name in "ABC"]


def known(*identities: OwnIdentity) -> bytes:
    members = KnownMembers()
    for each in identities or EVERYONE:
        members = members.with_member(each.identity)
    return members.as_text().encode()


class Files(Secrets):
    """Random bytes that follow from a seed, a keyring, and files."""

    def __init__(self, seed: str, files: dict[str, bytes], keyring: GroupKeyring = KEYS) -> None:
        self.random, self.files, self.ring = Random(seed), files, keyring

    def draw(self, nbytes: int) -> bytes:
        return self.random.randbytes(nbytes)

    def keyring(self, path: str) -> GroupKeyring:
        return self.ring

    def file(self, path: str, what: str, *, private: bool) -> bytes:
        if path not in self.files:
            raise ConfigError(f"{what} {path}: No such file or directory")
        return self.files[path]


class Suspicions(Protocol):
    """The layer above, which sees what AUTH suspects."""

    seen: tuple[Address, ...] = ()

    @on(Suspect)
    def suspect(self, event: Suspect) -> None:
        assert event.certain
        self.seen += event.members


class Authenticated(Member):
    """A transport with ENCRYPT and AUTH, connected."""

    def __init__(
        self, name: str, own: OwnIdentity | None = None, trust: bytes = b"", *, config: AuthConfig = KEYS_CONFIG,
        secret: GroupKeyring | None = None, net: int = 0, auth: type[Auth] = Auth,
        files: dict[str, bytes] | None = None,
    ) -> None:
        self.name, self.me, self.place = name, address(name), PLACES[name]
        self.secrets = Files(name, {
            "own.pem": (own or identity(name)).as_text().encode(), "known.json": trust or known(),
            "revoked.json": RevokedKeys().as_text().encode(),
            "psk.keys": (secret or new_keyring(bytes(range(64, 96)))).as_text().encode(), **(files or {})})
        self.encrypt, self.auth, self.above = Encrypt(EncryptConfig(keyring="group.keys")), auth(config), Suspicions()
        self.stack = Stack([Udp(UdpConfig()), self.encrypt, self.auth, self.above], self.me, net=net,
                           secrets=self.secrets)
        self.now_ns = 0
        self.stack.inject(Connect("demo"), 0)
        self.asked = [each for each in self.stack.outputs if isinstance(each, ReadTrust)]
        self.failed = [each.reason for each in self.stack.outputs if isinstance(each, NodeFailed)]
        self.stack.outputs.clear()

    def knows(self, *others: Authenticated) -> bool:
        return all(self.auth.objection(other.me) == "" for other in others)

    def read(self, path: str, data: bytes | None, problem: str = "", wall_ns: int = 0) -> None:
        self.stack.notify(TrustRead(((path, data, problem),) if path else (), wall_ns), self.now_ns)

    def log(self) -> str:
        return "\n".join(each.text for each in self.stack.outputs if isinstance(each, LogEntry))


def meet(one: Authenticated, other: Authenticated) -> list[bytes]:
    """One sends; what the other then delivers."""
    other.take(one.send(b"first"), one.name)
    exchange(one, other)
    return other.delivered()


@pytest.mark.parametrize("config", [KEYS_CONFIG, PSK_CONFIG], ids=["keys", "psk"])
def test_members_prove_to_each_other_who_they_are_before_a_frame_is_believed(config):
    one, other = Authenticated("A", config=config), Authenticated("B", config=config)
    assert not other.knows(one)
    assert meet(one, other) == [b"first"]
    assert one.knows(other)
    assert other.knows(one)
    found = other.auth.identity_of(one.me)
    assert isinstance(found, Identity)
    assert (found.name, other.auth.identity_of(address("C"))) == ("A", None)
    other.take(one.send(b"second"), "A")
    assert other.delivered() == [b"second"]


@pytest.mark.parametrize(("own", "trust", "reason"), [
    (identity("A", life="other"), known(), "its key is not among the known members"),
    (identity("A", roles=("operator",), life="guest"), known(identity("A", roles=("operator",), life="guest"),
                                                             identity("B")), "has not the role 'member'"),
    (identity("A", "SFO"), known(identity("A", "SFO"), identity("B", "NYC")), "A@SFO is of another site than B@NYC"),
])
def test_a_holder_of_the_keyring_that_is_no_known_member_is_not_believed(own, trust, reason):
    class Lax(Auth):
        def unsuited(self, identity: Identity) -> str:
            return ""

    one, other = Authenticated("A", own, trust, auth=Lax), Authenticated("B", trust=trust)
    assert meet(one, other) == []
    assert not other.knows(one)
    assert reason in other.log()
    assert (other.auth.stats()["identities_refused"], other.drops()) == (1, {"unidentified_dropped": 2})
    # It is not asked again at each frame: a refusal costs a verification.
    assert meet(one, other) == []
    assert other.auth.stats()["identities_refused"] == 1
    # Later it is, since it may have been added meanwhile.
    other.read("known.json", known(own, *EVERYONE[1:]) if reason.startswith("its key") else trust)
    for _ in range(30):
        one.advance(seconds(0.2))
        other.advance(seconds(0.2))
    assert meet(one, other) == ([b"first"] if reason.startswith("its key") else [])


def test_another_secret_and_an_altered_proof_are_refused():
    one = Authenticated("A", config=PSK_CONFIG, secret=new_keyring(bytes(32)))
    other = Authenticated("B", config=PSK_CONFIG)
    assert meet(one, other) == []
    assert "its secret is another one, or is retired" in other.log()

    class Liar(Auth):
        def prove(self, transcript: bytes) -> bytes:
            return super().prove(transcript[:-1] + b"\0")

    for config in (PSK_CONFIG, KEYS_CONFIG):
        one, other = Authenticated("A", config=config, auth=Liar), Authenticated("B", config=config)
        assert meet(one, other) == []
        assert "its proof is not of the key that it shows" in other.log()


def test_the_credential_of_another_member_is_of_no_use_without_its_key():
    class Thief(Auth):
        def credential(self) -> bytes:
            return identity("C").signer.public

    one, other = Authenticated("A", auth=Thief), Authenticated("B")
    assert meet(one, other) == []
    assert "its proof is not of the key that it shows" in other.log()


def test_an_answer_counts_for_its_own_exchange_only():
    """Each part of an answer is covered by the proof: another receiver, challenge, key or counter is refused."""
    one, other = Authenticated("A"), Authenticated("B")
    other.take(one.send(b"first"), "A")
    (challenge,) = other.frames()
    one.take(challenge, "B")
    (answer,) = one.frames()
    name = answer[20:52]
    sender = other.encrypt.senders.unproven[name].sender
    handshake = decode_handshake(other.encrypt.opened(sender, answer, 2, KEYS.active, name, 1))
    assert other.encrypt.believes(name, handshake)
    for changed in (attrs.evolve(handshake, keys=bytes([handshake.keys[0] ^ 1]) + handshake.keys[1:]),
                    attrs.evolve(handshake, answer=bytes(16)),
                    attrs.evolve(handshake, multicasts=handshake.multicasts + 1),
                    attrs.evolve(handshake, unicasts=handshake.unicasts + 1),
                    attrs.evolve(handshake, credential=identity("C").signer.public),
                    attrs.evolve(handshake, proof=handshake.proof[:-1]), attrs.evolve(handshake, proof=b"")):
        assert not other.encrypt.believes(name, changed)
    third = Authenticated("C")
    third.encrypt.expect(name, sender)
    assert not third.encrypt.believes(name, handshake)


def test_a_member_whose_key_is_revoked_is_suspected_and_its_frames_are_dropped():
    one, other, third = Authenticated("A"), Authenticated("B"), Authenticated("C")
    meet(one, other)
    meet(third, other)
    view = view_of("B", "A", "C")
    other.stack.inject(change(view), 0)
    revoked = RevokedKeys().with_key(identity("A").identity.key)
    other.read("revoked.json", revoked.as_text().encode())
    assert other.above.seen == (one.me,)
    assert "does not believe A any more: the key of A is revoked" in other.log()
    other.take(one.send(b"still here"), "A")
    exchange(one, other)
    other.take(third.send(b"C is believed"), "C")
    assert other.delivered() == [b"C is believed"]
    assert other.auth.objection(one.me) == "it has not proven its identity"


def test_a_member_that_is_known_no_more_or_under_another_name_is_suspected():
    one, other = Authenticated("A"), Authenticated("B")
    meet(one, other)
    other.read("known.json", known(*EVERYONE[1:]))
    assert "A is not among the known members any more" in other.log()
    assert not other.knows(one)


def test_a_file_that_cannot_be_used_changes_nothing_and_is_reported():
    one, other = Authenticated("A"), Authenticated("B")
    meet(one, other)
    other.read("known.json", b"{")
    other.read("revoked.json", None, "revoked keys revoked.json: other users may write it")
    other.read("foreign.json", b"")
    assert "AUTH goes on with what it read before: known.json: not a file of known members" in other.log()
    assert "other users may write it" in other.log()
    assert other.auth.stats()["trust_refused_dropped"] == 2
    assert other.knows(one)


def test_a_former_member_proves_itself_anew_once_the_secret_that_it_proved_is_retired():
    old = new_keyring(bytes(range(64, 96)))
    one, other, third = (Authenticated(name, config=PSK_CONFIG) for name in "ABC")
    for member in (one, third):
        meet(member, other)
    other.stack.inject(change(view_of("B", "A", "C")), 0)
    other.stack.inject(change(view_of("B", "C")), 0)
    assert other.knows(one, third)
    changed = old.with_key(bytes(32))
    changed = changed.activated(changed.keys[-1].name)
    other.read("psk.keys", changed.as_text().encode())
    assert other.knows(one, third), "the former secret counts until it is retired"
    changed = changed.without(old.active.name)
    other.read("psk.keys", changed.as_text().encode())
    assert other.auth.objection(one.me) == "it has not proven its identity"
    assert other.knows(third), "a member of the view stays"
    assert "it has proven a secret that is retired" in other.log()
    other.take(one.send(b"with the former secret"), "A")
    exchange(one, other)
    assert other.delivered() == []
    other.stack.inject(change(view_of("B")), 0)
    assert not other.knows(third)


def test_the_files_are_looked_at_again_and_again():
    member = Authenticated("A")
    assert [spec[0] for spec in member.asked[0].files] == ["known.json", "revoked.json"]
    member.advance(seconds(1))
    assert any(isinstance(each, ReadTrust) for each in member.stack.outputs)


def test_a_name_must_be_the_certified_one():
    one, other = Authenticated("A"), Authenticated("B")
    meet(one, other)
    assert "calls itself 'Z', and its identity is that of A" in other.auth.objection(Address(one.me.raw, "Z"))
    assert other.auth.objection(other.me) == other.auth.contradiction(Address(bytes(16), "Z")) == ""


@pytest.mark.parametrize(("files", "error"), [
    ({"own.pem": identity("Z").as_text().encode()}, "called 'A', and its identity is that of 'Z'"),
    ({"own.pem": b"secret"}, "own.pem: not an identity"),
    ({"known.json": b"[]"}, "known.json: not a file of known members"),
    ({"revoked.json": b"[]"}, "revoked.json: not a file of revoked keys"),
    ({"known.json": known(identity("A", roles=("relay",)))}, "own identity does not do here: A has not the role"),
])
def test_a_member_with_files_that_do_not_fit_cannot_start(files, error):
    made = {"own.pem": identity("A").as_text().encode(), "known.json": known(),
            "revoked.json": RevokedKeys().as_text().encode(), **files}
    with pytest.raises(ConfigError, match=error):
        Stack([Udp(UdpConfig()), Encrypt(EncryptConfig(keyring="k")), Auth(KEYS_CONFIG)], address("A"),
              secrets=Files("A", made))
    with pytest.raises(ConfigError, match=r"own.pem: No such file"):
        Stack([Udp(UdpConfig()), Encrypt(EncryptConfig(keyring="k")), Auth(KEYS_CONFIG)], address("A"),
              secrets=Files("A", {}))


def test_on_the_bridge_a_member_must_be_a_relay():
    relays = [identity(name, roles=("member", "relay")) for name in "AB"]
    one, other = (Authenticated(each.identity.name, each, known(*relays), net=1) for each in relays)
    assert meet(one, other) == [b"first"]
    with pytest.raises(ConfigError, match="has not the role 'relay'"):
        Authenticated("A", net=1)


@pytest.mark.parametrize(("properties", "error"), [
    ({"identity": "", "trust": "t"}, "identity is empty, and authority='keys' needs it"),
    ({"identity": "i"}, "trust is empty"),
    ({"authority": "psk"}, "secret is empty"),
    ({"authority": "psk", "secret": "s", "trust": "t"}, "trust is of no use with authority='psk'"),
    ({"identity": "i", "trust": "t", "secret": "s"}, "secret is of no use"),
])
def test_properties_that_do_not_fit_are_refused(properties, error):
    with pytest.raises(ConfigError, match=error):
        AuthConfig(**properties)


def test_a_process_that_has_sent_nothing_can_be_challenged():
    one, other = Authenticated("A"), Authenticated("B")
    other.stack.inject(ChallengeMember(one.me, one.place), 0)
    exchange(one, other)
    assert other.knows(one)
    assert one.knows(other)
    # Also if ENCRYPT remembers it and AUTH does not.
    del other.auth.identities[one.me]
    other.now_ns = one.now_ns = seconds(1)
    other.stack.inject(ChallengeMember(one.me, one.place), other.now_ns)
    exchange(one, other)
    assert other.knows(one)


def test_no_private_key_is_in_anything_that_is_shown():
    one, other = Authenticated("A"), Authenticated("B")
    meet(one, other)
    shown = repr(one.auth.__dict__) + repr(one.auth.authority.__dict__) + repr(one.stack.outputs) + str(one.stats)
    shown += repr(one.encrypt.__dict__) + repr(one.encrypt.writer.__dict__)
    secret = identity("A").signer.pem()
    assert secret.splitlines()[1] not in shown
    assert Random("A").randbytes(32).hex() not in shown
    assert parse_identity(identity("A").as_text().encode()).identity == identity("A").identity


def test_auth_stands_directly_above_encrypt(tmp_path: Path):
    layers = [("UDP", {}), ("AUTH", {"authority": "psk", "secret": "s"}), ("ENCRYPT", {"keyring": "k"}), "PING",
              "FD_ALL", "NAKACK", "UNICAST", "STABLE", "GMS"]
    with pytest.raises(ConfigError, match=r"AUTH must stand directly above ENCRYPT, which asks it whom to believe"):
        load(layers)
