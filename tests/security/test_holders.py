"""The attacks of the kit by processes that have keys: an insider, and a former member that kept all it had.

A, B and C are real members; M is one too, and its keys are taken. As an insider it stays; as a former member it leaves,
or is excluded because its key is revoked, before it attacks. What must have no effect is counted by name; what such a
process can do by the words of SECURITY.md is asserted as well, so that a change of it is noticed.
"""
from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from time import sleep
from typing import Any

import pytest

import jgroups_py as jg
from jgroups_py.cli import main
from jgroups_py.model.address import Address
from jgroups_py.model.batch import NO_RELIABILITY, Batch
from jgroups_py.model.view import View, ViewId
from jgroups_py.protocols.auth import Auth
from jgroups_py.protocols.auth.config import AuthConfig
from jgroups_py.protocols.discovery.base import DiscoveryRequest
from jgroups_py.protocols.encrypt.protocol import Encrypt, EncryptConfig
from jgroups_py.protocols.fd_sock.protocol import SuspicionHeader
from jgroups_py.protocols.gms.headers import Ballot, CutHeader, FlushId, InstallHeader, LeaveRequest, Prepare, ViewKey
from jgroups_py.protocols.nakack.headers import MulticastData, Retransmission
from jgroups_py.protocols.relay.headers import Order
from jgroups_py.protocols.stable.protocol import StabilityVote
from jgroups_py.protocols.unicast.headers import UnicastData
from jgroups_py.sealing.identities import KnownMembers, RevokedKeys, new_identity
from jgroups_py.sealing.keyring import new_keyring
from jgroups_py.stack.protocol import CONTROL
from jgroups_py.system.free_ports import free_range
from jgroups_py.system.secrets import SECRETS, write_keyring
from jgroups_py.wire.sealed_head import MULTICAST_STREAM, TAGGED_STREAM, UNICAST_STREAM, read_head
from tests.runtime.helpers import eventually
from tests.security.holders import (
    AHEAD,
    Keys,
    Usurper,
    in_their_names,
    senders_of,
    stack_of,
    taken_from,
    unicasts_in_their_names,
)
from tests.security.kit import ATTACKS, FORGED, PLACE, Group, control
from tests.security.test_attacks import LOOPBACK, MCAST_ADDR, Wire

pytestmark = pytest.mark.real
NAMES = ("A", "B", "C")
CLUSTER = "besieged"
SLOW = pytest.mark.slow
AUTHORITIES = ("keys", pytest.param("x509", marks=SLOW), pytest.param("psk", marks=SLOW))
LEAVERS = (("keys", True), pytest.param("x509", True, marks=SLOW), pytest.param("keys", False, marks=SLOW),
           pytest.param("psk", False, marks=SLOW))


