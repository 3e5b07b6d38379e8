"""Delivery checks: whether every member of the group has delivered something. For receipts (receipts.py).

The relay checks messages of other sites, an origin its own. The checking member multicasts CHECK; each member answers
with CHECKED when it has delivered what CHECK names, with the ranges that it will never get. SEEN is not enough: it
promises that relay and backups have a message, so that it cannot be lost; other members may still lack it.

One check per origin runs at a time, so many receipts cost no more than a few. A view change starts it anew, for the
members of the new view. An origin's messages of earlier views need no number: every member that came with it into this
view has delivered them (virtual synchrony), so it is enough that it answers in this view.
"""
from __future__ import annotations

from collections.abc import Iterable

import attrs

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.events import ViewChange
from jgroups_py.protocols.relay.announcements import (
    NumbersSettledAfterMerge,
    OriginForgotten,
    PrefixDelivered,
    PrefixSkipped,
)
from jgroups_py.protocols.relay.group import LocalGroup
from jgroups_py.protocols.relay.headers import Held, Vector
from jgroups_py.protocols.relay.headers.receipts import Check, Checked, Ranges
from jgroups_py.protocols.relay.part import RELIABLE, RelayPart, RelayPort, on_announcement
from jgroups_py.protocols.relay.ports import (
    DeliveryCheckPort,
    DeliveryPort,
    DisseminatorPort,
    DivergencePort,
    NumberingPort,
    ReceiptsPort,
    SyncPort,
)
from jgroups_py.stack.component import needs
from jgroups_py.stack.protocol import on, receives

Key = tuple[str, Address]                    # (site, origin)
GAPS_KEPT = 64                               # per origin; of more gaps, only the latest are reported
DELIVERED_BEFORE = 0                         # instead of a number: any answer in this view will do


@attrs.define(eq=False)
class RunningCheck:
    """Whether all members have everything below `number`.

    checked_number: as in CHECK; missing: members that have not answered; lost: the ranges that some members never get.
    """

    number: int
    checked_number: int
    missing: dict[Address, None]
    lost: dict[tuple[int, int], None] = attrs.Factory(dict)


