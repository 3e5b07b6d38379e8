"""The proposer: runs the ballots of the acting coordinator, from the reasons for another view to its confirmation.

    consider -> begin -> Prepare to all that take part
    State from all    -> the cut: Cut to the same members
    Ack from all      -> decided: Install to all that it concerns
    Installed of all  -> done

Each phase repeats its message, in growing intervals, to the members that have not answered. A member that does not
answer SILENT_TICKS repetitions is excluded from the next ballot. Repetitions are counted, not seconds: a process that
was suspended itself must not exclude all others when it wakes.

At any step another member may run a higher ballot. Then this one is closed without harm: nothing is decided before the
last Ack, and a member that promised the higher ballot gives none (acceptor_state.py, A1).
"""
from __future__ import annotations

from collections.abc import Iterable

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.events import RaiseView, Suspect, Unsuspect
from jgroups_py.model.view import View, ViewId
from jgroups_py.protocols.gms.config import GmsConfig
from jgroups_py.protocols.gms.flush import SILENT_TICKS, Flush, FlushPhase, MergeKey, repeat_ns
from jgroups_py.protocols.gms.headers import (
    AckHeader,
    FlushId,
    Installed,
    InstallHeader,
    NackHeader,
    StaleView,
    StateHeader,
)
from jgroups_py.protocols.gms.ports import AcceptorPort, AdmissionPort, GmsPort, LeavePort, MemberLink, MergePort
from jgroups_py.protocols.gms.state import GroupState, Lifecycle
from jgroups_py.stack.component import Component, on, receives, timer

JOINER_TICKS = 7           # a joiner is given up sooner than a member: the whole group is stopped meanwhile


class Announcement:
    """A decided view, and the members that have not confirmed it."""

    def __init__(self, install: InstallHeader, waiting: Iterable[Address]) -> None:
        self.install = install
        self.waiting = dict.fromkeys(waiting)
        self.ticks = 0


