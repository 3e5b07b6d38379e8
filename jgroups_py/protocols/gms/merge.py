"""The merge coordinator: groups that had been apart become one.

    leader:   MergeRequest to the other coordinators; when all are ready its own group's flush; then one MergeView
    partner:  flush the group under a ballot that belongs to the merge; when all accepted, MergeReady to the leader

The leader is the lowest address among the coordinators. Its group is flushed last, so that it keeps delivering while
the partners get ready. One Install over all flushes decides the merge for all groups at once.

A group is merged only if *all* members of its view take part. Otherwise it first changes its view in the ordinary way
and is asked again. So a member that is in the views of two groups (after an asymmetric partition) is in one view only
when they merge (S7, S8).

A group that is ready does not deliver, so its wait is bounded: after merge_timeout it runs a higher ballot of its own.
Where round trips are long both sides wait longer (`limit_ns`), since a merge takes up to ten of them.
"""
from __future__ import annotations

from collections.abc import Mapping

from jgroups_py.model.address import Address, PhysicalAddress
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.events import AddressesKnown, MembersFound, MergeNeeded
from jgroups_py.model.units import seconds
from jgroups_py.model.view import MergeView, View, ViewId
from jgroups_py.protocols.gms.config import GmsConfig
from jgroups_py.protocols.gms.flush import SILENT_TICKS, Flush, FlushPhase, MergeKey, repeat_ns, ticks_within
from jgroups_py.protocols.gms.headers import (
    FlushId,
    InstallHeader,
    MergeCancel,
    MergeProposal,
    MergeReady,
    MergeRequest,
)
from jgroups_py.protocols.gms.ports import GmsPort, MemberLink, ProposerPort
from jgroups_py.protocols.gms.round_trips import RoundTrips
from jgroups_py.protocols.gms.sent_counts import SentCounts, united
from jgroups_py.protocols.gms.state import GroupState, Lifecycle
from jgroups_py.stack.component import Component, on, receives, timer
from jgroups_py.wire import releases_in

MAX_CANDIDATES = 1000      # groups to merge with; MERGE3 reports those left out again
MAX_DOUBLINGS = 4          # of the backoff after merges whose leader did not answer any more
# A partner gets ready in 3 round trips if all are alike, in 5 if those within its group are the longest; it needs 3
# more if it is in the middle of a change.
PARTNER_TRIPS = 8
MERGE_TRIPS = 2 * PARTNER_TRIPS          # then the leader's group gets ready, and the view has to come
MOST_TIMEOUTS = 4          # no merge lasts longer than so many merge_timeouts, however far away others claim to be
CANDIDATE_NS = seconds(2)  # how long a report of another group counts; MERGE3 repeats it
KEEP_ALIVE_TICKS = 4       # a group that waits for its leader repeats the Cut to its members every so many ticks


class MergeAttempt:
    """The leader's bookkeeping of one merge.

    partners: coordinator -> its view; ready: those whose group is flushed; ready_at_ns: when each last reported that.
    """

    def __init__(self, number: int, partners: Mapping[Address, ViewId], now_ns: int) -> None:
        self.number = number
        self.partners = dict(partners)
        self.ready: dict[Address, MergeReady] = {}
        self.ready_at_ns: dict[Address, int] = {}
        self.ticks = 0
        self.since_ns = now_ns

    def missing(self) -> list[Address]:
        """The partners that are not ready."""
        return [partner for partner in self.partners if partner not in self.ready]


