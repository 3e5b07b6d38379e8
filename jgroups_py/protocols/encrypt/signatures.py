"""Who speaks inside the group, in mode "view": which multicasts are signed or tagged, and the check of it.

A key of the view proves that a frame is of a member, not of which one. So what protocols multicast has a tag for each
other member, under the key that the two have alone. As long as a member has not proven itself, and with sign="each", it
is signed instead, with the key of Ed25519 that its sender showed when it proved who it is, at ten times the cost or
more. Multicasts of the application have tags with sign="pair", and signatures with "each". Unicasts are sealed under
the key of the two in any case.

The receiver decides by the text itself what kind a multicast is, so an insider cannot have a control message taken for
data. A *discovery multicast* is for processes outside the view too: of discovery, and of MERGE3. Source: MACs of Castro
and Liskov (1999).
"""
from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final

from jgroups_py.model.errors import WireError
from jgroups_py.protocols.encrypt.ciphers import Parts, nonce_of
from jgroups_py.protocols.encrypt.senders import SealedSender
from jgroups_py.sealing.primitives import (
    SIGNATURE_BYTES,
    TAG_BYTES,
    Cipher,
    SigningKey,
    derive,
    digest,
    same,
    verify,
)
from jgroups_py.wire.frame import MULTICAST

MOST_TAGS: Final = 32                    # with more receivers a signature is smaller, and is used instead
DISCOVERY_IDS: Final = (3, 4)            # wire ids of discovery and MERGE3
DATA_HEADER: Final = b"\0\x08\1"        # NAKACK's header of numbered messages: wire id and kind
_FIRST_HEADER: Final = 4                 # frame flags (1), flags of the batch (2), number of headers (1)


class Kind(enum.Enum):
    """What a text is."""

    DATA = "data"                        # numbered messages, or some of the application without headers
    CONTROL = "control"
    DISCOVERY = "discovery"
    UNICAST = "unicast"


def kind_of(text: bytes | bytearray) -> Kind:
    """The kind of a text in the form of `wire.encode_inner`, of which this is the first part at least."""
    if not text or not text[0] & MULTICAST:
        return Kind.UNICAST
    if len(text) < _FIRST_HEADER or not text[3] or text[_FIRST_HEADER:_FIRST_HEADER + 3] == DATA_HEADER:
        return Kind.DATA
    first = int.from_bytes(text[_FIRST_HEADER:_FIRST_HEADER + 2], "big")
    return Kind.DISCOVERY if first in DISCOVERY_IDS else Kind.CONTROL


def signed(signer: SigningKey, head: bytes, parts: Parts) -> bytes:
    """The text of a frame with its signature behind it."""
    return b"".join([*parts, signer.sign(b"jgroups_py frame" + digest(head, *parts))])


def end_before_signature(sender: SealedSender, head: bytes, text: bytes) -> int:
    """Where a text ends that has a signature behind it.

    Raises:
        WireError: it is not the sender's.
    """
    signature, signed_text = text[-SIGNATURE_BYTES:], memoryview(text)[:-SIGNATURE_BYTES]
    verify(sender.signing, signature, b"jgroups_py frame" + digest(head, signed_text))
    return len(signed_text)


def tag_cipher(secret: bytes, sender: bytes) -> Cipher:
    """What makes the tags of one of two senders that share a secret. sender: address and salt."""
    return Cipher(derive(secret, b"jgroups_py tag 2" + sender))


def tagged(ciphers: Sequence[Cipher | None], stream: int, counter: int, head: bytes, parts: Parts) -> bytearray:
    """The text of a frame with a tag for each receiver behind it; zeros where there is no cipher: that receiver has yet
    to prove itself. The text is copied once, whatever stands behind it."""
    text = bytearray().join([*parts, bytes(TAG_BYTES * len(ciphers))])
    at, nonce = len(text) - TAG_BYTES * len(ciphers), nonce_of(stream, counter)
    with memoryview(text) as whole, whole[:at] as authenticated:
        for cipher in ciphers:
            if cipher is not None:
                whole[at:at + TAG_BYTES] = cipher.mac(nonce, head, authenticated)
            at += TAG_BYTES
    return text


def end_before_tags(
    cipher: Cipher, stream: int, counter: int, head: bytes, text: bytes, number: int, mine: int,
) -> int:
    """Where a text ends that has tags behind it. number: how many there are; mine: which one is this member's.

    Raises:
        WireError: that one is not the sender's.
    """
    end = len(text) - number * TAG_BYTES
    at = end + mine * TAG_BYTES
    if end < 0 or not same(text[at:at + TAG_BYTES],
                           cipher.mac(nonce_of(stream, counter), head, memoryview(text)[:end])):
        raise WireError("its tag is not of its sender")
    return end
