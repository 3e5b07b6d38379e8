"""The hold: batches that other sites do not have yet, by origin and number (relay rule 2).

Holders keep a batch until a TRIM announces that every site has it. Batches of an origin usually arrive in order and
join end to end: adding one is an append. After a failover or a merge, copies from other holders arrive in any order and
overlap; what is held already is cut away, so each number is held once. Payloads are shared with what was delivered,
never copied. Costs grow with the number of batches, not of messages.

This class only stores. When something may be dropped is decided by Trimmer (relay rules 7 and 18).
"""
from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

import attrs

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.protocols.relay.headers import Numbers

MESSAGE_BYTES = 64               # what a message takes besides its payload: an object, and its place in the batch


@attrs.frozen(eq=False)
class HeldBatch:
    """Messages `first` to `stop` - 1 of one origin.

    since_ns: held since, by the member's clock; copies carry their age, so that it survives a change of holders.
    nbytes: the memory they take, MESSAGE_BYTES each included, so that empty messages fill the hold too.
    """

    first: int
    batch: Batch
    since_ns: int
    nbytes: int

    @property
    def stop(self) -> int:
        """One past the last number."""
        return self.first + self.batch.count

    def cut(self, first: int, stop: int) -> HeldBatch:
        """The part from `first` to `stop`."""
        if first == self.first and stop == self.stop:
            return self
        return held_batch(first, self.batch.cut(first - self.first, stop - self.first), self.since_ns)


def held_batch(first: int, batch: Batch, since_ns: int) -> HeldBatch:
    """A batch as it is held, with its memory counted."""
    return HeldBatch(first, batch, since_ns, batch.nbytes + MESSAGE_BYTES * batch.count)


