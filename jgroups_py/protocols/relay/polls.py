"""Polls: whether every member of the group has delivered something. For receipts (receipts.py).

The asker multicasts CHECK; a member answers CHECKED when it has delivered what was asked for, and says which part of it
it was told it will never get. Who asks is the relay for messages of other sites, the origin for its own. SEEN would not
do: it says that the relay and the backups have a message, so that it cannot be lost; other members may still lack it.

One poll an origin runs at a time, so many receipts cost no more than a few. A view change begins it again, for the
members of the new view. Of the origin's own messages those of earlier views need not be asked for: whoever came along
into this view has delivered them (virtual synchrony), so it is enough that it answers at all.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import attrs

from jgroups_py.address import Address
from jgroups_py.protocols.relay.headers import Held, Vector
from jgroups_py.protocols.relay.receipt_headers import Check, Checked, Ranges
from jgroups_py.protocols.relay.receiving import RELIABLE

if TYPE_CHECKING:
    from jgroups_py.protocols.relay.relay import Relay

Key = tuple[str, Address]                    # (site, origin)
GAPS_KEPT = 64                               # per origin; a member that lost more is told of here by its latest ones
DELIVERED_BEFORE = 0                         # asked for instead of a number: this view's installation says it all


@attrs.define(eq=False)
class Poll:
    """Whether the members have everything below `number`; `asked` is what CHECK said, `missing` has not answered."""

    number: int
    asked: int
    missing: dict[Address, None]
    lost: dict[tuple[int, int], None] = attrs.Factory(dict)


class Polls:
    """See the module. settled: told (site, origin, number, what some member lost) when a poll is over."""

    def __init__(self, relay: Relay, settled: Callable[[str, Address, int, Ranges], None]) -> None:
        self.relay = relay
        self.settled = settled
        # The asker's:
        self.wanted: dict[Key, int] = {}                     # what somebody waits for
        self.running: dict[Key, Poll] = {}
        self.done: dict[Key, tuple[int, Ranges]] = {}        # the result of the last poll in this view
        self.view_start = 1                                  # our own messages below it are of earlier views
        # Every member's:
        self.owed: dict[Key, tuple[Address, int]] = {}       # not answered yet: who asked, for what
        self.gaps: dict[Address, list[tuple[int, int]]] = {}     # origin -> what we shall never have

    # --- the asker --------------------------------------------------------------------------------------------------

    def want(self, site: str, origin: Address, number: int) -> None:
        """Say `settled` once all members have everything below `number`, or more."""
        key = site, origin
        known, lost = self.done.get(key, (0, ()))
        if number <= known:
            return self.settled(site, origin, known, lost)
        self.wanted[key] = max(number, self.wanted.get(key, 0))
        return self.ask(key)

    def ask(self, key: Key) -> None:
        """Begin the next poll of an origin, as far as the members will get its messages without us doing anything."""
        wanted = self.wanted.get(key)
        if wanted is None or key in self.running:
            return
        number = min(wanted, self._sent(key))
        if number <= self.done.get(key, (1, ()))[0]:
            return
        site, origin = key
        before = origin == self.relay.me and number <= self.view_start
        asked = DELIVERED_BEFORE if before else number
        self.running[key] = Poll(number, asked, dict.fromkeys(self.relay.view.members))
        self.relay.count("polls")
        self.relay.send(Check({site: {origin: asked}}), dest=None, flags=RELIABLE)

    def _sent(self, key: Key) -> int:
        """What was multicast in the group of an origin's messages: below this number."""
        site, origin = key
        if site == self.relay.config.site:
            return self.relay.next_number
        return self.relay.receiving.wanted(site, origin, 1)

    def answered(self, header: Checked, member: Address) -> None:
        """A member has delivered what was asked for."""
        if header.view_id != self.relay.view.id:
            return self.relay.count("checked_in_other_view")
        for site, numbers in header.vector.items():
            for origin, number in numbers.items():
                poll = self.running.get((site, origin))
                if poll is None or number < poll.asked:
                    continue
                poll.missing.pop(member, None)
                poll.lost.update(dict.fromkeys(header.lost.get(origin, ())))
                if not poll.missing:
                    self._finish((site, origin), poll)
        return None

    def _finish(self, key: Key, poll: Poll) -> None:
        del self.running[key]
        lost = tuple(sorted(poll.lost))
        self.done[key] = poll.number, lost
        if self.wanted.get(key, 0) <= poll.number:
            self.wanted.pop(key, None)
        self.settled(*key, poll.number, lost)
        self.ask(key)

    # --- every member -----------------------------------------------------------------------------------------------

    def check(self, header: Check, asker: Address) -> None:
        """Answer now, or when what was asked for is delivered."""
        for site, numbers in header.vector.items():
            for origin, number in numbers.items():
                if self._may_ask(site, origin, asker):
                    self.owed[site, origin] = asker, number
        self._answer(list(self.owed))

    def _may_ask(self, site: str, origin: Address, asker: Address) -> bool:
        if site == self.relay.config.site:
            return asker == origin
        return asker == self.relay.view.coordinator and self.relay.receiving.synced

    def delivered(self, site: str, origin: Address) -> None:
        """More of an origin was delivered."""
        if (site, origin) in self.owed:
            self._answer([(site, origin)])

    def skipped(self, origin: Address, first: int, stop: int) -> None:
        """We shall never have these: they are lost for us, or were sent before we got the first one of the origin."""
        if first >= stop:
            return
        gaps = self.gaps.setdefault(origin, [])
        gaps.append((first, stop))
        del gaps[:-GAPS_KEPT]

    def _answer(self, keys: Iterable[Key]) -> None:
        answers: dict[Address, tuple[Vector, Held]] = {}
        for key in keys:
            asker, number = self.owed[key]
            if number > self._delivered(key) or not self._knows_gaps(key):
                continue
            del self.owed[key]
            site, origin = key
            vector, lost = answers.setdefault(asker, ({}, {}))
            vector.setdefault(site, {})[origin] = number
            if origin in self.gaps:
                lost[origin] = tuple(self.gaps[origin])
        for asker, (vector, lost) in answers.items():
            answer = Checked(self.relay.view.id, vector, lost)
            if asker == self.relay.me:
                self.answered(answer, asker)
            else:
                self.relay.send(answer, asker, flags=RELIABLE)

    def _delivered(self, key: Key) -> int:
        site, origin = key
        numbers = self.relay.numbers if site == self.relay.config.site else self.relay.receiving.seen.get(site, {})
        return numbers.get(origin, 1)

    def _knows_gaps(self, key: Key) -> bool:
        """After a merge virtual synchrony says nothing of the other half's messages before ENDS did; nor can we say
        which of its messages an origin has lost before its next one shows it."""
        divergence = self.relay.divergence
        return key[0] != self.relay.config.site or (divergence.settled and key[1] not in divergence.forgotten)

    def settled_after_merge(self) -> None:
        """What we lack of our own site's messages is known now."""
        self._answer(list(self.owed))

    # --- views and memory -------------------------------------------------------------------------------------------

    def view_changed(self) -> None:
        """Nobody is owed an answer of an earlier view; what is wanted is asked again, of the members of this one."""
        relay = self.relay
        self.owed, self.running, self.done = {}, {}, {}
        self.view_start = relay.numbers.get(relay.me, 1)
        if not relay.is_relay:
            self.wanted = {key: number for key, number in self.wanted.items() if key[0] == relay.config.site}
        for key in list(self.wanted):
            self.ask(key)

    def forget(self, origin: Address) -> None:
        """Drop everything about an origin."""
        self.gaps.pop(origin, None)
        for table in (self.wanted, self.running, self.done, self.owed):
            for key in [key for key in table if key[1] == origin]:
                del table[key]
