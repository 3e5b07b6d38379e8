"""All datagrams of a sealed group are recorded and sent again: to the same members, to later ones, to another group.

The group's processes hold the same keyring as the others, so nothing but the seals tells the recordings apart.
"""
from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import sleep

import pytest

import jgroups_py as jg
from jgroups_py.sealing.keyring import new_keyring
from jgroups_py.system.free_ports import free_range
from jgroups_py.system.secrets import SECRETS, write_keyring
from tests.runtime.helpers import eventually

pytestmark = [pytest.mark.real, pytest.mark.slow,
              pytest.mark.skipif(os.geteuid() != 0, reason="packet sockets need root")]
MCAST_ADDR, LOOPBACK, NAMES = "239.8.8.8", "127.0.0.1", "ABC"
ETHERNET_BYTES, UDP_BYTES, UDP = 14, 8, 17
EVERY_S = 0.5
AT_ONCE, REST_S = 20, 0.005              # so many datagrams, and the pause behind them: no buffer overflows


class Tap:
    """Records the UDP datagrams on the loopback interface that go to some ports: (port, payload), each once."""

    def __init__(self, ports: list[int]) -> None:
        self.datagrams: list[tuple[int, bytes]] = []
        self._ports = ports
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
        self._socket.bind(("lo", 0))
        self._socket.settimeout(0.2)
        self._is_done = False
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> Tap:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_done = True
        self._thread.join()
        self._socket.close()

    def _listen(self) -> None:
        while not self._is_done:
            try:
                frame, (_, _, kind, *_) = self._socket.recvfrom(70_000)
            except TimeoutError:
                continue
            packet = frame[ETHERNET_BYTES:]
            udp = packet[(packet[0] & 0x0F) * 4:]
            if kind == socket.PACKET_OUTGOING or packet[9] != UDP:       # what goes out comes in again
                continue
            port, length = struct.unpack_from("!HH", udp, 2)
            if port in self._ports:
                self.datagrams.append((port, udp[UDP_BYTES:length]))


class Talkers:
    """Members A, B and C of a cluster at fixed ports; what each has got."""

    def __init__(self, stacks: ExitStack, cluster: str, keyring: Path, mcast_port: int, first: int) -> None:
        self.ports = [mcast_port, *range(first, first + len(NAMES))]
        self.got: dict[str, list[bytes]] = {name: [] for name in NAMES}
        self.members: list[jg.JChannel] = []
        for number, name in enumerate(NAMES):
            stack = [("UDP", {"bind_addr": LOOPBACK, "mcast_addr": MCAST_ADDR, "mcast_port": mcast_port,
                              "bind_port": first + number, "port_range": 0}),
                     ("ENCRYPT", {"keyring": str(keyring)}), "PING", "MERGE3", "FD_ALL", "VERIFY_SUSPECT", "NAKACK",
                     "UNICAST", "STABLE", ("GMS", {"join_timeout": "500ms"}), "MFC", "UFC", "FRAG"]
            member = stacks.enter_context(jg.JChannel(
                stack, name, {}, lambda message, name=name: self.got[name].append(message.payload)))
            member.connect(cluster)
            self.members.append(member)
        eventually(lambda: all(len(member.view) == len(NAMES) for member in self.members))

    def talk(self, text: str) -> None:
        """Each multicasts, and sends to the next one alone; all of it arrives."""
        for number, member in enumerate(self.members):
            member.send(None, f"{text} of {NAMES[number]}".encode())
            member.send(self.members[(number + 1) % len(NAMES)].address, f"{text} for one".encode())
        eventually(lambda: all(sum(payload.startswith(f"{text} ".encode()) for payload in got) == len(NAMES) + 1
                               for got in self.got.values()))

    def refused(self) -> int:
        return sum(int(value) for member in self.members for name, value in member.stats()["ENCRYPT"].items()
                   if name.endswith("_dropped"))

    def suffer(self, datagrams: list[tuple[int, bytes]], ports: dict[int, int]) -> None:
        """Send a recording to these members, from the port of nobody: no effect, and it is counted. ports: where what
        went to a port is sent now."""
        views, refused = [member.view for member in self.members], self.refused()
        before = {name: list(payloads) for name, payloads in self.got.items()}
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(LOOPBACK))
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 0)
            for number, (port, payload) in enumerate(datagrams):
                to = ports[port]
                sender.sendto(payload, (MCAST_ADDR if to == self.ports[0] else LOOPBACK, to))
                if number % AT_ONCE == AT_ONCE - 1:
                    sleep(REST_S)
        eventually(lambda: self.refused() >= refused + len(datagrams) // 2)
        assert self.got == before, "nothing of the recording was delivered"
        assert [member.view for member in self.members] == views
        self.talk("afterwards")


@contextmanager
def talkers(cluster: str, keyring: Path, mcast_port: int, first: int) -> Iterator[Talkers]:
    with ExitStack() as stacks:
        yield Talkers(stacks, cluster, keyring, mcast_port, first)


@pytest.mark.parametrize("recorded_s", [
    pytest.param(5, id="seconds"), pytest.param(600, id="ten minutes", marks=pytest.mark.long)])
def test_14_a_recording_has_no_effect_on_its_group_on_later_members_and_on_another_group(tmp_path, recorded_s):
    keyring = tmp_path / "group.keys"
    write_keyring(keyring, new_keyring(SECRETS.draw(32)), new=True)
    mcast_port, other_port, first = free_range(), free_range(), free_range(2 * len(NAMES))
    with talkers("recorded", keyring, mcast_port, first) as group:
        with Tap(group.ports) as tap:
            for number in range(round(recorded_s / EVERY_S)):
                group.talk(f"number {number}")
                sleep(EVERY_S)
        recording = tap.datagrams
        assert {port for port, _ in recording} == set(group.ports), "multicasts, and unicasts to each"
        assert len(recording) >= 6 * recorded_s / EVERY_S
        same = {port: port for port in group.ports}
        group.suffer(recording, same)
    with talkers("recorded", keyring, mcast_port, first) as later:
        later.suffer(recording, same)
    with talkers("another", keyring, other_port, first + len(NAMES)) as another:
        another.suffer(recording, dict(zip(later.ports, another.ports, strict=True)))
