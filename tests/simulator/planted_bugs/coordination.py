"""Safeguards of coordination (blocks/coordination), shown by its profile."""
from __future__ import annotations

from typing import Any

from jgroups_py.blocks.coordination.core import CoordinationRequest, SessionCore
from jgroups_py.blocks.coordination.errors import LockTimeoutError, WaitTimeoutError
from jgroups_py.blocks.coordination.grants import Lease
from jgroups_py.blocks.coordination.lease import LeaseKeeper
from jgroups_py.blocks.coordination.machine import CoordinationMachine, Key
from jgroups_py.blocks.coordination.messages import (
    QUEUE,
    Arrive,
    CoordinationMessage,
    GrantResult,
)
from jgroups_py.blocks.replication.leading import Leadership
from jgroups_py.testing.simulation import coordination
from tests.simulator.planted_bugs.replicas import reads_at_once
from tests.simulator.planted_bugs.safeguard import Patch, Safeguard

concluded, begin_supervisor = SessionCore._concluded, CoordinationMachine.begin_supervisor
give_back, arrive = CoordinationMachine._give_back, CoordinationMachine._arrive
end_lease, renewed = CoordinationMachine._end_lease, SessionCore._renewed


def for_ever(self: Lease, now_ns: int) -> bool:
    return not self.over


def for_ever_extended(self: Lease, until_ns: int, now_ns: int) -> bool:
    return not self.over


def at_once(self: CoordinationMachine, since_ns: int) -> LeaseKeeper[Any]:
    """A new leader takes the sessions that it finds for expired."""
    keeper = begin_supervisor(self, since_ns)
    for number in self.sessions:
        keeper._set(number, since_ns)
    return keeper


def only_here(self: SessionCore, request: CoordinationRequest, now_ns: int) -> None:
    """A wait is given up without the store."""
    self._settle(request)
    request.finish(None, LockTimeoutError("") if request.grants else WaitTimeoutError(""))


def for_nobody(self: SessionCore, request: CoordinationRequest, result: CoordinationMessage, now_ns: int) -> None:
    """What is granted for nobody is kept."""
    if request.over and request.grants and isinstance(result, GrantResult):
        self._settle(request)
        return
    concluded(self, request, result, now_ns)


def last_first(self: CoordinationMachine, key: Key, fence: int, *, back: bool) -> None:
    """Whoever came last is the next."""
    if key[0] != QUEUE:
        permits = self.permits[key]
        permits.waiting = dict(reversed(permits.waiting.items()))
    give_back(self, key, fence, back=back)


def throw_away(self: CoordinationMachine, name: str, fence: int, *, back: bool) -> None:
    end_lease(self, name, fence, back=False)


def one_is_missing(self: CoordinationMachine, command: Arrive, session: Any) -> CoordinationMessage:
    """A barrier opens for a single one."""
    if command.number % 5:
        return arrive(self, command, session)
    generation = self._next()
    self._watcher.granted(self.birth, (3, command.name), GrantResult(generation, b"", 0),
                          (command.session, command.number))
    return GrantResult(generation, b"", 0)


def guard(name: str, left: str, owner: Any, method: str, without: Any, breaks: str, *more: Patch) -> Safeguard:
    """A safeguard of one function or more."""
    return Safeguard(name, "coordination", left, (Patch(owner, method, without), *more), coordination.PROFILE, breaks)


def from_the_answer(
    self: SessionCore, session: int, result: CoordinationMessage | None, began_ns: int, now_ns: int,
) -> None:
    """A lease runs from when its renewal is answered."""
    renewed(self, session, result, now_ns, now_ns)


COORDINATION_SAFEGUARDS = (
    guard("a lease runs from the sending of its renewal", "it runs from the answer", SessionCore, "_renewed",
          from_the_answer, "L3"),
    guard("a majority confirms renewals", "the leader answers without asking", Leadership, "read", reads_at_once, "L3"),
    guard("a grant is valid for a time", "it is until the store says otherwise", Lease, "holds", for_ever, "L3",
          Patch(Lease, "extend", for_ever_extended)),
    guard("a new leader counts sessions anew", "it takes them for expired", CoordinationMachine, "begin_supervisor",
          at_once, "L3"),
    guard("a wait is withdrawn at the store", "it is given up at the member only", SessionCore, "_withdraw", only_here,
          "L8"),
    guard("a grant for nobody is released", "it is kept", SessionCore, "_concluded", for_nobody, "L5"),
    guard("the first that waits is the next", "the last is", CoordinationMachine, "_give_back", last_first, "L6"),
    guard("an item goes back", "it is thrown away", CoordinationMachine, "_end_lease", throw_away, "L9"),
    guard("a barrier waits for all", "one passes alone", CoordinationMachine, "_arrive", one_is_missing, "L11"),
)
