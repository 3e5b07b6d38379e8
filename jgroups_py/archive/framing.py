"""The records of an open segment: a head with length, checksums and row numbers, and a body.

A file begins with a record whose body is JSON and names the recorder; every other body is one Arrow record batch of
lines (schema.LINES). A head that is incomplete or has a wrong checksum, or a body that is longer than the file, is the
torn tail of a crash, or of a write that is under way: nothing from there on counts. A wrong body after a correct head
is damage: the head gives the numbers of its rows, which are reported missing. The bytes are specified in
design/archive.md.
"""
from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any
from zlib import crc32

import attrs

OWNER, BATCH, SEAL = 1, 2, 3                     # kinds of records; SEAL: the preamble of an encrypted file
_HEAD = struct.Struct(">2sBBIIIQ")               # magic, version, kind, the body's bytes and checksum, rows, first row
_CHECK = struct.Struct(">I")                     # checksum of the head
_CLEAR = struct.Struct(">BIQ")                   # kind, rows, first row
HEAD_BYTES = _HEAD.size + _CHECK.size + 4        # and four zeros: Arrow needs bodies at multiples of 8
MAGIC, VERSION = b"JA", 1
ALIGNMENT = 8


@attrs.frozen
class Head:
    """The head of a record. first: its first row; at, stop: where its body is in the file."""

    kind: int
    checksum: int
    rows: int
    first: int
    at: int
    stop: int

    @property
    def clear(self) -> bytes:
        """What of it is authenticated with the body where that is sealed."""
        return clear_head(self.kind, self.rows, self.first)


def clear_head(kind: int, rows: int, first: int) -> bytes:
    """The fields of a head that are authenticated with a sealed body."""
    return _CLEAR.pack(kind, rows, first)


def owner_body(owner: dict[str, Any]) -> bytes:
    """The body of the record that names a segment's recorder."""
    body = json.dumps(owner).encode()
    return body + b" " * (-len(body) % ALIGNMENT)


def owner_record(owner: dict[str, Any], first: int) -> bytes:
    """The first record of a segment, which names its recorder. first: the segment's first row."""
    return b"".join(record(OWNER, owner_body(owner), 0, first))


def record(kind: int, body: Any, rows: int, first: int) -> list[Any]:
    """A record as buffers for a gathering write."""
    view = memoryview(body)
    assert view.nbytes % ALIGNMENT == 0, "bodies keep the alignment"
    head = _HEAD.pack(MAGIC, VERSION, kind, view.nbytes, crc32(view), rows, first)
    return [head + _CHECK.pack(crc32(head)) + bytes(4), view]


def heads(data: Any, at: int = 0) -> Iterator[Head]:
    """The heads of the complete records from `at` on, without the torn tail. data: bytes, or a mapped file."""
    view = memoryview(data)
    while at + HEAD_BYTES <= len(view):
        head = view[at:at + _HEAD.size]
        magic, version, kind, nbytes, checksum, rows, first = _HEAD.unpack(head)
        (head_checksum,) = _CHECK.unpack_from(view, at + _HEAD.size)
        body = at + HEAD_BYTES
        if (magic, version) != (MAGIC, VERSION) or crc32(head) != head_checksum or body + nbytes > len(view):
            return
        at = body + nbytes
        yield Head(kind, checksum, rows, first, body, at)


def is_whole(data: Any, head: Head) -> bool:
    """Whether the body has the checksum that its head gives."""
    return crc32(memoryview(data)[head.at:head.stop]) == head.checksum
