"""The causal context of a copy: each writer's stamps, by which it can drop the marks of deletions.

Problem: a copy that was cut off may still hold entries that the others deleted. They must recognise these as deleted at
any later time, without a mark for every deleted key. Idea: two numbers for each writer instead of a mark for each key.

    whole   writer -> stamp: every write of it up to this stamp has arrived here, and is present, superseded or deleted.
            It rises with own writes, and to the stamp of another copy at a moment when both hold the same entries.
    seen    writer -> the highest stamp of it that is known to exist. No write that is present here depends on a higher
            one.

So a version within `whole` whose key has no entry here was deleted, without any mark. The mark of a deletion is dropped
when all known stamps that may be older, the deletion's included, are within `whole`: an entry that the mark must reject
is then recognised by `whole`, whichever copy sends it and whenever. Source: causal contexts of replicated sets without
tombstones (Bieniusa and others 2012; Almeida, Shoker, Baquero 2018), on versions that are ordered anyway.

A writer that crashed before it was equal with any other copy leaves stamps in `seen` above `whole`. If no new stamp of
it arrives for `forget_after`, its writes count as arrived: exchanges have had the time to bring all that exist.
"""
from __future__ import annotations

from hashlib import blake2b

from jgroups_py.blocks.anti_entropy.entries import MAX_STAMP, Version
from jgroups_py.model.address import Address

Stamps = dict[Address, int]
MARK_BYTES = 16


class CausalContext:
    """The two tables. wall: the time of day in the unit of `forget_after`; 0: writers are never expired."""

    def __init__(self, forget_after: int) -> None:
        self.forget_after = forget_after
        self.whole: Stamps = {}
        self.seen: Stamps = {}
        self._since: Stamps = {}                     # writer -> when its last new stamp arrived

    def record_own(self, version: Version) -> None:
        """Record a write of this copy."""
        self.whole[version.writer] = self.seen[version.writer] = version.stamp

    def record(self, version: Version, wall: int) -> None:
        """Record a write of any writer that is known to exist."""
        if version.stamp > self.seen.get(version.writer, 0):
            self.seen[version.writer] = version.stamp
            self._since[version.writer] = wall

    def covers(self, version: Version) -> bool:
        """Whether the write has arrived here, whatever became of it."""
        return version.stamp <= self.whole.get(version.writer, 0)

    def join(self, whole: Stamps, seen: Stamps, wall: int) -> None:
        """Merge the context of a copy that holds the same entries as this one."""
        for writer, stamp in seen.items():
            self.record(Version(stamp, writer), wall)
        for writer, stamp in whole.items():
            self.record(Version(stamp, writer), wall)
            self.whole[writer] = max(stamp, self.whole.get(writer, 0))

    def expire_writers(self, wall: int) -> None:
        """Count the writes of writers without new stamps as arrived: no exchange will bring more."""
        for writer in self._missing() if self.forget_after else ():
            if wall - self._since[writer] >= self.forget_after:
                self.whole[writer] = self.seen[writer]

    def settled(self) -> int:
        """The stamp up to which every recorded write has arrived."""
        return min((self.whole.get(writer, 0) for writer in self._missing()), default=MAX_STAMP)

    def _missing(self) -> list[Address]:
        """Writers with recorded stamps above `whole`."""
        return [writer for writer, stamp in self.seen.items() if stamp > self.whole.get(writer, 0)]

    @property
    def mark(self) -> bytes:
        """A hash of both tables."""
        hashed = blake2b(digest_size=MARK_BYTES)
        for writer in sorted(self.seen):
            stamps = self.whole.get(writer, 0), self.seen[writer]
            hashed.update(writer.raw + b"".join(stamp.to_bytes(8, "big") for stamp in stamps))
        return hashed.digest()
