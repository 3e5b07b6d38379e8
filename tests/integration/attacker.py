"""An attacker on the loopback interface: well-formed frames with absurd values, and connections that send nothing.

It uses the cluster's name, which is in every frame as a hash, and no key. Where a test gives it a member's address it
forges the source, which only authentication could prevent.
"""
from __future__ import annotations

import contextlib
import os
import resource
import socket
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import zmq

from jgroups_py import wire
from jgroups_py.model.address import Address
from jgroups_py.model.batch import NO_RELIABILITY, Batch, Header
from jgroups_py.model.view import ViewId
from jgroups_py.runtime.sockets.tcp import make_hello
from tests.integration.members import Group, Member

EVIL = Address(b"\xeeevil stranger\xee\xee", "evil")
LISTENING = "0A"                            # in /proc/net/tcp
LOOPBACK = "127.0.0.1"
MCAST_ADDR = "239.8.8.8"
LINGER_MS = 1000


class Attacker:
    """Sends to all members of a group, by the group's own way."""

    def __init__(self, group: Group) -> None:
        self.cluster = wire.cluster_id(group.cluster)
        self.context: zmq.Context[zmq.Socket[bytes]] | None = None
        self.dealers: list[zmq.Socket[bytes]] = []
        if "mcast_port" in group.properties:
            self.group = (MCAST_ADDR, int(str(group.properties["mcast_port"])))
            self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(LOOPBACK))
            self.sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 0)
            self.sock.bind((LOOPBACK, 0))
        else:
            self.context = zmq.Context()
            self.sock = socket.create_server((LOOPBACK, 0))
            first = int(str(group.properties["bind_port"]))
            for port in range(first, first + len(group.members)):
                dealer = self.context.socket(zmq.DEALER)
                dealer.set(zmq.ROUTING_ID, make_hello((LOOPBACK, self.sock.getsockname()[1])))
                dealer.set(zmq.LINGER, LINGER_MS)
                dealer.connect(f"tcp://{LOOPBACK}:{port}")
                self.dealers.append(dealer)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        self.sock.close()
        for dealer in self.dealers:
            dealer.close()
        if self.context is not None:
            self.context.term()

    def send(self, header: Header, src: Address = EVIL, dest: Address | None = None) -> None:
        """A control message, as from `src`; every member gets it, and `dest` takes it (None: all do)."""
        frame = b"".join(wire.encode_frame(self.cluster, Batch(src, dest, (), (header,), NO_RELIABILITY)))
        if not self.dealers:
            self.sock.sendto(frame, self.group)
        for dealer in self.dealers:
            dealer.send(frame)


def address_of(member: Member) -> Address:
    """The address that it reported."""
    return Address(bytes.fromhex(member.ready()["address"]), member.name)


def view_id_of(group: Group, name: str) -> ViewId:
    """The id of the last view of a member."""
    view = next(event for event in reversed(group[name].events) if event["event"] == "view")
    return ViewId(int(view["id"].rpartition("|")[2]), address_of(group[view["coordinator"]]))


def listening_ports(member: Member) -> list[int]:
    """The TCP ports on which a process listens."""
    inodes = set()
    for descriptor in Path(f"/proc/{member.process.pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            inodes.add(os.readlink(descriptor).removeprefix("socket:[").removesuffix("]"))
    rows = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    return sorted(int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == LISTENING and row[9] in inodes)


@contextlib.contextmanager
def descriptors(number: int) -> Iterator[None]:
    """Processes that are started meanwhile may open so many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextlib.contextmanager
def silent_connections(port: int, number: int) -> Iterator[None]:
    """So many connections to a port are open inside the block; nothing is sent over them."""
    with contextlib.ExitStack() as open_ones:
        for _ in range(number):
            sock = open_ones.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex((LOOPBACK, port))
        yield
