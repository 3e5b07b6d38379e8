"""When to ask for missing messages: not at once, not all at a time, not twice in a row. Pure arithmetic.

A hole is asked for once it was there in the previous round too, since it may be mere reordering. What was asked for
is not asked for again during the rest of this turn and the whole next one. A turn lasts twice as long as answers
usually take; turns double in length while answers fail to come. Source: JGroups NAKACK2 (two rounds); the turns are
ours, timed as TCP times retransmissions (RFC 6298), but counted from the first request, which errs on the slow side.
"""
from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from jgroups_py.address import Address
from jgroups_py.batch import Batch
from jgroups_py.protocols.nakack.config import NakackConfig
from jgroups_py.windows.ranges import Range, Ranges

USUAL_BYTES = 1000                             # of a message of which nothing is known
MESSAGE_BYTES = 4                              # its length, on the wire
MOST_DOUBLINGS = 10
PATIENCE_PART = 4                              # patience grows to this part of xmit_interval at most
ASKS_KEPT = 64                                 # to know how long answers take
SMOOTHING = 8                                  # a new time weighs 1/8, as in RFC 6298


class Pace:
    """How fast to ask, learnt from what came of asking; one for all senders.

    patience_ns: how long a gap may be mere reordering; raised_ns: when it was raised last, which happens once for all
    that was late together; answer_ns: how long answers take, 0: not known yet.
    """

    __slots__ = ("answer_ns", "config", "patience_ns", "raised_ns")

    def __init__(self, config: NakackConfig) -> None:
        self.config = config
        self.patience_ns = config.first_ask_ns
        self.raised_ns = -config.xmit_interval_ns
        self.answer_ns = 0

    def premature(self, now_ns: int) -> None:
        """The original arrived although it had been asked for."""
        if now_ns - self.raised_ns >= self.patience_ns:
            self.raised_ns = now_ns
            most_ns = max(self.config.first_ask_ns, self.config.xmit_interval_ns // PATIENCE_PART)
            self.patience_ns = min(2 * self.patience_ns, most_ns)

    def answered(self, after_ns: int) -> None:
        """What was asked for came `after_ns` later."""
        self.patience_ns = max(self.config.first_ask_ns, self.patience_ns - self.patience_ns // SMOOTHING)
        self.answer_ns += (after_ns - self.answer_ns) // SMOOTHING if self.answer_ns else after_ns

    def turn_ns(self, fails: int) -> int:
        """How long a turn lasts after so many turns without an answer."""
        least = max(self.config.ask_again_ns, 2 * self.answer_ns)
        # A request is repeated after two turns, so two turns make the longest interval.
        return min(least << min(fails, MOST_DOUBLINGS), self.config.xmit_interval_ns // 2)


class Gaps:
    """The requests for one sender's messages.

    seen: holes below this number were there in the previous round; fails: turns in a row that brought nothing of what
    had been asked for; ends_ns: when the current turn ends; mean_bytes: what a message of this sender usually takes;
    gone: member -> below this number it keeps nothing any more, as it said; tried: members that were asked for number
    tried_for, which another does not keep any more -> how often.
    """

    __slots__ = ("asked", "asked_before", "asks", "ends_ns", "fails", "gone", "mean_bytes", "pace", "seen", "tried",
                 "tried_for")

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self.seen = 0
        self.fails = 0
        self.ends_ns = 0
        self.mean_bytes = USUAL_BYTES
        self.gone: dict[Address, int] = {}
        self.tried: dict[Address, int] = {}
        self.tried_for = 0
        self.asked = Ranges()                  # in this turn
        self.asked_before = Ranges()           # in the turn before
        self.asks: deque[tuple[int, int, int]] = deque(maxlen=ASKS_KEPT)      # first, stop, when; oldest first

    def is_asked(self, number: int) -> bool:
        """Whether an answer with this message may still be on its way."""
        return number in self.asked or number in self.asked_before

    def next_to_try(self, number: int, members: Iterable[Address], times: int) -> Address | None:
        """Whom to ask for `number`, which a member has forgotten: of those that have not the one asked least, if it was
        not asked so many `times`."""
        if number != self.tried_for:
            self.tried, self.tried_for = {}, number
        others = [member for member in members
                  if self.gone.get(member, 0) <= number and self.tried.get(member, 0) < times]
        if not others:
            return None
        other = min(others, key=lambda member: self.tried.get(member, 0))
        self.tried[other] = self.tried.get(other, 0) + 1
        return other

    def answered(self, first: int, run: Batch, now_ns: int) -> None:
        """A resent run came."""
        self.mean_bytes = MESSAGE_BYTES + run.nbytes // run.count
        asked_ns = next((at_ns for begin, end, at_ns in self.asks if begin <= first < end), None)
        if asked_ns is not None:
            self.pace.answered(now_ns - asked_ns)

    def due(self, holes: list[Range], now_ns: int) -> list[Range]:
        """Which of `holes` to ask for now, so that not too much is outstanding."""
        if now_ns >= self.ends_ns:
            self._next_turn(holes, now_ns)
        fresh = [piece for hole in holes for rest in self.asked.holes(*hole)
                 for piece in self.asked_before.holes(*rest)]
        config = self.pace.config
        most_bytes = min(config.ask_bytes, config.max_ahead_bytes)          # more could not be kept when it comes
        room = min(config.max_xmit_req, max(1, most_bytes // self.mean_bytes)) - (_total(holes) - _total(fresh))
        due = []
        for first, stop in fresh:
            if room <= 0:
                break
            stop = min(stop, first + room)
            room -= stop - first
            self.asked.add(first, stop)
            self.asks.append((first, stop, now_ns))
            due.append((first, stop))
        return due

    def _next_turn(self, holes: list[Range], now_ns: int) -> None:
        if any(self.asked_before.overlap(*hole) for hole in holes):
            self.fails += 1
        elif self.asked_before:
            self.fails = 0
        self.asked, self.asked_before = Ranges(), self.asked
        self.ends_ns = now_ns + self.pace.turn_ns(self.fails)


def _total(ranges: list[Range]) -> int:
    return sum(stop - first for first, stop in ranges)
