"""The requests of one service that wait for answers: their destinations, the answers so far, and when each is done.

Pure bookkeeping: no threads, sockets or clocks. Any thread may register a request (a lane numbers it while it is being
queued). All events that end a request are passed to the methods of Calls inside rounds of the loop, hence by one thread
at a time; requests that are done collect in `finished`, for the waiting threads. Numbers are consecutive per
destination, so that requests to one member form batches, and so do their answers.
"""
from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs

from jgroups_py.model.address import Address, ProxyUUID
from jgroups_py.model.batch import Header
from jgroups_py.model.counters import counter, declare, drop, figure, table
from jgroups_py.model.errors import MemberLeftError, RemoteError, RequestTimeoutError
from jgroups_py.system.drops import LoggedCounters
from jgroups_py.wire.block_headers import Ask

BLOCK = 4096                                # numbers that a lane reserves at a time
NEVER_NS = 1 << 62


class Mode(enum.StrEnum):
    """How many answers a request to several members waits for; the strings are accepted wherever a Mode is.

    MAJORITY: more than half of the destinations.
    """

    NONE = "none"
    FIRST = "first"
    MAJORITY = "majority"
    ALL = "all"


@attrs.frozen
class Answers:
    """The outcome of a request to several members; every destination is in exactly one of the four collections.

    values: member -> its answer, in order of arrival. errors: member -> how its handler failed. left: members that left
    the group or could not be reached. missing: members that had not answered when the request was done. complete:
    whether the mode was satisfied (ALL: none failed, left or is missing).
    """

    values: dict[Address, bytes]
    errors: dict[Address, RemoteError]
    left: tuple[Address, ...]
    missing: tuple[Address, ...]
    complete: bool

    @property
    def first(self) -> bytes:
        """The first answer.

        Raises:
            LookupError: there is none.
        """
        for value in self.values.values():
            return value
        raise LookupError("no member answered")

    def __len__(self) -> int:
        return len(self.values)


class Call:
    """A waiting request. outcome: its answer or an exception, once it is done; waiter: of the thread or coroutine."""

    __slots__ = ("deadline_ns", "numbers", "outcome", "waiter")

    def __init__(self, deadline_ns: int, waiter: Any) -> None:
        self.deadline_ns = deadline_ns
        self.waiter = waiter
        self.numbers: tuple[int, ...] = ()
        self.outcome: Any = None

    def late(self) -> Any:
        """The outcome at the deadline."""
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

    waiting: members that have not answered yet. settled: whether the destinations are known; a multicast is answered by
    the members of the view in which it is delivered, so they are known when this member delivers its own copy.
    """

    __slots__ = ("errors", "left", "mode", "over", "settled", "target_count", "values", "waiting")

    def __init__(self, targets: Iterable[Address], mode: Mode, deadline_ns: int, waiter: Any, settled: bool) -> None:
        super().__init__(deadline_ns, waiter)
        self.waiting: dict[Address, None] = dict.fromkeys(targets)
        self.target_count = len(self.waiting)
        self.mode = mode
        self.settled = settled
        self.over = False
        self.values: dict[Address, bytes] = {}
        self.errors: dict[Address, RemoteError] = {}
        self.left: dict[Address, None] = {}

    def settle(self, members: Iterable[Address]) -> None:
        """Fix the destinations: exactly `members` delivered the request."""
        self.settled = True
        targets = dict.fromkeys(members)
        self.target_count = len(targets)
        for member in [member for member in self.waiting if member not in targets]:
            self.lose(member)
        self.waiting = {member: None for member in targets if member not in self.values and member not in self.errors}

    def lose(self, member: Address) -> bool:
        """Move `member`, which left, from waiting to left. Returns whether it was waiting."""
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
        return self.settled and len(self.values) >= self._required

    @property
    def hopeless(self) -> bool:
        """Whether the mode cannot be satisfied any more, so that waiting is useless."""
        if self.mode is Mode.ALL or not self.settled:
            return self.settled and not self.waiting
        return len(self.values) + len(self.waiting) < self._required

    @property
    def _required(self) -> int:
        if self.mode is Mode.ALL:
            return self.target_count
        return self.target_count // 2 + 1 if self.mode is Mode.MAJORITY else 1

    def late(self) -> Answers:
        """See Call."""
        return self.answers()

    def answers(self) -> Answers:
        """The answers so far."""
        complete = self.reached and not (self.mode is Mode.ALL and self.left)
        return Answers(self.values, self.errors, tuple(self.left), tuple(self.waiting), complete)


class Lane:
    """Requests to one destination (None: all members), numbered as they are queued (see send_queue.Stream).

    gone: the destination left the group, so a request that is registered now would never be answered.
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
        """The headers of a batch that begins with request `first`."""
        return (Ask(self._calls.service, first),)


