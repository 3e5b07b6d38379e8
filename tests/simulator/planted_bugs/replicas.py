"""Safeguards of partitions with replicas (blocks/replication), shown by the storms of replica_storms.py."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from jgroups_py.blocks.replication.electing import Electing
from jgroups_py.blocks.replication.following import Following
from jgroups_py.blocks.replication.leading import Leadership, Leading
from jgroups_py.blocks.replication.log import Log
from jgroups_py.blocks.replication.machine import IdempotentMachine
from jgroups_py.blocks.replication.messages import ReplyStatus
from jgroups_py.blocks.replication.moving import Moving
from jgroups_py.blocks.replication.quorums import Configuration
from jgroups_py.blocks.replication.replica import PartitionReplica
from jgroups_py.blocks.replication.state import ReplicaState
from tests.simulator.planted_bugs.group import nothing
from tests.simulator.planted_bugs.safeguard import Patch, Safeguard
from tests.simulator.replica_storms import run_storm

leads, vote, pre_vote, load = Following.on_leads, Electing.on_vote, Electing.on_pre_vote, ReplicaState.load


def one_is_enough(self: Configuration, progress: Any) -> int:
    """What any of two replicas has."""
    return sorted(map(progress, self.members), reverse=True)[min(1, len(self.members) - 1) // 2]


def new_members_only(self: Configuration, progress: Any) -> int:
    return sorted(map(progress, self.members), reverse=True)[len(self.members) // 2]


def new_voters_only(self: Configuration, voters: Any) -> bool:
    return 2 * sum(member in voters for member in self.members) > len(self.members)


def half_is_a_majority(self: Configuration, voters: Any) -> bool:
    return 2 * sum(member in voters for member in self.members) >= len(self.members)


def any_log_will_do(self: Electing, message: Any, src: Any) -> None:
    vote(self, attrs.evolve(message, last_epoch=1 << 60), src)


def any_log_is_asked(self: Electing, message: Any, src: Any) -> None:
    pre_vote(self, attrs.evolve(message, last_epoch=1 << 60), src)


def votes_again(self: Electing, message: Any, src: Any) -> None:
    self.term.voted = None
    vote(self, message, src)


def fresh_after_drop(self: Following, message: Any) -> None:
    """It starts without any promise of its time as a replica."""
    state, before = self.state, self.state.hollow
    leads(self, message)
    if state.hollow and not before:
        self.term.epoch, self.term.voted, state.hollow = 0, None, False
        state.log = Log()
        state.committed = 1


def any_epoch_is_obeyed(self: Following, epoch: int, src: Any, announced: int) -> bool:
    if src not in self.port.members or self.term.is_leader:
        return False
    self.term.epoch, self.term.leader = max(epoch, self.term.epoch), src
    return True


def reads_at_once(self: Leadership, ticket: Any, query: bytes) -> None:
    self.port.answer(ticket, ReplyStatus.OK, self.state.content.machine.read(query))


def twice(self: IdempotentMachine, request: bytes, command: bytes) -> bytes:
    result = self.results[request] = self.machine.apply(command)
    return result


def before_a_majority(self: Leading, ticket: Any, request: bytes, data: bytes) -> None:
    """Acknowledged when it is in the leader's log."""
    write(self, ticket, request, data)
    if self.leadership is not None and request in self.leadership.numbers:
        log = self.state.log
        place = sum(bool(entry.request) for entry in log.between(log.first, log.stop))
        self.port.answer(ticket, ReplyStatus.OK, (place - 1).to_bytes(4, "big"))


write = Leading.write


def without_their_results(self: ReplicaState, message: Any, data: bytes) -> None:
    load(self, message, data)
    self.content.results.clear()


def what_was_not_checked(self: Following, message: Any) -> int | None:
    if self.state.hollow:
        return 0
    return self.state.log.stop if message.first > self.state.log.stop else None


def read_anywhere(self: PartitionReplica, ticket: Any, least: int, query: bytes) -> None:
    read(self, ticket, 0, query)


read = PartitionReplica.read


class OfReplicas(Safeguard):
    """A safeguard whose removal storms show."""

    def first_found(self, seeds: Iterable[int]) -> Any:
        """The first storm that breaks the guarantee."""
        with self.removed():
            return next((found for found in map(run_storm, seeds) if found.guarantee == self.breaks), None)


def guard(name: str, left: str, owner: type, method: str, without: Any, breaks: str, *more: Patch) -> Safeguard:
    """A safeguard of one method or more."""
    return OfReplicas(name, "replicas", left, (Patch(owner, method, without), *more), "storms", breaks)


REPLICA_SAFEGUARDS = (
    guard("a majority acknowledges", "one other replica is enough", Configuration, "reached", one_is_enough, "P1"),
    guard("joint configurations commit in both majorities", "the new one's is enough", Configuration, "reached",
          new_members_only, "P1", Patch(Configuration, "has_quorum", new_voters_only)),
    guard("more than half", "half of the replicas elect", Configuration, "has_quorum", half_is_a_majority, "P6"),
    guard("votes go to newer logs", "any log is voted for", Electing, "on_vote", any_log_will_do, "core",
          Patch(Electing, "on_pre_vote", any_log_is_asked)),
    guard("one vote an epoch", "replicas vote again", Electing, "on_vote", votes_again, "core"),
    guard("a replica without data keeps its promises", "it starts without them", Following, "on_leads",
          fresh_after_drop, "P1"),
    guard("fencing by epochs", "entries of old leaders are taken", Following, "follows", any_epoch_is_obeyed, "core"),
    guard("a majority confirms reads", "the leader answers without asking", Leadership, "read", reads_at_once, "P4"),
    guard("a repeated write is applied once", "it is applied again", IdempotentMachine, "apply", twice, "P4",
          Patch(ReplicaState, "load", without_their_results)),
    guard("acknowledged after commit", "acknowledged when appended", Leading, "write", before_a_majority, "P4"),
    guard("entries must follow on the log", "they are appended unchecked", Following, "fits", what_was_not_checked,
          "P1"),
    guard("reads ask for the least position", "any replica answers with what it has", PartitionReplica, "read",
          read_anywhere, "P5"),
    guard("elections", "no candidate stands", Electing, "elect_due", nothing, "P6"),
    guard("moving replicas", "they stay where they are", Moving, "review", nothing, "P6"),
    guard("useless data is dropped", "it is kept", Following, "on_leads", nothing, "P6"),
    guard("leaders show themselves in each view", "they announce nothing", PartitionReplica, "view_changed", nothing,
          "P6"),
)
