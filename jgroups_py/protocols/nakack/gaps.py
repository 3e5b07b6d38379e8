"""When to ask for missing messages: not at once, not all at a time, not twice in a row. Pure arithmetic.

A hole is asked for once it was there in the previous round too, since it may be mere reordering. What was asked for
is not asked for again during the rest of this turn and the whole next one; turns double in length while answers fail
to come and shrink back when they do. Source: JGroups NAKACK2 (two rounds); the turns are ours.
"""
from __future__ import annotations

from jgroups_py.windows.ranges import Range, Ranges


class Gaps:
    """The requests for one sender's messages.

    seen: holes below this number were there in the previous round; fails: turns in a row that brought nothing of what
    had been asked for; turn_ns: when the current turn ends.
    """

    __slots__ = ("asked", "asked_before", "fails", "least_ns", "length_ns", "most_ns", "room", "seen", "turn_ns")

    def __init__(self, least_ns: int, most_ns: int, room: int) -> None:
        assert 0 < least_ns <= most_ns
        self.least_ns = least_ns
        self.most_ns = most_ns
        self.room = room
        self.seen = 0
        self.fails = 0
        self.length_ns = least_ns
        self.turn_ns = 0
        self.asked = Ranges()                  # in this turn
        self.asked_before = Ranges()           # in the turn before

    def is_asked(self, number: int) -> bool:
        """Whether an answer with this message may still be on its way."""
        return number in self.asked or number in self.asked_before

    def due(self, holes: list[Range], now_ns: int) -> list[Range]:
        """Which of `holes` to ask for now; at most `room` messages are then outstanding."""
        if now_ns >= self.turn_ns:
            self._next_turn(holes, now_ns)
        fresh = [piece for hole in holes for rest in self.asked.holes(*hole)
                 for piece in self.asked_before.holes(*rest)]
        room = self.room - (_total(holes) - _total(fresh))
        due = []
        for first, stop in fresh:
            if room <= 0:
                break
            stop = min(stop, first + room)
            room -= stop - first
            self.asked.add(first, stop)
            due.append((first, stop))
        return due

    def _next_turn(self, holes: list[Range], now_ns: int) -> None:
        if any(self.asked_before.overlap(*hole) for hole in holes):
            self.fails += 1
            self.length_ns = min(2 * self.length_ns, self.most_ns)
        elif self.asked_before:
            self.fails = 0
            self.length_ns = max(self.length_ns // 2, self.least_ns)
        self.asked, self.asked_before = Ranges(), self.asked
        self.turn_ns = now_ns + self.length_ns


def _total(ranges: list[Range]) -> int:
    return sum(stop - first for first, stop in ranges)
