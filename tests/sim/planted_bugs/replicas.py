"""Safeguards of partitions with replicas (blocks/replicas), shown by the storms of tests/sim/replica_storms.py."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from jgroups_py.blocks.replicas.electing import Electing
from jgroups_py.blocks.replicas.following import Following
from jgroups_py.blocks.replicas.leading import Leadership, Leading
from jgroups_py.blocks.replicas.log import Log
from jgroups_py.blocks.replicas.machine import Once
from jgroups_py.blocks.replicas.messages import Status
from jgroups_py.blocks.replicas.quorums import Configuration
from jgroups_py.blocks.replicas.replica import Replica
from tests.sim.planted_bugs.group import nothing
from tests.sim.planted_bugs.safeguard import Patch, Safeguard
from tests.sim.replica_storms import run_storm

heard_leads, vote, asked, load = Following.heard_leads, Electing.vote, Electing.asked, Following.load


def one_is_enough(self: Configuration, progress: Any) -> int:
    """What any of two replicas has."""
    return sorted(map(progress, self.members), reverse=True)[min(1, len(self.members) - 1) // 2]


def new_members_only(self: Configuration, progress: Any) -> int:
    return sorted(map(progress, self.members), reverse=True)[len(self.members) // 2]


def new_voters_only(self: Configuration, who: Any) -> bool:
    return 2 * sum(member in who for member in self.members) > len(self.members)


def half_is_a_majority(self: Configuration, who: Any) -> bool:
    return 2 * sum(member in who for member in self.members) >= len(self.members)


def any_log_will_do(self: Electing, message: Any, src: Any) -> None:
    vote(self, attrs.evolve(message, last_epoch=1 << 60), src)


def any_log_is_asked(self: Electing, message: Any, src: Any) -> None:
    asked(self, attrs.evolve(message, last_epoch=1 << 60), src)


def votes_again(self: Electing, message: Any, src: Any) -> None:
    self.voted = None
    vote(self, message, src)


def fresh_after_drop(self: Following, message: Any, src: Any) -> None:
    """It forgets that it ever was a replica."""
    before = self.hollow
    heard_leads(self, message, src)
    if self.hollow and not before:
        self.epoch, self.voted, self.hollow = 0, None, False
        self.log = Log()
        self.committed = 1


def any_epoch_is_obeyed(self: Following, epoch: int, src: Any, shown: int) -> bool:
    if src not in self.host.members or self.is_leader:
        return False
    self.epoch, self.leader = max(epoch, self.epoch), src
    return True


def reads_at_once(self: Leadership, ticket: Any, query: bytes) -> None:
    self.replica.host.answer(ticket, self.replica, Status.OK, self.replica.once.machine.read(query))


def twice(self: Once, request: bytes, command: bytes) -> bytes:
    result = self.results[request] = self.machine.apply(command)
    return result


def before_a_majority(self: Leading, ticket: Any, request: bytes, data: bytes) -> None:
    """Acknowledged when it is in the leader's log."""
    write(self, ticket, request, data)
    if self.leadership is not None and request in self.leadership.numbers:
        place = sum(bool(entry.request) for entry in self.log.between(self.log.first, self.log.stop))
        self.host.answer(ticket, self, Status.OK, (place - 1).to_bytes(4, "big"))


write = Leading.write


def without_their_results(self: Following, message: Any, data: bytes) -> None:
    load(self, message, data)
    self.once.results.clear()


def what_was_not_checked(self: Following, message: Any) -> int | None:
    if self.hollow:
        return 0
    return self.log.stop if message.first > self.log.stop else None


def read_anywhere(self: Replica, ticket: Any, least: int, query: bytes) -> None:
    read(self, ticket, 0, query)


read = Replica.read


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
    guard("votes go to newer logs", "any log is voted for", Electing, "vote", any_log_will_do, "core",
          Patch(Electing, "asked", any_log_is_asked)),
    guard("one vote an epoch", "replicas vote again", Electing, "vote", votes_again, "core"),
    guard("who dropped its data keeps its word", "it starts as if new", Following, "heard_leads", fresh_after_drop,
          "P1"),
    guard("fencing by epochs", "entries of old leaders are taken", Following, "follows", any_epoch_is_obeyed, "core"),
    guard("a majority confirms reads", "the leader answers at once", Leadership, "ask", reads_at_once, "P4"),
    guard("a write that comes again is known", "it is done again", Once, "apply", twice, "P4",
          Patch(Following, "load", without_their_results)),
    guard("acknowledged after commit", "acknowledged when appended", Leading, "write", before_a_majority, "P4"),
    guard("entries must follow on the log", "they are taken without a look", Following, "fits", what_was_not_checked,
          "P1"),
    guard("reads ask for the least position", "any replica answers with what it has", Replica, "read", read_anywhere,
          "P5"),
    guard("elections", "nobody stands", Electing, "elect_due", nothing, "P6"),
    guard("moving replicas", "they stay where they are", Replica, "review", nothing, "P6"),
    guard("useless data is dropped", "it is kept", Following, "heard_leads", nothing, "P6"),
    guard("leaders show themselves in each view", "they wait to be asked", Replica, "view_changed", nothing, "P6"),
)
