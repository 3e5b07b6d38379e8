"""GMS: agrees with all other members on who is in the group, and on what was delivered before each change.

A view is changed by its acting coordinator (the first member that is neither suspected nor gone) in three rounds:
Prepare/State stops everybody and collects how far each is, Cut/Ack brings everybody to the same point, Install/
Installed switches. Each attempt has a ballot; a higher one replaces a lower one, so a crash in the middle is repaired
by the next in line. Joins, leaves and suspicions that arrive meanwhile are collected for the next change.
The parts: participant.py (what a member promised and accepted: the safety rules), flush.py (one ballot, asking side),
chair.py (runs ballots), joining.py, merging.py, and this file (state, installing, leaving, all handlers).

Place: above NAKACK, which stops, fills and starts on our word (Freeze, FillTo, ViewChange).
Source: JGroups GMS (coordinator election, batching, join and merge roles), FLUSH (virtual synchrony), ballots as in
Paxos. Deviations: an install needs the acceptance of every member of the new view instead of a majority, since
partitioned halves both go on; no delta views; a member that is excluded becomes a singleton and merges back by itself.
"""
from __future__ import annotations

from collections.abc import Iterable

from jgroups_py.address import Address, PhysicalAddress
from jgroups_py.batch import Batch, Header
from jgroups_py.events import (
    AddressesKnown,
    Connect,
    Disconnect,
    ExcludedHint,
    Filled,
    FillTo,
    Freeze,
    Frozen,
    Left,
    MembersFound,
    MergeNeeded,
    RaiseView,
    Suspect,
    Unsuspect,
    ViewChange,
)
from jgroups_py.ports import AddressBook, Membership
from jgroups_py.protocol import Protocol, on, receives, timer
from jgroups_py.protocols.gms.chair import Chair
from jgroups_py.protocols.gms.config import GmsConfig
from jgroups_py.protocols.gms.headers import (
    Ack,
    AskThere,
    Cut,
    Elsewhere,
    FlushId,
    Install,
    Installed,
    JoinMe,
    LeaveMe,
    MergeAsk,
    MergeOff,
    MergePlease,
    MergeReady,
    Outbid,
    Prepare,
    State,
)
from jgroups_py.protocols.gms.joining import Seeker
from jgroups_py.protocols.gms.merging import Merger
from jgroups_py.protocols.gms.participant import Participant
from jgroups_py.units import millis
from jgroups_py.view import View, ViewId

IDLE, JOINING, MEMBER, LEAVING, LEFT = "idle", "joining", "member", "leaving", "left"
LEAVE_REPEAT_NS = millis(200)
FEW = 2                   # so many receivers get a message each even where one multicast would reach them
PATIENT_RANKS = 3         # how many of those in line wait for each other before they take over a stuck change


