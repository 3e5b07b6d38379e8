"""The exchange by which two senders find out that the other is alive and, with AUTH, whose it is.

Each challenges the other and answers; an answer has a credential and a proof, which AUTH makes (port Authenticator).
What is proven is a digest of all that the exchange depends on, in a fixed order: so a proof cannot be used with another
receiver, challenge, network or cluster, nor be sent back to its maker, and the keys that both sides learn are those of
the one that proved itself. Source: SIGMA (Krawczyk 2003), Noise XX.
"""
from __future__ import annotations

import struct

import attrs

from jgroups_py.model.address import PhysicalAddress
from jgroups_py.protocols.encrypt.headers import Handshake
from jgroups_py.sealing.primitives import digest

_FIXED = struct.Struct(">B8s32s32s16s64s64sQQQQH")


@attrs.frozen
class Side:
    """One side of an exchange. sender: address and salt; keys: its public keys for this exchange (headers.py)."""

    sender: bytes
    keys: bytes


def transcript(net: int, cluster: bytes, prover: Side, verifier: Side, handshake: Handshake) -> bytes:
    """What the prover proves by `handshake`, its answer: 32 bytes."""
    fixed = _FIXED.pack(net, cluster, prover.sender, verifier.sender, handshake.answer, prover.keys, verifier.keys,
                        handshake.multicasts, handshake.unicasts, handshake.recent_multicasts,
                        handshake.recent_unicasts, len(handshake.credential))
    return digest(b"jgroups_py handshake 2" + fixed + handshake.credential)


@attrs.define
class AddressChallenge:
    """A process was challenged of which only the address is known, not the salt."""

    challenge: bytes = attrs.field(repr=False)
    physical: PhysicalAddress
    asked_ns: int