class Files:
    """Keys and identities of the members, in a folder."""

    def __init__(self, folder: Path, authority: str) -> None:
        self.folder, self.authority = folder, authority
        self.keyring = folder / "group.keys"
        self.ring = new_keyring(SECRETS.draw(32))
        write_keyring(self.keyring, self.ring, new=True)
        write_keyring(folder / "psk.keys", new_keyring(SECRETS.draw(32)), new=True)
        if authority == "x509":
            self.keys("generate", "--authority", "ca.key", "--certificate", "ca.pem", "--name", "CA")
            for name in (*NAMES, "M"):
                self.keys("request", f"{name}.pem", "--cluster", CLUSTER, "--name", name, "--out", f"{name}.csr")
                self.keys("sign", "ca.key", f"{name}.csr", "--out", f"{name}.crt")
                with (folder / f"{name}.pem").open("ab") as file:
                    file.write((folder / f"{name}.crt").read_bytes())
        if authority == "keys":
            known = KnownMembers()
            for name in (*NAMES, "M"):
                own = new_identity(os.urandom(32), name)
                known = known.with_member(own.identity)
                write_private(folder / f"{name}.pem", own.as_text())
                if name == "M":
                    self.key = own.identity.key
            (folder / "known.json").write_text(known.as_text())
        (folder / "revoked").write_text(RevokedKeys().as_text())
        for path in folder.iterdir():
            path.chmod(0o600)

    def keys(self, *words: str) -> None:
        paths = [str(self.folder / word) if word.endswith((".key", ".pem", ".csr", ".crt", ".crl")) else word
                 for word in words]
        assert main(["keys", *paths]) == 0

    def auth(self, name: str) -> dict[str, Any]:
        """The properties of AUTH for a member."""
        if self.authority == "psk":
            return {"authority": "psk", "secret": str(self.folder / "psk.keys"), "reread": "100ms"}
        trust = {"keys": "known.json", "x509": "ca.pem"}[self.authority]
        return {"authority": self.authority, "identity": str(self.folder / f"{name}.pem"),
                "trust": str(self.folder / trust), "revoked": str(self.folder / "revoked"), "reread": "100ms"}

    def revoke(self) -> None:
        """M's key counts no more."""
        if self.authority == "x509":
            (self.folder / "revoked").unlink()
            self.keys("revoke", "revoked.crl", "M.crt", "--authority", "ca.key")
            (self.folder / "revoked.crl").replace(self.folder / "revoked")
        else:
            (self.folder / "revoked").write_text(RevokedKeys().with_key(self.key).as_text())

    def rotate(self, members: list[jg.JChannel]) -> None:
        """Another key for the group, in the three phases; the former one is retired."""
        added = self.ring.with_key(SECRETS.draw(32))
        activated = added.activated(added.keys[-1].name)
        for ring, number in ((added, 2), (activated, 2), (activated.without(self.ring.active.name), 1)):
            write_keyring(self.keyring, ring)
            eventually(lambda ring=ring, number=number: all(
                stack_of(member).find(Encrypt).keyring == ring and member.stats()["ENCRYPT"]["keys"] == number
                for member in members))


def write_private(path: Path, text: str) -> None:
    path.touch(0o600)
    path.write_text(text)


class Besieged:
    """A, B, C and M in one group, and the wire. got: member -> (source's name, payload) of what it delivered."""

    def __init__(self, stacks: ExitStack, files: Files | None, encrypt: dict[str, Any]) -> None:
        self.files, self.encrypt = files, encrypt
        self.port = free_range()
        self.wire = Wire(stacks, self.port)
        self.direct = stacks.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self.got: dict[str, list[tuple[str, bytes]]] = {name: [] for name in (*NAMES, "M")}
        self.members: dict[str, jg.JChannel] = {}
        for name in self.got:
            member = self.members[name] = stacks.enter_context(jg.JChannel(
                self.layers(name), name, {},
                lambda message, name=name: self.got[name].append((message.src.name, message.payload))))
            member.connect(CLUSTER)
        self.await_view(4)
        self.send_genuine(b"recorded")
        self.before = self.wire.heard()

    def layers(self, name: str) -> list[object]:
        auth = [("AUTH", self.files.auth(name))] if self.files is not None and self.files.authority else []
        return [("UDP", {"mcast_addr": MCAST_ADDR, "mcast_port": self.port, "bind_addr": LOOPBACK, "ip_ttl": 0}),
                ("ENCRYPT", self.encrypt), *auth, "PING", ("MERGE3", {"min_interval": "1s", "max_interval": "3s"}),
                ("FD_ALL", {"timeout": "5s", "interval": "1s"}), ("VERIFY_SUSPECT", {"timeout": "1s"}),
                ("NAKACK", {"xmit_interval": "100ms"}), ("UNICAST", {"xmit_interval": "100ms"}), "STABLE",
                ("GMS", {"join_timeout": "300ms"}), "MFC", "UFC", "FRAG"]

    @property
    def others(self) -> list[jg.JChannel]:
        """All but M."""
        return [self.members[name] for name in NAMES]

    @property
    def group(self) -> Group:
        """What the attacks of the kit are made for: A, B and C."""
        view = self.members["A"].view
        assert view is not None
        return Group(CLUSTER, View(view.id, tuple(member for member in view.members if member.name in NAMES)))

    def await_view(self, number: int) -> None:
        """Until A, B and C are in one view with so many members."""
        eventually(lambda: all(member.view is not None and len(member.view) == number for member in self.others)
                   and len({member.view.id for member in self.others}) == 1)

    def counted(self, *names: str, layer: str = "ENCRYPT") -> int:
        return sum(int(member.stats()[layer].get(name, 0)) for member in self.others for name in names)

    def send_genuine(self, *payloads: bytes) -> None:
        """A multicasts these and sends the last one to B; waits until all have come, in order, once."""
        before = {name: len(self.got[name]) for name in NAMES}
        a, b, _ = self.others
        for payload in payloads:
            a.send(None, payload)
        wanted = {name: [("A", payload) for payload in payloads] for name in NAMES}
        eventually(lambda: all(self.got[name][before[name]:] == wanted[name] for name in NAMES), "what A multicast")
        a.send(b.address, b"for B alone")
        eventually(lambda: ("A", b"for B alone") in self.got["B"][before["B"]:], "what A sent to B")

    def unharmed(self, number: int, view: ViewId) -> None:
        """Nothing that was forged had an effect."""
        self.send_genuine(*(b"genuine %d" % at for at in range(20)))
        assert not any(FORGED in payload for got in self.got.values() for _, payload in got)
        for member in self.others:
            assert member.view is not None
            assert (len(member.view), member.view.id) == (number, view), member.name
        assert not any(member.stats()["NAKACK"].get("messages_lost", 0) for member in self.others)

    def send_direct(self, frames: list[bytes], to: Address, keys: Keys) -> None:
        for frame in frames:
            self.direct.sendto(frame, keys.places[to.raw])

    def usurped(self, keys: Keys, name: str) -> Usurper:
        """M's process takes A's address for two seconds, with an identity of the name; M's own, but for psk."""
        layers: list[Encrypt | Auth] = [Encrypt(EncryptConfig(**{
            key: value for key, value in self.encrypt.items() if key != "reread"}))]
        if self.files is not None:
            words = {key: value for key, value in self.files.auth("M").items() if key != "reread"}
            layers.append(Auth(AuthConfig(**words)))
        usurper = Usurper(self.group, self.group.members[0], name, layers)
        places = {raw: place for raw, place in keys.places.items() if raw != self.group.members[0].raw}
        usurper.run(places, 2.0)
        return usurper

    def attack(self, keys: Keys) -> int:
        """All attacks of the kit in the names of others, as multicasts and unicasts; returns how many frames."""
        heard, number = senders_of(self.before), 0
        for make in ATTACKS.values():
            batches = make(self.group)
            frames = in_their_names(keys, heard, batches, len(self.got))
            self.wire.send(frames)
            unicasts = unicasts_in_their_names(keys, heard, batches, self.group.members[1])
            self.send_direct(unicasts, self.group.members[1], keys)
            number += 2 * len(frames) + len(unicasts)       # a member's socket leaves out frames in its own name
            sleep(0.01)
        return number


