"""Attackers that have keys: an insider, which is a member, and a former member, which kept all that it had.

Both take their keys from a real member (`Keys`) and make frames of their own with them, so nothing of that member's
program is in their way. `Usurper` is a process of its own with such a member's identity: it takes the address of
another member, which can be read in each frame, and proves itself under it.
"""
from __future__ import annotations

import socket
from time import monotonic, monotonic_ns

import attrs

import jgroups_py as jg
from jgroups_py import wire
from jgroups_py.model.address import ADDRESS_BYTES, Address, PhysicalAddress
from jgroups_py.model.batch import Batch
from jgroups_py.model.errors import WireError
from jgroups_py.model.events import AddressesKnown, Bound, Connect
from jgroups_py.model.outputs import Frame
from jgroups_py.protocols.auth import Auth
from jgroups_py.protocols.encrypt.ciphers import EPOCH_BITS, frame_cipher, nonce_of
from jgroups_py.protocols.encrypt.protocol import Encrypt
from jgroups_py.protocols.encrypt.signatures import signed
from jgroups_py.protocols.merge.protocol import Info
from jgroups_py.protocols.transport.protocol import Udp, UdpConfig
from jgroups_py.sealing.keyring import GroupKey
from jgroups_py.sealing.primitives import SIGNATURE_BYTES, TAG_BYTES, SigningKey
from jgroups_py.stack.protocol import CONTROL
from jgroups_py.stack.stack import Stack
from jgroups_py.system.secrets import SECRETS
from jgroups_py.wire.sealed_head import (
    DISCOVERY_STREAM,
    HANDSHAKE_STREAM,
    HEAD_BYTES,
    MULTICAST_STREAM,
    SIGNED_STREAM,
    TAGGED_STREAM,
    UNICAST_STREAM,
    read_head,
    sealed_head,
)
from tests.security.kit import Group

AHEAD = 2000                             # counters that a forged frame is ahead of its victim's own
SALT = bytes(range(16))


@attrs.frozen
class Keys:
    """What a member of a group has, and may keep. sender: its address and salt; pairs: address -> the key that the two
    have alone; places: address -> where it receives; count: its next counter of multicasts."""

    by_view: bool
    cluster: bytes
    keyring: dict[bytes, GroupKey]
    active: GroupKey
    view_key: GroupKey | None
    pairs: dict[bytes, GroupKey]
    signer: SigningKey | None
    sender: bytes
    places: dict[bytes, PhysicalAddress]
    count: int

    @property
    def group_key(self) -> GroupKey:
        """The key of multicasts."""
        return self.view_key or self.active

    def frame(
        self, sender: bytes, stream: int, count: int, batch: Batch, trailer: bytes = b"", key: GroupKey | None = None,
    ) -> bytes:
        """A frame in the name of any sender. key: another one than that of multicasts."""
        key = key or self.group_key
        head = sealed_head(stream, key.id, self.cluster, sender, count)
        text = b"".join(wire.encode_inner(batch)) + trailer
        return head + frame_cipher(key, 0, self.cluster, sender, count >> EPOCH_BITS).seal(
            nonce_of(stream, count), text, head)

    def opens(self, frame: bytes) -> bool:
        """Whether one of its keys opens a frame, but for those that are for processes outside the view too."""
        _, _, stream, _, _, sender, count = read_head(frame)
        if self.by_view and stream in (HANDSHAKE_STREAM, DISCOVERY_STREAM):
            return False
        for key in (*self.keyring.values(), *self.pairs.values(), *([self.view_key] if self.view_key else [])):
            try:
                frame_cipher(key, 0, self.cluster, sender, count >> EPOCH_BITS).open(
                    nonce_of(stream, count), frame[HEAD_BYTES:], frame[:HEAD_BYTES])
            except WireError:
                continue
            return True
        return False


def taken_from(member: jg.JChannel) -> Keys:
    """All that ENCRYPT of this member has now."""
    stack = stack_of(member)
    encrypt: Encrypt = stack.find(Encrypt)
    writer, book = encrypt.writer, stack.find(Udp).book
    assert writer is not None
    assert encrypt.keyring is not None
    pairs = {raw: found.pair for raw, found in encrypt.pairs.items() if found.pair is not None}
    return Keys(encrypt.by_view, encrypt.cluster, dict(encrypt.usable), encrypt.keyring.active, encrypt.view_key, pairs,
                writer.signer, writer.sender, {each.raw: place for each, place in book.items()}, writer.counters[0])


