"""The acceptor: how a member answers in view changes, those of its own proposer included.

    Prepare -> promise the ballot, stop NAKACK (Freeze);      Frozen -> State(digest)
    Cut     -> have NAKACK deliver up to the cut (FlushTo);    Filled -> accept the flush, Ack
    Install -> install the view, if what was accepted last decided it

acceptor_state.py has the rules of promising and accepting. This file decides which messages they are applied to, since
any message may be a late copy, or come from a member in another view, or from a non-member:

* Prepare and Cut are accepted from the ballot's owner only, and only if it is a member of our view. A joiner accepts
  them from the coordinator that it asked.
* Install is accepted from members of our view. A joiner accepts it from the coordinator that it asked, or from any
  member of the new view if it decides a flush that the joiner accepted. In a merge the leader is not in our view, so
  any member of a MergeView that decides our flush will do.
* A sender with a stale view is answered with the Install of our view, a sender with a later one with StaleView.

A member that is stopped and receives nothing more from the owner takes the change over, so none stays stopped (L).
"""
from __future__ import annotations

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.counter_jumps import plausible
from jgroups_py.model.events import AddressesKnown, ExcludedHint, Filled, FlushTo, Freeze, Frozen
from jgroups_py.model.view import MergeView, View, ViewId
from jgroups_py.protocols.gms.acceptor_state import AcceptorState
from jgroups_py.protocols.gms.config import GmsConfig
from jgroups_py.protocols.gms.headers import (
    AckHeader,
    Ballot,
    CutHeader,
    FlushId,
    Installed,
    InstallHeader,
    NackHeader,
    Prepare,
    StaleView,
    StateHeader,
)
from jgroups_py.protocols.gms.ports import GmsPort, JoinPort, MemberLink, MergePort, ProposerPort
from jgroups_py.protocols.gms.state import GroupState, Lifecycle
from jgroups_py.stack.component import Component, on, receives, timer
from jgroups_py.wire import releases_in

MAX_RANK = 3              # position in line; members beyond it wait as long as this one before they take over


