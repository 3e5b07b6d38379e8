"""Slow receivers and hostile bytes: memory stays bounded, nothing is lost, and all members run on."""
from __future__ import annotations

import contextlib
import json
import random
import socket
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import pytest
import zmq

from jgroups_py import wire
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.runtime.sockets.tcp import make_hello
from jgroups_py.runtime.sockets.udp import shared_socket
from tests.integration.members import Group

pytestmark = [pytest.mark.real, pytest.mark.slow]
MAX_MB = 150
GARBAGE_FRAMES = 20_000
ENOUGH = 20
MULTICAST = "239.8.8.8"                     # of udp.xml
LOOPBACK = socket.inet_aton("127.0.0.1")


@pytest.mark.parametrize("stack", ["udp", "tcp"])
def test_a_slow_receiver_slows_the_sender_and_memory_stays_bounded(stack):
    messages, size = 4000, 10_000
    with Group(stack) as group:
        (a,) = group.start("A")
        command = [sys.executable, "-m", "tests.integration.slow_receiver", stack, group.cluster, str(messages)]
        command += [f"{name}={value}" for name, value in group.properties.items()]
        slow = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            a.view_of("AS")
            start = monotonic()
            a.command(f"flood {messages} {size}")
            largest_mb = 0.0
            while slow.poll() is None:
                largest_mb = max(largest_mb, a.stats()["rss_mb"])
                sleep(0.2)
            printed, _ = slow.communicate()
        finally:
            slow.kill()
        assert monotonic() - start > messages / 1000 * 0.9
        figures = json.loads(printed)
        assert (figures["received"], figures["wrong"], figures["view"]) == (messages, 0, ["A", "S"])
        assert figures["largest_mb"] < MAX_MB
        assert largest_mb < MAX_MB


def garbage(rng: random.Random, real: bytes) -> bytes:
    """A random, a truncated or a bit-flipped frame."""
    kind = rng.randrange(3)
    if kind == 0:
        return rng.randbytes(rng.randrange(1, 1500))
    if kind == 1:
        return real[:rng.randrange(len(real))]
    flipped = bytearray(real)
    for _ in range(rng.randrange(1, 9)):
        flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
    return bytes(flipped)


def real_frame(cluster: str) -> bytes:
    """A frame of this cluster from a non-member, with every header that has no fields of its own."""
    headers = tuple(cls() for cls in wire.known_headers() if not cls.__attrs_attrs__)
    batch = Batch(Address(b"non-member......", "X"), None, (b"a", b"bb", b"ccc"), headers)
    return b"".join(wire.encode_frame(wire.cluster_id(cluster), batch))


def captured(group: Group, seconds: float) -> list[bytes]:
    """Frames that the group multicasts meanwhile, ENOUGH at least, shortest first."""
    port = group.properties["mcast_port"]
    assert isinstance(port, int)
    frames = []
    with shared_socket((MULTICAST, port)) as listening:
        listening.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(MULTICAST) + LOOPBACK)
        listening.settimeout(0.05)
        until = monotonic() + seconds
        while monotonic() < until or len(frames) <= ENOUGH:
            with contextlib.suppress(TimeoutError):
                frames.append(listening.recv(65536))
    return sorted(frames, key=len)


def test_garbage_in_every_udp_socket_harms_no_member():
    with Group("udp") as group:
        a, b = group.start("A B")
        for member in (a, b):
            member.command("flood 2000 100 2000")
        real = captured(group, 1.5)[:300]
        rng = random.Random(1)
        ports = [place for member in (a, b) for place in udp_ports(member.process.pid)]
        assert len(ports) == 4
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as outside:
            outside.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, LOOPBACK)
            for number in range(GARBAGE_FRAMES):
                outside.sendto(garbage(rng, rng.choice(real)), ports[number % len(ports)])
        assert_unharmed(group, 2000)
        dropped = a.stats()["protocols"]["UDP"]
        assert dropped["malformed_dropped"] > GARBAGE_FRAMES / 10
        assert dropped["wrong_checksum_dropped"] > GARBAGE_FRAMES / 10


def test_garbage_in_every_tcp_socket_harms_no_member():
    with Group("tcp") as group:
        a, b = group.start("A B")
        rng = random.Random(2)
        for pid in (a.process.pid, b.process.pid):
            for port in tcp_listeners(pid):
                for _ in range(20):
                    with socket.create_connection(("127.0.0.1", port), timeout=120) as outside:
                        try:
                            for _ in range(50):
                                outside.sendall(rng.randbytes(rng.randrange(1, 1500)))
                        except OSError:
                            pass                             # it hung up, as it should
        real = real_frame(group.cluster)
        with zmq.Context() as context, context.socket(zmq.DEALER) as outside:
            outside.set(zmq.LINGER, 1000)
            outside.set(zmq.ROUTING_ID, make_hello(("127.0.0.1", 9)))
            outside.connect(f"tcp://127.0.0.1:{group.properties['bind_port']}")
            for _ in range(GARBAGE_FRAMES // 10):
                outside.send(garbage(rng, real))
        assert_unharmed(group)
        figures = a.stats()["protocols"]
        assert figures["TCP"]["handshakes_failed"] + figures["TCP"].get("refused_messages_dropped", 0) > 0
        assert figures["FD_SOCK"]["stray_bytes_dropped"] > 0


def assert_unharmed(group: Group, before: int = 0) -> None:
    """The members live, are one group as before, and one more flood arrives exactly once."""
    for member in group.members.values():
        assert member.process.poll() is None, group.report()
        member.command("flood 2000 100")
    for member in group.members.values():
        stats = member.received_all(dict.fromkeys(group.members, before + 2000))
        assert all(f["duplicates"] == f["out_of_order"] == 0 for f in stats["received"].values()), stats
        assert member.last_view() == list(group.members), group.report()
        assert sum(event["event"] == "view" for event in member.events) <= len(group.members), group.report()


def udp_ports(pid: int) -> list[tuple[str, int]]:
    """(address, port) of all UDP sockets of a process."""
    return [place for place, _ in sockets_of(pid, "udp")]


def tcp_listeners(pid: int) -> list[int]:
    """Ports on which a process accepts connections."""
    return [port for (_, port), state in sockets_of(pid, "tcp") if state == "0A"]


def sockets_of(pid: int, kind: str) -> list[tuple[tuple[str, int], str]]:
    """From /proc: ((address, port), state) of each socket of a process."""
    mine = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        target = str(entry.readlink())
        if target.startswith("socket:["):
            mine.add(target[8:-1])
    found = []
    for line in Path(f"/proc/{pid}/net/{kind}").read_text().splitlines()[1:]:
        words = line.split()
        if words[9] in mine:
            address, port = words[1].split(":")
            found.append(((socket.inet_ntoa(bytes.fromhex(address)[::-1]), int(port, 16)), words[3]))
    return found
