"""Real members with ENCRYPT: groups and sites form, keys change under load, and non-members get and do nothing."""
from __future__ import annotations

import shutil
import socket
import struct
from contextlib import ExitStack
from pathlib import Path

import pytest

import jgroups_py as jg
from jgroups_py import wire
from jgroups_py.cli import main
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.ops.control import ControlSocket
from jgroups_py.system.free_ports import free_range
from jgroups_py.system.secrets import read_keyring
from jgroups_py.wire.sealed_head import HEAD_BYTES, SENDER_END
from tests.runtime.helpers import eventually

STACKS = Path(jg.__file__).parent.parent / "stacks"
pytestmark = pytest.mark.real
MCAST_ADDR = "239.8.8.8"


@pytest.fixture
def keyring(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = tmp_path / "group.keys"
    assert main(["keys", "generate", "--keyring", str(path)]) == 0
    capsys.readouterr()
    return path


def tcp_stack(keyring: Path, port: int) -> list[object]:
    return [("TCP", {"bind_port": port, "port_range": 9}), ("ENCRYPT", {"keyring": str(keyring), "reread": "100ms"}),
            ("TCPPING", {"initial_hosts": f"127.0.0.1[{port}]", "port_range": 9}), "MERGE3", "FD_SOCK", "FD_ALL",
            "VERIFY_SUSPECT", "NAKACK", "UNICAST", "STABLE", ("GMS", {"join_timeout": "500ms"}), "MFC", "UFC", "FRAG"]


@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_a_group_forms_and_a_non_member_reads_and_does_nothing(transport, keyring, tmp_path):
    port, got = free_range() if transport == "udp" else free_range(10), []
    stack = "sealed" if transport == "udp" else tcp_stack(keyring, port)
    properties = {"mcast_port": port, "keyring": keyring} if transport == "udp" else {}
    with ExitStack() as stacks:
        heard = []
        if transport == "udp":
            listener = stacks.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((MCAST_ADDR, port))
            listener.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
                                struct.pack("4s4s", socket.inet_aton(MCAST_ADDR), socket.inet_aton("127.0.0.1")))
            listener.settimeout(0.2)
        members = [stacks.enter_context(jg.JChannel(stack, name, properties, lambda m: got.append(m.payload)))
                   for name in ("alice", "bobby")]
        for member in members:
            member.connect("sealed-group")
        eventually(lambda: all(len(member.view) == 2 for member in members))
        members[0].send(None, b"payload in clear?")
        members[1].send(members[0].address, b"payload in clear?")
        eventually(lambda: got.count(b"payload in clear?") == 3)
        if transport == "udp":
            try:
                while len(heard) < 100:
                    heard.append(listener.recv(65536))
            except TimeoutError:
                pass
            assert heard
            words = (b"payload", b"alice", b"bobby", b"sealed-group")
            assert not any(word in frame for frame in heard for word in words)
            assert {frame[:3] for frame in heard} == {b"JP\2"}
            forged = Batch(Address(members[0].address.raw), None, (b"forged",))
            out = stacks.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            out.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
            out.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 0)
            plain = b"".join(wire.encode_frame(wire.cluster_id("sealed-group"), forged))
            later = heard[0][:SENDER_END] + (1 << 20).to_bytes(8, "big") + heard[0][HEAD_BYTES:]
            for frame in (plain, *heard, later):
                out.sendto(frame, (MCAST_ADDR, port))
            counts = ("unsealed_dropped", "replayed_dropped", "not_opened_dropped")
            # Each member's own frames are filtered by its socket, so the first name may be alice's or bobby's.
            eventually(lambda: all(any(member.stats()["ENCRYPT"].get(name, 0) for member in members)
                                   for name in counts))
        other = tmp_path / "other.keys"
        assert main(["keys", "generate", "--keyring", str(other)]) == 0
        stranger = stacks.enter_context(jg.JChannel(
            stack if transport == "udp" else tcp_stack(other, port), "eve", {**properties, "keyring": other}
            if transport == "udp" else {}))
        stranger.connect("sealed-group")
        assert len(stranger.view) == 1
        eventually(lambda: any(member.stats()["ENCRYPT"].get("unknown_key_dropped", 0) for member in members))
        assert [len(member.view) for member in members] == [2, 2]
        assert b"forged" not in got
        assert got.count(b"payload in clear?") == 3


