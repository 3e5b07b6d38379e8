"""The asking side of one view change: who is asked, who has answered, the cut that follows. Pure."""
from __future__ import annotations

from collections.abc import Iterable, Mapping

from jgroups_py.address import Address
from jgroups_py.events import Digest
from jgroups_py.protocols.gms.headers import FlushId
from jgroups_py.view import View

PREPARING, CUTTING, READY = "preparing", "cutting", "ready"
"""Phases: collecting States; collecting Acks; everybody accepted, the merge's leader decides."""

MergeKey = tuple[Address, int]
"""(leader, its number for the merge)."""


class Flush:
    """One ballot.

    members: those of the view that take part, in view order; joiners: who is to be let in; leavers: members that
    shall not be in the next view (they take part all the same); merge: None for an ordinary change.
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
        self.phase = PREPARING
        self.states: dict[Address, Digest] = {}     # who answered Prepare -> its digest, empty for joiners
        self.acks: dict[Address, None] = {}         # who answered Cut
        self.ticks = 0                              # how often the phase's message was repeated
        self.cut: Digest = {}
        self.holders: dict[Address, Address] = {}
        self.counter = 0                            # of the proposed view

    @property
    def asked(self) -> tuple[Address, ...]:
        """Everybody who has to answer."""
        return self.members + self.joiners

    @property
    def stayers(self) -> tuple[Address, ...]:
        """The members of the next view."""
        return tuple(m for m in self.members if m not in self.leavers) + self.joiners

    def waiting(self) -> list[Address]:
        """Who has not answered in this phase."""
        answers: Mapping[Address, object] = self.states if self.phase == PREPARING else self.acks
        return [member for member in self.asked if member not in answers]

    def state(self, member: Address, digest: Digest) -> bool:
        """`member` answered Prepare. True if it was the last one."""
        if self.phase != PREPARING or member not in self.asked or member in self.states:
            return False
        self.states[member] = digest
        return not self.waiting()

    def start_cut(self, counter: int) -> None:
        """All States are in: compute the cut."""
        assert self.phase == PREPARING
        assert not self.waiting()
        digests = {member: self.states[member] for member in self.members}
        self.cut, self.holders = cut_of(self.view.members, digests)
        self.counter = counter
        self.phase, self.ticks = CUTTING, 0

    def ack(self, member: Address) -> bool:
        """`member` answered Cut. True if it was the last one."""
        if self.phase != CUTTING or member not in self.asked or member in self.acks:
            return False
        self.acks[member] = None
        return not self.waiting()


def cut_of(senders: Iterable[Address], digests: Mapping[Address, Digest]) -> tuple[Digest, dict[Address, Address]]:
    """What everybody shall have delivered, and who has it: the furthest of `digests` for each sender.

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
