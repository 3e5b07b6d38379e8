"""What one member knows of one partition, and what following, electing and leading have in common.

The consensus is Raft's (Ongaro and Ousterhout 2014): an epoch has one leader at most, because it needs the votes of a
majority and nobody votes twice in an epoch; an entry is committed once a majority has it; a log that lacks a committed
entry wins no election. Deviations, because there are views and no disks:
- The view is the failure detector: no heartbeats. In each view a leader that has a quorum there shows itself, and the
  others begin to stand for election, in order of preference, if it does not.
- A member is an incarnation. Nothing is on disk, so nothing is remembered wrongly: who restarts is somebody new.
- Entry 1, the first configuration, is in the world by decree (Create), in no leader's epoch.
"""
from __future__ import annotations

import enum
from collections.abc import Hashable
from typing import TYPE_CHECKING

import attrs

from jgroups_py.address import Address
from jgroups_py.blocks.replicas.log import Entry, Log
from jgroups_py.blocks.replicas.machine import Once
from jgroups_py.blocks.replicas.messages import Message, Status
from jgroups_py.blocks.replicas.quorums import Configuration

if TYPE_CHECKING:
    from jgroups_py.blocks.replicas.host import Host
    from jgroups_py.blocks.replicas.leading import Leadership

Ticket = Hashable
"""Whom an answer is for; only the host's surroundings know what it is."""


class Role(enum.Enum):
    """What a replica is doing."""

    FOLLOWER = "follower"
    CANDIDATE = "candidate"
    LEADER = "leader"


@attrs.define(eq=False)
class Arriving:
    """A state that is arriving, in pieces."""

    epoch: int
    stop: int
    data: bytearray


class ReplicaState:
    """One partition at one member. `hollow`: it gave up its data, and knows only how far its log reached."""

    def __init__(self, host: Host, partition: int) -> None:
        self.host = host
        self.me: Address = host.me
        self.partition = partition
        self.role = Role.FOLLOWER
        self.epoch = 0                                     # the highest heard of
        self.voted: Address | None = None                  # for whom, in this epoch
        self.leader: Address | None = None                 # in this epoch and this view
        self.log = Log()
        self.committed = 1                                 # entries below are committed,
        self.once = Once(host.make_machine(partition))     # and in the content
        self.hollow = False
        self.shown = 0                                     # the latest Leads of this epoch that we know of
        self.canvassed: dict[Address, None] = {}           # who would vote for us, ourselves included
        self.attempts = 0                                  # how often we asked around, since there was a leader
        self.votes: dict[Address, None] = {}               # who did
        self.arriving: Arriving | None = None
        self.leadership: Leadership | None = None          # while we lead
        self.handed: Address | None = None                 # whom we asked to take over, in this view

    @property
    def configuration(self) -> Configuration:
        """The latest that we know of."""
        return self.log.configuration

    @property
    def is_leader(self) -> bool:
        """Whether we lead."""
        return self.role is Role.LEADER

    def leads(self) -> Leadership:
        """What a leader knows; only while we lead."""
        assert self.leadership is not None, "only a leader has it"
        return self.leadership

    def has_quorum(self) -> bool:
        """Whether this view has a majority of the replicas."""
        return self.configuration.has_quorum(self.host.members)

    @property
    def is_needed(self) -> bool:
        """Whether we are in the configuration; or were until a change that is not known to be committed: others may
        know only the configuration before, and need our vote, and we alone may have the change."""
        if self.hollow:
            return False
        log = self.log
        return self.me in self.configuration.everybody or (
            log.changed_at >= self.committed and self.me in log.configuration_before(log.changed_at).everybody)

    def may_lead(self) -> bool:
        """Whether we may stand for election in this view."""
        return self.is_needed and self.has_quorum()

    def present(self) -> list[Address]:
        """The replicas in this view, the preferred leader first."""
        return [member for member in self.host.preference(self.partition, self.configuration.everybody)
                if member in self.host.members]

    def others(self) -> list[Address]:
        """The replicas in this view but us."""
        return [member for member in self.present() if member != self.me]

    def send(self, dest: Address, message: Message) -> None:
        """Say something to a member of this view."""
        if dest in self.host.members:
            self.host.send(dest, message)

    def set_timer(self, name: str, delay_ns: int) -> None:
        """Call `due(name)` after so long; setting it again moves it."""
        self.host.set_timer(self.partition, name, delay_ns)

    def arm(self, name: str, delay_ns: int) -> None:
        """Set a timer that is not set."""
        if not self.host.timer_is_set(self.partition, name):
            self.host.set_timer(self.partition, name, delay_ns)

    def cancel_timer(self, name: str) -> None:
        """Do not."""
        self.host.cancel_timer(self.partition, name)

    def adopt(self, epoch: int) -> None:
        """There is a higher epoch."""
        assert epoch > self.epoch, "epochs grow"
        self.step_down()
        self.epoch, self.voted, self.leader, self.shown = epoch, None, None, 0
        self.wait_for_leader()

    def refuse(self, ticket: Ticket, status: Status = Status.REDIRECT) -> None:
        """Answer a request that is not carried out here now."""
        self.host.answer(ticket, self, status)

    def apply(self, number: int, entry: Entry) -> bytes | None:
        """A committed entry; what it answers."""
        result = self.once.apply(entry.request, entry.data) if entry.request else None
        self.host.applied(self, number, entry)
        return result

    # --- what the other parts add -------------------------------------------------------------------------------------

    def step_down(self) -> None:
        """Lead no more, stand no more."""
        raise NotImplementedError

    def wait_for_leader(self) -> None:
        """Stand for election if no leader shows itself."""
        raise NotImplementedError
