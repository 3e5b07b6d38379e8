"""Electing: who stands for leader of a partition, when, and who votes for whom.

Who knows no leader in a view with a majority of the replicas waits, the longer the less it is preferred, then asks
around (Raft's pre-vote: nothing changes by it), and with a majority of yes begins a new epoch and asks for votes.
"""
from __future__ import annotations

from jgroups_py.address import Address
from jgroups_py.blocks.replicas.messages import Canvass, Canvassed, TakeOver, Vote, Voted
from jgroups_py.blocks.replicas.state import ReplicaState, Role
from jgroups_py.units import seconds

MOST_STEPS = 8                             # of waiting
MOST_DOUBLINGS = 12                        # of a step
LONGEST_NS = seconds(2)                    # of the first one's wait, and of all steps


class Electing(ReplicaState):
    """The part of a replica that elects."""

    def wait_for_leader(self) -> None:
        if self.leader is not None or not self.may_lead():
            return self.cancel_timer("elect")
        options, doublings = self.host.options, min(self.attempts, MOST_DOUBLINGS)
        # Two that stand at the same time again and again are told apart by rank: the later one waits ever longer. So
        # does, from the third time on, the first one: answers may take longer than elect, or never be a majority.
        first_ns = min(options.elect_ns << max(0, doublings - 1), max(options.elect_ns, LONGEST_NS))
        present = self.present()
        rank = present.index(self.me) if self.me in present else len(present)
        steps = min(rank, MOST_STEPS) << doublings
        return self.set_timer("elect", first_ns + min(steps * options.elect_step_ns, LONGEST_NS))

    def elect_due(self) -> None:
        """No leader has shown itself."""
        if self.leader is None and self.may_lead():
            self.canvass()

    def canvass(self) -> None:
        """Ask around whether we would be elected."""
        self.attempts += 1
        self.role, self.canvassed = Role.FOLLOWER, {self.me: None}
        for member in self.others():
            self.send(member, Canvass(self.partition, *self.log.reach))
        self.wait_for_leader()
        self.count_yes()

    def asked(self, message: Canvass, src: Address) -> None:
        """Would we vote for `src`?"""
        if self.is_leader and src in self.configuration.everybody:
            return self.leads().show(src)
        theirs = message.last_epoch, message.stop
        content = self.leader is not None and self.leader != src
        if theirs < self.log.reach and self.leader is None and self.may_lead() and not self.attempts:
            self.canvass()                                 # we are the better one
        return self.send(src, Canvassed(self.partition, self.epoch, not content and theirs >= self.log.reach))

    def told(self, message: Canvassed, src: Address) -> None:
        """`src` would vote for us, or would not."""
        if message.epoch > self.epoch:
            self.adopt(message.epoch)
        if message.yes and self.role is Role.FOLLOWER and self.leader is None:
            self.canvassed[src] = None
            self.count_yes()

    def count_yes(self) -> None:
        if self.configuration.has_quorum(self.canvassed) and self.may_lead():
            self.stand()

    def stand(self) -> None:
        """Begin an epoch and ask for votes."""
        self.adopt(self.epoch + 1)
        self.role, self.voted = Role.CANDIDATE, self.me
        self.votes, self.canvassed = {self.me: None}, {}
        for member in self.others():
            self.send(member, Vote(self.partition, self.epoch, *self.log.reach))
        self.count_votes()

    def vote(self, message: Vote, src: Address) -> None:
        """`src` stands for election."""
        if message.epoch > self.epoch:
            self.adopt(message.epoch)
        yes = (message.epoch == self.epoch and self.voted in (None, src)
               and (message.last_epoch, message.stop) >= self.log.reach)
        if yes:
            self.voted = src
            self.wait_for_leader()
        self.send(src, Voted(self.partition, self.epoch, yes))

    def got_vote(self, message: Voted, src: Address) -> None:
        """`src` voted, for us or not."""
        if message.epoch > self.epoch:
            self.adopt(message.epoch)
        elif message.yes and message.epoch == self.epoch and self.role is Role.CANDIDATE:
            self.votes[src] = None
            self.count_votes()

    def count_votes(self) -> None:
        if self.configuration.has_quorum(self.votes) and self.may_lead():
            self.lead()

    def take_over(self, message: TakeOver, src: Address) -> None:
        """The leader thinks that we should lead."""
        if message.epoch == self.epoch and src == self.leader and self.may_lead():
            self.stand()

    def lead(self) -> None:
        """We are elected."""
        raise NotImplementedError
