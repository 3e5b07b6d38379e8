"""Term: the leadership of a partition as one replica sees it: epoch, vote, role and leader.

Raft's persistent state, kept in memory. That is safe because a member is an incarnation, which never returns with an
earlier state.
"""
from __future__ import annotations

import enum

from jgroups_py.model.address import Address


class Role(enum.Enum):
    """The role of a replica."""

    FOLLOWER = "follower"
    CANDIDATE = "candidate"
    LEADER = "leader"


class Term:
    """Changed by its methods only; epochs only grow."""

    def __init__(self, me: Address, now_ns: int) -> None:
        self.me = me
        self.contact_ns = now_ns                           # see `follow`
        self.role = Role.FOLLOWER
        self.epoch = 0                                     # the highest known
        self.voted: Address | None = None                  # candidate that got this replica's vote in this epoch
        self.leader: Address | None = None                 # in this epoch and this view
        self.announced = 0                                 # number of the latest Leads received in this epoch

    @property
    def is_leader(self) -> bool:
        """Whether this replica leads."""
        return self.role is Role.LEADER

    def begin(self, epoch: int) -> None:
        """Enter a higher epoch, without a vote or a leader yet."""
        assert epoch > self.epoch, "epochs grow"
        assert not self.is_leader, "a leader steps down first"
        self.epoch, self.voted, self.leader, self.announced = epoch, None, None, 0

    def stand(self) -> None:
        """Stand for election in this epoch, with this replica's own vote."""
        self.role, self.voted = Role.CANDIDATE, self.me

    def vote_for(self, candidate: Address) -> None:
        """Give it this replica's vote of this epoch."""
        assert self.voted in (None, candidate), "one vote an epoch"
        self.voted = candidate

    def lead(self) -> None:
        """A majority has voted for this replica."""
        self.role, self.leader = Role.LEADER, self.me

    def follow(self, leader: Address, announced: int, now_ns: int) -> None:
        """Another replica leads in this epoch, and is answered now.

        `contact_ns` is when this replica last answered a leader, or led itself: nothing that a leader of this epoch or
        an earlier one does with this replica's consent came after that.
        """
        self.role, self.leader, self.contact_ns = Role.FOLLOWER, leader, now_ns
        self.announced = max(self.announced, announced)

    def note_announced(self, announced: int) -> None:
        """A Leads of this epoch was received."""
        self.announced = announced

    def lose_leader(self) -> None:
        """No replica is known to lead in this view."""
        self.leader = None

    def stop_standing(self) -> None:
        """Become a follower, of the known leader, if any."""
        self.role = Role.FOLLOWER

    def step_down(self, now_ns: int) -> None:
        """Stop leading."""
        self.role, self.leader, self.contact_ns = Role.FOLLOWER, None, now_ns
