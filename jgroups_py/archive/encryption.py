"""Encrypted archives: the keys of an archive, and sealed Parquet files that are read in any order.

A segment that is encrypted has a name that ends with `.aes`. A sealed one is a preamble (sealing/files.py) and the
Parquet file in pieces of PIECE bytes, each with a tag of its own, so that columns can be read alone; the last one is
marked, so that a file that was cut off does not open. A file opens only in the folder of its recorder and under its own
rows. In an open segment each body is sealed (segment.py, sealing.py).

Only the path of a keyring is passed on, also to Spark's workers: each process reads the file itself.
"""
from __future__ import annotations

import io
import logging
import os
from pathlib import Path
from typing import Any, BinaryIO, Final

import attrs

from jgroups_py.archive.layout import ArchiveSegment, RecorderId
from jgroups_py.model.errors import ConfigError, WireError
from jgroups_py.sealing.files import (
    PREAMBLE_BYTES,
    SALT_BYTES,
    SEAL_BYTES,
    FileCipher,
    key_of,
    preamble,
)
from jgroups_py.sealing.keyring import GroupKey, GroupKeyring
from jgroups_py.sealing.primitives import require_library
from jgroups_py.system.secrets import SECRETS, Stamp, read_keyring, stamp_of

log = logging.getLogger("jgroups_py")

PIECE: Final = 64 << 10
SEALED_PIECE: Final = PIECE + SEAL_BYTES
_read: dict[str, tuple[Stamp, GroupKeyring]] = {}            # path -> the keyring as it was read last


class NotOpenedError(OSError):
    """A part of an encrypted file does not open: it is damaged, was changed, cut off or moved."""


@attrs.frozen
class ArchiveKeys:
    """The keyring of an archive, by its path; it is read when it is needed, and again when it has changed.

    Raises:
        ConfigError: `cryptography` is not installed.
    """

    path: str

    def __attrs_post_init__(self) -> None:
        require_library("an encrypted archive")

    def keyring(self) -> GroupKeyring:
        """The keys that are in the file now; if it cannot be read any more, those that were in it before.

        Raises:
            ConfigError: there is no such file, other users may read it, or it is malformed.
        """
        known = _read.get(self.path)
        if known is None or stamp_of(Path(self.path)) != known[0]:
            try:
                keyring, stamp = read_keyring(Path(self.path))
            except ConfigError as error:
                if known is None:
                    raise
                log.error("the archive goes on with its former keys: %s", error)
                return known[1]
            known = _read[self.path] = stamp, keyring
        return known[1]

    def new_file(self, place: bytes) -> tuple[bytes, FileCipher]:
        """The preamble of a new file, and its cipher."""
        key = self.keyring().active
        head = preamble(key, SECRETS.draw(SALT_BYTES))
        return head, FileCipher(key, head, place)

    def key_of(self, head: bytes, path: Path) -> GroupKey:
        """The key that a file's preamble names.

        Raises:
            ConfigError: the keyring does not have it.
        """
        return key_of(head, self.keyring().usable(), str(path), self.path)


def keys_of(path: str | Path | None) -> ArchiveKeys | None:
    """The keys in a file; None or empty: the archive is not encrypted.

    Raises:
        ConfigError: the file cannot be used.
    """
    if not path:
        return None
    keys = ArchiveKeys(str(Path(path).expanduser().absolute()))
    _read.pop(keys.path, None)                               # its mode may have changed, which a stamp does not show
    keys.keyring()
    return keys


def place_of(recorder: RecorderId, first: int, stop: int | None) -> bytes:
    """What a segment's file is for. stop: None for an open one."""
    return f"archive\0{recorder.folder}\0{first}\0{'' if stop is None else stop}".encode()


