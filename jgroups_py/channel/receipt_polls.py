"""Receipts of one group: which members have, or have handled, the messages that senders of this channel wait for.

    sender --message, message, POLL--> all members        in one stream, in the order of sending
    sender <--------ANSWER------------ each member

A poll follows the messages in their own stream, so a member that got it has all of them (guarantee F), and a member
whose application has come to it has handled all of them. One poll of a lane is under way at a time and serves all that
wait: two thousand waiting senders cost no more messages than two.

A receipt names the members that were in the view when `send` was called, and that went with this member from each view
into the next since. By virtual synchrony these, and only these, are certain to have the message when they answer in a
later view; the others are named in `left`. A view change ends the poll that is under way, and a new one is sent,
because answers may be lost between different views. A poll is also repeated after REPEAT_NS, as FLOW may shed one.

Pure: `now_ns` is an argument, polls go out through `send`. The driver is channel/receipts.py.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import attrs

from jgroups_py.model.address import Address
from jgroups_py.model.units import seconds
from jgroups_py.model.view import MergeView, View

REPEAT_NS = seconds(5)                      # until a poll is sent again to members that have not answered
NEVER_NS = 1 << 62


@attrs.frozen
class LaneKey:
    """Waits that one poll can serve. stage: a STAGE; sites: with RELAY, those polled, (): the own group alone."""

    stage: int
    sites: tuple[str, ...] = ()


@attrs.define(eq=False)
class Cohort:
    """The members that the waits of one view are about. left: those whose answer would prove nothing any more."""

    members: dict[Address, None]
    left: dict[Address, None] = attrs.Factory(dict)

    def keep(self, together: Iterable[Address]) -> None:
        """Move all other members to `left`."""
        kept = dict.fromkeys(together)
        for member in [member for member in self.members if member not in kept]:
            del self.members[member]
            self.left[member] = None


@attrs.frozen
class PollResult:
    """All members that a wait is about have answered. failed: members whose receiver raised for the message, or that
    dropped messages of this sender (FLOW), perhaps this one."""

    members: tuple[Address, ...] = ()
    left: tuple[Address, ...] = ()
    failed: tuple[Address, ...] = ()


@attrs.define(eq=False)
class PollWait:
    """A message whose sender waits for the receipt. digest: of its payload; an answer names a failed message by it."""

    ticket: int
    lane: PollLane
    cohort: Cohort
    digest: bytes
    resolve: Callable[[PollResult], None]


@attrs.frozen
class MemberReply:
    """A member's answer. failed: digests of messages that its receiver raised for; skipped: it dropped messages."""

    failed: frozenset[bytes] = frozenset()
    skipped: bool = False

    def names(self, digest: bytes) -> bool:
        """Whether the message of this digest was not handled."""
        return self.skipped or digest in self.failed


@attrs.define(eq=False)
class RunningPoll:
    """A poll that is under way. waits: by cohort; those of one cohort end together."""

    number: int
    asked_ns: int
    waits: dict[Cohort, list[PollWait]]
    replies: dict[Address, MemberReply] = attrs.Factory(dict)


@attrs.define(eq=False)
class PollLane:
    """The waits of one key. ready: those whose message is queued, and that no poll covers yet."""

    key: LaneKey
    cohort: Cohort                                           # of the next wait to be registered
    ready: dict[int, PollWait] = attrs.Factory(dict)
    poll: RunningPoll | None = None
    settled: int = 0                                         # the number of the last poll that all had answered


class SendPoll(Protocol):
    """Sends a poll to all members (dest None) or to one; settled: as in the header ReceiptPoll."""

    def __call__(self, dest: Address | None, number: int, stage: int, settled: int, /) -> None: ...