def by_word(member: jg.JChannel, batches: list[Batch]) -> None:
    """A member speaks as itself, but says what its protocols would not."""
    stack, host = stack_of(member), member._session.host
    for batch in batches:
        host.loop.call(lambda batch=batch: (stack.find(Encrypt).pass_down(batch), stack.run()))


@pytest.fixture
def stacks() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


@pytest.mark.parametrize("authority", AUTHORITIES)
def test_an_insider_does_not_speak_as_another_member_in_mode_view(authority, stacks, tmp_path):
    files = Files(tmp_path, authority)
    all_ = Besieged(stacks, files, {"mode": "view", "sign": "pair", "keyring": str(files.keyring), "reread": "100ms"})
    keys, view = taken_from(all_.members["M"]), all_.group.view.id
    assert keys.view_key is not None
    assert any(keys.opens(frame) for frame in all_.before)
    before = all_.counted(*REFUSED)
    number = all_.attack(keys)
    eventually(lambda: all_.counted(*REFUSED) - before >= number, f"{number} frames are counted")
    assert all_.counted("unsigned_dropped") > 100
    all_.unharmed(4, view)
    # It takes A's address, with its own identity; or with A's name, where all share a secret.
    a = all_.group.members[0].raw
    eventually(lambda: all(a in stack_of(member).find(Encrypt).pairs for member in all_.others[1:]), "A is proven")
    pairs = [stack_of(member).find(Encrypt).pairs[a] for member in all_.others[1:]]
    refused = all_.counted("unidentified_dropped")
    usurper = all_.usurped(keys, "A" if authority == "psk" else "M")
    assert usurper.heard > 0, "it was not answered at all"
    assert all_.counted("unidentified_dropped") > refused
    assert pairs == [stack_of(member).find(Encrypt).pairs[a] for member in all_.others[1:]]
    all_.unharmed(4, view)


