"""Elections: when a replica becomes a candidate for leader of a partition, and which candidate gets the votes.

A replica without a leader, in a view with a majority of the replicas, waits (the longer the less it is preferred), then
holds a pre-vote (Raft's, which changes no epoch), and with a majority of consents begins a new epoch and requests
votes (Ongaro's thesis, 9.6; the waiting by rank replaces Raft's random timeouts).
"""
from __future__ import annotations

from typing import Protocol

from jgroups_py.blocks.replication.messages import LeaderContact, PreVote, PreVoted, TakeOver, Vote, Voted
from jgroups_py.blocks.replication.ports import PartitionPort
from jgroups_py.blocks.replication.state import ReplicaState
from jgroups_py.blocks.replication.term import Role, Term
from jgroups_py.model.address import Address
from jgroups_py.model.units import NS_PER_MS, seconds

MOST_STEPS = 8                             # of waiting
MOST_DOUBLINGS = 12                        # of a step
LONGEST_NS = seconds(2)                    # bound of the wait of the most preferred, and of all steps together


class Candidacy(Protocol):
    """The replica, as its elections see it."""

    def adopt(self, epoch: int) -> None:
        """Enter a higher epoch, as a follower."""

    def lead(self) -> None:
        """Begin to lead: a majority has voted for this replica."""

    def show(self, member: Address) -> None:
        """Send a replica the proof that this one leads."""