class Rotation:
    """Members, each with its own copy of the keyring, as on hosts of their own; A floods, and has a control socket."""

    def __init__(self, keyring: Path, stacks: ExitStack) -> None:
        self.keyring, self.folder, self.stacks = keyring, keyring.parent, stacks
        self.control = self.folder / "control"
        self.port = free_range(10)
        self.members: list[jg.JChannel] = []
        self.got: dict[str, list[bytes]] = {}
        self.sent = 0

    def copy(self, name: str) -> Path:
        shutil.copy2(self.keyring, self.folder / "moved")
        return (self.folder / "moved").replace(self.folder / f"{name}.keys")

    def spread(self) -> None:
        for member in self.members:
            self.copy(member.name)

    def start(self, name: str) -> None:
        got = self.got[name] = []
        member = self.stacks.enter_context(jg.JChannel(tcp_stack(self.copy(name), self.port), name, {},
                                                       lambda message: got.append(message.payload)))
        member.connect("rotation")
        self.members.append(member)
        eventually(lambda: all(len(each.view) == len(self.members) for each in self.members))

    def flood(self) -> None:
        for _ in range(500):
            self.members[0].send(None, b"%d" % self.sent)
            self.sent += 1

    def rotate(self, *words: str) -> int:
        return main(["keys", "rotate", str(self.keyring), *words])


@pytest.mark.slow
def test_a_key_is_changed_under_load_with_a_member_that_joins_in_each_phase(keyring, capsys):
    def show() -> str:
        capsys.readouterr()
        assert main(["keys", "status", *control]) == 0
        return capsys.readouterr().out

    with ExitStack() as stacks:
        group = Rotation(keyring, stacks)
        control = ("--control", str(group.control))
        group.start("A")
        group.start("B")
        stacks.enter_context(ControlSocket(group.members[0], group.control))
        group.flood()
        old = read_keyring(keyring)[0].active.name
        assert group.rotate() == 0
        new = read_keyring(keyring)[0].keys[-1].name
        # The second phase is refused until all members have the key.
        assert group.rotate("--phase", "activate", *control) == 1
        group.copy("A")
        eventually(lambda: f"{new}  accepted  held by 1 of 2 members, active at 0 of 2; not at B" in show())
        assert group.rotate("--phase", "activate", *control) == 1
        assert f"1 of 2 members lack key {new}: B" in capsys.readouterr().err
        group.spread()
        group.flood()
        group.start("C")
        eventually(lambda: f"{new}  accepted  held by 3 of 3" in show())
        assert group.rotate("--phase", "activate", *control) == 0
        group.spread()
        group.flood()
        group.start("D")
        eventually(lambda: f"{new}  active    held by 4 of 4 members, active at 4 of 4" in show())
        assert group.rotate("--phase", "retire", "--wait", "5", *control) == 0
        group.spread()
        group.flood()
        group.start("E")
        eventually(lambda: f"{old}  retired   held by 0 of 5 members, active at 0 of 5" in show())
        group.flood()
        wanted = [b"%d" % number for number in range(group.sent)]
        for name, number in {"B": 2500, "C": 1500, "D": 1000, "E": 500}.items():
            eventually(lambda name=name, number=number: group.got[name] == wanted[-number:])
        # E gets searches that waited for its port to open, which were sealed before the last change.
        assert all("unknown_key_dropped" not in member.stats()["ENCRYPT"] for member in group.members[:4])