def stack_of(member: jg.JChannel) -> Stack:
    """The layers of a channel."""
    node = member._session.host.node
    return node.local


def senders_of(frames: list[bytes]) -> dict[bytes, tuple[bytes, int]]:
    """Address -> (address and salt, highest counter), as anybody reads them in frames."""
    found: dict[bytes, tuple[bytes, int]] = {}
    for frame in frames:
        _, _, stream, _, _, sender, count = read_head(frame)
        if stream != HANDSHAKE_STREAM:
            found[sender[:ADDRESS_BYTES]] = sender, max(count, found.get(sender[:ADDRESS_BYTES], (b"", 0))[1])
    return found


def in_their_names(keys: Keys, heard: dict[bytes, tuple[bytes, int]], batches: list[Batch], members: int,
                   ) -> list[bytes]:
    """The batches of an attack, each in the name of its source, under the group's key: in mode "view" in each way in
    which multicasts are sealed, with what an attacker can put in the place of a signature or a tag."""
    found = []
    for number, batch in enumerate(batches):
        sender, count = heard.get(batch.src.raw, (batch.src.raw + SALT, 1))
        count += AHEAD + 4 * number
        if not keys.by_view:
            found.append(keys.frame(sender, MULTICAST_STREAM, count, batch))
            continue
        assert keys.signer is not None
        plain = batch.replaced(dest=None)
        head = sealed_head(SIGNED_STREAM, keys.group_key.id, keys.cluster, sender, count)
        own = signed(keys.signer, head, [*wire.encode_inner(plain)])[-SIGNATURE_BYTES:]
        for at, (stream, trailer) in enumerate(((MULTICAST_STREAM, b""), (SIGNED_STREAM, own),
                                                (SIGNED_STREAM, bytes(SIGNATURE_BYTES)),
                                                (TAGGED_STREAM, bytes(TAG_BYTES * (members - 1))))):
            found.append(keys.frame(sender, stream, count + at, plain, trailer))
    return found


def unicasts_in_their_names(keys: Keys, heard: dict[bytes, tuple[bytes, int]], batches: list[Batch], to: Address,
                            ) -> list[bytes]:
    """The batches as unicasts to one member, under the key that it has with the attacker, or the group's."""
    found = []
    for number, batch in enumerate(batches):
        if batch.src != to:
            sender, count = heard.get(batch.src.raw, (batch.src.raw + SALT, 1))
            found.append(keys.frame(sender, UNICAST_STREAM, count + AHEAD + number, batch.replaced(dest=to),
                                    key=keys.pairs.get(to.raw) if keys.by_view else None))
    return found


class Usurper:
    """A process with the identity of a known member, at the address of another one.

    layers: ENCRYPT and AUTH as a member has them; name: that of its identity.
    """

    def __init__(self, group: Group, victim: Address, name: str, layers: list[Encrypt | Auth]) -> None:
        self.me = Address(victim.raw, name)
        self.stack = Stack([Udp(UdpConfig()), *layers], self.me, secrets=SECRETS)
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
        self.sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 0)
        self.sock.bind(("127.0.0.1", 0))
        self.sock.setblocking(False)
        self.place: PhysicalAddress = self.sock.getsockname()
        self.cluster, self.heard = group.cluster, 0

    def run(self, places: dict[bytes, PhysicalAddress], seconds: float) -> None:
        """Tell all that it is there, answer their challenges, and challenge them, for a while."""
        now = monotonic_ns()
        self.stack.notify(Bound(self.place), now)
        self.stack.inject(Connect(self.cluster), now)
        self.stack.inject(AddressesKnown({Address(raw): place for raw, place in places.items()}), now)
        until, asked = monotonic() + seconds, 0.0
        while monotonic() < until:
            if monotonic() - asked > 0.2:
                asked = monotonic()
                info = Batch(self.me, None, (), (Info(jg.ViewId(1, self.me), self.place),), CONTROL)
                self.stack.inject(info, monotonic_ns())
            for output in self.stack.outputs:
                if isinstance(output, Frame):
                    for place in places.values() if output.to is None else (output.to,):
                        self.sock.sendto(b"".join(output.data), place)
            self.stack.outputs.clear()
            self.take()
            self.stack.advance(monotonic_ns())
        self.sock.close()

    def take(self) -> None:
        """What arrived."""
        while True:
            try:
                data, place = self.sock.recvfrom(65536)
            except BlockingIOError:
                return
            self.heard += 1
            self.stack.receive([(data, place)], monotonic_ns())
