"""What a safe order keeps back: messages with a place that some member of the view may lack. Pure.

Problem: members that are parted may get the messages at the end of their common view in different orders, each in the
order of its own part. Idea: a message is delivered only when every member of the view has it and knows its place. Then
each of them delivers it at this place, whatever happens next: what has a place comes before the rest of a view.
Members report to the sequencer how far they have the order; it tells the lowest report with its tickets.
"""
from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch


class SafeOrder:
    """The batches kept back, in order; at the sequencer also what the members reported.

    reached: member -> everything below this place is there; everywhere: the lowest of these.
    """

    __slots__ = ("batches", "everywhere", "reached")

    def __init__(self) -> None:
        self.begin(())

    def begin(self, members: Iterable[Address]) -> None:
        """A view begins."""
        self.batches: deque[Batch] = deque()
        self.reached = dict.fromkeys(members, 1)
        self.everywhere = 1

    def keep(self, batch: Batch) -> None:
        """Keep back a batch that has its place."""
        self.batches.append(batch)

    def reached_by(self, member: Address, place: int) -> bool:
        """A member of the view reported; True: more is at all members now."""
        self.reached[member] = max(place, self.reached[member])
        lowest = min(self.reached.values())
        if lowest == self.everywhere:
            return False
        self.everywhere = lowest
        return True

    def up_to(self, place: int) -> list[Batch]:
        """The messages below a place; they are kept back no longer."""
        found = []
        while self.batches and self.batches[0].place < place:
            batch = self.batches.popleft()
            if batch.place + batch.count > place:
                cut = place - batch.place
                self.batches.appendleft(batch.cut(cut, batch.count))
                batch = batch.cut(0, cut)
            found.append(batch)
        return found
