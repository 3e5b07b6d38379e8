"""The log of one partition: numbered entries, of which the first ones may have been folded into a state.

Numbers begin at 1. Ranges are half-open: `stop` is the number that the next entry gets, and "committed up to n" and
"held up to n" mean the entries below n. Entry 1 is the first configuration, the same in every log.
"""
from __future__ import annotations

from collections.abc import Sequence

import attrs

from jgroups_py.blocks.replication.quorums import CONFIGURATION, Configuration
from jgroups_py.wire.codec import BYTES, U64, Codec, Reader, optional

_CHANGE = optional(CONFIGURATION)


@attrs.frozen
class ReplicatedEntry:
    """epoch: of the leader that appended it. A change of the configuration, or a write: request (the id that the
    client assigned) and data; or neither: the entry with which a leader begins its epoch."""

    epoch: int
    request: bytes = b""
    data: bytes = b""
    change: Configuration | None = None


def _write(entry: ReplicatedEntry, out: bytearray) -> None:
    U64.write(entry.epoch, out)
    BYTES.write(entry.request, out)
    BYTES.write(entry.data, out)
    _CHANGE.write(entry.change, out)


def _read(reader: Reader) -> ReplicatedEntry:
    return ReplicatedEntry(U64.read(reader), BYTES.read(reader), BYTES.read(reader), _CHANGE.read(reader))


ENTRY = Codec(_write, _read, 17)
NO_MEMBERS = Configuration(())


class Log:
    """Entries `first` to `stop`. Earlier ones are in the state; their last epoch and configuration are kept."""

    def __init__(self) -> None:
        self.first = 1
        self._entries: list[ReplicatedEntry] = []
        self._epoch_before = 0                             # of the entry before `first`
        self._changes: list[tuple[int, Configuration]] = [(0, NO_MEMBERS)]     # (number, configuration), in order

    @property
    def stop(self) -> int:
        """The number of the next entry."""
        return self.first + len(self._entries)

    @property
    def last_epoch(self) -> int:
        """The epoch of the last entry, 0 without any."""
        return self.epoch_of(self.stop - 1)

    @property
    def reach(self) -> tuple[int, int]:
        """(epoch of the last entry, stop): of two logs, the one with the greater reach is the newer."""
        return self.last_epoch, self.stop

    @property
    def configuration(self) -> Configuration:
        """The latest, committed or not: it counts from the moment it is appended."""
        return self._changes[-1][1]

    @property
    def changed_at(self) -> int:
        """The number of the latest change."""
        return self._changes[-1][0]

    def configuration_before(self, stop: int) -> Configuration:
        """The configuration at `stop`."""
        return next(config for number, config in reversed(self._changes) if number < stop)

    def epoch_of(self, number: int) -> int:
        """The epoch of an entry, which may be the one just before `first`."""
        if number == self.first - 1:
            return self._epoch_before
        assert self.first <= number < self.stop, f"entry {number} is not in {self.first}..{self.stop}"
        return self._entries[number - self.first].epoch

    def entries(self, first: int, max_bytes: int) -> tuple[ReplicatedEntry, ...]:
        """Entries from `first` on, of at most `max_bytes`, but at least one if there is one."""
        found: list[ReplicatedEntry] = []
        nbytes = 0
        for entry in self._entries[first - self.first:]:
            nbytes += len(entry.data)
            if found and nbytes > max_bytes:
                break
            found.append(entry)
        return tuple(found)

    def between(self, first: int, stop: int) -> Sequence[ReplicatedEntry]:
        """The entries of a range that is held."""
        assert self.first <= first <= stop <= self.stop, "the range is not held"
        return self._entries[first - self.first:stop - self.first]

    def append(self, entry: ReplicatedEntry) -> None:
        """The next entry."""
        if entry.change is not None:
            self._changes.append((self.stop, entry.change))
        self._entries.append(entry)

    def truncate(self, stop: int) -> None:
        """Remove the entries from `stop` on."""
        assert stop >= self.first, "what is in the state cannot be removed"
        del self._entries[stop - self.first:]
        while self._changes[-1][0] >= stop:
            self._changes.pop()

    def fold(self, first: int) -> None:
        """The entries below `first` are in the state."""
        assert self.first <= first <= self.stop, "only what is held is folded"
        before = self.epoch_of(first - 1)
        del self._entries[:first - self.first]
        self.first, self._epoch_before = first, before
        while len(self._changes) > 1 and self._changes[1][0] < first:
            del self._changes[0]

    def begin(self, first: int, epoch_before: int, config: Configuration) -> None:
        """Begin anew behind a state up to `first`."""
        self.first, self._epoch_before = first, epoch_before
        self._entries = []
        self._changes = [(first - 1, config)]
