"""Tables that all brokers share by last writer wins: retained messages by topic, sessions by client id.

Each is a `Replica` of blocks/anti_entropy: a write is sent to all at once, exchanges repair what did not arrive, a
deletion leaves a mark that keeps older entries from coming back. Clocks are wall clocks, as close as may be.
"""
from __future__ import annotations

from hashlib import blake2b
from random import Random

import attrs

from jgroups_py.blocks.anti_entropy.replica import MAX_KEY_BYTES, Replica
from jgroups_py.blocks.mqtt.broker.publication import NEVER, Publication
from jgroups_py.blocks.mqtt.federation.wire import ForwardedMessage, message_body, read_message
from jgroups_py.model.address import Address
from jgroups_py.model.errors import WireError
from jgroups_py.wire.codec import BOOL, TEXT, U64, Interner, Reader

_U64_BYTES = 8
_NO_ADDRESSES = Interner(0)


def key_of(text: str) -> bytes:
    """The key of a topic or client id: its text, or a hash of a long one behind a byte that no text has."""
    raw = text.encode()
    return raw if len(raw) <= MAX_KEY_BYTES else b"\0" + blake2b(raw, digest_size=32).digest()


def key_topic(key: bytes) -> str | None:
    """The topic, or client id, of a key; None: the key is a hash, or no text."""
    try:
        return None if key[:1] == b"\0" else key.decode()
    except UnicodeDecodeError:
        return None


def table_replica(rng: Random) -> Replica:
    """A copy, empty."""
    return Replica(Address(rng.getrandbits(128).to_bytes(16, "big")))


def site_number(name: str) -> int:
    """What stands for a site in a retained message: a hash of its name; 0 without RELAY."""
    return int.from_bytes(blake2b(name.encode(), digest_size=_U64_BYTES).digest(), "big") >> 3 if name else 0


def retained_value(publication: Publication, wall_offset_ns: int, site: int = 0) -> bytes:
    """A retained message as it is in the table: with the wall clock's time when it expires, 0 for never, and the number
    of the site where it was published in the place of its origin."""
    expires = publication.expires_ns + wall_offset_ns if publication.expires_ns != NEVER else 0
    plain = attrs.evolve(publication, expires_ns=NEVER, wants_retain=True)
    plain.origin, plain.number = site, 0
    return max(0, expires).to_bytes(_U64_BYTES, "big") + message_body(ForwardedMessage(plain), 0)


def retained_message(value: bytes, wall_offset_ns: int) -> Publication:
    """Raises WireError."""
    expires = int.from_bytes(value[:_U64_BYTES], "big")
    publication = read_message(value[_U64_BYTES:], 0).publication
    publication.origin = 0
    if expires:
        publication.expires_ns = max(1, expires - wall_offset_ns)
    return publication


def retained_site(value: bytes) -> int:
    """The number of the site where a retained message was published."""
    at = _U64_BYTES + 1                                  # behind the flags
    return int.from_bytes(value[at:at + _U64_BYTES], "big")


@attrs.frozen
class SessionOwner:
    """Which node has the session of a client id. claim: a number of that CONNECT; clean: it wants none of before; life:
    of the node, its incarnation, as another process of this name knows nothing of the session; 0: not known."""

    client_id: str
    node: str
    claim: int
    clean: bool
    life: int = attrs.field(default=0, eq=False)

    def encode(self) -> bytes:
        """As a value of the table."""
        out = bytearray()
        for codec, value in ((TEXT, self.client_id), (TEXT, self.node), (U64, self.claim), (BOOL, self.clean)):
            codec.write(value, out)                      # type: ignore[arg-type]
        if self.life:
            U64.write(self.life, out)
        return bytes(out)

    @staticmethod
    def decode(value: bytes) -> SessionOwner:
        """Raises WireError."""
        reader = Reader(value, _NO_ADDRESSES)
        found = SessionOwner(TEXT.read(reader), TEXT.read(reader), U64.read(reader), BOOL.read(reader),
                             U64.read(reader) if reader.pos < reader.stop else 0)
        if reader.pos != reader.stop:
            raise WireError("an owner is followed by more")
        return found