class ViewProposer(Component):
    """The asking side of view changes.

    flush: the running ballot; announcement: the decided view that is being repeated; refresh: a new view is due
    though no member comes or goes; spared: the last ballot ended with unanswered Cuts, and excluded no member for it.
    """

    config: GmsConfig
    layer: GmsPort
    merging: MergePort                  # set by Gms.assemble

    def __init__(
        self, layer: GmsPort, group: GroupState, links: MemberLink, acceptor: AcceptorPort, admission: AdmissionPort,
        leaving: LeavePort,
    ) -> None:
        super().__init__(layer)
        self.group = group
        self.links = links
        self.acceptor = acceptor
        self.admission = admission
        self.leaving = leaving
        self.flush: Flush | None = None
        self.announcement: Announcement | None = None
        self.refresh = False
        self.spared = False

    # --- reasons for another view -------------------------------------------------------------------------------------

    @on(Suspect)
    def on_suspect(self, event: Suspect) -> None:
        """Failure detection reports members: exclude them, at once from a ballot that waits for them."""
        fresh = self.group.suspect(event.members)
        if fresh:
            self.lost(fresh)

    @on(Unsuspect)
    def on_unsuspect(self, event: Unsuspect) -> None:
        """A report is taken back. A ballot that excludes the member is not stopped; a merge brings the member back."""
        self.group.unsuspect(event.members)

    def member_gone(self, member: Address) -> None:
        """`member` has left our view behind."""
        if self.group.lose(member):
            self.count("members_gone")
            self.lost([member])

    def lost(self, members: Iterable[Address]) -> None:
        """`members` are absent: begin again without them if the ballot waits for them.

        A flush that every member accepted waits for none of them; the leader of its merge decides (S8).
        """
        if self.flush is None:
            self.consider()
        elif self.flush.phase is not FlushPhase.FLUSHED and any(member in self.flush.asked for member in members):
            self.restart()

    def joiner_withdrew(self, joiner: Address) -> None:
        """`joiner` gives up, or cannot join (it is in another view by now)."""
        if not self.admission.withdraw(joiner):
            return
        flush = self.flush
        if flush is not None and joiner in flush.joiners and flush.phase is not FlushPhase.FLUSHED:
            self.restart(flush.merge)

    @on(RaiseView)
    def on_raise_view(self, event: RaiseView) -> None:
        """A layer above (RELAY, decision 3) needs a view counter above that of another group, which fences ours."""
        if event.above > self.group.counter:
            self.approach(event.above)
        else:
            self.refresh = True
            self.consider()

    def renew(self) -> None:
        """See ProposerPort."""
        if self.group.acts():
            self.refresh = True
            self.consider()

    def approach(self, counter: int) -> None:
        """Install a view whose counter is a step closer to `counter`."""
        # A step, not the whole way: members refuse a counter far above what they know (H1).
        if self.group.step_towards(counter):
            self.count("counter_steps")
            self.refresh = True
            self.consider()

    def wanted(self) -> bool:
        """Whether our view should change, and this member is the one to change it."""
        group = self.group
        return group.acts() and bool(self.leaving.leavers or group.suspects or group.gone or self.refresh
                                     or self.admission.next_joiners())

    # --- beginning and ending a ballot --------------------------------------------------------------------------------

    def consider(self) -> None:
        """See ProposerPort.

        Each change stops the group for two and a half round trips, so reasons that come close together become one.
        """
        if self.flush is None and self.wanted() and not self.timer_is_set("bundle"):
            self.set_timer("bundle", self.config.max_bundling_ns if self.config.view_bundling else 0)

    @timer("bundle")
    def on_bundled(self) -> None:
        """The collecting time is over."""
        if self.flush is None and self.wanted():
            self.begin()

    def begin(self, merge: MergeKey | None = None) -> None:
        """Begin a ballot above all that were seen in our view, with all members that are present."""
        view = self.group.view
        assert view is not None
        # Absent members are not asked, since a ballot waits for all that it asks. Leavers are asked: what they sent has
        # to be delivered by those that stay.
        members = self.group.present()
        leavers = [member for member in members if member in self.leaving.leavers]
        if len(leavers) == len(members):
            leavers.remove(self.me)            # a view has a member; this one leaves in the change after this
        ballot = self.acceptor.next_ballot()
        self.cancel_timer("bundle")
        self.flush = Flush(FlushId(view.id, ballot), view, members, self.admission.next_joiners(), leavers, merge)
        self.count("ballots")
        self.ask(self.flush)

    def restart(self, merge: MergeKey | None = None) -> None:
        """Begin again with a higher ballot, and with the members that are present now."""
        self.close()
        self.begin(merge)

    def change_alone(self) -> None:
        """The merge that the running flush belongs to failed: change our view without it, since our members wait."""
        self.refresh = True
        self.restart()

    def close(self) -> None:
        """Our ballot is over. If it was reported ready to the leader of a merge, take that back."""
        flush, self.flush = self.flush, None
        if flush is not None and flush.phase is FlushPhase.FLUSHED:
            self.merging.withdraw(flush)
        self.cancel_timer("tick")
        self.cancel_timer("bundle")

    def stop(self) -> None:
        """This member is out of the group."""
        self.close()
        self.announcement = None
        self.cancel_timer("announce")

    def yield_to(self, other: FlushId) -> None:
        """Our acceptor promises `other`, so a ballot of this member gets no Ack of it and cannot succeed."""
        if self.flush is not None and self.flush.id != other:
            self.close()

    @receives(NackHeader)
    def on_nack(self, header: NackHeader, batch: Batch) -> None:
        """`batch.src` promised a higher ballot: let that one run. If it fails, our acceptor's timer `stuck` fires."""
        src, view = batch.src, self.group.view
        takes_part = (view is not None and src in view) or src in self.admission.joiners
        if not takes_part or not self.acceptor.adopt_round(header.promised):
            return self.drop("nacks_refused", batch, "its source takes no part, or its round is far ahead", header)
        if self.flush is not None and header.flush == self.flush.id:
            self.count("ballots_outbid")
            self.close()
            self.acceptor.expect_progress()
        return None

    # --- asking -------------------------------------------------------------------------------------------------------

    def ask(self, flush: Flush) -> None:
        """Send the message of a phase to all that take part."""
        self.set_timer("tick", repeat_ns(0, self.config.silence_ns))
        self.links.send_each(flush.message(), flush.asked)

    @timer("tick")
    def on_tick(self) -> None:
        """Repeat the message, or go on without the members that do not answer."""
        flush = self.flush
        if flush is None:
            return
        flush.ticks += 1
        self.set_timer("tick", repeat_ns(flush.ticks, self.config.silence_ns))
        if flush.phase is FlushPhase.FLUSHED:
            return self.merging.repeat_ready(flush)
        waiting = flush.waiting()
        silent_joiners = [member for member in waiting if member in flush.joiners]
        if flush.ticks >= SILENT_TICKS:
            self.exclude_silent(flush, waiting)
        elif flush.ticks >= JOINER_TICKS and silent_joiners:
            # The same change without them, for the same merge: its leader still waits for our group.
            self.admission.exclude_silent(silent_joiners)
            self.restart(flush.merge)
        else:
            message = flush.message()
            for member in waiting:
                self.links.send(message, member)

    def exclude_silent(self, flush: Flush, silent: list[Address]) -> None:
        """`silent` did not answer SILENT_TICKS repetitions: begin a ballot without them.

        One exception: when Cuts were not answered, the next ballot excludes no member. A member that cannot deliver up
        to the cut may be waiting for a holder that crashed meanwhile; a new Prepare finds another holder.
        """
        self.count("silent_members", len(silent))
        self.spared = flush.phase is FlushPhase.CUTTING and not self.spared
        silent_joiners = [member for member in silent if member in flush.joiners]
        if silent_joiners:
            self.admission.exclude_silent(silent_joiners)
        for member in silent:
            if member not in flush.joiners and not self.spared:
                self.group.lose(member)
        self.restart()

    @receives(StateHeader)
    def on_state(self, header: StateHeader, batch: Batch) -> None:
        """`batch.src` promised our ballot and has stopped. With the last State the cut is known."""
        flush, src = self.flush, batch.src
        if flush is None or header.flush != flush.id:
            return self.answer_late(header.flush, src)
        if src not in flush.asked:
            # Checked first, so that a non-member cannot raise our counter (H1).
            return self.drop("answers_unasked", batch, "its source was not asked", header)
        # An implausible counter is ignored, and the digest is used all the same: the cut needs every member.
        self.group.adopt_counter(header.counter)
        if flush.state(src, header.digest):
            # The view gets a counter that no view of any of its members had (M2). A merge's leader chooses it later.
            counter = 0 if flush.merge is not None else self.group.counter + 1
            self.group.adopt_counter(counter)
            flush.start_cut(counter)
            self.ask(flush)
        return None

    @receives(AckHeader)
    def on_ack(self, header: AckHeader, batch: Batch) -> None:
        """`batch.src` accepted. With the last Ack the view is decided: all its members have delivered the cut (S5)."""
        flush, src = self.flush, batch.src
        if flush is None or header.flush != flush.id:
            return self.answer_late(header.flush, src)
        if not flush.ack(src):
            return None
        self.spared = False
        if flush.merge is not None:
            flush.wait_for_leader()
            return self.merging.flushed(flush)
        # Stayers keep their order, so that the coordinator stays the same as long as it is present; joiners follow.
        members = flush.stayers
        view = View(ViewId(flush.counter, members[0]), members)
        return self.decide(InstallHeader(view, (flush.id,), flush.leavers, self.links.book_of(members),
                                         self.layer.sent_counts()))

    def answer_late(self, flush: FlushId, src: Address) -> None:
        """`src` answers a ballot that is over here, so `src` is stopped and waits for its outcome.

        If that ballot was about an earlier view, the Install of our view starts `src` again. If it was about our view,
        and no ballot is running that would reach `src`, begin one, even without another reason for a change (L).
        """
        group = self.group
        view = group.view
        if view is None or group.installed is None or group.lifecycle is Lifecycle.HANDED_OVER:
            return
        if src not in view and src not in self.admission.joiners and flush.view_id >= view.id:
            return self.drop("answers_unasked", Batch(src, self.me), f"the ballot {flush.ballot} is over")
        if flush.view_id < view.id:
            self.send(group.installed, src)
        elif flush.view_id == view.id and self.flush is None and group.acts():
            self.refresh = True
            self.consider()

    # --- decided ------------------------------------------------------------------------------------------------------

    def decide(self, install: InstallHeader) -> None:
        """Every member of the next view accepted, so it is decided: announce it, then install it or leave."""
        self.layer.choose_key(install.view.id)
        self.announce(install, (*install.view.members, *install.leavers))
        self.admission.view_decided(install.view)
        if self.me in install.view:
            self.layer.install(install)
        else:
            # This coordinator leaves. It runs no further ballot, and stays until all members have confirmed the view:
            # members that missed the Install would otherwise take its change over.
            self.group.become(Lifecycle.HANDED_OVER)
            self.close()

    def announce(self, install: InstallHeader, concerned: Iterable[Address]) -> None:
        """Send the view to `concerned` until they confirm it."""
        others = [member for member in concerned if member != self.me]
        self.announcement = Announcement(install, others)
        self.set_timer("announce", repeat_ns(0, self.config.silence_ns))
        self.links.send_each(install, others)

    def view_follows(self, install: InstallHeader) -> None:
        """Called first when a view is installed here: our ballot about the old one is over.

        If our ballot was running, the members that it asked are stopped and may not have the view: its owner may have
        crashed after it sent the Install to us alone. So this member announces the view to them (L).
        """
        flush, self.flush, self.refresh = self.flush, None, False
        self.close()
        if self.announcement is not None and self.announcement.install.view.id != install.view.id:
            self.announcement = None
            self.cancel_timer("announce")
        if flush is not None and self.announcement is None and install.flushes:
            self.announce(install, [m for m in flush.asked if m in install.view or m in install.leavers])

    @timer("announce")
    def on_announce(self) -> None:
        """Repeat the view to the members that have not confirmed it."""
        announcement = self.announcement
        if announcement is None:
            return
        announcement.ticks += 1
        if not announcement.waiting or announcement.ticks >= SILENT_TICKS:
            return self.announced(announcement)
        self.set_timer("announce", repeat_ns(announcement.ticks, self.config.silence_ns))
        for member in announcement.waiting:
            self.send(announcement.install, member)

    @receives(Installed)
    def on_installed(self, header: Installed, batch: Batch) -> None:
        """`batch.src` has the view."""
        src, announcement = batch.src, self.announcement
        if announcement is not None and announcement.install.view.id == header.view_id:
            announcement.waiting.pop(src, None)
            if not announcement.waiting:
                self.announced(announcement)
        flush = self.flush
        if flush is not None and flush.id.view_id == header.view_id and src in flush.waiting():
            self.links.send(flush.message(), src)          # it had a stale view when it was asked first

    def announced(self, announcement: Announcement) -> None:
        """All members confirmed the view, or were sent it often enough; those that did not confirm are gone."""
        self.announcement = None
        self.cancel_timer("announce")
        if self.group.lifecycle is Lifecycle.HANDED_OVER:
            return self.layer.leave_group()
        for member in announcement.waiting:
            if self.group.acts() and member in announcement.install.view.members:
                self.member_gone(member)

    @receives(StaleView)
    def on_stale_view(self, header: StaleView, batch: Batch) -> None:
        """The receiver of our Prepare, Cut or Install has another view."""
        src, view, installed = batch.src, self.group.view, self.group.installed
        if view is None or installed is None or header.asked != view.id:
            return self.drop("stale_view_of_other_view", batch, "nothing was asked about that view", header)
        if src not in view:
            if header.mine is not None and not header.final and header.mine < view.id:
                self.send(installed, src)              # it checks what a non-member claimed of our view (ask_group)
            if header.final:
                self.joiner_withdrew(src)
        elif header.final or (header.mine is not None and header.mine > view.id):
            # It cannot install our view, or is in a later one: no ballot may wait for it any more (S7).
            self.member_gone(src)
        else:
            self.send(installed, src)
        return None
