"""A part of a copy that is compared by itself, between a giver and a taker. Pure.

The giver has more than it gives, the taker more than it was given, and neither shows the rest: the hash tree of either
end covers the part alone, the taker never sends a value, and the giver never requests one. Messages are those of
replica.py. What the giver pushes goes into the whole copy of the taker, by `Replica.take_pushed`.

Both ends decide by themselves what is in the part. Where they differ for good, as the taker has written a key itself
since, each comparison ends at that key, without an effect.
"""
from __future__ import annotations

from collections.abc import Callable

from jgroups_py.blocks.anti_entropy.entries import Entry, Version
from jgroups_py.blocks.anti_entropy.replica import BEGIN, COMPARE, PULL, SUMMARY, Replica
from jgroups_py.model.errors import WireError


class PartOfReplica(Replica):
    """The entries of `whole` that `has` is true of. may_say: whether the other end may be told that this key, of which
    it has this version, was deleted here; asked of a taker."""

    def __init__(
        self, whole: Replica, has: Callable[[Entry], bool], may_say: Callable[[bytes, Version], bool],
        is_giver: bool,
    ) -> None:
        super().__init__(whole.me, whole.settings)
        self.counters = whole.counters
        self._whole = whole
        self._has = has
        self._may_say = may_say
        self._is_giver = is_giver
        for key in whole.entries:
            self.look_at(key)

    def look_at(self, key: bytes) -> None:
        """A key of the whole has changed."""
        entry, known = self._whole.entries.get(key), self.entries.get(key)
        if entry is known:
            return
        if entry is not None and self._has(entry):
            self.entries[key] = entry
            self.tree.put(key, entry.mark)
        elif known is not None:
            del self.entries[key]
            self.tree.remove(key)

    def receive(self, data: bytes, wall: int) -> tuple[list[object], list[bytes]]:   # type: ignore[override]
        """Handle a message of the other end, but for PUSH; there are no changes. Raises WireError."""
        allowed = (COMPARE, SUMMARY, PULL) if self._is_giver else (BEGIN, COMPARE, SUMMARY)
        if not data or data[0] not in allowed:
            raise WireError("a message that this end of a part does not get")
        _, replies = super().receive(data, wall)
        return [], replies

    def forget(self, wall: int) -> None:
        """The marks of deletions are the whole's."""

    def _begun(self, root: bytes, mark: bytes) -> list[bytes]:
        return [] if root == self.root else list(self._compared({"": root}))

    def _deletion_of(self, key: bytes, version: Version) -> Entry | None:
        mark = self._whole._deletion_of(key, version)
        if mark is None or self._is_giver or (mark.version > version and self._may_say(key, version)):
            return mark
        return None

    def _summarised(self, node: str, versions: dict[bytes, Version]) -> list[bytes]:
        marks = [mark for mark in (self._deletion_of(key, version) for key, version in versions.items())
                 if mark is not None]
        if self._is_giver:
            # The taker knows what of it is newer than what it has itself, and requests that.
            others = [key for key in self.tree.keys_of(node) if versions.get(key) != self.entries[key].version]
            return [*self.pushes(marks), *([self._summary_of(node, others)] if others else ())]
        wanted = [key for key, version in versions.items() if self._whole._deletion_of(key, version) is None
                  and (key not in self._whole.entries or self._whole.entries[key].version < version)]
        return [*self.pulls(wanted), *self.pushes(marks)]
