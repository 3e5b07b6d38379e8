"""Files at rest: the preamble of a sealed file, and the cipher of its records.

Each file has its own key, derived (HKDF-SHA256) from a key of a keyring, from 32 random bytes that are drawn for the
file and stored in its preamble, and from the place of the file: a copy at another place does not open. A nonce is the
offset of a record in its file. So no nonce is used twice with one key:

* after a crash in the middle of a record: a process never continues the file of another one, it begins a new file;
* after a write that failed: the writer gives the file up, and begins a new one;
* with a folder that was copied, restored or cloned, even if clocks went back: new files draw new bytes, and nothing
  depends on a time, a name or a stored number;
* in the child of a fork: it begins a new file (`Secrets.forks`).

The preamble, 48 bytes: "JGSEAL", version 1, a zero, the key's id (8 bytes), the random bytes (32).
"""
from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from jgroups_py.model.errors import ConfigError
from jgroups_py.sealing.keyring import GroupKey
from jgroups_py.sealing.primitives import KEY_ID_BYTES, TAG_BYTES, Cipher, derive

MAGIC: Final = b"JGSEAL"
VERSION: Final = 1
SALT_BYTES: Final = 32
_PREAMBLE: Final = struct.Struct(f">6sBx{KEY_ID_BYTES}s{SALT_BYTES}s")
PREAMBLE_BYTES: Final = _PREAMBLE.size
SEAL_BYTES: Final = TAG_BYTES                    # that sealing adds to a text
_NONCE: Final = struct.Struct(">IQ")


def preamble(key: GroupKey, salt: bytes) -> bytes:
    """The beginning of a new file. salt: SALT_BYTES that were drawn for it."""
    assert len(salt) == SALT_BYTES, "a file's key needs random bytes of its own"
    return _PREAMBLE.pack(MAGIC, VERSION, key.id, salt)


def is_preamble(data: bytes | memoryview) -> bool:
    """Whether a file that begins with these bytes is sealed, in this version or a later one."""
    return bytes(data[:len(MAGIC)]) == MAGIC


def key_of(head: bytes, keys: Mapping[bytes, GroupKey], file: str, keyring: str) -> GroupKey:
    """The key that a preamble names. keys: by id, those that may open; file, keyring: their names, for errors.

    Raises:
        ConfigError: the keyring does not have it, or the file is of a later version.
    """
    if len(head) != PREAMBLE_BYTES or not is_preamble(head) or head[len(MAGIC)] != VERSION:
        raise ConfigError(f"{file}: encrypted in a format that this program does not know")
    found: bytes = _PREAMBLE.unpack(head)[2]
    if found not in keys:
        known = ", ".join(key.name for key in keys.values())
        raise ConfigError(f"{file}: encrypted with key {found.hex()}, which is not in the keyring {keyring}, or is "
                          f"retired there; it has {known}")
    return keys[found]


class FileCipher:
    """The cipher of one file.

    place: what the file is for. A file that was written for another place does not open.
    """

    __slots__ = ("_cipher",)

    def __init__(self, key: GroupKey, head: bytes, place: bytes) -> None:
        self._cipher = Cipher(derive(key.secret, b"jgroups_py file\0" + place, salt=head))

    def __repr__(self) -> str:
        return "<FileCipher>"

    def seal(self, at: int, text: bytes, clear: bytes, last: bool = False) -> bytes:
        """A text sealed, SEAL_BYTES longer. at: its offset in the file, which no other text of the file has; clear: is
        authenticated with it; last: nothing follows it in this file."""
        return self._cipher.seal(_NONCE.pack(last, at), text, clear)

    def open(self, at: int, sealed: bytes | memoryview, clear: bytes, last: bool = False) -> bytes:
        """The text.

        Raises:
            WireError: it was sealed for another place or offset, with another key, or is damaged.
        """
        return self._cipher.open(_NONCE.pack(last, at), sealed, clear)
