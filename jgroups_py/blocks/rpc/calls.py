"""The requests of one service that wait for answers: who was asked, who answered, when a request is over.

Pure bookkeeping: no threads, sockets or clocks. Any thread may register a request (a lane numbers it while it is being
queued); everything that ends one is told inside rounds of the loop, hence by one thread at a time, by the methods of
Calls, and the requests that are over collect in `finished` for whoever waits. Numbers are consecutive per destination,
so that requests to one member form runs, and so do the answers to them.
"""
from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs

from jgroups_py.address import Address, ProxyUUID
from jgroups_py.batch import Header
from jgroups_py.blockheaders import Ask
from jgroups_py.counters import Counters
from jgroups_py.errors import MemberLeftError, RemoteError, RequestTimeoutError

BLOCK = 4096                                # numbers that a lane takes at once
NEVER_NS = 1 << 62


class Mode(enum.StrEnum):
    """How many answers a request to several members waits for; the words will do wherever a Mode is wanted.

    MAJORITY: of those that were asked, more than half.
    """

    NONE = "none"
    FIRST = "first"
    MAJORITY = "majority"
    ALL = "all"


@attrs.frozen
class Answers:
    """What came of a request to several members; every one of them is in exactly one of these.

    values: member -> its answer, in order of arrival. errors: member -> how its handler failed. left: who left the
    group or could not be reached. missing: who had not answered when the request was over. complete: whether the mode
    was satisfied (ALL: nobody failed, left or is missing).
    """

    values: dict[Address, bytes]
    errors: dict[Address, RemoteError]
    left: tuple[Address, ...]
    missing: tuple[Address, ...]
    complete: bool

    @property
    def first(self) -> bytes:
        """The answer that came first.

        Raises:
            LookupError: there is none.
        """
        for value in self.values.values():
            return value
        raise LookupError("no member answered")

    def __len__(self) -> int:
        return len(self.values)


class Call:
    """A request that waits. outcome: set when it is over, the answer or an exception; waiter: whom that concerns."""

    __slots__ = ("deadline_ns", "numbers", "outcome", "waiter")

    def __init__(self, deadline_ns: int, waiter: Any) -> None:
        self.deadline_ns = deadline_ns
        self.waiter = waiter
        self.numbers: tuple[int, ...] = ()
        self.outcome: Any = None

    def late(self) -> Any:
        """The outcome when the time is over."""
        raise NotImplementedError


class One(Call):
    """A request to one member."""

    __slots__ = ("dest",)

    def __init__(self, dest: Address, deadline_ns: int, waiter: Any) -> None:
        self.dest = dest
        self.deadline_ns = deadline_ns
        self.waiter = waiter
        self.outcome = None

    def late(self) -> RequestTimeoutError:
        """See Call."""
        return RequestTimeoutError(f"no answer from {self.dest} in time")


class Many(Call):
    """A request to several members.

    waiting: those who have not answered yet. settled: whether it is known who was asked; a multicast is answered by the
    members of the view in which it is delivered, so that is known when our own copy comes back.
    """

    __slots__ = ("asked", "errors", "left", "mode", "over", "settled", "values", "waiting")

    def __init__(self, targets: Iterable[Address], mode: Mode, deadline_ns: int, waiter: Any, settled: bool) -> None:
        super().__init__(deadline_ns, waiter)
        self.waiting: dict[Address, None] = dict.fromkeys(targets)
        self.asked = len(self.waiting)
        self.mode = mode
        self.settled = settled
        self.over = False
        self.values: dict[Address, bytes] = {}
        self.errors: dict[Address, RemoteError] = {}
        self.left: dict[Address, None] = {}

    def settle(self, members: Iterable[Address]) -> None:
        """`members` got the request, and nobody else."""
        self.settled = True
        got = dict.fromkeys(members)
        self.asked = len(got)
        for member in [member for member in self.waiting if member not in got]:
            self.lose(member)
        self.waiting = {member: None for member in got if member not in self.values and member not in self.errors}

    def lose(self, member: Address) -> bool:
        """`member` is gone; whether we waited for it."""
        if member not in self.waiting:
            return False
        del self.waiting[member]
        self.left[member] = None
        return True

    @property
    def reached(self) -> bool:
        """Whether the mode is satisfied."""
        if self.mode is Mode.FIRST:
            return bool(self.values)
        return self.settled and len(self.values) >= self._wanted

    @property
    def hopeless(self) -> bool:
        """Whether too many failed for the mode to be satisfied, so that nothing is left to wait for."""
        if self.mode is Mode.ALL or not self.settled:
            return self.settled and not self.waiting
        return len(self.values) + len(self.waiting) < self._wanted

    @property
    def _wanted(self) -> int:
        if self.mode is Mode.ALL:
            return self.asked
        return self.asked // 2 + 1 if self.mode is Mode.MAJORITY else 1

    def late(self) -> Answers:
        """See Call."""
        return self.answers()

    def answers(self) -> Answers:
        """What there is now."""
        complete = self.reached and not (self.mode is Mode.ALL and self.left)
        return Answers(self.values, self.errors, tuple(self.left), tuple(self.waiting), complete)


