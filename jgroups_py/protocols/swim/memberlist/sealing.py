"""memberlist's encryption: AES-GCM with a key that all members share.

    sealed:              u8 1, 12 bytes nonce, ciphertext, 16 bytes tag (0 in place of 1: the text is padded to 16s)
    sealed, in a stream: 10, u32 length of what follows, sealed as above; byte and length are authenticated too

A keyring has one key to seal with, and more to open with, so that a cluster can change its key member by member. With
keys all that is sent is sealed, and what is received unsealed is refused. A nonce must be unique, not secret: it is
drawn at random.
Source: memberlist's security.go.
"""
from __future__ import annotations

import binascii
import struct
from base64 import b64decode
from collections.abc import Callable
from typing import Any, Final

from jgroups_py.model.errors import ConfigError, WireError

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
except ImportError:                                          # `parse_keys` reports it where keys are given
    AESGCM = None                                            # type: ignore[assignment,misc]

KEY_BYTES: Final = (16, 24, 32)
PADDED, UNPADDED = 0, 1
NONCE_BYTES: Final = 12
TAG_BYTES: Final = 16
BLOCK_BYTES: Final = 16
SEAL_BYTES: Final = 1 + NONCE_BYTES + TAG_BYTES
_ENVELOPE = struct.Struct(">BI")
ENVELOPE_BYTES: Final = _ENVELOPE.size


class Key(bytes):
    """A key; its repr hides it from logs."""

    def __repr__(self) -> str:
        return f"<key of {len(self)} bytes>"


def parse_keys(value: Any) -> tuple[Key, ...]:
    """Keys in base64, separated by commas, as `serf keygen` writes them; or a sequence of bytes."""
    texts = [text.strip() for text in value.split(",") if text.strip()] if isinstance(value, str) else None
    try:
        keys = tuple(Key(b64decode(text, validate=True)) for text in texts) if texts is not None else \
            tuple(Key(item) for item in value)
    except (binascii.Error, ValueError, TypeError):
        raise ConfigError("a key is not in base64; `serf keygen` prints one") from None
    for key in keys:
        if len(key) not in KEY_BYTES:
            raise ConfigError(f"a key has {len(key)} bytes; allowed are 16, 24 or 32")
    if keys and AESGCM is None:
        raise ConfigError("encryption needs cryptography: pip install 'jgroups_py[memberlist]'")
    return keys


class Keyring:
    """keys: the first one seals, any opens. nonce: returns 12 bytes, different each time."""

    def __init__(self, keys: tuple[Key, ...], nonce: Callable[[], bytes]) -> None:
        assert keys, "without keys there is nothing to seal with"
        self._ciphers = [AESGCM(key) for key in keys]
        self._nonce = nonce

    def sealed(self, data: bytes, known: bytes = b"") -> bytes:
        """`data` encrypted with the first key; `known` is sent in the clear and authenticated with it."""
        nonce = self._nonce()
        return bytes((UNPADDED,)) + nonce + self._ciphers[0].encrypt(nonce, data, known)

    def opened(self, data: bytes, known: bytes = b"") -> bytes:
        """The sealed data, decrypted. Raises WireError: it is not sealed, or with none of the keys."""
        if len(data) < SEAL_BYTES or data[0] not in (PADDED, UNPADDED):
            raise WireError("not encrypted")
        nonce, text = data[1:1 + NONCE_BYTES], data[1 + NONCE_BYTES:]
        for cipher in self._ciphers:
            try:
                plain = cipher.decrypt(nonce, text, known)
            except InvalidTag:
                continue
            return plain if data[0] == UNPADDED else _without_padding(plain)
        raise WireError("encrypted with none of the keys of this member")

    def envelope(self, kind: int, data: bytes) -> bytes:
        """`data` sealed for a stream."""
        head = _ENVELOPE.pack(kind, len(data) + SEAL_BYTES)
        return head + self.sealed(data, head)


def envelope_length(head: bytes) -> int:
    """The number of sealed bytes after the head of an envelope."""
    return int(_ENVELOPE.unpack(head)[1])


def _without_padding(plain: bytes) -> bytes:
    if not plain or not 1 <= plain[-1] <= BLOCK_BYTES or len(plain) < plain[-1]:
        raise WireError("wrong padding")
    return plain[:-plain[-1]]
