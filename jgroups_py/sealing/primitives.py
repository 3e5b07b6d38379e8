"""The primitives of cryptography that sealed frames use: AES-256-GCM, HKDF-SHA256, and the id of a key.

All are those of the library `cryptography` (extra `security`); nothing is written by hand. Its exceptions end here:
what cannot be opened is a WireError. No function draws random bytes. Sources: NIST SP 800-38D (GCM), RFC 5869 (HKDF).
"""
from __future__ import annotations

from typing import Final

from jgroups_py.model.errors import ConfigError, WireError

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
except ImportError:                                          # `require_library` reports it where keys are needed
    AESGCM = None                                            # type: ignore[assignment,misc]

KEY_BYTES: Final = 32                    # AES-256
NONCE_BYTES: Final = 12
TAG_BYTES: Final = 16
KEY_ID_BYTES: Final = 8
NOT_OPENED: Final = "not opened"


def require_library(what: str) -> None:
    """Check that the library is installed.

    Raises:
        ConfigError: it is not; `what` needs it.
    """
    if AESGCM is None:
        raise ConfigError(f"{what} needs cryptography: pip install 'jgroups_py[security]'")


def derive(secret: bytes, info: bytes, length: int = KEY_BYTES, salt: bytes = b"") -> bytes:
    """HKDF-SHA256: `length` bytes (8160 at most) that follow from the secret and are independent for each `info`."""
    return HKDF(SHA256(), length, salt or None, info).derive(secret)


def key_id(secret: bytes) -> bytes:
    """The id of a key, KEY_ID_BYTES long. It follows from the key, so one id cannot name two keys, and tells nothing
    of it."""
    return derive(secret, b"jgroups_py key id", KEY_ID_BYTES)


class Cipher:
    """AES-256-GCM with one key. A nonce must never be used twice with one key: the caller counts."""

    __slots__ = ("_decrypt", "_encrypt")

    def __init__(self, key: bytes) -> None:
        assert len(key) == KEY_BYTES, "AES-256 takes 32 bytes"
        aead = AESGCM(key)
        self._encrypt, self._decrypt = aead.encrypt, aead.decrypt

    def __repr__(self) -> str:
        return "<Cipher>"

    def seal(self, nonce: bytes, text: bytes, clear: bytes) -> bytes:
        """The text encrypted, TAG_BYTES longer; `clear` is authenticated with it, and not contained."""
        return self._encrypt(nonce, text, clear)

    def open(self, nonce: bytes, sealed: bytes | memoryview, clear: bytes) -> bytes:
        """The text of what `seal` made with the same key, nonce and `clear`.

        Raises:
            WireError: it was made otherwise.
        """
        try:
            return self._decrypt(nonce, sealed, clear)
        except (InvalidTag, ValueError):
            raise WireError(NOT_OPENED) from None
