"""A process that is in no group but reaches a group's ports, and sends frames to its real members."""
from __future__ import annotations

import socket
import struct
from time import monotonic
from types import TracebackType
from typing import Self

from jgroups_py import wire
from jgroups_py.model.address import Address, PhysicalAddress
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.errors import WireError
from jgroups_py.model.view import ViewId
from jgroups_py.protocols.discovery.base import DiscoveryRequest, DiscoveryResponse
from jgroups_py.protocols.gms.headers import Ballot, FlushId

NON_MEMBER = Address(b"nobody-at-all-17", "X")
WAITING_SECONDS = 10.0


class NonMember:
    """A socket beside a group of the stack udp. members: name -> address; places: name -> where it receives."""

    def __init__(self, cluster: str, mcast_port: int, mcast_addr: str = "239.8.8.8") -> None:
        self.cluster = wire.cluster_id(cluster)
        self.group = (mcast_addr, mcast_port)
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind(("127.0.0.1", 0))
        self.sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
        self.sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, struct.pack("B", 0))
        self.place: PhysicalAddress = self.sock.getsockname()
        self.members: dict[str, Address] = {}
        self.places: dict[str, PhysicalAddress] = {}
        self.view_id: ViewId | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        self.sock.close()

    def look_around(self, names: str) -> None:
        """Get the addresses and the view of these members by discovery, which needs no key."""
        until = monotonic() + WAITING_SECONDS
        interner = wire.Interner()
        self.sock.settimeout(0.5)
        while set(self.members) != set(names):
            assert monotonic() < until, f"only {sorted(self.members)} answer"
            self.send(DiscoveryRequest(NON_MEMBER, self.place, None, None, None, True))
            try:
                while True:
                    data, place = self.sock.recvfrom(1 << 16)
                    batch = wire.decode_frame(data, self.cluster, interner)
                    for header in batch.headers:
                        if isinstance(header, DiscoveryResponse):
                            self.members[header.member.name] = header.member
                            self.places[header.member.name] = place
                            self.view_id = header.view_id
            except (TimeoutError, WireError):
                pass

    def send(
        self, *headers: Header, to: str | None = None, src: Address = NON_MEMBER, payloads: tuple[bytes, ...] = (),
        flags: int = 0x54,
    ) -> None:
        """One frame, to a member or to all. flags: as control messages have them."""
        dest = None if to is None else self.members[to]
        data = b"".join(wire.encode_frame(self.cluster, Batch(src, dest, payloads, headers, flags)))
        self.sock.sendto(data, self.group if to is None else self.places[to])

    def flush(self, owner: Address, round_: int = 1) -> FlushId:
        """A ballot about the group's view."""
        assert self.view_id is not None, "it looked around before"
        return FlushId(self.view_id, Ballot(round_, owner))


def invented(number: int) -> Address:
    """An address that no process has."""
    return Address(b"invented" + number.to_bytes(8, "big"), f"X{number}")
