"""GMS: agrees with all other members on who is in the group, and on what was delivered before each change.

A view is changed by its acting coordinator (the first member that is neither suspected nor gone) in three rounds:
Prepare/State stops everybody and collects how far each is, Cut/Ack brings everybody to the same point, Install/
Installed switches. Each attempt has a ballot; a higher one replaces a lower one, so a crash in the middle is repaired
by the next in line. Joins, leaves and suspicions that arrive meanwhile are collected for the next change.
The parts: participant.py (what a member promised and accepted: the safety rules), answering.py, flush.py (one ballot,
asking side), chair.py (runs ballots), joining.py, leaving.py, merging.py, and this file: the state that they share, who
acts, installing, and all handlers.

Place: above NAKACK, which stops, fills and starts on our word (Freeze, FillTo, ViewChange).
Source: JGroups GMS (coordinator election, batching, join and merge roles), FLUSH (virtual synchrony), ballots as in
Paxos. Deviations: an install needs the acceptance of every member of the new view instead of a majority, since
partitioned halves both go on; no delta views; a member that is excluded becomes a singleton and merges back by itself.
"""
from __future__ import annotations

from collections.abc import Iterable

import attrs

from jgroups_py.address import Address, PhysicalAddress
from jgroups_py.batch import Batch, Header
from jgroups_py.events import (
    AddressesKnown,
    Connect,
    Disconnect,
    ExcludedHint,
    Filled,
    Frozen,
    MembersFound,
    MergeNeeded,
    RaiseView,
    Suspect,
    Unsuspect,
    ViewChange,
)
from jgroups_py.jumps import MAX_JUMP, TOP, plausible
from jgroups_py.ports import AddressBook, Membership, MulticastCounts
from jgroups_py.protocol import Protocol, on, receives, timer
from jgroups_py.protocols.gms.admission import Admission
from jgroups_py.protocols.gms.answering import Answerer
from jgroups_py.protocols.gms.chair import Chair
from jgroups_py.protocols.gms.config import GmsConfig
from jgroups_py.protocols.gms.headers import (
    Ack,
    AskThere,
    ComeBack,
    Cut,
    Elsewhere,
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
from jgroups_py.protocols.gms.leaving import Leaver
from jgroups_py.protocols.gms.merging import Merger
from jgroups_py.protocols.gms.participant import Participant
from jgroups_py.protocols.gms.states import IDLE, JOINING, LEAVING, MEMBER
from jgroups_py.protocols.gms.totals import after_view, lacking
from jgroups_py.protocols.gms.trips import Trips
from jgroups_py.view import MergeView, View, ViewId

STEP = MAX_JUMP // 2      # members that know of the view before a step believe the one after it
FEW = 2                   # so many receivers get a message each even where one multicast would reach them


class Gms(Protocol, Membership):
    """Group membership with virtual synchrony."""

    control_only = True
    Config = GmsConfig
    config: GmsConfig
    needs = {"addresses": AddressBook, "counts": MulticastCounts}
    addresses: AddressBook
    counts: MulticastCounts

    def start(self) -> None:
        self.view: View | None = None
        self.shown: Install | None = None              # what installed our view, for whoever missed it
        self.known = 0                                 # the highest view counter heard of
        self.mine = Participant(None)
        self.suspects: dict[Address, None] = {}        # members that failure detection reported
        self.gone: dict[Address, None] = {}            # members known to have left our view behind, or silent
        self.joiners: dict[Address, None] = {}         # who asked to join, and showed that it exists
        self.leavers: dict[Address, None] = {}         # members that asked to leave
        self.refresh = False                           # a new view is wanted though nobody comes or goes
        self.state: str = IDLE
        self.answerer = Answerer(self)
        self.chair = Chair(self)
        self.admission = Admission(self)
        self.seeker = Seeker(self)
        self.leaver = Leaver(self)
        self.merger = Merger(self)
        self.trips = Trips()

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
        return (self.view is not None and self.state in (MEMBER, LEAVING) and not self.leaver.handed_over
                and self.present()[0] == self.me)

    def knows(self, counter: int) -> bool:
        """A view of this number exists or is proposed somewhere; False: not believed."""
        if not plausible(counter, self.known, anew=self.view is None):
            self.count("counter_jumps_refused")
            return False
        self.known = max(self.known, counter)
        return True

    def approach(self, counter: int) -> None:
        """Count up to `counter`, if it is not far, else one step towards it, and install a view that says so to all.

        Where a false word raised the counter of one of two groups, which now merge, or of another site, which fences
        ours, they would stay apart for ever otherwise.
        """
        if self.view is not None and counter <= TOP and self.acting() and self.known - self.view.id.counter < STEP:
            self.count("counter_steps")
            self.known = min(counter, self.known + STEP)
            self.refresh = True
            self.chair.consider()

    def is_asked(self, member: Address) -> bool:
        """Whether `member` takes part in our ballots."""
        return (self.view is not None and member in self.view) or member in self.joiners

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
        self.leaver.begin()

    @on(RaiseView)
    def raise_view(self, event: RaiseView) -> None:
        if event.above > self.known:
            self.approach(event.above)
        else:
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
        if self.shown is not None and (event.asked or self.acting()):
            self.send(self.shown, event.stranger)

    # --- a view change, answering side: see answering.py --------------------------------------------------------------

    @receives(Prepare)
    def prepare(self, header: Prepare, batch: Batch) -> None:
        self.answerer.prepare(header, batch.src)

    @on(Frozen)
    def frozen(self, event: Frozen) -> None:
        self.answerer.frozen(event.digest)

    @receives(Cut)
    def cut(self, header: Cut, batch: Batch) -> None:
        self.answerer.cut(header, batch.src)

    @on(Filled)
    def filled(self, event: Filled) -> None:
        self.answerer.accept(event.cut)

    @timer("stuck")
    def stuck(self) -> None:
        self.answerer.stuck()

    @receives(Install)
    def told_of_view(self, header: Install, batch: Batch) -> None:
        self.answerer.told_of_view(header, batch.src)

    # --- a view change, asking side: see chair.py ---------------------------------------------------------------------

    @receives(State)
    def state_came(self, header: State, batch: Batch) -> None:
        self.chair.state_came(header, batch.src)

    @receives(Ack)
    def ack_came(self, header: Ack, batch: Batch) -> None:
        self.chair.ack_came(header, batch.src)

    @receives(Outbid)
    def outbid(self, header: Outbid, batch: Batch) -> None:
        self.chair.outbid(header, batch.src)

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
            if header.mine is not None and not header.final and header.mine < self.view.id:
                self.send(self.shown, src)             # it heard of our view from a stranger, and asks whether it is so
            self.chair.declined(src, header.final)
        elif header.final or (header.mine is not None and header.mine > self.view.id):
            self.is_gone(src)
        else:
            self.send(self.shown, src)

    # --- installing -------------------------------------------------------------------------------------------------

    def alone(self) -> None:
        """Install a view with only ourselves in it."""
        view = View(ViewId(self.known + 1, self.me), (self.me,))
        self.install(Install(view, (), (), self.book_of((self.me,)), self.sums()))

    def sums(self) -> dict[Address, int]:
        """How many multicasts we have of each sender, those of our own view included, as far as they are delivered."""
        return after_view(self.shown.sent, self.counts.multicasts()) if self.shown is not None else {}

    def install(self, header: Install) -> None:
        """The view is ours from here on."""
        view, previous = header.view, self.view
        assert self.me in view, "a member installs only views with itself (M1)"
        assert previous is None or previous.id < view.id, "views only grow (M2)"
        self.chair.moves(header)
        before = previous.members if previous is not None else ()
        shown: View = view
        if isinstance(view, MergeView) and previous is not None:
            shown = attrs.evolve(view, missed=lacking(header.sent, self.sums(), self.me))
        self.view, self.shown, self.mine = view, header, Participant(view.id)
        self.known = max(self.known, view.id.counter)
        if self.state == JOINING:
            self.state = MEMBER
            self.seeker.done()
        self.joiners = {member: None for member in self.joiners if member not in view}
        self.leavers = {member: None for member in self.leavers if member in view}
        failed = tuple(m for m in before if m in self.suspects and m not in view.members)
        self.suspects = {member: None for member in self.suspects if member in view}
        self.gone, self.refresh, self.answerer.parting = {}, False, None
        self.cancel_timer("stuck")
        self.count("views_installed")
        change = ViewChange(shown, previous, tuple(m for m in view.members if m not in before),
                            tuple(m for m in before if m not in view.members), failed)
        self.pass_down(change)
        self.pass_up(change)
        self.later(self.after_install)

    def after_install(self) -> None:
        """What waited for the view."""
        if self.state == LEAVING:
            self.leaver.after_install()
        self.chair.consider()
        self.merger.consider()

    def decided(self, header: Install) -> None:
        """As the owner of its ballot: everybody accepted, so the view is decided."""
        self.chair.announce(header)
        self.admission.decided(header.view)
        if self.me in header.view:
            self.install(header)
        else:
            self.leaver.hand_over(header)

    # --- leaving: see leaving.py --------------------------------------------------------------------------------------

    @receives(LeaveMe)
    def leave_asked(self, header: LeaveMe, batch: Batch) -> None:
        self.leaver.asked(header, batch.src)

    @timer("leave")
    def ask_to_leave(self) -> None:
        self.leaver.ask()

    @timer("leave_timeout")
    def leave_anyway(self) -> None:
        self.leaver.give_up()

    # --- joining: see joining.py --------------------------------------------------------------------------------------

    @on(MembersFound)
    def members_found(self, event: MembersFound) -> None:
        self.trips.took(event.found, self.now_ns)
        self.seeker.found(event.found)

    @timer("seek")
    def seek_again(self) -> None:
        self.seeker.tick()

    @receives(AskThere)
    def redirected(self, header: AskThere, batch: Batch) -> None:
        self.seeker.redirected(header, batch.src)

    @receives(ComeBack)
    def challenged(self, header: ComeBack, batch: Batch) -> None:
        self.seeker.challenged(header, batch.src)

    @timer("admit")
    def admit(self) -> None:
        self.chair.consider()

    @receives(JoinMe)
    def join_asked(self, header: JoinMe, batch: Batch) -> None:
        if header.member != batch.src:
            return self.count("joins_of_others_refused")
        self.pass_down(AddressesKnown({header.member: header.physical}))
        if self.view is None or self.shown is None or self.leaver.handed_over:
            return None
        if batch.src in self.view:
            return self.send(self.shown, batch.src)
        if self.acting():
            return self.admission.asked(header, batch.src)
        leader = self.present()[0]
        return self.send(AskThere(leader, self.addresses.physical_of(leader)), batch.src)

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