REFUSED = ("unsigned_dropped", "not_opened_dropped", "unknown_key_dropped", "replayed_dropped", "unproven_dropped",
           "unidentified_dropped", "no_key_dropped")


def test_what_an_insider_says_as_itself_harms_no_other_member(stacks, tmp_path):
    files = Files(tmp_path, "keys")
    all_ = Besieged(stacks, files, {"mode": "view", "sign": "each"})
    insider, view = all_.members["M"], all_.group.view.id
    me, (a, _, c) = insider.address, all_.group.members
    assert me is not None
    said: dict[str, list[Batch]] = {
        # 2: where A receives. Unicasts to it may go astray, until its next frame: they are sent again.
        "place": [control(me, None, DiscoveryRequest(Address(a.raw, "A"), PLACE, view, None, None, False))],
        # 3: C is gone, for certain. It is asked.
        "suspicion": [control(me, None, SuspicionHeader((c,), True))] * 3,
        # 5b: a counter near the end.
        "counter": [control(me, None, CutHeader(FlushId(view, Ballot(1, me)), all_.group.view.members, (), 1 << 61,
                                                {}, {}))],
        # 6: messages of A that A has not sent.
        "retransmission": [Batch(me, None, (FORGED,) * 50, (Retransmission(view.raw, a, 500),))],
        # 7: it alone has everything.
        "votes": [control(me, None, StabilityVote(view.raw, dict.fromkeys(all_.group.view.members, 2001)))],
        # 12: an order, to a stack without RELAY.
        "order": [control(me, None, Order(1, "offline", "SFO", 10**9, 0))],
    }
    for what, batches in said.items():
        wanted = all_.counted("frames_opened") + 3 * len(batches)
        by_word(insider, batches)
        eventually(lambda wanted=wanted: all_.counted("frames_opened") >= wanted, what)
        all_.unharmed(4, view)
    assert all_.counted("unannounced_resent_dropped", layer="NAKACK") >= 3


def test_an_insider_can_hold_a_view_up_for_a_while(stacks, tmp_path):
    """The limit that SECURITY.md names: ballots of a member count (8), and stop the group until another one is run."""
    all_ = Besieged(stacks, Files(tmp_path, "keys"), {"mode": "view", "sign": "pair"})
    insider, view = all_.members["M"], all_.group.view
    me = insider.address
    assert me is not None
    members = insider.view.members
    by_word(insider, [control(me, None, Prepare(FlushId(view.id, Ballot(number, me)), members, ()))
                      for number in range(100, 110)])
    eventually(lambda: all(member.view.id.counter > view.id.counter and len(member.view) == 4
                           for member in all_.others), "another view of the same members")
    all_.await_view(4)
    all_.unharmed(4, all_.group.view.id)


@pytest.mark.slow
def test_an_insider_can_decide_a_view_without_another_member_which_comes_back(stacks, tmp_path):
    """The limit that SECURITY.md names: a ballot of any member may decide a view."""
    all_ = Besieged(stacks, Files(tmp_path, "keys"), {"mode": "view", "sign": "pair"})
    insider, view = all_.members["M"], all_.group.view
    me, (a, b, c) = insider.address, view.members
    assert me is not None
    flush, members = FlushId(view.id, Ballot(99, me)), (a, b, c, me)
    made = View(ViewId(view.id.counter + 1, me), (me, a, b))
    by_word(insider, [control(me, None, Prepare(flush, members, ()))])
    sleep(0.3)
    by_word(insider, [control(me, None, CutHeader(flush, members, (), made.id.counter, dict.fromkeys(members, 2), {}))])
    sleep(0.3)
    install = InstallHeader(made, (flush,), (), {}, {})
    by_word(insider, [Batch(me, each, (), (ViewKey(bytes(32)), install), CONTROL) for each in (a, b, c)])
    eventually(lambda: all_.others[2].stats()["GMS"].get("times_excluded", 0) > 0, "C is excluded")
    eventually(lambda: all(member.view.id.counter > made.id.counter for member in all_.others), "C is back")
    all_.await_view(4)
    all_.unharmed(4, all_.group.view.id)


