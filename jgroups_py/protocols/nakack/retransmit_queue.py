"""The retransmission queue. It sends in bursts, so that a large answer does not overwhelm the requester. Pure.

The end of a burst larger than the requester's socket buffer would be lost again and requested again. The requester
bounds what it requests for the same reason (nak_schedule.py); the bound here also covers many requesters at once.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.windows.ranges import Range, Ranges

Between = Callable[[int, int], Iterator[tuple[int, Batch]]]
Request = tuple[Address | None, Address]
"""(requester, or None where the answer is multicast; the sender of the messages)."""


class RetransmitQueue:
    """pending: request -> the numbers still to be sent; the oldest request is served first."""

    __slots__ = ("pending",)

    def __init__(self) -> None:
        self.pending: dict[Request, Ranges] = {}

    def __bool__(self) -> bool:
        return bool(self.pending)

    def put(self, dest: Address | None, sender: Address, ranges: Iterable[Range]) -> None:
        """`dest` needs these messages of `sender`. A new request replaces an older one: it names all that is due now.

        Requests answered by multicast (dest None) come from many members, so they are united instead.
        """
        if dest is None and (dest, sender) in self.pending:
            for first, stop in ranges:
                self.pending[dest, sender].add(first, stop)
        else:
            self.pending[dest, sender] = Ranges(ranges)

    def burst(self, kept: Callable[[Address], Between | None], room: int) -> list[tuple[Request, int, Batch]]:
        """What to send now, some `room` payload bytes of it: (request, first number, batch).

        kept: what this member holds of a sender, by numbers; what it does not hold any more is dropped from the queue.
        """
        taken: list[tuple[Request, int, Batch]] = []
        while self.pending and room > 0:
            request, ranges = next(iter(self.pending.items()))
            between = kept(request[1])
            for first, batch in pieces(between, ranges) if between is not None else ():
                number, nbytes = fitting(batch, room)
                taken.append((request, first, batch.cut(0, number)))
                room -= nbytes
                ranges.subtract(0, first + number)
                if room <= 0:
                    break
            else:
                del self.pending[request]
        return taken

    def clear(self) -> None:
        """Forget all requests: their view has ended, and the same numbers are other messages in the next one."""
        self.pending.clear()


def pieces(between: Between, ranges: Ranges) -> Iterator[tuple[int, Batch]]:
    """All that is kept in `ranges`."""
    for first, stop in ranges:
        yield from between(first, stop)


def fitting(batch: Batch, room: int) -> tuple[int, int]:
    """How many messages of `batch`, at least one, use up `room` payload bytes, and how many bytes they have."""
    used = 0
    for index, payload in enumerate(batch.payloads):         # by message: lengths differ
        used += len(payload)
        if used >= room:
            return index + 1, used
    return batch.count, used
