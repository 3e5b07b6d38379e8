"""The primitives of cryptography: AES-256-GCM, HKDF-SHA256, HMAC-SHA256, Ed25519, X25519, and the id of a key.

All are those of the library `cryptography` (extra `security`); nothing is written by hand. Its exceptions end here:
what cannot be opened or verified is a WireError. No function draws random bytes. Sources: NIST SP 800-38D (GCM), RFC
5869 (HKDF), RFC 2104 (HMAC), RFC 8032 (Ed25519), RFC 7748 (X25519).
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jgroups_py.model.errors import ConfigError, WireError

try:
    from cryptography.exceptions import InvalidSignature, InvalidTag
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.constant_time import bytes_eq
    from cryptography.hazmat.primitives.hashes import SHA256, Hash
    from cryptography.hazmat.primitives.hmac import HMAC
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )
except ImportError:                                          # `require_library` reports it where keys are needed
    AESGCM = None                                            # type: ignore[assignment,misc]

KEY_BYTES: Final = 32                    # AES-256
NONCE_BYTES: Final = 12
TAG_BYTES: Final = 16
KEY_ID_BYTES: Final = 8
PUBLIC_BYTES: Final = 32                 # a public key of Ed25519 or X25519
SIGNATURE_BYTES: Final = 64
MAC_BYTES: Final = 32
NOT_OPENED: Final = "not opened"
NOT_VERIFIED: Final = "not verified"


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
    """The id of a key, KEY_ID_BYTES long. It is derived from the key, so one id cannot name two keys, and does not
    reveal the key."""
    return derive(secret, b"jgroups_py key id", KEY_ID_BYTES)


class Cipher:
    """AES-256-GCM with one key. A nonce must never be used twice with one key: the caller counts.

    seal(nonce, text, clear): the text encrypted, TAG_BYTES longer; `clear` is authenticated with it, and not contained.
    It is the library's own function, as a call in between takes a tenth of the time of a small frame.
    """

    __slots__ = ("_decrypt", "seal")

    def __init__(self, key: bytes) -> None:
        assert len(key) == KEY_BYTES, "AES-256 takes 32 bytes"
        aead = AESGCM(key)
        self.seal: Callable[[bytes, bytes | bytearray, bytes | memoryview], bytes] = aead.encrypt
        self._decrypt = aead.decrypt

    def __repr__(self) -> str:
        return "<Cipher>"

    def open(self, nonce: bytes, sealed: bytes | memoryview, clear: bytes) -> bytes:
        """The text of what `seal` made with the same key, nonce and `clear`.

        Raises:
            WireError: it was made otherwise.
        """
        try:
            return self._decrypt(nonce, sealed, clear)
        except (InvalidTag, ValueError):
            raise WireError(NOT_OPENED) from None

    def mac(self, nonce: bytes, head: bytes, text: bytes | memoryview) -> bytes:
        """A tag of both, TAG_BYTES long: that of GCM for `head` as what is encrypted and `text` as what is
        authenticated with it, so that a large text is not copied to stand behind its head. It is not
        truncated: a short tag reveals some of the key with each forgery that succeeds."""
        return self.seal(nonce, head, text)[-TAG_BYTES:]


def digest(*texts: bytes | bytearray | memoryview) -> bytes:
    """SHA-256 of the texts as one."""
    made = Hash(SHA256())
    for text in texts:
        made.update(text)
    return made.finalize()


def mac(key: bytes, text: bytes) -> bytes:
    """HMAC-SHA256, MAC_BYTES long."""
    made = HMAC(key, SHA256())
    made.update(text)
    return made.finalize()


def same(one: bytes, other: bytes) -> bool:
    """Whether two secrets are equal, in a time that does not depend on where they differ."""
    return bytes_eq(one, other)


class SigningKey:
    """A private key of Ed25519. public: its public key, PUBLIC_BYTES long; not shown."""

    __slots__ = ("_key", "public")

    def __init__(self, seed: bytes) -> None:
        """seed: the 32 bytes that are the private key."""
        assert len(seed) == KEY_BYTES, "Ed25519 takes 32 bytes"
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self.public = self._key.public_key().public_bytes_raw()

    def __repr__(self) -> str:
        return "<SigningKey>"

    def sign(self, text: bytes) -> bytes:
        """The signature of a text, SIGNATURE_BYTES long."""
        return self._key.sign(text)

    def pem(self) -> str:
        """PKCS #8, not encrypted. This is secret."""
        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def signing_key_of(pem: bytes) -> SigningKey | None:
    """The Ed25519 key in a PEM text; None: there is none in it."""
    try:
        key = load_pem_private_key(pem, None)
    except (ValueError, TypeError):
        return None
    return SigningKey(key.private_bytes_raw()) if isinstance(key, Ed25519PrivateKey) else None


def verify(public: bytes, signature: bytes, text: bytes) -> None:
    """Check a signature of Ed25519.

    Raises:
        WireError: it is of another key or text, or `public` is no key.
    """
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, text)
    except (InvalidSignature, ValueError):
        raise WireError(NOT_VERIFIED) from None


class AgreementKey:
    """A private key of X25519. public: its public key, PUBLIC_BYTES long; not shown."""

    __slots__ = ("_key", "public")

    def __init__(self, seed: bytes) -> None:
        """seed: the 32 bytes that are the private key."""
        self._key = X25519PrivateKey.from_private_bytes(seed)
        self.public = self._key.public_key().public_bytes_raw()

    def __repr__(self) -> str:
        return "<AgreementKey>"

    def agree(self, public: bytes) -> bytes:
        """32 bytes that only the holders of the two private keys know.

        Raises:
            WireError: `public` is no key, or one of low order, for which the result would be known to all.
        """
        try:
            return self._key.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError:
            raise WireError(NOT_VERIFIED) from None
