"""The attacks of the kit against real members: without ENCRYPT the first one succeeds, with it none has any effect.

Each is counted by name at the members that it reached: `unsealed_dropped` in clear, `unknown_key_dropped` under a key
of the attacker's own, `replayed_dropped` and `not_opened_dropped` for what was recorded, or recorded and changed.
"""
from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import zmq

import jgroups_py as jg
from jgroups_py.model.batch import Batch
from jgroups_py.runtime.sockets.tcp import make_hello
from jgroups_py.sealing.keyring import new_keyring
from jgroups_py.stack.protocol import CONTROL
from jgroups_py.system.free_ports import free_range
from jgroups_py.system.secrets import SECRETS, write_keyring
from jgroups_py.wire.sealed_head import HEAD_BYTES
from tests.runtime.helpers import eventually
from tests.security.kit import ATTACKS, EVIL, FORGED, Group, clear, message, sealed
from tests.wire.collect import collected

pytestmark = pytest.mark.real
MCAST_ADDR, LOOPBACK = "239.8.8.8", "127.0.0.1"


class Wire:
    """The multicast group, as a process beside the members sees it."""

    def __init__(self, stacks: ExitStack, port: int) -> None:
        self.group = MCAST_ADDR, port
        self.sock = stacks.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(LOOPBACK))
        self.sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 0)
        self.sock.bind(self.group)
        self.sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
                             struct.pack("4s4s", socket.inet_aton(MCAST_ADDR), socket.inet_aton(LOOPBACK)))
        self.sock.setblocking(False)

    def send(self, frames: list[bytes]) -> None:
        for frame in frames:
            self.sock.sendto(frame, self.group)

    def heard(self) -> list[bytes]:
        """What was multicast since the last call."""
        found = []
        while True:
            try:
                found.append(self.sock.recv(65536))
            except BlockingIOError:
                return found


class Three:
    """Members A, B and C of one group, and the wire."""

    def __init__(self, stacks: ExitStack, stack: str, properties: dict[str, Any]) -> None:
        port = free_range()
        self.wire = Wire(stacks, port)
        self.got: dict[str, list[bytes]] = {name: [] for name in "ABC"}
        self.members: list[jg.JChannel] = []
        for name in "ABC":
            member = stacks.enter_context(jg.JChannel(
                stack, name, {**properties, "mcast_port": port},
                lambda message, name=name: self.got[name].append(message.payload)))
            member.connect("besieged")
            self.members.append(member)
        eventually(lambda: all(len(member.view) == 3 for member in self.members))
        view = self.members[0].view
        assert view is not None
        self.group = Group("besieged", view)

    def counted(self, name: str) -> int:
        return sum(int(member.stats()["ENCRYPT"].get(name, 0)) for member in self.members)


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Three]:
    write_keyring(tmp_path / "group.keys", new_keyring(SECRETS.draw(32)), new=True)
    with ExitStack() as stacks:
        yield Three(stacks, "sealed", {"keyring": tmp_path / "group.keys"})


def test_without_encrypt_the_first_attack_succeeds() -> None:
    with ExitStack() as stacks:
        three = Three(stacks, "udp", {})
        three.wire.send(clear(three.group, message(three.group)))
        eventually(lambda: FORGED in three.got["B"] and FORGED in three.got["C"])


def test_no_attack_has_an_effect_and_each_is_counted(three: Three) -> None:
    a, b, _ = three.members
    a.send(None, b"recorded")
    eventually(lambda: all(b"recorded" in got for got in three.got.values()))
    recorded = [frame for frame in three.wire.heard() if len(frame) > HEAD_BYTES + 40]
    assert recorded
    for name, attack in ATTACKS.items():
        batches = attack(three.group)
        for frames, counter in ((clear(three.group, batches), "unsealed_dropped"),
                                (sealed(three.group, batches), "unknown_key_dropped")):
            # A member's socket leaves out frames in its own name: the two others count them.
            wanted = three.counted(counter) + 2 * len(frames)
            three.wire.send(frames)
            eventually(lambda counter=counter, wanted=wanted: three.counted(counter) >= wanted, f"{name}: {counter}")
    replayed, changed = three.counted("replayed_dropped"), three.counted("not_opened_dropped")
    three.wire.send(recorded * 3)                                                        # 9 and 10
    ahead = [frame[:HEAD_BYTES - 8] + (1 << 30).to_bytes(8, "big") + frame[HEAD_BYTES:] for frame in recorded]
    three.wire.send(ahead)
    eventually(lambda: three.counted("replayed_dropped") > replayed and three.counted("not_opened_dropped") > changed)

    assert [member.view for member in three.members] == [three.group.view] * 3
    sent = [b"genuine %d" % number for number in range(20)]
    for payload in sent:
        a.send(None, payload)
    a.send(b.address, b"for B alone")
    eventually(lambda: b"for B alone" in three.got["B"] and all(sent[-1] in got for got in three.got.values()))
    for name, got in three.got.items():
        assert [payload for payload in got if payload.startswith(b"genuine")] == sent, name
        assert FORGED not in got
        assert got.count(b"recorded") == 1
    assert [member.view for member in three.members] == [three.group.view] * 3