class MergeCoordinator(Component):
    """Both roles in merges: leader (`attempt`) and partner (a flush of the proposer that has a merge key).

    number: of the last merge that was led; candidates: coordinators of other groups to merge with -> their views, and
    when these were reported;
    abandoned: merges in a row whose leader stopped answering while this group was ready; backoff_until_ns: until then
    this group refuses every leader.
    """

    config: GmsConfig
    layer: GmsPort

    def __init__(self, layer: GmsPort, group: GroupState, links: MemberLink, proposer: ProposerPort) -> None:
        super().__init__(layer)
        self.group = group
        self.links = links
        self.proposer = proposer
        self.round_trips = RoundTrips()
        self.number = 0
        self.attempt: MergeAttempt | None = None
        self.candidates: dict[Address, tuple[ViewId, int]] = {}
        self.abandoned = 0
        self.backoff_until_ns = 0

    # --- finding other groups -----------------------------------------------------------------------------------------

    @on(MembersFound)
    def on_members_found(self, event: MembersFound) -> None:
        """Discovery asks every few seconds while groups are apart, and measures how far members are."""
        self.round_trips.note(event.found, self.now_ns)

    @on(MergeNeeded)
    def on_merge_needed(self, event: MergeNeeded) -> None:
        """MERGE3 received announcements of other views; event.views: member -> its view."""
        group, view, views = self.group, self.group.view, event.views
        if view is None or group.lifecycle is not Lifecycle.MEMBER:
            return
        # Counters are taken from our own members only. Those of other groups come with MergeReady, from a partner
        # that was asked: an announcement of a non-member can raise nothing here (H1).
        for view_id in [view_id for member, view_id in views.items() if member in view]:
            group.adopt_counter(view_id.counter)
        for member, other in views.items():
            if member in view and other > view.id:
                self.proposer.member_gone(member)          # a member of our view is in a later one
            elif group.acts() and group.installed is not None and not self.leads(other, views, view):
                self.send(group.installed, member)         # its view is stale, or the view's coordinator has left it
        if view.coordinator == self.me:
            self.unite_with({other.coordinator: other for other in views.values() if self.leads(other, views, view)})

    @staticmethod
    def leads(other: ViewId, views: Mapping[Address, ViewId], view: View) -> bool:
        """Whether `other` is the view of another group whose coordinator itself announced it."""
        return other.coordinator not in view and views.get(other.coordinator) == other

    def unite_with(self, others: dict[Address, ViewId]) -> None:
        """See MergePort."""
        view = self.group.view
        if not others or view is None:
            return
        # All coordinators compute the same leader, so two of them seldom lead; if so, see on_merge_request.
        leader = min(self.me, *others)
        if leader == self.me:
            room = MAX_CANDIDATES - len(self.candidates)
            self.candidates.update({member: (view_id, self.now_ns) for member, view_id in list(others.items())[:room]})
            self.consider()
        else:
            self.send(MergeProposal(view.id), leader)

    @receives(MergeProposal)
    def on_merge_proposal(self, header: MergeProposal, batch: Batch) -> None:
        """Another coordinator expects this one to lead."""
        src, view = batch.src, self.group.view
        if view is not None and src not in view and self.me < src and not self.misfits(header, batch):
            self.unite_with({src: header.view_id})

    # --- leading ------------------------------------------------------------------------------------------------------

    def consider(self) -> None:
        """Begin a merge if there is a group to merge with and nothing else is under way.

        Reports that waited for another merge to end may be out of date. A merge waits up to eight round trips for a
        coordinator that has left meanwhile, and all groups that are ready stand still with it; so those to its own
        group count, and not those to others farther away.
        """
        view = self.group.view
        if isinstance(view, MergeView):
            self.abandoned = 0                             # a merge succeeded: the backoff ends
        if not self.candidates or self.attempt is not None or not self.may_merge() or self.proposer.flush is not None:
            return
        candidates, self.candidates = self.candidates, {}
        assert view is not None
        partners = {partner: view_id for partner, (view_id, at_ns) in candidates.items()
                    if partner not in view and self.now_ns - at_ns <= CANDIDATE_NS}
        if not partners:
            return
        self.number += 1
        self.attempt = MergeAttempt(self.number, partners, self.now_ns)
        self.count("merges_led")
        self.set_timer("merge", repeat_ns(0, self.config.silence_ns))
        self.ask_missing(self.attempt)

    def may_merge(self) -> bool:
        """Whether this member may speak for its group: it is the coordinator, and not on its way out."""
        group = self.group
        return (group.lifecycle is Lifecycle.MEMBER and group.acts() and group.view is not None
                and group.view.coordinator == self.me)

    def limit_ns(self) -> int:
        """How long a merge may last: merge_timeout, or longer where round trips are long."""
        timeout_ns = self.config.merge_timeout_ns
        trips_ns = MERGE_TRIPS * self.round_trips.longest_ns(self.now_ns)
        return min(max(timeout_ns, trips_ns), MOST_TIMEOUTS * timeout_ns)

    def ask_missing(self, attempt: MergeAttempt) -> None:
        """Ask the partners that are not ready."""
        for partner in attempt.missing():
            self.send(MergeRequest(attempt.number, attempt.partners[partner]), partner)

    def stop(self) -> None:
        """This member is out of the group."""
        self.cancel_timer("merge")

    @timer("merge")
    def on_tick(self) -> None:
        """Ask again; go on without partners that do not get ready in time; give up when all of it lasts too long."""
        attempt = self.attempt
        if attempt is None:
            return
        if not self.may_merge() or self.now_ns - attempt.since_ns > self.limit_ns():
            return self.end(attempt)
        attempt.ticks += 1
        self.set_timer("merge", repeat_ns(attempt.ticks, self.config.silence_ns))
        for partner in attempt.missing():
            trip_ns = self.round_trips.longest_in_ns(attempt.partners[partner], partner, self.now_ns)
            if attempt.ticks >= ticks_within(min(PARTNER_TRIPS * trip_ns, self.limit_ns()), self.config.silence_ns):
                del attempt.partners[partner]
                self.send(MergeCancel(attempt.number, None), partner)
        if not attempt.partners:
            return self.end(attempt)
        self.ask_missing(attempt)
        self.flush_own(attempt)

    def ready_members(self) -> list[Address]:
        """The members of the groups that are ready to merge with this one."""
        ready = self.attempt.ready.values() if self.attempt is not None else ()
        return [member for group in ready for member in group.members]

    def end(self, attempt: MergeAttempt) -> None:
        """The merge does not take place; the groups that wait for it learn so and go on."""
        self.attempt = None
        self.cancel_timer("merge")
        for partner in attempt.ready:
            self.send(MergeCancel(attempt.number, None), partner)

    def flush_own(self, attempt: MergeAttempt) -> None:
        """When all partners are ready, flush our own group; an ordinary change first if a member of it is absent."""
        view = self.group.view
        assert view is not None
        if attempt.missing() or not attempt.ready or self.proposer.flush is not None or not self.may_merge():
            return
        self.proposer.begin((self.me, attempt.number) if len(self.group.present()) == len(view) else None)

    @receives(MergeReady)
    def on_merge_ready(self, header: MergeReady, batch: Batch) -> None:
        """A partner's group is flushed, and stands still until it hears more."""
        src, attempt, installed = batch.src, self.attempt, self.group.installed
        asked = attempt is not None and header.number == attempt.number and src in attempt.partners
        if asked and self.unidentified(header):
            return                                         # it is repeated; by then they may have shown who they are
        if asked and attempt is not None:
            if self.misfits(header, batch):
                self.send(MergeCancel(header.number, None), src)
                return self.end(attempt)
            self.layer.releases.note(releases_in(batch), header.members)
        if asked and attempt is not None and self.group.adopt_counter(header.counter):
            self.pass_down(AddressesKnown(header.book))
            attempt.ready[src], attempt.ready_at_ns[src] = header, self.now_ns
            self.flush_own(attempt)
        elif installed is not None and header.flush in installed.flushes:
            self.send(installed, src)                      # decided already; the Install was lost
        else:
            self.send(MergeCancel(header.number, None), src)
            if asked and attempt is not None:
                # Its counter is implausibly high. Step towards it, or the two groups could never merge.
                self.end(attempt)
                self.proposer.approach(header.counter)

    def misfits(self, header: Header, batch: Batch) -> bool:
        """Whether the members of another group may not run beside those of ours: then the two stay apart."""
        why = self.layer.releases.objection(releases_in(batch), f"a member of the group of {batch.src}")
        if why:
            self.warn(f"does not merge: {why}")
            self.drop("releases_refused", batch, why, header)
        return bool(why)

    def unidentified(self, header: MergeReady) -> bool:
        """Whether AUTH objects to a member of a partner's group. The leader of a merge lets them all in, so it must
        have verified each itself, and not rely on the partner; those that it has not met are challenged."""
        found = False
        for member in header.members:
            objection = self.layer.objection(member)
            if objection:
                self.drop("unidentified_refused", None, f"{member} of another group: {objection}", header)
                physical = header.book.get(member)
                if physical is not None:
                    self.layer.challenge_member(member, physical)
                found = True
        return found

    @receives(MergeCancel)
    def on_merge_cancel(self, header: MergeCancel, batch: Batch) -> None:
        """As partner: our leader gave up. As leader: a partner has another view, or none, and is not ready any more."""
        src, attempt, flush = batch.src, self.attempt, self.proposer.flush
        if flush is not None and flush.merge == (src, header.number):
            self.proposer.change_alone()
        elif attempt is not None and header.number == attempt.number and src in attempt.partners:
            attempt.ready.pop(src, None)
            if header.view_id is None:
                del attempt.partners[src]
            else:
                attempt.partners[src] = header.view_id
                self.send(MergeRequest(attempt.number, header.view_id), src)
            if not attempt.partners:
                self.end(attempt)
            else:
                self.flush_own(attempt)

    def decide(self, attempt: MergeAttempt, own: Flush) -> None:
        """All members of all groups accepted: name the view."""
        self.attempt = None
        self.cancel_timer("merge")
        taken = dict.fromkeys((*own.view.members, *own.stayers))
        groups = []
        for partner in sorted(attempt.ready):
            ready = attempt.ready[partner]
            # A live partner repeats MergeReady. One that stopped may have changed its view by a higher ballot, and
            # then the merged view would have members that never install it. And no member may be in two of the
            # groups, or it would have to leave two views at once (S7).
            silent = self.now_ns - attempt.ready_at_ns[partner] > self.config.silence_ns // 2
            if silent or any(member in taken for member in (*ready.view.members, *ready.members)):
                self.send(MergeCancel(attempt.number, None), partner)
                continue
            taken.update(dict.fromkeys((*ready.view.members, *ready.members)))
            groups.append(ready)
        self.proposer.decide(merged(own, groups, self.group.counter + 1, self.links.book_of(own.stayers),
                                    self.layer.sent_counts()))

    # --- following ----------------------------------------------------------------------------------------------------

    @receives(MergeRequest)
    def on_merge_request(self, header: MergeRequest, batch: Batch) -> None:
        """A leader wants to merge our group: MergeReady once flushed, MergeCancel if not now or not this view."""
        src, group, view, flush = batch.src, self.group, self.group.view, self.proposer.flush
        if not self.may_merge() or view is None or src in view or self.misfits(header, batch):
            self.send(MergeCancel(header.number, None), src)
        elif view.id != header.view_id:
            self.send(MergeCancel(header.number, view.id), src)        # the leader asks again, for this view
        elif self.now_ns < self.backoff_until_ns:
            self.count("merges_put_off")
            self.send(MergeCancel(header.number, None), src)
        elif flush is not None:
            if flush.merge == (src, header.number) and flush.phase is FlushPhase.FLUSHED:
                self.report_ready(flush, flush.merge)
        elif len(group.present()) < len(view):
            self.proposer.consider()                       # an ordinary change first, then we are asked again
        elif self.attempt is None or src < self.me:
            # Two coordinators that both lead would wait for each other: the lower address prevails.
            if self.attempt is not None:
                self.end(self.attempt)
            self.proposer.begin((src, header.number))

    def flushed(self, flush: Flush) -> None:
        """All members of our group accepted a flush that belongs to a merge."""
        assert flush.merge is not None
        attempt = self.attempt
        if flush.merge[0] != self.me:
            self.report_ready(flush, flush.merge)
        elif attempt is not None and attempt.number == flush.merge[1]:
            self.decide(attempt, flush)
        else:
            self.proposer.change_alone()                   # the merge ended meanwhile

    def report_ready(self, flush: Flush, key: MergeKey) -> None:
        """Report to the leader of merge `key` that our group is ready."""
        leader, number = key
        members = flush.stayers
        self.send(MergeReady(number, flush.id, self.group.counter, plain(flush.view), members, flush.leavers,
                             self.links.book_of(members), self.layer.sent_counts()), leader)

    def withdraw(self, flush: Flush) -> None:
        """Our group was reported ready and is not ready any more: its leader must not decide over its flush."""
        assert flush.merge is not None
        leader, number = flush.merge
        if leader != self.me:
            self.send(MergeCancel(number, None), leader)

    def repeat_ready(self, flush: Flush) -> None:
        """Our group waits for the leader's decision: repeat MergeReady, and the Cut so that no member takes over."""
        assert flush.merge is not None
        if flush.ticks * repeat_ns(SILENT_TICKS, self.config.silence_ns) > self.limit_ns():
            self.count("merges_abandoned")
            self.back_off()
            return self.proposer.change_alone()
        self.report_ready(flush, flush.merge)
        if flush.ticks % KEEP_ALIVE_TICKS == 0:
            self.links.send_each(flush.message(), flush.asked)
        return None

    def back_off(self) -> None:
        """A leader stopped answering while this group was ready and delivered nothing.

        From the second time in a row the group refuses all leaders for a while, with exponential backoff. So forged
        or dying leaders cannot keep a group from delivering.
        """
        if self.abandoned:
            self.backoff_until_ns = self.now_ns + (self.limit_ns() << min(self.abandoned - 1, MAX_DOUBLINGS))
        self.abandoned += 1


def plain(view: View) -> View:
    """A view without what it was merged from."""
    return View(view.id, view.members)


def merged(
    own: Flush, groups: list[MergeReady], counter: int, book: dict[Address, PhysicalAddress], sent: SentCounts,
) -> InstallHeader:
    """The decision that unites the leader's group, with its book and counts, with the others; its members first."""
    members = own.stayers + tuple(member for group in groups for member in group.members)
    leavers = own.leavers + tuple(member for group in groups for member in group.leavers)
    flushes: tuple[FlushId, ...] = (own.id, *[group.flush for group in groups])
    whole = {member: place for group in groups for member, place in group.book.items()} | book
    view_id = ViewId(counter, members[0])
    subgroups = (plain(own.view), *[plain(group.view) for group in groups])
    view = MergeView(view_id, members, subgroups) if groups else View(view_id, members)
    return InstallHeader(view, flushes, leavers, whole, united([sent, *[group.sent for group in groups]], members))
