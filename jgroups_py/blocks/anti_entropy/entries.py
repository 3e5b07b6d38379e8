"""Entries of a keyed state, their versions, and which of two entries wins.

A version is (stamp, writer), compared in this order; the higher one wins (last writer wins). The stamp comes from a
hybrid logical clock: the writer's clock, but always above any stamp it has received. So a write wins over those that
had arrived at its writer, concurrent writes are ordered by their clocks, and of two with equal stamps the writer with
the higher address wins: equally at all members, in any order of arrival.
Source: Kulkarni et al., "Logical Physical Clocks" (2014), with clock and counter in one number.
"""
from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import attrs

from jgroups_py import wire
from jgroups_py.model.address import Address
from jgroups_py.model.errors import WireError

MARK_BYTES = 16
MAX_STAMP = (1 << 63) - 1


@attrs.frozen(order=True)
class Version:
    """The stamp of a write, and its writer."""

    stamp: int
    writer: Address


@attrs.frozen
class Entry:
    """The value of a key. None: the mark of a deletion, which rejects older entries of the key."""

    key: bytes
    version: Version
    value: bytes | None

    def wins_over(self, other: Entry | None) -> bool:
        """Whether this entry replaces the other. Of equal versions, the same write, the deletion mark wins."""
        return other is None or (self.version, self.value is None) > (other.version, other.value is None)

    @property
    def mark(self) -> bytes:
        """A hash of the whole entry; deletions are in no tree."""
        assert self.value is not None, "a deletion is not in the tree"
        hashed = blake2b(digest_size=MARK_BYTES)
        for part in (self.key, self.value):
            hashed.update(len(part).to_bytes(8, "big"))
            hashed.update(part)
        hashed.update(self.version.stamp.to_bytes(8, "big") + self.version.writer.raw)
        return hashed.digest()

    @property
    def nbytes(self) -> int:
        """Its approximate size in a message."""
        return len(self.key) + len(self.value or b"") + 40


class HybridClock:
    """Generates stamps above all received and generated before, as close to the clock as possible.

    max_ahead: entries stamped further ahead of this clock are refused (0: none are), since all members would have to
    use stamps in the future from then on.
    """

    def __init__(self, max_ahead: int = 0) -> None:
        self.last = 0
        self.max_ahead = max_ahead

    def stamp(self, wall: int) -> int:
        """The stamp of a write at this time of day."""
        self.last = max(self.last + 1, wall)
        return self.last

    def observe(self, stamp: int, wall: int) -> bool:
        """Observe another writer's stamp; False: its entry must be refused."""
        if stamp >= MAX_STAMP or (self.max_ahead and stamp > wall + self.max_ahead):
            return False
        self.last = max(self.last, stamp)
        return True


# --- on the wire ----------------------------------------------------------------------------------------------------

_ENTRY = wire.record(wire.BYTES, wire.U64, wire.ADDRESS, wire.optional(wire.BYTES))
_HELD = wire.record(wire.BYTES, wire.U64, wire.ADDRESS)
_ENTRIES = wire.sequence(_ENTRY)
_HELDS = wire.sequence(_HELD)

Held = tuple[bytes, Version]


def write_entries(entries: Iterable[Entry], out: bytearray) -> None:
    """Encode whole entries."""
    _ENTRIES.write(tuple((e.key, e.version.stamp, e.version.writer, e.value) for e in entries), out)


def read_entries(reader: wire.Reader) -> tuple[Entry, ...]:
    """Raises WireError."""
    return tuple(Entry(key, Version(stamp, writer), value) for key, stamp, writer, value in _ENTRIES.read(reader))


def write_held(held: Iterable[Held], out: bytearray) -> None:
    """Encode keys and their versions."""
    _HELDS.write(tuple((key, version.stamp, version.writer) for key, version in held), out)


def read_held(reader: wire.Reader) -> tuple[Held, ...]:
    """Raises WireError."""
    found = tuple((key, Version(stamp, writer)) for key, stamp, writer in _HELDS.read(reader))
    if len(dict(found)) != len(found):
        raise WireError("a summary has a key twice")
    return found