class DeliveryCheck(RelayPart, DeliveryCheckPort):
    """See the module."""

    group: LocalGroup = needs(LocalGroup)
    numbering: NumberingPort = needs(NumberingPort)
    synchronizer: SyncPort = needs(SyncPort)
    delivery: DeliveryPort = needs(DeliveryPort)
    disseminator: DisseminatorPort = needs(DisseminatorPort)
    divergence: DivergencePort = needs(DivergencePort)
    receipts: ReceiptsPort = needs(ReceiptsPort)

    def __init__(self, layer: RelayPort) -> None:
        super().__init__(layer)
        # Of the checking member:
        self.required: dict[Key, int] = {}                   # the number up to which receipts are waited for
        self.running: dict[Key, RunningCheck] = {}
        self.done: dict[Key, tuple[int, Ranges]] = {}        # the result of the last check in this view
        self.view_start = 1                                  # this member's messages below it are of earlier views
        # Of every member:
        self.unanswered: dict[Key, tuple[Address, int]] = {}     # CHECKs without an answer: their source and number
        self.gaps: dict[Address, list[tuple[int, int]]] = {}     # origin -> ranges that never arrive here

    # --- checking ---------------------------------------------------------------------------------------------------

    def require(self, site: str, origin: Address, number: int) -> None:
        key = site, origin
        known, lost = self.done.get(key, (0, ()))
        if number <= known:
            return self.receipts.settled_here(site, origin, known, lost)
        self.required[key] = max(number, self.required.get(key, 0))
        return self.start_check(key)

    def start_check(self, key: Key) -> None:
        """Start the next check of an origin, unless one runs.

        It ends at what was multicast in the group so far: no member can answer for the rest yet, and such a check would
        delay the receipts for lower numbers.
        """
        required = self.required.get(key)
        if required is None or key in self.running:
            return
        number = min(required, self._sent(key))
        if number <= self.done.get(key, (1, ()))[0]:
            return
        site, origin = key
        before = origin == self.me and number <= self.view_start
        checked_number = DELIVERED_BEFORE if before else number
        self.running[key] = RunningCheck(number, checked_number, dict.fromkeys(self.group.view.members))
        self.count("delivery_checks")
        self.send(Check({site: {origin: checked_number}}), dest=None, flags=RELIABLE)

    def _sent(self, key: Key) -> int:
        """The number below which an origin's messages were multicast in the group."""
        site, origin = key
        if site == self.config.site:
            return self.numbering.next_number
        return self.disseminator.wanted(site, origin, 1)

    @receives(Checked)
    def checked_received(self, header: Checked, batch: Batch) -> None:
        """A member has delivered what CHECK names."""
        member = batch.src
        if header.view_id != self.group.view.id:
            return self.drop("checked_in_other_view", batch, "it answers a CHECK of another view", header)
        for site, numbers in header.vector.items():
            for origin, number in numbers.items():
                running = self.running.get((site, origin))
                if running is None or number < running.checked_number:
                    continue
                running.missing.pop(member, None)
                running.lost.update(dict.fromkeys(header.lost.get(origin, ())))
                if not running.missing:
                    self._finish((site, origin), running)
        return None

    def _finish(self, key: Key, check: RunningCheck) -> None:
        del self.running[key]
        lost = tuple(sorted(check.lost))
        self.done[key] = check.number, lost
        if self.required.get(key, 0) <= check.number:
            self.required.pop(key, None)
        self.receipts.settled_here(*key, check.number, lost)
        self.start_check(key)

    # --- answering --------------------------------------------------------------------------------------------------

    @receives(Check)
    def check_received(self, header: Check, batch: Batch) -> None:
        """Answer now, or when everything that CHECK names is delivered. A later CHECK replaces an earlier one."""
        for site, numbers in header.vector.items():
            for origin, number in numbers.items():
                if self._may_check(site, origin, batch.src):
                    self.unanswered[site, origin] = batch.src, number
        self._answer(list(self.unanswered))

    def _may_check(self, site: str, origin: Address, checker: Address) -> bool:
        if site == self.config.site:
            return checker == origin
        # Before SYNC this member's next number of an origin may be higher or lower than the relay's, since messages may
        # lie between that were not meant for this member. An answer would compare numbers that do not fit.
        return checker == self.group.view.coordinator and self.synchronizer.synced

    @on_announcement(PrefixDelivered)
    def delivered(self, event: PrefixDelivered) -> None:
        """More of an origin was delivered, perhaps all that a waiting CHECK names."""
        if (event.site, event.origin) in self.unanswered:
            self._answer([(event.site, event.origin)])

    @on_announcement(PrefixSkipped)
    def skipped(self, event: PrefixSkipped) -> None:
        """This member never gets these: they are lost for it, or were sent before messages were meant for it."""
        if event.first >= event.stop:
            return
        gaps = self.gaps.setdefault(event.origin, [])
        gaps.append((event.first, event.stop))
        del gaps[:-GAPS_KEPT]

    def _answer(self, keys: Iterable[Key]) -> None:
        answers: dict[Address, tuple[Vector, Held]] = {}
        for key in keys:
            checker, number = self.unanswered[key]
            if number > self._delivered(key) or not self._gaps_are_settled(key):
                continue
            del self.unanswered[key]
            site, origin = key
            vector, lost = answers.setdefault(checker, ({}, {}))
            vector.setdefault(site, {})[origin] = number
            if origin in self.gaps:
                lost[origin] = tuple(self.gaps[origin])
        for checker, (vector, lost) in answers.items():
            answer = Checked(self.group.view.id, vector, lost)
            if checker == self.me:
                self.checked_received(answer, Batch(self.me, self.me))
            else:
                self.send(answer, checker, flags=RELIABLE)

    def _delivered(self, key: Key) -> int:
        site, origin = key
        numbers = self.numbering.numbers if site == self.config.site else self.delivery.seen.get(site, {})
        return numbers.get(origin, 1)

    def _gaps_are_settled(self, key: Key) -> bool:
        """Whether it is certain which messages of an origin this member never gets.

        Between a merge and ENDS it is not, since virtual synchrony promises nothing about messages of the other half.
        Nor is it after NAKACK reported a loss, until the origin's next message shows which of RELAY's numbers are lost.
        """
        divergence = self.divergence
        return key[0] != self.config.site or (divergence.settled and key[1] not in divergence.nakack_losses)

    @on_announcement(NumbersSettledAfterMerge)
    def settled_after_merge(self, event: NumbersSettledAfterMerge) -> None:
        """What this member lacks of its own site's messages is certain now."""
        self._answer(list(self.unanswered))

    # --- views, forgetting ------------------------------------------------------------------------------------------

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        """CHECKs of an earlier view need no answer; what is required is checked anew, by the members of this view."""
        self.unanswered, self.running, self.done = {}, {}, {}
        self.view_start = self.numbering.numbers.get(self.me, 1)
        if not self.group.is_relay:
            self.required = {key: number for key, number in self.required.items() if key[0] == self.config.site}
        for key in list(self.required):
            self.start_check(key)

    @on_announcement(OriginForgotten)
    def forget(self, event: OriginForgotten) -> None:
        origin = event.origin
        self.gaps.pop(origin, None)
        for table in (self.required, self.running, self.done, self.unanswered):
            for key in [key for key in table if key[1] == origin]:
                del table[key]
