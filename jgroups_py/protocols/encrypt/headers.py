"""What ENCRYPT sends: the header that tells other members which keys are held, and the text of a door frame."""
from __future__ import annotations

import struct
from typing import Final

import attrs

from jgroups_py import wire
from jgroups_py.model.batch import Header
from jgroups_py.model.errors import WireError
from jgroups_py.sealing.primitives import KEY_ID_BYTES

ENCRYPT_ID: Final = 26
CHALLENGE_BYTES: Final = 16
NONE: Final = bytes(CHALLENGE_BYTES)
_DOOR = struct.Struct(">16s16s16sQQ")
_KEY_ID = wire.fixed_bytes(KEY_ID_BYTES)


@wire.header(proto=ENCRYPT_ID, kind=1)
class KeysHeld(Header):
    """Ids of the keys with which the sender can open frames; the first one is its active key."""

    key_ids: tuple[bytes, ...] = wire.field(wire.sequence(_KEY_ID))


@attrs.frozen
class Door:
    """The text of a door frame. dest: the member that it is for; challenge: to be answered, NONE: no question; answer:
    to a challenge of `dest`, NONE: to none; multicasts, unicasts: the sender's next counters of these streams."""

    dest: bytes
    challenge: bytes = attrs.field(repr=False)
    answer: bytes = attrs.field(repr=False)
    multicasts: int
    unicasts: int

    def encode(self) -> bytes:
        """Its bytes."""
        return _DOOR.pack(self.dest, self.challenge, self.answer, self.multicasts, self.unicasts)


def decode_door(text: bytes) -> Door:
    """The text of an opened door frame.

    Raises:
        WireError: it has another length.
    """
    if len(text) != _DOOR.size:
        raise WireError("a door frame has another length")
    return Door(*_DOOR.unpack(text))
