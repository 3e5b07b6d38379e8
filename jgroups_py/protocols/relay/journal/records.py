"""Records of the journal: how held batches and the site table are written to disk, and read from damaged files.

A segment is a sequence of records, each with two checksums: one over its head, one over its body. A head that is cut
short or wrong ends the segment, since the start of the next record follows from it: that is what a crash in the middle
of a write leaves (a torn tail). A wrong body under a right head costs that record only. The first record of a segment
names its owner. Specified byte by byte in design/journal.md.

Times are those of the hold's clock, in ns (clock.py).
"""
from __future__ import annotations

import struct
from collections.abc import Iterator
from zlib import crc32

import attrs

from jgroups_py import wire
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.errors import WireError
from jgroups_py.protocols.relay.headers import NUMBERS, TABLE, Numbers, SiteRow

VERSION = 2
OWNER, BATCH, STATE, CLOCK = 1, 2, 3, 4                  # kinds of records
_HEAD = struct.Struct(">BII")                    # kind, length of the body, checksum of the body
_CHECK = struct.Struct(">I")                     # checksum of the head
HEAD_BYTES = _HEAD.size + _CHECK.size
_MAGIC = b"JGHOLD"
_OWNER = struct.Struct(">6sB")                   # magic, version
NAMES = wire.sequence(wire.TEXT)
_BATCH = struct.Struct(">16sQQB")                  # origin, first number, held since, whether one length serves all
_CLOCK = struct.Struct(">Q")


@attrs.frozen
class OwnerRecord:
    """The first record of a segment: its format, and the site to which it belongs."""

    version: int
    cluster: str
    site: str


@attrs.frozen(eq=False)
class BatchRecord:
    """Messages `first`, first + 1, ... of one origin; the batch is as in the hold."""

    origin: Address
    first: int
    since_ns: int
    batch: Batch


@attrs.frozen
class StateRecord:
    """The site table, and what goes with it.

    trimmed: origin -> number below which nothing is held any more. holders: logical names of the members that may hold
    what others do not: those of the last view, and those absent since an earlier crash.
    """

    table: tuple[SiteRow, ...]
    trimmed: Numbers
    holders: tuple[str, ...]


@attrs.frozen
class ClockRecord:
    """What the hold's clock showed when the record was written."""

    now_ns: int


@attrs.define
class JournalDamage:
    """Damage that was found on reading. cut_bytes: tails that could not be read; skipped: records with a wrong body."""

    cut_bytes: int = 0
    skipped: int = 0
    files: int = 0

    def add(self, other: JournalDamage) -> None:
        """Add the damage of another file."""
        self.cut_bytes += other.cut_bytes
        self.skipped += other.skipped
        self.files += bool(other.cut_bytes or other.skipped)


Record = OwnerRecord | BatchRecord | StateRecord | ClockRecord


# --- writing --------------------------------------------------------------------------------------------------------

def owner_record(cluster: str, site: str) -> bytes:
    """The first record of a segment."""
    out = bytearray(_OWNER.pack(_MAGIC, VERSION))
    wire.TEXT.write(cluster, out)
    wire.TEXT.write(site, out)
    return _record(OWNER, [out])


def batch_record(origin: Address, first: int, since_ns: int, batch: Batch) -> bytes:
    """A held batch. since_ns: by the hold's clock."""
    equal = batch.length >= 0
    head = bytearray(_BATCH.pack(origin.raw, first, max(0, since_ns), equal))
    wire.TEXT.write(origin.name, head)
    return _record(BATCH, [head, *wire.encode_body(batch, equal)])


def state_record(state: StateRecord) -> bytes:
    """The site table, what was trimmed, and the holders."""
    out = bytearray()
    TABLE.write(state.table, out)
    NUMBERS.write(state.trimmed, out)
    NAMES.write(state.holders, out)
    return _record(STATE, [out])


def clock_record(now_ns: int) -> bytes:
    """What the hold's clock shows."""
    return _record(CLOCK, [bytearray(_CLOCK.pack(now_ns))])


def _record(kind: int, parts: list[bytes | bytearray]) -> bytes:
    body = b"".join(parts)
    head = _HEAD.pack(kind, len(body), crc32(body))
    return b"".join((head, _CHECK.pack(crc32(head)), body))


# --- reading --------------------------------------------------------------------------------------------------------

def read_records(data: bytes, addresses: wire.Interner, damage: JournalDamage) -> Iterator[Record]:
    """All records that can be read; what cannot is added to `damage`."""
    at, stop = 0, len(data)
    while at < stop:
        body_at = at + HEAD_BYTES
        if body_at > stop:
            break
        kind, length, checksum = _HEAD.unpack_from(data, at)
        (head_checksum,) = _CHECK.unpack_from(data, at + _HEAD.size)
        if crc32(data[at:at + _HEAD.size]) != head_checksum or body_at + length > stop:
            break
        at = body_at + length
        record = _read_body(kind, wire.Reader(data, addresses, body_at, at), checksum)
        if record is None:
            damage.skipped += 1
        else:
            yield record
    damage.cut_bytes += stop - at


def _read_body(kind: int, reader: wire.Reader, checksum: int) -> Record | None:
    """A record; None if it is damaged or of an unknown kind."""
    body = memoryview(reader.data)[reader.pos:reader.stop]
    read = _READERS.get(kind)
    if read is None or crc32(body) != checksum:
        return None
    try:
        return read(reader)
    except WireError:
        return None


def _read_owner(reader: wire.Reader) -> OwnerRecord | None:
    magic, version = reader.unpack(_OWNER)
    return OwnerRecord(version, wire.TEXT.read(reader), wire.TEXT.read(reader)) if magic == _MAGIC else None


def _read_batch(reader: wire.Reader) -> BatchRecord:
    raw, first, since_ns, equal = reader.unpack(_BATCH)
    origin = reader.addresses.get(raw, wire.TEXT.read(reader))
    return BatchRecord(origin, first, since_ns, wire.decode_body(reader, origin, None, bool(equal)))


def _read_state(reader: wire.Reader) -> StateRecord:
    return StateRecord(TABLE.read(reader), NUMBERS.read(reader), NAMES.read(reader))


def _read_clock(reader: wire.Reader) -> ClockRecord:
    return ClockRecord(*reader.unpack(_CLOCK))


_READERS = {OWNER: _read_owner, BATCH: _read_batch, STATE: _read_state, CLOCK: _read_clock}