class Calls:
    """All waiting requests of one service of a channel.

    draw: returns the first of so many numbers that no request of this channel had before, so that a late answer is
    never matched to another request.
    """

    COUNTERS = declare(
        counter("requests_timed_out", "Requests that were not answered in time."),
        drop("answers_too_late", "Answers to requests that are done."),
        figure("waiting", "Requests that wait for answers now."),
    )

    def __init__(self, service: int, draw: Callable[[int], int]) -> None:
        self.service = service
        self.draw = draw
        self.pending: dict[int, Call] = {}
        self.finished: list[Call] = []
        self.counters = LoggedCounters(table(self.COUNTERS))
        self.members: dict[Address, None] = {}
        self.all_members = Lane(self, None)
        self._lanes: dict[Address, Lane] = {}

    def lane(self, dest: Address) -> Lane:
        """The lane to `dest`; if `dest` is not in the group, a lane with `gone` set."""
        found = self._lanes.get(dest)
        if found is None:
            found = Lane(self, dest)
            if dest in self.members or isinstance(dest, ProxyUUID):
                found = self._lanes.setdefault(dest, found)
            else:
                found.gone = True
        return found

    # --- events that end requests -------------------------------------------------------------------------------------

    def answered(self, src: Address, first: int, payloads: Sequence[bytes]) -> None:
        """`src` answered requests `first`, `first`+1, ..."""
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
            self.counters.drop("answers_too_late", f"of {src}: the request is done", late)

    def failed(self, src: Address, first: int, payloads: Sequence[bytes]) -> None:
        """`src` failed to handle requests `first`, `first`+1, ...; payloads are errors (see serving.error_bytes)."""
        for number, payload in enumerate(payloads, first):
            call = self.pending.get(number)
            kind, _, text = payload.decode("utf-8", "replace").partition("\n")
            error = RemoteError(src, kind, text)
            if isinstance(call, One) and call.dest == src:
                self._finish(call, error)
            elif not isinstance(call, Many) or not self._one_of(call, src, call.errors, error):
                self.counters.drop("answers_too_late", f"of {src}: the request is done")

    def _one_of(self, call: Many, src: Address, kept: dict[Address, Any], value: object) -> bool:
        """Record the answer of one of several members; False if it is no destination, or has answered before."""
        if src not in call.waiting and (call.settled or src in call.values or src in call.errors):
            return False
        call.waiting.pop(src, None)
        kept[src] = value
        self._review(call)
        return True

    def own_delivered(self, first: int, count: int, targets: Iterable[Address]) -> None:
        """This member's own multicast requests `first`, ... were delivered in the current view, so to `targets`."""
        targets = list(targets)
        for number in range(first, first + count):
            call = self.pending.get(number)
            if isinstance(call, Many) and not call.settled:
                call.settle(targets)
                self._review(call)

    def view_installed(self, members: Iterable[Address]) -> None:
        """A view with these members was installed: requests to others fail."""
        self.members = dict.fromkeys(members)
        for dest, lane in list(self._lanes.items()):
            if dest not in self.members and not isinstance(dest, ProxyUUID):
                self._close(dest, lane)
        self._lose(lambda member: member not in self.members and not isinstance(member, ProxyUUID))

    def sites_changed(self, everywhere: Iterable[Address]) -> None:
        """The members of all sites are now these: requests to others fail."""
        known = dict.fromkeys(everywhere)
        for dest, lane in list(self._lanes.items()):
            if dest not in known and isinstance(dest, ProxyUUID):
                self._close(dest, lane)
        self._lose(lambda member: isinstance(member, ProxyUUID) and member not in known)

    def unreachable(self, dest: Address) -> None:
        """Whether a message to `dest` was delivered is unknown: requests to it fail."""
        self._lose(lambda member: member == dest)

    def expire(self, now_ns: int) -> int:
        """End the requests whose deadline has passed; returns the next deadline."""
        soonest = NEVER_NS
        for call in list(self.pending.values()):
            if call.deadline_ns > now_ns:
                soonest = min(soonest, call.deadline_ns)
            elif call.outcome is None:
                self.counters.add("requests_timed_out")
                self._finish(call, call.late())
        return soonest

    def end(self, error: Callable[[], Exception]) -> None:
        """The connection ended: every request fails, each with its own instance of the error."""
        for dest, lane in list(self._lanes.items()):
            self._close(dest, lane)
        self.members = {}
        for call in list(self.pending.values()):
            if call.outcome is None:
                self._finish(call, error())

    def forget(self, call: Call) -> None:
        """Drop a request that no thread waits for any more. From any thread."""
        for number in call.numbers:
            self.pending.pop(number, None)

    def check(self, call: Call) -> None:
        """End a request that was sent on a lane whose destination left meanwhile. Inside a round."""
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
        assert call.outcome is None, "a request ends once"
        call.outcome = outcome
        if isinstance(call, Many):
            call.over = True
        self.forget(call)
        self.finished.append(call)
