"""What a copy knows to have seen of each writer, so that it may forget what was deleted.

Problem: a copy that was away may still hold what the others deleted. They must know it for dead when they see it, for
ever, but not remember every deleted key for ever. Idea: a number for each writer instead of a mark for each key.

    whole   writer -> stamp: what it wrote up to there has come here, and stays, is superseded, or was deleted. It rises
            with own writes, and to that of another copy at a moment when both hold the same.
    heard   writer -> the highest stamp of it that was ever heard of. What any write here was made in knowledge of
            is not above that.

So a version within `whole` whose key stands for nothing here is dead, without any mark. The mark of a deletion goes
when all that was heard of and may be older, the deletion too, is within `whole`: nothing that the mark must keep away
can then come back, whoever brings it and whenever. Source: causal contexts of replicated sets without tombstones
(Bieniusa and others 2012; Almeida, Shoker, Baquero 2018), on versions that are ordered anyway.

A writer that died before anybody agreed with it leaves writes behind that are heard of and not within `whole`. When
nothing new was heard of it for `forget_after`, what exchanges could bring of it counts as here.
"""
from __future__ import annotations

from hashlib import blake2b

from jgroups_py.address import Address
from jgroups_py.blocks.anti_entropy.entries import MAX_STAMP, Version

Stamps = dict[Address, int]
MARK_BYTES = 16


class Knowledge:
    """See the module. `wall` is the time of day in the unit of `forget_after`; 0: writers are never given up."""

    def __init__(self, forget_after: int) -> None:
        self.forget_after = forget_after
        self.whole: Stamps = {}
        self.heard: Stamps = {}
        self._since: Stamps = {}                     # writer -> when anything new was heard of it last

    def wrote(self, version: Version) -> None:
        """A write of our own."""
        self.whole[version.writer] = self.heard[version.writer] = version.stamp

    def hears(self, version: Version, wall: int) -> None:
        """Somebody's write came here."""
        if version.stamp > self.heard.get(version.writer, 0):
            self.heard[version.writer] = version.stamp
            self._since[version.writer] = wall

    def covers(self, version: Version) -> bool:
        """Whether it is among what has come here once."""
        return version.stamp <= self.whole.get(version.writer, 0)

    def join(self, whole: Stamps, heard: Stamps, wall: int) -> None:
        """Take over what another copy knows, which holds the same as we do."""
        for writer, stamp in heard.items():
            self.hears(Version(stamp, writer), wall)
        for writer, stamp in whole.items():
            self.hears(Version(stamp, writer), wall)
            self.whole[writer] = max(stamp, self.whole.get(writer, 0))

    def give_up_the_silent(self, wall: int) -> None:
        """Count what we have of writers that fell silent as all that there is."""
        for writer in self._missing() if self.forget_after else ():
            if wall - self._since[writer] >= self.forget_after:
                self.whole[writer] = self.heard[writer]

    def settled(self) -> int:
        """Up to this stamp everything heard of has come here."""
        return min((self.whole.get(writer, 0) for writer in self._missing()), default=MAX_STAMP)

    def _missing(self) -> list[Address]:
        """Writers of which we have heard more than has come here for certain."""
        return [writer for writer, stamp in self.heard.items() if stamp > self.whole.get(writer, 0)]

    @property
    def mark(self) -> bytes:
        """A hash of all of it."""
        hashed = blake2b(digest_size=MARK_BYTES)
        for writer in sorted(self.heard):
            stamps = self.whole.get(writer, 0), self.heard[writer]
            hashed.update(writer.raw + b"".join(stamp.to_bytes(8, "big") for stamp in stamps))
        return hashed.digest()
