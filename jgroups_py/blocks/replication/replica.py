"""Replica: one partition at one member. It connects the parts, and dispatches messages, timers and requests to them.

    state.py  log and content      electing.py   candidates and votes    leading.py  commits, answers, sends the state
    term.py   epoch, vote, role    following.py  the leader's entries    moving.py   which hosts have replicas

Each part owns what it changes; term and state are changed by their own methods only. ports.py is the port to the host.
"""
from __future__ import annotations

from typing import Any

from jgroups_py.blocks.replication.electing import Electing
from jgroups_py.blocks.replication.following import Following
from jgroups_py.blocks.replication.leading import Leading
from jgroups_py.blocks.replication.log import ReplicatedEntry
from jgroups_py.blocks.replication.messages import (
    Append,
    Appended,
    ContentPiece,
    ContentStored,
    LeaderContact,
    Leads,
    PreVote,
    PreVoted,
    ReplicationMessage,
    ReplyStatus,
    TakeOver,
    Verb,
    Vote,
    Voted,
)
from jgroups_py.blocks.replication.moving import Moving
from jgroups_py.blocks.replication.ports import HostPort, PartitionPort, Ticket
from jgroups_py.blocks.replication.quorums import Configuration
from jgroups_py.blocks.replication.state import ReplicaState
from jgroups_py.blocks.replication.term import Term
from jgroups_py.model.address import Address

RECEIVED = (Append, ContentPiece, Appended, ContentStored, Leads, PreVote, PreVoted, Vote, LeaderContact, Voted,
            TakeOver)
"""The messages that a replica receives."""


class PartitionReplica:
    """See the module, and state.py for the algorithm."""

    def __init__(self, host: HostPort, partition: int) -> None:
        self.me = host.me
        self.partition = partition
        self.port = PartitionPort(host, partition)
        self.term = Term(host.me, host.now_ns)
        self.state = ReplicaState(self.port)
        self.electing = Electing(self.port, self.term, self.state, self)
        self.following = Following(self.port, self.term, self.state, self.electing, self.adopt)
        self.leading = Leading(self.port, self.term, self.state, self.electing)
        self.moving = Moving(self.port, self.term, self.state, self.leading)

    @property
    def is_ready(self) -> bool:
        """Whether this replica leads, and may answer reads and change members."""
        return self.leading.leadership is not None and self.leading.leadership.ready

    # --- from the host ------------------------------------------------------------------------------------------------

    def created(self, config: Configuration) -> None:
        """The store was created, with this one among the first replicas."""
        if self.state.log.stop == 1 and not self.state.hollow:
            self.state.append(ReplicatedEntry(0, change=config))
            self.following.commit(2)
            self.electing.wait_for_leader()

    def view_changed(self) -> None:
        """A new view: a leader with a quorum in it proves that it leads, all others wait for one."""
        self.moving.view_changed()
        if self.term.is_leader and self.state.has_quorum():
            return self.leading.view_changed()
        self.leading.step_down()
        self.term.lose_leader()
        return self.electing.view_changed()

    def gone(self, member: Address) -> None:
        """The process of a member has ended for certain."""
        self.leading.gone(member)

    def hosts_changed(self) -> None:
        """A host has joined, or changed its weight or zone: a leader reviews the placement of its replicas."""
        if self.term.is_leader:
            self.port.set_timer("review", self.port.options.settle_ns)

    def receive(self, message: ReplicationMessage, src: Address) -> None:
        """A message of another host, one of RECEIVED."""
        match message:
            case Append():
                self.following.append(message, src)
            case ContentPiece():
                self.following.take_piece(message, src)
            case Leads():
                self.following.on_leads(message)
            case Appended() | ContentStored():
                self._answered(message, src)
            case PreVote():
                self.electing.on_pre_vote(message, src)
            case PreVoted():
                self.electing.on_pre_voted(message, src)
            case Vote():
                self.electing.on_vote(message, src)
            case LeaderContact():
                self.electing.on_contact(message, src)
            case Voted():
                self.electing.on_voted(message, src)
            case TakeOver():
                self.electing.on_take_over(message, src)
            case _:
                raise AssertionError(f"{message} is not for a replica")

    def due(self, name: str) -> None:
        """A timer has fired."""
        match name:
            case "elect":
                self.electing.elect_due()
            case "again":
                self.leading.again_due()
            case "send_committed":
                self.leading.send_committed_due()
            case "supervisor":
                self.leading.supervisor_due()
            case "review":
                self.moving.review()
            case _:
                raise AssertionError(f"no timer {name}")

    def request(self, ticket: Ticket, verb: Verb, request: bytes, least: int, data: bytes) -> None:
        """A client's request: answered at once, later, or with a redirect."""
        if verb is Verb.READ:
            self.read(ticket, least, data)
        elif not self.term.is_leader:
            self.port.redirect(ticket)
        elif verb is Verb.STRONG:
            self.leading.leads().read(ticket, data)
        else:
            self.leading.write(ticket, request, data)

    def read(self, ticket: Ticket, least: int, query: bytes) -> None:
        """A READ: answered by any replica that has a leader and has reached `least`."""
        state = self.state
        if (state.hollow or self.term.leader is None or self.me not in state.configuration.all_members
                or state.committed < least):
            return self.port.redirect(ticket)
        self.port.count("reads")
        return self.port.answer(ticket, ReplyStatus.OK, state.content.machine.read(query))

    def flush(self) -> None:
        """Send the entries of this step."""
        self.leading.flush()

    def stats(self) -> dict[str, Any]:
        """For `Replicas.report`."""
        state, term = self.state, self.term
        return {"role": term.role.value if self.me in state.configuration.all_members else "none", "epoch": term.epoch,
                "committed": state.committed, "leader": term.leader, "members": state.configuration.members}

    # --- electing.Candidacy -------------------------------------------------------------------------------------------

    def adopt(self, epoch: int) -> None:
        """Enter a higher epoch, as a follower."""
        self.leading.step_down()
        self.term.begin(epoch)
        self.electing.wait_for_leader()

    def lead(self) -> None:
        """Begin to lead."""
        self.leading.lead()

    def show(self, member: Address) -> None:
        """Send a replica the proof that this one leads."""
        self.leading.leads().show(member)

    def _answered(self, message: Appended | ContentStored, src: Address) -> None:
        """An answer to a leader; one with a higher epoch ends its leadership."""
        if message.epoch > self.term.epoch:
            self.adopt(message.epoch)
        elif self.term.is_leader and message.epoch == self.term.epoch:
            if isinstance(message, Appended):
                self.leading.leads().on_appended(message, src)
            else:
                self.leading.leads().on_content_stored(message, src)