class Gms(Protocol, Membership):
    """Group membership with virtual synchrony."""

    Config = GmsConfig
    config: GmsConfig
    needs = {"addresses": AddressBook}
    addresses: AddressBook

    def start(self) -> None:
        self.state = IDLE
        self.view: View | None = None
        self.shown: Install | None = None              # what installed our view, for whoever missed it
        self.known = 0                                 # the highest view counter heard of
        self.mine = Participant(None)
        self.suspects: dict[Address, None] = {}        # members that failure detection reported
        self.gone: dict[Address, None] = {}            # members known to have left our view behind, or silent
        self.joiners: dict[Address, None] = {}         # who asked to join
        self.leavers: dict[Address, None] = {}         # members that asked to leave
        self.refresh = False                           # a new view is wanted though nobody comes or goes
        self.parting: dict[Address, ViewId] | None = None   # excluded: whom to merge with once we are alone
        self.handed_over = False                       # we decided the view without us and only see it installed
        self.chair = Chair(self)
        self.seeker = Seeker(self)
        self.merger = Merger(self)

    def current_view(self) -> View | None:
        return self.view

    def stats(self) -> dict[str, float]:
        own = {"view_counter": self.view.id.counter, "members": len(self.view)} if self.view else {}
        return {**self.counters, **own}

    # --- who acts ---------------------------------------------------------------------------------------------------

    def absent(self, member: Address) -> bool:
        """Whether `member` of our view is not counted on."""
        return member in self.suspects or member in self.gone

    def present(self) -> list[Address]:
        """The members of our view that are counted on, in view order."""
        assert self.view is not None
        return [member for member in self.view.members if not self.absent(member)]

    def acting(self) -> bool:
        """Whether changing the view is our job."""
        return (self.view is not None and self.state in (MEMBER, LEAVING) and not self.handed_over
                and self.present()[0] == self.me)

    def knows(self, counter: int) -> None:
        """A view of this number exists or is proposed somewhere."""
        self.known = max(self.known, counter)

    def book_of(self, members: Iterable[Address]) -> dict[Address, PhysicalAddress]:
        """Where they receive, as far as it is known."""
        places = {member: self.addresses.physical_of(member) for member in members}
        return {member: place for member, place in places.items() if place is not None}

    # --- sending ----------------------------------------------------------------------------------------------------

    def tell(self, header: Header, targets: Iterable[Address]) -> None:
        """Send to each of `targets`, by one multicast where that is cheaper; ourselves included."""
        others = [member for member in targets if member != self.me]
        if len(others) > FEW and self.addresses.has_multicast():
            self.send(header, None)
        else:
            for member in others:
                self.send(header, member)
        if len(others) < len(list(targets)):
            self.answer(header, self.me)

    def answer(self, header: Header, dest: Address) -> None:
        """Send to one member, which may be ourselves."""
        if dest == self.me:
            handler = getattr(self, self.receivers[type(header)])
            handler(header, Batch(self.me, self.me))
        else:
            self.send(header, dest)

    # --- the channel's wishes ---------------------------------------------------------------------------------------

    @on(Connect)
    def connect(self, event: Connect) -> None:
        assert self.state == IDLE, "a stack connects once"
        self.state = JOINING
        self.later(self.seeker.begin)          # the transport must know the cluster first

    @on(Disconnect)
    def disconnect(self, event: Disconnect) -> None:
        if self.state in (LEAVING, LEFT):
            return
        if self.view is None or len(self.view) == 1:
            return self.leave_now()
        self.state = LEAVING
        self.leavers[self.me] = None
        self.set_timer("leave_timeout", self.config.leave_timeout_ns)
        self.ask_to_leave()

    @timer("leave")
    def ask_to_leave(self) -> None:
        if self.handed_over or self.view is None:
            return
        if self.acting():
            self.chair.consider()
        else:
            self.answer(LeaveMe(self.view.id), self.present()[0])
        self.set_timer("leave", LEAVE_REPEAT_NS)

    @receives(LeaveMe)
    def leave_asked(self, header: LeaveMe, batch: Batch) -> None:
        if self.view is None or self.shown is None:
            return
        if batch.src not in self.view:
            return self.send(self.shown, batch.src)
        self.leavers[batch.src] = None
        self.chair.consider()

    @timer("leave_timeout")
    def leave_now(self) -> None:
        """Out of the group, with its permission or without."""
        if self.state == LEFT:
            return
        self.state = LEFT
        self.view = None
        self.chair.stop()
        for name in ("leave", "leave_timeout", "stuck", "seek", "merge"):
            self.cancel_timer(name)
        self.later(lambda: self.pass_up(Left()))

    @on(RaiseView)
    def raise_view(self, event: RaiseView) -> None:
        self.knows(event.above)
        self.refresh = True
        self.chair.consider()

    # --- failures ---------------------------------------------------------------------------------------------------

    @on(Suspect)
    def suspect(self, event: Suspect) -> None:
        if self.view is None:
            return
        fresh = [m for m in event.members if m in self.view and m != self.me and m not in self.suspects]
        self.suspects.update(dict.fromkeys(fresh))
        if fresh:
            self.chair.lost(fresh)

    @on(Unsuspect)
    def unsuspect(self, event: Unsuspect) -> None:
        for member in event.members:
            self.suspects.pop(member, None)

    def is_gone(self, member: Address) -> None:
        """`member` is in our view no longer, or does not answer."""
        if self.view is not None and member in self.view and member != self.me and member not in self.gone:
            self.count("members_gone")
            self.gone[member] = None
            self.chair.lost([member])

    @on(ExcludedHint)
    def stranger_heard(self, event: ExcludedHint) -> None:
        if self.acting() and self.shown is not None:
            self.send(self.shown, event.stranger)

    # --- a view change, answering side --------------------------------------------------------------------------------

    def concerns(self, header: Prepare | Cut, owner: Address) -> bool:
        """Whether we are asked as what we are; otherwise the owner is told where we are."""
        view_id = header.flush.view_id
        if self.state in (IDLE, LEFT) or self.handed_over:
            return False
        if self.me in header.joiners:
            if self.view is None and owner == self.seeker.coordinator:
                return True
            self.send(Elsewhere(view_id, None if self.view is None else self.view.id, True), owner)
        elif self.me not in header.members:
            return False
        elif self.view is None:
            self.send(Elsewhere(view_id, None, self.mine.latest is None), owner)
        elif view_id == self.view.id:
            self.mine.saw(header.flush.ballot)
            return True
        elif view_id < self.view.id and self.shown is not None:
            self.send(self.shown, owner)
        else:
            self.send(Elsewhere(view_id, self.view.id, False), owner)
        return False

    def outbids(self, flush: FlushId, owner: Address) -> bool:
        """Whether a higher ballot was promised; its owner is then told."""
        if self.mine.may_promise(flush):
            return False
        assert self.mine.promised is not None
        self.answer(Outbid(flush, self.mine.promised.ballot), owner)
        return True

    @receives(Prepare)
    def prepare(self, header: Prepare, batch: Batch) -> None:
        flush = header.flush
        if not self.concerns(header, batch.src) or self.outbids(flush, batch.src):
            return
        self.progressed()
        if self.mine.in_cut(flush):
            return                             # a late copy; the owner has our answer
        self.chair.yields_to(flush)
        self.mine.promise(flush)
        if self.view is None:
            self.answer(State(flush, self.known, {}), batch.src)
        else:
            self.pass_down(Freeze())

    @on(Frozen)
    def frozen(self, event: Frozen) -> None:
        if self.parting is not None:
            return self.part(self.parting)
        flush = self.mine.promised
        if flush is not None and self.view is not None and not self.mine.in_cut(flush):
            self.answer(State(flush, self.known, dict(event.digest)), flush.ballot.owner)

    @receives(Cut)
    def cut(self, header: Cut, batch: Batch) -> None:
        flush = header.flush
        if not self.concerns(header, batch.src) or self.outbids(flush, batch.src):
            return
        self.progressed()
        if flush in self.mine.accepted:
            return self.answer(Ack(flush), batch.src)
        if flush == self.mine.filling:
            return
        if flush != self.mine.promised:
            return self.count("cuts_without_promise")
        self.knows(header.counter)
        self.mine.fill(flush, header.cut)
        if self.view is None:
            self.accept(header.cut)
        else:
            self.pass_down(FillTo(header.cut, header.holders))

    @on(Filled)
    def filled(self, event: Filled) -> None:
        self.accept(event.cut)

    def accept(self, cut: dict[Address, int]) -> None:
        flush = self.mine.filled(cut)
        if flush is not None:
            self.answer(Ack(flush), flush.ballot.owner)

    def progressed(self) -> None:
        """The owner of a ballot is at work; if that stops, `stuck` fires, at the first in line first."""
        if self.view is None:
            return self.seeker.progressed()
        present = self.present()
        rank = min(present.index(self.me) if self.me in present else 0, PATIENT_RANKS)
        silence = self.config.silence_ns
        self.set_timer("stuck", (2 + rank) * silence + self.rng.randrange(silence // 2))

    @timer("stuck")
    def stuck(self) -> None:
        if self.view is None or not self.mine.frozen or self.handed_over:
            return
        if self.chair.flush is not None:
            return self.progressed()
        self.count("changes_taken_over")
        self.chair.start()
        self.progressed()

    # --- a view change, asking side: see chair.py ---------------------------------------------------------------------

    @receives(State)
    def state_came(self, header: State, batch: Batch) -> None:
        self.chair.state_came(header, batch.src)

    @receives(Ack)
    def ack_came(self, header: Ack, batch: Batch) -> None:
        self.chair.ack_came(header, batch.src)

    @receives(Outbid)
    def outbid(self, header: Outbid, batch: Batch) -> None:
        self.chair.outbid(header)

    @receives(Installed)
    def installed(self, header: Installed, batch: Batch) -> None:
        self.chair.installed(header.view_id, batch.src)

    @timer("bundle")
    def bundled(self) -> None:
        self.chair.bundled()

    @timer("tick")
    def tick(self) -> None:
        self.chair.tick()

    @timer("announce")
    def announce_again(self) -> None:
        self.chair.announce_tick()

    @receives(Elsewhere)
    def elsewhere(self, header: Elsewhere, batch: Batch) -> None:
        src = batch.src
        if self.view is None or self.shown is None or header.asked != self.view.id:
            return self.count("elsewhere_about_other_view")
        if src not in self.view:
            self.chair.declined(src, header.final)
        elif header.final or (header.mine is not None and header.mine > self.view.id):
            self.is_gone(src)
        else:
            self.send(self.shown, src)

    # --- installing -------------------------------------------------------------------------------------------------

    @receives(Install)
    def told_of_view(self, header: Install, batch: Batch) -> None:
        src, view = batch.src, header.view
        if self.state in (IDLE, LEFT) or self.handed_over:
            return
        self.pass_down(AddressesKnown(header.book))
        if self.view is not None and view.id == self.view.id:
            return self.send(Installed(view.id), src)
        if self.view is not None and view.id < self.view.id:
            return self.count("old_views_heard")
        if self.mine.may_install(header.flushes, src, self.me):
            self.follow(header, src)
        elif self.me in view:
            self.cannot_follow(header, src)
        elif self.view is not None:
            self.left_behind(header, src)

    def follow(self, header: Install, src: Address) -> None:
        """We accepted what decided this view."""
        if self.me in header.view:
            self.install(header)
            self.send(Installed(header.view.id), src)
        elif self.me in header.leavers:
            self.send(Installed(header.view.id), src)
            self.leave_now()
        else:
            self.count("odd_views_heard")

    def cannot_follow(self, header: Install, src: Address) -> None:
        """A view counts us in that we did not accept, or not last. Its members must go on without us."""
        mine = self.view.id if self.view is not None else None
        if self.mine.accepted and any(flush in header.flushes for flush in self.mine.accepted):
            return self.count("views_held_back")          # the owner of a newer ballot decides
        self.send(Elsewhere(header.view.id, mine, True), src)
        self.is_gone(src)

    def left_behind(self, header: Install, src: Address) -> None:
        """A later view without us is about: either our group went there, or `src` alone did."""
        assert self.view is not None
        leader = next((m for m in self.view.members if m != self.me and not self.absent(m)), None)
        decided_here = any(flush.view_id == self.view.id for flush in header.flushes)
        if decided_here or (leader is not None and leader in header.view):
            self.excluded(header)
        else:
            self.is_gone(src)

    def excluded(self, header: Install) -> None:
        """The group goes on without us: we are a group of our own, and want to be united with it at once."""
        self.count("times_excluded")
        if self.state == LEAVING:
            return self.leave_now()
        self.knows(header.view.id.counter)
        if self.parting is None:
            self.pass_down(Freeze())           # what was delivered before must have passed us: see `frozen`
        self.parting = {header.view.coordinator: header.view.id}

    def part(self, others: dict[Address, ViewId]) -> None:
        """Nothing of our view is under way any more."""
        self.alone()
        self.merger.meet(others)

    def alone(self) -> None:
        """Install a view with only ourselves in it."""
        view = View(ViewId(self.known + 1, self.me), (self.me,))
        self.install(Install(view, (), (), self.book_of((self.me,))))

    def install(self, header: Install) -> None:
        """The view is ours from here on."""
        view, previous = header.view, self.view
        assert self.me in view, "a member installs only views with itself (M1)"
        assert previous is None or previous.id < view.id, "views only grow (M2)"
        self.chair.moves(header)
        before = previous.members if previous is not None else ()
        self.view, self.shown, self.mine = view, header, Participant(view.id)
        self.knows(view.id.counter)
        if self.state == JOINING:
            self.state = MEMBER
            self.seeker.done()
        self.joiners = {member: None for member in self.joiners if member not in view}
        self.leavers = {member: None for member in self.leavers if member in view}
        self.suspects = {member: None for member in self.suspects if member in view}
        self.gone, self.refresh, self.parting = {}, False, None
        self.cancel_timer("stuck")
        self.count("views_installed")
        change = ViewChange(view, previous, tuple(m for m in view.members if m not in before),
                            tuple(m for m in before if m not in view.members))
        self.pass_down(change)
        self.pass_up(change)
        self.later(self.after_install)

    def after_install(self) -> None:
        """What waited for the view."""
        if self.state == LEAVING and self.view is not None:
            if len(self.view) == 1:
                return self.leave_now()
            self.ask_to_leave()
        self.chair.consider()
        self.merger.consider()

    def decided(self, header: Install) -> None:
        """As the owner of its ballot: everybody accepted, so the view is decided."""
        self.chair.announce(header)
        if self.me in header.view:
            self.install(header)
        else:
            self.handed_over = True
            self.chair.close()
            self.cancel_timer("stuck")

    # --- joining: see joining.py --------------------------------------------------------------------------------------

    @on(MembersFound)
    def members_found(self, event: MembersFound) -> None:
        self.seeker.found(event.found)

    @timer("seek")
    def seek_again(self) -> None:
        self.seeker.tick()

    @receives(AskThere)
    def redirected(self, header: AskThere, batch: Batch) -> None:
        self.seeker.redirected(header, batch.src)

    @receives(JoinMe)
    def join_asked(self, header: JoinMe, batch: Batch) -> None:
        self.pass_down(AddressesKnown({header.member: header.physical}))
        if self.view is None or self.shown is None or self.handed_over:
            return
        if batch.src in self.view:
            return self.send(self.shown, batch.src)
        if self.acting():
            self.joiners[batch.src] = None
            self.chair.consider()
        else:
            leader = self.present()[0]
            self.send(AskThere(leader, self.addresses.physical_of(leader)), batch.src)

    # --- merging: see merging.py --------------------------------------------------------------------------------------

    @on(MergeNeeded)
    def merge_needed(self, event: MergeNeeded) -> None:
        self.merger.needed(event.views)

    @timer("merge")
    def merge_tick(self) -> None:
        self.merger.tick()

    @receives(MergePlease)
    def merge_pleaded(self, header: MergePlease, batch: Batch) -> None:
        self.merger.pleaded(header, batch.src)

    @receives(MergeAsk)
    def merge_asked(self, header: MergeAsk, batch: Batch) -> None:
        self.merger.asked(header, batch.src)

    @receives(MergeReady)
    def merge_ready(self, header: MergeReady, batch: Batch) -> None:
        self.merger.partner_ready(header, batch.src)

    @receives(MergeOff)
    def merge_off(self, header: MergeOff, batch: Batch) -> None:
        self.merger.partner_off(header, batch.src)