@pytest.mark.slow
def test_two_sites_with_keyrings_of_their_own_and_one_for_the_bridge(tmp_path):
    for name in ("NYC", "SFO", "bridge"):
        assert main(["keys", "generate", "--keyring", str(tmp_path / f"{name}.keys")]) == 0
    port, got = free_range(10), []
    with ExitStack() as stacks:
        members = {}
        for site in ("NYC", "SFO"):
            properties = {"site": site, "keyring": tmp_path / f"{site}.keys",
                          "bridge_keyring": tmp_path / "bridge.keys", "mcast_port": free_range(),
                          "bridge_port": port, "bridge_hosts": f"127.0.0.1[{port}]",
                          "bridge_name": f"bridge-{port}"}
            members[site] = stacks.enter_context(jg.JChannel("sealed-site", f"{site}-A", properties,
                                                             lambda message: got.append(message.payload)))
            members[site].connect("everywhere")
        eventually(lambda: all(len(member.global_view.members) == 2 for member in members.values()
                               if member.global_view is not None) and members["SFO"].global_view is not None)
        members["NYC"].send(None, b"from NYC")
        eventually(lambda: got.count(b"from NYC") == 2)
        for member in members.values():
            for stack in ("ENCRYPT", "bridge.ENCRYPT"):
                assert member.stats()[stack]["frames_sealed"] > 0


@pytest.mark.slow
def test_a_group_in_clear_is_upgraded_one_by_one_without_a_pause(keyring, tmp_path):
    port, got = free_range(), {}
    with ExitStack() as stacks:
        def start(name: str, stack: str) -> jg.JChannel:
            spec = tmp_path / f"{name}.xml"
            text = (STACKS / f"{stack}.xml").read_text()
            spec.write_text(text.replace("<ENCRYPT", '<ENCRYPT accept_clear="1m"'))
            got[name] = []
            member = stacks.enter_context(jg.JChannel(
                str(spec), name, {"mcast_port": port, **({"keyring": keyring} if stack == "sealed" else {})},
                lambda message: got[name].append(message.payload)))
            member.connect("upgrade")
            return member

        members = {name: start(name, "udp") for name in "ABC"}
        eventually(lambda: all(len(member.view) == 3 for member in members.values()))
        sent = 0
        for name in "ABC":
            members[name].close()
            rest = [other for other in members if other != name]
            eventually(lambda rest=rest: all(len(members[other].view) == 2 for other in rest))
            members[name] = start(name, "sealed")
            eventually(lambda: all(len(member.view) == 3 for member in members.values()))
            for payloads in got.values():
                payloads.clear()
            for _ in range(200):
                sent += 1
                for each in members.values():
                    each.send(None, b"%s %d" % (each.name.encode(), sent))
            eventually(lambda: all(len(payloads) == 600 for payloads in got.values()))
            for payloads in got.values():
                for each in "ABC":
                    numbers = [int(text.split()[1]) for text in payloads if text.startswith(each.encode())]
                    assert numbers == list(range(sent - 199, sent + 1)), "all, once, in order"
        # All have a key now: nothing is in clear any more.
        before = {name: member.stats()["ENCRYPT"].get("clear_frames_sent", 0) for name, member in members.items()}
        for member in members.values():
            member.send(None, b"sealed")
        eventually(lambda: all(payloads.count(b"sealed") == 3 for payloads in got.values()))
        after = {name: member.stats()["ENCRYPT"].get("clear_frames_sent", 0) for name, member in members.items()}
        assert after == before
        assert before["A"] > 0


def test_a_member_fails_closed(keyring, tmp_path):
    keyring.chmod(0o644)
    with jg.JChannel("sealed", "A", {"keyring": keyring, "mcast_port": free_range()}) as member, \
            pytest.raises(jg.ChannelError, match=r"other users may use it \(mode 0644\); its mode must be 0600"):
        member.connect("closed")
    with jg.JChannel("sealed", "A", {"keyring": tmp_path / "none", "mcast_port": free_range()}) as member, \
            pytest.raises(jg.ChannelError, match="No such file or directory; jgroups keys generate makes one"):
        member.connect("closed")