@pytest.mark.parametrize(("authority", "revoked"), LEAVERS)
def test_a_former_member_reads_nothing_and_speaks_for_nobody_in_mode_view(authority, revoked, stacks, tmp_path):
    files = Files(tmp_path, authority)
    all_ = Besieged(stacks, files, {"mode": "view", "sign": "pair", "keyring": str(files.keyring), "reread": "100ms"})
    keys = taken_from(all_.members["M"])
    if revoked:
        files.revoke()
    else:
        all_.members["M"].close()
    all_.await_view(3)
    if revoked:
        all_.members["M"].close()
    view = all_.group.view.id
    all_.before += all_.wire.heard()
    all_.send_genuine(*(b"secret %d" % at for at in range(20)))
    later = all_.wire.heard()
    assert any(read_head(frame)[2] == TAGGED_STREAM for frame in later), "messages were sent"
    assert not any(keys.opens(frame) for frame in later)

    before = all_.counted(*REFUSED)
    all_.wire.send(all_.before)                                                      # 9, 10: what it has recorded
    number = all_.attack(keys) + len(all_.before)
    own = Batch(Address(keys.sender[:16], "M"), None, (FORGED,), (MulticastData(view.raw, 1),))
    all_.wire.send([keys.frame(keys.sender, MULTICAST_STREAM, keys.count + at, own) for at in range(50)])
    eventually(lambda: all_.counted(*REFUSED) - before >= number, f"{number} frames are counted")
    all_.unharmed(3, view)
    usurper = all_.usurped(keys, "A" if authority == "psk" else "M")
    assert usurper.heard > 0
    assert all_.counted("unidentified_dropped") > 0
    all_.unharmed(3, view)
    # As itself: a revoked one is not heard at all; another one is a known process that is in no view.
    opened = all_.counted("frames_opened")
    b = all_.group.members[1]
    mine = [Batch(own.src, b, (), (header, UnicastData(1, 1, 1)), CONTROL) for header in (
        SuspicionHeader((b,), True), LeaveRequest(view), Order(1, "offline", "SFO", 10**9, 0))]
    frames = [keys.frame(keys.sender, UNICAST_STREAM, AHEAD + at, batch, key=keys.pairs[b.raw])
              for at, batch in enumerate(mine)]
    all_.send_direct(frames, b, keys)
    all_.unharmed(3, view)
    if not revoked:
        assert all_.counted("frames_opened") > opened


def test_in_mode_shared_members_are_not_told_apart_until_the_key_is_retired(stacks, tmp_path):
    """The limit of one key for all, as SECURITY.md names it, and where it ends."""
    files = Files(tmp_path, "")
    all_ = Besieged(stacks, files, {"keyring": str(files.keyring), "reread": "100ms"})
    keys, view = taken_from(all_.members["M"]), all_.group.view.id
    heard = senders_of(all_.before)
    a, b, _ = all_.group.members
    forged = Batch(a, None, (FORGED,), (), NO_RELIABILITY)
    all_.wire.send(in_their_names(keys, heard, [forged], 4))
    eventually(lambda: ("A", FORGED) in all_.got["B"], "an insider speaks as A")
    all_.members["M"].close()
    all_.await_view(3)
    all_.send_genuine(b"read by a former member")
    assert any(keys.opens(frame) for frame in all_.wire.heard()), "a former member reads"
    again = in_their_names(keys, {a.raw: (heard[a.raw][0], heard[a.raw][1] + AHEAD)}, [forged], 4)
    all_.wire.send(again)
    eventually(lambda: all_.got["B"].count(("A", FORGED)) == 2, "and speaks")
    files.rotate(all_.others)
    for got in all_.got.values():
        got[:] = [each for each in got if each[1] != FORGED]
    all_.before, view = all_.wire.heard(), all_.group.view.id
    all_.send_genuine(*(b"secret %d" % at for at in range(20)))
    later = all_.wire.heard()
    assert later
    assert not any(keys.opens(frame) for frame in later)
    before = all_.counted("unknown_key_dropped", "unproven_dropped")
    number = all_.attack(keys)
    eventually(lambda: all_.counted("unknown_key_dropped") - before >= number, f"{number} frames are counted")
    all_.unharmed(3, view)
    assert b.raw in keys.places