class ViewAcceptor(Component):
    """One member's part in the view changes of any proposer, its own included.

    promises: what was promised and accepted in this view; freezes: how often NAKACK has yet to report Frozen;
    parting: None, or, once this member was excluded: coordinator of the group that went on -> its view.
    """

    config: GmsConfig
    layer: GmsPort
    proposer: ProposerPort              # set by Gms.assemble, as the merge coordinator is
    merging: MergePort

    def __init__(
        self, layer: GmsPort, group: GroupState, links: MemberLink, joining: JoinPort,
    ) -> None:
        super().__init__(layer)
        self.group = group
        self.links = links
        self.joining = joining
        self.promises = AcceptorState(None)
        self.freezes = 0
        self.parting: dict[Address, ViewId] | None = None

    # --- asked by the proposer and the join client --------------------------------------------------------------------

    def next_ballot(self) -> Ballot:
        """A ballot of this member above all that were seen in our view."""
        ballot = Ballot(self.promises.highest_round + 1, self.me)
        self.promises.note_round(ballot)
        return ballot

    def adopt_round(self, ballot: Ballot) -> bool:
        """Whether the round of `ballot` is plausible in our view; if so `next_ballot` is above it."""
        return self.promises.adopt_round(ballot, anew=False)

    def forget_promises(self) -> None:
        """A joiner turns to another coordinator: promises to the former one are void."""
        self.promises = AcceptorState(None)

    def view_installed(self, view_id: ViewId) -> None:
        """A view is installed. Promises belong to one view, so they begin anew."""
        self.promises = AcceptorState(view_id)
        self.parting = None
        self.cancel_timer("stuck")

    def stop(self) -> None:
        """This member is out of the group."""
        self.cancel_timer("stuck")

    # --- phase 1: promise and stop ------------------------------------------------------------------------------------

    @receives(Prepare)
    def on_prepare(self, header: Prepare, batch: Batch) -> None:
        """Promise the ballot, stop, and report how far this member is."""
        flush, owner = header.flush, batch.src
        if not self.concerns(header, owner) or self.refuses(flush, owner):
            return
        self.expect_progress()
        if self.promises.in_cut(flush):
            return                             # a late copy: the owner sends a Cut only once it has our State
        # Our own ballot is given up with the promise: members that promise the higher one refuse it from now on.
        self.proposer.yield_to(flush)
        self.promises.promise(flush)
        # Whoever completes this change in the place of its owner announces the joiners' releases too.
        self.layer.releases.note(releases_in(batch), header.joiners)
        if self.group.view is None:
            # A joiner has delivered nothing, so there is nothing to stop, and its digest is empty.
            self.links.send(StateHeader(flush, self.group.counter, {}), owner)
        else:
            self.freeze()

    def freeze(self) -> None:
        """Have NAKACK stop; it reports Frozen, behind all that it had passed up before."""
        self.freezes += 1
        self.pass_down(Freeze())

    @on(Frozen)
    def on_frozen(self, event: Frozen) -> None:
        """NAKACK has stopped delivering, and what it delivered before has passed GMS (law 2)."""
        self.freezes -= 1
        if self.freezes > 0:
            return                             # a cut let it deliver more in between; only its last report is current
        if self.parting is not None:
            return self.part(self.parting)
        flush = self.promises.promised
        # The digest must be the one of the promise that stands: with an older one the cut could be below what was
        # delivered here, and this member would differ from the others at the end of the view (S5).
        if flush is not None and self.group.view is not None and not self.promises.in_cut(flush):
            self.links.send(StateHeader(flush, self.group.counter, dict(event.digest)), flush.ballot.owner)

    # --- phase 2: deliver up to the cut, then accept ------------------------------------------------------------------

    @receives(CutHeader)
    def on_cut(self, header: CutHeader, batch: Batch) -> None:
        """Deliver up to the cut of the promised ballot."""
        flush, owner = header.flush, batch.src
        if not self.concerns(header, owner) or self.refuses(flush, owner):
            return
        self.expect_progress()
        if flush in self.promises.accepted:
            return self.links.send(AckHeader(flush), owner)          # our Ack was lost
        if flush == self.promises.filling:
            return                             # a late copy: Filled will send the Ack
        if flush != self.promises.promised:
            # Its Prepare never came: this member did not stop, and may have delivered beyond the cut (S5).
            return self.drop("cuts_without_promise", batch, "this ballot was not promised", header)
        self.promises.fill(flush, header.cut)
        self.promises.by_merge = header.counter == 0
        if self.group.view is None:
            # A joiner begins with the next view: it has nothing to deliver of this one.
            self.accept(header.cut)
        else:
            self.pass_down(FlushTo(header.cut, header.holders))

    @on(Filled)
    def on_filled(self, event: Filled) -> None:
        """NAKACK has delivered everything below the cut, and that has passed GMS."""
        self.accept(event.cut)

    def accept(self, cut: dict[Address, int]) -> None:
        """Accept the flush that `cut` belongs to, if it is still the promised one."""
        flush = self.promises.filled(cut)
        if flush is not None:
            self.links.send(AckHeader(flush), flush.ballot.owner)

    # --- which Prepare and Cut are accepted ---------------------------------------------------------------------------

    def concerns(self, header: Prepare | CutHeader, owner: Address) -> bool:
        """Whether the request matches our view and role (member, joiner); otherwise the owner gets our view's id."""
        view, view_id = self.group.view, header.flush.view_id
        if self.is_out():
            return False
        if owner != header.flush.ballot.owner:
            self.drop("ballots_of_others_refused", Batch(owner, self.me), "the ballot has another owner", header)
        elif self.me in header.joiners:
            if view is None and owner == self.joining.coordinator:
                return self.plausible(header, anew=True)
            # A group that we did not ask counts us as a joiner, or we are in a view by now: all members of the next
            # view come from one view each (S7), so the owner has to drop us from its ballot.
            self.send(StaleView(view_id, None if view is None else view.id, True), owner)
        elif self.me not in header.members:
            return False                       # by one multicast it also reaches members that it is not meant for
        elif view is None:
            # We are in the owner's view and have not installed it: its Install was lost. Final ("exclude me") if
            # nothing was accepted here that would allow us to install it (A2).
            self.send(StaleView(view_id, None, self.promises.latest is None), owner)
        elif view_id == view.id and owner not in view:
            self.drop("non_member_ballots_refused", Batch(owner, self.me), "its owner is not in our view", header)
        elif view_id == view.id:
            return self.plausible(header, anew=False)
        elif view_id < view.id and self.group.installed is not None:
            self.send(self.group.installed, owner)                   # the owner missed the last change
        else:
            self.send(StaleView(view_id, view.id, False), owner)
        return False

    def plausible(self, header: Prepare | CutHeader, anew: bool) -> bool:
        """Whether its round and counter are near those that are known. anew: a joiner, which knows none, takes any.

        Both only grow and are passed on, so one absurd value would stay in the group for ever (H1).
        """
        if not self.promises.adopt_round(header.flush.ballot, anew=anew):
            self.drop("implausible_ballots_refused", None, f"ballot {header.flush.ballot} is far ahead")
            return False
        return not isinstance(header, CutHeader) or self.group.adopt_counter(header.counter)

    def refuses(self, flush: FlushId, owner: Address) -> bool:
        """Whether a higher ballot was promised (A1); if so a Nack with that ballot goes to the owner."""
        if self.promises.may_promise(flush):
            return False
        assert self.promises.promised is not None
        self.links.send(NackHeader(flush, self.promises.promised.ballot), owner)
        return True

    def is_out(self) -> bool:
        """Whether this member takes no part in changes: not connected, being excluded, or leaving by a decided view."""
        return (self.group.lifecycle in (Lifecycle.IDLE, Lifecycle.HANDED_OVER, Lifecycle.LEFT)
                or self.parting is not None)

    # --- a change whose owner does not answer any more ----------------------------------------------------------------

    def expect_progress(self) -> None:
        """A ballot is under way: (re)start the timer after which this member takes the change over.

        The wait grows with the position in the line of coordinators, plus jitter: members that began ballots at the
        same time would only refuse each other's.
        """
        if self.group.view is None:
            return self.joining.expect_progress()
        present = self.group.present()
        rank = min(present.index(self.me) if self.me in present else 0, MAX_RANK)
        silence = self.config.silence_ns
        self.set_timer("stuck", (2 + rank) * silence + self.rng.randrange(silence // 2))

    @timer("stuck")
    def take_over(self) -> None:
        """The owner has crashed or given up, and this member is stopped: run a ballot of our own (L)."""
        if self.group.view is None or not self.promises.frozen or self.group.lifecycle is Lifecycle.HANDED_OVER:
            return
        if self.proposer.flush is not None:
            return self.expect_progress()      # our own ballot is running and repeats itself
        self.count("changes_taken_over")
        self.proposer.begin()
        self.expect_progress()

    # --- phase 3: install ---------------------------------------------------------------------------------------------

    @receives(InstallHeader)
    def on_install(self, header: InstallHeader, batch: Batch) -> None:
        """`batch.src` has this view, or decided it."""
        view, src, mine = header.view, batch.src, self.group.view
        if self.is_out():
            return
        if mine is not None and view.id == mine.id:
            return self.send(Installed(view.id), src)                # our confirmation was lost
        if mine is not None and view.id < mine.id:
            return self.drop("old_views_heard", batch, f"our view is {mine.id}", header)
        for member in view.members:
            contradiction = self.layer.contradiction(member)
            if contradiction:
                # Its coordinator has no AUTH, or one of its own making: a group that this member must not be in.
                if member == src:
                    self.layer.disbelieve(src, contradiction)
                return self.drop("unidentified_refused", batch, f"in the view {view.id}: {contradiction}", header)
        authorized = self.may_announce(header, src)
        if not plausible(view.id.counter, self.group.counter, anew=mine is None):
            # Too far ahead. A member of our view may be right all the same: approach its counter, a step each view.
            if authorized:
                self.proposer.approach(view.id.counter)
            return self.drop("implausible_counters_refused", batch, f"counter {view.id.counter} is far ahead", header)
        if authorized:
            self.pass_down(AddressesKnown(header.book))
        if authorized and self.promises.may_install(header.flushes, src, self.me):
            self.follow(header, batch)
        elif self.me in view:
            self.cannot_follow(header, src)
        elif mine is not None and authorized:
            self.left_behind(header, src)
        elif mine is not None:
            self.ask_group(header, mine)

    def may_announce(self, header: InstallHeader, src: Address) -> bool:
        """Whether `src` is in a position to know that this view was decided (the list at the head of this file)."""
        latest = self.promises.latest
        accepted = latest is not None and latest in header.flushes and src in header.view
        if self.group.view is None:
            return accepted or src == self.joining.coordinator
        return src in self.group.view or (accepted and self.promises.by_merge and isinstance(header.view, MergeView))

    def follow(self, header: InstallHeader, batch: Batch) -> None:
        """The flush accepted here last decided this view (A2): install it, or leave with it."""
        src = batch.src
        if self.me in header.view:
            if not self.layer.take_key(header.view.id, batch):
                return self.drop("views_without_key", batch, "it came without its key; it is repeated", header)
            self.layer.releases.note(releases_in(batch), header.view.members)
            self.layer.install(header)
            self.send(Installed(header.view.id), src)
        elif self.me in header.leavers and self.group.lifecycle is Lifecycle.LEAVING:
            self.send(Installed(header.view.id), src)
            self.layer.leave_group()
        elif self.group.view is not None:
            # A leave requested in our name by another process. It must not end this member (H1): it counts as
            # excluded, and merges back.
            self.drop("leaves_not_asked_for", Batch(src, self.me), "this member did not ask to leave", header)
            self.excluded(header)
        else:
            self.drop("odd_views_heard", Batch(src, self.me), "it follows from what was accepted, but leaves us out")
        return None

    def cannot_follow(self, header: InstallHeader, src: Address) -> None:
        """We are in a view that we must not install: not accepted here, or another cut was accepted since (S5)."""
        if any(flush in header.flushes for flush in self.promises.accepted):
            # A3: a newer ballot has the same cut. Its owner installs the older decision or replaces it; wait for that.
            return self.drop("views_held_back", Batch(src, self.me), "a newer ballot was accepted since", header)
        # No ballot of that view can wait for this member: final.
        mine = self.group.view.id if self.group.view is not None else None
        self.send(StaleView(header.view.id, mine, True), src)
        self.proposer.member_gone(src)

    def left_behind(self, header: InstallHeader, src: Address) -> None:
        """A member of our view is in a later one without us: we were excluded, or that member was or merged away.

        If the view was decided by a flush of our view, or the next in line is in it too, the group went there.
        """
        view = self.group.view
        assert view is not None
        leader = next((member for member in view.members if member != self.me and not self.group.is_absent(member)),
                      None)
        decided_here = any(flush.view_id == view.id for flush in header.flushes)
        if decided_here or (leader is not None and leader in header.view):
            self.excluded(header)
        else:
            self.proposer.member_gone(src)

    def ask_group(self, header: InstallHeader, view: View) -> None:
        """A non-member claims that our group went on without us. Do not act on it; ask a member.

        The first of our members in the claimed view is asked. If the claim is true it answers with its Install, and
        that is accepted since it comes from a member.
        """
        self.drop("non_member_views_refused", None, f"view {header.view.id} was not shown by a member")
        leader = next((member for member in view.members if member != self.me and member in header.view), None)
        if leader is not None:
            self.send(StaleView(header.view.id, view.id, False), leader)

    @on(ExcludedHint)
    def on_excluded_hint(self, event: ExcludedHint) -> None:
        """A non-member still sends as a member of this group: send it our Install, so that it learns its exclusion.

        Its multicasts reach all members, so only the coordinator answers, unless it sent to this member alone.
        """
        if self.group.installed is not None and (event.asked or self.group.acts()):
            self.send(self.group.installed, event.non_member)

    # --- excluded -----------------------------------------------------------------------------------------------------

    def excluded(self, header: InstallHeader) -> None:
        """The group went on without this member: become a group of one, then merge with the group at once."""
        self.count("times_excluded")
        if self.group.lifecycle is Lifecycle.LEAVING:
            return self.layer.leave_group()
        self.group.adopt_counter(header.view.id.counter)
        self.proposer.close()
        self.promises = AcceptorState(self.promises.view_id)      # a cut that is being filled is void
        # Messages that NAKACK delivered belong to the old view and must pass GMS before the view changes (S4); behind
        # them comes Frozen, and on_frozen calls `part`.
        self.freeze()
        self.parting = {header.view.coordinator: header.view.id}

    def part(self, others: dict[Address, ViewId]) -> None:
        """All messages of the old view have passed: install a view of one member, and merge with `others`."""
        self.layer.install_alone()
        self.merging.unite_with(others)
