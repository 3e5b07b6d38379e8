"""When to request missing messages: not at once, not all at a time, not twice in a row. Pure arithmetic.

A hole is requested once it was there in the previous round too, since it may be mere reordering. What was requested is
not requested again during the rest of this turn and the whole next one. A turn lasts twice as long as answers usually
take; turns double in length while no answers come. Source: JGroups NAKACK2 (two rounds). The turns are not in JGroups:
they are timed as TCP times retransmissions (RFC 6298), but counted from the first request, which errs on the slow side.
"""
from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.protocols.nakack.config import NakackConfig
from jgroups_py.windows.ranges import Range, Ranges

USUAL_BYTES = 1000                             # of a message, while none was retransmitted
MESSAGE_BYTES = 4                              # its length, on the wire
MOST_DOUBLINGS = 10
DELAY_PART = 4                                 # the delay grows to this part of xmit_interval at most
ASKS_KEPT = 64                                 # requests whose time is kept, to measure how long answers take
SMOOTHING = 8                                  # a new time weighs 1/8, as in RFC 6298


class NakPacing:
    """How soon to send requests, adapted to how earlier ones ended; one for all senders.

    delay_ns: how long a hole may be mere reordering; raised_ns: when it was raised last, which happens once for all
    batches that were late together; answer_ns: how long answers take, 0: not measured yet.
    """

    __slots__ = ("answer_ns", "config", "delay_ns", "raised_ns")

    def __init__(self, config: NakackConfig) -> None:
        self.config = config
        self.delay_ns = config.first_ask_ns
        self.raised_ns = -config.xmit_interval_ns
        self.answer_ns = 0

    def premature(self, now_ns: int) -> None:
        """The original arrived although it had been requested: the network reorders by more than `delay_ns`."""
        if now_ns - self.raised_ns >= self.delay_ns:
            self.raised_ns = now_ns
            most_ns = max(self.config.first_ask_ns, self.config.xmit_interval_ns // DELAY_PART)
            self.delay_ns = min(2 * self.delay_ns, most_ns)

    def answered(self, after_ns: int) -> None:
        """A requested message arrived `after_ns` after the request: it was lost, so the delay shrinks again."""
        self.delay_ns = max(self.config.first_ask_ns, self.delay_ns - self.delay_ns // SMOOTHING)
        self.answer_ns += (after_ns - self.answer_ns) // SMOOTHING if self.answer_ns else after_ns

    def turn_ns(self, fails: int) -> int:
        """How long a turn lasts after `fails` turns in a row without an answer (exponential backoff)."""
        least = max(self.config.ask_again_ns, 2 * self.answer_ns)
        # A request is repeated after two turns, so two turns make the longest interval.
        return min(least << min(fails, MOST_DOUBLINGS), self.config.xmit_interval_ns // 2)


class NakSchedule:
    """The negative acknowledgements for one sender's messages.

    seen: holes below this number were there in the previous round; fails: turns in a row in which none of the
    requested messages arrived; ends_ns: when the current turn ends; mean_bytes: the usual size of this sender's
    messages; not_kept: member -> below this number it keeps nothing any more, by its own answer; tried: member -> how
    often it got a request for number tried_for, which another member no longer keeps.
    """

    __slots__ = ("asked", "asked_before", "asks", "ends_ns", "fails", "mean_bytes", "not_kept", "pacing", "seen",
                 "tried", "tried_for")

    def __init__(self, pacing: NakPacing) -> None:
        self.pacing = pacing
        self.seen = 0
        self.fails = 0
        self.ends_ns = 0
        self.mean_bytes = USUAL_BYTES
        self.not_kept: dict[Address, int] = {}
        self.tried: dict[Address, int] = {}
        self.tried_for = 0
        self.asked = Ranges()                  # in this turn
        self.asked_before = Ranges()           # in the turn before
        self.asks: deque[tuple[int, int, int]] = deque(maxlen=ASKS_KEPT)      # first, stop, when; oldest first

    def is_asked(self, number: int) -> bool:
        """Whether this message was requested so recently that the answer may still be under way."""
        return number in self.asked or number in self.asked_before

    def next_to_try(self, number: int, members: Iterable[Address], times: int) -> Address | None:
        """The member to request `number` from, after another has dropped it: of those that may keep it, the one that
        got the fewest requests.

        None: each that may keep it got `times` requests.
        """
        if number != self.tried_for:
            self.tried, self.tried_for = {}, number
        others = [member for member in members
                  if self.not_kept.get(member, 0) <= number and self.tried.get(member, 0) < times]
        if not others:
            return None
        other = min(others, key=lambda member: self.tried.get(member, 0))
        self.tried[other] = self.tried.get(other, 0) + 1
        return other

    def answered(self, first: int, batch: Batch, now_ns: int) -> None:
        """A retransmission arrived."""
        self.mean_bytes = MESSAGE_BYTES + batch.nbytes // batch.count
        asked_ns = next((at_ns for begin, end, at_ns in self.asks if begin <= first < end), None)
        if asked_ns is not None:
            self.pacing.answered(now_ns - asked_ns)

    def due(self, holes: list[Range], now_ns: int) -> list[Range]:
        """Which of `holes` to request now.

        What is outstanding at a time is bounded by messages and by estimated bytes: a burst of retransmissions larger
        than the receivers' socket buffers would be lost again.
        """
        if now_ns >= self.ends_ns:
            self._next_turn(holes, now_ns)
        fresh = [piece for hole in holes for rest in self.asked.holes(*hole)
                 for piece in self.asked_before.holes(*rest)]
        config = self.pacing.config
        most_bytes = min(config.ask_bytes, config.max_ahead_bytes)          # more could not be kept on arrival
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
        """Requests of the turn before the last are due again; if some of them are still holes, that turn failed."""
        if any(self.asked_before.overlap(*hole) for hole in holes):
            self.fails += 1
        elif self.asked_before:
            self.fails = 0
        self.asked, self.asked_before = Ranges(), self.asked
        self.ends_ns = now_ns + self.pacing.turn_ns(self.fails)


def _total(ranges: list[Range]) -> int:
    return sum(stop - first for first, stop in ranges)