class ReceiptPolls:
    """See the module. me: this member; own_only: stages that only this member answers for."""

    def __init__(self, send: SendPoll, own_only: tuple[int, ...] = ()) -> None:
        self._send = send
        self._own_only = own_only
        self.me: Address | None = None
        self.view: View | None = None
        self.sites: dict[str, tuple[Address, ...]] = {}      # other site -> its members
        self.waits: dict[int, PollWait] = {}
        self.number = 0                                      # of the last poll
        self._lanes: dict[LaneKey, PollLane] = {}

    # --- waiting ----------------------------------------------------------------------------------------------------

    def register(self, key: LaneKey, ticket: int, digest: bytes, resolve: Callable[[PollResult], None]) -> None:
        """Add a wait, about the present members, before its message is queued. `resolve` is called once at most."""
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = PollLane(key, Cohort(self._members(key)))
        self.waits[ticket] = PollWait(ticket, lane, lane.cohort, digest, resolve)

    def ready(self, tickets: Iterable[int], now_ns: int) -> None:
        """The messages of these waits are queued; with sites, all members of those sites have them."""
        lanes: dict[PollLane, None] = {}
        for ticket in tickets:
            wait = self.waits.get(ticket)
            if wait is not None:
                wait.lane.ready[ticket] = wait
                lanes[wait.lane] = None
        for lane in lanes:
            self._start(lane, now_ns)

    def give_up(self, ticket: int) -> None:
        """End a wait without a result."""
        wait = self.waits.pop(ticket, None)
        if wait is not None:
            wait.lane.ready.pop(ticket, None)

    def left(self, ticket: int) -> tuple[Address, ...]:
        """The members in `left`, of a wait that has not ended."""
        wait = self.waits.get(ticket)
        return () if wait is None else tuple(wait.cohort.left)

    def due_ns(self) -> int:
        """When `repeat` is to be called."""
        asked_ns = min((lane.poll.asked_ns for lane in self._lanes.values() if lane.poll is not None), default=NEVER_NS)
        return asked_ns + REPEAT_NS

    def repeat(self, now_ns: int) -> None:
        """Repeat the polls that are unanswered for REPEAT_NS."""
        for lane in self._lanes.values():
            poll = lane.poll
            if poll is not None and now_ns >= poll.asked_ns + REPEAT_NS:
                if any(wait.ticket in self.waits for waits in poll.waits.values() for wait in waits):
                    poll.asked_ns = now_ns
                    self._ask(lane, poll)
                else:                                        # all its waits have ended
                    lane.poll = None
                    self._start(lane, now_ns)

    # --- members ----------------------------------------------------------------------------------------------------

    def view_installed(self, view: View, now_ns: int) -> None:
        """The view of the group has changed."""
        together = moved_together(self.view, view, self.me)
        self.view = view
        for lane in list(self._lanes.values()):
            if lane.key.sites:
                apart = [member for member in self._own_of(lane) if member not in together]
                self._keep(lane, lambda member: member not in apart)       # noqa: B023  called at once
                self._complete(lane, now_ns)
                continue
            self._keep(lane, together.__contains__)
            poll, lane.poll = lane.poll, None
            if poll is not None:
                asked = {wait.ticket: wait for waits in poll.waits.values() for wait in waits
                         if wait.ticket in self.waits}
                lane.ready = {**asked, **lane.ready}
            self._start(lane, now_ns)

    def sites_changed(self, sites: dict[str, tuple[Address, ...]], now_ns: int) -> None:
        """With RELAY: the members of some site have changed. sites: other site -> its members."""
        gone = {member for members in self.sites.values() for member in members}
        self.sites = sites
        there = {member: None for members in self.sites.values() for member in members}
        self._without([member for member in sorted(gone) if member not in there], now_ns)

    def unreachable(self, member: Address, now_ns: int) -> None:
        """With RELAY: a poll may not have reached this member of another site."""
        if self.view is None or member not in self.view.members:
            self._without([member], now_ns)

    def _without(self, gone: list[Address], now_ns: int) -> None:
        for lane in [lane for lane in self._lanes.values() if lane.key.sites]:
            self._keep(lane, lambda member: member not in gone)
            self._complete(lane, now_ns)

    def _keep(self, lane: PollLane, stays: Callable[[Address], bool]) -> None:
        """The members that a lane's waits are about change; the next wait is about the present members."""
        cohorts = {wait.cohort: None for wait in self.waits.values() if wait.lane is lane}
        for cohort in cohorts:
            cohort.keep([member for member in cohort.members if stays(member)])
        lane.cohort = Cohort(self._members(lane.key))

    def _members(self, key: LaneKey) -> dict[Address, None]:
        own = self.view.members if self.view is not None else ()
        if key.stage in self._own_only:
            return {} if self.me is None else {self.me: None}
        if not key.sites:
            return dict.fromkeys(own)
        return {member: None for site in key.sites for member in (self.sites.get(site, ()) if site else own)}

    def _own_of(self, lane: PollLane) -> list[Address]:
        """The members of the own group among those that a lane's waits are about."""
        others = {member for members in self.sites.values() for member in members}
        return [member for wait in self.waits.values() if wait.lane is lane for member in wait.cohort.members
                if member not in others]

    # --- polls ------------------------------------------------------------------------------------------------------

    def _start(self, lane: PollLane, now_ns: int) -> None:
        """Send a poll for all waits that are ready, unless one is under way."""
        if lane.poll is not None or not lane.ready:
            return
        waits: dict[Cohort, list[PollWait]] = {}
        for wait in lane.ready.values():
            waits.setdefault(wait.cohort, []).append(wait)
        lane.ready = {}
        self.number += 1
        lane.poll = RunningPoll(self.number, now_ns, waits)
        self._ask(lane, lane.poll)
        self._complete(lane, now_ns)                         # all the members that it is about may have left

    def _ask(self, lane: PollLane, poll: RunningPoll) -> None:
        if not lane.key.sites:
            return self._send(None, poll.number, lane.key.stage, lane.settled)
        asked = {member: None for cohort in poll.waits for member in cohort.members if member not in poll.replies}
        for member in asked:
            self._send(member, poll.number, lane.key.stage, lane.settled)
        return None

    def answered(self, member: Address, number: int, reply: MemberReply, now_ns: int) -> bool:
        """A member's answer; returns whether it belongs to a poll that is under way."""
        for lane in self._lanes.values():
            if lane.poll is not None and lane.poll.number == number:
                lane.poll.replies[member] = reply
                self._complete(lane, now_ns)
                return True
        return False

    def _complete(self, lane: PollLane, now_ns: int) -> None:
        """End the waits of each cohort whose members have all answered."""
        poll = lane.poll
        if poll is None:
            return
        for cohort in [cohort for cohort in poll.waits if cohort.members.keys() <= poll.replies.keys()]:
            members, left = tuple(cohort.members), tuple(cohort.left)
            bad = {member: poll.replies[member] for member in members
                   if poll.replies[member].failed or poll.replies[member].skipped}
            result = PollResult(members, left)               # of most, or of all
            for wait in poll.waits.pop(cohort):
                if self.waits.pop(wait.ticket, None) is not None:
                    failed = tuple([member for member, reply in bad.items() if reply.names(wait.digest)]) if bad else ()
                    wait.resolve(PollResult(members, left, failed) if failed else result)
        if not poll.waits:
            lane.poll, lane.settled = None, poll.number
            self._start(lane, now_ns)


def moved_together(before: View | None, now: View, me: Address | None) -> frozenset[Address]:
    """The members that are certain to have gone from `before` into `now` with this one (virtual synchrony, S5).

    A merge may bring back a member that was apart, without a view here that lacks it. Its subgroup shows that: the
    member is not in this member's last one, or it is in another one too.
    """
    if before is None:
        return frozenset(now.members)
    both = set(before.members).intersection(now.members)
    if isinstance(now, MergeView):
        own = [group for group in now.subgroups if group.id == before.id]
        others = [group for group in now.subgroups if group.id != before.id]
        came = set(own[0].members) if own else set()
        both = both.intersection(came).difference(*[set(group.members) for group in others])
        if me is not None and me in now.members:
            both.add(me)
    return frozenset(both)
