"""SessionCore: this member's session at one partition of the store: what it holds and waits for. Pure; times in ns.

All times are those of one clock that counts also while the machine is suspended. A session is opened by the first
request, and renewed every third of its time to live. It is valid for `ttl` from when the last renewal that was
confirmed was *sent*. When that is over, or the store says that it has ended, all its grants are lost, for good; what
waits begins anew in another session, at the end of the queues.

A request is sent again under its number until there is an answer. A wait that is given up is withdrawn: only when the
store has confirmed that is it certain that no grant follows. What could not be withdrawn or released is tried again as
long as the session lives; a grant that comes later is released.
"""
from __future__ import annotations

import heapq
from collections.abc import Callable

import attrs

from jgroups_py.blocks.coordination.errors import (
    LockTimeoutError,
    MismatchError,
    UnavailableError,
    WaitTimeoutError,
)
from jgroups_py.blocks.coordination.grants import CLOSED, EXPIRED, RELEASED, HeldGrant, Lease
from jgroups_py.blocks.coordination.messages import (
    CommandRefused,
    CoordinationMessage,
    EndSession,
    GrantResult,
    NoSession,
    OpenSession,
    Release,
    Renew,
    Renewed,
    SessionCommand,
    SessionOpened,
    Stale,
    WaitEnded,
    Waits,
    Withdraw,
    Withdrawn,
    decode,
    encode,
)
from jgroups_py.blocks.coordination.owning import OwnedSet, SessionOwning
from jgroups_py.model.address import Address
from jgroups_py.model.counters import Counters, counter, declare, table
from jgroups_py.model.errors import NotConnectedError, WireError
from jgroups_py.model.units import NS_PER_MS, millis, seconds

RENEWALS = 3                               # of a session in its time to live
CALL_NS = seconds(5)                       # until a request that has no answer is sent again under its number
OPEN_AGAIN_NS = millis(100)                # until a session that could not be opened is tried again
WITHDRAW_NS = seconds(1)                   # how much longer than its timeout a wait may take to be withdrawn

Result = CoordinationMessage | HeldGrant
Head = tuple[int, int, int, int]
"""(session, number, settled, heard): the fields that all commands of a session begin with."""

Make = Callable[[Head], SessionCommand]


@attrs.define(eq=False)
class CoordinationRequest:
    """An operation of the application. waits: it may have to wait; grants: what it waits for is a grant. persists: it
    is tried until there is an answer. done: called inside a round, once, with the result or an error.

    over: it was called. abandoned: the result is not wanted; a grant is released.
    """

    make: Make
    done: Callable[[Result | None, Exception | None], object]
    deadline_ns: int | None
    waits: bool = False
    grants: bool = False
    persists: bool = False
    number: int = -1
    data: bytes = b""
    over: bool = False
    abandoned: bool = False
    withdrawing: bool = False

    def finish(self, result: Result | None, error: Exception | None = None) -> None:
        """Tell the application, unless that was done."""
        if not self.over:
            self.over = True
            self.done(result, error)


@attrs.define(eq=False)
class StoreCall:
    """A write, or a strong read, of the partition. answered: to be called with (result, error, now)."""

    strong: bool
    data: bytes
    timeout_ns: int
    answered: Callable[[CoordinationMessage | None, Exception | None, int], object]


