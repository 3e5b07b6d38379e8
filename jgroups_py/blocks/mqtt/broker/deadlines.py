"""Deadlines of many things in one heap. What became void is left in it and found out when it is due."""
from __future__ import annotations

import heapq
from collections.abc import Callable

import attrs


@attrs.define(eq=False, order=False)
class Deadline:
    """Calls `due` at its time, unless it was cancelled."""

    at_ns: int
    due: Callable[[int], None] | None

    def cancel(self) -> None:
        """Never call."""
        self.due = None


class Deadlines:
    """All of a broker. Equal times are due in the order in which they were set."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Deadline]] = []
        self._number = 0

    def set(self, at_ns: int, due: Callable[[int], None]) -> Deadline:
        """Call `due(now_ns)` then."""
        deadline = Deadline(at_ns, due)
        self._number += 1
        heapq.heappush(self._heap, (at_ns, self._number, deadline))
        return deadline

    def next_ns(self) -> int | None:
        """The earliest one."""
        while self._heap and self._heap[0][2].due is None:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def run(self, now_ns: int) -> None:
        """Call what is due."""
        while self._heap and self._heap[0][0] <= now_ns:
            deadline = heapq.heappop(self._heap)[2]
            due, deadline.due = deadline.due, None
            if due is not None:
                due(now_ns)