def test_15_a_connection_that_names_a_members_place_is_believed_nothing(tmp_path: Path) -> None:
    write_keyring(tmp_path / "group.keys", new_keyring(SECRETS.draw(32)), new=True)
    port, got = free_range(10), []
    stack = [("TCP", {"bind_port": port, "port_range": 9}), ("ENCRYPT", {"keyring": str(tmp_path / "group.keys")}),
             ("TCPPING", {"initial_hosts": f"{LOOPBACK}[{port}]", "port_range": 9}), "MERGE3", "FD_SOCK", "FD_ALL",
             "VERIFY_SUSPECT", "NAKACK", "UNICAST", "STABLE", ("GMS", {"join_timeout": "500ms"}), "MFC", "UFC", "FRAG"]
    with ExitStack() as stacks:
        members = [stacks.enter_context(jg.JChannel(stack, name, {}, lambda message: got.append(message.payload)))
                   for name in "AB"]
        for member in members:
            member.connect("besieged")
        eventually(lambda: all(len(member.view) == 2 for member in members))
        view = members[0].view
        context = stacks.enter_context(zmq.Context())
        dealer = stacks.enter_context(context.socket(zmq.DEALER))
        dealer.set(zmq.ROUTING_ID, make_hello((LOOPBACK, 9)))
        dealer.set(zmq.LINGER, 0)
        dealer.connect(f"tcp://{LOOPBACK}:{port}")
        a, b = view.members
        group = Group("besieged", jg.View(view.id, (b, a, a)))               # the frame is in B's name, and goes to A
        dealer.send(clear(group, message(group))[0])
        eventually(lambda: members[0].stats()["ENCRYPT"].get("unsealed_dropped", 0) == 1)
        members[1].send(None, b"genuine")
        eventually(lambda: got.count(b"genuine") == 2)
        assert FORGED not in got
        assert members[0].view == view


class Batches(jg.Receiver):
    """A receiver that takes batches."""

    def __init__(self) -> None:
        self.got: list[bytes] = []

    def receive_batch(self, batch: jg.MessageBatch) -> None:
        self.got += [message.payload for message in batch]


@pytest.mark.parametrize("stack", ["udp", "topics"])
def test_no_header_that_is_known_somewhere_ends_the_thread_of_a_member(stack):
    """Each header of the package with a message and without one, in clear: most are of protocols that are not in the
    stack, so they reach the application's side of the channel."""
    with ExitStack() as stacks:
        port, one, other = free_range(), [], Batches()
        wire = Wire(stacks, port)
        receivers = {"A": lambda message: one.append(message.payload), "B": other}
        members = [stacks.enter_context(jg.JChannel(stack, name, {"mcast_port": port}, receiver))
                   for name, receiver in receivers.items()]
        for member in members:
            member.connect("besieged")
        eventually(lambda: all(member.view is not None and len(member.view) == 2 for member in members))
        group = Group("besieged", jg.View(members[0].view.id, (*members[0].view.members, EVIL)))
        sent = 0
        for header, _ in collected():
            for payloads in ((), (b"",), (FORGED,)):
                for flags in (CONTROL, 0):
                    wire.send(clear(group, [Batch(src, None, payloads, (header,), flags)
                                            for src in (EVIL, group.members[0])]))
                    sent += 1
            if not sent % 60:
                members[0].stats()                            # so that buffers do not run over
        for name in ("A", "B"):
            members["AB".index(name)].send(None, b"alive")    # what it sends comes back to itself, if its thread runs
        eventually(lambda: b"alive" in one and b"alive" in other.got)
        assert sum(member.stats()["channel"].get("no_message_dropped", 0) for member in members) > 0
