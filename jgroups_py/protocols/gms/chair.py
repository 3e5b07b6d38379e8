"""The chair: runs ballots for the acting coordinator, announces what was decided, and starts again when it must.

A phase's message is repeated in growing intervals to those who have not answered; who is asked ten times in vain is
left out of the next ballot. Repetitions are counted, not seconds, so that a process that slept itself does not take
everybody else for silent. When Cuts are not answered, the first new ballot leaves nobody out: it may be the holder
of messages that vanished, and Prepare finds out who it is.
"""
from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from jgroups_py.address import Address
from jgroups_py.protocols.gms.flush import CUTTING, PREPARING, READY, Flush, MergeKey
from jgroups_py.protocols.gms.headers import Ack, Ballot, Cut, FlushId, Install, Outbid, Prepare, State
from jgroups_py.view import View, ViewId

if TYPE_CHECKING:
    from jgroups_py.protocols.gms.gms import Gms

SILENT_TICKS = 10          # repetitions until a member counts as silent
JOINER_TICKS = 7           # a joiner is given up sooner: it delays people who are in the group
LONGEST_UNITS = 5
TICK_UNITS = 40            # what SILENT_TICKS repetitions last, in units: 1 + 2 + 3 + 4 + 6 * 5


def repeat_ns(ticks: int, silence_ns: int) -> int:
    """How long to wait before repetition `ticks` + 1; the first SILENT_TICKS last `silence_ns` together."""
    return silence_ns // TICK_UNITS * min(ticks + 1, LONGEST_UNITS)


