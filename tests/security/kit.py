"""The attacks of design/threat-model.md as frames, for a group of three: A is the coordinator, B and C are members.

Each attack is what a process without keys would send to a group without ENCRYPT, with values that it has read there:
view, addresses, next numbers. `clear` makes the frames as they would be sent there, `sealed` the same under a key of
the attacker's own.
"""
from __future__ import annotations

from collections.abc import Callable

import attrs

from jgroups_py import wire
from jgroups_py.model.address import Address, PhysicalAddress
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.events import Connect
from jgroups_py.model.outputs import Frame
from jgroups_py.model.secrets import Secrets
from jgroups_py.model.view import View, ViewId
from jgroups_py.protocols.discovery.base import DiscoveryRequest
from jgroups_py.protocols.encrypt.protocol import Encrypt, EncryptConfig
from jgroups_py.protocols.fd_all.protocol import Heartbeat
from jgroups_py.protocols.fd_sock.protocol import SuspicionHeader
from jgroups_py.protocols.gms.headers import (
    Ballot,
    CutHeader,
    FlushId,
    InstallHeader,
    JoinRequest,
    LeaveRequest,
    Prepare,
)
from jgroups_py.protocols.nakack.headers import MulticastData, Retransmission
from jgroups_py.protocols.relay.headers import Disseminate, Order
from jgroups_py.protocols.stable.protocol import StabilityVote
from jgroups_py.protocols.transport.protocol import Udp, UdpConfig
from jgroups_py.protocols.unicast.headers import UnicastData
from jgroups_py.sealing.keyring import GroupKeyring, new_keyring
from jgroups_py.stack.protocol import CONTROL
from jgroups_py.stack.stack import Stack

FORGED = b"FORGED"
PLACE: PhysicalAddress = ("127.0.0.1", 9)
EVIL = Address(b"evil............", "evil")


@attrs.frozen
class Group:
    """What an attacker has read of a group."""

    cluster: str
    view: View

    @property
    def members(self) -> tuple[Address, Address, Address]:
        """A, B and C."""
        first, second, third = self.view.members
        return first, second, third


def question(group: Group) -> list[Batch]:
    """0: a discovery request of nobody."""
    return [control(EVIL, None, DiscoveryRequest(EVIL, PLACE, None, None, None, True))]


def message(group: Group) -> list[Batch]:
    """1: a multicast in A's name, with A's next number."""
    return [Batch(group.members[0], None, (FORGED,), (MulticastData(group.view.id.raw, 1),))]


def place(group: Group) -> list[Batch]:
    """2: heartbeats in B's name, from another place: unicasts to B would go there."""
    return [control(group.members[1], None, Heartbeat())] * 5


def suspicion(group: Group) -> list[Batch]:
    """3: B reports that C is gone."""
    return [control(group.members[1], None, SuspicionHeader((group.members[2],), True))] * 3


def leave(group: Group) -> list[Batch]:
    """4: C wants to leave."""
    return [Batch(group.members[2], None, (), (LeaveRequest(group.view.id), UnicastData(1, 1, 1)), CONTROL)]


def view(group: Group) -> list[Batch]:
    """5: a non-member installs a view with itself as the coordinator."""
    flush = FlushId(group.view.id, Ballot(99, EVIL))
    made = View(ViewId(group.view.id.counter + 1, EVIL), (EVIL, *group.members))
    headers = (Prepare(flush, group.members, (EVIL,)),
               CutHeader(flush, group.members, (EVIL,), made.id.counter, {}, {}),
               InstallHeader(made, (flush,), (), {EVIL: PLACE}, {}))
    return [control(EVIL, None, header) for header in headers]


def counter(group: Group) -> list[Batch]:
    """5b: a view with a counter near the end."""
    flush = FlushId(group.view.id, Ballot(1, group.members[0]))
    return [control(group.members[0], None, CutHeader(flush, group.members, (), (1 << 61), {}, {}))]


def retransmission(group: Group) -> list[Batch]:
    """6: B sends what A is said to have sent, before A sends it."""
    header = Retransmission(group.view.id.raw, group.members[0], 1)
    return [Batch(group.members[1], group.members[2], (FORGED,) * 50, (header,))]


def votes(group: Group) -> list[Batch]:
    """7: all have delivered 2000 messages of A, so nobody needs to keep them."""
    digest = dict.fromkeys(group.members, 2001)
    return [control(member, None, StabilityVote(group.view.id.raw, digest)) for member in group.members]


def freeze(group: Group) -> list[Batch]:
    """8: ever higher ballots, which stop the group."""
    return [control(group.members[1], None, Prepare(FlushId(group.view.id, Ballot(number, group.members[1])),
                                                    group.members, ())) for number in range(100, 110)]


def site_message(group: Group) -> list[Batch]:
    """11: messages of another site, with a base that is far ahead."""
    header = Disseminate("SFO", group.members[2], 1 << 40, 1 << 40, 0)
    return [Batch(group.members[0], None, (FORGED,), (header, MulticastData(group.view.id.raw, 1)))]


def order(group: Group) -> list[Batch]:
    """12: an order of an operator: SFO is to be OFFLINE."""
    return [control(EVIL, group.members[0], Order(1, "offline", "SFO", 10**9, 0))]


def join(group: Group) -> list[Batch]:
    """13, 14: a process of no site, or of another one, asks to be let in."""
    return [control(EVIL, None, JoinRequest(EVIL, PLACE, 1))] * 3


ATTACKS: dict[str, Callable[[Group], list[Batch]]] = {
    "0 question": question, "1 message": message, "2 place": place, "3 suspicion": suspicion, "4 leave": leave,
    "5 view": view, "5b counter": counter, "6 retransmission": retransmission, "7 votes": votes, "8 freeze": freeze,
    "11 site message": site_message, "12 order": order, "13 join": join,
}


def control(src: Address, dest: Address | None, header: Header) -> Batch:
    """A message of a protocol."""
    return Batch(src, dest, (), (header,), CONTROL)


def clear(group: Group, batches: list[Batch]) -> list[bytes]:
    """The frames as a member without ENCRYPT would send them."""
    return [b"".join(wire.encode_frame(wire.cluster_id(group.cluster), batch)) for batch in batches]


class OwnKey(Secrets):
    """A key of the attacker's own."""

    def draw(self, nbytes: int) -> bytes:
        return bytes(range(nbytes))

    def keyring(self, path: str) -> GroupKeyring:
        return new_keyring(b"k" * 32)


def sealed(group: Group, batches: list[Batch]) -> list[bytes]:
    """The same frames, sealed with a key that the group does not have."""
    found = []
    for batch in batches:
        stack = Stack([Udp(UdpConfig()), Encrypt(EncryptConfig(keyring="own"))], batch.src, secrets=OwnKey())
        stack.inject(Connect(group.cluster), 0)
        stack.outputs.clear()
        stack.inject(batch.replaced(dest=None), 0)
        found += [b"".join(output.data) for output in stack.outputs if isinstance(output, Frame)]
    return found
