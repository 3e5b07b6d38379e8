"""The proposer's bookkeeping of one flush: the members asked, their answers, the cut that follows from them. Pure."""
from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping

from jgroups_py.model.address import Address
from jgroups_py.model.events import Digest
from jgroups_py.model.view import View
from jgroups_py.protocols.gms.headers import CutHeader, FlushId, Prepare

MergeKey = tuple[Address, int]
"""(leader, its number for the merge)."""

SILENT_TICKS = 10          # repetitions until a member counts as silent
LONGEST_UNITS = 5
TICK_UNITS = 40            # what SILENT_TICKS repetitions last, in units: 1 + 2 + 3 + 4 + 6 * 5


def repeat_ns(ticks: int, silence_ns: int) -> int:
    """How long to wait before repetition `ticks` + 1; the first SILENT_TICKS last `silence_ns` together."""
    return silence_ns // TICK_UNITS * min(ticks + 1, LONGEST_UNITS)


def ticks_within(wait_ns: int, silence_ns: int) -> int:
    """How many repetitions to wait that last `wait_ns` together, SILENT_TICKS at least.

    >>> [ticks_within(wait_ns, 4_000) for wait_ns in (2_000, 4_000, 4_001, 4_500, 5_000)]
    [10, 10, 11, 11, 12]
    """
    more_ns = max(0, wait_ns - silence_ns)
    return SILENT_TICKS + -(-more_ns // repeat_ns(SILENT_TICKS, silence_ns))


assert sum(min(tick + 1, LONGEST_UNITS) for tick in range(SILENT_TICKS)) == TICK_UNITS


class FlushPhase(enum.Enum):
    """How far a flush is. FLUSHED is a state of merges: all accepted, and the merge's leader decides."""

    PREPARING = "collecting States"
    CUTTING = "collecting Acks"
    FLUSHED = "all accepted"


class Flush:
    """One flush under one ballot.

    members: those of the view that take part, in view order; joiners: asked and not yet members; leavers: members that
    are not in the next view (they take part all the same, so that what they sent is delivered); merge: None for an
    ordinary change. states: member -> its digest, empty for joiners; acks: members that accepted; ticks: repetitions
    in this phase; counter: of the proposed view; holders: sender -> a member that has all of its messages.
    """

    def __init__(
        self, flush_id: FlushId, view: View, members: Iterable[Address], joiners: Iterable[Address],
        leavers: Iterable[Address], merge: MergeKey | None = None,
    ) -> None:
        self.id = flush_id
        self.view = view
        self.members = tuple(members)
        self.joiners = tuple(joiners)
        self.leavers = tuple(leavers)
        self.merge = merge
        self.phase = FlushPhase.PREPARING
        self.states: dict[Address, Digest] = {}
        self.acks: dict[Address, None] = {}
        self.ticks = 0
        self.cut: Digest = {}
        self.holders: dict[Address, Address] = {}
        self.counter = 0

    @property
    def asked(self) -> tuple[Address, ...]:
        """All members that have to answer."""
        return self.members + self.joiners

    @property
    def stayers(self) -> tuple[Address, ...]:
        """The members of the next view, in its order."""
        return tuple(member for member in self.members if member not in self.leavers) + self.joiners

    def waiting(self) -> list[Address]:
        """The members that have not answered in this phase."""
        answers: Mapping[Address, object] = self.states if self.phase is FlushPhase.PREPARING else self.acks
        return [member for member in self.asked if member not in answers]

    def message(self) -> Prepare | CutHeader:
        """The message that this phase repeats until it is answered."""
        if self.phase is FlushPhase.PREPARING:
            return Prepare(self.id, self.members, self.joiners)
        return CutHeader(self.id, self.members, self.joiners, self.counter, self.cut, self.holders)

    def state(self, member: Address, digest: Digest) -> bool:
        """`member` answered Prepare. True if it was the last one."""
        if self.phase is not FlushPhase.PREPARING or member not in self.asked or member in self.states:
            return False
        self.states[member] = digest
        return not self.waiting()

    def start_cut(self, counter: int) -> None:
        """All States are in: compute the cut, from the digests of members (joiners have delivered nothing)."""
        assert self.phase is FlushPhase.PREPARING
        assert not self.waiting()
        digests = {member: self.states[member] for member in self.members}
        self.cut, self.holders = cut_of(self.view.members, digests)
        self.counter = counter
        self.phase, self.ticks = FlushPhase.CUTTING, 0

    def ack(self, member: Address) -> bool:
        """`member` answered Cut. True if it was the last one."""
        if self.phase is not FlushPhase.CUTTING or member not in self.asked or member in self.acks:
            return False
        self.acks[member] = None
        return not self.waiting()

    def wait_for_leader(self) -> None:
        """Every member accepted; the leader of the merge decides."""
        self.phase, self.ticks = FlushPhase.FLUSHED, 0


def cut_of(senders: Iterable[Address], digests: Mapping[Address, Digest]) -> tuple[Digest, dict[Address, Address]]:
    """What every member has to deliver, and which member holds it: the furthest of `digests` for each sender.

    The sender itself is named as holder where it takes part (it is never behind), else the first that is furthest.
    """
    cut: Digest = {}
    holders: dict[Address, Address] = {}
    for sender in senders:
        furthest = max(digest.get(sender, 1) for digest in digests.values())
        cut[sender] = furthest
        holders[sender] = next(
            member for member in (sender, *digests)
            if member in digests and digests[member].get(sender, 1) == furthest)
    return cut, holders
