"""What one member has promised and accepted since it installed its view (or, without a view, since it asked to join).

Pure bookkeeping; acceptor.py sends the answers. The rules that make view changes safe are all here:

A1. *Promises only grow.* A ballot below one that was promised is refused. So of two competing coordinators at most one
    gets the answers of any member from some point on, and it is the one with the higher ballot.
A2. *Install what was accepted last.* A decided view is installed only by a member that has delivered exactly the
    messages of the decided cut. A member delivers nothing between its first promise and the install but what cuts
    allow, so it is enough to remember which flushes it accepted since its cut last changed. Hence S5 (virtual
    synchrony): all members that install the view from the same previous view delivered the same in it.
A3. *A newer acceptance with the same cut* does not void an older one. But the older decision is then taken only from
    the newer ballot's owner, which abandons its own ballot by it; otherwise members would part needlessly.

Paxos has a majority accept; here every member of the next view does, since both halves of a partition go on. So members
need not agree which of two decided views comes next: each installs one whose cut it delivered, in which all members
come from the same view (S7). Members that installed different ones are different groups, which MERGE3 unites later.
"""
from __future__ import annotations

from jgroups_py.model.address import Address
from jgroups_py.model.counter_jumps import plausible
from jgroups_py.model.events import Digest
from jgroups_py.model.view import ViewId
from jgroups_py.protocols.gms.headers import Ballot, FlushId


class AcceptorState:
    """One member's promises and acceptances in the changes of `view_id` (None: it is joining).

    promised: the highest flush promised; filling: the flush whose cut is being delivered now; cut: what that, or the
    last accepted flush, allows to deliver; accepted: flushes accepted with exactly this cut, oldest first;
    highest_round: of all ballots seen in this view; by_merge: the cut belongs to a merge, whose leader is in another
    group and decides.
    """

    def __init__(self, view_id: ViewId | None) -> None:
        self.view_id = view_id
        self.promised: FlushId | None = None
        self.cut: Digest | None = None
        self.filling: FlushId | None = None
        self.accepted: list[FlushId] = []
        self.highest_round = 0
        self.by_merge = False

    @property
    def frozen(self) -> bool:
        """Whether a view change has stopped this member."""
        return self.promised is not None

    @property
    def latest(self) -> FlushId | None:
        """The flush accepted last."""
        return self.accepted[-1] if self.accepted else None

    def note_round(self, ballot: Ballot) -> None:
        """A ballot of our view was seen; the next one of this member has to be above it."""
        self.highest_round = max(self.highest_round, ballot.round)

    def adopt_round(self, ballot: Ballot, *, anew: bool) -> bool:
        """Adopt the round of another member's ballot; False if it is implausible. anew: no round is known here yet."""
        if not plausible(ballot.round, self.highest_round, anew=anew):
            return False
        self.note_round(ballot)
        return True

    def may_promise(self, flush: FlushId) -> bool:
        """Whether `flush` is not below the promise (A1)."""
        return self.promised is None or flush >= self.promised

    def promise(self, flush: FlushId) -> None:
        """Refuse lower ballots from now on; a cut that is being delivered stops where it is."""
        assert self.may_promise(flush), "a promise is never taken back"
        self.note_round(flush.ballot)
        if flush != self.promised:
            # What was accepted stays accepted: the older ballot may be decided already, without this member knowing.
            self.promised = flush
            self.filling = None

    def in_cut(self, flush: FlushId) -> bool:
        """Whether the cut of `flush` is being delivered, or was."""
        return flush == self.filling or flush in self.accepted

    def fill(self, flush: FlushId, cut: Digest) -> None:
        """Begin to deliver `cut`. A view decided with another cut can never be installed here any more (A2)."""
        assert flush == self.promised, "a cut follows the promise"
        if cut != self.cut:
            self.accepted.clear()
            self.cut = dict(cut)
        self.filling = flush

    def filled(self, cut: Digest) -> FlushId | None:
        """Everything below `cut` is delivered: the flush that this accepts, None if another cut is awaited."""
        if self.filling is None or cut != self.cut:
            return None
        done, self.filling = self.filling, None
        self.accepted.append(done)
        return done

    def may_install(self, flushes: tuple[FlushId, ...], shown_by: Address, me: Address) -> bool:
        """Whether a view that `flushes` decided, shown by member `shown_by`, may be installed here."""
        latest = self.latest
        if latest is None:
            return False
        # While a cut is being delivered, only the owner of that newer ballot may go back to an older decision.
        return (self.filling is None and latest in flushes) or self._adopts(latest, flushes, shown_by, me)

    def _adopts(self, latest: FlushId, flushes: tuple[FlushId, ...], shown_by: Address, me: Address) -> bool:
        """A3: an older decision with the same cut, shown by the newer ballot's owner, or if we are the owner."""
        owner = (self.filling or latest).ballot.owner
        return owner in (shown_by, me) and any(flush in flushes for flush in self.accepted)