def ticks_within(wait_ns: int, silence_ns: int) -> int:
    """How many repetitions to wait that last `wait_ns` together, SILENT_TICKS at least."""
    more_ns = max(0, wait_ns - silence_ns)
    return SILENT_TICKS + -(-more_ns // repeat_ns(SILENT_TICKS, silence_ns))


assert sum(min(tick + 1, LONGEST_UNITS) for tick in range(SILENT_TICKS)) == TICK_UNITS


class Announcement:
    """A decided view, and who has not confirmed it."""

    def __init__(self, install: Install, waiting: Iterable[Address]) -> None:
        self.install = install
        self.waiting = dict.fromkeys(waiting)
        self.ticks = 0


class Chair:
    """The asking side of view changes."""

    def __init__(self, gms: Gms) -> None:
        self.gms = gms
        self.flush: Flush | None = None
        self.news: Announcement | None = None
        self.second_try = False                # the last ballot ended with unanswered Cuts

    # --- beginning and ending -----------------------------------------------------------------------------------------

    def wanted(self) -> bool:
        """Whether our view should change."""
        gms = self.gms
        return gms.acting() and bool(gms.leavers or gms.suspects or gms.gone or gms.refresh
                                     or gms.admission.next_ones())

    def consider(self) -> None:
        """Something may have to be done; collect more of it for a moment, then start."""
        gms = self.gms
        if self.flush is None and self.wanted() and not gms.timer_is_set("bundle"):
            gms.set_timer("bundle", gms.config.max_bundling_ns if gms.config.view_bundling else 0)

    def bundled(self) -> None:
        """The collecting time is over."""
        if self.flush is None and self.wanted():
            self.start()

    def start(self, merge: MergeKey | None = None) -> None:
        """Begin a ballot above all that were seen in our view, with everybody we count on."""
        gms = self.gms
        assert gms.view is not None
        members = gms.present()
        leavers = [member for member in members if member in gms.leavers]
        if len(leavers) == len(members):
            leavers.remove(gms.me)             # somebody has to be left; we go in the change after this one
        ballot = Ballot(gms.mine.rounds + 1, gms.me)
        gms.mine.saw(ballot)
        gms.cancel_timer("bundle")
        self.flush = Flush(FlushId(gms.view.id, ballot), gms.view, members, gms.admission.next_ones(), leavers,
                           merge)
        gms.count("ballots")
        self.ask()

    def restart(self, merge: MergeKey | None = None) -> None:
        """The same with a higher ballot."""
        self.close()
        self.start(merge)

    def close(self) -> None:
        """Our ballot is over; a leader that counts on it is told."""
        flush, self.flush = self.flush, None
        if flush is not None and flush.phase == READY:
            self.gms.merger.withdraw(flush)
        self.gms.cancel_timer("tick")
        self.gms.cancel_timer("bundle")

    def stop(self) -> None:
        """We are out of the group."""
        self.close()
        self.news = None
        self.gms.cancel_timer("announce")

    def yields_to(self, other: FlushId) -> None:
        """We promise another ballot, so ours cannot succeed any more."""
        if self.flush is not None and self.flush.id != other:
            self.close()

    def lost(self, members: Iterable[Address]) -> None:
        """Members turned out to be absent."""
        if self.flush is None:
            self.consider()
        elif self.flush.phase != READY and any(member in self.flush.asked for member in members):
            self.restart()

    def declined(self, joiner: Address, final: bool) -> None:
        """A joiner does not want to be let in (any more)."""
        if final and joiner in self.gms.joiners:
            del self.gms.joiners[joiner]
            if self.flush is not None and joiner in self.flush.joiners and self.flush.phase != READY:
                self.restart(self.flush.merge)

    def outbid(self, header: Outbid, src: Address) -> None:
        """`src` promised a higher ballot: let that one try; `stuck` wakes us if it fails."""
        gms = self.gms
        if not gms.is_asked(src) or not gms.mine.sees(header.promised, anew=False):
            return gms.count("outbids_refused")
        if self.flush is not None and header.flush == self.flush.id:
            gms.count("ballots_outbid")
            self.close()
            gms.answerer.progressed()
        return None

    # --- asking -------------------------------------------------------------------------------------------------------

    def ask(self) -> None:
        """Send the phase's message to all."""
        assert self.flush is not None
        self.gms.set_timer("tick", repeat_ns(0, self.gms.config.silence_ns))
        self.gms.tell(self.message(), self.flush.asked)

    def message(self) -> Prepare | Cut:
        """What those who are asked have to answer in this phase."""
        flush = self.flush
        assert flush is not None
        if flush.phase == PREPARING:
            return Prepare(flush.id, flush.members, flush.joiners)
        return Cut(flush.id, flush.members, flush.joiners, flush.counter, flush.cut, flush.holders)

    def tick(self) -> None:
        """Repeat the question, or go on without those who do not answer."""
        flush, gms = self.flush, self.gms
        if flush is None:
            return
        flush.ticks += 1
        gms.set_timer("tick", repeat_ns(flush.ticks, gms.config.silence_ns))
        if flush.phase == READY:
            return gms.merger.ready_tick(flush)
        waiting = flush.waiting()
        silent_joiners = [m for m in waiting if m in flush.joiners] if flush.ticks >= JOINER_TICKS else []
        if flush.ticks >= SILENT_TICKS:
            self.give_up_on(waiting)
        elif silent_joiners:
            gms.admission.silent(silent_joiners)
            self.restart(flush.merge)
        else:
            message = self.message()
            for member in waiting:
                gms.answer(message, member)

    def give_up_on(self, silent: list[Address]) -> None:
        """They were asked often enough."""
        flush, gms = self.flush, self.gms
        assert flush is not None
        gms.count("silent_members", len(silent))
        spare = flush.phase == CUTTING and not self.second_try
        self.second_try = spare
        silent_joiners = [member for member in silent if member in flush.joiners]
        if silent_joiners:
            gms.admission.silent(silent_joiners)
        for member in silent:
            if member not in flush.joiners and not spare and member != gms.me:
                gms.gone[member] = None
        self.restart()

    def state_came(self, header: State, src: Address) -> None:
        flush = self.flush
        if flush is None or header.flush != flush.id:
            return self.stale(header.flush, src)
        if src not in flush.asked:
            return self.gms.count("answers_unasked")
        self.gms.knows(header.counter)         # one that jumps is not believed; how far the member is, is
        if flush.state(src, header.digest):
            counter = 0 if flush.merge is not None else self.gms.known + 1
            self.gms.knows(counter)
            flush.start_cut(counter)
            self.ask()
        return None

    def ack_came(self, header: Ack, src: Address) -> None:
        flush = self.flush
        if flush is None or header.flush != flush.id:
            return self.stale(header.flush, src)
        if flush.ack(src):
            self.second_try = False
            if flush.merge is None:
                members = flush.stayers
                view = View(ViewId(flush.counter, members[0]), members)
                self.gms.decided(Install(view, (flush.id,), flush.leavers, self.gms.book_of(members),
                                         self.gms.sums()))
            else:
                flush.phase, flush.ticks = READY, 0
                self.gms.merger.flushed(flush)

    def stale(self, flush: FlushId, src: Address) -> None:
        """Somebody waits for a ballot of ours that is over."""
        gms = self.gms
        if gms.view is None or gms.shown is None or gms.leaver.handed_over:
            return
        if src not in gms.view and src not in gms.joiners and flush.view_id >= gms.view.id:
            return gms.count("answers_unasked")
        if flush.view_id < gms.view.id:
            gms.send(gms.shown, src)
        elif flush.view_id == gms.view.id and self.flush is None and gms.acting():
            gms.refresh = True
            self.consider()

    # --- announcing ---------------------------------------------------------------------------------------------------

    def announce(self, install: Install) -> None:
        """Tell everybody concerned of a decided view until they confirm."""
        others = [m for m in (*install.view.members, *install.leavers) if m != self.gms.me]
        self.news = Announcement(install, others)
        self.gms.set_timer("announce", repeat_ns(0, self.gms.config.silence_ns))
        self.gms.tell(install, others)

    def moves(self, install: Install) -> None:
        """We install a view now. If we learnt of it while running a ballot, those whom we asked learn it from us."""
        flush, self.flush = self.flush, None
        self.close()
        if self.news is not None and self.news.install.view.id != install.view.id:
            self.news = None
            self.gms.cancel_timer("announce")
        if flush is not None and self.news is None and install.flushes:
            asked = [m for m in flush.asked if m != self.gms.me and (m in install.view or m in install.leavers)]
            self.news = Announcement(install, asked)
            self.gms.set_timer("announce", repeat_ns(0, self.gms.config.silence_ns))
            self.gms.tell(install, asked)

    def announce_tick(self) -> None:
        """Repeat the view to those who have not confirmed it."""
        news, gms = self.news, self.gms
        if news is None:
            return
        news.ticks += 1
        if not news.waiting or news.ticks >= SILENT_TICKS:
            return self.announced(news)
        gms.set_timer("announce", repeat_ns(news.ticks, gms.config.silence_ns))
        for member in news.waiting:
            gms.send(news.install, member)

    def installed(self, view_id: ViewId, src: Address) -> None:
        """`src` confirmed a view."""
        news = self.news
        if news is not None and news.install.view.id == view_id:
            news.waiting.pop(src, None)
            if not news.waiting:
                self.announced(news)
        flush = self.flush
        if flush is not None and flush.id.view_id == view_id and src in flush.waiting():
            self.gms.answer(self.message(), src)           # it was a view behind when we asked first

    def announced(self, news: Announcement) -> None:
        """Everybody confirmed, or was told often enough."""
        gms = self.gms
        self.news = None
        gms.cancel_timer("announce")
        if gms.leaver.handed_over:
            return gms.leaver.go()
        for member in news.waiting:
            if gms.acting() and member in news.install.view.members:
                gms.is_gone(member)
