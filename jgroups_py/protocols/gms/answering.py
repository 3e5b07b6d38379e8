"""The answering side of view changes: promise, stop, fill up, accept, install; and find out that one was left out.

Every message may be a late copy or of somebody who is not where we are; then the answer says where we are, mostly by
showing what installed our view. What changes our view is believed of those only that may change it: Prepare and Cut of
the owner of the ballot, if it is a member of our view, or while we join the coordinator that we asked; Install of a
member of our view, or of whoever shows what we accepted from the coordinator that we asked, or for a merge. If anybody
else claims that our group went on, we ask the group.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from jgroups_py.address import Address
from jgroups_py.events import AddressesKnown, Digest, FillTo, Freeze
from jgroups_py.jumps import plausible
from jgroups_py.protocols.gms.headers import Ack, Cut, Elsewhere, FlushId, Install, Installed, Outbid, Prepare, State
from jgroups_py.protocols.gms.participant import Participant
from jgroups_py.protocols.gms.states import IDLE, LEAVING, LEFT
from jgroups_py.view import MergeView, View, ViewId

if TYPE_CHECKING:
    from jgroups_py.protocols.gms.gms import Gms

PATIENT_RANKS = 3         # how many of those in line wait for each other before they take over a stuck change


class Answerer:
    """Our part in the view changes of others (and, told by ourselves, in our own)."""

    def __init__(self, gms: Gms) -> None:
        self.gms = gms
        self.freezes = 0                                    # how often NAKACK has yet to say that it stopped
        self.parting: dict[Address, ViewId] | None = None   # excluded: whom to merge with once we are alone

    def out(self) -> bool:
        """Whether views do not concern us: before joining, while parting from a view, after leaving."""
        gms = self.gms
        return gms.state in (IDLE, LEFT) or gms.leaver.handed_over or self.parting is not None

    def concerns(self, header: Prepare | Cut, owner: Address) -> bool:
        """Whether we are asked as what we are; otherwise the owner is told where we are."""
        gms = self.gms
        view_id = header.flush.view_id
        if self.out():
            return False
        if owner != header.flush.ballot.owner:
            gms.count("ballots_of_others_refused")
        elif gms.me in header.joiners:
            if gms.view is None and owner == gms.seeker.coordinator:
                return self.plausible(header, anew=True)
            gms.send(Elsewhere(view_id, None if gms.view is None else gms.view.id, True), owner)
        elif gms.me not in header.members:
            return False
        elif gms.view is None:
            gms.send(Elsewhere(view_id, None, gms.mine.latest is None), owner)
        elif view_id == gms.view.id and owner not in gms.view:
            gms.count("strangers_ballots_refused")
        elif view_id == gms.view.id:
            return self.plausible(header, anew=False)
        elif view_id < gms.view.id and gms.shown is not None:
            gms.send(gms.shown, owner)
        else:
            gms.send(Elsewhere(view_id, gms.view.id, False), owner)
        return False

    def plausible(self, header: Prepare | Cut, anew: bool) -> bool:
        """Whether its numbers may follow those that we know of. anew: we are joining and know none."""
        gms = self.gms
        if not gms.mine.sees(header.flush.ballot, anew=anew):
            gms.count("round_jumps_refused")
            return False
        return not isinstance(header, Cut) or gms.knows(header.counter)

    def outbids(self, flush: FlushId, owner: Address) -> bool:
        """Whether a higher ballot was promised; its owner is then told."""
        gms = self.gms
        if gms.mine.may_promise(flush):
            return False
        assert gms.mine.promised is not None
        gms.answer(Outbid(flush, gms.mine.promised.ballot), owner)
        return True

    def prepare(self, header: Prepare, src: Address) -> None:
        """Promise and stop, then say how far we are."""
        gms = self.gms
        flush = header.flush
        if not self.concerns(header, src) or self.outbids(flush, src):
            return
        self.progressed()
        if gms.mine.in_cut(flush):
            return                             # a late copy; the owner has our answer
        gms.chair.yields_to(flush)
        gms.mine.promise(flush)
        if gms.view is None:
            gms.answer(State(flush, gms.known, {}), src)
        else:
            self.freeze()

    def freeze(self) -> None:
        """Have NAKACK stop, and say how far it is."""
        self.freezes += 1
        self.gms.pass_down(Freeze())

    def frozen(self, digest: Digest) -> None:
        """NAKACK has stopped, and all it passed up before has passed us."""
        gms = self.gms
        self.freezes -= 1
        if self.freezes > 0:
            return                             # it was told to go on in between; its last word counts
        if self.parting is not None:
            return self.part(self.parting)
        flush = gms.mine.promised
        if flush is not None and gms.view is not None and not gms.mine.in_cut(flush):
            gms.answer(State(flush, gms.known, dict(digest)), flush.ballot.owner)

    def cut(self, header: Cut, src: Address) -> None:
        """Deliver up to the cut, then accept."""
        gms = self.gms
        flush = header.flush
        if not self.concerns(header, src) or self.outbids(flush, src):
            return
        self.progressed()
        if flush in gms.mine.accepted:
            return gms.answer(Ack(flush), src)
        if flush == gms.mine.filling:
            return
        if flush != gms.mine.promised:
            return gms.count("cuts_without_promise")
        gms.mine.fill(flush, header.cut)
        gms.mine.uniting = header.counter == 0
        if gms.view is None:
            self.accept(header.cut)
        else:
            gms.pass_down(FillTo(header.cut, header.holders))

    def accept(self, cut: Digest) -> None:
        """Everything below `cut` is delivered."""
        gms = self.gms
        flush = gms.mine.filled(cut)
        if flush is not None:
            gms.answer(Ack(flush), flush.ballot.owner)

    def progressed(self) -> None:
        """The owner of a ballot is at work; if that stops, `stuck` fires, at the first in line first."""
        gms = self.gms
        if gms.view is None:
            return gms.seeker.progressed()
        present = gms.present()
        rank = min(present.index(gms.me) if gms.me in present else 0, PATIENT_RANKS)
        silence = gms.config.silence_ns
        gms.set_timer("stuck", (2 + rank) * silence + gms.rng.randrange(silence // 2))

    def stuck(self) -> None:
        """Nobody carries the change on, so we do."""
        gms = self.gms
        if gms.view is None or not gms.mine.frozen or gms.leaver.handed_over:
            return
        if gms.chair.flush is not None:
            return self.progressed()
        gms.count("changes_taken_over")
        gms.chair.start()
        self.progressed()

    # --- installing ---------------------------------------------------------------------------------------------------

    def told_of_view(self, header: Install, src: Address) -> None:
        """`src` has, or decided, this view."""
        gms = self.gms
        view = header.view
        if self.out():
            return
        if gms.view is not None and view.id == gms.view.id:
            return gms.send(Installed(view.id), src)
        if gms.view is not None and view.id < gms.view.id:
            return gms.count("old_views_heard")
        if not plausible(view.id.counter, gms.known, anew=gms.view is None):
            if self.believes(header, src):
                gms.approach(view.id.counter)
            return gms.count("counter_jumps_refused")
        believed = self.believes(header, src)
        if believed:
            gms.pass_down(AddressesKnown(header.book))
        if believed and gms.mine.may_install(header.flushes, src, gms.me):
            self.follow(header, src)
        elif gms.me in view:
            self.cannot_follow(header, src)
        elif gms.view is not None and believed:
            self.left_behind(header, src)
        elif gms.view is not None:
            self.ask_group(header, gms.view)

    def believes(self, header: Install, src: Address) -> bool:
        """Whether `src` may say that this view was decided."""
        gms = self.gms
        latest = gms.mine.latest
        accepted = latest is not None and latest in header.flushes and src in header.view
        if gms.view is None:
            return accepted or src == gms.seeker.coordinator
        return src in gms.view or (accepted and gms.mine.uniting and isinstance(header.view, MergeView))

    def ask_group(self, header: Install, view: View) -> None:
        """A stranger says that our group went on without us: the first of us that it names will know."""
        gms = self.gms
        gms.count("strangers_views_refused")
        leader = next((m for m in view.members if m != gms.me and m in header.view), None)
        if leader is not None:
            gms.send(Elsewhere(header.view.id, view.id, False), leader)

    def follow(self, header: Install, src: Address) -> None:
        """We accepted what decided this view."""
        gms = self.gms
        if gms.me in header.view:
            gms.install(header)
            gms.send(Installed(header.view.id), src)
        elif gms.me in header.leavers and gms.state == LEAVING:
            gms.send(Installed(header.view.id), src)
            gms.leaver.go()
        elif gms.view is not None:
            gms.count("leaves_not_asked_for")            # somebody asked in our name: we are excluded, and come back
            self.excluded(header)
        else:
            gms.count("odd_views_heard")

    def cannot_follow(self, header: Install, src: Address) -> None:
        """A view counts us in that we did not accept, or not last. Its members must go on without us."""
        gms = self.gms
        mine = gms.view.id if gms.view is not None else None
        if gms.mine.accepted and any(flush in header.flushes for flush in gms.mine.accepted):
            return gms.count("views_held_back")          # the owner of a newer ballot decides
        gms.send(Elsewhere(header.view.id, mine, True), src)
        gms.is_gone(src)

    def left_behind(self, header: Install, src: Address) -> None:
        """A later view without us is about: either our group went there, or `src` alone did."""
        gms = self.gms
        assert gms.view is not None
        leader = next((m for m in gms.view.members if m != gms.me and not gms.absent(m)), None)
        decided_here = any(flush.view_id == gms.view.id for flush in header.flushes)
        if decided_here or (leader is not None and leader in header.view):
            self.excluded(header)
        else:
            gms.is_gone(src)

    def excluded(self, header: Install) -> None:
        """The group goes on without us: we are a group of our own, and want to be united with it at once."""
        gms = self.gms
        gms.count("times_excluded")
        if gms.state == LEAVING:
            return gms.leaver.go()
        gms.knows(header.view.id.counter)
        gms.chair.close()
        gms.mine = Participant(gms.mine.view_id)          # a cut that is being filled is none of ours any more
        self.freeze()                                     # what was delivered before must have passed us: see `frozen`
        self.parting = {header.view.coordinator: header.view.id}

    def part(self, others: dict[Address, ViewId]) -> None:
        """Nothing of our view is under way any more."""
        gms = self.gms
        gms.alone()
        gms.merger.meet(others)
