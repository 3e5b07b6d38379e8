"""Records of the journal: how held batches and the site table are written to disk, and read from damaged files.

A segment is a sequence of records, each with two checksums: one over its head, one over its body. A head that is cut
short or wrong ends the segment, since the start of the next record follows from it: that is what a crash in the middle
of a write leaves (a torn tail). A wrong body under a right head costs that record only. The first record of a segment
names its owner. Specified byte by byte in design/journal.md.

In a sealed segment (`hold_keyring`) the first record names the key, and each further one has its kind and body sealed
under it. The checksums are then those of what is on disk, so torn and damaged files are read as others are.

Times are those of the hold's clock, in ns (clock.py).
"""
from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple
from zlib import crc32

import attrs

from jgroups_py import wire
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.errors import WireError
from jgroups_py.protocols.relay.headers import NUMBERS, TABLE, Numbers, SiteRow
from jgroups_py.sealing.files import FileCipher, is_preamble

VERSION = 2
OWNER, BATCH, STATE, CLOCK = 1, 2, 3, 4                  # kinds of records
SEAL, SEALED = 5, 6                                      # the key of a sealed segment; any other record in it
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
    """Damage that was found on reading. cut_bytes: tails that could not be read; skipped: records with a wrong body;
    unopened: those of them whose checksum is right, and which their key does not open; places: where in the file."""

    cut_bytes: int = 0
    skipped: int = 0
    files: int = 0
    unopened: int = 0
    places: list[int] = attrs.Factory(list)

    def add(self, other: JournalDamage) -> None:
        """Add the damage of another file."""
        self.cut_bytes += other.cut_bytes
        self.skipped += other.skipped
        self.unopened += other.unopened
        self.files += bool(other.cut_bytes or other.skipped)


Record = OwnerRecord | BatchRecord | StateRecord | ClockRecord


# --- writing --------------------------------------------------------------------------------------------------------

class Written(NamedTuple):
    """A record that is to be written."""

    kind: int
    body: bytes

    def __bytes__(self) -> bytes:
        """As it stands on disk in a segment that is not sealed."""
        head = _HEAD.pack(self.kind, len(self.body), crc32(self.body))
        return b"".join((head, _CHECK.pack(crc32(head)), self.body))

    def sealed(self, cipher: FileCipher, at: int) -> bytes:
        """As it stands at offset `at` of a sealed segment."""
        text = b"".join((self.kind.to_bytes(1, "big"), self.body))
        return bytes(Written(SEALED, cipher.seal(at, text, b"")))


def owner_record(cluster: str, site: str) -> Written:
    """The first record of a segment, in a sealed one the second."""
    out = bytearray(_OWNER.pack(_MAGIC, VERSION))
    wire.TEXT.write(cluster, out)
    wire.TEXT.write(site, out)
    return Written(OWNER, bytes(out))


def batch_record(origin: Address, first: int, since_ns: int, batch: Batch) -> Written:
    """A held batch. since_ns: by the hold's clock."""
    equal = batch.length >= 0
    head = bytearray(_BATCH.pack(origin.raw, first, max(0, since_ns), equal))
    wire.TEXT.write(origin.name, head)
    return Written(BATCH, b"".join((head, *wire.encode_body(batch, equal))))


def state_record(state: StateRecord) -> Written:
    """The site table, what was trimmed, and the holders."""
    out = bytearray()
    TABLE.write(state.table, out)
    NUMBERS.write(state.trimmed, out)
    NAMES.write(state.holders, out)
    return Written(STATE, bytes(out))


def clock_record(now_ns: int) -> Written:
    """What the hold's clock shows."""
    return Written(CLOCK, _CLOCK.pack(now_ns))


# --- reading --------------------------------------------------------------------------------------------------------

class FoundRecord(NamedTuple):
    """A record with a whole head, as it stands on disk. at: where it begins; checksum: of its body, by its head."""

    kind: int
    at: int
    body_at: int
    stop: int
    checksum: int


def heads(data: bytes) -> Iterator[FoundRecord]:
    """All records up to the torn tail."""
    at, stop = 0, len(data)
    while at + HEAD_BYTES <= stop:
        body_at = at + HEAD_BYTES
        kind, length, checksum = _HEAD.unpack_from(data, at)
        (head_checksum,) = _CHECK.unpack_from(data, at + _HEAD.size)
        if crc32(data[at:at + _HEAD.size]) != head_checksum or body_at + length > stop:
            return
        yield FoundRecord(kind, at, body_at, body_at + length, checksum)
        at = body_at + length


def seal_of(data: bytes) -> bytes | None:
    """The preamble of a sealed segment; b"" if its first record is not whole, None if that is of another kind."""
    first = next(heads(data), None)
    if first is None or (first.kind == SEAL and crc32(data[first.body_at:first.stop]) != first.checksum):
        return b""
    body = data[first.body_at:first.stop]
    return body if first.kind == SEAL and is_preamble(body) else None


def read_records(
    data: bytes, addresses: wire.Interner, damage: JournalDamage, cipher: FileCipher | None = None,
) -> Iterator[Record]:
    """All records that can be read; what cannot is added to `damage`. cipher: of a sealed segment, in which no record
    is believed that it does not open."""
    stop = 0
    for found in heads(data):
        stop = found.stop
        if cipher is not None and found.kind == SEAL and found.at == 0:
            continue
        record = _read_whole(data, found, addresses, damage, cipher)
        if record is None:
            damage.skipped += 1
            damage.places.append(found.at)
        else:
            yield record
    if stop < len(data):
        damage.places.append(stop)
    damage.cut_bytes += len(data) - stop


def _read_whole(
    data: bytes, found: FoundRecord, addresses: wire.Interner, damage: JournalDamage, cipher: FileCipher | None,
) -> Record | None:
    """A record; None if it is damaged, not opened, or of an unknown kind."""
    body = memoryview(data)[found.body_at:found.stop]
    if crc32(body) != found.checksum:
        return None
    kind, reader = found.kind, wire.Reader(data, addresses, found.body_at, found.stop)
    if cipher is not None:
        try:
            text = cipher.open(found.at, body if kind == SEALED else b"", b"")
        except WireError:
            damage.unopened += 1
            return None
        kind, reader = text[0] if text else 0, wire.Reader(text, addresses, 1, len(text))
    read = _READERS.get(kind)
    try:
        return None if read is None else read(reader)
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