class SessionCore:
    """See the module. calls: for the driver, which takes them away."""

    COUNTERS = declare(
        counter("sessions", "Sessions opened."),
        counter("sessions_lost", "Sessions that ended while they were wanted."),
        counter("renewals", "Renewals sent."),
        counter("waits_withdrawn", "Waits withdrawn: timed out, or cancelled."),
        counter("orphans_released", "Grants that came when they were not wanted any more, and were released."),
        counter("late_releases", "Releases of grants that were lost before: they had no effect."),
    )

    def __init__(self, owner: Address, ttl_ns: int, counters: Counters | None = None) -> None:
        self.ttl_ns = ttl_ns
        self.session: int | None = None
        self.lease = Lease(0)
        self.grants: dict[int, HeldGrant] = {}             # fence -> grant
        self.calls: list[StoreCall] = []
        self.closed = False
        self.counters = Counters(table(self.COUNTERS)) if counters is None else counters
        self.changed: Callable[[str, int, bytes | None], None] = lambda name, version, value: None
        self.owning = SessionOwning(self)                  # the sets of partitions that it takes part in
        self._owner = owner
        self._birth: int | None = None                     # of the store; None: not known yet
        self._opening = False
        self._open_ns: int | None = None                   # when a session is to be opened again
        self._queue: dict[CoordinationRequest, None] = {}  # waits for a session
        self._flying: dict[int, CoordinationRequest] = {}  # number -> request without an answer
        self._waiting: dict[int, CoordinationRequest] = {}
        self._unsettled: dict[int, None] = {}              # numbers in order
        self._numbers = 0
        self._heard = 0
        self._renew_ns = 0
        self._deadlines: list[tuple[int, int, CoordinationRequest]] = []
        self._order = 0

    @property
    def next_deadline_ns(self) -> int | None:
        """When `advance` is due."""
        while self._deadlines and self._deadlines[0][2].over:
            heapq.heappop(self._deadlines)
        found = [self._deadlines[0][0]] if self._deadlines else []
        if self._open_ns is not None:
            found.append(self._open_ns)
        if self.session is not None:
            found += [self._renew_ns, self.lease.until_ns]
        return min(found, default=None)

    # --- what goes in -------------------------------------------------------------------------------------------------

    def store_known(self, birth: int, now_ns: int) -> None:
        """The store is there. birth: its birth number, in microseconds."""
        self._birth = birth
        self._open(now_ns)

    def submit(self, request: CoordinationRequest, now_ns: int) -> None:
        """A request of the application."""
        if self.closed:
            return request.finish(None, NotConnectedError("this member is in no group"))
        if request.deadline_ns is not None:
            self._alarm(request, request.deadline_ns)
        if self.session is not None and not self.lease.holds(now_ns):
            self._lost(EXPIRED, now_ns)
        if self.session is None:
            self._queue[request] = None
            return self._open(now_ns)
        return self._send(request, now_ns)

    def cancel(self, request: CoordinationRequest, now_ns: int) -> None:
        """The application wants the result of a request no more: what is granted for it is released."""
        if request.over and not request.abandoned:
            return
        request.over = request.abandoned = True
        if request in self._queue:
            del self._queue[request]
        elif request.waits and not request.withdrawing:
            self._withdraw(request, now_ns)

    def release(
        self, grant: HeldGrant, back: bool, done: Callable[[Result | None, Exception | None], object], now_ns: int,
    ) -> None:
        """Give a grant back; done: as of a request, with None if it was lost before."""
        holds = grant.lease.holds(now_ns)
        grant.end(RELEASED if holds else EXPIRED)
        if self.grants.pop(grant.fence, None) is None or not holds:
            self.counters.add("late_releases")
            done(None, None)
            return
        fence = grant.fence
        self.submit(CoordinationRequest(
            lambda head: Release(*head, fence, back), done, None,
            persists=True), now_ns)

    def command(self, make: Make, done: Callable[[Result | None, Exception | None], object], now_ns: int) -> None:
        """A command that is sent until it is answered, in this session; `done` gets None if that is lost before."""
        self.submit(CoordinationRequest(make, done, None, persists=True), now_ns)

    def unwanted(self, grant: HeldGrant, now_ns: int) -> None:
        """Give back a grant that nobody waits for."""
        self.counters.add("orphans_released")
        self.release(grant, True, lambda *_: None, now_ns)

    def join(self, owned: OwnedSet, now_ns: int) -> None:
        """Take part in a set of partitions."""
        self.owning.join(owned, now_ns)
        self._open(now_ns)

    def notified(self, notice: CoordinationMessage, now_ns: int) -> None:
        """A notice of the store."""
        session = getattr(notice, "session", None)
        if session is None or session != self.session:
            return
        if isinstance(notice, WaitEnded):
            self._outcome(notice.place, notice.number, notice.result, now_ns)
        else:
            name, version, value = notice.name, notice.version, notice.value     # type: ignore[attr-defined]
            self.changed(name, version, value)

    def advance(self, now_ns: int) -> None:
        """Time has passed."""
        if self.session is not None and not self.lease.holds(now_ns):
            self._lost(EXPIRED, now_ns)
        while self._deadlines and (self._deadlines[0][0] <= now_ns or self._deadlines[0][2].over):
            request = heapq.heappop(self._deadlines)[2]
            if not request.over:
                self._timed_out(request, now_ns)
        if self._open_ns is not None and self._open_ns <= now_ns:
            self._open_ns = None
            self._open(now_ns)
        if self.session is not None and self._renew_ns <= now_ns:
            self._renew(now_ns)

    def close(self, now_ns: int) -> None:
        """This member takes part no more: all is lost, and the store is told if that is possible."""
        if self.closed:
            return
        self.closed = True
        if self.session is not None:
            self._end_session()
        error = NotConnectedError("this member has left its group, or closed the store")
        for request in [*self._queue, *self._flying.values(), *self._waiting.values()]:
            request.finish(None, error)
        self._queue, self._open_ns = {}, None
        self._drop_session(CLOSED)

    # --- the session --------------------------------------------------------------------------------------------------

    def _open(self, now_ns: int) -> None:
        wanted = bool(self._queue or self.owning.sets) and not self.closed
        if self._birth is None or self._opening or self._open_ns is not None or self.session is not None or not wanted:
            return
        self._opening = True
        command = OpenSession(self._owner, self.ttl_ns // NS_PER_MS, self._birth)
        self.calls.append(StoreCall(False, encode(command), self.ttl_ns,
                                    lambda result, error, at_ns: self._opened(result, now_ns, at_ns)))

    def _opened(self, result: CoordinationMessage | None, began_ns: int, now_ns: int) -> None:
        self._opening = False
        if self.closed:
            return
        lease = Lease(began_ns + self.ttl_ns)
        if not isinstance(result, SessionOpened) or not lease.holds(now_ns):
            self._open_ns = now_ns + OPEN_AGAIN_NS
            return
        self.counters.add("sessions")
        self.session, self.lease, self._heard = result.session, lease, result.known
        self._renew_ns = began_ns + self.ttl_ns // RENEWALS
        queue, self._queue = self._queue, {}
        for request in queue:
            self._send(request, now_ns)
        self.owning.opened(now_ns)

    def _renew(self, now_ns: int) -> None:
        session = self.session
        assert session is not None, "it is renewed while there is one"
        self._renew_ns = now_ns + self.ttl_ns // RENEWALS
        self.counters.add("renewals")
        self.calls.append(StoreCall(
            True, encode(Renew(session, self._heard)), self.ttl_ns,
            lambda result, error, at_ns: self._renewed(session, result, now_ns, at_ns)))

    def _renewed(self, session: int, result: CoordinationMessage | None, began_ns: int, now_ns: int) -> None:
        if session != self.session or result is None:
            return
        if isinstance(result, Renewed) and self.lease.extend(began_ns + self.ttl_ns, now_ns):
            for place, number, outcome in result.outcomes:
                self._outcome(place, number, outcome, now_ns)
            if session == self.session:                      # no outcome has shown that it is lost
                self._heard = max(self._heard, result.place)
                self.owning.heard(self._heard)
        elif isinstance(result, Renewed | NoSession):
            self._lost(EXPIRED, now_ns)

    def _end_session(self) -> None:
        """The store is told that the session is wanted no more; if that fails, it expires."""
        assert self.session is not None, "there is one"
        self.calls.append(StoreCall(False, encode(EndSession(self.session)), self.ttl_ns, lambda *_: None))

    def _lost(self, why: str, now_ns: int) -> None:
        """The session has ended: what waited begins anew, what is open stays open."""
        if self.session is None:
            return
        self.counters.add("sessions_lost")
        self._end_session()
        again: dict[CoordinationRequest, None] = {}
        for request in sorted([*self._flying.values(), *self._waiting.values()], key=lambda one: one.number):
            if request.persists:
                request.finish(None)                         # a release: the session has nothing any more
            elif not request.over and request.waits and not request.withdrawing:
                again[request] = None
            elif not request.over:
                request.finish(None, UnavailableError("the session ended before the answer came: it is not known "
                                                      "whether this was carried out"))
        self._queue = {**again, **self._queue}
        self._drop_session(why)
        self._open(now_ns)

    def _drop_session(self, why: str) -> None:
        self.session = None
        self.lease.end()
        grants, self.grants = self.grants, {}
        self._flying, self._waiting, self._unsettled = {}, {}, {}
        self.owning.dropped()
        for grant in grants.values():
            grant.end(why)

    # --- requests -----------------------------------------------------------------------------------------------------

    def _alarm(self, request: CoordinationRequest, at_ns: int) -> None:
        self._order += 1
        heapq.heappush(self._deadlines, (at_ns, self._order, request))

    def _send(self, request: CoordinationRequest, now_ns: int) -> None:
        """Send a request for the first time in this session."""
        assert self.session is not None, "a request is sent in a session"
        self._numbers += 1
        number = request.number = self._numbers
        settled = next(iter(self._unsettled), number)
        request.data = encode(request.make((self.session, number, settled, self._heard)))
        self._unsettled[number] = None
        self._flying[number] = request
        self._call(request, now_ns)

    def _call(self, request: CoordinationRequest, now_ns: int) -> None:
        session = self.session
        timeout_ns = CALL_NS
        if request.deadline_ns is not None and not request.waits:
            timeout_ns = max(1, min(CALL_NS, request.deadline_ns - now_ns))
        self.calls.append(StoreCall(False, request.data, timeout_ns,
                                    lambda result, error, at_ns: self._answered(session, request, result, at_ns)))

    def _settle(self, request: CoordinationRequest) -> None:
        """The result of a request is known, or it is not wanted, and it is not sent again."""
        self._flying.pop(request.number, None)
        self._waiting.pop(request.number, None)
        self._unsettled.pop(request.number, None)

    def _answered(
        self, session: int | None, request: CoordinationRequest, result: CoordinationMessage | None, now_ns: int,
    ) -> None:
        if session != self.session or self._flying.get(request.number) is not request:
            return
        if isinstance(result, NoSession):
            return self._lost(EXPIRED, now_ns)
        if result is None or isinstance(result, Stale):
            if request.persists or not request.over:
                return self._call(request, now_ns)
            if not request.waits:                            # of one that waits, Withdraw has to find out
                self._settle(request)
            return None
        if isinstance(result, Waits):
            del self._flying[request.number]
            self._unsettled.pop(request.number, None)
            self._waiting[request.number] = request
            return None
        return self._concluded(request, result, now_ns)

    def _outcome(self, place: int, number: int, data: bytes, now_ns: int) -> None:
        """The outcome of a wait, or of none (0); it may come before the answer that there is one, and twice."""
        request = self._waiting.get(number) or self._flying.get(number)
        if request is None and number:
            return
        try:
            result = decode(data)
        except WireError:
            return
        if request is not None:
            self._concluded(request, result, now_ns)
        elif self.session is not None and self.lease.holds(now_ns):
            self.owning.news(place, self._heard, result, now_ns)

    def _concluded(self, request: CoordinationRequest, result: CoordinationMessage, now_ns: int) -> None:
        """The last result of a request."""
        self._settle(request)
        if isinstance(result, CommandRefused):
            request.finish(None, MismatchError(result.why))
        elif isinstance(result, Withdrawn) and request.waits:
            request.finish(None, LockTimeoutError("not in time") if request.grants else WaitTimeoutError("not in time"))
        elif request.grants and isinstance(result, GrantResult):
            grant = self.grants[result.fence] = HeldGrant(result.fence, self.lease, result.value, result.attempt)
            if request.over:
                self.unwanted(grant, now_ns)
            elif self.lease.holds(now_ns):
                request.finish(grant)
            else:
                self._flying[request.number] = request       # it is lost before anybody had it: begin anew
                self._lost(EXPIRED, now_ns)
        else:
            request.finish(result)

    # --- giving up ----------------------------------------------------------------------------------------------------

    def _timed_out(self, request: CoordinationRequest, now_ns: int) -> None:
        if request in self._queue:
            del self._queue[request]
            if request.waits:
                request.finish(None, LockTimeoutError("not in time: the store did not open a session")
                               if request.grants else WaitTimeoutError("not in time"))
            else:
                request.finish(None, UnavailableError("the store did not open a session in time"))
        elif request.waits and not request.withdrawing:
            self._withdraw(request, now_ns)
            self._alarm(request, now_ns + WITHDRAW_NS)
        else:
            request.abandoned = True
            request.finish(None, UnavailableError("the store did not answer in time"))
            if not request.waits:
                self._settle(request)

    def _withdraw(self, request: CoordinationRequest, now_ns: int) -> None:
        """End a wait: the store says whether it was granted before."""
        request.withdrawing = True
        self.counters.add("waits_withdrawn")
        if self._waiting.get(request.number) is not request and self._flying.get(request.number) is not request:
            return
        wait = request.number

        def withdrawn(result: Result | None, error: Exception | None) -> None:
            known = self._waiting.get(wait) is request or self._flying.get(wait) is request
            if known and isinstance(result, CoordinationMessage):
                self._concluded(request, result, now_ns)
        self.submit(CoordinationRequest(
            lambda head: Withdraw(*head, wait), withdrawn, None,
            persists=True), now_ns)