class Lane:
    """Requests to one destination (None: all members), numbered as they are queued. See sends.Stream.

    gone: the destination left the group; nothing that is registered now would ever be answered.
    """

    __slots__ = ("_calls", "_next", "_stop", "dest", "gone")

    def __init__(self, calls: Calls, dest: Address | None) -> None:
        self._calls = calls
        self._next = self._stop = 0
        self.dest = dest
        self.gone = False

    def number(self, item: Sequence[Call], count: int) -> int:
        """Register the calls under the next numbers."""
        first = self._next
        if first + count > self._stop:
            first = self._calls.draw(max(BLOCK, count))
            self._stop = first + max(BLOCK, count)
        self._next = first + count
        pending = self._calls.pending
        for number, call in enumerate(item, first):
            call.numbers = (number,) if call.__class__ is One else (*call.numbers, number)
            pending[number] = call
        return first

    def headers(self, first: int) -> tuple[Header, ...]:
        """Of a run that begins with request `first`."""
        return (Ask(self._calls.service, first),)


class Calls:
    """All waiting requests of one service of a channel.

    draw: gives the first of so many numbers that nobody on this channel was given before; so an answer that comes late
    is never taken for another's.
    """

    def __init__(self, service: int, draw: Callable[[int], int]) -> None:
        self.service = service
        self.draw = draw
        self.pending: dict[int, Call] = {}
        self.finished: list[Call] = []
        self.counters = Counters()
        self.members: dict[Address, None] = {}
        self.everybody = Lane(self, None)
        self._lanes: dict[Address, Lane] = {}

    def lane(self, dest: Address) -> Lane:
        """The lane to `dest`; a lane that is gone if it is not in the group."""
        found = self._lanes.get(dest)
        if found is None:
            found = Lane(self, dest)
            if dest in self.members or isinstance(dest, ProxyUUID):
                found = self._lanes.setdefault(dest, found)
            else:
                found.gone = True
        return found

    # --- what ends a request ----------------------------------------------------------------------------------------

    def answered(self, src: Address, first: int, payloads: Sequence[bytes]) -> None:
        """`src` answers requests `first`, `first`+1, ..."""
        pending, finished = self.pending, self.finished
        late = 0
        for number, payload in enumerate(payloads, first):
            call = pending.get(number)
            if call.__class__ is One and (call.dest is src or call.dest == src):
                del pending[number]
                call.outcome = payload
                finished.append(call)
            elif not isinstance(call, Many) or not self._one_of(call, src, call.values, payload):
                late += 1
        if late:
            self.counters.add("answers_too_late", late)

    def failed(self, src: Address, first: int, payloads: Sequence[bytes]) -> None:
        """`src` failed to handle requests `first`, `first`+1, ...; each payload says how."""
        for number, payload in enumerate(payloads, first):
            call = self.pending.get(number)
            kind, _, text = payload.decode("utf-8", "replace").partition("\n")
            error = RemoteError(src, kind, text)
            if isinstance(call, One) and call.dest == src:
                self._finish(call, error)
            elif not isinstance(call, Many) or not self._one_of(call, src, call.errors, error):
                self.counters.add("answers_too_late")

    def _one_of(self, call: Many, src: Address, kept: dict[Address, Any], value: object) -> bool:
        """One of several members answered; whether it was asked and had not answered before."""
        if src not in call.waiting and (call.settled or src in call.values or src in call.errors):
            return False
        call.waiting.pop(src, None)
        kept[src] = value
        self._review(call)
        return True

    def came_back(self, first: int, count: int, asked: Iterable[Address]) -> None:
        """Our multicast requests `first`, ... were delivered in this view, so to these members."""
        asked = list(asked)
        for number in range(first, first + count):
            call = self.pending.get(number)
            if isinstance(call, Many) and not call.settled:
                call.settle(asked)
                self._review(call)

    def view_installed(self, members: Iterable[Address]) -> None:
        """These are the members of the group now."""
        self.members = dict.fromkeys(members)
        for dest, lane in list(self._lanes.items()):
            if dest not in self.members and not isinstance(dest, ProxyUUID):
                self._close(dest, lane)
        self._lose(lambda member: member not in self.members and not isinstance(member, ProxyUUID))

    def sites_changed(self, everywhere: Iterable[Address]) -> None:
        """These are the members of all sites now."""
        known = dict.fromkeys(everywhere)
        for dest, lane in list(self._lanes.items()):
            if dest not in known and isinstance(dest, ProxyUUID):
                self._close(dest, lane)
        self._lose(lambda member: isinstance(member, ProxyUUID) and member not in known)

    def unreachable(self, dest: Address) -> None:
        """A message to `dest` is not known to have arrived."""
        self._lose(lambda member: member == dest)

    def expire(self, now_ns: int) -> int:
        """The requests whose time is over are over; the next deadline."""
        soonest = NEVER_NS
        for call in list(self.pending.values()):
            if call.deadline_ns > now_ns:
                soonest = min(soonest, call.deadline_ns)
            elif call.outcome is None:
                self.counters.add("requests_timed_out")
                self._finish(call, call.late())
        return soonest

    def end(self, error: Callable[[], Exception]) -> None:
        """The connection is over: every request fails with an `error` of its own."""
        for dest, lane in list(self._lanes.items()):
            self._close(dest, lane)
        self.members = {}
        for call in list(self.pending.values()):
            if call.outcome is None:
                self._finish(call, error())

    def forget(self, call: Call) -> None:
        """Nobody waits for it any more. From any thread."""
        for number in call.numbers:
            self.pending.pop(number, None)

    def check(self, call: Call) -> None:
        """Inside a round, after a request was sent to a lane that had gone meanwhile: it will not be answered."""
        if call.outcome is None:
            self._lose_of(call, lambda member: member not in self.members and member not in self._lanes)

    # --- inside -----------------------------------------------------------------------------------------------------

    def _close(self, dest: Address, lane: Lane) -> None:
        lane.gone = True
        del self._lanes[dest]

    def _lose(self, gone: Callable[[Address], bool]) -> None:
        for call in list(self.pending.values()):
            if call.outcome is None:
                self._lose_of(call, gone)

    def _lose_of(self, call: Call, gone: Callable[[Address], bool]) -> None:
        if isinstance(call, One):
            if gone(call.dest):
                self._finish(call, MemberLeftError(call.dest))
        elif isinstance(call, Many):
            for member in [member for member in call.waiting if gone(member)]:
                call.lose(member)
            self._review(call)

    def _review(self, call: Many) -> None:
        if call.outcome is None and (call.reached or call.hopeless):
            self._finish(call, call.answers())

    def _finish(self, call: Call, outcome: object) -> None:
        assert call.outcome is None, "a request is over once"
        call.outcome = outcome
        if isinstance(call, Many):
            call.over = True
        self.forget(call)
        self.finished.append(call)
