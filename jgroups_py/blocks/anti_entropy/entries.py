"""Entries of a keyed state, their versions, and which of two wins.

A version is (stamp, writer), compared in this order; the higher one wins where both are known (last writer wins). The
stamp is a hybrid logical clock's: the writer's clock, but always more than any stamp it has seen. So a write that knows
of another one wins over it, writes that do not know of each other are ordered by their clocks, and of two with one
stamp the writer with the higher address wins: the same everywhere, in whatever order they arrive.
Source: Kulkarni et al., "Logical Physical Clocks" (2014), with clock and counter in one number.
"""
from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import attrs

from jgroups_py import wire
from jgroups_py.address import Address
from jgroups_py.errors import WireError

MARK_BYTES = 16
MAX_STAMP = (1 << 63) - 1


@attrs.frozen(order=True)
class Version:
    """When an entry was written, and by whom."""

    stamp: int
    writer: Address


@attrs.frozen
class Entry:
    """What a key stands for. value None: the mark of a deletion, which keeps older entries of the key away."""

    key: bytes
    version: Version
    value: bytes | None

    def wins_over(self, other: Entry | None) -> bool:
        """Whether this one stays where both are known. With equal versions it is one write, and a mark says that it
        was deleted since."""
        return other is None or (self.version, self.value is None) > (other.version, other.value is None)

    @property
    def mark(self) -> bytes:
        """A hash of all of it; deletions are in no tree."""
        assert self.value is not None, "what is deleted has no place in a tree"
        hashed = blake2b(digest_size=MARK_BYTES)
        for part in (self.key, self.value):
            hashed.update(len(part).to_bytes(8, "big"))
            hashed.update(part)
        hashed.update(self.version.stamp.to_bytes(8, "big") + self.version.writer.raw)
        return hashed.digest()

    @property
    def nbytes(self) -> int:
        """What it takes in a message, about."""
        return len(self.key) + len(self.value or b"") + 40


class HybridClock:
    """Stamps: never one that was seen or given before, and otherwise as near to the clock as that allows.

    max_ahead: entries stamped further ahead of our clock than this are refused (0: none are), since everybody would
    have to write in their future from then on.
    """

    def __init__(self, max_ahead: int = 0) -> None:
        self.last = 0
        self.max_ahead = max_ahead

    def stamp(self, wall: int) -> int:
        """For a write at this time of day."""
        self.last = max(self.last + 1, wall)
        return self.last

    def sees(self, stamp: int, wall: int) -> bool:
        """Take note of another's stamp; False: it is to be refused."""
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
    """Whole entries."""
    _ENTRIES.write(tuple((e.key, e.version.stamp, e.version.writer, e.value) for e in entries), out)


def read_entries(reader: wire.Reader) -> tuple[Entry, ...]:
    """Raises WireError."""
    return tuple(Entry(key, Version(stamp, writer), value) for key, stamp, writer, value in _ENTRIES.read(reader))


def write_held(held: Iterable[Held], out: bytearray) -> None:
    """Keys and their versions."""
    _HELDS.write(tuple((key, version.stamp, version.writer) for key, version in held), out)


def read_held(reader: wire.Reader) -> tuple[Held, ...]:
    """Raises WireError."""
    found = tuple((key, Version(stamp, writer)) for key, stamp, writer in _HELDS.read(reader))
    if len(dict(found)) != len(found):
        raise WireError("a key stands twice in a summary")
    return found
