"""What we owe to members that asked, paid in bursts, so that a long answer does not drown the one who asked. Pure."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from jgroups_py.address import Address
from jgroups_py.batch import Batch
from jgroups_py.windows.ranges import Range, Ranges

Between = Callable[[int, int], Iterator[tuple[int, Batch]]]
Debtor = tuple[Address | None, Address]


class Debts:
    """(who asked, whose messages) -> the numbers that are still to be sent; whoever asked first is served first."""

    __slots__ = ("owed",)

    def __init__(self) -> None:
        self.owed: dict[Debtor, Ranges] = {}

    def __bool__(self) -> bool:
        return bool(self.owed)

    def ask(self, dest: Address | None, sender: Address, ranges: Iterable[Range]) -> None:
        """`dest` wants these messages of `sender`. A new request replaces an older one: it names all that is missing.

        Requests answered by multicast (dest None) come from many and add up.
        """
        if dest is None and (dest, sender) in self.owed:
            for first, stop in ranges:
                self.owed[dest, sender].add(first, stop)
        else:
            self.owed[dest, sender] = Ranges(ranges)

    def pay(self, kept: Callable[[Address], Between | None], room: int) -> list[tuple[Debtor, int, Batch]]:
        """Runs to send now, some `room` payload bytes of them: (who asked and whose they are, first number, run)."""
        paid: list[tuple[Debtor, int, Batch]] = []
        while self.owed and room > 0:
            debtor, ranges = next(iter(self.owed.items()))
            between = kept(debtor[1])
            for first, run in pieces(between, ranges) if between is not None else ():
                number, nbytes = fitting(run, room)
                paid.append((debtor, first, run.cut(0, number)))
                room -= nbytes
                ranges.subtract(0, first + number)
                if room <= 0:
                    break
            else:
                del self.owed[debtor]
        return paid

    def clear(self) -> None:
        """Forget all requests."""
        self.owed.clear()


def pieces(between: Between, ranges: Ranges) -> Iterator[tuple[int, Batch]]:
    """All that is kept in `ranges`."""
    for first, stop in ranges:
        yield from between(first, stop)


def fitting(run: Batch, room: int) -> tuple[int, int]:
    """How many messages of `run`, at least one, use up `room` payload bytes, and how many bytes they have."""
    used = 0
    for index, payload in enumerate(run.payloads):           # by message: lengths differ, and this is no hot path
        used += len(payload)
        if used >= room:
            return index + 1, used
    return run.count, used