class Hold:
    """Held batches of all origins of this site."""

    def __init__(self) -> None:
        self.batches: dict[Address, list[HeldBatch]] = {}    # origin -> batches, ascending, not overlapping, not empty
        self.trimmed: dict[Address, int] = {}                # origin -> below this nothing is kept any more
        self.nbytes = 0                                      # sum of HeldBatch.nbytes, kept up to date

    def add(self, origin: Address, first: int, batch: Batch, since_ns: int) -> int:
        """Keep the part of a batch that is not held yet; returns the number of messages kept."""
        stop = first + batch.count
        batches = self.batches.setdefault(origin, [])
        # A holder that missed a TRIM sends copies of what every site has: held again, they would never be dropped.
        start = max(first, self.trimmed.get(origin, 1))
        if not batches or batches[-1].stop <= start:
            return self._append(batches, first, batch, start, stop, since_ns)
        kept = 0                                             # a copy from another holder: fill the holes it covers
        for gap_first, gap_stop in list(self._gaps(batches, start, stop)):
            piece = held_batch(first, batch, since_ns).cut(gap_first, gap_stop)
            batches.insert(bisect_right(batches, gap_first, key=_first_of), piece)
            self.nbytes += piece.nbytes
            kept += gap_stop - gap_first
        return kept

    def _append(
        self, batches: list[HeldBatch], first: int, batch: Batch, start: int, stop: int, since_ns: int,
    ) -> int:
        if start >= stop:
            return 0
        piece = held_batch(first, batch, since_ns).cut(start, stop)
        batches.append(piece)
        self.nbytes += piece.nbytes
        return stop - start

    @staticmethod
    def _gaps(batches: list[HeldBatch], start: int, stop: int) -> Iterator[tuple[int, int]]:
        at = start
        for held in batches[max(0, bisect_right(batches, start, key=_first_of) - 1):]:
            if held.first >= stop:
                break
            if held.first > at:
                yield at, held.first
            at = max(at, held.stop)
        if at < stop:
            yield at, stop

    def batch_from(self, origin: Address, number: int, max_bytes: int) -> HeldBatch | None:
        """The held messages from `number` on, of one batch: one at least, further ones while they fit `max_bytes`.

        None if `number` is not held.
        """
        batches = self.batches.get(origin)
        if not batches:
            return None
        at = bisect_right(batches, number, key=_first_of) - 1
        if at < 0 or batches[at].stop <= number:
            return None
        held = batches[at].cut(number, batches[at].stop)
        if held.nbytes <= max_bytes or held.batch.count == 1:       # one without payloads counts as one too
            return held
        used, stop = 0, number
        for payload in held.batch.payloads:
            used += len(payload) + MESSAGE_BYTES
            if used > max_bytes and stop > number:
                break
            stop += 1
        return held.cut(number, stop)

    def first_from(self, origin: Address, number: int) -> int | None:
        """The lowest number at or above `number` that is held."""
        for held in self.batches.get(origin, ()):
            if held.stop > number:
                return max(held.first, number)
        return None

    def has_older(self, numbers: Numbers, before_ns: int) -> bool:
        """Whether something at or above these numbers (absent: 1) is held since before `before_ns`.

        Looks at the first such batch of each origin only: within an origin, lower numbers are the older ones.
        """
        for origin, batches in self.batches.items():
            held = next((held for held in batches if held.stop > numbers.get(origin, 1)), None)
            if held is not None and held.since_ns < before_ns:
                return True
        return False

    def oldest_ns(self, numbers: Numbers) -> int | None:
        """Since when the oldest batch at or above these numbers (absent: 1) is held; None: there is none."""
        found = (next((held for held in batches if held.stop > numbers.get(origin, 1)), None)
                 for origin, batches in self.batches.items())
        return min((held.since_ns for held in found if held is not None), default=None)

    def since_of(self, origin: Address, first: int, stop: int) -> list[int]:
        """Since when each batch is held that ends at numbers above `first` and up to `stop`."""
        batches = self.batches.get(origin, [])
        at = bisect_right(batches, first, key=_stop_of)
        return [held.since_ns for held in batches[at:bisect_right(batches, stop, key=_stop_of)]]

    def has_since(self, since_ns: int) -> bool:
        """Whether anything is held since later than `since_ns`."""
        return any(held.since_ns > since_ns for batches in self.batches.values() for held in batches)

    def older(self, origin: Address, until_ns: int, by_ns: int) -> None:
        """Raise the age of what has been held of an origin since `until_ns` or before, by `by_ns` (relay rule 17)."""
        batches = self.batches.get(origin, [])
        for at, held in enumerate(batches):
            if held.since_ns <= until_ns:
                batches[at] = attrs.evolve(held, since_ns=held.since_ns - by_ns)

    def bytes_from(self, numbers: Numbers) -> int:
        """How many bytes are held at or above these numbers (absent: 1)."""
        return sum(held.cut(max(held.first, numbers.get(origin, 1)), held.stop).nbytes
                   for origin, batches in self.batches.items()
                   for held in batches if held.stop > numbers.get(origin, 1))

    def drop_below(self, origin: Address, number: int) -> None:
        """Drop what is below `number`: every site has acknowledged or lost it."""
        if number <= self.trimmed.get(origin, 1):
            return                              # TRIM of a new relay may be behind that of its predecessor
        self.trimmed[origin] = number
        batches = self.batches.get(origin, [])
        at = bisect_right(batches, number, key=_stop_of)
        self.nbytes -= sum(held.nbytes for held in batches[:at])
        del batches[:at]
        if batches and batches[0].first < number:
            rest = batches[0].cut(number, batches[0].stop)
            self.nbytes += rest.nbytes - batches[0].nbytes
            batches[0] = rest
        if not batches:
            self.batches.pop(origin, None)

    def ranges(self, origin: Address) -> tuple[tuple[int, int], ...]:
        """What is held of an origin as half-open ranges, neighbours joined."""
        found: list[tuple[int, int]] = []
        for held in self.batches.get(origin, ()):
            if found and found[-1][1] == held.first:
                found[-1] = (found[-1][0], held.stop)
            else:
                found.append((held.first, held.stop))
        return tuple(found)

    def end(self, origin: Address) -> int:
        """One past the highest number ever held of an origin."""
        batches = self.batches.get(origin)
        return batches[-1].stop if batches else self.trimmed.get(origin, 1)

    def pieces(self, origin: Address, first: int, stop: int) -> Iterator[HeldBatch]:
        """The held parts of `first` to `stop` - 1, ascending."""
        for held in self.batches.get(origin, ()):
            if held.first < stop and held.stop > first:
                yield held.cut(max(held.first, first), min(held.stop, stop))

    def forget(self, origin: Address) -> None:
        """Drop everything about an origin."""
        for held in self.batches.pop(origin, ()):
            self.nbytes -= held.nbytes
        self.trimmed.pop(origin, None)

    @property
    def messages(self) -> int:
        """How many messages are held."""
        return sum(held.stop - held.first for batches in self.batches.values() for held in batches)


def _first_of(held: HeldBatch) -> int:
    return held.first


def _stop_of(held: HeldBatch) -> int:
    return held.stop


def missing(wanted: tuple[tuple[int, int], ...], have: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """The parts of `wanted` that `have` does not cover (both ascending, half-open).

    >>> missing(((1, 10),), ((3, 5), (7, 20)))
    ((1, 3), (5, 7))
    """
    rest = []
    for first, stop in wanted:
        at = first
        for have_first, have_stop in have:
            if have_stop <= at or have_first >= stop:
                continue
            if have_first > at:
                rest.append((at, have_first))
            at = max(at, have_stop)
        if at < stop:
            rest.append((at, stop))
    return tuple(rest)
