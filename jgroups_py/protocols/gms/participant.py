"""What one member has promised and accepted since it installed its view (or, without a view, since it asked to join).

Pure bookkeeping; gms.py does the talking. The rules that make view changes safe are all here:

* A ballot is promised only if it is not below one promised before.
* A decided view may be installed only by a member that has delivered exactly the messages of the decided cut. A
  member delivers nothing between its first promise and the install but what cuts tell it to, so it is enough to
  remember which flushes it accepted since the cut last changed.
* Where a newer flush was accepted with the same cut, an older decision is taken only from the newer one's owner (who
  thereby gives the newer one up), so that members do not part needlessly.
"""
from __future__ import annotations

from jgroups_py.address import Address
from jgroups_py.events import Digest
from jgroups_py.jumps import plausible
from jgroups_py.protocols.gms.headers import Ballot, FlushId
from jgroups_py.view import ViewId


class Participant:
    """One member's part in the changes of `view_id` (None: it is joining)."""

    def __init__(self, view_id: ViewId | None) -> None:
        self.view_id = view_id
        self.promised: FlushId | None = None
        self.cut: Digest | None = None             # what was last told to be delivered
        self.filling: FlushId | None = None        # whose cut is being delivered now
        self.accepted: list[FlushId] = []          # flushes with exactly this cut, oldest first
        self.rounds = 0                            # the highest round seen
        self.uniting = False                       # the cut belongs to a merge: its leader decides

    @property
    def frozen(self) -> bool:
        """Whether a view change stopped us."""
        return self.promised is not None

    @property
    def latest(self) -> FlushId | None:
        """The flush accepted last."""
        return self.accepted[-1] if self.accepted else None

    def saw(self, ballot: Ballot) -> None:
        """Somebody uses this ballot in our view."""
        self.rounds = max(self.rounds, ballot.round)

    def sees(self, ballot: Ballot, *, anew: bool) -> bool:
        """The same for a ballot of a peer; False if its round is not believed. anew: we know nothing of rounds yet."""
        if not plausible(ballot.round, self.rounds, anew=anew):
            return False
        self.saw(ballot)
        return True

    def may_promise(self, flush: FlushId) -> bool:
        """Whether `flush` is not below the promise."""
        return self.promised is None or flush >= self.promised

    def promise(self, flush: FlushId) -> None:
        """From now on lower ballots are refused; a cut that is being delivered stops where it is."""
        assert self.may_promise(flush), "a promise is never taken back"
        self.saw(flush.ballot)
        if flush != self.promised:
            self.promised = flush
            self.filling = None

    def in_cut(self, flush: FlushId) -> bool:
        """Whether the cut of `flush` is being delivered, or was."""
        return flush == self.filling or flush in self.accepted

    def fill(self, flush: FlushId, cut: Digest) -> None:
        """`cut` is delivered now; what was accepted with another cut can never be installed here any more."""
        assert flush == self.promised, "a cut follows the promise"
        if cut != self.cut:
            self.accepted.clear()
            self.cut = dict(cut)
        self.filling = flush

    def filled(self, cut: Digest) -> FlushId | None:
        """All below `cut` is delivered: the flush that is thereby accepted, None if it is not the one we wait for."""
        if self.filling is None or cut != self.cut:
            return None
        done, self.filling = self.filling, None
        self.accepted.append(done)
        return done

    def may_install(self, flushes: tuple[FlushId, ...], teller: Address, me: Address) -> bool:
        """Whether a view that was decided by `flushes` may be installed on the word of `teller`."""
        latest = self.latest
        if latest is None or self.filling is not None:
            return latest is not None and self._adopts(latest, flushes, teller, me)
        return latest in flushes or self._adopts(latest, flushes, teller, me)

    def _adopts(self, latest: FlushId, flushes: tuple[FlushId, ...], teller: Address, me: Address) -> bool:
        owner = (self.filling or latest).ballot.owner
        return owner in (teller, me) and any(flush in flushes for flush in self.accepted)
