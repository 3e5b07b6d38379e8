"""What ENCRYPT sends: the header that tells other members which keys are held, and the text of a handshake frame."""
from __future__ import annotations

import struct
from typing import Final

import attrs

from jgroups_py import wire
from jgroups_py.model.batch import Header
from jgroups_py.model.errors import WireError
from jgroups_py.sealing.primitives import KEY_ID_BYTES, PUBLIC_BYTES

ENCRYPT_ID: Final = 26
CHALLENGE_BYTES: Final = 16
NONE: Final = bytes(CHALLENGE_BYTES)
EXCHANGE_BYTES: Final = 2 * PUBLIC_BYTES       # public keys of one exchange: of X25519, then of Ed25519
NO_KEYS: Final = bytes(EXCHANGE_BYTES)
MAX_CREDENTIAL_BYTES: Final = 16 << 10
_HANDSHAKE = struct.Struct(">16s16s16sQQQQ")
_TAIL = struct.Struct(f">{EXCHANGE_BYTES}sHH")
_KEY_ID = wire.fixed_bytes(KEY_ID_BYTES)


@wire.header(proto=ENCRYPT_ID, kind=1)
class KeysHeld(Header):
    """Ids of the keys with which the sender can open frames; the first one is its active key, with mode="view" the last
    one that of its view."""

    key_ids: tuple[bytes, ...] = wire.field(wire.sequence(_KEY_ID))


@attrs.frozen
class Handshake:
    """The text of a handshake frame.

    dest: the member that it is for; challenge: to be answered, NONE: no question; answer: to a challenge of `dest`,
    NONE: to none; multicasts, unicasts: the sender's next counters of these streams; recent_multicasts,
    recent_unicasts: those of some seconds ago (ciphers.RECENT_NS). With AUTH also keys: the sender's public keys of
    this exchange; credential, proof: in an answer, whose it is.
    """

    dest: bytes
    challenge: bytes = attrs.field(repr=False)
    answer: bytes = attrs.field(repr=False)
    multicasts: int
    unicasts: int
    recent_multicasts: int = 0
    recent_unicasts: int = 0
    keys: bytes = NO_KEYS
    credential: bytes = b""
    proof: bytes = attrs.field(default=b"", repr=False)

    def encode(self) -> bytes:
        """Its bytes."""
        fixed = _HANDSHAKE.pack(self.dest, self.challenge, self.answer, self.multicasts, self.unicasts,
                                self.recent_multicasts, self.recent_unicasts)
        if self.keys == NO_KEYS:
            return fixed
        return fixed + _TAIL.pack(self.keys, len(self.credential), len(self.proof)) + self.credential + self.proof


def decode_handshake(text: bytes) -> Handshake:
    """The text of an opened handshake frame.

    Raises:
        WireError: it has another length.
    """
    if len(text) == _HANDSHAKE.size:
        return Handshake(*_HANDSHAKE.unpack(text))
    if len(text) < _HANDSHAKE.size + _TAIL.size:
        raise WireError("a handshake frame has another length")
    keys, credential, proof = _TAIL.unpack_from(text, _HANDSHAKE.size)
    start = _HANDSHAKE.size + _TAIL.size
    if len(text) != start + credential + proof or credential > MAX_CREDENTIAL_BYTES or keys == NO_KEYS:
        raise WireError("a handshake frame has another length")
    fixed = Handshake(*_HANDSHAKE.unpack_from(text))
    return attrs.evolve(fixed, keys=keys, credential=text[start:start + credential], proof=text[start + credential:])