def keys_for(segment: ArchiveSegment) -> ArchiveKeys | None:
    """The keys with which a segment is read.

    Raises:
        ConfigError: it is encrypted and no keys were given, or it is not and they were: it may be forged.
    """
    keys: ArchiveKeys | None = segment.keys
    if segment.encrypted and keys is None:
        raise ConfigError(f"{segment.path}: encrypted; give the keyring with its key (--key-file)")
    if not segment.encrypted and keys is not None:
        raise ConfigError(f"{segment.path}: not encrypted, so it is not believed while keys are given; if it was "
                          "recorded before archive_keyring was set: jgroups archive encrypt")
    return keys


def parquet_of(segment: ArchiveSegment) -> Any:
    """A sealed segment, as pyarrow takes it.

    Raises:
        ConfigError: as `keys_for`, or the key is missing.
    """
    keys = keys_for(segment)
    if keys is None:
        return segment.path
    return Opened(segment.path, keys, place_of(segment.recorder, segment.first, segment.stop))


def check_key(segment: ArchiveSegment) -> None:
    """Whether a segment can be read, by its first bytes.

    Raises:
        ConfigError: as `parquet_of`.
    """
    keys = keys_for(segment)
    if keys is not None and segment.sealed:
        with segment.path.open("rb") as file:
            keys.key_of(file.read(PREAMBLE_BYTES), segment.path)


class Sealing(io.RawIOBase):
    """Seals what is written to it, in pieces, to a file that stays open."""

    def __init__(self, file: BinaryIO, keys: ArchiveKeys, place: bytes) -> None:
        super().__init__()
        self._file = file
        head, self._cipher = keys.new_file(place)
        self._at = 0                                         # of the piece that is gathered
        self._piece = bytearray()
        file.write(head)

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at + len(self._piece)

    def write(self, data: Any, /) -> int:
        self._piece += data
        while len(self._piece) > PIECE:                      # so that something is left for the last one
            self._put(bytes(self._piece[:PIECE]), last=False)
            del self._piece[:PIECE]
        return memoryview(data).nbytes

    def _put(self, text: bytes, *, last: bool) -> None:
        self._file.write(self._cipher.seal(self._at, text, b"", last))
        self._at += len(text)

    def finish(self) -> None:
        """Write the last piece. A file without it does not open."""
        self._put(bytes(self._piece), last=True)
        self._piece.clear()


class Opened(io.RawIOBase):
    """A sealed file, opened piece by piece where it is read.

    Raises:
        ConfigError: its key is missing.
        NotOpenedError: its last piece does not open; reading raises it for any other piece.
    """

    def __init__(self, path: Path, keys: ArchiveKeys, place: bytes) -> None:
        super().__init__()
        self._path = path
        self._file = path.open("rb", buffering=0)
        try:
            head = self._file.read(PREAMBLE_BYTES) or b""
            self._cipher = FileCipher(keys.key_of(head, path), head, place)
            nbytes = os.fstat(self._file.fileno()).st_size - PREAMBLE_BYTES
            self._last = max(0, (nbytes - 1) // SEALED_PIECE)
            self._number, self._text = -1, b""
            self._size = self._last * PIECE + len(self._piece(self._last))
        except BaseException:
            self._file.close()
            raise
        self._at = 0

    def _piece(self, number: int) -> bytes:
        """The text of a piece; the last one that was read is kept."""
        if number != self._number:
            at = PREAMBLE_BYTES + number * SEALED_PIECE
            sealed = os.pread(self._file.fileno(), SEALED_PIECE, at)
            try:
                text = self._cipher.open(number * PIECE, sealed, b"", number == self._last)
            except WireError:
                raise NotOpenedError(f"{self._path}: bytes {at} to {at + len(sealed)} do not open: damaged, changed, "
                                     "cut off or moved") from None
            self._number, self._text = number, text
        return self._text

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def size(self) -> int:
        """The length of the text in bytes."""
        return self._size

    def read(self, size: int | None = -1, /) -> bytes:
        stop = self._size if size is None or size < 0 else min(self._size, self._at + size)
        parts = []
        while self._at < stop:
            number, start = divmod(self._at, PIECE)
            part = self._piece(number)[start:start + stop - self._at]
            parts.append(part)
            self._at += len(part)
        return b"".join(parts)

    def close(self) -> None:
        self._file.close()
        super().close()
