"""LeaseKeeper: when the leader of a store takes the sessions of members for expired.

A member renews its session by a strong read, which a majority confirms; it takes itself for its holder for `ttl` from
when it sent the last renewal that was confirmed, by its own clock. The leader ends the session `ttl` x (1 + DRIFT)
after the last renewal arrived, by its clock; that is later, if no two clocks differ in rate by more than DRIFT. Each
leader counts anew, from when the last of those that voted for it had been in contact with an earlier leader: one of
them is in each majority that confirmed a renewal for an earlier leader, and did so after that was sent. The time since
then is measured by that replica's clock, the rest by the leader's: neither is too fast by more than DRIFT, so the sum
is not either.

What arrived extends the lease, confirmed or not, and from when it is decided that a session ends no renewal of it is
confirmed any more. A member whose process has ended for certain is not waited for.
"""
from __future__ import annotations

import heapq
from typing import Generic, TypeVar

import attrs

from jgroups_py.blocks.coordination.messages import EndSession, NoSession, Renew, decode, encode
from jgroups_py.blocks.replication.supervisor import Supervisor
from jgroups_py.model.address import Address
from jgroups_py.model.errors import WireError
from jgroups_py.model.units import NS_PER_MS

DRIFT = 0.05                               # by which the rates of two clocks may differ
MAX_GONE = 1000                            # so many members whose processes have ended are remembered


@attrs.define(eq=False)
class StoredLease:
    """What the keeper needs of a session."""

    owner: Address
    ttl_ms: int


S = TypeVar("S", bound=StoredLease)


class LeaseKeeper(Supervisor, Generic[S]):
    """See the module. sessions: of the machine, which adds and removes them; their numbers grow. since_ns: see
    Machine.begin_supervisor."""

    def __init__(self, sessions: dict[int, S], since_ns: int) -> None:
        self._sessions = sessions
        self._due: dict[int, int] = {}                     # session -> when it expires
        self._heap: list[tuple[int, int]] = []
        self._ending: dict[int, None] = {}                 # sessions whose end was decided
        self._gone: dict[Address, None] = {}
        self._newest = -1                                  # session that was seen
        self.applied(since_ns)

    @property
    def next_deadline_ns(self) -> int | None:
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)                      # it was extended, or has ended
        return self._heap[0][0] if self._heap else None

    def applied(self, now_ns: int) -> None:
        if self._ending:
            self._ending = {number: None for number in self._ending if number in self._sessions}
        new: list[int] = []
        for number in reversed(self._sessions):
            if number <= self._newest:
                break
            new.append(number)
        for number in reversed(new):
            self._newest = number
            self._extend(number, now_ns)

    def asked(self, query: bytes, now_ns: int) -> None:
        renewal = _renewal(query)
        if renewal is not None and renewal.session in self._due:
            self._extend(renewal.session, now_ns)

    def answer(self, query: bytes) -> bytes | None:
        renewal = _renewal(query)
        return encode(NoSession()) if renewal is not None and renewal.session in self._ending else None

    def gone(self, member: Address, now_ns: int) -> None:
        self._gone[member] = None
        if len(self._gone) > MAX_GONE:
            del self._gone[next(iter(self._gone))]
        for number in [number for number in self._due if self._owner(number) == member]:
            self._set(number, now_ns)

    def advance(self, now_ns: int) -> list[bytes]:
        commands = []
        while (due_ns := self.next_deadline_ns) is not None and due_ns <= now_ns:
            _, number = heapq.heappop(self._heap)
            del self._due[number]
            if number in self._sessions:
                self._ending[number] = None
                commands.append(encode(EndSession(number)))
        return commands

    def _owner(self, number: int) -> Address | None:
        session = self._sessions.get(number)
        return None if session is None else session.owner

    def _extend(self, number: int, now_ns: int) -> None:
        session = self._sessions.get(number)
        if session is None:
            self._due.pop(number, None)
        elif session.owner in self._gone:
            self._set(number, now_ns)
        else:
            self._set(number, now_ns + round(session.ttl_ms * NS_PER_MS * (1 + DRIFT)))

    def _set(self, number: int, due_ns: int) -> None:
        self._due[number] = due_ns
        heapq.heappush(self._heap, (due_ns, number))


def _renewal(query: bytes) -> Renew | None:
    if query[:1] != bytes((Renew.kind,)):
        return None
    try:
        found = decode(query)
    except WireError:
        return None
    return found if isinstance(found, Renew) else None
