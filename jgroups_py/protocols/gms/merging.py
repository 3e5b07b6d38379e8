"""Merging: groups that had been apart become one.

The leader is the lowest address among the coordinators. It asks the others to flush their groups, flushes its own
last (so that it does not stand still while others dawdle), then decides one MergeView over all flushes at once.
A group is merged only if all members of its view take part; otherwise it first changes its view in the ordinary way
and is asked again, so that whoever is in two groups' views at once (asymmetric partitions) is sorted out before.
A group that is ready waits for its leader for merge_timeout, then goes on by itself with a higher ballot. Where the
members that discovery finds are far away, both wait longer (`patience_ns`): a merge takes up to ten round trips.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from jgroups_py.address import Address
from jgroups_py.events import AddressesKnown
from jgroups_py.protocols.gms.chair import SILENT_TICKS, repeat_ns, ticks_within
from jgroups_py.protocols.gms.flush import READY, Flush, MergeKey
from jgroups_py.protocols.gms.headers import FlushId, Install, MergeAsk, MergeOff, MergePlease, MergeReady
from jgroups_py.protocols.gms.states import MEMBER
from jgroups_py.protocols.gms.totals import Sums, united
from jgroups_py.view import MergeView, View, ViewId

if TYPE_CHECKING:
    from jgroups_py.protocols.gms.gms import Gms

MAX_WISHES = 1000          # groups to unite with; those left out are heard of again
MAX_DOUBLINGS = 4          # of the pause after merges whose leader fell silent
# A partner gets ready in 3 round trips if all are alike, in 5 if those within its group are the longest; it needs 3
# more if it is in the middle of a change.
PARTNER_TRIPS = 8
MERGE_TRIPS = 2 * PARTNER_TRIPS          # then the leader's group gets ready, and the view has to come
MOST_TIMEOUTS = 4          # no merge lasts longer than so many merge_timeouts, however far away others say they are
KEEP_ALIVE_TICKS = 4       # how often a group that waits for its leader shows its members that it lives


class Merge:
    """What the leader of a merge knows. partners: coordinator -> its view; ready: those that are flushed."""

    def __init__(self, number: int, partners: Mapping[Address, ViewId], now_ns: int) -> None:
        self.number = number
        self.partners = dict(partners)
        self.ready: dict[Address, MergeReady] = {}
        self.heard: dict[Address, int] = {}            # partner -> when it last said that it is ready, ns
        self.ticks = 0
        self.since_ns = now_ns

    def missing(self) -> list[Address]:
        return [partner for partner in self.partners if partner not in self.ready]


class Merger:
    """Both roles in merges: leader (`merge`) and partner (a flush of ours with a merge key)."""

    def __init__(self, gms: Gms) -> None:
        self.gms = gms
        self.number = 0
        self.merge: Merge | None = None
        self.wish: dict[Address, ViewId] = {}          # coordinators of other groups that we should unite with
        self.abandoned = 0                             # merges in a row whose leader fell silent when we were ready
        self.wary_until_ns = 0                         # until then we get ready for no leader

    # --- finding out --------------------------------------------------------------------------------------------------

    def needed(self, views: Mapping[Address, ViewId]) -> None:
        """MERGE3 has heard members with other views; views: member -> its view."""
        gms = self.gms
        view = gms.view
        if view is None or gms.state != MEMBER:
            return
        for view_id in [view_id for member, view_id in views.items() if member in view]:
            gms.knows(view_id.counter)                 # of others it is said when we merge, by those that we merge with
        for member, other in views.items():
            if member in view and other > view.id:
                gms.is_gone(member)                    # it can only have gone on: it was here
            elif gms.acting() and gms.shown is not None and not self.leads(other, views, view):
                gms.send(gms.shown, member)            # it is behind, or was left behind
        if view.coordinator == gms.me:
            self.meet({other.coordinator: other for other in views.values() if self.leads(other, views, view)})

    @staticmethod
    def leads(other: ViewId, views: Mapping[Address, ViewId], view: View) -> bool:
        """Whether `other` is the view of a group of its own, whose coordinator was heard."""
        return other.coordinator not in view and views.get(other.coordinator) == other

    def meet(self, others: dict[Address, ViewId]) -> None:
        """These coordinators lead other groups."""
        gms = self.gms
        if not others or gms.view is None:
            return
        leader = min(gms.me, *others)
        if leader == gms.me:
            room = MAX_WISHES - len(self.wish)
            self.wish.update(list(others.items())[:room])
            self.consider()
        else:
            gms.send(MergePlease(gms.view.id), leader)

    def pleaded(self, header: MergePlease, src: Address) -> None:
        """Another coordinator takes us for the leader."""
        gms = self.gms
        if gms.view is not None and src not in gms.view and gms.me < src:
            self.meet({src: header.view_id})

    # --- leading ------------------------------------------------------------------------------------------------------

    def consider(self) -> None:
        """Start a merge if one is wished for and nothing else is under way."""
        gms = self.gms
        if isinstance(gms.view, MergeView):
            self.abandoned = 0
        if not self.wish or self.merge is not None or not self.may_merge() or gms.chair.flush is not None:
            return
        wish, self.wish = self.wish, {}
        assert gms.view is not None
        partners = {partner: view_id for partner, view_id in wish.items() if partner not in gms.view}
        if not partners:
            return
        self.number += 1
        self.merge = Merge(self.number, partners, gms.now_ns)
        gms.count("merges_led")
        gms.set_timer("merge", repeat_ns(0, gms.config.silence_ns))
        self.ask_missing(self.merge)

    def may_merge(self) -> bool:
        gms = self.gms
        return gms.state == MEMBER and gms.acting() and gms.view is not None and gms.view.coordinator == gms.me

    def patience_ns(self) -> int:
        """How long a merge may last: merge_timeout, or longer where round trips are long."""
        timeout_ns = self.gms.config.merge_timeout_ns
        trips_ns = MERGE_TRIPS * self.gms.trips.longest_ns(self.gms.now_ns)
        return min(max(timeout_ns, trips_ns), MOST_TIMEOUTS * timeout_ns)

    def ask_missing(self, merge: Merge) -> None:
        for partner in merge.missing():
            self.gms.send(MergeAsk(merge.number, merge.partners[partner]), partner)

    def tick(self) -> None:
        """Ask again; go on without those who do not get ready in time; give up when all of it lasts too long."""
        merge, gms = self.merge, self.gms
        if merge is None:
            return
        if not self.may_merge() or gms.now_ns - merge.since_ns > self.patience_ns():
            return self.end(merge)
        merge.ticks += 1
        gms.set_timer("merge", repeat_ns(merge.ticks, gms.config.silence_ns))
        partners_ns = min(PARTNER_TRIPS * gms.trips.longest_ns(gms.now_ns), self.patience_ns())
        if merge.ticks >= ticks_within(partners_ns, gms.config.silence_ns):
            for partner in merge.missing():
                del merge.partners[partner]
                gms.send(MergeOff(merge.number, None), partner)
        if not merge.partners:
            return self.end(merge)
        self.ask_missing(merge)
        self.flush_own(merge)

    def end(self, merge: Merge) -> None:
        """The merge does not take place; those who wait for it are told."""
        self.merge = None
        self.gms.cancel_timer("merge")
        for partner in merge.ready:
            self.gms.send(MergeOff(merge.number, None), partner)

    def flush_own(self, merge: Merge) -> None:
        """When all partners are ready it is our own group's turn."""
        gms = self.gms
        assert gms.view is not None
        if merge.missing() or not merge.ready or gms.chair.flush is not None or not self.may_merge():
            return
        gms.chair.start((gms.me, merge.number) if len(gms.present()) == len(gms.view) else None)

    def partner_ready(self, header: MergeReady, src: Address) -> None:
        """A partner's group is flushed."""
        gms, merge = self.gms, self.merge
        asked = merge is not None and header.number == merge.number and src in merge.partners
        if asked and merge is not None and gms.knows(header.counter):
            gms.pass_down(AddressesKnown(header.book))
            merge.ready[src], merge.heard[src] = header, gms.now_ns
            self.flush_own(merge)
        elif gms.shown is not None and header.flush in gms.shown.flushes:
            gms.send(gms.shown, src)
        else:
            gms.send(MergeOff(header.number, None), src)
            if asked and merge is not None:
                self.end(merge)
                gms.approach(header.counter)

    def partner_off(self, header: MergeOff, src: Address) -> None:
        """Leading: a partner has another view, or none. Following: our leader gave up."""
        gms, merge, flush = self.gms, self.merge, self.gms.chair.flush
        if flush is not None and flush.merge == (src, header.number):
            gms.refresh = True
            gms.chair.restart()
        elif merge is not None and header.number == merge.number and src in merge.partners:
            merge.ready.pop(src, None)
            if header.view_id is None:
                del merge.partners[src]
            else:
                merge.partners[src] = header.view_id
                gms.send(MergeAsk(merge.number, header.view_id), src)
            if not merge.partners:
                self.end(merge)
            else:
                self.flush_own(merge)

    def decide(self, merge: Merge, own: Flush) -> None:
        """Everybody everywhere has accepted: name the view."""
        gms = self.gms
        self.merge = None
        gms.cancel_timer("merge")
        taken = dict.fromkeys((*own.view.members, *own.stayers))
        groups = []
        for partner in sorted(merge.ready):
            ready = merge.ready[partner]
            silent = gms.now_ns - merge.heard[partner] > gms.config.silence_ns // 2    # it repeats itself, if it lives
            if silent or any(member in taken for member in (*ready.view.members, *ready.members)):
                gms.send(MergeOff(merge.number, None), partner)
                continue
            taken.update(dict.fromkeys((*ready.view.members, *ready.members)))
            groups.append(ready)
        gms.decided(merged(own, groups, gms.known + 1, gms.book_of(own.stayers), gms.sums()))

    # --- following ----------------------------------------------------------------------------------------------------

    def asked(self, header: MergeAsk, src: Address) -> None:
        """A leader wants to merge us."""
        gms = self.gms
        flush = gms.chair.flush
        if not self.may_merge() or gms.view is None or src in gms.view:
            gms.send(MergeOff(header.number, None), src)
        elif gms.view.id != header.view_id:
            gms.send(MergeOff(header.number, gms.view.id), src)
        elif gms.now_ns < self.wary_until_ns:
            gms.count("merges_put_off")
            gms.send(MergeOff(header.number, None), src)
        elif flush is not None:
            if flush.merge == (src, header.number) and flush.phase == READY:
                self.report(flush, flush.merge)
        elif len(gms.present()) < len(gms.view):
            gms.chair.consider()                       # an ordinary change first, then we are asked again
        elif self.merge is None or src < gms.me:
            if self.merge is not None:
                self.end(self.merge)
            gms.chair.start((src, header.number))

    def flushed(self, flush: Flush) -> None:
        """Our group has accepted a flush that belongs to a merge."""
        assert flush.merge is not None
        merge = self.merge
        if flush.merge[0] != self.gms.me:
            self.report(flush, flush.merge)
        elif merge is not None and merge.number == flush.merge[1]:
            self.decide(merge, flush)
        else:
            self.gms.refresh = True                    # the merge ended meanwhile
            self.gms.chair.restart()

    def report(self, flush: Flush, key: MergeKey) -> None:
        """Tell the leader that we are ready."""
        gms, leader = self.gms, key[0]
        members = flush.stayers
        gms.send(MergeReady(key[1], flush.id, gms.known, plain(flush.view), members, flush.leavers,
                            gms.book_of(members), gms.sums()), leader)

    def withdraw(self, flush: Flush) -> None:
        """We were ready and are so no more."""
        assert flush.merge is not None
        leader, number = flush.merge
        if leader != self.gms.me:
            self.gms.send(MergeOff(number, None), leader)

    def ready_tick(self, flush: Flush) -> None:
        """We wait for the leader's decision: remind it, and show our members that we live."""
        gms = self.gms
        assert flush.merge is not None
        if flush.ticks * repeat_ns(SILENT_TICKS, gms.config.silence_ns) > self.patience_ns():
            gms.count("merges_abandoned")
            self.be_wary()
            gms.refresh = True
            return gms.chair.restart()
        self.report(flush, flush.merge)
        if flush.ticks % KEEP_ALIVE_TICKS == 0:
            gms.tell(gms.chair.message(), flush.asked)
        return None

    def be_wary(self) -> None:
        """Nobody delivered while we waited. Once is an accident; if it goes on, leave the group time to deliver."""
        gms = self.gms
        if self.abandoned:
            self.wary_until_ns = gms.now_ns + (self.patience_ns() << min(self.abandoned - 1, MAX_DOUBLINGS))
        self.abandoned += 1


def plain(view: View) -> View:
    """A view without what it was merged from."""
    return View(view.id, view.members)


def merged(
    own: Flush, groups: list[MergeReady], counter: int, book: dict[Address, tuple[str, int]], sums: Sums,
) -> Install:
    """The decision that unites the leader's group, whose totals are `sums`, with the others; its members first."""
    members = own.stayers + tuple(member for group in groups for member in group.members)
    leavers = own.leavers + tuple(member for group in groups for member in group.leavers)
    flushes: tuple[FlushId, ...] = (own.id, *[group.flush for group in groups])
    whole = {member: place for group in groups for member, place in group.book.items()} | book
    view_id = ViewId(counter, members[0])
    subgroups = (plain(own.view), *[plain(group.view) for group in groups])
    view = MergeView(view_id, members, subgroups) if groups else View(view_id, members)
    return Install(view, flushes, leavers, whole, united([sums, *[group.sent for group in groups]], members))
