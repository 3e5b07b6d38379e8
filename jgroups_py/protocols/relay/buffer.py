"""The hold: runs that other sites do not have yet, by origin and number.

Holders keep runs until the relay's TRIM says that every site has them. Runs of an origin usually arrive in order and
join end to end; after a merge they may arrive in any order and overlap, which is cut away. Payloads are shared with
what was delivered, never copied. Costs grow with the number of runs, not of messages.
"""
from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

import attrs

from jgroups_py.address import Address
from jgroups_py.batch import Batch
from jgroups_py.protocols.relay.headers import Numbers

MESSAGE_BYTES = 64               # what a message takes besides its payload: an object, and its place in the run


@attrs.frozen(eq=False)
class HeldRun:
    """Messages `first` to `stop` of one origin, held since `since_ns` (which travels with copies).

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

    def cut(self, first: int, stop: int) -> HeldRun:
        """The part from `first` to `stop`."""
        if first == self.first and stop == self.stop:
            return self
        return held_run(first, self.batch.cut(first - self.first, stop - self.first), self.since_ns)


def held_run(first: int, batch: Batch, since_ns: int) -> HeldRun:
    """A run as it is held."""
    return HeldRun(first, batch, since_ns, batch.nbytes + MESSAGE_BYTES * batch.count)


class Hold:
    """Held runs of all origins of the own site."""

    def __init__(self) -> None:
        self.runs: dict[Address, list[HeldRun]] = {}      # origin -> runs, ascending, not overlapping
        self.trimmed: dict[Address, int] = {}             # origin -> below this nothing is kept any more
        self.nbytes = 0

    def add(self, origin: Address, first: int, batch: Batch, since_ns: int) -> int:
        """Keep what is new of a run; the number of messages kept."""
        stop = first + batch.count
        held = self.runs.setdefault(origin, [])
        start = max(first, self.trimmed.get(origin, 1))
        if not held or held[-1].stop <= start:
            return self._append(held, first, batch, start, stop, since_ns)
        kept = 0
        for gap_first, gap_stop in list(self._gaps(held, start, stop)):
            piece = held_run(first, batch, since_ns).cut(gap_first, gap_stop)
            held.insert(bisect_right(held, gap_first, key=_first_of), piece)
            self.nbytes += piece.nbytes
            kept += gap_stop - gap_first
        return kept

    def _append(
        self, held: list[HeldRun], first: int, batch: Batch, start: int, stop: int, since_ns: int,
    ) -> int:
        if start >= stop:
            return 0
        piece = held_run(first, batch, since_ns).cut(start, stop)
        held.append(piece)
        self.nbytes += piece.nbytes
        return stop - start

    @staticmethod
    def _gaps(held: list[HeldRun], start: int, stop: int) -> Iterator[tuple[int, int]]:
        at = start
        for run in held[max(0, bisect_right(held, start, key=_first_of) - 1):]:
            if run.first >= stop:
                break
            if run.first > at:
                yield at, run.first
            at = max(at, run.stop)
        if at < stop:
            yield at, stop

    def run_from(self, origin: Address, number: int, max_bytes: int) -> HeldRun | None:
        """The run that starts at `number`: one message at least, further ones while they fit `max_bytes`."""
        held = self.runs.get(origin)
        if not held:
            return None
        at = bisect_right(held, number, key=_first_of) - 1
        if at < 0 or held[at].stop <= number:
            return None
        run = held[at].cut(number, held[at].stop)
        if run.nbytes <= max_bytes or run.batch.count == 1:       # one without payloads counts as one too
            return run
        used, stop = 0, number
        for payload in run.batch.payloads:
            used += len(payload) + MESSAGE_BYTES
            if used > max_bytes and stop > number:
                break
            stop += 1
        return run.cut(number, stop)

    def first_from(self, origin: Address, number: int) -> int | None:
        """The lowest number at or above `number` that is held."""
        for run in self.runs.get(origin, ()):
            if run.stop > number:
                return max(run.first, number)
        return None

    def has_older(self, numbers: Numbers, before_ns: int) -> bool:
        """Whether something at or above these numbers (absent: 1) is held since before `before_ns`."""
        for origin, held in self.runs.items():
            run = next((run for run in held if run.stop > numbers.get(origin, 1)), None)
            if run is not None and run.since_ns < before_ns:
                return True
        return False

    def has_since(self, since_ns: int) -> bool:
        """Whether anything is held since later than `since_ns`."""
        return any(run.since_ns > since_ns for held in self.runs.values() for run in held)

    def older(self, origin: Address, until_ns: int, by_ns: int) -> None:
        """What is held of an origin since `until_ns` at the latest is that much older."""
        held = self.runs.get(origin, [])
        for at, run in enumerate(held):
            if run.since_ns <= until_ns:
                held[at] = attrs.evolve(run, since_ns=run.since_ns - by_ns)

    def bytes_from(self, numbers: Numbers) -> int:
        """How many bytes are held at or above these numbers (absent: 1)."""
        return sum(run.cut(max(run.first, numbers.get(origin, 1)), run.stop).nbytes
                   for origin, held in self.runs.items() for run in held if run.stop > numbers.get(origin, 1))

    def drop_below(self, origin: Address, number: int) -> None:
        """Every site has (or lost) what is below `number`."""
        if number <= self.trimmed.get(origin, 1):
            return
        self.trimmed[origin] = number
        held = self.runs.get(origin, [])
        at = bisect_right(held, number, key=_stop_of)
        self.nbytes -= sum(run.nbytes for run in held[:at])
        del held[:at]
        if held and held[0].first < number:
            rest = held[0].cut(number, held[0].stop)
            self.nbytes += rest.nbytes - held[0].nbytes
            held[0] = rest
        if not held:
            self.runs.pop(origin, None)

    def ranges(self, origin: Address) -> tuple[tuple[int, int], ...]:
        """What is held of an origin, neighbours joined."""
        found: list[tuple[int, int]] = []
        for run in self.runs.get(origin, ()):
            if found and found[-1][1] == run.first:
                found[-1] = (found[-1][0], run.stop)
            else:
                found.append((run.first, run.stop))
        return tuple(found)

    def end(self, origin: Address) -> int:
        """One past the highest number ever held of an origin."""
        held = self.runs.get(origin)
        return held[-1].stop if held else self.trimmed.get(origin, 1)

    def pieces(self, origin: Address, first: int, stop: int) -> Iterator[HeldRun]:
        """The held parts of a range."""
        for run in self.runs.get(origin, ()):
            if run.first < stop and run.stop > first:
                yield run.cut(max(run.first, first), min(run.stop, stop))

    def forget(self, origin: Address) -> None:
        """Drop everything about an origin."""
        for run in self.runs.pop(origin, ()):
            self.nbytes -= run.nbytes
        self.trimmed.pop(origin, None)

    @property
    def messages(self) -> int:
        """How many messages are held."""
        return sum(run.stop - run.first for held in self.runs.values() for run in held)


def _first_of(run: HeldRun) -> int:
    return run.first


def _stop_of(run: HeldRun) -> int:
    return run.stop


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
