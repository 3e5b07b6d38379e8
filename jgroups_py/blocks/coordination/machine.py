"""CoordinationMachine: sessions, and what they hold and wait for: locks, semaphores, leaderships, barriers, queues,
partitions of sets (owned_sets.py); and cells and counters. One machine for all, replicated by blocks/replication.

*Numbers.* One counter numbers sessions, grants and outcomes. It begins at the birth of the store in microseconds, so
numbers grow over stores that are created again as long as fewer than a million are given a second, and they stay below
2^53, so that a JSON parser or a script of Redis keeps them exact.

*Sessions.* A session ends by EndSession only; all that it holds is given on. The machine has no clock: when a session
has expired is decided by the leader (lease.py). Ids are never used again, so what arrives late for an earlier session
does nothing.

*Once.* Results of a session's commands are kept until it settles their numbers; a command that is repeated gets the
result that it had, one that was settled does nothing. So a command takes effect once however often, and in whatever
order, its copies arrive.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
from sortedcontainers import SortedDict

from jgroups_py.blocks.coordination.lease import LeaseKeeper, StoredLease
from jgroups_py.blocks.coordination.messages import (
    BARRIER,
    I64,
    INT_LIMIT,
    LEADER,
    LOCK,
    OWNERS,
    QUEUE,
    SEMAPHORE,
    SET,
    SPACES,
    Acquire,
    Arrive,
    Carried,
    CellChanged,
    CellValue,
    CommandRefused,
    CoordinationMessage,
    CounterValue,
    EndSession,
    GrantResult,
    Holders,
    JoinOwners,
    LeaveOwners,
    NoSession,
    OpenSession,
    PutItem,
    ReadCell,
    ReadCounter,
    ReadHolders,
    ReadOwners,
    Release,
    Renew,
    Renewed,
    SessionCommand,
    SessionOpened,
    Stale,
    TakeItem,
    WaitEnded,
    Waits,
    WatchCell,
    Withdraw,
    Withdrawn,
    WriteCell,
    WriteCounter,
    decode,
    encode,
)
from jgroups_py.blocks.coordination.owned_sets import MAX_NAME, OwnedSets, OwnersWatcher
from jgroups_py.blocks.replication.machine import Machine
from jgroups_py.model.address import Address
from jgroups_py.model.errors import WireError
from jgroups_py.wire.codec import BYTES, MEMBER, TEXT, U8, U32, U64, Interner, Reader, optional, record, sequence
from jgroups_py.wire.codec import mapping as map_of

Key = tuple[int, str]
"""(space, name)."""
Wait = tuple[int, int]
"""(session, number of its command)."""

_WAITING = encode(Waits())
_STALE = encode(Stale())
_NO_SESSION = encode(NoSession())


@attrs.define(eq=False)
class StoredSession(StoredLease):
    """results: number -> result of commands that are not settled. outcomes: place -> (number, result) of waits that
    ended, until the member has heard of them. grants: fence -> key. waits: number -> key. watches: names of cells."""

    settled: int = 0
    heard: int = 0
    results: dict[int, bytes] = attrs.Factory(dict)
    outcomes: dict[int, tuple[int, bytes]] = attrs.Factory(dict)
    grants: dict[int, Key] = attrs.Factory(dict)
    waits: dict[int, Key] = attrs.Factory(dict)
    watches: dict[str, None] = attrs.Factory(dict)


@attrs.define(eq=False)
class Permits:
    """Of a lock, semaphore or leadership. holders: fence -> session; waiting: in order."""

    most: int
    holders: dict[int, int] = attrs.Factory(dict)
    waiting: dict[Wait, None] = attrs.Factory(dict)


@attrs.define(eq=False)
class StoredBarrier:
    """arrived: those of this generation."""

    parties: int
    arrived: dict[Wait, None] = attrs.Factory(dict)


@attrs.define(eq=False)
class StoredQueue:
    """items: number -> (value, how often it was taken), of those that are not leased; taken: fence -> (number, value,
    attempts, session); waiting: in order."""

    items: SortedDict[int, tuple[bytes, int]] = attrs.Factory(SortedDict)
    taken: dict[int, tuple[int, bytes, int, int]] = attrs.Factory(dict)
    waiting: dict[Wait, None] = attrs.Factory(dict)


class GrantWatcher(OwnersWatcher):
    """Called by each copy of the machine with what happens; for checkers. store: the birth number of the store."""

    def waits(self, store: int, key: Key, wait: Wait) -> None:
        """A command waits, behind all that wait for the same."""

    def left(self, store: int, key: Key, wait: Wait) -> None:
        """It waits no more, and got nothing."""

    def granted(self, store: int, key: Key, granted: GrantResult, wait: Wait) -> None:
        """A session has a grant, or has passed a barrier."""

    def ended(self, store: int, key: Key, fence: int, *, released: bool) -> None:
        """A grant was released, or (not released) its session has ended."""


class CoordinationMachine(Machine):
    """See the module."""

    def __init__(self, watcher: GrantWatcher | None = None) -> None:
        self.number = 0                                    # the highest that was given
        self.birth = 0                                     # of the store, as the first session has told
        self.sessions: dict[int, StoredSession] = {}
        self.permits: dict[Key, Permits] = {}
        self.barriers: dict[str, StoredBarrier] = {}
        self.queues: dict[str, StoredQueue] = {}
        self.cells: dict[str, tuple[int, bytes | None]] = {}         # name -> (version, value)
        self.counters: dict[str, int] = {}
        self.watchers: dict[str, dict[int, None]] = {}               # cell -> sessions
        self._watcher = watcher or GrantWatcher()
        self.owned = OwnedSets(self.sessions, self._next, self._tell, self._watcher)
        self._notices: list[tuple[Address, bytes]] = []
        self._addresses = Interner()
        self._commands: dict[type[CoordinationMessage], Callable[..., CoordinationMessage]] = {
            Acquire: self._acquire, Release: self._release, Withdraw: self._withdraw, Arrive: self._arrive,
            WriteCell: self._write_cell, WriteCounter: self._write_counter, PutItem: self._put_item,
            TakeItem: self._take_item, WatchCell: self._watch_cell, JoinOwners: self._join_owners,
            LeaveOwners: self._leave_owners}

    # --- Machine ------------------------------------------------------------------------------------------------------

    def apply(self, command: bytes) -> bytes:
        try:
            message = decode(command, self._addresses)
        except WireError as error:
            return encode(CommandRefused(f"no command: {error}"))
        if isinstance(message, SessionCommand):
            return self._in_session(message)
        if isinstance(message, OpenSession):
            return encode(self._open(message))
        if isinstance(message, EndSession):
            return encode(self._end(message.session))
        return encode(CommandRefused("no command"))

    def read(self, query: bytes) -> bytes:
        try:
            message = decode(query, self._addresses)
        except WireError as error:
            return encode(CommandRefused(f"no query: {error}"))
        match message:
            case Renew():
                return encode(self._renewed(message))
            case ReadCell(name):
                return encode(CellValue(*self.cells.get(name, (0, None)), False))
            case ReadCounter(name):
                return encode(CounterValue(self.counters.get(name, 0), False))
            case ReadHolders(space, name):
                return encode(self._holders((space, name)))
            case ReadOwners(name):
                return encode(self.owned.table(name))
        return encode(CommandRefused("no query"))

    def take_notices(self) -> Sequence[tuple[Address, bytes]]:
        notices, self._notices = self._notices, []
        return notices

    def begin_supervisor(self, since_ns: int) -> LeaseKeeper[StoredSession]:
        return LeaseKeeper(self.sessions, since_ns)

    # --- sessions -----------------------------------------------------------------------------------------------------

    def _next(self) -> int:
        self.number += 1
        return self.number

    def _open(self, command: OpenSession) -> CoordinationMessage:
        if not command.ttl_ms:
            return CommandRefused("a session's time to live is at least 1 ms")
        self.number = max(self.number, command.birth)
        self.birth = self.birth or command.birth
        known = self.number
        session = self._next()
        self.sessions[session] = StoredSession(command.owner, command.ttl_ms, heard=known)
        return SessionOpened(session, known)

    def _end(self, number: int) -> CoordinationMessage:
        session = self.sessions.pop(number, None)
        if session is None:
            return Carried(False)
        for name in session.watches:
            self._unwatch(name, number)
        for wait, key in session.waits.items():
            self._leave_wait(key, (number, wait))
        self.owned.session_ended(number, self.birth)
        for fence, key in session.grants.items():
            self._watcher.ended(self.birth, key, fence, released=False)
            self._give_back(key, fence, back=True)
        return Carried(True)

    def _in_session(self, command: SessionCommand) -> bytes:
        session = self.sessions.get(command.session)
        if session is None:
            return _NO_SESSION
        if command.settled > session.settled:
            session.settled = command.settled
            for number in [number for number in session.results if number < command.settled]:
                del session.results[number]
        if command.heard > session.heard:
            session.heard = command.heard
            for place in [place for place in session.outcomes if place <= command.heard]:
                del session.outcomes[place]
        if command.number < session.settled:
            return _STALE
        known = session.results.get(command.number)
        if known is not None:
            return known
        result = session.results[command.number] = encode(self._commands[type(command)](command, session))
        return result

    def _renewed(self, query: Renew) -> CoordinationMessage:
        session = self.sessions.get(query.session)
        if session is None:
            return NoSession()
        return Renewed(self.number, tuple([(place, number, result) for place, (number, result)
                                           in session.outcomes.items() if place > query.since]))

    def _outcome(self, wait: Wait, granted: GrantResult, place: int) -> None:
        """A command that waited has its result."""
        number, command = wait
        del self.sessions[number].waits[command]
        self._tell(number, place, granted, command)

    def _tell(self, number: int, place: int, news: CoordinationMessage, command: int = 0) -> None:
        """An outcome for a session: of a command that waited, or of none."""
        session, result = self.sessions[number], encode(news)
        session.outcomes[place] = command, result
        self._notices.append((session.owner, encode(WaitEnded(number, place, command, result))))

    # --- waiting ------------------------------------------------------------------------------------------------------

    def _wait(self, command: SessionCommand, session: StoredSession, key: Key,
              waiting: dict[Wait, None]) -> CoordinationMessage:
        session.waits[command.number] = key
        self._watcher.waits(self.birth, key, (command.session, command.number))
        waiting[command.session, command.number] = None
        return Waits()

    def _withdraw(self, command: Withdraw, session: StoredSession) -> CoordinationMessage:
        """If the command that is withdrawn comes later, it finds this result of its own."""
        key = session.waits.pop(command.wait, None)
        if key is not None:
            self._leave_wait(key, (command.session, command.wait))
            session.results[command.wait] = encode(Withdrawn())
            return Withdrawn()
        for number, result in session.outcomes.values():
            if number == command.wait:
                return decode(result)
        if command.wait not in session.results and command.wait >= session.settled:
            session.results[command.wait] = encode(Withdrawn())
        known = session.results.get(command.wait)
        return Withdrawn() if known is None or known == _WAITING else decode(known)

    def _leave_wait(self, key: Key, wait: Wait) -> None:
        space, name = key
        self._watcher.left(self.birth, key, wait)
        if space == BARRIER:
            barrier = self.barriers[name]
            del barrier.arrived[wait]
            if not barrier.arrived:
                del self.barriers[name]
        elif space == QUEUE:
            del self.queues[name].waiting[wait]
            self._forget_queue(name)
        else:
            del self.permits[key].waiting[wait]
            self._forget_permits(key)

    # --- locks, semaphores, leaderships -------------------------------------------------------------------------------

    def _acquire(self, command: Acquire, session: StoredSession) -> CoordinationMessage:
        key = command.space, command.name
        if command.space not in (LOCK, SEMAPHORE, LEADER) or not command.permits or len(command.name) > MAX_NAME:
            return CommandRefused("no such lock, semaphore or leadership")
        permits = self.permits.setdefault(key, Permits(command.permits))
        if permits.most != command.permits:
            return CommandRefused(f"the {SPACES[command.space]} {command.name!r} is in use with {permits.most} "
                                  f"permits, not {command.permits}")
        if permits.waiting or len(permits.holders) >= permits.most:
            return self._wait(command, session, key, permits.waiting)
        return self._grant(key, permits, (command.session, command.number))

    def _grant(self, key: Key, permits: Permits, wait: Wait) -> GrantResult:
        fence = self._next()
        permits.holders[fence] = wait[0]
        self.sessions[wait[0]].grants[fence] = key
        granted = GrantResult(fence, b"", 0)
        self._watcher.granted(self.birth, key, granted, wait)
        return granted

    def _release(self, command: Release, session: StoredSession) -> CoordinationMessage:
        key = session.grants.pop(command.fence, None)
        if key is None:
            return Carried(False)
        self._watcher.ended(self.birth, key, command.fence, released=True)
        self._give_back(key, command.fence, back=command.back)
        return Carried(True)

    def _give_back(self, key: Key, fence: int, *, back: bool) -> None:
        """A grant is over: the first that waits gets it. back: an item of a queue has not been dealt with."""
        if key[0] == QUEUE:
            return self._end_lease(key[1], fence, back=back)
        if key[0] == OWNERS:
            return self.owned.given_back(key[1], fence, self.birth)
        permits = self.permits[key]
        del permits.holders[fence]
        if permits.waiting:
            wait = next(iter(permits.waiting))
            del permits.waiting[wait]
            granted = self._grant(key, permits, wait)
            self._outcome(wait, granted, granted.fence)
        return self._forget_permits(key)

    def _forget_permits(self, key: Key) -> None:
        permits = self.permits[key]
        if not permits.holders and not permits.waiting:
            del self.permits[key]

    def _holders(self, key: Key) -> Holders:
        permits = self.permits.get(key)
        if permits is None:
            return Holders((), 0)
        return Holders(tuple([(self.sessions[session].owner, fence) for fence, session in permits.holders.items()]),
                       len(permits.waiting))

    # --- barriers -----------------------------------------------------------------------------------------------------

    def _arrive(self, command: Arrive, session: StoredSession) -> CoordinationMessage:
        if not command.parties or len(command.name) > MAX_NAME:
            return CommandRefused("a barrier has at least one party")
        barrier = self.barriers.setdefault(command.name, StoredBarrier(command.parties))
        if barrier.parties != command.parties:
            return CommandRefused(f"the barrier {command.name!r} is in use with {barrier.parties} parties, not "
                           f"{command.parties}")
        key = BARRIER, command.name
        if len(barrier.arrived) + 1 < barrier.parties:
            return self._wait(command, session, key, barrier.arrived)
        del self.barriers[command.name]
        generation = self._next()
        for wait in (*barrier.arrived, (command.session, command.number)):
            self._watcher.granted(self.birth, key, GrantResult(generation, b"", 0), wait)
        for wait in barrier.arrived:
            self._outcome(wait, GrantResult(generation, b"", 0), self._next())
        return GrantResult(generation, b"", 0)

    # --- queues -------------------------------------------------------------------------------------------------------

    def _put_item(self, command: PutItem, session: StoredSession) -> CoordinationMessage:
        if len(command.name) > MAX_NAME:
            return CommandRefused("the name of a queue is too long")
        queue = self.queues.setdefault(command.name, StoredQueue())
        queue.items[self._next()] = command.value, 0
        self._serve(command.name, queue)
        return Carried(True)

    def _take_item(self, command: TakeItem, session: StoredSession) -> CoordinationMessage:
        if len(command.name) > MAX_NAME:
            return CommandRefused("the name of a queue is too long")
        queue = self.queues.setdefault(command.name, StoredQueue())
        if queue.waiting or not queue.items:
            return self._wait(command, session, (QUEUE, command.name), queue.waiting)
        return self._lease(command.name, queue, (command.session, command.number))

    def _lease(self, name: str, queue: StoredQueue, wait: Wait) -> GrantResult:
        number, (value, attempts) = queue.items.popitem(0)
        fence, key = self._next(), (QUEUE, name)
        queue.taken[fence] = number, value, attempts + 1, wait[0]
        self.sessions[wait[0]].grants[fence] = key
        granted = GrantResult(fence, value, attempts + 1)
        self._watcher.granted(self.birth, key, granted, wait)
        return granted

    def _end_lease(self, name: str, fence: int, *, back: bool) -> None:
        queue = self.queues[name]
        number, value, attempts, _ = queue.taken.pop(fence)
        if back:
            queue.items[number] = value, attempts
            self._serve(name, queue)
        self._forget_queue(name)

    def _serve(self, name: str, queue: StoredQueue) -> None:
        while queue.waiting and queue.items:
            wait = next(iter(queue.waiting))
            del queue.waiting[wait]
            granted = self._lease(name, queue, wait)
            self._outcome(wait, granted, granted.fence)

    def _forget_queue(self, name: str) -> None:
        queue = self.queues[name]
        if not queue.items and not queue.taken and not queue.waiting:
            del self.queues[name]

    # --- sets of partitions -------------------------------------------------------------------------------------------

    def _join_owners(self, command: JoinOwners, session: StoredSession) -> CoordinationMessage:
        return self.owned.join(command, self.birth)

    def _leave_owners(self, command: LeaveOwners, session: StoredSession) -> CoordinationMessage:
        return self.owned.leave(command, self.birth)

    # --- cells and counters -------------------------------------------------------------------------------------------

    def _write_cell(self, command: WriteCell, session: StoredSession) -> CoordinationMessage:
        if len(command.name) > MAX_NAME:
            return CommandRefused("the name of a cell is too long")
        version, value = self.cells.get(command.name, (0, None))
        if command.verb != SET and value != command.expected:
            return CellValue(version, value, False)
        self.cells[command.name] = version + 1, command.value
        for number in sorted(self.watchers.get(command.name, ())):
            self._notices.append((self.sessions[number].owner,
                                  encode(CellChanged(number, command.name, version + 1, command.value))))
        return CellValue(version + 1, command.value, True)

    def _watch_cell(self, command: WatchCell, session: StoredSession) -> CoordinationMessage:
        if command.on:
            session.watches[command.name] = None
            self.watchers.setdefault(command.name, {})[command.session] = None
        elif command.name in session.watches:
            del session.watches[command.name]
            self._unwatch(command.name, command.session)
        return CellValue(*self.cells.get(command.name, (0, None)), False)

    def _unwatch(self, name: str, session: int) -> None:
        watchers = self.watchers[name]
        del watchers[session]
        if not watchers:
            del self.watchers[name]

    def _write_counter(self, command: WriteCounter, session: StoredSession) -> CoordinationMessage:
        if len(command.name) > MAX_NAME:
            return CommandRefused("the name of a counter is too long")
        value = self.counters.get(command.name, 0)
        if command.expected is not None and value != command.expected:
            return CounterValue(value, False)
        new = value + command.value if command.adds else command.value
        if not -INT_LIMIT <= new < INT_LIMIT:
            return CommandRefused(f"the counter {command.name!r} is {value}: {new} is out of range")
        self.counters[command.name] = new
        return CounterValue(new, True)

    # --- the whole content --------------------------------------------------------------------------------------------

    def save(self) -> bytes:
        out = bytearray()
        U64.write(self.number, out)
        U64.write(self.birth, out)
        _SESSIONS.write(tuple([
            (number, s.owner, s.ttl_ms, s.settled, s.heard, s.results,
             tuple([(place, *outcome) for place, outcome in s.outcomes.items()]),
             tuple([(fence, *key) for fence, key in s.grants.items()]),
             tuple([(wait, *key) for wait, key in s.waits.items()]), tuple(s.watches))
            for number, s in self.sessions.items()]), out)
        _PERMITS.write(tuple([(*key, p.most, p.holders, tuple(p.waiting)) for key, p in self.permits.items()]), out)
        _BARRIERS.write(tuple([(name, b.parties, tuple(b.arrived)) for name, b in self.barriers.items()]), out)
        _QUEUES.write(tuple([
            (name, tuple([(number, *item) for number, item in q.items.items()]),
             tuple([(fence, *item) for fence, item in q.taken.items()]), tuple(q.waiting))
            for name, q in self.queues.items()]), out)
        _CELLS.write(tuple([(name, *cell) for name, cell in self.cells.items()]), out)
        _COUNTERS.write(tuple(self.counters.items()), out)
        self.owned.save(out)
        return bytes(out)

    def load(self, data: bytes) -> None:
        reader = Reader(data, self._addresses)
        self.number = U64.read(reader)
        self.birth = U64.read(reader)
        self.sessions.clear()
        for number, owner, ttl_ms, settled, heard, results, outcomes, grants, waits, watches in _SESSIONS.read(reader):
            self.sessions[number] = StoredSession(
                owner, ttl_ms, settled, heard, dict(results),
                {place: (wait, result) for place, wait, result in outcomes},
                {fence: (space, name) for fence, space, name in grants},
                {wait: (space, name) for wait, space, name in waits}, dict.fromkeys(watches))
        self.permits = {(space, name): Permits(most, dict(holders), dict.fromkeys(waiting))
                        for space, name, most, holders, waiting in _PERMITS.read(reader)}
        self.barriers = {name: StoredBarrier(parties, dict.fromkeys(arrived))
                         for name, parties, arrived in _BARRIERS.read(reader)}
        self.queues = {
            name: StoredQueue(SortedDict({number: (value, attempts) for number, value, attempts in items}),
                              {fence: tuple(item) for fence, *item in taken}, dict.fromkeys(waiting))
            for name, items, taken, waiting in _QUEUES.read(reader)}
        self.cells = {name: (version, value) for name, version, value in _CELLS.read(reader)}
        self.counters = dict(_COUNTERS.read(reader))
        self.owned.load(reader)
        self.watchers = {}
        for number, session in self.sessions.items():
            for name in session.watches:
                self.watchers.setdefault(name, {})[number] = None
        self._notices = []


_WAITERS = sequence(record(U64, U64))
_SESSIONS = sequence(record(
    U64, MEMBER, U32, U64, U64, map_of(U64, BYTES), sequence(record(U64, U64, BYTES)), sequence(record(U64, U8, TEXT)),
    sequence(record(U64, U8, TEXT)), sequence(TEXT)))
_PERMITS = sequence(record(U8, TEXT, U32, map_of(U64, U64), _WAITERS))
_BARRIERS = sequence(record(TEXT, U32, _WAITERS))
_QUEUES = sequence(record(TEXT, sequence(record(U64, BYTES, U32)), sequence(record(U64, U64, BYTES, U32, U64)),
                          _WAITERS))
_CELLS = sequence(record(TEXT, U64, optional(BYTES)))
_COUNTERS = sequence(record(TEXT, I64))