class Electing:
    """The part of a replica that holds elections."""

    def __init__(self, port: PartitionPort, term: Term, state: ReplicaState, candidacy: Candidacy) -> None:
        self.port = port
        self.term = term
        self.state = state
        self.candidacy = candidacy
        self.consents: dict[Address, None] = {}            # during a pre-vote: replicas that would vote for this one
        self.attempts = 0                                  # pre-votes since a leader was known
        # Of this epoch: when replicas last were in contact with a leader, as they said, and as counts with their votes.
        self.contacts: dict[Address, int] = {}
        self.votes: dict[Address, int] = {}                # replicas that voted for this one

    def wait_for_leader(self) -> None:
        """Set the timer after which this replica stands for election, unless a leader sends something first."""
        if self.term.leader is not None or not self.state.may_lead():
            return self.port.cancel_timer("elect")
        options, doublings = self.port.options, min(self.attempts, MOST_DOUBLINGS)
        # Repeated elections with two candidates are resolved by rank: the less preferred waits ever longer. From the
        # third attempt on the preferred one does, too: answers may take longer than `elect`, or never be a majority.
        first_ns = min(options.elect_ns << max(0, doublings - 1), max(options.elect_ns, LONGEST_NS))
        present = self.state.present()
        rank = present.index(self.port.me) if self.port.me in present else len(present)
        steps = min(rank, MOST_STEPS) << doublings
        return self.port.set_timer("elect", first_ns + min(steps * options.elect_step_ns, LONGEST_NS))

    def leader_known(self) -> None:
        """A leader is known: another replica or this one."""
        self.attempts, self.consents = 0, {}
        self.port.cancel_timer("elect")

    def view_changed(self) -> None:
        """No leader is known in the new view yet."""
        self.attempts, self.consents = 0, {}
        self.wait_for_leader()

    def elect_due(self) -> None:
        """The timer has fired: no leader has sent anything."""
        if self.term.leader is None and self.state.may_lead():
            self.begin_pre_vote()

    def begin_pre_vote(self) -> None:
        """Request the consent of the other replicas to an election."""
        self.attempts += 1
        self.consents = {self.port.me: None}              # a candidate stays one: votes of its epoch may still arrive
        for member in self.state.others():
            self.port.send(member, PreVote(self.port.partition, *self.state.log.reach))
        self.wait_for_leader()
        self.count_consents()

    def on_pre_vote(self, message: PreVote, src: Address) -> None:
        """`src` requests this replica's consent to an election. A replica that follows a leader refuses: without the
        pre-vote one that was cut off for a while would end the leader's epoch when it returns."""
        state, term = self.state, self.term
        if term.is_leader and src in state.configuration.all_members:
            return self.candidacy.show(src)
        its_reach = message.last_epoch, message.stop
        has_leader = term.leader is not None and term.leader != src
        if its_reach < state.log.reach and term.leader is None and state.may_lead() and not self.attempts:
            self.begin_pre_vote()                          # `src` cannot win: its log is behind this one
        elif self.consents and (its_reach > state.log.reach or (its_reach == state.log.reach and self.yields_to(src))):
            # Two replicas with pre-votes at the same time, each with the other's consent, would both become candidates
            # and split the vote, repeatedly where messages take longer than `elect_step`. The one that is not preferred
            # withdraws, and waits again.
            self.consents = {}
            self.wait_for_leader()
        return self.port.send(
            src, PreVoted(self.port.partition, term.epoch, not has_leader and its_reach >= state.log.reach))

    def yields_to(self, src: Address) -> bool:
        """Whether `src` is preferred as the leader."""
        present, me = self.state.present(), self.port.me
        return src in present and (me not in present or present.index(src) < present.index(me))

    def on_pre_voted(self, message: PreVoted, src: Address) -> None:
        """`src` consents to an election, or refuses."""
        if message.epoch > self.term.epoch:
            self.candidacy.adopt(message.epoch)
        if message.yes and self.term.leader is None and self.consents:
            self.consents[src] = None
            self.count_consents()

    def count_consents(self) -> None:
        if self.state.configuration.has_quorum(self.consents) and self.state.may_lead():
            self.stand()

    def stand(self) -> None:
        """Begin an epoch as a candidate, and request votes."""
        self.candidacy.adopt(self.term.epoch + 1)
        self.term.stand()
        self.votes, self.contacts, self.consents = {self.port.me: self.term.contact_ns}, {}, {}
        for member in self.state.others():
            self.port.send(member, Vote(self.port.partition, self.term.epoch, *self.state.log.reach))
        self.count_votes()

    def on_vote(self, message: Vote, src: Address) -> None:
        """`src` is a candidate: vote for it if its log reaches at least as far as this one (Raft 5.4.1)."""
        if message.epoch > self.term.epoch:
            self.candidacy.adopt(message.epoch)
        yes = (message.epoch == self.term.epoch and self.term.voted in (None, src)
               and (message.last_epoch, message.stop) >= self.state.log.reach)
        if yes:
            self.term.vote_for(src)
            self.consents = {}
            self.wait_for_leader()
            ago_ms = max(0, self.port.now_ns - self.term.contact_ns) // NS_PER_MS
            self.port.send(src, LeaderContact(self.port.partition, self.term.epoch, ago_ms))
        self.port.send(src, Voted(self.port.partition, self.term.epoch, yes))

    def on_contact(self, message: LeaderContact, src: Address) -> None:
        """`src` will vote for this replica: it follows no leader of an earlier epoch any more."""
        if message.epoch == self.term.epoch and self.term.role is Role.CANDIDATE:
            self.contacts[src] = self.port.now_ns - message.ago_ms * NS_PER_MS

    def on_voted(self, message: Voted, src: Address) -> None:
        """`src` voted, for this replica or not."""
        if message.epoch > self.term.epoch:
            self.candidacy.adopt(message.epoch)
        elif message.yes and message.epoch == self.term.epoch and self.term.role is Role.CANDIDATE:
            self.votes[src] = self.contacts.get(src, self.port.now_ns)
            self.count_votes()

    @property
    def latest_contact_ns(self) -> int:
        """When the last of those that voted for this replica was in contact with a leader of an earlier epoch."""
        return max(self.votes.values())

    def count_votes(self) -> None:
        if self.state.configuration.has_quorum(self.votes) and self.state.may_lead():
            self.candidacy.lead()

    def on_take_over(self, message: TakeOver, src: Address) -> None:
        """The leader hands over: this is the preferred replica and has the whole log (Raft's leadership transfer)."""
        if message.epoch == self.term.epoch and src == self.term.leader and self.state.may_lead():
            self.stand()
